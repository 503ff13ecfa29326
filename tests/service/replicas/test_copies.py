"""Copies of a primary during commits, with a full disk, after a restart, and beside another copy."""

from __future__ import annotations

import errno
import gc
import math
import os
import shutil
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from replicated import Replicated
from service_calls import CLOSE, execute

from pipemagic.service.replicas import primary_pages, replica_set
from pipemagic.service.replicas.primary_pages import PrimaryPages, WalError
from pipemagic.service.replicas.replica import ReplicaFile
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite import database


@pytest.fixture
def one(tmp_path):
    one = Replicated(tmp_path / "data")
    one.run("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "INSERT INTO t(a) VALUES ('first')")
    yield one
    one.close()


@pytest.fixture
def in_pieces(one, monkeypatch):
    """A database whose copy takes several pieces of work."""
    monkeypatch.setattr(replica_set, "COPY_BYTES", 64 * 4096)
    one.run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 600)"
            " INSERT INTO t(a) SELECT randomblob(2000) FROM n")  # fmt: skip
    return one


def work(one, pieces=1):
    for _ in range(pieces):
        assert one.service.engine.replicator.run_due()


def test_a_copy_contains_commits_made_during_the_copy(in_pieces):
    in_pieces.location("nrt")
    work(in_pieces)
    assert in_pieces.replica().state == "copying"
    for statement in (
        "UPDATE t SET a = 'changed' WHERE id % 50 = 0", "INSERT INTO t(a) VALUES (randomblob(300000))",
        "DELETE FROM t WHERE id > 20", "VACUUM", "INSERT INTO t(a) VALUES (randomblob(900000))",
    ):  # fmt: skip
        work(in_pieces)
        in_pieces.run(statement)
    in_pieces.check("nrt")


def test_a_copy_continues_after_a_pause_and_starts_over_after_a_restart(in_pieces):
    in_pieces.location("nrt")
    work(in_pieces, 2)
    in_pieces.location("nrt", "/pause")
    assert in_pieces.follow() <= 1
    in_pieces.run("UPDATE t SET a = 'changed' WHERE id % 50 = 0")
    in_pieces.location("nrt", "/resume")
    work(in_pieces)
    in_pieces.restart()
    in_pieces.check("nrt")


def test_a_transaction_of_a_client_delays_no_earlier_commit(in_pieces):
    in_pieces.location("nrt")
    in_pieces.follow()
    in_pieces.run("UPDATE t SET a = 'earlier' WHERE id = 5")
    writer = in_pieces.at("ams").post(
        execute("PRAGMA cache_size = 10"), execute("BEGIN IMMEDIATE"), execute("UPDATE t SET a = randomblob(3000)")
    )
    in_pieces.follow()
    assert in_pieces.at("nrt").run("SELECT count(*) FROM t WHERE a = 'earlier'").rows() == [["1"]]
    in_pieces.at("ams").post(execute("ROLLBACK"), CLOSE, baton=writer.baton)
    in_pieces.check("nrt")


def test_a_location_can_be_added_while_a_transaction_is_open(in_pieces):
    """Its frames are in the WAL before it is committed; the replica already has the earlier commits."""
    writer = in_pieces.at("ams").post(
        execute("PRAGMA cache_size = 10"), execute("BEGIN IMMEDIATE"), execute("UPDATE t SET a = randomblob(3000)")
    )
    in_pieces.location("nrt")
    in_pieces.follow()
    assert in_pieces.at("nrt").run("SELECT count(*) FROM t WHERE length(a) = 3000").rows() == [["0"]]
    in_pieces.at("ams").post(execute("COMMIT"), CLOSE, baton=writer.baton)
    in_pieces.follow()
    assert in_pieces.at("nrt").run("SELECT count(*) FROM t WHERE length(a) = 3000").rows() == [["601"]]
    in_pieces.check("nrt")


