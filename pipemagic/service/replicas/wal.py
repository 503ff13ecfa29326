"""Read the frames of a WAL file beside SQLite.

The locks of WAL mode are on the ``-shm`` file, so opening and closing the ``-wal`` here drops none of them.
Source: https://www.sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import struct
from io import FileIO
from pathlib import Path
from typing import NamedTuple

HEADER_SIZE = 32
_HEADER = struct.Struct(">IIII8s8s")  # magic, version, page size, checkpoints, salts, checksum
_FRAME = struct.Struct(">II8s8s")  # page number, pages in the database after a commit (else 0), salts, checksum
_MAGIC = (0x377F0682, 0x377F0683)


class WalError(Exception):
    """The WAL does not continue the commits that were read: another program wrote to it."""


class Position(NamedTuple):
    """How far a WAL was read: its salts (8 bytes, new ones each time it starts over), and how many frames."""

    salts: bytes
    frame: int


START = Position(b"\0" * 8, 0)
"""No WAL was read yet."""


class Commits(NamedTuple):
    """What some frames hold: where the newest image of each page begins in the WAL, and the database's size."""

    offsets: dict[int, int]
    pages: int
    page_size: int
    end: Position


class Wal:
    """The WAL of one database file. Close it before SQLite closes its last connection: Windows asks for that."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-wal")
        self._file: FileIO | None = None  # opened when first read, when it is sure to be the one in use

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def since(self, seen: Position, end: int) -> Commits:
        """Return the pages of the frames after ``seen`` up to number ``end``; the last one must end a commit."""
        page_size, salts = self._header()
        begin = seen.frame if salts == seen.salts else 0
        if begin > end:
            raise WalError(f"the WAL has {end} frames and {begin} were seen")
        if salts != seen.salts and seen.frame and not follows(seen.salts, salts):
            raise WalError("the WAL was started anew, more than once or by somebody else")
        offsets: dict[int, int] = {}
        step, pages = _FRAME.size + page_size, 0
        for number in range(begin, end):
            offset = HEADER_SIZE + number * step
            page, pages, frame_salts, _ = _FRAME.unpack(self.read(offset, _FRAME.size))
            if frame_salts != salts or not page:
                raise WalError(f"frame {number} of the WAL does not belong to it")
            offsets[page] = offset + _FRAME.size
        if offsets and not pages:
            raise WalError("the WAL ends in the middle of a commit")
        return Commits(offsets, pages, page_size, Position(salts, end))

    def position(self, end: int) -> Position:
        """Return the position behind the WAL's first ``end`` frames; `START` if it has none."""
        return Position(self._header()[1], end) if end > 0 else START

    def read(self, offset: int, size: int) -> bytes:
        """Read exactly ``size`` bytes."""
        if self._file is None:
            raise WalError("the WAL is not there")
        self._file.seek(offset)
        data = self._file.read(size)
        if len(data) != size:
            raise WalError("the WAL is shorter than the commits that were seen")
        return data

    def _header(self) -> tuple[int, bytes]:
        if self._file is None and self._path.exists():  # there is none before the first write
            self._file = FileIO(self._path)
        magic, _, page_size, _, salts, _ = _HEADER.unpack(self.read(0, HEADER_SIZE))
        if magic not in _MAGIC:
            raise WalError("the WAL has no header")
        return page_size, salts


def follows(before: bytes, after: bytes) -> bool:
    """Return True if a WAL with the salts ``after`` is the next one: SQLite increments the first salt."""
    return (int.from_bytes(before[:4], "big") + 1) & 0xFFFFFFFF == int.from_bytes(after[:4], "big")
