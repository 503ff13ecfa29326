"""Values of one column that follow each other, in the form that takes the least room and time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

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

_AT_ONCE = 2**15

_value: Callable[[Any], Any] = attrgetter("value")
_INFINITE = Float(None)
_KINDS: dict[type, type] = {int: Integer, float: Float, str: Text, bytes: Blob}


class Texts(NamedTuple):
    """Texts one after another in UTF-8, which is valid; number ``n`` goes from ``offsets[n]`` to ``offsets[n + 1]``.

    Both are numpy arrays: of bytes, and of 64-bit integers, one more than there are texts.
    """

    data: Any
    offsets: Any

    def strings(self) -> list[str]:
        """Give the texts."""
        steps = range(0, len(self.offsets) - 1, _AT_ONCE)
        return list(chain.from_iterable(_strings(self.data, self.offsets[at : at + _AT_ONCE + 1]) for at in steps))


class Part(NamedTuple):
    """Some values of a column.

    ``kinds`` are those of the values, NULL aside. ``values`` is, if that is one kind, a numpy array of numbers, `Texts`
    or a list of bytes; else a list of values; None where all is NULL. ``missing`` is an array that tells which are
    NULL, None if none is or ``values`` is a list, which says it. ``infinite``: whether there are infinities without a
    sign, which are NaN.
    """

    size: int
    kinds: frozenset[type]
    values: Any = None
    missing: Any = None
    infinite: bool = False

    @property
    def lacks_sign(self) -> bool:
        """Whether there are infinities without a sign, also among values of several kinds."""
        mixed = isinstance(self.values, list) and Float in self.kinds
        return self.infinite or (mixed and any(item != item for item in self.values))

    def items(self) -> list[SqlValue]:
        """Give the values as Python has them."""
        if not self.kinds:
            return [None] * self.size
        if isinstance(self.values, list):
            return self.values
        items: list[Any] = self.values.strings() if isinstance(self.values, Texts) else self.values.tolist()
        if self.missing is not None:
            for row in self.missing.nonzero()[0].tolist():
                items[row] = None
        return items

    def wire(self) -> list[Value]:
        """Give the values as they came."""
        # SQLite has no NaN: one is an infinity without a sign.
        return (
            [encode(item) if item == item else _INFINITE for item in self.items()] if self.kinds else [NULL] * self.size
        )

    def cut(self, start: int, stop: int) -> Part:
        """Give the values from ``start`` to before ``stop``; of arrays nothing is copied."""
        size = stop - start
        if not self.kinds or size == self.size:
            return self._replace(size=size)
        if isinstance(self.values, list):
            return _part_of_items(self.values[start:stop], self.kinds)
        missing = None if self.missing is None else self.missing[start:stop]
        if missing is not None and missing.all():
            return Part(size, frozenset())
        if missing is not None and not missing.any():
            missing = None
        if isinstance(self.values, Texts):
            return Part(size, self.kinds, Texts(self.values.data, self.values.offsets[start : stop + 1]), missing)
        values = self.values[start:stop]
        return Part(size, self.kinds, values, missing, self.infinite and has_nan(values, missing))


def _part_of_items(items: list[SqlValue], kinds: frozenset[type]) -> Part:
    """Keep some values of a list, which may be of fewer kinds than the whole list."""
    if {_KINDS[type(item)] for item in items if item is not None} == kinds:
        return Part(len(items), kinds, items)
    return part_of(Part(len(items), kinds, items).wire())


def has_nan(numbers: Any, missing: Any) -> bool:
    """Return True if a value that is not missing is NaN: an infinity without a sign."""
    gone = numbers != numbers
    return bool(gone.any() if missing is None else (gone & ~missing).any())


def _strings(data: Any, offsets: Any) -> Iterable[str]:
    import numpy as np

    start, stop = int(offsets[0]), int(offsets[-1])
    text, places = data[start:stop].tobytes().decode(), offsets - start
    if len(text) < stop - start:  # count characters in the place of bytes
        characters = np.zeros(stop - start + 1, np.int64)
        np.cumsum((data[start:stop] & 0xC0) != 0x80, out=characters[1:])
        places = characters[places]
    return [text[one:other] for one, other in pairwise(places.tolist())]


def is_utf8(texts: Texts) -> bool:
    """Tell whether each text is valid UTF-8."""
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


def texts_of(strings: Sequence[str]) -> Texts:
    """Put texts one after another."""
    import numpy as np

    joined = "".join(strings)
    data = joined.encode()
    sizes = map(len, strings if len(data) == len(joined) else map(str.encode, strings))
    offsets = np.zeros(len(strings) + 1, np.int64)
    np.cumsum(np.fromiter(sizes, np.int64, len(strings)), out=offsets[1:])
    return Texts(np.frombuffer(data, np.uint8), offsets)


def part_of(values: Sequence[Value]) -> Part:
    """Keep values of the wire in the form that fits them all; ProtocolError for one that is none."""
    import numpy as np

    from pipemagic.frames import reading

    found = frozenset(map(type, values))
    nulls, kinds = Null in found, found - {Null}
    missing = np.fromiter((type(value) is Null for value in values), bool, len(values)) if nulls else None
    if not kinds:
        return Part(len(values), kinds)
    if kinds == {Integer}:
        return Part(len(values), kinds, reading.read_integers(values, nulls=nulls)[0], missing)
    if kinds == {Float}:
        numbers, infinite = reading.read_floats(values, nulls=nulls)
        return Part(len(values), kinds, numbers, missing, infinite)
    if kinds == {Text}:
        texts = [getattr(value, "value", "") for value in values] if nulls else list(map(_value, values))
        return Part(len(values), kinds, texts_of(texts), missing)
    if kinds == {Blob}:
        return Part(len(values), kinds, [None if type(one) is Null else decode_blob(one.base64) for one in values])  # type: ignore[union-attr]
    return Part(len(values), kinds, [decode(value) for value in values])
