"""What the list and the box of details show alike of one database: its URL, its day, how it is connected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pipemagic.notebook.panels.ground.parts import button
from pipemagic.notebook.panels.ground.tree import Node, h

if TYPE_CHECKING:
    from pipemagic.management_api.models import DatabaseInfo
    from pipemagic.notebook.panels.databases.model import DatabasesModel


def url(one: DatabaseInfo) -> Node | None:
    """Draw the URL with a button that copies it."""
    if not one.url:
        return None
    copy = h("button", "Copy", type="button", copy=one.url, class_="pm-plain", aria_label=f"Copy the URL of {one.name}")
    return h("div", h("code", one.url), copy, class_="pm-url", key="url")


def date(moment: float | None) -> str:
    """Give the day of a moment (Unix seconds) where we are; '' for None."""
    return "" if moment is None else time.strftime("%Y-%m-%d", time.localtime(moment))


def standing(model: DatabasesModel, name: str) -> str:
    """Say in a word how a database is connected; '' if it is not."""
    names = [one.name for one in model.connections(name)]
    if not names:
        return ""
    words = "current" if model.holdings.current in names else "connected"
    others = ", ".join(one for one in names if one != name)
    return f"{words} as {others}" if others else words


def connection(model: DatabasesModel, name: str, place: str = "") -> list[Node]:
    """Draw how a database is connected, and what can be done about that."""
    drawn = []
    for one in model.connections(name):
        words = f" as {one.name}" if one.name != name else ""
        current = one.name == model.holdings.current
        drawn.append(h("span", f"{'current' if current else 'connected'}{words}", key=f"is {one.name}"))
        if not current:
            drawn.append(_act(model, "Use", "use", one.name, place, f"Use {one.name} for %%sql cells"))
        drawn.append(closing(model, one.name, place))
    return drawn or [_act(model, "Connect", "connect", name, place, f"Connect to {name}")]


def closing(model: DatabasesModel, name: str, place: str) -> Node:
    """Draw the button that closes a connection."""
    return _act(model, "Close", "close", name, place, f"Close the connection {name}")


def _act(model: DatabasesModel, words: str, action: str, name: str, place: str, label: str) -> Node:
    full = f"{label}, in details" if place else label
    return button(words, (action, name, place), kind="" if place else "plain", label=full, disabled=bool(model.busy))
