"""The interface between the management API and the engine that holds the databases."""

# ruff: noqa: B027 - a check without a body accepts everything

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from prometheus_client.core import Metric
from starlette.routing import BaseRoute

from pipemagic.service.auth.tokens import TokenAuthority
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.records import DatabaseRecord, GroupRecord
from pipemagic.service.catalog.usage import UsageMeter
from pipemagic.service.endpoint import Runtime
from pipemagic.service.executor import Waiter
from pipemagic.service.limits import Limits
from pipemagic.service.locations import GeoLocation


@dataclass(frozen=True)
class InstanceStatus:
    """The state of one instance of a database.

    ``role`` is primary or replica, ``index`` the last commit that it has, ``lag`` the age of the next one in seconds,
    None if unknown; ``state`` is ok, paused, copying, lagging or down.
    """

    code: str
    role: str
    index: int
    lag: float | None
    state: str


@dataclass(frozen=True)
class EngineContext:
    """The parts of the service that an engine uses.

    ``clock`` returns seconds that only increase, ``now`` Unix seconds, ``random(n)`` n unguessable bytes.
    """

    folder: Path
    catalog: Catalog
    meter: UsageMeter
    limits: Limits
    clock: Callable[[], float]
    now: Callable[[], float]
    random: Callable[[int], bytes]


class Seed(NamedTuple):
    """The content of a new database.

    ``place`` puts it in place for a database, by its id; ``moment`` is when its original had it, in Unix seconds.
    """

    place: Callable[[str], None]
    moment: float = 0.0


class Engine(ABC):
    """Holds the databases of the catalog: files of this process, or namespaces of libSQL servers.

    The ``check_`` methods raise `Refused` and are called before the catalog changes, the others after it. An engine
    that accepts everything does not override them.
    """

    tokens: TokenAuthority
    """Issues and checks tokens: the signing key depends on who checks the token."""
    here: str | None = None
    """Code of the location that requests are assumed to come from, if set."""

    # The process.

    @abstractmethod
    def start(self) -> None:
        """Start the background threads; continue what was unfinished when the service ended."""

    @abstractmethod
    def close(self) -> None:
        """End all threads and requests, and close all files."""

    @abstractmethod
    def routes(self, runtime: Runtime) -> Sequence[BaseRoute]:
        """Return the routes at the service's own address, besides those of the management API."""

    @abstractmethod
    def database_routes(self, runtime: Runtime) -> Sequence[BaseRoute]:
        """Return the routes at the addresses of databases."""

    @abstractmethod
    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the databases."""

    # The management API.

    @property
    @abstractmethod
    def locations(self) -> Mapping[str, GeoLocation]:
        """The locations that groups may have."""

    def check_group(self, primary: str) -> None:
        """Refuse a new group if its primary cannot be at this location."""

    def check_location(self, code: str) -> None:
        """Refuse a location that can have no instance."""

    def check_pause(self, code: str, *, replication_only: bool) -> None:
        """Refuse to pause or resume a location that this service does not control."""

    def check_new(self, label: str) -> None:
        """Refuse a new database with a host name that would begin with this label."""

    def check_change(self) -> None:
        """Refuse to delete or change databases while that is not possible."""

    @abstractmethod
    def seed(self, original: DatabaseRecord | None, moment: float | None = None) -> AbstractContextManager[Seed]:
        """Return a context with the content of a new database.

        It is a copy of ``original`` as it is, or as it was at a moment in Unix seconds; or, with None, a file that is
        uploaded next.
        """

    @abstractmethod
    def create(self, record: DatabaseRecord) -> None:
        """Create the database that was just added to the catalog; remove the entry if that fails."""

    @abstractmethod
    def delete(self, record: DatabaseRecord) -> None:
        """End the streams of a database that the catalog no longer has, and remove its data.

        Data that cannot be removed now is removed later, at the latest at the next start.
        """

    def configure(self, record: DatabaseRecord) -> None:
        """Apply the changed settings of a database, if the engine does not read them with each request."""

    @abstractmethod
    def revoke_access(self, record: DatabaseRecord) -> None:
        """End what was opened with tokens of a database that are now void."""

    @abstractmethod
    def sync_locations(self, group: GroupRecord) -> None:
        """Apply a change of a group's locations, or of which of them are paused."""

    def addresses(self, record: DatabaseRecord) -> dict[str, str]:  # noqa: ARG002
        """Return the addresses to connect to, by location; empty if all are at the service's own address."""
        return {}

    @abstractmethod
    def states(self, group: GroupRecord) -> dict[str, str]:
        """Return the state of each location of a group (see `InstanceStatus`)."""

    @abstractmethod
    def status(self, record: DatabaseRecord) -> dict[str, InstanceStatus]:
        """Return the state of each instance of a database, the primary first."""

    @abstractmethod
    def wait_for_replicas(self, group: GroupRecord, code: str, timeout: float) -> Sequence[Waiter]:
        """Return waiters that are granted when a group's replicas at a location are up to date.

        They expire after ``timeout`` seconds.
        """

    @abstractmethod
    def size(self, database: str) -> int:
        """Return the bytes that a database takes, by its id; 0 if that is unknown."""
