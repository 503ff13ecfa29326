"""The service: the catalog of a data folder, the management API over it, and the engine that holds the databases."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.routing import BaseRoute

from pipemagic.service import api
from pipemagic.service.api.operations import ServiceParts
from pipemagic.service.auth.codes import Codes
from pipemagic.service.auth.logins import Logins
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.catalog.usage import UsageMeter
from pipemagic.service.embedded import EmbeddedEngine
from pipemagic.service.endpoint import Runtime
from pipemagic.service.engine import Engine, EngineContext
from pipemagic.service.hosting import LOCAL_DOMAIN, LOOPBACK_HOSTS
from pipemagic.service.limits import Limits
from pipemagic.service.responses import Refused


class Service(Collector):
    """Connects the parts of the service over one data folder.

    ``domain`` is the name of the service, ``database_domain`` the one that the names of databases are below, if that
    is another one.
    """

    def __init__(
        self,
        folder: Path,
        engine: Callable[[EngineContext], Engine] = EmbeddedEngine,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
        limits: Limits | None = None,
        domain: str = LOCAL_DOMAIN,
        database_domain: str | None = None,
        signup: bool = False,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.limits = limits or Limits()
        self.own_hosts = LOOPBACK_HOSTS | {domain}
        self.catalog = Catalog(folder / "catalog.sqlite", domain=database_domain or domain, now=now)
        self.meter = UsageMeter(self.catalog.usage, now=now, size=lambda database: self.engine.size(database))
        self.engine = engine(EngineContext(folder, self.catalog, self.meter, self.limits, clock, now, random))
        self.tokens = self.engine.tokens
        self.logins = Logins(self.catalog, self.tokens, clock=clock, random=random, signup=signup)
        codes = Codes(self.catalog, self.tokens, clock=clock, now=now, random=random)
        self.parts = ServiceParts(self.catalog, self.tokens, self.logins, codes, self.meter, self.engine)

    def start(self) -> None:
        """Start the engine."""
        self.engine.start()

    def close(self) -> None:
        """End the engine, write what was counted, and close the catalog."""
        self.engine.close()
        self.meter.flush()
        self.catalog.close()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the engine and of the data folder."""
        yield from self.engine.collect()
        with suppress(OSError):
            free = shutil.disk_usage(self.folder).free
            yield GaugeMetricFamily("pipemagic_data_free_bytes", "Free disk space for the data folder.", free)

    def routes(self, runtime: Runtime) -> list[BaseRoute]:
        """Return the routes at the service's own address."""
        return [*self.engine.routes(runtime), *api.routes(runtime, self.parts)]

    def recall_host(self, host: str) -> DatabaseRecord | None:
        """Return the database of a host name from memory; None if `find_host` must be called."""
        return self.catalog.database_by_host(host, remembered=True)

    def find_host(self, host: str) -> DatabaseRecord:
        """Return the database of a host name; raise `Refused` (404, 421) if there is none."""
        if not host.endswith((f".{self.catalog.domain}", f".{LOCAL_DOMAIN}")):
            raise Refused(421, f"this service does not serve the host {host[:100]!r}")
        record = self.catalog.database_by_host(host)
        if record is None:
            raise Refused(404, f"there is no database at {host[:100]!r}")
        return record
