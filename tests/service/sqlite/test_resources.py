"""A statement that uses up the memory, or the disk of temporary files, is stopped; legitimate large ones work."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest
from service_calls import CLOSE, File, caller_of, execute, new_service
from small_disks import NoMounts, disk_in_file, small_disk

from pipemagic.service.executor import Executor
from pipemagic.service.limits import MB, Limits
from pipemagic.service.responses import storage_refusal
from pipemagic.service.sqlite import resources
from pipemagic.service.sqlite.connection import Connection
from pipemagic.service.sqlite.resources import UsageExceeded
from pipemagic.service.sqlite.statement import parse

LIMIT = 4 * MB
ROWS = (
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {rows}) "
    "SELECT n, randomblob(1000) b FROM c"
)
SORTED = f"SELECT count(b) FROM (SELECT * FROM ({ROWS}) ORDER BY b LIMIT -1 OFFSET 1)"


ROOMY, FULL = SimpleNamespace(total=10**12, free=10**11), SimpleNamespace(total=10**12, free=10**7)


@pytest.fixture
def full_disk(monkeypatch):
    """The disk of temporary files has less free space than the reserve."""
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda _: FULL)


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "TEMPORARY_TABLES", LIMIT)
    with new_service(tmp_path) as service:
        yield service


@pytest.fixture
def db(small):
    return caller_of(small, "db")


def spilled(service):
    """The bytes that the kept connections wrote to temporary files."""
    counted = apsw.SQLITE_DBSTATUS_TEMPBUF_SPILL
    return sum(
        idle.raw.status(counted)[0] for database in service.engine.databases.in_use() for idle in database.pool._idle
    )


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("read_only", [True, False])
def test_a_sort_that_fills_the_disk_is_stopped(small, db, read_only):
    caller = caller_of(small, "db", read_only=read_only)
    answer = caller.run(SORTED.format(rows=100_000), "SELECT 1")
    assert answer.codes == ["SQLITE_FULL", "ok", "ok"]
    assert "temporary files" in answer.error()["message"]
    assert spilled(small) < 10 * LIMIT


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT DISTINCT b FROM ({ROWS})",
        f"WITH m AS MATERIALIZED ({ROWS}) SELECT count(*) FROM m a, m b WHERE a.n = b.n",
        f"CREATE TEMP TABLE x AS {ROWS}",
        f"SELECT sum(length(b)) OVER (ORDER BY b) FROM ({ROWS})",
    ],
)
@pytest.mark.usefixtures("full_disk")
def test_other_temporary_files_count_too(db, statement):
    assert db.run(statement.format(rows=100_000), "SELECT 1").codes == ["SQLITE_FULL", "ok", "ok"]


NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
LARGE_VALUES = {
    "1 MB": f"{NUMBERS.format(rows=1500)} SELECT randomblob(1000000) b FROM n ORDER BY b",
    "16 MB": f"{NUMBERS.format(rows=75)} SELECT zeroblob(16000000) || i b FROM n ORDER BY b",
}
OVERSHOOT = 200 * MB


def written():
    """The bytes that this process has written."""
    return int(Path("/proc/self/io").read_text().split("wchar: ", 1)[1].split("\n", 1)[0])


@pytest.mark.skipif(sys.platform != "linux", reason="temporary files are kept in memory")
@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("statement", LARGE_VALUES.values(), ids=LARGE_VALUES)
def test_large_values_use_the_reserve_by_little(small, statement):
    before = written()
    answer = caller_of(small, "db", read_only=True).run(statement, "SELECT 1")
    assert answer.codes == ["SQLITE_FULL", "ok", "ok"]
    assert written() - before < LIMIT + OVERSHOOT


@pytest.mark.usefixtures("full_disk")
def test_a_small_sort_works_on_a_full_disk_any_number_of_times(db):
    assert db.run(*[SORTED.format(rows=1000)] * 5).codes == ["ok"] * 6


def test_temporary_tables_are_limited_together(db):
    fill = f"INSERT INTO x {ROWS}".format(rows=1000)
    codes = db.run("CREATE TEMP TABLE x (n, b)", *[fill] * 8).codes
    assert codes[:3] == ["ok"] * 3
    assert codes[-2] == "SQLITE_FULL"


FLIGHTS = (
    f"CREATE TABLE flights AS {NUMBERS.format(rows=80_000)} SELECT i, 'N' || (i * 7919 % 4043) AS tailnum, "
    "datetime('2013-01-01', (i * 60 % 8760) || ' hours') AS time_hour, i * 31 % 3844 AS flight FROM n"
)
"""A table as the flights of 2013."""
KEYS = "WITH k AS MATERIALIZED (SELECT tailnum || time_hour || flight AS k FROM flights)"
HONEST = [
    "SELECT count(*) FROM (SELECT DISTINCT tailnum, time_hour, flight FROM flights)",
    "SELECT count(DISTINCT tailnum || time_hour || flight) FROM flights",
    f"{KEYS} SELECT count(*) FROM k WHERE k IN (SELECT k FROM k)",
    f"{KEYS} SELECT count(*) FROM k a JOIN k b ON a.k = b.k",
]


def test_statements_of_analysts_have_no_limit_of_their_own(db):
    """SQLite writes the pages of their temporary indexes many times, 40 MB or more for each."""
    with closing(sqlite3.connect(":memory:")) as reference:
        reference.execute(FLIGHTS)
        expected = [[str(value) for value in reference.execute(statement).fetchone()] for statement in HONEST]
    answer = db.run(FLIGHTS, *HONEST)
    assert answer.codes == ["ok"] * 6
    assert [answer.rows(number)[0] for number in range(1, 5)] == expected


@pytest.mark.skipif(sys.platform != "linux", reason="temporary files are kept in memory")
def test_the_statement_with_the_largest_files_is_stopped(tmp_path, monkeypatch):
    """The other one has some 20 MB in files, and continues."""
    small, large = [Connection(File(tmp_path / "db"), writable=True) for _ in range(2)]
    executor, began = Executor(), written()
    stopped = threading.Event()

    def disk(_):
        return FULL if written() - began > 200 * MB and not stopped.is_set() else ROOMY

    monkeypatch.setattr(resources.shutil, "disk_usage", disk)
    sort = f"{NUMBERS} SELECT randomblob(1000) b, i FROM n ORDER BY b"

    def run(connection, rows):
        count = 0
        try:
            for _ in connection.run(parse(sort.format(rows=rows)), (), may_write=False).rows:
                count += 1
                if count == 1:  # the sort is done
                    connection.before_wait()
                    yield count
                    connection.after_wait()
        except apsw.InterruptError as error:
            return connection.cause_of(error)
        finally:
            connection.finish()
            stopped.set()
        return count

    async def both():
        first = executor.start("a", run(small, 20_000))
        assert await first.future == 1
        error = await executor.start("b", run(large, 10**7)).future
        return await executor.proceed(first), error

    count, error = asyncio.run(both())
    assert count == 20_000
    assert (type(error), error.code) == (UsageExceeded, "SQLITE_FULL")
    executor.close()
    small.close()
    large.close()


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("statement", ["VACUUM", "CREATE TEMP TABLE x AS SELECT * FROM t"])
def test_the_copy_of_a_vacuum_and_temporary_tables_count(tmp_path, statement):
    """SQLite counts their pages with those of the database."""
    with new_service(tmp_path) as service:
        answer = caller_of(service, "db").run(f"CREATE TABLE t AS {ROWS.format(rows=60_000)}", statement, "SELECT 1")
    assert answer.codes == ["ok", "SQLITE_FULL", "ok", "ok"]


def test_a_cursor_that_waits_for_its_reader_frees_its_files(tmp_path):
    """The sweeper ends it at once; otherwise others would be stopped while it keeps the disk full."""
    with new_service(tmp_path) as service:
        before = set(resources._running)  # of statements that other tests have left in their threads
        response = caller_of(service, "db").cursor(
            f"{NUMBERS.format(rows=20_000)} SELECT randomblob(1000) b FROM n ORDER BY b"
        )
        first = next(response.chunks)
        (waiting,) = [usage for usage in resources._running if usage not in before]
        service.engine.streams.sweep()
        assert waiting in resources._running
        waiting.stop_for_space()
        service.engine.streams.sweep()
        assert waiting not in resources._running
        rest = b"".join(response.chunks)
    assert b'"step_begin"' in first
    assert b"STREAM_ENDED" in rest


ON_A_SMALL_DISK = f"""
import shutil, sys
from pathlib import Path
from service_calls import caller_of, new_service
import apsw
from pipemagic.service.sqlite.resources import temporary_folder

