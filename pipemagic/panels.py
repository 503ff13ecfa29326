"""The panels from Python: ``pipemagic.panels.databases()`` returns what ``%pipedb panel databases`` shows.

Each function takes a session, by default that of the notebook, after ``%load_ext pipemagic``. A panel is an ipywidget:
the last line of a cell, or ``IPython.display.display``, shows it. In a terminal, and with ``print``, it is text.
There is such a function for each panel of a plugin, too.
"""

from __future__ import annotations

from collections.abc import Callable
from keyword import iskeyword
from typing import TYPE_CHECKING

from pipemagic import plugins

if TYPE_CHECKING:
    from pipemagic.notebook.panels.base import Panel
    from pipemagic.notebook.panels.opening import Tabs
    from pipemagic.session import Session

__all__ = ["databases", "everything", "explore", "groups", "locations", "session"]


def everything(session: Session | None = None) -> Tabs:
    """Return the panels in tabs: on Explore if a database is connected, otherwise on Databases."""
    return _open("all", session)


def locations(session: Session | None = None) -> Panel:
    """Return the panel of locations: a map, and a table of the groups at each."""
    return _open("locations", session)


def groups(session: Session | None = None) -> Panel:
    """Return the panel of groups, to create and delete them, and to add and remove locations."""
    return _open("groups", session)


def databases(session: Session | None = None) -> Panel:
    """Return the panel of databases, to create, connect, inspect and delete them, and to create tokens."""
    return _open("databases", session)


def session(session: Session | None = None) -> Panel:
    """Return the panel of the session: its connections, the open transaction, the last requests."""
    return _open("session", session)


def explore(session: Session | None = None) -> Panel:
    """Return the panel of one table: its rows in pages, sorted and filtered in SQL; its columns."""
    return _open("explore", session)


def __getattr__(name: str) -> Callable[..., Panel]:
    """Return the function that opens the panel of a plugin; the name of a keyword ends with an underscore."""
    panel = name.removesuffix("_")
    if panel not in plugins.named("panels"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def open_panel(session: Session | None = None) -> Panel:
        """Return the panel of a plugin."""
        return _open(panel, session)

    return open_panel


def __dir__() -> list[str]:
    """Return the names, with those of the panels of plugins, for completion."""
    names = [f"{name}_" if iskeyword(name) else name for name in plugins.named("panels")]
    return sorted([*globals(), *names])


def _open(name: str, session: Session | None = None) -> Panel:
    from pipemagic.notebook.extension import loaded_magics
    from pipemagic.notebook.panels.opening import open_panel

    if session is not None:
        return open_panel(session, name)
    magics = loaded_magics("pass a pipemagic.session.Session")
    return open_panel(magics.session, name, magics.user_ns)
