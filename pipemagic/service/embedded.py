"""The embedded engine: databases in SQLite files of the data folder, served by this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from prometheus_client.core import Metric
from starlette.routing import BaseRoute, Route

from pipemagic.service.api import openapi
from pipemagic.service.auth.tokens import TokenAuthority
from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.database_api.endpoints import DatabaseApi, GreetingEndpoint
from pipemagic.service.database_api.streams import StreamTable
from pipemagic.service.endpoint import Runtime
from pipemagic.service.engine import EngineContext
from pipemagic.service.health import Health
from pipemagic.service.metrics import collect_embedded
from pipemagic.service.replicas.placement import Placement
from pipemagic.service.responses import json
from pipemagic.service.sqlite.connection import running
from pipemagic.service.stopped_statements import StoppedStatements
from pipemagic.service.transfer.endpoints import Transfers

log = logging.getLogger(__name__)

SWEEP_PAUSE = 0.05
"""Seconds at least between two sweeps: each one checks all streams, of which many may expire one after the other."""
SWEEP_EVERY = 1.0  # seconds between two sweeps at most; no time limit is shorter


class EmbeddedEngine(Placement):
    """Serves the database HTTP API over the files, with their replicas, and enforces the time limits."""

    def __init__(
        self, context: EngineContext, *, here: str | None = None, simulate_latency: bool = False, unicode: bool = False
    ) -> None:  # fmt: skip
        folder, catalog, limits, clock = context.folder, context.catalog, context.limits, context.clock
        catalog.finish_deletions(folder / "databases")
        self.tokens = TokenAuthority(folder, catalog, context.now, context.random)
        self.streams = StreamTable(clock, context.random, limits)
        super().__init__(context, self.streams, here=here, simulate_latency=simulate_latency, unicode=unicode)
        self._limits, self.meter, self._stopped = limits, context.meter, StoppedStatements()
        self.transfers = Transfers(folder / "transfers", self.databases, self.tokens, self.meter, limits)
        self.health = Health(folder, catalog, clock)
        self.api = DatabaseApi(self, self.streams, self.tokens, self.health, self._stopped, context)
        self._stopping = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_forever, name="pipemagic-sweeper", daemon=True)

    # Start, stop and time limits.

    def start(self) -> None:
        """Start the replication, and the sweeper, which enforces the time limits when no request arrives."""
        self._sweeper.start()
        super().start()

    def close(self) -> None:
        """Interrupt running statements, roll back open transactions, close all files."""
        self._stopping.set()
        if self._sweeper.is_alive():
            self._sweeper.join()
        self.streams.end_all()
        super().close()
        self.databases.close()

    def sweep(self) -> None:
        """Enforce the time limits once, now."""
        now = self._clock()
        self.streams.sweep()
        for connection in running():  # a sort may write gigabytes before its progress handler checks this
            connection.check_space()
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
    def seed(self, original: DatabaseRecord | None) -> Iterator[Callable[[str], None]]:
        """Yield a function that puts a copy of ``original`` in place, or marks the database as awaiting its file."""
        if original is None:
            with self._prepared(self.databases.await_upload) as prepare:
                yield prepare
            return
        self.meter.organization_block(original.organization).check(writes=True)
        with self.transfers.copy(original, lambda: False) as copy:
            place = partial(self.databases.place, file=copy)
            with self._prepared(place) as prepare:
                yield prepare

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
