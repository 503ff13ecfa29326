"""The panels from Python: ``pipemagic.panels.databases()`` gives what ``%pipedb panel databases`` shows.

Each takes a session; without one it is that of the notebook, after ``%load_ext pipemagic``. A panel is an ipywidget:
the last line of a cell, or ``IPython.display.display``, shows it. In a terminal, and in ``print``, it is a text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipemagic.notebook.panels.base import Panel
    from pipemagic.notebook.panels.opening import Tabs
    from pipemagic.session import Session

__all__ = ["class_", "databases", "everything", "explore", "groups", "locations", "organization", "session"]


def everything(session: Session | None = None) -> Tabs:
    """Return all panels in one, a tab for each."""
    return _open("all", session)


def locations(session: Session | None = None) -> Panel:
    """Return the panel of locations: a map, a table, which group is where."""
    return _open("locations", session)


def groups(session: Session | None = None) -> Panel:
    """Return the panel of groups: create, add and remove locations, delete."""
    return _open("groups", session)


def databases(session: Session | None = None) -> Panel:
    """Return the panel of databases: create, connect, look into, tokens, delete."""
    return _open("databases", session)


def organization(session: Session | None = None) -> Panel:
    """Return the panel of the organization: which one, usage and quotas, overages."""
    return _open("organization", session)


def session(session: Session | None = None) -> Panel:
    """Return the panel of the session: what is connected, the running transaction, the last requests."""
    return _open("session", session)


def explore(session: Session | None = None) -> Panel:
    """Return the panel of one table: its rows in pages, sorted and filtered in SQL; its columns."""
    return _open("explore", session)


def class_(session: Session | None = None) -> Panel:
    """Return the panel of a class: the progress of each student, and resets of their databases."""
    return _open("class", session)


def _open(name: str, session: Session | None) -> Panel:
    from pipemagic.notebook.extension import loaded_magics
    from pipemagic.notebook.panels.opening import open_panel

    if session is not None:
        return open_panel(session, name)
    magics = loaded_magics()
    return open_panel(magics.session, name, magics.user_ns)
