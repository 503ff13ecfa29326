"""An answer that comes in pieces on a stream, which is in use until the answer is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from pipemagic.client.bodies import Pieces
from pipemagic.hrana import cursors

Ended: TypeAlias = Callable[[BaseException | None, bool], None]
"""What is called once when the answer is over: with the error that ended it, if one did, and whether all of it came."""


class Streamed:
    """The answer to a cursor: its first line, then the rest in pieces. To be closed, which may hang up.

    ``check`` is called before each piece and may raise, with which the stream is gone.
    """

    def __init__(self, pieces: Pieces, on_end: Ended, check: Callable[[], None] = lambda: None) -> None:
        self.ended = False
        """Whether all of it came."""
        self._pieces, self._on_end, self._check = pieces, on_end, check
        self._first = b""
        self._over = False

    def read_head(self) -> cursors.Head:
        """Read the first line; ProtocolError if it is none. Until it is there, errors do not end the stream here."""
        try:
            while b"\n" not in self._first:
                self._first += next(self._pieces, b"\n")
            line, _, self._first = self._first.partition(b"\n")
            return cursors.decode_head(line)
        except BaseException:
            self._over = True
            self._pieces.close()
            raise

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Give the next piece; raises what `Pieces` raises, with which the stream is gone."""
        if self._first:
            piece, self._first = self._first, b""
            return piece
        try:
            self._check()
            return next(self._pieces)
        except StopIteration:
            self.ended = True
            raise
        except BaseException as error:
            self._end(error, whole=False)
            raise

    def drain(self) -> None:
        """Read the rest and forget it."""
        for _ in self:
            pass

    def close(self) -> None:
        """End it, by hanging up if not all of it came; nothing if it is over already."""
        self._end(None, whole=self.ended)

    def _end(self, error: BaseException | None, *, whole: bool) -> None:
        if not self._over:
            self._over = True
            self._pieces.close()
            self._on_end(error, whole)
