"""The embedded service as one session holds it: by a lease, and found again after a restart."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pipemagic import launcher
from pipemagic.errors import ServiceError
from pipemagic.management_api.client import Management
from pipemagic.session.platform import Platform

FIRST_GROUP = "default"
FIRST_DATABASE = "main"
"""What `connect` without a target makes where there is nothing yet."""


class Embedded:
    """A lease on the shared service of a data folder, or on a temporary one of this process alone.

    ``meanwhile`` is called while it starts.
    """

    def __init__(
        self, folder: Path | None = None, *, temporary: bool = False, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        self.temporary = temporary
        self._meanwhile = meanwhile
        self._folder = folder
        self._lease: launcher.Lease | None = None
        self._finding = threading.Lock()
        self.platform = Platform(self.management(), self.where, self.management)

    @property
    def where(self) -> str:
        """The service's name for people."""
        return "temporary service" if self.temporary else "embedded service"

    def service(self) -> launcher.LocalService:
        """Find the service, or start it; a temporary one that has ended does not come back."""
        with self._finding:
            if self._lease is not None and self._lease.alive:
                return self._lease.service
            if self._lease is not None and self.temporary:
                raise ServiceError(
                    "the temporary service has ended, and its databases with it",
                    hint="%pipedb connect --temporary starts a new one",
                )
            if self._lease is not None:
                self._lease.close()
            start = launcher.temporary if self.temporary else partial(launcher.ensure, self._folder)
            self._lease = start(meanwhile=self._meanwhile)
            return self._lease.service

    def management(self) -> Management:
        """Give the management API at the service's present address."""
        service = self.service()
        return Management(service.url, service.platform_token(), organization=service.organization)

    def prepare(self) -> str:
        """Make the first group and the first database if they are not there; gives the database's name."""
        platform = self.platform
        if FIRST_DATABASE in {database.name for database in platform.databases().items}:
            return FIRST_DATABASE
        if FIRST_GROUP not in {group.name for group in platform.groups().items}:
            self._create_group()
        platform.create_database(FIRST_DATABASE, FIRST_GROUP, if_not_exists=True)
        return FIRST_DATABASE

    def _create_group(self) -> None:
        location = self.platform.locations()[0].code
        self.platform.create_group(FIRST_GROUP, location, if_not_exists=True)

    def stop(self) -> bool:
        """Stop the service, whoever else uses it; False if none was running."""
        if self.temporary:
            running = self._lease is not None and self._lease.alive
            self.close()
            return running
        return launcher.stop(self._folder)

    def close(self) -> None:
        """Give the lease back."""
        self.platform.close()
        if self._lease is not None:
            self._lease.close()
