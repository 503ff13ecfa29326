"""Crashes at any moment, and random sequences of changes and crashes: replicas become equal to their primary."""

from __future__ import annotations

import itertools
import math
import shutil
import tempfile
import threading
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from replicated import Replicated
from service_calls import execute
from waiting import until

from pipemagic.service.sqlite import database


class HookedFile:
    """SQLite's file that calls a function before each write."""

    def __init__(self, file, before):
        self._file, self._before = file, before

    def __getattr__(self, name):
        return getattr(self._file, name)

    def xWrite(self, data, offset):  # noqa: N802
        self._before()
        self._file.xWrite(data, offset)

    def xTruncate(self, size):  # noqa: N802
        self._before()
        self._file.xTruncate(size)


@pytest.fixture
def pair(tmp_path):
    one = Replicated(tmp_path / "data")
    one.run("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "CREATE INDEX i ON t(a)")
    one.run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500)"
            " INSERT INTO t SELECT i, hex(randomblob(20)) FROM n")  # fmt: skip
    one.location("nrt")
    one.follow()
    yield one
    one.close()


def test_a_crash_between_any_two_writes_of_a_replica_loses_nothing(pair, tmp_path):
    images = []

    def take_image():
        images.append(tmp_path / f"image-{len(images)}")
        shutil.copytree(pair.folder, images[-1])

    replica = pair.replica()
    file = replica.open_file(0)
    file._file = HookedFile(file._file, take_image)
    pair.run("DELETE FROM t WHERE id % 3 = 0", "UPDATE t SET a = 'changed' WHERE id % 7 = 0", "VACUUM")
    pair.follow()
    file._file = file._file._file
    expected = pair.run("SELECT count(*), sum(a = 'changed') FROM t").rows()
    assert len(images) > 10
    for folder in images[::3] + images[-2:]:
        again = Replicated(folder)
        again.check("nrt")
        assert again.at("nrt").run("SELECT count(*), sum(a = 'changed') FROM t").rows() == expected
        again.close()


def test_a_write_that_fails_in_the_middle_never_shows_a_torn_file(pair):
    reader = pair.at("nrt").post(execute("SELECT count(*) FROM t"))
    replica = pair.replica()
    countdown = itertools.count()

    def fail():
        if next(countdown) == 3:
            raise apsw.FullError("disk full")

    file = replica.open_file(0)
    file._file = HookedFile(file._file, fail)
    pair.run("UPDATE t SET a = 'all of them'")
    pair.service.engine.replicator.run_due()
    assert next(countdown) > 3
    assert pair.service.engine.status(pair.record)["nrt"].state == "copying"
    assert pair.at("nrt").post(execute("SELECT 1"), baton=reader.baton).status == 400  # its stream has ended
    assert pair.at("nrt").post(execute("SELECT 1")).status == 503
    assert pair.at().run("SELECT count(*) FROM t").rows() == [["500"]]
    while pair.service.engine.status(pair.record)["nrt"].state != "ok":
        pair.service.engine.replicator.run_due()
    pair.check("nrt")


def test_a_replica_is_copied_again_without_its_time_or_file(pair):
    pair.service.close()
    (pair.files_of_closed.parent / "replicas" / "nrt.sqlite").touch()
    pair.open()
    pair.check("nrt")
    pair.service.close()
    (pair.files_of_closed.parent / "replicas" / "nrt.sqlite").unlink()
    pair.open()
    pair.check("nrt")
    pair.service.close()
    (pair.files_of_closed.parent / "replicas" / "nrt.sqlite").write_bytes(b"rubbish" * 1000)
    pair.open()
    pair.check("nrt")


