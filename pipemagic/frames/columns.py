"""Values of a column in compact form: an array of numbers, concatenated texts, or a list.

Columns of a pipemagic service (`pipemagic.hrana.columns`) are converted directly, and so are columns of a DataFrame
that is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from pipemagic.errors import ProtocolError
from pipemagic.hrana import columns as wire
from pipemagic.hrana.values import (
    NULL,
    Blob,
    Float,
    Integer,
    Null,
    SqlValue,
    Text,
    Value,
    decode,
    decode_float,
    encode,
)

_AT_ONCE = 2**15

_value: Callable[[Any], Any] = attrgetter("value")
_INFINITE = Float(None)
_DTYPES: dict[frozenset[type], str] = {frozenset({Integer}): "int64", frozenset({Float}): "float64"}


class InvalidText(bytes):
    """Text that is not valid in the encoding of the database. Chunks have it in lists."""


_KINDS: dict[type, type] = {int: Integer, float: Float, str: Text, bytes: Blob, InvalidText: InvalidText}


class TextArray(NamedTuple):
    """Concatenated texts in valid UTF-8; text ``n`` is from ``offsets[n]`` to ``offsets[n + 1]``.

    Both are NumPy arrays: of bytes, and of 64-bit integers, one more than the number of texts.
    """

    data: Any
    offsets: Any

    def strings(self) -> list[str]:
        """Return the texts."""
        steps = range(0, len(self.offsets) - 1, _AT_ONCE)
        return list(chain.from_iterable(_strings(self.data, self.offsets[at : at + _AT_ONCE + 1]) for at in steps))


class ColumnChunk(NamedTuple):
    """Consecutive values of a column.

    ``kinds`` are the wire types of the values, NULL aside. ``values`` is, if that is one kind, a NumPy array of
    numbers, `TextArray` or a list of bytes; otherwise a list of values; None if all are NULL. ``missing`` is an array
    that is True for NULL, None without NULLs or if ``values`` is a list, where NULL is None. Numbers are 0 or NaN for
    NULL.
    """

    size: int
    kinds: frozenset[type]
    values: Any = None
    missing: Any = None

    @property
    def lacks_sign(self) -> bool:
        """True if there are infinities without a sign, which are NaN."""
        if Float not in self.kinds:
            return False
        if isinstance(self.values, list):
            return any(item != item for item in self.values)
        nan = self.values != self.values
        return bool(nan.any() if self.missing is None else (nan & ~self.missing).any())

    def items(self) -> list[SqlValue]:
        """Return the values as Python objects."""
        if not self.kinds:
            return [None] * self.size
        if isinstance(self.values, list):
            return self.values
        return with_nulls(
            self.values.strings() if isinstance(self.values, TextArray) else self.values.tolist(), self.missing
        )

    def each(self) -> Iterator[SqlValue]:
        """Yield the values as Python objects, which are not all in memory at the same time."""
        for start in range(0, self.size, _AT_ONCE):
            yield from self.cut(start, start + _AT_ONCE).items()

    def wire(self) -> list[Value]:
        """Return the wire values."""
        # SQLite has no NaN: here it is an infinity without a sign.
        return (
            [encode(item) if item == item else _INFINITE for item in self.items()] if self.kinds else [NULL] * self.size
        )

    def cut(self, start: int, stop: int) -> ColumnChunk:
        """Return the values from ``start`` to before ``stop``; arrays are not copied."""
        size = min(stop, self.size) - start
        if not self.kinds or size == self.size:
            return self._replace(size=size)
        if isinstance(self.values, list):
            return chunk_of_items(self.values[start:stop])
        if isinstance(self.values, TextArray):
            values: Any = TextArray(self.values.data, self.values.offsets[start : stop + 1])
        else:
            values = self.values[start:stop]
        (kind,) = self.kinds
        return of_kind(kind, values, None if self.missing is None else self.missing[start:stop])

    def take(self, rows: Any) -> ColumnChunk:
        """Return the values at an array of row numbers; NULL for row -1."""
        import numpy as np

        if not self.kinds or isinstance(self.values, list):
            items = [*self.items(), None]  # at -1
            return chunk_of_items([items[row] for row in rows.tolist()])
        missing = rows < 0
        if self.missing is not None:
            missing |= np.append(self.missing, True)[rows]
        (kind,) = self.kinds
        if not isinstance(self.values, TextArray):
            return of_kind(kind, np.append(self.values, np.nan if kind is Float else 0)[rows], missing)
        data, offsets = bytes(self.values.data), self.values.offsets
        texts = [*(data[start:stop] for start, stop in pairwise(offsets.tolist())), b""]  # at -1
        joined = b"".join([texts[row] for row in rows.tolist()])
        ends = np.cumsum(np.append(np.diff(offsets), 0)[rows])
        return of_kind(kind, TextArray(np.frombuffer(joined, np.uint8), np.append(0, ends)), missing)


def of_kind(kind: type, values: Any, missing: Any = None) -> ColumnChunk:
    """Convert an array or `TextArray` to a chunk; ``missing`` may be all True or all False."""
    size = len(values.offsets) - 1 if isinstance(values, TextArray) else len(values)
    if missing is not None and missing.all():
        return ColumnChunk(size, frozenset())
    return ColumnChunk(size, frozenset({kind}), values, None if missing is None or not missing.any() else missing)


def chunk_of_items(items: Sequence[SqlValue]) -> ColumnChunk:
    """Convert Python values to a chunk."""
    import numpy as np

    size, kinds = len(items), frozenset(_KINDS[kind] for kind in set(map(type, items)) - {type(None)})
    if len(kinds) != 1 or not kinds.isdisjoint((Blob, InvalidText)):
        return ColumnChunk(size, kinds, list(items) if kinds else None)
    missing = np.array([item is None for item in items], bool) if None in items else None
    if kinds == {Text}:
        return of_kind(Text, _texts_of([item or "" for item in items]), missing)  # type: ignore[misc]
    if kinds == {Integer}:
        return of_kind(Integer, np.array([item or 0 for item in items], np.int64), missing)
    return of_kind(Float, np.array([np.nan if item is None else item for item in items], np.float64), missing)


def chunk_of(values: Sequence[Value]) -> ColumnChunk:
    """Convert wire values to a chunk; raise ProtocolError for an invalid one."""
    import numpy as np

    size, types = len(values), frozenset(map(type, values))
    nulls, kinds = Null in types, types - {Null}
    if not kinds:
        return ColumnChunk(size, kinds)
    if len(kinds) > 1 or kinds == {Blob}:
        return chunk_of_items([decode(value) for value in values])
    missing = np.fromiter((type(value) is Null for value in values), bool, size) if nulls else None
    if kinds == {Integer}:
        return of_kind(Integer, _integers(values, nulls=nulls), missing)
    if kinds == {Float}:
        numbers = np.array([decode_float(value) if type(value) is Float else np.nan for value in values], np.float64)
        return of_kind(Float, numbers, missing)
    texts = [getattr(value, "value", "") for value in values] if nulls else list(map(_value, values))
    return of_kind(Text, _texts_of(texts), missing)


def _integers(values: Sequence[Value], *, nulls: bool) -> Any:
    import numpy as np

    texts = [value.value if type(value) is Integer else "0" for value in values] if nulls else list(map(_value, values))
    try:
        if "".join(texts).encode().translate(None, b"+-0123456789"):
            raise ValueError  # Python also accepts blanks, underscores and digits of other scripts
        return np.fromiter(map(int, texts), np.int64, len(texts))
    except (ValueError, OverflowError):
        raise ProtocolError("the server sent an integer that is invalid or does not fit in 64 bits") from None


def chunks_of(rows: Sequence[list[Value]], width: int) -> list[ColumnChunk]:
    """Convert rows of this width to columns; raise ProtocolError for others."""
    if set(map(len, rows)) - {width}:
        raise not_as_wide()
    cells = list(chain.from_iterable(rows))
    return [chunk_of(cells[number::width]) for number in range(width)]


def not_as_wide() -> ProtocolError:
    """Return the error for rows with the wrong number of values."""
    return ProtocolError("the server sent rows with the wrong number of values")


class ColumnBuilder:
    """Joins chunks of the same kind of values as they arrive.

    The values are in a `bytearray`, which grows in place: joining arrays at the end would need the memory twice.
    """

    def __init__(self) -> None:
        self._size, self._kinds = 0, frozenset[type]()
        self._items: list[SqlValue] = []
        self._data, self._ends = bytearray(), bytearray(8)
        self._missing: bytearray | None = None

    def takes(self, chunk: ColumnChunk) -> bool:
        """Return True if the kinds of values, apart from NULL, are the same with those of ``chunk``."""
        return not chunk.kinds or not self._kinds or chunk.kinds == self._kinds

    def add(self, chunk: ColumnChunk) -> None:
        """Add the values of a chunk for which `takes` returns True."""
        if chunk.kinds and not self._kinds:
            self._kinds, size, self._size = chunk.kinds, self._size, 0
            self._store(nulls(self._kinds, size))
        self._store(chunk if chunk.kinds else nulls(self._kinds, chunk.size))

    def _store(self, chunk: ColumnChunk) -> None:
        if isinstance(chunk.values, list):
            self._items += chunk.values
        elif isinstance(chunk.values, TextArray):
            data, offsets = chunk.values
            first, last = int(offsets[0]), int(offsets[-1])
            self._ends.extend(offsets[1:] + (len(self._data) - first))  # the bytes of arrays
            self._data.extend(data[first:last])
        elif chunk.values is not None:
            self._data.extend(chunk.values)
        if self._missing is None and chunk.missing is not None:
            self._missing = bytearray(self._size)
        if self._missing is not None:
            self._missing.extend(bytes(chunk.size) if chunk.missing is None else chunk.missing)
        self._size += chunk.size

    def build(self) -> ColumnChunk:
        """Return all values; the builder cannot be used afterwards."""
        import numpy as np

        values: Any = self._items
        if self._kinds == {Text}:
            values = TextArray(np.frombuffer(self._data, np.uint8), np.frombuffer(self._ends, np.int64))
        elif self._kinds in _DTYPES:
            values = np.frombuffer(self._data, _DTYPES[self._kinds])
        missing = None if self._missing is None else np.frombuffer(self._missing, bool)
        return ColumnChunk(self._size, self._kinds, values if self._kinds else None, missing)


def nulls(kinds: frozenset[type], size: int) -> ColumnChunk:
    """Return NULLs in the form of values of these kinds."""
    import numpy as np

    if not kinds:
        return ColumnChunk(size, kinds)
    if kinds == {Text}:
        values: Any = TextArray(np.zeros(0, np.uint8), np.zeros(size + 1, np.int64))
    elif kinds in _DTYPES:
        values = np.full(size, np.nan if kinds == {Float} else 0, _DTYPES[kinds])
    else:
        return ColumnChunk(size, kinds, [None] * size)
    return ColumnChunk(size, kinds, values, np.ones(size, bool) if size else None)


def concat(chunks: Sequence[ColumnChunk]) -> ColumnChunk:
    """Join chunks; a single one is not copied."""
    if len(chunks) == 1:
        return chunks[0]
    kinds = frozenset(chain.from_iterable(chunk.kinds for chunk in chunks))
    if len(kinds) > 1:
        chunks = [chunk._replace(kinds=kinds, values=chunk.items(), missing=None) for chunk in chunks]
    builder = ColumnBuilder()
    for chunk in chunks:
        builder.add(chunk)
    return builder.build()


def are_same(first: ColumnChunk, second: ColumnChunk) -> bool:
    """Return True if two chunks certainly have the same values of the same types."""
    import numpy as np

    if (
        (first.size, first.kinds) != (second.size, second.kinds)
        or len(first.kinds) > 1
        or first.lacks_sign
        or second.lacks_sign
    ):
        return False
    if (first.missing is None) != (second.missing is None) or not np.array_equal(first.missing, second.missing):
        return False
    if not isinstance(first.values, TextArray):
        if first.values is None or isinstance(first.values, list):
            return bool(first.values == second.values)
        return np.array_equal(first.values, second.values, equal_nan=True)
    (data, offsets), (data2, offsets2) = first.values, second.values
    return np.array_equal(np.diff(offsets), np.diff(offsets2)) and np.array_equal(
        data[offsets[0] : offsets[-1]], data2[offsets2[0] : offsets2[-1]]
    )


def with_nulls(items: list[Any], missing: Any, null: Any = None) -> list[Any]:
    """Replace the missing values by ``null`` and return the list."""
    for row in [] if missing is None else missing.nonzero()[0].tolist():
        items[row] = null
    return items


# -- texts


def _strings(data: Any, offsets: Any) -> Iterable[str]:
    import numpy as np

    start, stop = int(offsets[0]), int(offsets[-1])
    text, places = data[start:stop].tobytes().decode(), offsets - start
    if len(text) < stop - start:  # count characters instead of bytes
        characters = np.zeros(stop - start + 1, np.int64)
        np.cumsum((data[start:stop] & 0xC0) != 0x80, out=characters[1:])
        places = characters[places]
    return [text[begin:end] for begin, end in pairwise(places.tolist())]


def is_utf8(texts: TextArray) -> bool:
    """Return True if each text is valid UTF-8."""
    import numpy as np

    data, offsets = texts
    encoded = bytes(data)
    if encoded.isascii():
        return True
    begins = offsets[:-1][np.diff(offsets) > 0]
    if ((data[begins] & 0xC0) == 0x80).any():
        return False  # a character that two texts share
    try:
        encoded.decode()
    except UnicodeDecodeError:
        return False
    return True


def _texts_of(strings: Sequence[str]) -> TextArray:
    """Concatenate texts."""
    import numpy as np

    joined = "".join(strings)
    data = joined.encode()
    sizes = map(len, strings if len(data) == len(joined) else map(str.encode, strings))
    offsets = np.zeros(len(strings) + 1, np.int64)
    np.cumsum(np.fromiter(sizes, np.int64, len(strings)), out=offsets[1:])
    return TextArray(np.frombuffer(data, np.uint8), offsets)


def gather(data: Any, starts: Any, lengths: Any) -> TextArray:
    """Concatenate pieces of an array of bytes, given by their starts and lengths."""
    import numpy as np

    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.repeat(starts - offsets[:-1], lengths)
    places += np.arange(len(places))
    return TextArray(data.take(places), offsets)


# -- columns of a pipemagic service


def read_columns(part: wire.Part) -> list[ColumnChunk]:
    """Convert the columns of a part; raise ProtocolError for inconsistent ones."""
    _check(0 <= part.size <= wire.MOST_ROWS)
    return [_read(column, part.size) for column in part.columns]


def _read(column: wire.Column, size: int) -> ColumnChunk:
    import numpy as np

    if isinstance(column, wire.Nulls):
        return ColumnChunk(size, frozenset())
    if isinstance(column, wire.Mixed):
        _check(len(column.values) == size)
        return chunk_of(column.values)
    missing = _read_missing(column.missing, size)
    match column:
        case wire.Integers(values):
            integers = _read_numbers(values, "<i8", size)
            return of_kind(Integer, integers if missing is None else np.where(missing, 0, integers), missing)
        case wire.Floats(values):
            numbers = _read_numbers(values, "<f8", size)
            return of_kind(Float, numbers if missing is None else np.where(missing, np.nan, numbers), missing)
        case wire.Texts(values, ends):
            texts = _read_texts(values, ends, size)
            _check(is_utf8(texts))
            return of_kind(Text, texts, missing)
    return chunk_of_items(_read_blobs(_read_texts(column.values, column.ends, size), missing))


def _read_missing(flags: bytes | None, size: int) -> Any:
    import numpy as np

    if flags is None:
        return None
    _check(len(flags) == size)
    missing = np.frombuffer(flags, np.uint8) != 0
    return missing if missing.any() else None


def _read_numbers(values: bytes, form: str, size: int) -> Any:
    import numpy as np

    _check(len(values) == 8 * size)
    return np.frombuffer(values, form).astype(form.replace("<", "="), copy=False)


def _read_texts(values: bytes, ends: bytes, size: int) -> TextArray:
    import numpy as np

    offsets = np.zeros(size + 1, np.int64)
    offsets[1:] = _read_numbers(ends, "<i8", size)
    _check(int(offsets[-1]) == len(values) and not (np.diff(offsets) < 0).any())
    return TextArray(np.frombuffer(values, np.uint8), offsets)


def _read_blobs(stored: TextArray, missing: Any) -> list[bytes | None]:
    data = bytes(stored.data)
    return with_nulls([data[start:stop] for start, stop in pairwise(stored.offsets.tolist())], missing)


def _check(fits: bool) -> None:
    if not fits:
        raise ProtocolError("the server sent inconsistent columns")
