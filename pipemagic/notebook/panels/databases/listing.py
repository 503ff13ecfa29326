"""The list of databases, by group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pipemagic.notebook.panels.databases import entry, sizes
from pipemagic.notebook.panels.ground.parts import empty, field, problem, row
from pipemagic.notebook.panels.ground.tree import Node, h

if TYPE_CHECKING:
    from pipemagic.management_api.models import DatabaseInfo
    from pipemagic.notebook.panels.databases.model import DatabasesModel
    from pipemagic.notebook.panels.databases.sizes import SizesModel

SHOWN = 100
"""How many databases are drawn at once; the filter finds the others."""

FILTERED_FROM = 8
"""A shorter list needs no filter."""

NO_GROUP = "in a group that the service does not tell"


def listed(model: DatabasesModel) -> Node:
    """Draw the list, and the filter above a long one."""
    has, wanted = model.holdings, model.filter.lower()
    found = [one for one in has.databases if wanted in one.name.lower() or wanted in one.group.lower()]
    return h(
        "div",
        _filter(model, len(found)),
        _table(model, _shown(model, found)) if found else _nothing(model),
        _left_out(len(found) - SHOWN) if len(found) > SHOWN else None,
        None if has.complete else empty("This service has no list of databases; these are the ones made here."),
        _about_sizes(model.sizes),
        key="list",
    )  # fmt: skip


def _shown(model: DatabasesModel, found: Sequence[DatabaseInfo]) -> Sequence[DatabaseInfo]:
    """Give those that are drawn, in their order; of too many none that is connected is left out."""
    if len(found) <= SHOWN:
        return found
    shown = {one.name for one in sorted(found, key=lambda one: not model.connections(one.name))[:SHOWN]}
    return [one for one in found if one.name in shown]


def _filter(model: DatabasesModel, found: int) -> Node | None:
    count = len(model.holdings.databases)
    if count < FILTERED_FROM:
        return None
    note = f"{found} of {count}" if model.filter else f"{count} databases"
    given = field("Filter by name or group", "filter", note=note, on={"input": ["filter"]})
    return h("div", given, class_="pm-row", key="filter", data_fields="")


def _nothing(model: DatabasesModel) -> Node:
    return empty("No name or group holds that." if model.filter else "No databases yet.")


def _left_out(count: int) -> Node:
    return empty("1 more is not shown: the filter finds it." if count == 1 else
                 f"{count} more are not shown: the filter finds them.")  # fmt: skip


def _about_sizes(known: SizesModel) -> Node | None:
    if known.error:
        return h("div", empty("Sizes are not known:"), problem(known), key="no sizes")
    return None if known.told else empty("This service does not tell how large databases are.")


def _table(model: DatabasesModel, found: Iterable[DatabaseInfo]) -> Node:
    groups: dict[str, list[DatabaseInfo]] = {one.name: [] for one in model.holdings.groups}
    for one in found:
        groups.setdefault(one.group, []).append(one)
    extra = [h("th", words, scope="col", class_=f"pm-extra {kind}") for words, kind in
             (("Size", "pm-number"), ("Created", ""))]  # fmt: skip
    head = h("tr", h("th", "Name and URL", scope="col"), extra, h("th", "Connection", scope="col"))
    bodies = [_group(model, name, inside) for name, inside in groups.items() if inside]
    return h(
        "div", h("table", h("thead", head), bodies, aria_label="Databases", class_="pm-databases"),
        class_="pm-scroll", tabindex=0,
    )  # fmt: skip


def _group(model: DatabasesModel, name: str, databases: Iterable[DatabaseInfo]) -> Node:
    words = f"Group {name}" if name else NO_GROUP.capitalize()
    heading = h("tr", h("th", words, colspan=4, scope="rowgroup"), class_="pm-group", key="heading")
    return h("tbody", heading, [_row(model, one) for one in databases], key=f"group {name}")


def _row(model: DatabasesModel, one: DatabaseInfo) -> Node:
    size, opened = sizes.words(model.sizes.sizes.get(one.name)), one.name == model.chosen
    details = h(
        "button", "Details", type="button", class_="pm-plain", aria_label=f"Details of {one.name}",
        aria_expanded=str(opened).lower(), on={"click": ["details", one.name]}, key=f"details {one.name}",
    )  # fmt: skip
    return row(
        one.name,
        h("td", h("div", one.name, class_="pm-name"), entry.url(one)),
        h("td", size, class_="pm-number pm-extra"),
        h("td", entry.date(one.created), class_="pm-nowrap pm-extra"),
        h("td", h("div", entry.connection(model, one.name), details, class_="pm-acts")),
        current=entry.standing(model, one.name).startswith("current"),
    )
