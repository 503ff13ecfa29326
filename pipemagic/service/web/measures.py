"""What ``/metrics`` shows of streams, databases and replicas. No label names a database: there may be many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipemagic.service.embedded.primaries import OpenDatabase
from pipemagic.service.embedded.replication.replica import Replica
from pipemagic.service.embedded.streams import StreamTable
from pipemagic.service.limits import Limits
from pipemagic.service.web.exposition import Page


def measure_streams(page: Page, streams: StreamTable, limits: Limits) -> None:
    """Say how many streams there are, and may be."""
    census = streams.census()
    page.gauge("pipemagic_streams_open", "Open streams.", census.open)
    page.gauge("pipemagic_streams_limit", "Streams that may be open at once.", limits.streams)
    page.gauge("pipemagic_transactions_open", "Streams with an open transaction.", census.transactions)


def measure_databases(page: Page, databases: Sequence[OpenDatabase]) -> None:
    """Say how busy the databases are, and how their replicas keep up."""
    waiting = sum(database.writers.waiting for database in databases)
    page.gauge("pipemagic_writers_waiting", "Requests that wait for the writer's turn.", waiting)
    page.gauge("pipemagic_databases_in_use", "Databases whose files are open.", len(databases))
    _measure_replicas(page, [replica for database in databases for replica in list(database.replicas.values())])


def _measure_replicas(page: Page, replicas: Sequence[Replica]) -> None:
    states = Counter((replica.code, replica.state.value) for replica in replicas)
    lags: dict[str, float] = {}
    for replica in replicas:
        lags[replica.code] = max(lags.get(replica.code, 0.0), replica.lag())
    page.family(
        "pipemagic_replicas", "gauge", "Replicas of databases in use.",
        [({"location": code, "state": state}, count) for (code, state), count in sorted(states.items())],
    )  # fmt: skip
    page.family(
        "pipemagic_replica_lag_seconds", "gauge", "How long the oldest commit that a replica lacks has waited.",
        [({"location": code}, lag) for code, lag in sorted(lags.items())],
    )  # fmt: skip