apsw.hard_heap_limit(64 * 2**20)
with new_service(Path(sys.argv[1])) as service:
    answer = caller_of(service, "db").run({SORTED.format(rows=10**7)!r}, {SORTED.format(rows=1000)!r})
    disk = shutil.disk_usage(temporary_folder())
print(temporary_folder(), answer.codes, answer.error()["message"], disk.used, sep="\\n")
"""


def sorts_on(folder, tmp_path):
    """Sort more than the disk of a folder holds, and then less; return what ON_A_SMALL_DISK prints."""
    environment = {**os.environ, "SQLITE_TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", ON_A_SMALL_DISK, str(tmp_path / "data")]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    used, *printed = output.splitlines()
    assert used == str(folder)
    return printed


@pytest.mark.skipif(sys.platform != "linux", reason="temporary files are kept in memory")
def test_a_real_disk_that_gets_full(tmp_path):
    try:
        with disk_in_file(tmp_path / "disk", megabytes=150) as folder:
            before = shutil.disk_usage(folder).used
            codes, message, used = sorts_on(folder, tmp_path)
    except NoMounts as reason:
        pytest.skip(f"cannot mount a small disk: {reason}")
    assert codes == "['SQLITE_FULL', 'ok', 'ok']"
    assert "the disk for temporary files is nearly full" in message
    assert int(used) - before < MB  # the files were deleted


@pytest.mark.skipif(sys.platform != "linux", reason="temporary files are kept in memory")
def test_temporary_files_that_would_be_in_memory_count_as_sqlites_memory(tmp_path):
    """The system does not count what is written to a tmpfs, which `--max-memory` would not bound either."""
    try:
        with small_disk(tmp_path / "disk", megabytes=150) as folder:
            codes, message, used = sorts_on(folder, tmp_path)
    except NoMounts as reason:
        pytest.skip(f"cannot mount a small disk: {reason}")
    assert codes == "['SQLITE_NOMEM', 'ok', 'ok']"
    assert "out of memory" in message
    assert used == "0"


@pytest.mark.usefixtures("full_disk")
def test_a_transaction_that_the_limit_ended_is_not_continued(db):
    fill = f"INSERT INTO t SELECT n FROM ({ROWS} ORDER BY 2)".format(rows=100_000)
    db.run("CREATE TABLE t(a)")
    answer = db.post(execute("BEGIN"), execute("INSERT INTO t VALUES (0)"), execute(fill), execute("SELECT 1"), CLOSE)
    assert answer.codes[:3] == ["ok", "ok", "SQLITE_FULL"]
    assert "its transaction was rolled back" in answer.error(2)["message"]
    assert answer.codes[3] != "ok"
    assert db.run("SELECT count(*) FROM t").rows() == [["0"]]


@pytest.mark.usefixtures("full_disk")
def test_writes_of_an_insert_to_the_database_are_not_temporary_files(db):
    """Keys in no order: the page cache writes the same pages many times, 80 MB for a table of 3 MB."""
    keys = f"INSERT INTO t {NUMBERS.format(rows=100_000)} SELECT randomblob(16) FROM n"
    assert db.run("CREATE TABLE t(k BLOB PRIMARY KEY) WITHOUT ROWID", keys).codes == ["ok"] * 3


@pytest.mark.usefixtures("full_disk")
def test_the_headers_of_a_wal_are_not_temporary_files(tmp_path):
    """24 bytes for each page of 250 MB, which are more than the limit."""
    filled = f"INSERT INTO t {NUMBERS.format(rows=2500)} SELECT zeroblob(100000) FROM n"
    with new_service(tmp_path) as service:
        assert caller_of(service, "db").run("CREATE TABLE t(a)", filled, "DROP TABLE t").codes == ["ok"] * 4


@pytest.mark.usefixtures("full_disk")
def test_the_error_of_a_sort_is_not_that_of_the_next_alter_table(db):
    fill = f"INSERT INTO t {NUMBERS.format(rows=20_000)} SELECT i FROM n"
    db.run("CREATE TABLE t(a)", "CREATE INDEX i ON t(a)", fill)
    assert db.run(SORTED.format(rows=100_000)).codes[0] == "SQLITE_FULL"
    assert db.run("ALTER TABLE t ALTER COLUMN a TO a INTEGER NOT NULL").codes == ["ok", "ok"]


@pytest.mark.usefixtures("full_disk")
def test_a_cursor_is_not_stopped_for_writes_of_its_thread_for_others(tmp_path):
    connection = Connection(File(tmp_path / "db", Limits()), writable=True)
    executor = Executor()
    counting = f"{NUMBERS.format(rows=2_000_000)} SELECT i FROM n WHERE i % 500000 = 0"

    def read():
        try:
            for row in connection.run(parse(counting), (), may_write=False).rows:
                connection.before_wait()
                yield row
                connection.after_wait()
        finally:
            connection.finish()

    async def both():
        job, rows = executor.start("a", read()), []
        while (row := await job.future) is not None:
            rows.append(row)
            await executor.call("b", (tmp_path / "upload").write_bytes, bytes(5 * LIMIT))
            executor.proceed(job)
        return rows

    assert asyncio.run(both()) == [(500_000,), (1_000_000,), (1_500_000,), (2_000_000,)]
    executor.close()
    connection.close()


@pytest.mark.parametrize("error", [apsw.NoMemError("out of memory"), MemoryError()])
def test_a_request_without_memory_is_not_an_internal_error(error):
    refused = storage_refusal(error)
    assert (refused.status, refused.code) == (503, "OUT_OF_MEMORY")


HEAP = 64 * MB
SERIES = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"
HUNGRY = [
    "SELECT "
    + ", ".join(f"length(group_concat(hex(randomblob(5000 + {column}))))" for column in range(8))
    + f" FROM ({SERIES} SELECT 1 FROM c LIMIT 1500)",
    "SELECT " + ", ".join(["zeroblob(15000000)"] * 8),
]
LARGE = ", ".join(f"substr(hex(zeroblob({6_500_000 + column})), n, 1)" for column in range(4))
HELD = f"{SERIES} SELECT {LARGE}, hex(zeroblob(200000)) FROM c LIMIT 40"
"""Keeps 52 MB while its reader reads the rows."""


@pytest.fixture
def small_heap(small):
    before = apsw.hard_heap_limit(-1)
    apsw.hard_heap_limit(HEAP)
    yield small
    apsw.hard_heap_limit(before)
    apsw.soft_heap_limit(before)  # otherwise, SQLite goes on as if its memory was nearly used up


def test_others_work_while_statements_use_up_the_memory(small_heap, db):
    other = caller_of(small_heap, "other")
    other.run("CREATE TABLE t(a)")
    enough = threading.Event()

    def hungry(statement):
        codes = set()
        while not enough.is_set():
            codes.update(db.run(statement).codes[:1])
        return codes

    with ThreadPoolExecutor(len(HUNGRY)) as pool:
        running = [pool.submit(hungry, statement) for statement in HUNGRY]
        try:
            answers = [other.run("INSERT INTO t VALUES (1)", "SELECT count(*) FROM t") for _ in range(20)]
        finally:
            enough.set()
    assert {answer.status for answer in answers} == {200}
    assert {code for answer in answers for code in answer.codes} == {"ok"}
    assert [future.result() for future in running] == [{"SQLITE_NOMEM"}] * len(HUNGRY)


def test_a_cursor_does_not_block_the_memory_of_others(small_heap, db):
    kinds = db.read(HELD, "SELECT 1").kinds
    assert kinds[-4:] == ["step_error SQLITE_NOMEM", "step_begin", "row", "step_end"]
    assert kinds.count("row") < 5