def test_a_replica_responds_while_the_disk_has_no_room_for_its_next_copy(one, monkeypatch, caplog):
    one.location("nrt")
    one.follow()
    usage = shutil.disk_usage(one.folder)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
        one.lose_track()
        one.run("INSERT INTO t(a) VALUES ('second')")
        work(one)
        assert "no room for a copy of 8,192 bytes" in caplog.text
        assert [path.name for path in one.files.glob("replicas/*")] == ["nrt.sqlite"]
        assert one.at("nrt").run("SELECT count(*) FROM t").rows() == [["1"]]
    while one.replica().index < one.database.index:
        one.service.engine.replicator.run_due()
    one.check("nrt")


def test_a_commit_whose_pages_cannot_be_read_is_not_reported_by_a_replica(one, monkeypatch):
    """The commit is made after a thread has found that all earlier ones are recorded."""
    one.location("nrt")
    one.follow()
    with monkeypatch.context() as patch:
        patch.setattr(PrimaryPages, "advance", lambda *_: (_ for _ in ()).throw(WalError("another program wrote")))
        one.run("INSERT INTO t(a) VALUES ('second')")
    shipped = one.replica_set.shipped
    one.replica_set._work_on(one.replica())
    assert one.replica_set.shipped == shipped
    assert one.replica().index == one.database.index - 1
    one.clock.time += 5
    assert one.replica().lag() == 5
    one.check("nrt")


@pytest.mark.parametrize("committed_before", [True, False])
@pytest.mark.parametrize("mode", [None, apsw.SQLITE_CHECKPOINT_TRUNCATE])
def test_the_last_writes_of_another_program_are_in_the_replica_after_a_restart(one, mode, committed_before):
    one.location("nrt")
    one.follow()
    one.restart()
    one.check("nrt")
    if committed_before:
        one.run("INSERT INTO t(a) VALUES ('second')")
        one.follow()
    outside = apsw.Connection(str(one.files / "primary.sqlite"))
    outside.execute("INSERT INTO t(a) VALUES ('by hand')")
    if mode is not None:
        outside.wal_checkpoint(mode=mode)
    outside.close()
    one.restart()
    one.check("nrt")


@pytest.mark.parametrize("writer", ["another program", "the service"])
def test_a_commit_while_the_replicas_are_closed_is_in_all_of_them_after_a_restart(one, monkeypatch, writer):
    for code in ("nrt", "syd"):
        one.location(code)
    one.follow()
    replicas, finish = one.replica_set, one.replica_set._finish
    connection = apsw.Connection(str(one.files / "primary.sqlite"))
    if writer == "the service":
        connection.set_wal_hook(one.database._committed)
    statements = ["INSERT INTO t(a) VALUES ('late')"]

    def finish_first(*arguments):
        """Commit after the first replica is finished."""
        complete = finish(*arguments)
        if statements:
            connection.execute(statements.pop())
            connection.close()
        return complete

    monkeypatch.setattr(replicas, "_finish", finish_first)
    one.restart()
    one.check("nrt", "syd")


def test_a_location_is_added_while_a_writer_has_the_header_of_the_wal(one, monkeypatch):
    """SQLite does not wait for it."""
    committed_frames, calls = PrimaryPages._committed_frames, []

    def busy_once(pages):
        calls.append(pages)
        if len(calls) == 1:
            raise apsw.BusyError("database is locked")
        return committed_frames(pages)

    monkeypatch.setattr(PrimaryPages, "_committed_frames", busy_once)
    one.location("nrt")
    one.check("nrt")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_removed_location_keeps_no_file_open(one):
    one.location("nrt")
    one.follow()
    one.run("INSERT INTO t(a) VALUES ('second')")
    path = one.files / "replicas" / "nrt.sqlite"
    gc.collect()
    gc.disable()
    try:
        with closing(apsw.Connection(str(path))) as reader:
            rows = reader.execute("SELECT * FROM t")
            next(rows)
            one.location("nrt", method="DELETE")
            rows.close()
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        assert not [link for link in links if str(path.parent) in os.readlink(link)]
    finally:
        gc.enable()


