"""Read the pages of a primary as they are after a known commit, from its WAL and its file.

Reading beside SQLite is safe under two conditions. The locks of WAL mode are on the ``-shm`` file, so opening and
closing the ``-wal`` here releases none of them. The database file is opened through SQLite's own VFS, which keeps
track of its locks.
Source: https://www.sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

import apsw

_HEADER_SIZE, _SALTS = 32, 16
"""Bytes of the WAL's header, and where its salts (8 bytes) are."""
_FRAME = struct.Struct(">II8s8s")  # page number, pages in the database after a commit (else 0), salts, checksum
_LOCK_BYTE = 0x40000000
"""SQLite never uses the page at this offset: it contains the locks on Windows."""


class WalError(Exception):
    """The WAL does not continue the commits that were read: another program wrote to it."""


class PrimaryPages:
    """The pages of a primary as of the last commit that was passed to `advance`.

    While it is open, SQLite keeps the WAL: a checkpoint with the last connection would delete it.
    """

    def __init__(self, path: Path) -> None:
        self._wal_path = path.with_name(path.name + "-wal")
        self._wal: FileIO | None = None  # opened at the first read, when it is certainly the one in use
        self._reading = threading.Lock()
        """Held between a seek in the WAL and the read."""
        self._anchor = apsw.Connection(str(path))
        self._anchor.set_busy_timeout(1000)
        try:
            self._anchor.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # before the first read it has no WAL
            self.page_size = int(self._anchor.pragma("page_size"))
            self._file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        except BaseException:
            self._anchor.close()
            raise
        self.reset()

    def reset(self) -> None:
        """Forget all frames that were read."""
        self.salts, self._frames = b"", 0
        """The salts of the WAL, empty until a commit was read from it, and the number of frames that were read."""
        self._offsets: dict[int, int] = {}
        self.count = self._file.xFileSize() // self.page_size
        """Pages of the database."""

    def frames(self) -> int:
        """Return the number of committed frames in the WAL; do not checkpoint."""
        return max(0, self._anchor.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0])

    def advance(self, frames: int, moved: int) -> set[int]:
        """Read the headers of the frames up to number ``frames``, which ends a commit; return the changed pages.

        ``moved`` is the number of frames that the service's last checkpoint moved to the file, if it moved all. If the
        WAL was started anew although that is another number, another program has moved more frames.
        """
        salts = self._read_salts()
        if salts != self.salts:
            if self._frames and not (moved == self._frames and follows(self.salts, salts)):
                raise WalError("the WAL was started anew, more than once or by another program")
            self.salts, self._frames, self._offsets = salts, 0, {}
        if frames < self._frames:
            raise WalError(f"the WAL has {frames} frames and {self._frames} were read")
        changed: set[int] = set()
        count = 0
        for number in range(self._frames, frames):
            offset = _HEADER_SIZE + number * (_FRAME.size + self.page_size)
            page, count, frame_salts, _ = _FRAME.unpack(self._read_wal(offset, _FRAME.size))
            if frame_salts != salts or not page:
                raise WalError(f"frame {number} of the WAL does not belong to it")
            self._offsets[page] = offset + _FRAME.size
            changed.add(page)
        self._frames, self.count = frames, count or self.count
        return changed

    def read(self, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Return an iterator over the numbers and contents of pages as they are now, in ascending order.

        No checkpoint may run until it is exhausted; commits and further calls of `advance` do not affect it.
        """
        salts, unused = self.salts, _LOCK_BYTE // self.page_size + 1
        used = sorted(number for number in numbers if number <= self.count and number != unused)
        places = [(number, self._offsets.get(number)) for number in used]
        return ((number, self._page(number, offset, salts)) for number, offset in places)

    def _page(self, number: int, offset: int | None, salts: bytes) -> bytes:
        if offset is not None:
            data = self._read_wal(offset, self.page_size)
            if self._read_salts() == salts:
                return data
            # A writer has started the WAL anew, which it does only after all frames were moved to the file.
        data = self._file.xRead(self.page_size, (number - 1) * self.page_size)
        return data.ljust(self.page_size, b"\0")  # a page that was allocated and never written

    def _read_salts(self) -> bytes:
        """Return the salts of the WAL: SQLite changes them each time it starts over."""
        return self._read_wal(_SALTS, 8)

    def _read_wal(self, offset: int, size: int) -> bytes:
        with self._reading:
            if self._wal is None:
                self._wal = FileIO(self._wal_path)
            self._wal.seek(offset)
            data = self._wal.read(size) or b""
        if len(data) != size:
            raise WalError("the WAL is shorter than the commits that were read")
        return data

    def close(self) -> None:
        """Close the files; the last connection of a database moves its WAL into the file."""
        if self._wal is not None:
            self._wal.close()  # first: Windows deletes no open file
        self._file.xClose()
        self._anchor.close(True)


def follows(before: bytes, after: bytes) -> bool:
    """Return True if a WAL with the salts ``after`` is the next one: SQLite increments the first salt."""
    return (int.from_bytes(before[:4], "big") + 1) & 0xFFFFFFFF == int.from_bytes(after[:4], "big")
