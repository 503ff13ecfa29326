"""The page ``/metrics``: requests so far, and the state of streams, databases and the process when it is read.

Only ``pipemagic_statements_stopped_total`` names databases and accounts, in at most `stopped_statements.MOST_SERIES`
series, so their number does not grow with use. The page is for the operator of the service, who may see all names.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import apsw
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipemagic.service.replicas.replica_set import replicas_of
from pipemagic.version import __version__

if TYPE_CHECKING:
    from pipemagic.service.database_api.streams import StreamTable
    from pipemagic.service.executor import Executor
    from pipemagic.service.limits import Limits
    from pipemagic.service.replicas.replica import Replica
    from pipemagic.service.sqlite.database import OpenDatabase

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds, in seconds, of the histogram of durations."""

_ROUTES = frozenset({
    "/v2/pipeline", "/v3/pipeline", "/v3/cursor", "/v1/execute", "/v1/batch", "/v2", "/v3", "/version", "/health",
    "/metrics", "/openapi.json",
})  # fmt: skip
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """Counts requests and renders the page; ``collectors`` add their families to it.

    Thread-safe: requests are recorded in the event loop, and the page is rendered in a worker thread.
    """

    def __init__(self, *collectors: Collector) -> None:
        self._registry = registry = _Registry()
        Info("pipemagic_build", "Versions of pipemagic and SQLite.", registry=registry).info(
            {"version": __version__, "sqlite": apsw.sqlite_lib_version()}
        )
        self._requests = Counter(
            "pipemagic_http_requests_total", "Requests; status 499: the client disconnected before the response.",
            ("method", "route", "status"), registry=registry,
        )  # fmt: skip
        self._durations = Histogram(
            "pipemagic_http_request_duration_seconds", "Time from the head of a request to the end of its response.",
            ("route",), registry=registry, buckets=BUCKETS,
        )  # fmt: skip
        self._received = Counter("pipemagic_http_received_bytes_total", "Bytes of request bodies.", registry=registry)
        self._sent = Counter("pipemagic_http_sent_bytes_total", "Bytes of response bodies.", registry=registry)
        self.in_flight = Gauge("pipemagic_http_requests_in_flight", "Requests without a response.", registry=registry)
        self.add_gauge("pipemagic_sqlite_memory_bytes", "Memory that SQLite uses.", apsw.memory_used)
        self.add_gauge(
            "pipemagic_sqlite_memory_limit_bytes", "Memory that SQLite may use.", lambda: apsw.hard_heap_limit(-1)
        )
        for collector in collectors:
            registry.register(collector)
        ProcessCollector(registry=registry)
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def record(self, method: str, path: str, status: int, seconds: float, received: int, sent: int) -> None:
        """Count a finished request that took ``seconds``; ``received`` and ``sent`` are the bytes of the bodies."""
        route = path if path in _ROUTES else route_of(path)
        key = (method if method in _METHODS else "other", route, status)
        children = self._children.get(key)
        if children is None:  # labels() costs more than the rest of this method
            children = self._children[key] = (self._requests.labels(*key), self._durations.labels(key[1]))
        requests, durations = children
        requests.inc()
        durations.observe(seconds)
        if received:
            self._received.inc(received)
        if sent:
            self._sent.inc(sent)

    def add_gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a gauge with a value that is determined when the page is rendered."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def add_abandoned(self, executor: Executor) -> None:
        """Add the statements that were given up: how many so far, and how many threads have not returned."""
        self._registry.register(_Abandoned(executor))

    def page(self) -> bytes:
        """Return the page in the text format of Prometheus, `CONTENT_TYPE`."""
        return generate_latest(self._registry)


def route_of(path: str) -> str:
    """Return the route of a path: the path itself if it is one of a few, otherwise the route of its family."""
    if path in _ROUTES:
        return path
    if path.startswith("/v1/"):
        return "/v1/*"
    return "/pipemagic/*" if path.startswith("/pipemagic/") else "other"


class _Abandoned(Collector):
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "pipemagic_statements_abandoned", "Statements that were still running 10 s after they were stopped.",
            self._executor.abandoned,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "pipemagic_statements_abandoned_running", "Abandoned statements that are still running; each uses a core.",
            len(self._executor.lost),
        )  # fmt: skip


class _Registry(CollectorRegistry):
    """A registry without ``_created`` series, which would double the number of counters.

    The library has only a switch for the whole process, which would change the metrics of other code in it.
    """

    def collect(self) -> Iterator[Metric]:
        """Yield the families of all collectors."""
        for family in super().collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


def collect_embedded(streams: StreamTable, databases: Sequence[OpenDatabase], limits: Limits) -> Iterator[Metric]:
    """Yield the families of a service over SQLite files; ``databases`` are those in use."""
    waiting = sum(len(database.write_lock.waiters()) for database in databases)
    gauge = GaugeMetricFamily
    yield gauge("pipemagic_streams_open", "Open streams.", len(streams))
    yield gauge("pipemagic_streams_limit", "Maximum number of open streams.", limits.streams)
    yield gauge("pipemagic_transactions_open", "Streams with an open transaction.", streams.count_transactions())
    yield gauge("pipemagic_writers_waiting", "Requests that wait for a write lock.", waiting)
    yield gauge("pipemagic_databases_in_use", "Databases with open files.", len(databases))
    yield from _collect_replicas(
        [replica for database in databases for replica in list(replicas_of(database).values())]
    )


def _collect_replicas(replicas: Sequence[Replica]) -> Iterator[Metric]:
    states = GaugeMetricFamily(
        "pipemagic_replicas", "Replicas of databases in use, by location and state.", labels=("location", "state")
    )
    lags = GaugeMetricFamily(
        "pipemagic_replica_lag_seconds", "Age of the oldest commit that a replica lacks, the largest of the location.",
        labels=("location",),
    )  # fmt: skip
    longest: dict[str, float] = {}
    for replica in replicas:
        longest[replica.code] = max(longest.get(replica.code, 0.0), replica.lag())
    for place, count in sorted(Tally((replica.code, replica.state) for replica in replicas).items()):
        states.add_metric(place, count)
    for code, lag in sorted(longest.items()):
        lags.add_metric((code,), lag)
    yield states
    yield lags