def test_a_commit_succeeds_if_its_checkpoint_meets_an_error(one, monkeypatch):
    """The statement must not be sent again: its row exists."""
    one.location("nrt")
    one.follow()
    monkeypatch.setattr(database, "CHECKPOINT_PAGES", 1)
    with monkeypatch.context() as patch:
        patch.setattr(database, "fingerprint", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "disk error")))
        one.run("INSERT INTO t(a) VALUES ('second')")
    assert one.run("SELECT count(*) FROM t").rows() == [["2"]]
    one.run("INSERT INTO t(a) VALUES ('third')")
    one.check("nrt")


def test_copies_of_a_database_at_two_locations_are_complete(in_pieces, caplog):
    """Both are made at the same time, while other commits and a checkpoint are made."""
    in_pieces.location("nrt")
    work(in_pieces)
    in_pieces.location("syd")
    for _ in range(3):
        work(in_pieces)
        in_pieces.run("UPDATE t SET a = randomblob(3000)", "INSERT INTO t(a) VALUES ('more')")
    in_pieces.check("nrt", "syd")
    assert "copied again" not in caplog.text


def test_a_copy_that_fails_leaves_no_file(in_pieces, monkeypatch, caplog):
    in_pieces.location("nrt")
    work(in_pieces)
    with monkeypatch.context() as patch:
        patch.setattr(ReplicaFile, "write", lambda *_: (_ for _ in ()).throw(apsw.FullError("the disk is full")))
        work(in_pieces)
    assert "the disk is full" in caplog.text
    assert list(in_pieces.files.glob("replicas/*")) == []
    assert in_pieces.replica().state == "copying"
    while in_pieces.replica().state == "copying":
        in_pieces.service.engine.replicator.run_due()
    in_pieces.check("nrt")


def test_continuous_writes_do_not_make_a_replica_lag(one, monkeypatch):
    """A commit follows each time that the pages of the previous one are written: the replica never has all of them."""
    one.location("nrt")
    one.follow()
    write = ReplicaFile.write

    def commit_and_write(file, *pages):
        one.run("INSERT INTO t(a) VALUES ('meanwhile')")
        return write(file, *pages)

    one.run("INSERT INTO t(a) VALUES ('second')")
    with monkeypatch.context() as patch:
        patch.setattr(ReplicaFile, "write", commit_and_write)
        for _ in range(20):
            one.clock.time += 1
            work(one)
            assert (one.database.index - one.replica().index, one.replica().lag()) == (1, 0)
    one.check("nrt")


def test_replicas_get_changes_of_another_program_with_the_next_commit(one):
    one.location("nrt")
    one.follow()
    outside = apsw.Connection(str(one.files / "primary.sqlite"))
    for mode in (apsw.SQLITE_CHECKPOINT_TRUNCATE, apsw.SQLITE_CHECKPOINT_TRUNCATE, None):
        outside.execute("INSERT INTO t(a) VALUES ('by hand')")
        if mode is not None:
            outside.wal_checkpoint(mode=mode)
    outside.close()
    one.run("INSERT INTO t(a) VALUES ('second')")
    one.check("nrt")
    assert one.at("nrt").run("SELECT count(*) FROM t").rows() == [["5"]]


def test_a_first_commit_of_another_program_that_also_moved_it_to_the_file_costs_a_copy(one):
    """The WAL was empty before and is empty again, so the service's first commit seems to be the first of all."""
    one.run("CREATE TABLE by_hand(a)")
    one.location("nrt")
    one.follow()
    one.restart()
    assert one.replica_set.replicas.keys() == {"nrt"}
    one.follow()
    outside = apsw.Connection(str(one.files / "primary.sqlite"))
    outside.execute("INSERT INTO by_hand VALUES (1)")
    outside.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    outside.close()
    one.run("INSERT INTO t(a) VALUES ('second')")
    one.check("nrt")
    assert one.at("nrt").run("SELECT count(*) FROM by_hand").rows() == [["1"]]


