"""The log of changes as a file: what is read again is what was written, whatever a crash tore off."""

from __future__ import annotations

import os
import threading

import apsw
import pytest

from pipemagic.service.replicas.changes import ChangeLog, LogError, Stamp
from pipemagic.service.replicas.wal import START, Wal, WalError, follows


class Primary:
    """A database in WAL mode whose commits are written to a log."""

    def __init__(self, folder):
        self.path = folder / "primary.sqlite"
        self.raw = apsw.Connection(str(self.path))
        self.raw.pragma("journal_mode", "wal")
        self.raw.wal_autocheckpoint(0)
        self.frames = 0
        self.raw.set_wal_hook(self._committed)
        self.wal = Wal(self.path)

    def _committed(self, _connection, _name, frames):
        self.frames = frames
        return 0

    def commit(self, log, index, sql):
        self.raw.execute(sql)
        return log.append(index, self.wal.since(log.position, self.frames), self.wal)


@pytest.fixture
def primary(tmp_path):
    primary = Primary(tmp_path)
    yield primary
    primary.wal.close()
    primary.raw.close()


@pytest.fixture
def log(tmp_path):
    log = ChangeLog.create(tmp_path / "changes.log", 7, START)
    yield log
    log.close()


def facts(log):
    records = log.after(0, 10**9)
    return [(record.index, record.pages, record.numbers) for record in records]


def test_closing_waits_for_who_reads(primary, log, monkeypatch):
    primary.commit(log, 8, "CREATE TABLE t(a)")
    read, closing = log._read, threading.Thread(target=log.close)

    def read_while_another_closes(offset, size):
        closing.start()
        closing.join(0.1)
        return read(offset, size)

    monkeypatch.setattr(log, "_read", read_while_another_closes)
    number, data = next(log.pages(log.after(7, 10**9)))
    assert (number, len(data)) == (1, 4096)
    closing.join(10)
    assert log._file.closed


def test_a_log_that_is_opened_again_holds_the_same_commits(primary, log, tmp_path):
    primary.commit(log, 8, "CREATE TABLE t(a)")
    primary.commit(log, 9, "INSERT INTO t VALUES (1), (2)")
    before = facts(log), log.position, log.size
    assert [index for index, _, _ in before[0]] == [8, 9]
    again, stamp = ChangeLog.open(tmp_path / "changes.log")
    assert (facts(again), again.position, again.size) == before
    assert (again.base, again.last, stamp) == (7, 9, None)
    again.close()


def test_pages_are_the_newest_of_several_commits(primary, log):
    primary.commit(log, 8, "CREATE TABLE t(a); INSERT INTO t VALUES ('old')")
    primary.commit(log, 9, "UPDATE t SET a = 'new'")
    pages = dict(log.pages(log.after(0, 10**9)))
    assert b"new" in pages[2]
    assert b"old" not in pages[2]
    assert dict(log.pages(log.after(0, 1)))[2] != pages[2]
    assert log.after(9, 10**9) == []


def test_whatever_a_crash_tears_off_leaves_whole_commits(primary, log, tmp_path):
    ends = {log.size: []}
    for index in range(8, 12):
        primary.commit(log, index, f"CREATE TABLE t{index}(a)")
        ends[log.size] = facts(log)
    whole = (tmp_path / "changes.log").read_bytes()
    torn = tmp_path / "torn.log"
    for length in [*range(40, len(whole), 97), *ends, *(end - 1 for end in list(ends)[1:])]:
        torn.write_bytes(whole[:length])
        again, _ = ChangeLog.open(torn)
        assert facts(again) == ends[max(end for end in ends if end <= length)]
        assert os.path.getsize(torn) == again.size
        again.close()


def test_a_damaged_commit_ends_the_log_and_a_damaged_head_makes_it_useless(primary, log, tmp_path):
    primary.commit(log, 8, "CREATE TABLE t(a)")
    first = log.size
    primary.commit(log, 9, "INSERT INTO t VALUES (1)")
    path = tmp_path / "changes.log"
    data = bytearray(path.read_bytes())
    data[first + 1000] ^= 1
    path.write_bytes(data)
    again, _ = ChangeLog.open(path)
    assert [index for index, _, _ in facts(again)] == [8]
    again.close()
    data[12] ^= 1
    path.write_bytes(data)
    with pytest.raises(LogError, match="damaged"):
        ChangeLog.open(path)
    path.write_bytes(b"short")
    with pytest.raises(LogError, match="no header"):
        ChangeLog.open(path)


def test_how_the_database_was_closed_is_known_until_the_next_commit(primary, log, tmp_path):
    primary.commit(log, 8, "CREATE TABLE t(a)")
    log.note_closed(Stamp(4096, 123))
    again, stamp = ChangeLog.open(tmp_path / "changes.log")
    assert (stamp, again.position) == (Stamp(4096, 123), START)
    primary.commit(again, 9, "INSERT INTO t VALUES (1)")
    again.close()
    later, stamp = ChangeLog.open(tmp_path / "changes.log")
    assert stamp is None
    assert later.last == 9
    later.close()


def test_a_wal_that_starts_over_is_followed_and_one_of_somebody_else_is_not(primary, log):
    primary.commit(log, 8, "CREATE TABLE t(a)")
    before = log.position
    primary.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    primary.commit(log, 9, "INSERT INTO t VALUES (1)")
    assert follows(before.salts, log.position.salts)
    assert log.position.frame < before.frame
    primary.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    primary.raw.execute("INSERT INTO t VALUES (2)")  # not seen
    primary.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    with pytest.raises(WalError, match="started anew"):
        primary.commit(log, 10, "INSERT INTO t VALUES (3)")
