"""The embedded service: databases in SQLite files of a data folder, and the management API over them."""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.core import Metric
from starlette.routing import BaseRoute, Route

from pipemagic.service import management, openapi
from pipemagic.service.auth.logins import Logins
from pipemagic.service.auth.tokens import Tokens
from pipemagic.service.budgets import MemoryBudget
from pipemagic.service.database_api.endpoints import DatabaseApi, GreetingEndpoint
from pipemagic.service.database_api.streams import StreamTable
from pipemagic.service.endpoint import Runtime
from pipemagic.service.health import Health
from pipemagic.service.hosting import LOCAL_DOMAIN, LOOPBACK_HOSTS
from pipemagic.service.limits import Limits
from pipemagic.service.management.routing import Platform
from pipemagic.service.metrics import collect_embedded
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.quotas import Meter
from pipemagic.service.registry.records import DatabaseRecord
from pipemagic.service.replicas.placement import Placement
from pipemagic.service.responses import Refused, json
from pipemagic.service.sqlite.databases import Databases
from pipemagic.service.transfer.endpoints import Transfers

log = logging.getLogger(__name__)

SWEEP_PAUSE = 0.05
"""Seconds at least between two sweeps: each one checks all streams, of which many may expire one after the other."""
SWEEP_EVERY = 1.0  # seconds between two sweeps at most; no time limit is shorter


class Service:
    """Management API and database HTTP API over one data folder."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
        limits: Limits | None = None,
        domain: str = "localhost",
        here: str | None = None,
        simulate_latency: bool = False,
        signup: bool = True,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.limits = limits or Limits()
        self.folder = folder
        self.domain = domain
        self.own_hosts = LOOPBACK_HOSTS | {domain}
        self._clock = clock
        self._files = folder / "databases"
        self.catalog = Catalog(folder / "catalog.sqlite", domain=domain, now=now)
        self.catalog.finish_deletions(self._files)
        self.tokens = Tokens(folder, self.catalog, now, random)
        self.streams = StreamTable(clock, random, self.limits)
        self.placement = Placement(
            lambda: self.databases, self.streams, self.catalog, self.limits, clock,
            here=here, simulate_latency=simulate_latency,
        )  # fmt: skip
        self.databases = Databases(self._files, self.catalog, self.limits, clock, self.placement.replicate)
        self.meter = Meter(self.catalog, now=now, size=self.databases.size)
        self.logins = Logins(self.catalog, self.tokens, clock=clock, random=random, signup=signup)
        self.transfers = Transfers(folder / "transfers", self.databases, self.tokens, self.meter, self._size_limit)
        self.platform = Platform(
            self.catalog, self.tokens, self.logins, self.meter, on_delete=self._deleted, transfers=self.transfers,
            on_locations=self.placement.sync, on_rotate=self._rotated, engine=self.placement,
        )  # fmt: skip
        self.health = Health(folder, self.catalog, clock)
        self.api = DatabaseApi(
            self.placement, self.streams, self.tokens, self.meter, self.health, clock, self.limits,
            MemoryBudget(self.limits.responses),
        )  # fmt: skip
        self._stopping = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_forever, name="pipemagic-sweeper", daemon=True)

    # Start, stop and time limits.

    def start(self) -> None:
        """Start the sweeper, which enforces the time limits when no request arrives."""
        self._sweeper.start()
        self.placement.start()

    def close(self) -> None:
        """Interrupt running statements, roll back open transactions, close all files."""
        self._stopping.set()
        if self._sweeper.is_alive():
            self._sweeper.join()
        self.streams.end_all()
        self.placement.close()
        self.databases.close()
        self.meter.flush()
        self.catalog.close()

    def sweep(self) -> None:
        """Enforce the time limits once, now."""
        now = self._clock()
        self.streams.sweep()
        self.databases.expire(now)
        self.databases.trim(now)
        self.meter.sweep(now)

    def _sweep_forever(self) -> None:
        wait = SWEEP_EVERY
        while not self._stopping.wait(wait):
            try:
                self.sweep()
                wait = self._until_due()
            except Exception:  # any error: without the sweeper no time limit would be enforced
                log.exception("the sweep of the streams met an error; it goes on")
                wait = SWEEP_EVERY

    def _until_due(self) -> float:
        """Return the seconds until the next sweep."""
        deadlines = (self.streams.next_deadline(), self.databases.next_deadline())
        times = [max(SWEEP_PAUSE, one - self._clock()) for one in deadlines if one is not None]
        return min([SWEEP_EVERY, *times])

    def _deleted(self, record: DatabaseRecord) -> None:
        self.placement.drop(record)
        # On Windows, files that are open stay until the next start removes them: the catalog records deletions.
        shutil.rmtree(self._files / record.id, ignore_errors=True)

    def _rotated(self, record: DatabaseRecord) -> None:
        database = self.databases.get(record.id)
        if database is not None:
            self.streams.end_all(database)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of streams, databases and replicas."""
        return collect_embedded(self.streams, self.databases.in_use(), self.limits)

    # Routes.

    def routes(self, runtime: Runtime) -> list[BaseRoute]:
        """Return the routes at the service's own address."""
        described = GreetingEndpoint(runtime, lambda *_: json(openapi.description()))
        return [
            *self.database_routes(runtime), Route(openapi.PATH, described), *management.routes(runtime, self.platform),
        ]  # fmt: skip

    def database_routes(self, runtime: Runtime) -> list[BaseRoute]:
        """Return the routes at the addresses of databases."""
        return [*self.api.routes(runtime), *self.transfers.routes(runtime)]

    def recall_host(self, host: str) -> DatabaseRecord | None:
        """Return the database of a host name from memory; None if `find_host` must be called."""
        return self.catalog.database_by_host(host, remembered=True)

    def find_host(self, host: str) -> DatabaseRecord:
        """Return the database of a host name; raise `Refused` (404, 421) if there is none."""
        if not host.endswith((f".{self.domain}", f".{LOCAL_DOMAIN}")):
            raise Refused(421, f"this service does not serve the host {host[:100]!r}")
        record = self.catalog.database_by_host(host)
        if record is None:
            raise Refused(404, f"there is no database at {host[:100]!r}")
        return record

    def _size_limit(self, record: DatabaseRecord) -> int | None:
        return self.limits.size_of(record.configuration.size_limit)
