"""Reads that overlap all the time while others write: the promises "disk with a reserve" and fairness.

Without a moment at which nobody reads, SQLite never begins the WAL again ("checkpoint starvation"): it grew by 25 MB a
second. Now readers give way to a checkpoint; writers never wait for readers, and every read is of one snapshot.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from promises import Promise
from served import Database, Served, serve
from waiting import PATIENCE, until

from pipemagic.service.sqlite.connection import KEPT_WAL
from pipemagic.service.sqlite.readers import FULL_WAL

pytestmark = pytest.mark.promise(Promise.DISK)

COMMITS, ROWS, ROW = 3000, 4, 30_000
"""What is written: more than the limit in all."""
LARGE_COMMIT = 2_000_000
NUMBERS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) SELECT n FROM c"
LONG = "(SELECT count(*) FROM t x, t y WHERE x.a <= 2000 AND x.a + y.a = 7)"
ENDLESS = "SELECT count(*) FROM t x, t y, t z WHERE x.a + y.a + z.a = 7"
DOCUMENTED = {"STATEMENT_TIMEOUT", "TRANSACTION_TIMEOUT", "STREAM_ENDED"}


class Scene:
    """A database whose rows of ``u`` all have the number of the last commit, and its clients."""

    def __init__(self, service: Served, folder: Path) -> None:
        self.service, self.db = service, service.database("db")
        numbers = NUMBERS.format(6000)
        self.db.run(
            "CREATE TABLE t(a)", f"INSERT INTO t {numbers}", "CREATE TABLE u(v, b)",
            f"INSERT INTO u SELECT 0, 0 FROM t LIMIT {ROWS}",
        )  # fmt: skip
        (self.wal,) = folder.glob("databases/*/primary.sqlite-wal")
        self.largest = 0
        self.stopping = threading.Event()
        self.reads: Counter[str] = Counter()
        self.errors: list[str] = []
        self.faults: list[BaseException] = []

    @contextmanager
    def client(self, *reads: Callable[[Database], Iterator[Any]]) -> Iterator[None]:
        """Repeat reads, each by a client of its own; each yields the numbers that it saw, which must be equal."""
        threads = [threading.Thread(target=self._repeat, args=(read,)) for read in reads]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join(PATIENCE)

    def _repeat(self, read: Callable[[Database], Iterator[Any]]) -> None:
        newest = 0
        try:
            with Database(self.service.url, self.db.token) as client:
                client.http.timeout = 90
                while not self.stopping.is_set():
                    try:
                        numbers = set(read(client))
                    except FailedRead as failed:
                        if not self.stopping.is_set():
                            self.errors.append(str(failed))
                        continue
                    assert len(numbers) == 1, f"{read.__name__} saw {numbers}"
                    (number,) = numbers
                    assert number >= newest
                    newest = number
                    self.reads[read.__name__] += 1
        except BaseException as error:
            self.faults.append(error)
            raise

    def end_reads(self) -> None:
        """End all streams, and continue with a new token."""
        self.stopping.set()
        self.service.manage("POST", "/databases/db/auth/rotate").raise_for_status()
        self.db.http.close()
        self.db = self.service.database("db")

    def write(self, number: int, size: int) -> None:
        self.db.run(f"UPDATE u SET v = {number}, b = randomblob({size})")
        self.largest = max(self.largest, self.wal.stat().st_size)


class FailedRead(Exception):
    """The code of a read that failed, or what was returned instead of results."""


def results(client: Database, *texts: str, baton: str | None = None, close: bool = True) -> tuple[str, list[Any]]:
    """Run statements; return the baton and the first row of each; raise `FailedRead` for an error."""
    response = client.post(*texts, baton=baton, close=close)
    if response.status_code != 200:
        raise FailedRead(response.text)
    body, firsts = response.json(), []
    for entry in body["results"][: len(texts)]:
        if entry["type"] == "error":
            raise FailedRead(entry["error"]["code"])
        rows = entry["response"]["result"]["rows"]
        firsts.append([int(cell["value"]) for cell in rows[0]] if rows else [])
    return body["baton"], firsts


def long_select(client: Database) -> Iterator[int]:
    first, _, last = results(client, f"SELECT (SELECT min(v) FROM u), {LONG}, (SELECT max(v) FROM u)")[1][0]
    return iter((first, last))


def short_select(client: Database) -> Iterator[int]:
    return iter(results(client, "SELECT min(v), max(v) FROM u")[1][0])


def transaction(client: Database) -> Iterator[int]:
    baton, [_, [first]] = results(client, "BEGIN", "SELECT min(v) FROM u", close=False)
    _, [[last], _] = results(client, "SELECT max(v) FROM u", "COMMIT", baton=baton)
    return iter((first, last))


def cursor(client: Database) -> Iterator[int]:
    """Read many rows; the first column of each is the number."""
    body = {"batch": {"steps": [{"stmt": {"sql": "SELECT v, hex(zeroblob(30)) FROM u, t"}}]}}
    with client.http.stream("POST", "/v3/cursor", json=body) as response:
        for line in response.iter_lines():
            if '"error"' in line:
                raise FailedRead(next(code for code in DOCUMENTED if code in line))
            if line.startswith('{"type":"row"'):
                yield int(line.split('"value":"', 1)[1].split('"', 1)[0])


def endless(client: Database) -> Iterator[int]:
    results(client, ENDLESS)
    raise AssertionError("it ended")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with serve(tmp_path / "data", "--port", "0") as service:
        scene = Scene(service, tmp_path / "data")
        yield scene
        scene.db.http.close()
        assert not scene.faults


def test_the_wal_is_bounded_while_reads_overlap(scene: Scene) -> None:
    """Every commit is counted, every read is of one snapshot, and all kinds of reads go on."""
    with scene.client(long_select, long_select, long_select, short_select, transaction, cursor):
        for number in range(1, COMMITS + 1):
            scene.write(number, ROW)
    print(f"\nlargest WAL {scene.largest:,} bytes, reads {dict(scene.reads)}, errors {Counter(scene.errors)}")
    assert FULL_WAL < ROW * ROWS * COMMITS
    assert scene.largest <= FULL_WAL * 1.1
    assert set(scene.errors) <= DOCUMENTED
    assert set(scene.reads) == {"long_select", "short_select", "transaction", "cursor"}
    assert scene.db.rows("SELECT min(v), max(v), count(*) FROM u") == [(str(COMMITS), str(COMMITS), str(ROWS))]
    assert scene.db.rows("PRAGMA integrity_check") == [("ok",)]
    until(lambda: scene.wal.stat().st_size <= KEPT_WAL)


def test_the_wal_is_bounded_while_readers_do_not_end(scene: Scene) -> None:
    """They are stopped, start again once, and then end with an error that says so; short reads never fail."""
    with scene.client(endless, endless, short_select):
        number = 0
        while scene.errors.count("STATEMENT_TIMEOUT") < 2:
            number += 1
            scene.write(number, LARGE_COMMIT // ROWS)
        scene.end_reads()
    print(f"\nlargest WAL {scene.largest:,} bytes after {number} commits of {LARGE_COMMIT:,} bytes")
    assert scene.largest <= FULL_WAL * 1.25
    assert set(scene.errors) == {"STATEMENT_TIMEOUT"}
    assert scene.reads["short_select"]
    assert scene.db.rows("SELECT min(v), max(v) FROM u") == [(str(number), str(number))]
    assert "readers are stopped" in scene.service.log()
    until(lambda: scene.wal.stat().st_size <= KEPT_WAL)
