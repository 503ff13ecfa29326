"""Connections that are kept for the next stream: their time and their number."""

from __future__ import annotations

import pytest
from service_calls import caller_of

from pipemagic.service.sqlite import databases

MOST = 3


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(databases, "MOST_IDLE", MOST)


def kept(service):
    """Count the connections that are kept, by database."""
    counts = {}
    for record in service.catalog.databases("local"):
        database = service.engine.databases.get(record.id)
        counts[record.name] = 0 if database is None else len(database.pool.idle())
    return counts


def test_the_connections_idle_longest_are_closed_when_all_databases_keep_too_many(service, clock):
    callers = [caller_of(service, f"d{number}") for number in range(MOST + 2)]
    for caller in callers:
        caller.run("SELECT 1")
        clock.advance(1)
    callers[0].run("SELECT 1")
    service.engine.sweep()
    assert kept(service) == {"d0": 1, "d1": 0, "d2": 0, "d3": 1, "d4": 1}
    assert all(caller.run("SELECT 1").codes == ["ok", "ok"] for caller in callers)


def test_an_idle_connection_is_closed(service, clock):
    caller_of(service, "d0").run("SELECT 1")
    clock.advance(databases.IDLE_TIME)
    service.engine.sweep()
    assert kept(service) == {"d0": 1}
    clock.advance(0.1)
    service.engine.sweep()
    assert kept(service) == {"d0": 0}
