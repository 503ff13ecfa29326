"""The instances of databases: which one serves a request, its state and its distance."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

import apsw
from starlette.requests import Request

from pipemagic.errors import ServiceError
from pipemagic.service.database_api.stream import ServerStream
from pipemagic.service.database_api.streams import StreamTable
from pipemagic.service.engine import Engine, InstanceStatus
from pipemagic.service.hosting import LOCAL_DOMAIN
from pipemagic.service.hosts import host_of, origin_of
from pipemagic.service.limits import Limits
from pipemagic.service.locations import LOCATIONS, nearest, round_trip, similar
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.records import DatabaseRecord, GroupRecord
from pipemagic.service.replicas.followers import Followers, discard
from pipemagic.service.replicas.replica import Replica, State
from pipemagic.service.replicas.replicator import Replicator
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.database import OpenDatabase
from pipemagic.service.sqlite.databases import Databases
from pipemagic.service.sqlite.write_lock import Waiter

log = logging.getLogger(__name__)

MAX_LAG = 10.0
"""Seconds that a healthy instance may be behind its primary."""

Place = OpenDatabase | Replica


class Placement(Engine):
    """The embedded engine: files of this process. Knows the instances of every database."""

    def __init__(
        self,
        databases: Callable[[], Databases],
        streams: StreamTable,
        catalog: Catalog,
        limits: Limits,
        clock: Callable[[], float],
        *,
        here: str | None = None,
        simulate_latency: bool = False,
    ) -> None:
        if here is not None and here not in LOCATIONS:
            close = similar(here)
            raise ServiceError(
                f"there is no location {here!r}" + (f"; did you mean {' or '.join(close)}?" if close else ""),
                hint="pipemagic db locations lists them",
                code="UNKNOWN_LOCATION",
            )
        self.here = here
        self.replicator = Replicator()
        self._syncing = threading.Lock()
        self._closing = threading.Event()
        self._starter = threading.Thread(target=self._open_replicated, name="pipemagic-replicas", daemon=True)
        self._databases, self._streams, self._catalog = databases, streams, catalog
        self._limits, self._clock = limits, clock
        self.simulates_latency = simulate_latency
        """Whether responses are delayed by the distance to their instance."""

    # Which instances there are.

    def start(self) -> None:
        """Start the replication, and continue what was unfinished when the service ended."""
        self.replicator.start()
        self._starter.start()

    def close(self) -> None:
        """Let the threads finish their current work."""
        self._closing.set()
        if self._starter.is_alive():
            self._starter.join()
        for database in self._databases().in_use():
            database.stop_following()
        self.replicator.close()

    def _open_replicated(self) -> None:
        self._open_all(self._catalog.replicated())

    def drop(self, record: DatabaseRecord) -> None:
        """Close a deleted database, once changes of its replicas have finished."""
        with self._syncing:
            database = self._databases().pop(record.id)
            if database is not None:
                self._streams.end_all(database)
                database.close()

    def _open_all(self, records: Iterable[DatabaseRecord]) -> list[tuple[OpenDatabase, DatabaseRecord]]:
        """Open databases apart from those that wait for their file, whose replicas are created later."""
        opened = []
        for record in records:
            if self._closing.is_set():
                break
            try:
                if not self._databases().awaits_upload(record.id):
                    opened.append((self._databases().open(record), record))
            except (Refused, apsw.Error, OSError):  # deleted meanwhile, or damaged: the others go on
                log.exception("the replicas of %s cannot be started", record.id)
        return opened

    def replicate(self, database: OpenDatabase, record: DatabaseRecord) -> None:
        """Create and remove replicas of a database as its record names them."""
        codes = record.locations[1:]
        paused = database.code in record.paused
        if paused and not database.paused:
            database.paused = True
            self._streams.end_all(at=database)
        database.paused = paused
        if codes and database.followers is None:
            database.followers = Followers(
                database, self._limits, self._clock, self.replicator.schedule, self._end_streams
            )
        followers = database.followers
        if followers is None:
            discard(database.path)  # what was left of a location that was removed: without followers it gets stale
        elif codes:
            followers.set(codes, record.paused)
        else:
            database.followers = None
            followers.remove()

    def create(self, record: DatabaseRecord) -> None:
        """Begin to create the replicas of a new database, unless it waits for its file."""
        if len(record.locations) > 1 and not self._databases().awaits_upload(record.id):
            self._databases().open(record)

    def sync(self, group: GroupRecord) -> None:
        """Apply a change of a group's locations to each of its databases."""
        with self._syncing:
            for database, record in self._open_all(self._catalog.databases(group.organization, group.name)):
                self.replicate(database, record)

    def _end_streams(self, replica: Replica) -> None:
        self._streams.end_all(at=replica)

    # Where a new stream goes.

    def choose(self, record: DatabaseRecord, request: Request) -> tuple[OpenDatabase, Place]:
        """Return the database, and its instance at the address of a request or, without one, the nearest ready one.

        Raise `Refused` (503) if that one is paused or not ready, or if none is ready.
        """
        databases = self._databases()
        database = databases.get(record.id) or databases.open(record)
        if database.followers is None and not database.paused:
            return database, database
        wanted = self.code_of(record, host_of(request.headers.get("host", "")))
        places: dict[str, Place] = {database.code: database, **database.replicas}
        if wanted is not None:
            self._insist(places, wanted)
            return database, places[wanted]
        order = nearest(self.here, places) if self.here else list(places)
        for code in order:
            if self._answers(places[code]):
                return database, places[code]
        raise Refused(503, "every location of the database is paused or not ready", "LOCATION_PAUSED")

    def _answers(self, place: Place) -> bool:
        return place.ready if isinstance(place, Replica) else not place.paused

    def _insist(self, places: dict[str, Place], code: str) -> None:
        place = places.get(code)
        if place is None:
            raise Refused(404, f"the database has no instance at {code}")
        if place.paused:
            raise Refused(503, f"the location {code} is paused", "LOCATION_PAUSED")
        if not self._answers(place):
            raise Refused(503, f"the replica at {code} is being created; try again soon", "REPLICA_NOT_READY")

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

        Of interest for databases with several locations only.
        """
        asked = host_of(request.headers.get("host", ""))
        record = self._catalog.database_by_host(asked)  # with the host names below the domain of the request
        if record is None:
            return None
        host = record.instances.get(stream.entry, record.hostname)
        if host == asked or not host.endswith("-" + record.hostname):
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

    # How the instances are.

    def status(self, record: DatabaseRecord) -> dict[str, InstanceStatus]:
        """Return the state of each instance of a database, the primary first."""
        database = self._databases().get(record.id)
        if database is None:
            return self._status_unopened(record)
        state = "paused" if database.paused else "ok"
        found = {database.code: InstanceStatus(database.code, "primary", database.index, 0.0, state)}
        for code, replica in list(database.replicas.items()):
            lag = replica.lag()
            state = "lagging" if replica.ready and lag > MAX_LAG else replica.state.value
            found[code] = InstanceStatus(code, "replica", replica.index, round(lag, 3), state)
        return found

    def _status_unopened(self, record: DatabaseRecord) -> dict[str, InstanceStatus]:
        """Return the states for a database that is not open: nothing was written since the start."""
        index, (primary, *others) = self._catalog.reserved_index(record.id), record.locations
        state = "paused" if primary in record.paused else "ok"
        found = {primary: InstanceStatus(primary, "primary", index, 0.0, state)}
        for code in others:
            state = State.PAUSED.value if code in record.paused else State.COPYING.value
            found[code] = InstanceStatus(code, "replica", 0, 0.0, state)
        return found

    def states(self, group: GroupRecord) -> dict[str, str]:
        """Return the state of each location of a group: the worst state of its databases there."""
        states = {code: "paused" if code in group.paused else "ok" for code in group.locations}
        for record in self._catalog.databases(group.organization, group.name):
            for code, one in self.status(record).items():
                if states.get(code) == "ok":
                    states[code] = one.state
        return states

    def healthy(self, record: DatabaseRecord, code: str | None) -> bool:
        """Return True if an instance is ready and not far behind; with None, if any instance is."""
        states = {one.code: one.state for one in self.status(record).values()}
        return states.get(code) == "ok" if code is not None else "ok" in states.values()

    def waiting(self, group: GroupRecord, code: str, patience: float) -> list[Waiter]:
        """Return waiters that are granted when the group's replicas at a location are up to date."""
        waiters, deadline = [], self._clock() + patience
        for database, _ in self._open_all(self._catalog.databases(group.organization, group.name)):
            replica = database.replicas.get(code)
            if replica is not None:
                waiters.append(replica.wait_for(database.index, deadline))
        return waiters


def _label(host: str) -> str:
    return host.partition(".")[0]
