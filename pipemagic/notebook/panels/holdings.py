"""What the organization has, asked once for all panels of a session."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from traitlets import Bool, List, Unicode

from pipemagic.notebook.panels.ground.shared import OneForASession
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.session.signals import Subject

if TYPE_CHECKING:
    from pipemagic.session import Session
    from pipemagic.session.organization import Platform


class Holdings(WorkingModel):
    """Organization, locations, groups and databases, as the management API listed them last; and what is connected.

    Asked anew after every change that this session makes, by a panel or by a cell. Until an organization is in use
    (``known`` is False) nothing is asked: asking would start the embedded service.
    """

    known = Bool(help="whether an organization is in use, and was asked")
    organization = Unicode(help="its slug")
    where = Unicode(help="its service, for people")
    locations: List[Any] = List(help="management_api.models.Location")
    here = Unicode(help="the code of the location that is closest, '' where the service does not tell")
    groups: List[Any] = List(help="management_api.models.Group")
    databases: List[Any] = List(help="management_api.models.DatabaseInfo")
    complete = Bool(True, help="whether the lists hold everything there is, not only what was made here")
    connected: List[Any] = List(help="names of the connections")
    current = Unicode(help="the name of the connection that %%sql uses, '' if there is none")

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._asking = threading.Lock()
        self._stale = False
        self._shown: Platform | None = None
        self._closest: tuple[Platform, str] | None = None
        self._read_connections()
        session.changes.connect(self._heard)

    @property
    def asked(self) -> bool:
        """Whether there is an organization to ask, or it is asked already."""
        return self.session.in_organization

    @property
    def platform(self) -> Platform:
        """The organization that is shown. Actions take it when they are asked for: another may be in use when they run.

        With another token it is still the same. Until one is known it is the session's, for which a service may have
        to start.
        """
        shown, used = self._shown, self.session.organization_in_use
        if shown is None or used is None:
            return self.session.platform
        return used if (used.organization, used.where) == (shown.organization, shown.where) else shown

    def shows(self, platform: Platform) -> bool:
        """Tell whether an organization is the one that is shown."""
        return (platform.organization, platform.where) == (self.organization, self.where)

    def refresh(self) -> None:
        """Ask for everything anew; while that is under way already, once more after it."""
        with self._asking:
            self._stale = True
        self.start("Asking ...", self._fetch)

    def connect(self) -> None:
        """Connect to the default, as %pipedb connect does: that also tells which organization is in use."""

        def work() -> str:
            greeting = self.session.connect().greeting
            if self.session.in_organization:
                return f"{greeting}\n{self._fetch()}".strip()
            return f"{greeting} That is an address, in no organization: %pipedb organization uses one."

        self.start("Connecting ...", work, "%pipedb connect")

    def ended(self) -> None:
        """Ask once more if something changed since the last answers."""
        if self._stale and self.session.in_organization:
            self.refresh()

    def _is_stale(self) -> bool:
        with self._asking:
            stale, self._stale = self._stale, False
        return stale

    def _fetch(self) -> str:
        with self._asking:
            self._stale = True
        while self._is_stale():
            platform = self.session.platform
            self._leave_other(platform)
            groups, databases, locations = platform.groups(), platform.databases(), platform.locations()
            here = self._here_of(platform)
            with self.hold_trait_notifications():
                self.organization, self.where = platform.organization, platform.where
                self.locations = sorted(locations, key=lambda one: one.is_legacy)
                self.groups, self.databases = list(groups.items), list(databases.items)
                self.complete = groups.complete and databases.complete
                self.here = here
                self.known, self._shown = True, platform
        self._read_connections()
        return ""

    def _leave_other(self, platform: Platform) -> None:
        """Show nothing of the organization that was in use before: what is done next is done in this one."""
        organization, where = platform.organization, platform.where
        if self.known and (organization, where) != (self.organization, self.where):
            with self.hold_trait_notifications():
                self.locations, self.groups, self.databases = [], [], []
                self.known, self._shown, self.complete, self.here = False, None, True, ""
                self.organization, self.where = organization, where

    def _here_of(self, platform: Platform) -> str:
        """Give the closest location; it is asked once."""
        if self._closest is None or self._closest[0] is not platform:
            self._closest = (platform, platform.closest() or "")
        return self._closest[1]

    def _heard(self, subject: Subject) -> None:
        if subject == "organization":
            self.refresh()
        self._read_connections()

    def _read_connections(self) -> None:
        with self.hold_trait_notifications():
            self.connected, self.current = list(self.session.connections), self.session.current or ""


holdings_of = OneForASession(Holdings)
"""Gives the holdings of a session: the same for all of its panels, so that these agree."""
