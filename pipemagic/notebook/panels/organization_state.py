"""The state of the organization, read once for all panels of a session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from pipemagic.errors import ConnectError, PipemagicError, SessionError, UnsupportedError
from pipemagic.management_api.models import have_one_location
from pipemagic.notebook.panels.replicas import REQUESTS, ReplicaStates, explain
from pipemagic.notebook.panels.tasks import LatestTask

if TYPE_CHECKING:
    from pipemagic.management_api import models
    from pipemagic.management_api.models import DatabaseInfo, Group, Location
    from pipemagic.session import Connection, Session
    from pipemagic.session.organization import Organization


class OrganizationState:
    """Locations, groups and databases as the management API last listed them, and their connections.

    Until an organization is in use (``known`` is False) nothing is requested: that would start the embedded service.
    """

    def __init__(self, session: Session) -> None:
        self._session = ref(session)
        self.identity = ("", "")
        """The slug of the organization that is shown and a description of its service; '' if there is none."""
        self.known = False
        self.revision = 0
        """The number of reads of the lists, including failed ones."""
        self.locations: list[Location] = []
        self.groups: list[Group] = []
        self.databases: list[DatabaseInfo] = []
        self.complete = True
        """Whether the lists are complete, not limited to what was created here."""
        self.organizations: list[models.Organization] = []
        """The organizations of the service that the token reaches."""
        self.no_organizations = ""
        """Why they are not listed; '' while they are, or have not been read."""
        self.closest = ""
        self.task = LatestTask("organization", self.notify)
        self.requests = threading.BoundedSemaphore(REQUESTS)
        """Limits concurrent requests about many databases across all panels."""
        self._shown: Organization | None = None
        self._stale = self._connecting = False
        self.replicas = ReplicaStates(self)
        self._listeners: list[Callable[[], None]] = []
        session.changes.connect(self._changed)

    @property
    def session(self) -> Session:
        """The session, which outlives its panels."""
        session = self._session()
        if session is None:
            raise SessionError("the session of this panel was closed", hint="run the cell again")
        return session

    @property
    def organization(self) -> Organization:
        """The organization that is shown; before that, the one of the session, which may start a service.

        Actions capture it when they are requested, since another one may be in use when they run.
        """
        shown, used = self._shown, self.session.organization_in_use
        if shown is None:
            return self.session.organization
        return used if used is not None and used.is_same(shown) else shown

    def shows(self, organization: Organization) -> bool:
        """Return True if an organization is the one that is shown."""
        return self._shown is not None and organization.is_same(self._shown)

    def connections(self, database: str) -> list[Connection]:
        """Return the connections to a database of the organization."""
        return self.session.connections_to(database, *self.identity)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function after every change; the first listener also resumes reading replicas."""
        was_displayed = self.displayed
        if listener not in self._listeners:
            self._listeners.append(listener)
        if not was_displayed:
            self.replicas.follow()
        if self._stale:
            self.refresh()

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        """Remove a listener; without listeners, replicas are not read."""
        if listener in self._listeners:
            self._listeners.remove(listener)
        if not self.displayed:
            self.replicas.stop()

    @property
    def displayed(self) -> bool:
        """Whether a panel shows the state."""
        return bool(self._listeners)

    def notify(self) -> None:
        """Call all listeners."""
        for listener in list(self._listeners):
            listener()

    @property
    def one_location(self) -> bool:
        """Whether groups have one location at this service, and none has more."""
        return have_one_location(self.locations) and not any(len(group.locations) > 1 for group in self.groups)

    def databases_in(self, group: str) -> list[str]:
        """Return the names of a group's databases."""
        return [database.name for database in self.databases if database.group == group]

    def place(self, code: str) -> str:
        """Return the display name of a location."""
        name = next((location.name for location in self.locations if location.code == code), "")
        return f"{name} ({code})" if name and name != code else code

    def location_options(self, locations: Sequence[Location]) -> list[tuple[str, str]]:
        """Return the options of a dropdown, with the closest location first."""
        ordered = sorted(locations, key=lambda location: location.code != self.closest)
        return [
            (self.place(location.code) + (", closest" if location.code == self.closest else ""), location.code)
            for location in ordered
        ]

    def refresh(self) -> None:
        """Read everything again if an organization is in use; a running read is followed by another."""
        if self._connecting:  # connecting reads everything, too, and shows its own error or greeting
            self._stale = True
        elif self.session.in_organization:
            self._stale = False
            self.task.start("Loading ...", self._read)

    def connect(self) -> None:
        """Connect to the default database, which also selects an organization."""

        def work() -> str:
            try:
                greeting = self.session.connect().greeting
            except PipemagicError:
                self._connecting = False
                if self.session.in_organization:  # it was chosen before the error
                    with suppress(PipemagicError):
                        self._read()
                raise
            finally:
                self._connecting = False
            if not self.session.in_organization:
                return f"{greeting}\nThis address belongs to no organization: choose one with %pipedb organization."
            self._read()
            return greeting

        self._connecting = True
        self.task.start("Connecting ...", work, line="%pipedb connect")

    def _read(self) -> str:
        self._stale = False
        try:
            organization = self.session.organization
            if not self.shows(organization):
                self._show(organization)
            self._read_organizations(organization)
            groups, databases, locations = organization.groups(), organization.databases(), organization.locations()
            closest = self.closest if self.known else organization.closest() or ""
            self.locations = sorted(locations, key=lambda location: location.is_legacy)
            self.groups, self.databases, self.closest = list(groups.items), list(databases.items), closest
            self.complete = groups.complete and databases.complete
            self._shown, self.known = organization, True
            self.replicas.follow()
        finally:
            self.revision += 1
        return ""

    def _read_organizations(self, organization: Organization) -> None:
        """List the organizations, if the service and the token allow it."""
        try:
            self.organizations = organization.organizations()
            self.no_organizations = "" if self.organizations else "This service lists none of your organizations."
        except UnsupportedError:
            self.organizations, self.no_organizations = [], "This service does not list organizations."
        except ConnectError:
            raise
        except PipemagicError as error:
            self.organizations = []
            self.no_organizations = f"The organizations cannot be listed.\n{explain(error)}"

    def _show(self, organization: Organization) -> None:
        """Show another organization, whose data have not been read yet."""
        self.replicas.stop()
        self.replicas.reset()
        self.locations, self.groups, self.databases, self.complete, self.known = [], [], [], True, False
        if organization.where != self.identity[1]:  # else its service lists the same ones: the selector keeps them
            self.organizations, self.no_organizations = [], ""
        self._shown, self.identity = organization, (organization.slug, organization.where)
        self.notify()

    def _changed(self, subject: str) -> None:
        self._stale = self._stale or subject == "organization"
        if self._stale and self.displayed:
            self.refresh()
        self.notify()


_states: WeakKeyDictionary[Session, ref[OrganizationState]] = WeakKeyDictionary()


def state_of(session: Session) -> OrganizationState:
    """Return the state of a session's organization, shared by its panels, which keep it alive."""
    reference = _states.get(session)
    state = None if reference is None else reference()
    if state is None:
        state = OrganizationState(session)
        _states[session] = ref(state)  # its organization refers to the session
    return state
