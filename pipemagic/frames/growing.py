"""Columns that grow at their end while the rows of a large result come.

An array grows in its place where the system can move pages, so the whole column never lies in memory twice: neither
while it grows nor when the DataFrame is made of it.
"""

from __future__ import annotations

from typing import Any

from pipemagic.frames.parts import Part, Texts
from pipemagic.hrana.values import Float, Integer, Text

_STEP = 16
"""An array gets a sixteenth of its size more than it needs."""


class GrowingArray:
    """A numpy array that takes more values at its end."""

    def __init__(self, dtype: str) -> None:
        import numpy as np

        self._array = np.empty(0, dtype)
        self._size = 0

    def add(self, values: Any) -> None:
        """Take an array."""
        self._array[self._more(len(values))] = values

    def fill(self, value: Any, count: int) -> None:
        """Take the same value some times."""
        self._array[self._more(count)] = value

    def taken(self) -> Any:
        """Give the whole array; nothing may be added afterwards."""
        self._array.resize(self._size, refcheck=False)
        return self._array

    def _more(self, count: int) -> slice:
        start, self._size = self._size, self._size + count
        if self._size > len(self._array):
            # Nobody else refers to the array before it is taken.
            self._array.resize(self._size + self._size // _STEP, refcheck=False)
        return slice(start, self._size)


class _Numbers:
    def __init__(self, dtype: str, filler: float) -> None:
        self._numbers, self._filler = GrowingArray(dtype), filler

    def add(self, values: Any) -> None:
        self._numbers.add(values)

    def skip(self, count: int) -> None:
        self._numbers.fill(self._filler, count)

    def taken(self) -> Any:
        return self._numbers.taken()


class _Texts:
    def __init__(self) -> None:
        self._data, self._offsets, self._end = GrowingArray("u1"), GrowingArray("i8"), 0
        self._offsets.fill(0, 1)

    def add(self, texts: Texts) -> None:
        first, last = int(texts.offsets[0]), int(texts.offsets[-1])
        self._data.add(texts.data[first:last])
        self._offsets.add(texts.offsets[1:] + (self._end - first))
        self._end += last - first

    def skip(self, count: int) -> None:
        self._offsets.fill(self._end, count)

    def taken(self) -> Texts:
        return Texts(self._data.taken(), self._offsets.taken())


class _Items:
    def __init__(self) -> None:
        self._items: list[Any] = []

    def add(self, items: list[Any]) -> None:
        self._items += items

    def skip(self, count: int) -> None:
        self._items += [None] * count

    def taken(self) -> list[Any]:
        return self._items


class _Run:
    """Values of the same kinds that follow each other."""

    def __init__(self, kinds: frozenset[type]) -> None:
        self.kinds = kinds
        self.size = 0
        self._values = _store(kinds)
        self._missing: GrowingArray | None = None
        self._infinite = False

    def add(self, part: Part) -> None:
        if part.kinds:
            self._values.add(part.values)
        else:
            self._values.skip(part.size)
        if not isinstance(self._values, _Items):
            self._note_missing(part)
        self.size += part.size
        self._infinite = self._infinite or part.infinite

    def _note_missing(self, part: Part) -> None:
        if part.kinds and part.missing is None and self._missing is None:
            return
        if self._missing is None:
            self._missing = GrowingArray("?")
            self._missing.fill(False, self.size)
        if part.kinds and part.missing is not None:
            self._missing.add(part.missing)
        else:
            self._missing.fill(not part.kinds, part.size)

    def taken(self) -> Part:
        if not self.kinds:
            return Part(self.size, self.kinds)
        missing = None if self._missing is None else self._missing.taken()
        return Part(self.size, self.kinds, self._values.taken(), missing, self._infinite)


def _store(kinds: frozenset[type]) -> _Numbers | _Texts | _Items:
    if kinds == {Integer}:
        return _Numbers("i8", 0)
    if kinds == {Float}:
        return _Numbers("f8", float("nan"))
    return _Texts() if kinds == {Text} else _Items()


class GrowingColumn:
    """A column of which parts come one after another; most of them are of one kind from the beginning to the end."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def add(self, part: Part) -> None:
        """Take the next values."""
        last = self._runs[-1] if self._runs else None
        if last is None or (part.kinds and part.kinds != last.kinds):
            run = _Run(part.kinds)
            if last is not None and not last.kinds:
                run.add(self._runs.pop().taken())
            self._runs.append(run)
        self._runs[-1].add(part)

    def taken(self) -> list[Part]:
        """Give the values: one part for each stretch of the same kinds. Nothing may be added afterwards."""
        return [run.taken() for run in self._runs]
