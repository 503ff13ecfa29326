"""A primary's log of changes: what each commit wrote, on disk before a checkpoint can lose it.

The file is a header and then records, one for each commit: which pages it wrote and what they held
afterwards. It is made durable before the primary's WAL is checkpointed and before a replica applies it; until
then the WAL has the same frames, and what a crash tore off the log's end is read from there again.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pipemagic.service.files import sync_folder
from pipemagic.service.replicas.wal import START, Commits, Position, Wal

_HEADER = struct.Struct(">8sQ8sII")  # magic, base index, salts and frame of the WAL, CRC-32 of the rest
_MAGIC = b"pmlog-1\n"
_RECORD = struct.Struct(">4sQI")  # mark, bytes that follow, their CRC-32
_COMMIT, _CLOSED = b"cmit", b"clsd"
_FACTS = struct.Struct(">QIII8sI")  # index, pages in the database, bytes a page, pages here, salts and frame
_STAMP = struct.Struct(">QQ")
_PIECE = 1024 * 1024
_BINARY = getattr(os, "O_BINARY", 0)  # Windows


class LogError(Exception):
    """The log cannot be used: replicas start again from a copy."""


class Stamp(NamedTuple):
    """Size (bytes) and time of change (ns) of a database file that has all commits: its WAL is empty."""

    size: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Return the stamp of a file."""
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Record:
    """One commit: its index, the database's size in pages after it, and where its pages are in the log."""

    index: int
    pages: int
    page_size: int
    numbers: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Bytes of page images."""
        return len(self.numbers) * self.page_size


class ChangeLog:
    """The log of one primary. Safe to use from several threads."""

    def __init__(self, path: Path, file_descriptor: int) -> None:
        self._file = os.fdopen(file_descriptor, "r+b", buffering=0)
        self._path = path
        self._lock = threading.Lock()
        self._records: list[Record] = []
        self._flushed = True
        self.base = self.last = 0
        """Changes after the commit ``base`` up to the commit ``last`` are in the log."""
        self.position = START
        """The position up to which the primary's WAL was read."""
        self.size = _HEADER.size
        """Bytes of the file."""

    @classmethod
    def create(cls, path: Path, index: int, position: Position) -> ChangeLog:
        """Begin a log after the commit ``index``, whose frames end at ``position``; it replaces an older one."""
        draft = path.with_name(path.name + ".new")
        fields = (_MAGIC, index, *position)
        with draft.open("wb") as file:
            file.write(_HEADER.pack(*fields, _check(fields)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        sync_folder(path.parent)
        return cls.open(path)[0]

    @classmethod
    def open(cls, path: Path) -> tuple[ChangeLog, Stamp | None]:
        """Open an existing log; return it, and the stamp of the database file if that was closed regularly.

        A record that a crash left incomplete is removed. Raise FileNotFoundError or `LogError`.
        """
        log = cls(path, os.open(path, os.O_RDWR | _BINARY))
        try:
            return log, log._load()
        except BaseException:
            log._file.close()
            raise

    def _load(self) -> Stamp | None:
        head = self._file.read(_HEADER.size)
        if len(head) != _HEADER.size:
            raise LogError("the log has no header")
        *fields, check = _HEADER.unpack(head)
        if fields[0] != _MAGIC or check != _check(tuple(fields)):
            raise LogError("the header of the log is damaged")
        self.base = self.last = fields[1]
        self.position = Position(fields[2], fields[3])
        stamp: Stamp | None = None
        while (mark := self._next()) is not None:
            stamp = mark if isinstance(mark, Stamp) else None
        self._file.truncate(self.size)
        return stamp

    def _next(self) -> Record | Stamp | None:
        """Read the record at `size`; return None if it is incomplete."""
        head = self._read(self.size, _RECORD.size)
        if len(head) != _RECORD.size:
            return None
        mark, length, check = _RECORD.unpack(head)
        begin = self.size + _RECORD.size
        if mark not in (_COMMIT, _CLOSED) or check != self._checksum(begin, length):
            return None
        self.size = begin + length
        if mark == _CLOSED:
            self.position = START  # closing took the WAL away
            return Stamp(*_STAMP.unpack(self._read(begin, length)))
        index, pages, page_size, count, salts, frame = _FACTS.unpack(self._read(begin, _FACTS.size))
        numbers = struct.unpack(f">{count}I", self._read(begin + _FACTS.size, 4 * count))
        record = Record(index, pages, page_size, numbers, begin + _FACTS.size + 4 * count)
        self._take(record, Position(salts, frame))
        return record

    def _checksum(self, begin: int, length: int) -> int:
        check = 0
        while length > 0:
            piece = self._read(begin, min(length, _PIECE))
            if not piece:
                return -1
            check, begin, length = zlib.crc32(piece, check), begin + len(piece), length - len(piece)
        return check

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(size) or b""

    def _take(self, record: Record, position: Position) -> None:
        self._records.append(record)
        self.last, self.position = record.index, position

    # Writing.

    def append(self, index: int, commits: Commits, wal: Wal) -> int:
        """Append the pages of a commit; return their bytes. Raise OSError if there is no space."""
        numbers = tuple(sorted(commits.offsets))
        facts = _FACTS.pack(index, commits.pages, commits.page_size, len(numbers), *commits.end)
        body = facts + struct.pack(f">{len(numbers)}I", *numbers)
        with self._lock:
            begin = self.size + _RECORD.size
            record = Record(index, commits.pages, commits.page_size, numbers, begin + len(body))
            self._file.seek(begin)
            check = self._write(body, 0)
            for number in numbers:
                check = self._write(wal.read(commits.offsets[number], commits.page_size), check)
            self._finish(_COMMIT, begin, check)
            self._take(record, commits.end)
        return record.size

    def _write(self, data: bytes, check: int) -> int:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        return zlib.crc32(data, check)

    def _finish(self, mark: bytes, begin: int, check: int) -> None:
        """Write the head last: without it the record does not exist."""
        end = self._file.tell()
        self._file.seek(self.size)
        self._write(_RECORD.pack(mark, end - begin, check), 0)
        self._flushed = False
        self.size = end

    def flush(self) -> None:
        """Make the appended records durable."""
        with self._lock:
            if not self._flushed:
                os.fsync(self._file.fileno())
                self._flushed = True

    # Reading.

    def after(self, index: int, most: int) -> list[Record]:
        """Return the commits after ``index``, in order: up to ``most`` bytes of pages, but at least one."""
        chosen: list[Record] = []
        size = 0
        with self._lock:
            for record in self._records:
                if record.index > index:
                    size += record.size
                    if chosen and size > most:
                        break
                    chosen.append(record)
        return chosen

    def pages(self, records: list[Record]) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the newest content of each page that the commits wrote."""
        newest = {
            number: record.offset + place * record.page_size
            for record in records
            for place, number in enumerate(record.numbers)
        }
        page_size = records[0].page_size
        for number, offset in newest.items():
            with self._lock:
                data = self._read(offset, page_size)
            if len(data) != page_size:
                raise LogError("the log is shorter than what was written to it")
            yield number, data

    # The end.

    def note_closed(self, stamp: Stamp) -> None:
        """Record durably that the database has no WAL, as after it was closed, and the stamp of its file."""
        with self._lock:
            begin = self.size + _RECORD.size
            self._file.seek(begin)
            check = self._write(_STAMP.pack(*stamp), 0)
            self._finish(_CLOSED, begin, check)
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file once no thread reads from it: its descriptor may be reused at once."""
        with self._lock:
            self._file.close()

    def remove(self) -> None:
        """Close and delete the file."""
        self.close()
        self._path.unlink(missing_ok=True)


def _check(fields: tuple[object, ...]) -> int:
    return zlib.crc32(repr(fields).encode())
