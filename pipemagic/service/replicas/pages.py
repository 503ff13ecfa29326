"""Write pages into a replica's file beneath SQLite, under SQLite's own exclusive lock.

Page 1 is written last and carries the index of the commit that the file stands at (as SQLite's change counter,
so that readers drop what they remember of older pages). A crash in the middle leaves an older index there than
what other pages hold; writing all pages after that index once more mends it.
Source of the offsets: https://www.sqlite.org/fileformat2.html#the_database_header
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import apsw

from pipemagic.service.sqlite.backup import copy_pages

_JOURNAL_MODE = 18  # write and read version, one byte each: 1 is a rollback journal, 2 a WAL
_COUNTER, _PAGES, _COOKIE, _VALID_FOR = 24, 28, 40, 92
_HEADER_SIZE = 100
_WORD = struct.Struct(">I")
_MASK = 0xFFFFFFFF
PATIENCE = 50
"""Milliseconds for which new readers wait while the running ones finish."""


class PageFile:
    """The file of one replica, open for writing pages."""

    def __init__(self, path: Path) -> None:
        flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
        self._file = apsw.VFSFile("", str(path), flags)  # of SQLite's, so that it shares in its locks' bookkeeping
        self._locker = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self._locker.set_busy_timeout(PATIENCE)

    @property
    def counter(self) -> int:
        """The low 32 bits of the index that the file stands at."""
        return int(_WORD.unpack_from(self._file.xRead(_HEADER_SIZE, 0), _COUNTER)[0])

    def write(self, pages: Iterator[tuple[int, bytes]], count: int, page_size: int, index: int) -> bool:
        """Write the pages; the file has ``count`` of them then and stands at ``index``.

        Return True if the schema changed. Raise apsw.BusyError, before anything is written, if a reader does not
        finish. After any other error the file is unusable: it stays locked until it is closed, and is no database then.
        """
        self._locker.execute("BEGIN EXCLUSIVE")
        try:
            changed = self._write(pages, count, page_size, index)
        except BaseException:
            with suppress(apsw.Error):  # waiting readers must not read a torn file
                self._file.xWrite(bytes(_HEADER_SIZE), 0)
            raise
        self._locker.execute("ROLLBACK")
        return changed

    def _write(self, pages: Iterator[tuple[int, bytes]], count: int, page_size: int, index: int) -> bool:
        old = first = self._file.xRead(page_size, 0)
        for number, data in pages:
            if number == 1:
                first = data
            elif number <= count:
                self._file.xWrite(data, (number - 1) * page_size)
        self._file.xSync(apsw.SQLITE_SYNC_NORMAL)
        self._file.xWrite(stamped(first, index, count), 0)
        self._file.xTruncate(count * page_size)  # after page 1: SQLite refuses a file shorter than that says
        self._file.xSync(apsw.SQLITE_SYNC_NORMAL)
        return old[_COOKIE : _COOKIE + 4] != first[_COOKIE : _COOKIE + 4]

    def close(self) -> None:
        """Close the file."""
        self._locker.close(True)
        self._file.xClose()


def stamped(first: bytes, index: int, count: int) -> bytes:
    """Return page 1 of a replica: rollback journal, ``index`` as change counter, ``count`` pages."""
    page = bytearray(first)
    page[_JOURNAL_MODE : _JOURNAL_MODE + 2] = b"\1\1"
    for place, number in ((_COUNTER, index & _MASK), (_PAGES, count), (_VALID_FOR, index & _MASK)):
        _WORD.pack_into(page, place, number)
    return bytes(page)


def full_index(counter: int, near: int) -> int:
    """Return the highest index up to ``near`` whose low 32 bits are ``counter``."""
    return near - ((near - counter) & _MASK)


def copy(source: apsw.Connection, target: Path, index: int, stopped: Callable[[], bool]) -> Path:
    """Create a file for a replica from the snapshot of ``source``, which is that of ``index``.

    The file is durable and beside ``target``. Raise `Stopped` once ``stopped`` returns True, and OSError if the disk
    has too little space, before it is filled.
    """
    draft = target.with_name(target.name + ".new")
    target.parent.mkdir(parents=True, exist_ok=True)
    for leftover in (draft, draft.with_name(draft.name + "-journal")):
        leftover.unlink(missing_ok=True)
    size = source.pragma("page_count") * source.pragma("page_size")
    if shutil.disk_usage(target.parent).free < size:
        raise OSError(errno.ENOSPC, f"no room for a copy of {size:,} bytes", str(draft))
    try:
        _fill(draft, source, index, stopped)
    except BaseException:
        draft.unlink(missing_ok=True)  # what there is of it may be what fills the disk
        raise
    return draft


def _fill(draft: Path, source: apsw.Connection, index: int, stopped: Callable[[], bool]) -> None:
    cookie = int(source.pragma("schema_version"))
    copied = apsw.Connection(str(draft))
    try:
        copied.pragma("synchronous", "OFF")  # it is synced below, as a whole
        copied.pragma("journal_mode", "OFF")
        copy_pages(source, copied, stopped)
    finally:
        copied.close()
    with draft.open("r+b") as file:  # SQLite has it no longer open
        _restore_first_page(file, index, cookie)


def _restore_first_page(file: BinaryIO, index: int, cookie: int) -> None:
    """Restore page 1 of the source apart from the stamp: the backup increments the schema cookie."""
    head = file.read(_HEADER_SIZE)
    page_size = int.from_bytes(head[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    file.seek(0)
    first = bytearray(stamped(file.read(page_size), index, file.seek(0, os.SEEK_END) // page_size))
    _WORD.pack_into(first, _COOKIE, cookie & _MASK)
    file.seek(0)
    file.write(first)
    file.flush()
    os.fsync(file.fileno())
