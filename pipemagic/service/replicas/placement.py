"""The instances of databases: which one serves a request, its state and its distance."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.database_api.stream import ServerStream
from pipemagic.service.engine import InstanceStatus
from pipemagic.service.hosting import LOCAL_DOMAIN, host_of, origin_of
from pipemagic.service.locations import nearest, round_trip
from pipemagic.service.replicas.replica import Replica
from pipemagic.service.replicas.replica_set import replicas_of
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.database import OpenDatabase
from pipemagic.service.sqlite.databases import Databases

MAX_LAG = 10.0
"""Seconds that a healthy instance may be behind its primary."""

DatabaseInstance = OpenDatabase | Replica


class Placement:
    """Selects the instances of the open databases. ``here`` is the code of the location that requests come from."""

    def __init__(
        self, databases: Databases, catalog: Catalog, *, here: str | None = None, simulate_latency: bool = False
    ) -> None:  # fmt: skip
        self._databases, self._catalog, self._here = databases, catalog, here
        self.simulates_latency = simulate_latency
        """True if responses are delayed by the distance to their instance."""

    # The instance for a new stream.

    def choose(self, record: DatabaseRecord, request: Request) -> tuple[OpenDatabase, DatabaseInstance]:
        """Return the database, and its instance at the address of a request or, without one, the nearest ready one.

        Raise `Refused` (503) if that one is paused or not ready, or if none is ready.
        """
        database = self._databases.get(record.id) or self._databases.open(record)
        if database.observer is None and not database.paused:
            return database, database
        instances: dict[str, DatabaseInstance] = {database.code: database, **replicas_of(database)}
        code = self.code_of(record, host_of(request.headers.get("host", "")))
        if code is not None:
            return database, self._named(instances, code)
        for near in nearest(self._here, instances) if self._here else instances:
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
        if self._here is None:
            return 0.0
        onward = round_trip(stream.entry, stream.database.code) if stream.place is stream.database else 0.0
        return round_trip(self._here, stream.entry) + onward

    def distance(self, record: DatabaseRecord, host: str) -> float:
        """Return the round trip to the instance at an address in seconds; 0 for the address of the database."""
        code = self.code_of(record, host) if self.simulates_latency else None
        return 0.0 if code is None or self._here is None else round_trip(self._here, code)

    # The states of the instances.

    def status(self, record: DatabaseRecord) -> dict[str, InstanceStatus]:
        """Return the state of each instance of a database, the primary first."""
        database = self._databases.get(record.id)
        primary, *others = record.locations
        state = "paused" if primary in record.paused else "ok"
        index = self._catalog.reserved_index(record.id) if database is None else database.index
        statuses = {primary: InstanceStatus(primary, "primary", index, 0.0, state)}
        replicas = {} if database is None else replicas_of(database)
        for code in others:
            statuses[code] = _replica_status(code, replicas.get(code), paused=code in record.paused)
        return statuses

    def healthy(self, record: DatabaseRecord, code: str | None) -> bool:
        """Return True if an instance is ready and not far behind; with None, if any instance is."""
        states = {replica.code: replica.state for replica in self.status(record).values()}
        return states.get(code) == "ok" if code is not None else "ok" in states.values()


def _is_ready(instance: DatabaseInstance) -> bool:
    return instance.pool is not None and not instance.paused


def _replica_status(code: str, replica: Replica | None, *, paused: bool) -> InstanceStatus:
    """Return the state of a replica; it is None if the database was not opened since the start."""
    if replica is None:
        return InstanceStatus(code, "replica", 0, 0.0, "paused" if paused else "copying")
    lag = replica.lag()
    lags = replica.stalled or lag > MAX_LAG
    state = "lagging" if replica.state == "ok" and lags else replica.state
    return InstanceStatus(code, "replica", replica.index, round(lag, 3), state)


def _label(host: str) -> str:
    return host.partition(".")[0]