def test_a_reader_sees_one_commit_or_the_next_and_never_half_of_one(pair):
    """Each commit adds the same to all rows; threads read while pages are written."""
    pair.run("CREATE TABLE n(a INTEGER)", "INSERT INTO n SELECT 0 FROM t")
    pair.follow()
    wrong, stop = [], threading.Event()

    def read():
        connection = apsw.Connection(str(pair.files / "replicas" / "nrt.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(5000)
        while not stop.is_set():
            seen = connection.execute("SELECT min(a), max(a), count(*) FROM n").fetchall()[0]
            if seen[0] != seen[1] or seen[2] != 500:
                wrong.append(seen)
        connection.close()

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        pair.run("UPDATE n SET a = a + 1")
        while pair.replica().index < pair.database.index:
            pair.service.engine.replicator.run_due()
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert pair.at("nrt").run("SELECT max(a) FROM n").rows() == [["60"]]


def test_a_wal_from_before_a_crash_is_not_used_as_a_later_one(tmp_path, caplog):
    one = Replicated(tmp_path / "data")
    one.run("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    one.run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300)"
            " INSERT INTO t SELECT i, hex(randomblob(20)) FROM n")  # fmt: skip
    one.location("nrt")
    one.crash(tmp_path / "image")  # before the first copy
    one.run("PRAGMA user_version = 5")  # its connection is closed afterwards, and is the only one
    one.follow()
    one.run("UPDATE t SET a = 'x' WHERE id = 5")
    one.check("nrt")
    one.close()
    assert not [record for record in caplog.records if "start over" in record.message]


def test_a_crash_between_a_commit_and_its_counting_hides_it_from_no_replica(pair, tmp_path):
    pair.restart()
    pair.database  # noqa: B018  opened
    pair.follow()
    before, image = tmp_path / "before", tmp_path / "image"
    shutil.copytree(pair.folder, before)
    pair.run("UPDATE t SET a = 'x' WHERE id = 1")
    shutil.copytree(pair.folder, image)
    for path in before.glob("catalog.sqlite*"):
        shutil.copy(path, image / path.relative_to(before))
    pair.service.close()
    pair.folder = image
    pair.open()
    pair.check("nrt")
    index = pair.database.index
    pair.crash(tmp_path / "later")
    assert pair.database.index >= index
    pair.check("nrt")


def test_a_reader_that_waits_for_a_file_during_a_write_never_reads_a_torn_one(pair):
    replica, seen, started = pair.replica(), [], threading.Event()
    reader = replica.take()
    reader.raw.execute("SELECT count(*) FROM t").fetchall()

    def wait_and_read(_attempt):
        started.set()
        return True

    def read():
        reader.raw.set_busy_handler(wait_and_read)
        try:
            seen.extend(reader.raw.execute("SELECT a FROM t WHERE id = 1").fetchall())
        except apsw.Error as error:
            seen.append(type(error))

    thread = threading.Thread(target=read)
    countdown = itertools.count()

    def fail():
        if next(countdown) == 3:
            thread.start()
            started.wait()
            raise apsw.FullError("disk full")

    file = replica.open_file(0)
    file._file = HookedFile(file._file, fail)
    pair.run("UPDATE t SET a = 'all of them'")
    pair.service.engine.replicator.run_due()
    thread.join()
    assert seen == [apsw.NotADBError]
    reader.close()


def test_a_connection_to_a_file_that_was_replaced_serves_no_later_stream(pair):
    replica = pair.replica()
    connection = replica.take()
    connection.raw.execute("SELECT count(*) FROM t").fetchall()
    pair.lose_track()
    pair.follow()
    connection.release(connection)
    pair.run("DELETE FROM t")
    pair.follow()
    assert pair.at("nrt").run("SELECT count(*) FROM t").rows() == [["0"]]


def test_replicas_that_are_added_and_copied_again_while_threads_write_are_complete(tmp_path, monkeypatch):
    """The WAL is restarted every few commits, also by transactions that are rolled back."""
    monkeypatch.setattr(database, "CHECKPOINT_PAGES", 20)
    one = Replicated(tmp_path / "data")
    one.run("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    one.run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000)"
            " INSERT INTO t SELECT i, randomblob(1000) FROM n")  # fmt: skip
    primary, stop, commits = one.database, threading.Event(), itertools.count()

    def write():
        while not stop.is_set():
            turn = primary.write_lock.acquire(math.inf)
            turn.wait()
            writer = primary.take()
            number = next(commits)
            if number % 9 == 0:
                writer.raw.pragma("cache_size", 10)
                writer.raw.execute("BEGIN; UPDATE t SET a = randomblob(900) WHERE id < 200; ROLLBACK")
            writer.raw.execute("UPDATE t SET a = randomblob(800) WHERE id % 1000 = ?", (number % 1000,))
            writer.close()
            primary.write_lock.release(turn)

    one.service.start()
    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(12):
            one.location("nrt")
            if number % 3 == 0:
                one.lose_track()
            least = primary.index + 20
            until(lambda least=least: primary.index >= least)
            if number % 2:
                one.location("nrt", method="DELETE")
        one.location("nrt")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    waiter = one.replica().wait_for(primary.index, math.inf)
    assert waiter.wait(20)
    assert waiter.granted
    one.check("nrt")
    one.close()


class RandomChanges(RuleBasedStateMachine):
    """Random changes, pauses, restarts and crashes; each comparison finds the replicas equal to the primary."""

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp(prefix="pipemagic-changes-"))
        self.one = Replicated(self.folder / "0")
        self.images = itertools.count(1)
        self.paused = set()
        self.codes = set()
        self.rows = 0
        self.one.run("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")

    @rule(number=st.integers(1, 300), size=st.sampled_from([1, 100, 3000]))
    def insert(self, number, size):
        self.one.run(f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {number})"
                     f" INSERT INTO t(a) SELECT randomblob({size}) FROM n")  # fmt: skip
        self.rows += number

    @rule(statement=st.sampled_from([
        "UPDATE t SET a = 'u' WHERE id % 5 = 0", "VACUUM", "CREATE INDEX IF NOT EXISTS i ON t(a)",
        "DROP INDEX IF EXISTS i", "PRAGMA user_version = 5", "CREATE TABLE IF NOT EXISTS u AS SELECT * FROM t LIMIT 9",
        "DROP TABLE IF EXISTS u", "REINDEX",
    ]))  # fmt: skip
    def change(self, statement):
        self.one.run(statement)

    @rule()
    def delete(self):
        self.one.run("DELETE FROM t")
        self.rows = 0

    @rule(code=st.sampled_from(["nrt", "syd"]))
    def add(self, code):
        self.one.location(code)
        self.codes.add(code)

    @precondition(lambda self: self.codes)
    @rule(data=st.data())
    def remove(self, data):
        code = data.draw(st.sampled_from(sorted(self.codes)))
        self.one.location(code, method="DELETE")
        self.codes.discard(code)
        self.paused.discard(code)

    @precondition(lambda self: self.codes)
    @rule(data=st.data(), down=st.booleans())
    def pause(self, data, down):
        code = data.draw(st.sampled_from(sorted(self.codes)))
        self.one.location(code, "/pause" if down else "/resume")
        (self.paused.add if down else self.paused.discard)(code)

    @rule(most=st.integers(0, 3))
    def follow(self, most):
        for _ in range(most):
            self.one.service.engine.replicator.run_due()

    @rule()
    def restart(self):
        self.one.restart()

    @rule()
    def crash(self):
        self.one.crash(self.folder / str(next(self.images)))

    @rule()
    def compare(self):
        for code in sorted(self.paused):
            self.one.location(code, "/resume")
        self.paused.clear()
        self.one.check(*sorted(self.codes))
        for code in (None, *sorted(self.codes)):
            rows = self.one.at(code).run("SELECT count(*) FROM t").rows()
            assert rows == [[str(self.rows)]]

    def teardown(self):
        if hasattr(self, "one"):
            self.compare()
            self.one.close()
            shutil.rmtree(self.folder)


def test_replicas_always_become_equal_to_their_primary(soak):
    run_state_machine_as_test(RandomChanges, settings=settings(
        max_examples=250 if soak else 8, stateful_step_count=20, deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    ))  # fmt: skip
