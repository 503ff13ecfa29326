"""The instances of databases: which one serves a request, its state and its distance."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator, Mapping

import apsw
from starlette.requests import Request

from pipemagic.hrana.faults import STREAM_ENDED
from pipemagic.hrana.messages import Error
from pipemagic.service.catalog.records import DatabaseRecord, GroupRecord
from pipemagic.service.catalog.usage import BLOCKED, OPERATION_BLOCKED
from pipemagic.service.database_api.stream import ServerStream
from pipemagic.service.database_api.streams import StreamTable
from pipemagic.service.engine import Engine, EngineContext, InstanceStatus
from pipemagic.service.executor import Waiter
from pipemagic.service.files import has_space
from pipemagic.service.hosting import LOCAL_DOMAIN, host_of, origin_of
from pipemagic.service.locations import LOCATIONS, GeoLocation, nearest, round_trip
from pipemagic.service.replicas.replica import Replica
from pipemagic.service.replicas.replica_set import ReplicaSet, remove_files, replicas_of
from pipemagic.service.replicas.replicator import Replicator
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.database import OpenDatabase
from pipemagic.service.sqlite.databases import Databases

log = logging.getLogger(__name__)

MAX_LAG = 10.0
"""Seconds that a healthy instance may be behind its primary."""

REOPENED = Error(
    "the stream was ended: the database was opened for reading on a full disk, and is opened for writing now that the "
    "disk has space; run the statement again",
    STREAM_ENDED,
)

DatabaseInstance = OpenDatabase | Replica


class Placement(Engine):
    """The part of the embedded engine for the instances of databases."""

    locations: Mapping[str, GeoLocation] = LOCATIONS

    def __init__(
        self, context: EngineContext, streams: StreamTable, *, here: str | None = None, simulate_latency: bool = False,
        unicode: bool = False,
    ) -> None:  # fmt: skip
        self.here = here
        self.simulates_latency = simulate_latency
        """Whether responses are delayed by the distance to their instance."""
        self.replicator = Replicator()
        self._syncing = threading.Lock()
        self._unopened: list[DatabaseRecord] = []
        self._files, self._streams, self._catalog = context.folder / "databases", streams, context.catalog
        self._clock, self._meter = context.clock, context.meter
        self.databases = Databases(
            self._files, context.catalog, context.limits, context.clock, self.replicate, unicode=unicode
        )

    # Instances.

    def start(self) -> None:
        """Start the replication, and continue unfinished copies."""
        self._unopened = list(self._catalog.replicated())
        self.replicator.schedule(self._open_next)
        self.replicator.start()

    def close(self) -> None:
        """End the threads after their current work."""
        self.replicator.close()

    def _open_next(self) -> float | None:
        if self._unopened:
            self._open(self._unopened.pop(0))
        return 0.0 if self._unopened else None

    def size(self, database: str) -> int:
        """Return the size of a database in bytes, by its id."""
        return self.databases.size(database)

    def delete(self, record: DatabaseRecord) -> None:
        """Close a deleted database once changes of its replicas have finished, and remove its files."""
        self._close(record.id)
        # On Windows, files that are open stay until the next start removes them: the catalog records deletions.
        shutil.rmtree(self._files / record.id, ignore_errors=True)

    def _close(self, identifier: str, error: Error | None = None) -> None:
        """Close a database; ``error`` is for statements that run on it."""
        with self._syncing:
            database = self.databases.pop(identifier)
            if database is not None:
                self._streams.end_all(database, error=error)
                database.close()

    def reopen(self) -> None:
        """Close the databases that were opened on a full disk once it has space; the next request opens them again."""
        full = [database for database in self.databases.in_use() if database.disk_full]
        if full and has_space(self._files):
            for database in full:
                self._close(database.path.parent.name, REOPENED)

    def revoke_access(self, record: DatabaseRecord) -> None:
        """End the streams of a database whose tokens are invalid."""
        database = self.databases.get(record.id)
        if database is not None:
            self._streams.end_all(database)

    def configure(self, record: DatabaseRecord) -> None:
        """End what runs on a database that may no longer be read: statements, cursors, transactions, waits."""
        database = self.databases.get(record.id)
        if database is not None and record.configuration.block_reads:
            reason = f"{self._meter.block(record).reads}; this statement was not applied, and an open transaction is"
            error = Error(f"{OPERATION_BLOCKED}: {reason} rolled back", BLOCKED)
            self._streams.end_all(database, error=error)

    def _open(self, record: DatabaseRecord) -> OpenDatabase | None:
        """Open a database; return None if it waits for its upload, or cannot be opened."""
        try:
            return None if self.databases.awaits_upload(record.id) else self.databases.open(record)
        except (Refused, apsw.Error, OSError):  # deleted meanwhile, or damaged: the others are still replicated
            log.exception("the replicas of %s cannot be started", record.id)
            return None

    def _open_group(self, group: GroupRecord) -> Iterator[tuple[OpenDatabase, DatabaseRecord]]:
        for record in self._catalog.databases(group.organization, group.name):
            if (database := self._open(record)) is not None:
                yield database, record

    def replicate(self, database: OpenDatabase, record: DatabaseRecord) -> None:
        """Create and remove replicas of a database so that they match its record."""
        codes = record.locations[1:]
        paused = database.code in record.paused
        if paused and not database.paused:
            database.paused = True
            self._streams.end_all(at=database)
        database.paused = paused
        replicas = database.observer
        if codes:
            if replicas is None:
                replicas = ReplicaSet(database, self.replicator, lambda replica: self._streams.end_all(at=replica))
            assert isinstance(replicas, ReplicaSet)
            replicas.update(codes, record.paused)
        else:
            database.observer = None
            if isinstance(replicas, ReplicaSet):
                replicas.close(keep=False)
            remove_files(database.path)  # also files of a location that was removed before the start

    def create(self, record: DatabaseRecord) -> None:
        """Begin to create the replicas of a new database, unless it waits for its upload.

        The database exists already, so if that is not possible now, its first use does it.
        """
        if len(record.locations) > 1:
            self._open(record)

    def sync_locations(self, group: GroupRecord) -> None:
        """Apply a change of a group's locations to each of its databases."""
        with self._syncing:
            for database, record in self._open_group(group):
                self.replicate(database, record)

    # The instance for a new stream.

    def choose(self, record: DatabaseRecord, request: Request) -> tuple[OpenDatabase, DatabaseInstance]:
        """Return the database, and its instance at the address of a request or, without one, the nearest ready one.

        Raise `Refused` (503) if that one is paused or not ready, or if none is ready.
        """
        databases = self.databases
        database = databases.get(record.id) or databases.open(record)
        if database.observer is None and not database.paused:
            return database, database
        instances: dict[str, DatabaseInstance] = {database.code: database, **replicas_of(database)}
        code = self.code_of(record, host_of(request.headers.get("host", "")))
        if code is not None:
            return database, self._named(instances, code)
        for near in nearest(self.here, instances) if self.here else instances:
            if _is_ready(instances[near]):
                return database, instances[near]
        raise Refused(503, "every location of the database is paused or not ready", "LOCATION_PAUSED")

    def _named(self, instances: Mapping[str, DatabaseInstance], code: str) -> DatabaseInstance:
        instance = instances.get(code)
        if instance is None:
            raise Refused(404, f"the database has no instance at {code}")
        if instance.paused:
            raise Refused(503, f"the location {code} is paused", "LOCATION_PAUSED")
        if not _is_ready(instance):
            raise Refused(503, f"the replica at {code} is being created; try again soon", "REPLICA_NOT_READY")
        return instance

    def code_of(self, record: DatabaseRecord, host: str) -> str | None:
        """Return the location of the instance at a host name; None for the address of the database or the service."""
        if host == record.hostname:
            return None
        label, _, domain = host.partition(".")
        if domain not in (self._catalog.domain, LOCAL_DOMAIN):
            return None
        if label == _label(record.hostname):  # below the other domain
            return None
        return next((code for code, name in record.instances.items() if _label(name) == label), None)

    def base_url(self, request: Request, stream: ServerStream) -> str | None:
        """Return the address of the stream's instance if that is another one than the request's.

        Only databases with several locations have such addresses.
        """
        requested = host_of(request.headers.get("host", ""))
        record = self._catalog.database_by_host(requested)  # with the host names below the domain of the request
        if record is None:
            return None
        host = record.instances.get(stream.entry, record.hostname)
        if host == requested or not host.endswith("-" + record.hostname):
            return None
        return origin_of(request, host)

    def delay(self, stream: ServerStream) -> float:
        """Return the round trip to the stream's instance in seconds, and on to the primary if it writes there."""
        if self.here is None:
            return 0.0
        onward = round_trip(stream.entry, stream.database.code) if stream.place is stream.database else 0.0
        return round_trip(self.here, stream.entry) + onward

    def distance(self, record: DatabaseRecord, host: str) -> float:
        """Return the round trip to the instance at an address in seconds; 0 for the address of the database."""
        code = self.code_of(record, host) if self.simulates_latency else None
        return 0.0 if code is None or self.here is None else round_trip(self.here, code)

    # The states of the instances.

    def status(self, record: DatabaseRecord) -> dict[str, InstanceStatus]:
        """Return the state of each instance of a database, the primary first."""
        database = self.databases.get(record.id)
        primary, *others = record.locations
        state = "paused" if primary in record.paused else "ok"
        index = self._catalog.reserved_index(record.id) if database is None else database.index
        statuses = {primary: InstanceStatus(primary, "primary", index, 0.0, state)}
        replicas = {} if database is None else replicas_of(database)
        for code in others:
            statuses[code] = _replica_status(code, replicas.get(code), paused=code in record.paused)
        return statuses

    def states(self, group: GroupRecord) -> dict[str, str]:
        """Return the state of each location of a group: the worst state of its databases there."""
        states = {code: "paused" if code in group.paused else "ok" for code in group.locations}
        for record in self._catalog.databases(group.organization, group.name):
            for code, replica in self.status(record).items():
                if states.get(code) == "ok":
                    states[code] = replica.state
        return states

    def healthy(self, record: DatabaseRecord, code: str | None) -> bool:
        """Return True if an instance is ready and not far behind; with None, if any instance is."""
        states = {replica.code: replica.state for replica in self.status(record).values()}
        return states.get(code) == "ok" if code is not None else "ok" in states.values()

    def wait_for_replicas(self, group: GroupRecord, code: str, timeout: float) -> list[Waiter]:
        """Return waiters that are granted when the group's replicas at a location are up to date."""
        waiters, deadline = [], self._clock() + timeout
        for database, _ in self._open_group(group):
            replica = replicas_of(database).get(code)
            if replica is not None:
                waiters.append(replica.wait_for(database.index, deadline))
        return waiters


def _is_ready(instance: DatabaseInstance) -> bool:
    return instance.pool is not None and not instance.paused


def _replica_status(code: str, replica: Replica | None, *, paused: bool) -> InstanceStatus:
    """Return the state of a replica; it is None if the database was not opened since the start."""
    if replica is None:
        return InstanceStatus(code, "replica", 0, 0.0, "paused" if paused else "copying")
    lag = replica.lag()
    state = "lagging" if replica.state == "ok" and lag > MAX_LAG else replica.state
    return InstanceStatus(code, "replica", replica.index, round(lag, 3), state)


def _label(host: str) -> str:
    return host.partition(".")[0]
