"""The form that creates a database, and what it made last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipemagic.client.names import longest
from pipemagic.notebook.panels.databases import entry
from pipemagic.notebook.panels.databases.model import FIRST_GROUP, NOW_IN_USE
from pipemagic.notebook.panels.ground.parts import button, choice, field, submit
from pipemagic.notebook.panels.ground.tree import Node, h

if TYPE_CHECKING:
    from pipemagic.notebook.panels.databases.model import DatabasesModel


def form(model: DatabasesModel) -> Node:
    """Draw the form; without a group it is one for a first group."""
    has = model.holdings
    if has.groups or not has.complete:
        return _form(model)
    places = [(one.code, f"{one.code} ({one.name})") for one in has.locations]
    return h(
        "form",
        h("p", "There is no group yet. A database belongs to a group, which says at which locations it is."),
        h("div",
          choice("Location", "location", places),
          submit(f"Create group {FIRST_GROUP}", disabled=bool(model.busy)), class_="pm-row"),
        key="first group", on={"submit": ["create-group"]},
    )  # fmt: skip


def _form(model: DatabasesModel) -> Node:
    has = model.holdings
    limit = max(0, longest("database", has.organization))
    note = f"Lower-case letters, digits and hyphens, at most {limit}: -{has.organization} comes after it."
    name = field("Database name", "name", error=model.wrong, note=note, on={"input": ["typing"]})
    if has.groups:
        group = choice("Group", "group", [(one.name, one.name) for one in has.groups])
    else:
        group = field("Group", "group", note="This service lists no groups: type the name of one.")
    return h(
        "form",
        h("div", name, group, submit("Create database", disabled=bool(model.busy)), class_="pm-row pm-create"),
        on={"submit": ["create"]}, key=f"create {model.made}",
    )  # fmt: skip


def created(model: DatabasesModel) -> Node | None:
    """Show what was created last: where it is, and that the next thing to do is to connect."""
    made = model.created
    if made is None:
        return None
    if model.is_gone(made.name):
        now: Node = h("p", f"{made.name} is gone: it was deleted outside of this panel.")
    elif model.holdings.current in {one.name for one in model.connections(made.name)}:
        now = h("p", f"{made.name} is the current connection: {NOW_IN_USE}")
    else:
        now = button(
            "Connect", ("connect", made.name), kind="main", label=f"Connect to the new database {made.name}",
            disabled=bool(model.busy), focus=True,
        )  # fmt: skip
    return h(
        "div", h("p", h("strong", made.name)),
        entry.url(made), now, button("Done", ("seen",), kind="plain"), class_="pm-made", key=f"made {model.made}",
        live=True,
    )  # fmt: skip
