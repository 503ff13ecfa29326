"""The cache of a schema: never waited for, read again when it has to be, quiet once it is closed."""

from __future__ import annotations

import threading
import time

import pytest
from scripted_server import ScriptedServer, as_json, entry, error_entry, good

from pipemagic import sql
from pipemagic.client.database import Database
from pipemagic.errors import StatementError
from pipemagic.explore.shapes import Shape, declared
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection, Session
from pipemagic.session.schema_cache import CHECK_EVERY, SchemaCache


class Server:
    """What a cache asks, with a gate that holds the answers back."""

    def __init__(self):
        self.version, self.shapes, self.reads, self.checks = 1, [Shape("city")], 0, 0
        self.gate = threading.Event()
        self.gate.set()

    def read(self, known):
        if known is not None:
            self.checks += 1
            if known == self.version:
                return None
        self.reads += 1
        assert self.gate.wait(30)
        return self.version, list(self.shapes)


def started(clock):
    server = Server()
    cache = SchemaCache(server.read, clock)
    cache.start()
    assert cache.ready.wait(30)
    return server, cache


def names(cache):
    return sorted(shape.name for shape in cache.tables)


def follow(cache, text, transaction=Tx.NONE):
    cache.follow(sql.split(text), transaction)
    assert cache.ready.wait(30)


def test_nothing_is_asked_before_the_start(clock):
    server = Server()
    cache = SchemaCache(server.read, clock)
    cache.follow(sql.split("CREATE TABLE t (a)"), Tx.NONE)
    assert (server.reads, names(cache)) == (0, ["t"])


def test_the_old_names_stay_while_new_ones_are_read(clock):
    server, cache = started(clock)
    server.gate.clear()
    server.version, server.shapes = 2, [Shape("town")]
    cache.refresh()
    cache.refresh()
    cache.refresh()
    assert names(cache) == ["city"]
    server.gate.set()
    assert cache.ready.wait(30)
    assert names(cache) == ["town"]
    assert server.reads <= 3  # the first one, one under way, and one for all requests meanwhile


def test_the_version_is_compared_now_and_then(clock):
    server, cache = started(clock)
    follow(cache, "SELECT 1")
    assert (server.reads, server.checks) == (1, 0)
    clock.advance(CHECK_EVERY)
    follow(cache, "SELECT 1")
    assert (server.reads, server.checks) == (1, 1)
    clock.advance(CHECK_EVERY)
    server.version, server.shapes = 2, [Shape("town")]
    follow(cache, "SELECT 1")
    assert (server.reads, server.checks, names(cache)) == (2, 2, ["town"])


def test_own_changes_count_before_the_answer(clock):
    _, cache = started(clock)
    follow(cache, "BEGIN; CREATE TABLE t (a); DROP TABLE city", Tx.OPEN)
    assert names(cache) == ["t"]
    follow(cache, "ROLLBACK")
    assert names(cache) == ["city"]
    follow(cache, "CREATE TEMP TABLE x (a)")
    assert names(cache) == ["city", "x"]
    cache.forget_temporary()
    assert names(cache) == ["city"]


def test_a_closed_cache_asks_and_takes_in_nothing(clock):
    server, cache = started(clock)
    server.gate.clear()
    server.version, server.shapes = 2, [Shape("town")]
    cache.refresh()
    cache.close()
    server.gate.set()
    cache.ready.wait(30)
    assert names(cache) == ["city"]
    reads = server.reads
    cache.refresh()
    assert server.reads == reads


def test_a_failure_keeps_what_is_known(clock):
    server, cache = started(clock)
    server.read = None
    cache._read = lambda known: 1 / 0
    cache.refresh()
    assert cache.ready.wait(30)
    assert names(cache) == ["city"]


def test_statements_that_declare():
    made = declared('CREATE TABLE IF NOT EXISTS main."we""ird" (a INTEGER DEFAULT (1, 2), [b c], CHECK (a > 0))')
    assert made.shape == Shape('we"ird', "table", ("a", "b c"))
    assert declared("CREATE TEMPORARY VIEW v AS SELECT 1").temporary
    assert declared("DROP TABLE IF EXISTS t").shape is None
    for text in ("CREATE", "DROP", "CREATE TABLE", "SELECT 1", "", "CREATE INDEX i ON t (a)"):
        assert declared(text) is None


@pytest.mark.parametrize("text", ["SELECT * FROM citty", "SELECT name FROM city AS a, city AS b"])
def test_the_error_of_a_statement_waits_a_moment_only_for_tables(waits, text):
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
            began = time.monotonic()
            with pytest.raises(StatementError):
                session.run_cell(text)
            assert time.monotonic() - began < 1.5
            connection.schema.close()
            answered.set()
            assert connection.schema.ready.wait(30)
    finally:
        answered.set()
        server.close()


def good_entries(call):
    """The entries for what is asked behind the first request."""
    return [entry(request) for request in call.json["requests"][1:]]
