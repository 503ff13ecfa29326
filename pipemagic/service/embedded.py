"""The embedded engine: databases in SQLite files of the data folder, served by this process."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import apsw
from prometheus_client.core import Metric
from starlette.routing import BaseRoute, Route

from pipemagic.hrana.faults import STREAM_ENDED
from pipemagic.hrana.messages import Error
from pipemagic.service.api import openapi
from pipemagic.service.auth.tokens import TokenAuthority
from pipemagic.service.backups import Backups
from pipemagic.service.catalog.records import DatabaseRecord, GroupRecord
from pipemagic.service.catalog.usage import BLOCKED, OPERATION_BLOCKED
from pipemagic.service.database_api.endpoints import DatabaseApi, GreetingEndpoint
from pipemagic.service.database_api.streams import StreamTable
from pipemagic.service.endpoint import Runtime
from pipemagic.service.engine import Engine, EngineContext, InstanceStatus, Seed
from pipemagic.service.executor import Waiter
from pipemagic.service.files import has_space
from pipemagic.service.health import Health
from pipemagic.service.locations import LOCATIONS, GeoLocation
from pipemagic.service.metrics import collect_embedded
from pipemagic.service.replicas.placement import Placement
from pipemagic.service.replicas.replica_set import ReplicaSet, remove_files, replicas_of
from pipemagic.service.replicas.replicator import Replicator
from pipemagic.service.responses import Refused, json
from pipemagic.service.sqlite.database import OpenDatabase
from pipemagic.service.sqlite.databases import Databases
from pipemagic.service.sqlite.resources import check_space
from pipemagic.service.stopped_statements import StoppedStatements
from pipemagic.service.transfer.endpoints import Transfers

log = logging.getLogger(__name__)

REOPENED = Error(
    "the stream was ended: the database was opened for reading on a full disk, and is opened for writing now that the "
    "disk has space; run the statement again",
    STREAM_ENDED,
)

SWEEP_PAUSE = 0.05
"""Seconds at least between two sweeps: each one checks all streams, of which many may expire one after the other."""
SWEEP_EVERY = 1.0  # seconds between two sweeps at most; no time limit is shorter


class EmbeddedEngine(Engine):
    """Serves the database HTTP API over the files, with their replicas, and enforces the time limits."""

    locations: Mapping[str, GeoLocation] = LOCATIONS

    def __init__(
        self, context: EngineContext, *, here: str | None = None, simulate_latency: bool = False, unicode: bool = False,
        backups: int = 0,
    ) -> None:  # fmt: skip
        folder, catalog, limits, clock = context.folder, context.catalog, context.limits, context.clock
        catalog.finish_deletions(folder / "databases")
        self.tokens = TokenAuthority(folder, catalog, context.now, context.random)
        self.streams = StreamTable(clock, context.random, limits)
        self.here, self.meter, self._stopped = here, context.meter, StoppedStatements()
        self._files, self._catalog, self._limits, self._clock = folder / "databases", catalog, limits, clock
        self.databases = Databases(self._files, catalog, limits, clock, self._replicate, unicode=unicode)
        self.placement = Placement(self.databases, catalog, here=here, simulate_latency=simulate_latency)
        self.replicator = Replicator()
        self._syncing = threading.Lock()
        self._unopened: list[DatabaseRecord] = []
        self.transfers = Transfers(folder / "transfers", self.databases, self.tokens, self.meter, limits)
        self.backups = Backups(
            self._files, self.databases, self.transfers, catalog, context.meter, context.now, most=backups
        )
        self.databases.before_write, self.meter.reclaim = self.backups.before_write, self.backups.reclaim
        self._now = context.now
        self.health = Health(folder, catalog, clock)
        self.api = DatabaseApi(self.placement, self.streams, self.tokens, self.health, self._stopped, context)
        self._stopping = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_forever, name="pipemagic-sweeper", daemon=True)

    # Start, stop and time limits.

    def start(self) -> None:
        """Continue unfinished copies, and start the sweeper, which enforces the time limits when no request arrives."""
        self._sweeper.start()
        self._unopened = list(self._catalog.replicated())
        self.replicator.schedule(self._open_next)
        self.replicator.start()

    def _open_next(self) -> float | None:
        if self._unopened:
            self._open(self._unopened.pop(0))
        return 0.0 if self._unopened else None

    def close(self) -> None:
        """Interrupt running statements, roll back open transactions, close all files."""
        self._stopping.set()
        if self._sweeper.is_alive():
            self._sweeper.join()
        self.streams.end_all()
        self.replicator.close()
        self.backups.close()
        self.databases.close()

    def sweep(self) -> None:
        """Enforce the time limits once, now."""
        now = self._clock()
        self.streams.sweep()
        check_space()
        self.databases.truncate_large_wals()
        self.databases.expire(now)
        self.databases.trim(now)
        self.reopen()
        self.meter.sweep(now)

    def _sweep_forever(self) -> None:
        wait = SWEEP_EVERY
        while not self._stopping.wait(wait):
            try:
                self.sweep()
                wait = self._until_due()
            except Exception:  # any error: without the sweeper no time limit would be enforced
                log.exception("an error in the sweep of the streams; the next sweep follows")
                wait = SWEEP_EVERY

    def _until_due(self) -> float:
        """Return the seconds until the next sweep."""
        deadlines = (self.streams.next_deadline(), self.databases.next_deadline())
        times = [max(SWEEP_PAUSE, deadline - self._clock()) for deadline in deadlines if deadline is not None]
        return min([SWEEP_EVERY, *times])

    # Routes, metrics and content.

    def routes(self, runtime: Runtime) -> list[BaseRoute]:
        """Return the routes of the database API and of its description."""
        described = GreetingEndpoint(runtime, lambda *_: json(openapi.description()))
        return [*self.database_routes(runtime), Route(openapi.PATH, described)]

    def database_routes(self, runtime: Runtime) -> list[BaseRoute]:
        """Return the routes of the database API."""
        return [*self.api.routes(runtime), *self.transfers.routes(runtime)]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of streams, databases, replicas and stopped statements."""
        yield from collect_embedded(self.streams, self.databases.in_use(), self._limits)
        yield self._stopped.collect()

    @contextmanager
    def seed(self, original: DatabaseRecord | None, moment: float | None = None) -> Iterator[Seed]:
        """Yield what puts a copy of ``original`` in place, or marks the database as awaiting its file."""
        if original is None:
            with self._prepared(self.databases.await_upload) as prepare:
                yield Seed(prepare)
            return
        self.meter.organization_block(original.organization).check(writes=True)
        with self._copy(original, moment) as (copy, moment):
            place = partial(self.databases.place, file=copy)
            with self._prepared(place) as prepare:
                yield Seed(prepare, moment)

    @contextmanager
    def _copy(self, original: DatabaseRecord, moment: float | None) -> Iterator[tuple[Path, float]]:
        """Provide a copy of a database as a temporary file, with the moment of its content."""
        if moment is not None:
            with self.backups.content_at(original, moment) as content:
                yield content
            return
        begin = self._now()
        with self.transfers.copy(original, lambda: False) as copy:
            yield copy, begin

    @contextmanager
    def _prepared(self, prepare: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
        """Yield ``prepare``; if the creation fails afterwards, or it fails itself, its files are removed."""
        identifiers = []

        def prepare_and_record(database: str) -> None:
            identifiers.append(database)
            prepare(database)

        try:
            yield prepare_and_record
        except BaseException:
            for identifier in identifiers:
                self.databases.discard(identifier)
            raise

    # Databases, and their instances.

    def size(self, database: str) -> int:
        """Return the bytes of a database and its backups, by its id."""
        return self.databases.size(database) + self.backups.size(database)

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
                self.streams.end_all(database, error=error)
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
            self.streams.end_all(database)

    def configure(self, record: DatabaseRecord) -> None:
        """End what runs on a database that may no longer be read: statements, cursors, transactions, waits."""
        database = self.databases.get(record.id)
        if database is not None and record.configuration.block_reads:
            reason = f"{self.meter.block(record).reads}; this statement was not applied, and an open transaction is"
            error = Error(f"{OPERATION_BLOCKED}: {reason} rolled back", BLOCKED)
            self.streams.end_all(database, error=error)

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

    def _replicate(self, database: OpenDatabase, record: DatabaseRecord) -> None:
        """Create and remove replicas of a database so that they match its record."""
        codes = record.locations[1:]
        paused = database.code in record.paused
        if paused and not database.paused:
            database.paused = True
            self.streams.end_all(at=database)
        database.paused = paused
        replicas = database.observer
        if codes:
            if replicas is None:
                replicas = ReplicaSet(database, self.replicator, lambda replica: self.streams.end_all(at=replica))
            assert isinstance(replicas, ReplicaSet)
            replicas.update(codes, record.paused, record.stalled)
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
                self._replicate(database, record)

    def status(self, record: DatabaseRecord) -> dict[str, InstanceStatus]:
        """Return the state of each instance of a database, the primary first."""
        return self.placement.status(record)

    def states(self, group: GroupRecord) -> dict[str, str]:
        """Return the state of each location of a group: the worst state of its databases there."""
        states = {code: "paused" if code in group.paused else "ok" for code in group.locations}
        for record in self._catalog.databases(group.organization, group.name):
            for code, replica in self.status(record).items():
                if states.get(code) == "ok":
                    states[code] = replica.state
        return states

    def wait_for_replicas(self, group: GroupRecord, code: str, timeout: float) -> list[Waiter]:
        """Return waiters that are granted when the group's replicas at a location are up to date."""
        waiters, deadline = [], self._clock() + timeout
        for database, _ in self._open_group(group):
            replica = replicas_of(database).get(code)
            if replica is not None:
                waiters.append(replica.wait_for(database.index, deadline))
        return waiters
