"""Pages of a primary, read beside SQLite, are those of the last recorded commit, from the WAL or the file."""

from __future__ import annotations

import apsw
import pytest

from pipemagic.service.replicas import primary_pages
from pipemagic.service.replicas.primary_pages import PrimaryPages, WalError


class Primary:
    """A database in WAL mode whose commits a test records."""

    def __init__(self, path):
        self.raw = apsw.Connection(str(path))
        self.raw.pragma("journal_mode", "wal")
        self.raw.execute("CREATE TABLE t(a); INSERT INTO t VALUES ('first')")
        self.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self.raw.set_wal_hook(self._committed)
        self.path, self.frames, self.moved_frames = path, 0, 0
        self.checkpointed = None
        self.pages = PrimaryPages(self)
        self.pages.start_over()

    def _committed(self, _connection, _name, frames):
        self.frames = frames
        return 0

    def commit(self, value):
        self.raw.execute("UPDATE t SET a = ?", (value,))

    def record(self):
        return self.pages.advance(self.frames)

    def checkpoint(self, mode=apsw.SQLITE_CHECKPOINT_PASSIVE):
        self.moved_frames = self.raw.wal_checkpoint(mode=mode)[1]

    def table(self):
        return dict(self.pages.read([1, 2]))[2]


@pytest.fixture
def primary(tmp_path):
    primary = Primary(tmp_path / "primary.sqlite")
    yield primary
    primary.raw.close()
    primary.pages.close()


def test_a_page_is_that_of_the_last_recorded_commit(primary):
    assert b"first" in primary.table()
    primary.commit("second")
    assert b"first" in primary.table()
    assert primary.record() == {2}
    primary.commit("third")
    assert b"second" in primary.table()
    primary.record()
    assert b"third" in primary.table()
    primary.checkpoint()
    assert b"third" in primary.table()
    assert primary.pages.are_current()


def test_pages_do_not_change_while_later_commits_are_recorded(primary):
    primary.commit("second")
    primary.record()
    pages = primary.pages.read([2])
    primary.commit("third")
    primary.record()
    assert b"second" in next(pages)[1]


def test_pages_of_a_wal_that_starts_over_meanwhile_are_read_from_the_file(primary):
    primary.commit("second")
    primary.record()
    primary.checkpoint()
    primary.commit("third")  # in the first frames of the WAL; the file has the second
    assert b"second" in primary.table()
    primary.record()
    assert b"third" in primary.table()


def test_a_wal_that_another_program_restarted_is_not_followed(primary):
    primary.commit("second")
    primary.record()
    for value in ("third", "fourth"):
        primary.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        primary.commit(value)
    with pytest.raises(WalError, match="another program"):
        primary.record()


def test_the_page_of_the_locks_and_pages_beyond_the_end_are_not_read(primary, monkeypatch):
    monkeypatch.setattr(primary_pages, "_LOCK_BYTE", 4096)
    assert [number for number, _ in primary.pages.read(range(1, 10))] == [1]
