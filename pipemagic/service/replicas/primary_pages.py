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

import apsw

from pipemagic.service.sqlite.database import Fingerprint, OpenDatabase, fingerprint

_HEADER_SIZE, _SALTS = 32, 16
"""Bytes of the WAL's header, and where its salts (8 bytes) are."""
_FRAME_HEADER_SIZE, _FRAME = 24, struct.Struct(">II8s")
"""Page number, pages in the database after a commit (else 0), salts; a checksum follows."""
_LOCK_BYTE = 0x40000000
"""SQLite never uses the page at this offset: it contains the locks on Windows."""


class WalError(Exception):
    """The WAL does not continue the commits that were read: another program wrote to it."""


class PrimaryPages:
    """The pages of a primary as of the last commit that was passed to `advance`.

    While it is open, SQLite keeps the WAL: a checkpoint with the last connection would delete it.
    """

    def __init__(self, primary: OpenDatabase) -> None:
        self._primary = primary
        self._reading = threading.Lock()
        """Held between a seek in the WAL and the read."""
        self._salts, self._frames = b"", 0
        """The salts of the WAL, and the number of its frames that were read."""
        self._offsets: dict[int, int] = {}
        """The offset in the WAL of each page that is in it."""
        self.count = 0
        """Pages of the database."""
        self._known: Fingerprint | None = None
        """The fingerprint of the file when `start_over` was called."""
        self._file = apsw.VFSFile("", str(primary.path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        self._anchor = apsw.Connection(str(primary.path))
        self._anchor.set_busy_timeout(1000)
        self._anchor.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # creates the WAL
        self.page_size = int(self._anchor.pragma("page_size"))
        self._wal = FileIO(primary.path.with_name(primary.path.name + "-wal"))

    def start_over(self) -> Fingerprint | None:
        """Read all commits in the WAL; return the fingerprint of the file if the WAL has none.

        Raise `WalError` if a writer restarts the WAL meanwhile.
        """
        self._known = fingerprint(self._primary.path)
        # A writer that restarts the WAL sets the number of frames to zero before it changes the salts.
        salts, frames = self._read_salts(), self._committed_frames()
        self._salts, self._frames, self._offsets = salts, 0, {}
        self.count = self._file.xFileSize() // self.page_size
        self.advance(frames)
        if self._read_salts() != salts:
            raise WalError("the WAL was restarted while it was read")
        return None if frames else self._known

    def _committed_frames(self) -> int:
        return max(0, self._anchor.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0])

    def are_current(self) -> bool:
        """Return True if the WAL has no commit that was not read."""
        frames, salts = self._committed_frames(), self._read_salts()
        return (frames, salts) == (self._frames, self._salts) or (
            # It was truncated after a checkpoint.
            not salts and 0 < self._frames == self._primary.moved_frames and self._file_is_as_checkpointed()
        )

    def _file_is_as_checkpointed(self) -> bool:
        return fingerprint(self._primary.path) == self._primary.checkpointed

    def advance(self, frames: int) -> set[int]:
        """Read the headers of the frames up to number ``frames``, which ends a commit; return the changed pages.

        Raise `WalError` if the WAL was restarted and may have had other commits in the meantime. It had none if the
        service's last checkpoint included all frames that were read and this WAL is the next one, or if the file is as
        that checkpoint or the start left it. (After a transaction that was rolled back, the WAL is not the next one.)
        """
        salts, primary = self._read_salts(), self._primary
        if salts != self._salts:
            # SQLite increments the first salt.
            follows = int.from_bytes(salts[:4], "big") == int.from_bytes(self._salts[:4], "big") + 1 & 0xFFFFFFFF
            moved_all = 0 < self._frames == primary.moved_frames
            if not (follows and moved_all) and fingerprint(primary.path) not in (self._known, primary.checkpointed):
                raise WalError("another program wrote to the database, or checkpointed it")
            self._salts, self._frames, self._offsets = salts, 0, {}
        changed: set[int] = set()
        for number in range(self._frames, frames):
            offset = _HEADER_SIZE + number * (_FRAME_HEADER_SIZE + self.page_size)
            header = self._read_wal(offset, _FRAME.size)
            if len(header) < _FRAME.size or header[8:] != salts:
                raise WalError(f"frame {number} of the WAL does not belong to it")
            page, count, _ = _FRAME.unpack(header)
            self._offsets[page] = offset + _FRAME_HEADER_SIZE
            self.count = count or self.count
            changed.add(page)
        self._frames = max(frames, self._frames)
        return changed

    def read(self, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Return an iterator over the numbers and contents of pages as they are now, in ascending order.

        No checkpoint may run until it is exhausted; commits and further calls of `advance` do not affect it.
        """
        salts, unused = self._salts, _LOCK_BYTE // self.page_size + 1
        pages = sorted(number for number in numbers if number <= self.count and number != unused)
        places = [(number, self._offsets.get(number)) for number in pages]
        return ((number, self._page(number, offset, salts)) for number, offset in places)

    def _page(self, number: int, offset: int | None, salts: bytes) -> bytes:
        if offset is not None:
            data = self._read_wal(offset, self.page_size)
            if self._read_salts() == salts:
                return data
            # A writer has restarted the WAL, which it does only after a checkpoint of all frames.
        data = self._file.xRead(self.page_size, (number - 1) * self.page_size)
        return data.ljust(self.page_size, b"\0")  # a page that was allocated and never written

    def _read_salts(self) -> bytes:
        """Return the salts of the WAL, which SQLite changes at each restart of the WAL."""
        return self._read_wal(_SALTS, 8)

    def _read_wal(self, offset: int, size: int) -> bytes:
        with self._reading:
            self._wal.seek(offset)
            return self._wal.read(size)

    def close(self) -> None:
        """Close the files; the last connection of a database checkpoints its WAL."""
        self._wal.close()  # first: Windows deletes no open file
        self._file.xClose()
        self._anchor.close(True)
