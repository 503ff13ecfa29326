"""Rows of typed JSON -> parts by columns, without a Python object for each cell.

Servers write a cell always in the same way: ``{"type":"integer","value":"5"}``. So numpy finds where the cells begin,
checks that everything around the values has the very bytes that belong there, and cuts the values of each column out,
to be read at once. Where anything at all looks otherwise there is no answer, and the caller reads the JSON in the usual
way (`pipemagic.hrana.messages`), which is the reference for all of this.

Cells begin with ``{"t``, and nothing else does: in a JSON string a quote has a backslash in front of it, and the quote
that ends a string is not followed by a letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pipemagic.errors import ProtocolError
from pipemagic.frames.collector import collector_paused
from pipemagic.frames.parts import Part, Texts, is_utf8, part_of, texts_of
from pipemagic.frames.stored import StoredRows, by_columns
from pipemagic.hrana.messages import Col
from pipemagic.hrana.values import Float, Integer, Text, Value

PIECE = 2**19
"""Bytes that are looked at together: what fits the caches of a processor."""

_SHORTEST = len('{"type":"null"}')
_DIGITS = b"0123456789-,[]"
_INTEGERS = msgspec.json.Decoder(list[int])
_FLOATS = msgspec.json.Decoder(list[float])
_STRINGS = msgspec.json.Decoder(list[str])
_VALUES = msgspec.json.Decoder(list[Value])


class _Unusual(Exception):
    """The bytes do not have the form that is known here."""


def read_rows(body: bytes, start: int, stop: int, *, cols: Sequence[Col], between: bytes) -> list[StoredRows] | None:
    """Read the rows of ``body`` from their first cell at ``start`` to behind their last one.

    They are as wide as ``cols``, and ``between`` stands between two of them. Gives them in pieces; None if they are not
    written as expected.
    """
    pieces = _pieces(body, start, stop, between)
    try:
        return [_Piece(body, first, last, len(cols), between).rows(cols) for first, last in pieces]
    except _Unusual:
        return None


def _pieces(body: bytes, start: int, stop: int, between: bytes) -> Iterator[tuple[int, int]]:
    """Cut rows into pieces of whole rows."""
    seam = between + b'{"type":"'
    while stop - start > PIECE and (end := body.find(seam, start + PIECE, stop)) != -1:
        yield start, end
        start = end + len(between)
    yield start, stop


class _Piece:
    """Some whole rows: where each cell begins and ends, row by row."""

    def __init__(self, body: bytes, start: int, stop: int, width: int, between: bytes) -> None:
        import numpy as np

        if stop - start < _SHORTEST or not width:
            raise _Unusual
        self._size = stop - start
        self._bytes = np.frombuffer(body, np.uint8, self._size + 1, start)  # and the bracket behind them
        # Every eight bytes as one number: constant text is compared eight bytes at a time.
        self._words = np.ndarray((self._size - 7,), "<u8", body, start, (1,))
        self._starts = self._cells(width, between)
        self._ends = self._checked_ends(between)

    def _cells(self, width: int, between: bytes) -> Any:
        import numpy as np

        text = self._bytes
        starts = np.flatnonzero(text[: self._size - 2] == ord("{"))
        starts = starts[(text[starts + 1] == ord('"')) & (text[starts + 2] == ord("t"))]
        marked = b'{"t' in between  # what opens the next row looks like a cell itself; there is none before the first
        if marked:
            starts, width = np.concatenate([[-1], starts]), width + 1
        if not starts.size or starts.size % width:
            raise _Unusual
        return starts.reshape(-1, width)[:, marked:]

    def _checked_ends(self, between: bytes) -> Any:
        """Give where each cell ends, after a look that nothing else stands between them."""
        import numpy as np

        ends = np.empty_like(self._starts)
        ends[:, :-1] = self._starts[:, 1:] - 1
        ends[:-1, -1] = self._starts[1:, 0] - len(between)
        ends[-1, -1] = self._size
        if self._starts[0, 0] != 0 or (ends - self._starts < _SHORTEST).any():
            raise _Unusual
        self._expect(b'{"type":', self._starts)
        self._expect(b"}", ends - 1)
        self._expect(b",", ends[:, :-1])
        self._expect(between, ends[:-1, -1])
        return ends

    def _expect(self, text: bytes, places: Any) -> None:
        """Check that a text stands at all these places."""
        step = 8 if len(text) >= 8 else 1
        there = self._words if step == 8 else self._bytes
        for at in [*range(0, len(text) - step, step), len(text) - step]:
            if (there[places + at] != int.from_bytes(text[at : at + step], "little")).any():
                raise _Unusual

    def rows(self, cols: Sequence[Col]) -> StoredRows:
        """Give the rows by columns."""
        count, width = self._starts.shape
        return by_columns(cols, count, [self._column(self._starts[:, at], self._ends[:, at]) for at in range(width)])

    def _column(self, starts: Any, ends: Any) -> Part:
        letters = self._bytes[starts + 9]
        missing = letters == ord("n")
        nulls = bool(missing.any())
        if nulls:
            present = ~missing
            if (ends - starts)[missing].max() > _SHORTEST:
                raise _Unusual
            self._expect(b'"null"', starts[missing] + 8)
            starts, ends, letters = starts[present], ends[present], letters[present]
        if not starts.size:
            return Part(len(missing), frozenset())
        read = {ord("i"): self._integers, ord("f"): self._floats, ord("t"): self._texts}.get(int(letters[0]))
        part = read(starts, ends) if read is not None and (letters == letters[0]).all() else None
        if part is None:
            part = self._values(starts, ends)
        return _spread(part, missing) if nulls else part

    def _integers(self, starts: Any, ends: Any) -> Part | None:
        import numpy as np

        self._expect_cells(b'"integer","value":"', b'"}', starts, ends)
        joined = self._joined(starts + 27, ends - 2)
        if joined.translate(None, _DIGITS):
            return None
        try:
            numbers = np.array(_INTEGERS.decode(joined), np.int64)
        except (msgspec.DecodeError, OverflowError):
            return None
        return Part(len(numbers), frozenset({Integer}), numbers) if len(numbers) == len(starts) else None

    def _floats(self, starts: Any, ends: Any) -> Part | None:
        import numpy as np

        self._expect_cells(b'"float","value":', b"}", starts, ends)
        try:
            numbers = np.array(_FLOATS.decode(self._joined(starts + 24, ends - 1)), np.float64)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # an infinity is null
        return Part(len(numbers), frozenset({Float}), numbers) if len(numbers) == len(starts) else None

    def _texts(self, starts: Any, ends: Any) -> Part | None:
        self._expect_cells(b'"text","value":"', b'"}', starts, ends)
        data, offsets = self._gathered(starts + 24, ends - 2)
        if (data == ord("\\")).any():
            return self._escaped(starts, ends)
        texts = Texts(data, offsets)
        plain = not ((data < ord(" ")) | (data == ord('"'))).any() and is_utf8(texts)
        return Part(len(starts), frozenset({Text}), texts) if plain else None

    def _escaped(self, starts: Any, ends: Any) -> Part | None:
        """Read texts of which some have escapes; each has to be one JSON string, no more and no less."""
        joined = self._joined(starts + 23, ends - 1)
        quotes = joined.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"')
        if quotes != 2 * len(starts) or (self._bytes[ends - 3] == ord("\\")).any():
            return None
        try:
            return Part(len(starts), frozenset({Text}), texts_of(_STRINGS.decode(joined)))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _values(self, starts: Any, ends: Any) -> Part:
        """Read the cells as they stand: of several types, with escapes, infinities, bytes."""
        joined = self._joined(starts, ends)
        try:
            with collector_paused(len(joined)):
                values = _VALUES.decode(joined)
                if len(values) != len(starts):
                    raise _Unusual
                return part_of(values)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ProtocolError):
            raise _Unusual from None

    def _expect_cells(self, before: bytes, after: bytes, starts: Any, ends: Any) -> None:
        """Check what stands around the value in cells of one type."""
        if (ends - starts).min() < 8 + len(before) + len(after):
            raise _Unusual
        self._expect(before, starts + 8)
        self._expect(after, ends - len(after))

    def _gathered(self, starts: Any, ends: Any, gap: int = 0) -> tuple[Any, Any]:
        """Give what stands at these places in one array, ``gap`` bytes more of each, and the offsets in it."""
        import numpy as np

        lengths = ends - starts + gap
        offsets = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(starts - offsets[:-1], lengths)
        places += np.arange(len(places))
        return self._bytes.take(places), offsets

    def _joined(self, starts: Any, ends: Any) -> bytes:
        """Give what stands at these places as a JSON array."""
        gathered, offsets = self._gathered(starts, ends, gap=1)
        gathered[offsets[1:] - 1] = ord(",")
        gathered[-1] = ord("]")
        return b"[" + bytes(gathered)


def _spread(part: Part, missing: Any) -> Part:
    """Put NULLs between values."""
    import numpy as np

    values, size = part.values, len(missing)
    if not part.kinds:  # NULLs that are written in another way
        return part._replace(size=size)
    if isinstance(values, list):
        rest = iter(values)
        return part._replace(size=size, values=[None if gone else next(rest) for gone in missing.tolist()])
    if isinstance(values, Texts):
        lengths = np.zeros(size, np.int64)
        lengths[~missing] = np.diff(values.offsets)
        offsets = np.zeros(size + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return part._replace(size=size, values=Texts(values.data, offsets), missing=missing)
    spread = np.zeros(size, values.dtype)
    if part.kinds == {Float}:
        spread.fill(np.nan)
    spread[~missing] = values
    return part._replace(size=size, values=spread, missing=missing)
