"""Which panels there are, and opening one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pipemagic.notebook.panels.databases import DatabasesModel, DatabasesView
from pipemagic.notebook.panels.holdings import Holdings, holdings_of
from pipemagic.notebook.panels.tabs import TabsModel, TabsView
from pipemagic.notebook.panels.widget import Panel, View

if TYPE_CHECKING:
    from pipemagic.session import Session

PATIENCE = 5.0
"""Seconds that opening waits for the first answers, so that the saved face has them; then it shows that it asks."""

VIEWS: dict[str, Callable[[Holdings], View]] = {
    "databases": lambda holdings: DatabasesView(DatabasesModel(holdings)),
}


def open_panel(session: Session, name: str) -> Panel:
    """Give the panel of a name in `VIEWS`, or ``all`` of them in tabs."""
    holdings = holdings_of(session)
    if session.in_organization:
        holdings.refresh()
        holdings.wait(PATIENCE)
    if name != "all":
        return Panel(VIEWS[name](holdings))
    return Panel(TabsView(TabsModel(), [make(holdings) for make in VIEWS.values()]))