def test_a_large_transaction_that_is_rolled_back_costs_no_copy(one, caplog):
    """It restarts the WAL, and the next connection that writes restarts it again, with unrelated salts."""
    one.location("nrt")
    one.follow()
    one.run("INSERT INTO t(a) VALUES (randomblob(5000000))")  # a checkpoint of all frames
    one.follow()
    shipped = one.replica_set.shipped
    writer = one.at("ams").post(
        execute("PRAGMA cache_size = 10"), execute("BEGIN"), execute("INSERT INTO t(a) VALUES (randomblob(500000))")
    )
    one.at("ams").post(execute("ROLLBACK"), CLOSE, baton=writer.baton)
    one.run("INSERT INTO t(a) VALUES ('third')")
    one.follow()
    assert one.replica_set.shipped - shipped < 100_000
    assert "start over" not in caplog.text
    one.check("nrt")


def test_waits_for_a_removed_replica_end(one):
    one.location("nrt")
    one.follow()
    replica = one.replica()
    paused = replica.wait_for(10**9, math.inf)
    one.location("nrt", "/pause")
    assert paused.wait(0)
    before = replica.wait_for(10**9, math.inf)
    one.location("nrt", method="DELETE")
    after = replica.wait_for(10**9, math.inf)
    assert (before.wait(0), after.wait(0)) == (True, True)
    assert (paused.granted, before.granted, after.granted) == (False, False, False)


def test_a_database_whose_replicas_cannot_be_started_is_not_used_without_them(one, monkeypatch):
    def fail(_path):
        raise OSError(errno.EIO, "disk error")

    one.location("nrt")
    one.follow()
    one.restart()
    with monkeypatch.context() as patch:
        patch.setattr(primary_pages, "fingerprint", fail)
        for _ in range(2):
            with pytest.raises(OSError, match="disk error"):
                one.database  # noqa: B018  opened
    one.check("nrt")


def test_a_damaged_database_does_not_affect_replicas_of_others(one):
    damaged = one.service.catalog.create_database("local", "a", "g")
    folder = one.folder / "databases" / damaged.id
    folder.mkdir()
    (folder / "primary.sqlite").write_bytes(b"this is no database at all" * 500)
    one.location("nrt")
    one.follow()
    assert one.at("nrt").run("SELECT count(*) FROM t").rows() == [["1"]]


def test_a_deleted_database_is_not_opened_for_its_replicas(one):
    record = one.record
    one.manage("DELETE", "/databases/x")
    with pytest.raises(Refused):
        one.service.engine.databases.open(record)
    one.location("nrt")
    assert not (one.folder / "databases" / record.id).exists()
    one.service.catalog.create_database("local", "x", "g")


def test_a_wal_that_is_truncated_costs_no_copy(one, caplog):
    """The next commit, and a restart without one, continue from it."""
    one.location("nrt")
    one.follow()
    wal = one.files / "primary.sqlite-wal"
    for _ in range(2):
        one.run("INSERT INTO t(a) VALUES (randomblob(15000000))")
        one.follow()
        one.clock.advance(1)
        one.service.engine.sweep()
        assert wal.stat().st_size == 0
    one.run("INSERT INTO t(a) VALUES ('second')")
    one.follow()
    one.run("INSERT INTO t(a) VALUES (randomblob(15000000))")
    one.follow()
    one.clock.advance(1)
    one.service.engine.sweep()
    assert wal.stat().st_size == 0
    for _ in range(2):
        one.check("nrt")
        assert one.replica_set.shipped == 0  # since the restart
    assert not [record.message for record in caplog.records if "copied again" in record.message or
                "start over" in record.message]  # fmt: skip


def test_a_wal_is_truncated_before_a_replica_has_its_pages(one):
    one.location("nrt")
    one.follow()
    one.run("INSERT INTO t(a) VALUES (randomblob(15000000))")
    one.clock.advance(1)
    one.service.engine.sweep()
    assert (one.files / "primary.sqlite-wal").stat().st_size == 0
    one.check("nrt")
