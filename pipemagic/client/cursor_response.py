"""Parse the response to a cursor: chunks to lines to entries. Rows that arrive together are read by columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import msgspec

from pipemagic.errors import ProtocolError
from pipemagic.frames.columnar import ColumnarRows
from pipemagic.frames.typed_json import LARGE, check_size, read_part, read_rows
from pipemagic.hrana import cursors
from pipemagic.hrana.columns import RowsEntry
from pipemagic.hrana.messages import Col

if TYPE_CHECKING:
    from pipemagic.client.deadline import Deadline
    from pipemagic.client.response_body import Chunks  # imports httpx, which takes long

E = TypeVar("E", bound=BaseException | None)


class OnEnd(Protocol):
    """Called once at the end of a response, with its error, if any, and whether it is complete."""

    def __call__(self, error: E, complete: bool) -> E:
        """Return the error to raise."""
        ...


ReceivedEntry: TypeAlias = cursors.CursorEntry | ColumnarRows
"""The content of a line; one entry may hold the rows of many lines."""

CHUNK_SIZE = 2**18
"""Bytes that are read together: smaller chunks cost more, larger ones delay progress."""

MOST_LINE = 256 * 1024 * 1024
"""The most bytes of a line: a row, or some rows by columns. The number of lines has no limit."""

MOST_HEAD = 2**20
"""The most bytes that are read to find the end of the first line."""

MAX_DELAY = 0.1
"""Seconds for which chunks are collected, up to CHUNK_SIZE bytes."""

_ROW, _CELLS, _END = b'{"type":"row","row":[', b'{"type":"row","row":[{"t', b"]}"
_BETWEEN = _END + b"\n" + _ROW
_ENTRY: msgspec.json.Decoder[cursors.CursorEntry] = msgspec.json.Decoder(cursors.CursorEntry)


class CursorResponse:
    """The first line and the chunks of a response to a cursor. Closing it aborts it if it is not complete.

    The stream is in use until it ends. After the ``deadline`` reading raises AnswerTimeout, and the stream is lost.
    """

    def __init__(self, chunks: Chunks, on_end: OnEnd, deadline: Deadline | None) -> None:
        self.complete = False
        """Whether the response is complete."""
        self._chunks, self._on_end, self._deadline = chunks, on_end, deadline
        self._rest = b""
        self._ended = False

    def read_head(self) -> cursors.Head:
        """Return the first line; ProtocolError if it is malformed."""
        while b"\n" not in self._rest:
            if len(self._rest) > MOST_HEAD:
                raise ProtocolError("the first line of the cursor is too long")
            self._rest += next(self._chunks, b"\n")
        line, _, self._rest = self._rest.partition(b"\n")
        return cursors.decode_head(line)

    def discard(self) -> None:
        """Abort the response without a call of ``on_end``, after an error of its first line."""
        self._ended = True
        self._chunks.close()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Return the next chunk. Raise the errors of `Chunks`, after which the stream is lost."""
        if self._rest:
            chunk, self._rest = self._rest, b""
            return chunk
        try:
            if self._deadline is not None:
                self._deadline.check()
            return next(self._chunks)
        except StopIteration:
            self.complete = True
            raise
        except BaseException as error:  # noqa: BLE001 - the stream may know more
            raise self._end(error) from None

    def close(self, *, drain: bool = False) -> None:
        """Abort an incomplete response, or ``drain`` the rest of it; do nothing if it has ended."""
        if drain:
            for _ in self:
                pass
        self._end(None)

    def _end(self, error: E) -> E:
        if self._ended:
            return error
        self._ended = True
        self._chunks.close()
        return self._on_end(error, self.complete)


def read_entries(
    chunks: Iterable[bytes], clock: Callable[[], float] = time.monotonic
) -> Iterator[Sequence[ReceivedEntry]]:
    """Yield the entries of chunks, which may split lines, in batches.

    Chunks in quick succession are read together: some servers send each row as a chunk.
    """
    cols: Sequence[Col] = ()
    for lines in _whole_lines(_joined(chunks, clock)):
        entries = (_read_by_columns(lines, cols) if len(lines) >= LARGE else None) or _read(lines, cols)
        begins = [entry for entry in entries if isinstance(entry, cursors.StepBegin)]
        cols = begins[-1].cols if begins else cols
        yield entries


def _joined(chunks: Iterable[bytes], clock: Callable[[], float]) -> Iterator[bytes]:
    """Yield joined chunks. The first ones are not joined, so that a slow statement shows its first rows soon."""
    waiting: list[bytes] = []
    size, total, last_yield = 0, 0, clock()
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size >= CHUNK_SIZE or total < LARGE or clock() - last_yield >= MAX_DELAY:
            yield b"".join(waiting)
            waiting, size, last_yield = [], 0, clock()
        total += len(chunk)
    yield b"".join(waiting)


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield whole lines; a line may span several chunks. Raise ProtocolError for one beyond `MOST_LINE`."""
    begun: list[bytes] = []
    size = 0
    for chunk in chunks:
        head, newline, rest = chunk.rpartition(b"\n")
        size = len(rest) if newline else size + len(chunk)
        if size > MOST_LINE:
            raise ProtocolError(
                f"a row of the result is larger than {MOST_LINE // 1024**2} MB",
                hint="read large values in parts, for example with substr()",
            )
        if not newline:
            begun.append(chunk)
            continue
        yield b"".join([*begun, head])
        begun = [rest]
    if last := b"".join(begun):
        yield last


def _read_by_columns(lines: bytes, cols: Sequence[Col]) -> Sequence[ReceivedEntry] | None:
    """Return the entries of lines, with adjacent rows read by columns; None if that fails."""
    start, last = lines.find(_CELLS), lines.rfind(_CELLS)
    stop = lines.find(b"\n", last)
    stop = len(lines) if stop == -1 else stop
    if start == -1 or not lines.endswith(_END, start, stop):
        return None
    before = _read(lines[:start], cols)
    cols = next((entry.cols for entry in before if isinstance(entry, cursors.StepBegin)), cols)
    rows = read_rows(lines, start + len(_ROW), stop - len(_END), cols=cols, between=_BETWEEN)
    return None if rows is None else [*before, *rows, *_read(lines[stop:], cols)]


def _read(lines: bytes, cols: Sequence[Col]) -> Sequence[ReceivedEntry]:
    """Decode several lines together, which is faster, or one by one if they are unusual.

    The decoder also accepts one object on several lines and several objects on one line, which only a corrupt
    response contains.
    """
    check_size(lines)
    text = lines.strip(b"\n")
    entries: list[cursors.CursorEntry] = []
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        entries = _ENTRY.decode_lines(text)
    if not len(entries) - 1 == text.count(b"\n") == text.count(b"}\n{"):
        entries = list(cursors.decode_entries(lines.split(b"\n")))
    read: list[ReceivedEntry] = []
    for entry in entries:
        if isinstance(entry, cursors.StepBegin):
            cols = entry.cols
        read.append(read_part(entry.part, cols) if isinstance(entry, RowsEntry) else entry)
    return read
