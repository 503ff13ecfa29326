"""The rows of a large result, kept by columns as they come: about as large as the DataFrame that they become.

They stand in the place of the list of rows in a result: they can be counted and gone through. Which type a column
gets is known at the end only, so each part of it is kept in the form that fits that part, and no value is changed by
that: the columns become what those of the whole result would (`pipemagic.frames.reading`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, overload

from pipemagic.errors import ProtocolError
from pipemagic.frames import reading
from pipemagic.frames.collector import collector_paused
from pipemagic.hrana.messages import Col
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
    decode_blob,
    encode,
)

AT_ONCE = 200_000
"""Cells of a part: some hundred parts for ten million cells."""

_INFINITE = Float(None)


class Part(NamedTuple):
    """Some values of a column.

    ``kinds`` of them there are, NULL aside. ``values`` is a numpy array of numbers, an array of texts, or a list of
    values; ``missing`` tells which are NULL, None if none is or ``values`` says it. ``infinite``: which have no value.
    """

    size: int
    kinds: frozenset[type]
    values: Any
    missing: Any = None
    infinite: Any = None

    def items(self) -> list[SqlValue]:
        """Give the values as Python has them."""
        if not self.kinds:
            return [None] * self.size
        items: list[SqlValue] = self.values if isinstance(self.values, list) else self.values.tolist()
        if self.missing is not None:
            for row in self.missing.nonzero()[0].tolist():
                items[row] = None
        return items

    def wire(self) -> list[Value]:
        """Give the values as they came."""
        items = [encode(item) if item == item else _INFINITE for item in self.items()]  # a NaN is an infinity
        return items if self.kinds else [NULL] * self.size


class StoredRows(Sequence[list[Value]]):
    """Rows by columns. `add` takes more of them; they are complete when they are first asked for."""

    def __init__(self, cols: Sequence[Col]) -> None:
        self.cols = tuple(cols)
        self._parts: list[list[Part]] = [[] for _ in cols]
        self._waiting: list[list[Value]] = []
        self._count = 0

    def add(self, rows: list[list[Value]]) -> None:
        """Take in some rows; ProtocolError, maybe later, for rows of another width and values that are none."""
        self._count += len(rows)
        self._waiting += rows
        if len(self._waiting) * max(1, len(self.cols)) >= AT_ONCE:
            self._store()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[list[Value]]:
        self._store()
        if not self.cols:
            yield from ([] for _ in range(self._count))
        for parts in zip(*self._parts, strict=True):
            yield from map(list, zip(*(part.wire() for part in parts), strict=True))

    @overload
    def __getitem__(self, at: int) -> list[Value]: ...
    @overload
    def __getitem__(self, at: slice) -> list[list[Value]]: ...
    def __getitem__(self, at: int | slice) -> list[Value] | list[list[Value]]:
        """Give one row or some; slow, for all but the first ones."""
        return list(self)[at]

    def arrays(self, note: reading.Note) -> list[Any]:
        """Give the array of every column, as `pipemagic.frames.to_frame` would of the whole result."""
        self._store()
        return [
            _array(parts, col.name or f"number {number}", col.decltype or "", self._count, note)
            for number, (col, parts) in enumerate(zip(self.cols, self._parts, strict=True), start=1)
        ]

    def _store(self) -> None:
        rows, self._waiting = self._waiting, []
        width = len(self.cols)
        if set(map(len, rows)) - {width}:
            raise ProtocolError("the server sent rows that are not as wide as their columns")
        if not rows:
            return
        with collector_paused(width * len(rows)):
            cells = list(chain.from_iterable(rows))
            for number, parts in enumerate(self._parts):
                parts.append(_part(cells[number::width]))


def _part(values: list[Value]) -> Part:
    """Keep some values in the form that fits them all."""
    import numpy as np

    found = frozenset(map(type, values))
    nulls, kinds = Null in found, found - {Null}
    missing = np.fromiter((type(value) is Null for value in values), bool, len(values)) if nulls else None
    if not kinds:
        return Part(len(values), kinds, None)
    if kinds == {Integer}:
        return Part(len(values), kinds, reading.read_integers(values, nulls=nulls)[0], missing)
    if kinds == {Float}:
        numbers, infinite = reading.read_floats(values, nulls=nulls)
        return Part(len(values), kinds, numbers, missing, infinite)
    if kinds == {Text}:
        texts = [getattr(value, "value", None) for value in values]
        return Part(len(values), kinds, reading.text_array(texts, ""), missing)
    if kinds == {Blob}:
        return Part(len(values), kinds, [None if type(one) is Null else decode_blob(one.base64) for one in values])  # type: ignore[union-attr]
    return Part(len(values), kinds, [decode(value) for value in values])


def _array(parts: list[Part], name: str, decltype: str, count: int, note: reading.Note) -> Any:
    """Give the array of a whole column."""
    import numpy as np

    kinds = set(chain.from_iterable(part.kinds for part in parts))
    if not kinds:
        return reading.empty_array(count, decltype)
    if kinds == {Integer}:
        numbers = _joined(parts, np.int64(0))
        return reading.integer_array(numbers, _missing(parts), decltype)
    if kinds == {Float}:
        if any(part.infinite for part in parts):
            reading.note_infinities(name, note)
        return _joined(parts, np.float64("nan"))
    if kinds == {Text}:
        if reading.is_date(decltype):
            return reading.text_array([text for part in parts for text in part.items()], decltype)  # type: ignore[misc]
        return _texts(parts)
    items = list(chain.from_iterable(part.items() for part in parts))
    return reading.objects(items) if kinds == {Blob} else reading.mixed_array(items, kinds, name, decltype, note)


def _joined(parts: list[Part], filler: Any) -> Any:
    import numpy as np

    return np.concatenate([np.full(part.size, filler) if part.values is None else part.values for part in parts])


def _missing(parts: list[Part]) -> Any:
    """Tell which values are NULL; None if none is."""
    import numpy as np

    if all(part.kinds and part.missing is None for part in parts):
        return None
    gone = [np.full(part.size, not part.kinds) if part.missing is None else part.missing for part in parts]
    return np.concatenate(gone)


def _texts(parts: list[Part]) -> Any:
    import numpy as np
    import pandas as pd

    arrays = [reading.text_array([None] * part.size, "") if part.values is None else part.values for part in parts]
    if isinstance(arrays[0], np.ndarray):
        return np.concatenate(arrays)
    return pd.concat([pd.Series(array, copy=False) for array in arrays], ignore_index=True).array


def stored(cols: Sequence[Col], batches: Iterable[list[list[Value]]]) -> StoredRows:
    """Keep all rows of some batches."""
    rows = StoredRows(cols)
    for batch in batches:
        rows.add(batch)
    return rows
