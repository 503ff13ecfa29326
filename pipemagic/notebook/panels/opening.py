"""Which panels there are, and opening one."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pipemagic.notebook.panels.databases.model import DatabasesModel
from pipemagic.notebook.panels.databases.view import DatabasesView
from pipemagic.notebook.panels.explore.panel import explore_view
from pipemagic.notebook.panels.ground.tabs import TabsModel, TabsView
from pipemagic.notebook.panels.ground.widget import Panel, View
from pipemagic.notebook.panels.groups.panel import GroupsModel, GroupsView
from pipemagic.notebook.panels.holdings import Holdings, holdings_of
from pipemagic.notebook.panels.locations.panel import LocationsModel, LocationsView
from pipemagic.notebook.panels.organization.panel import OrganizationModel, OrganizationView
from pipemagic.notebook.panels.session.opened import opened_of
from pipemagic.notebook.panels.session.panel import SessionModel, SessionView
from pipemagic.notebook.panels.standing import InOrganization

if TYPE_CHECKING:
    from pipemagic.session import Session

Variables: TypeAlias = MutableMapping[str, Any]
"""The variables of the notebook."""

IN_ORGANIZATION: dict[str, Callable[[Holdings], View]] = {
    "locations": lambda holdings: LocationsView(LocationsModel(holdings)),
    "groups": lambda holdings: GroupsView(GroupsModel(holdings)),
    "databases": lambda holdings: DatabasesView(DatabasesModel(holdings)),
    "organization": lambda holdings: OrganizationView(OrganizationModel(holdings)),
}
"""The panels of the organization. `InOrganization` says what to do while none is in use: these need not."""

OF_SESSION: dict[str, Callable[[Holdings, Variables], View]] = {
    "session": lambda holdings, _: SessionView(SessionModel(opened_of(holdings.session))),
    "explore": explore_view,
}
"""The panels of what is connected."""

NAMES = (*IN_ORGANIZATION, *OF_SESSION)
"""All of them, in the order of their tabs; commands/panel.py has them too, since it may import none of this."""


def open_panel(session: Session, name: str = "all", variables: Variables | None = None) -> Panel:
    """Give the panel of one of `NAMES`, or ``all`` of them in tabs; exports go into ``variables``.

    It waits for nothing: the panel shows that it asks.
    """
    holdings = holdings_of(session)
    if holdings.asked:
        holdings.refresh()
    variables = {} if variables is None else variables
    if name != "all":
        return Panel(_view(holdings, name, variables))
    return Panel(TabsView(TabsModel(), [_view(holdings, one, variables) for one in NAMES]))


def _view(holdings: Holdings, name: str, variables: Variables) -> View:
    if name in OF_SESSION:
        return OF_SESSION[name](holdings, variables)
    return InOrganization(IN_ORGANIZATION[name](holdings), holdings, alone=name == "organization")
