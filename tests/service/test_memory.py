"""SQLite's memory: caches give way to statements, and the catalog has a reserve."""

from __future__ import annotations

import math
from contextlib import closing, contextmanager, suppress

import apsw
import pytest

from pipemagic.service import memory
from pipemagic.service.catalog.store import Store
from pipemagic.service.limits import MB

HEAP = 64 * MB
TABLE = """CREATE TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000)
SELECT i, hex(zeroblob(500)) AS text FROM n"""
SCAN = "SELECT sum(length(text)) FROM t"


@pytest.fixture
def small_heap():
    memory.limit_heap(HEAP)
    yield
    memory.limit_heap(0)


@contextmanager
def memory_used_up():
    """Hold memory until SQLite refuses a further kilobyte."""
    with closing(apsw.Connection(":memory:")) as hog:
        hog.execute("CREATE TABLE t(a)")
        for size in (MB, 1024):
            with suppress(apsw.NoMemError):
                while True:
                    hog.execute("INSERT INTO t VALUES (zeroblob(?))", (size,))
        yield


@pytest.mark.usefixtures("small_heap")
def test_the_catalog_works_when_statements_have_used_up_the_memory(tmp_path):
    with closing(Store(tmp_path / "catalog.sqlite", lambda: 0.0)) as store, memory_used_up():
        with pytest.raises(apsw.NoMemError):
            apsw.Connection(str(tmp_path / "catalog.sqlite")).execute("SELECT name FROM databases").fetchall()
        assert store.rows("SELECT count(*) FROM databases") == [(0,)]
        store.check("SELECT 1 FROM databases")
        with store.change() as run:
            run("CREATE TABLE extra(a)", ())
            run("INSERT INTO extra VALUES (hex(zeroblob(100000)))", ())
        assert store.rows("SELECT length(a) FROM extra") == [(200_000,)]
        with pytest.raises(apsw.NoMemError):  # the reserve is not for statements
            apsw.Connection(":memory:").execute("SELECT hex(zeroblob(100000))").fetchall()


@pytest.fixture
def filled(db):
    """A database whose table of 3 MB fills the cache of each connection that reads it."""
    assert db.run(TABLE).codes == ["ok", "ok"]
    return db


def open_streams(db, count, *texts):
    """Open idle streams, each after it ran statements."""
    answers = [db.post(*[{"type": "execute", "stmt": {"sql": text}} for text in texts]) for _ in range(count)]
    assert {code for answer in answers for code in answer.codes} == {"ok"}
    return [answer.baton for answer in answers]


@pytest.mark.usefixtures("small_heap")
def test_idle_streams_keep_no_pages_when_memory_is_short(filled):
    batons = open_streams(filled, 100, SCAN)  # with their pages they would have 200 MB
    assert None not in batons
    assert apsw.memory_used() < HEAP // 2
    assert filled.run(SCAN).rows() == [["3000000"]]
    assert filled.post({"type": "execute", "stmt": {"sql": SCAN}}, baton=batons[50]).rows() == [["3000000"]]


def test_idle_streams_keep_their_pages_while_memory_is_not_short(filled):
    before = apsw.memory_used()
    assert None not in open_streams(filled, 5, SCAN)
    assert apsw.memory_used() - before > 5 * MB


@pytest.fixture
def short_memory(small_heap):
    """Memory is short: a third of it is in use."""
    with closing(apsw.Connection(":memory:")) as hog:
        hog.execute("CREATE TABLE t(a)")
        for _ in range(HEAP // 3 // MB):
            hog.execute("INSERT INTO t VALUES (zeroblob(?))", (MB,))
        yield


@pytest.mark.usefixtures("short_memory")
def test_pooled_connections_keep_no_pages_when_memory_is_short(filled):
    (database,) = filled.service.engine.databases.in_use()
    database.pool.trim(math.inf)
    before = apsw.memory_used()
    assert filled.run(SCAN).codes == ["ok", "ok"]
    assert len(database.pool.idle()) == 1
    assert apsw.memory_used() - before < MB // 2


@pytest.mark.usefixtures("small_heap")
def test_streams_in_a_transaction_do_not_use_up_the_memory_either(filled):
    assert None not in open_streams(filled, 60, "BEGIN", SCAN)
    assert filled.run(SCAN, "SELECT 1").codes == ["ok", "ok", "ok"]


@pytest.mark.usefixtures("small_heap")
def test_streams_that_prepare_many_statements_keep_few_of_them(db):
    columns = ", ".join(["NULL"] * 40)
    assert db.run(f"CREATE VIEW wide AS {' UNION ALL '.join([f'SELECT {columns}'] * 40)}").codes == ["ok", "ok"]
    texts = [f"SELECT * FROM wide LIMIT 0 OFFSET {number}" for number in range(100)]  # prepared, they have 10 MB
    batons = open_streams(db, 20, *texts)
    assert None not in batons
    assert apsw.memory_used() < 3 * HEAP // 4
    assert db.run("SELECT 1").codes == ["ok", "ok"]


@pytest.mark.usefixtures("short_memory")
def test_idle_streams_of_a_database_with_a_large_schema_do_not_keep_it(db):
    tables = [f"CREATE TABLE t{number}(a INTEGER PRIMARY KEY, b TEXT, c)" for number in range(1000)]
    assert set(db.run(*tables).codes) == {"ok"}
    open_streams(db, 1, "SELECT 1")
    before, count = apsw.memory_used(), 20
    batons = open_streams(db, count, "CREATE TEMP TABLE own AS SELECT 7 AS a", "SELECT count(*) FROM t7")
    assert (apsw.memory_used() - before) / count < 250_000  # the schema has 300 kB
    again = db.post(
        {"type": "execute", "stmt": {"sql": "SELECT count(*), (SELECT a FROM own) FROM t300"}}, baton=batons[-1]
    )
    assert again.rows() == [["0", "7"]]
