"""The box of one database: what is known of it, its tables and tokens, and how it is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipemagic.notebook.panels.databases import entry, sizes
from pipemagic.notebook.panels.ground.parts import button, confirm, state
from pipemagic.notebook.panels.ground.tabs import addressed
from pipemagic.notebook.panels.ground.tree import Child, Node, h

if TYPE_CHECKING:
    from pipemagic.management_api.models import DatabaseInfo
    from pipemagic.notebook.panels.databases.model import DatabasesModel
    from pipemagic.notebook.panels.ground.widget import View

HERE = ("details", "deletion")
"""The places of work whose state stands in the box."""


def details(model: DatabasesModel, inner: Mapping[str, View]) -> Node | None:
    """Draw the box of the database that is chosen; ``inner`` are the views of its tables and tokens."""
    name = model.chosen
    one = next((one for one in model.holdings.databases if one.name == name), None)
    if one is not None:
        return _box(name, _whole(model, one, inner))
    return _box(name, _gone(model)) if model.is_gone(name) else None


def _box(name: str, content: Child) -> Node:
    return h(
        "section",
        h("div", h("h3", name), button("Close details", ("details", name), kind="plain"), class_="pm-head"),
        content,
        aria_label=f"Database {name}", class_="pm-details", key=f"details of {name}", tabindex=-1,
        focus=True, on={"escape": ["details", name]}, live=True,
    )  # fmt: skip


def _whole(model: DatabasesModel, one: DatabaseInfo, inner: Mapping[str, View]) -> Child:
    facts = [("URL", entry.url(one)), ("Group", one.group), ("Size", sizes.words(model.sizes.sizes.get(one.name))),
             ("Created", entry.date(one.created))]  # fmt: skip
    return (
        h("dl", [(h("dt", words), h("dd", fact)) for words, fact in facts if fact], class_="pm-facts"),
        h("div", entry.connection(model, one.name, "details"), class_="pm-row pm-acts"),
        state(model) if model.place == "details" else None,
        [addressed(view.draw(), name) for name, view in inner.items()],
        h("h4", "Delete"),
        _deleting(model, one.name),
        state(model) if model.place == "deletion" else None,
    )


def _gone(model: DatabasesModel) -> Child:
    """Say that somebody deleted it; what it leaves here are connections that lead nowhere."""
    left = [(h("span", f"The connection {one.name} leads nowhere now."), entry.closing(model, one.name, "details"))
            for one in model.connections(model.chosen)]  # fmt: skip
    return (
        h("p", f"{model.chosen} is gone: it was deleted outside of this panel.", role="status"),
        h("div", left, class_="pm-row pm-acts") if left else None,
        state(model) if model.place in HERE else None,
    )


def _deleting(model: DatabasesModel, name: str) -> Node:
    if not model.deleting:
        return button(f"Delete {name} ...", ("ask-to-delete",), kind="danger")
    connected = ", ".join(one.name for one in model.connections(name))
    closing = f" The connection {connected} is closed." if connected else ""
    words = f"{name} and all that is in it will be gone for good, for everybody.{closing}"
    return confirm("delete", name, words, "delete", disabled=bool(model.busy))
