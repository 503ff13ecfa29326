"""The schema cache: read in the background, updated by DDL, silent once closed."""

from __future__ import annotations

import threading

import pytest
from scripted_server import ScriptedServer, as_json, entry, error_entry, good

from pipemagic import sql
from pipemagic.client.database import Database
from pipemagic.errors import StatementError
from pipemagic.explore.schema import Relation, Schema
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection, Session
from pipemagic.session.schema_cache import CHECK_EVERY, SchemaCache


class Server:
    """The server of a cache, with a gate that delays the responses."""

    def __init__(self):
        self.version, self.relations, self.reads, self.checks = 1, (Relation("city"),), 0, 0
        self.gate = threading.Event()
        self.gate.set()

    def read(self, known):
        if known is not None:
            self.checks += 1
            if known == self.version:
                return None
        self.reads += 1
        assert self.gate.wait(30)
        return Schema(self.version, self.relations)


def started(clock):
    server = Server()
    cache = SchemaCache(server.read, clock)
    cache.start()
    assert cache.ready.wait(30)
    return server, cache


def names(cache):
    return sorted(relation.name for relation in cache.tables)


def run(cache, text, transaction=Tx.NONE):
    cache.update(sql.split(text), transaction)
    assert cache.ready.wait(30)


def test_no_request_is_sent_before_the_start(clock):
    server = Server()
    cache = SchemaCache(server.read, clock)
    cache.update(sql.split("CREATE TABLE t (a)"), Tx.NONE)
    assert (server.reads, names(cache)) == (0, ["t"])


def test_the_cache_keeps_the_old_schema_until_the_new_one_is_read(clock):
    server, cache = started(clock)
    server.gate.clear()
    server.version, server.relations = 2, (Relation("town"),)
    cache.refresh()
    cache.refresh()
    cache.refresh()
    assert names(cache) == ["city"]
    server.gate.set()
    assert cache.ready.wait(30)
    assert names(cache) == ["town"]
    assert server.reads <= 3  # the first one, the running one, and one for all refreshes meanwhile


def test_the_version_is_checked_at_intervals(clock):
    server, cache = started(clock)
    run(cache, "SELECT 1")
    assert (server.reads, server.checks) == (1, 0)
    clock.advance(CHECK_EVERY)
    run(cache, "SELECT 1")
    assert (server.reads, server.checks) == (1, 1)
    clock.advance(CHECK_EVERY)
    server.version, server.relations = 2, (Relation("town"),)
    run(cache, "SELECT 1")
    assert (server.reads, server.checks, names(cache)) == (2, 2, ["town"])


def test_ddl_is_applied_before_the_next_read(clock):
    _, cache = started(clock)
    run(cache, "BEGIN; CREATE TABLE t (a); DROP TABLE city", Tx.OPEN)
    assert names(cache) == ["t"]
    run(cache, "ROLLBACK")
    assert names(cache) == ["city"]
    run(cache, "CREATE TEMP TABLE x (a)")
    assert names(cache) == ["city", "x"]
    cache.forget_temporary()
    assert names(cache) == ["city"]


def test_a_closed_cache_reads_nothing_and_ignores_responses(clock):
    server, cache = started(clock)
    server.gate.clear()
    server.version, server.relations = 2, (Relation("town"),)
    cache.refresh()
    cache.close()
    server.gate.set()
    cache.ready.wait(30)
    assert names(cache) == ["city"]
    reads = server.reads
    cache.refresh()
    assert server.reads == reads


def test_an_error_keeps_the_cached_schema(clock):
    server, cache = started(clock)
    server.read = None
    cache._read = lambda known: 1 / 0
    cache.refresh()
    assert cache.ready.wait(30)
    assert names(cache) == ["city"]


@pytest.mark.parametrize("text", ["SELECT * FROM citty", "SELECT name FROM city AS a, city AS b"])
def test_an_error_message_waits_only_briefly_for_the_schema(text, monkeypatch):
    monkeypatch.setattr("pipemagic.session.schema_cache.WAIT", 0.3)
    answered = threading.Event()

    def answer(call):
        if text in str(call.json):
            error = "ambiguous column name: name" if "AS" in text else "no such table: citty"
            return as_json({"baton": "b", "results": [error_entry(error, "SQL_INPUT_ERROR"), *good_entries(call)]})
        assert answered.wait(30)  # the schema
        return good(call)

    server = ScriptedServer(answer)
    try:
        with Session(environ={}) as session:
            connection = session.adopt(Connection("main", Database(server.url, "token"), "a test"))
            with pytest.raises(StatementError):
                session.run_cell(text)
            assert not connection.schema.ready.is_set()  # the message came first
            connection.schema.close()
            answered.set()
            assert connection.schema.ready.wait(30)
    finally:
        answered.set()
        server.close()


def good_entries(call):
    """The entries for the requests after the first one."""
    return [entry(request) for request in call.json["requests"][1:]]


def test_an_error_message_waits_for_a_read_that_runs(clock):
    """A load has just created a table: its columns are known to the hint of the next cell."""
    server, cache = started(clock)
    server.gate.clear()
    server.version, server.relations = 2, (Relation("city"), Relation("made by a load"))
    cache.refresh()
    opened = threading.Timer(0.05, server.gate.set)
    opened.start()
    assert [relation.name for relation in cache.tables_soon()] == ["city", "made by a load"]
    opened.join()
    assert server.reads == 2
