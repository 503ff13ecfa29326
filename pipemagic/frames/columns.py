"""Columns of our own service (`pipemagic.hrana.columns`) -> parts: the bytes become arrays as they lie."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from pipemagic.errors import ProtocolError
from pipemagic.frames.parts import Part, Texts, has_nan, is_utf8, part_of
from pipemagic.hrana import columns as wire
from pipemagic.hrana.values import Blob, Float, Integer, Text


def read_part(part: wire.Part) -> list[Part]:
    """Give the columns of some rows; ProtocolError if one does not hold what it says."""
    _check(0 <= part.size <= wire.MOST_ROWS)
    return [_column(column, part.size) for column in part.columns]


def _column(column: wire.Column, size: int) -> Part:
    if isinstance(column, wire.Nulls):
        return Part(size, frozenset())
    if isinstance(column, wire.Mixed):
        _check(len(column.values) == size)
        return part_of(column.values)
    missing = _missing(column.missing, size)
    if missing is not None and missing.all():
        return Part(size, frozenset())
    match column:
        case wire.Integers(values):
            return Part(size, frozenset({Integer}), _integers(_numbers(values, "<i8", size), missing), missing)
        case wire.Floats(values):
            return _floats(_numbers(values, "<f8", size), missing)
        case wire.Texts(values, ends):
            texts = _texts(values, ends, size)
            _check(is_utf8(texts))
            return Part(size, frozenset({Text}), texts, missing)
    return Part(size, frozenset({Blob}), _blobs(_texts(column.values, column.ends, size), missing))


def _missing(flags: bytes | None, size: int) -> Any:
    import numpy as np

    if flags is None:
        return None
    _check(len(flags) == size)
    missing = np.frombuffer(flags, np.uint8) != 0
    return missing if missing.any() else None


def _numbers(values: bytes, form: str, size: int) -> Any:
    import numpy as np

    _check(len(values) == 8 * size)
    return np.frombuffer(values, form).astype(form.replace("<", "="), copy=False)


def _integers(numbers: Any, missing: Any) -> Any:
    import numpy as np

    return numbers if missing is None else np.where(missing, 0, numbers)


def _floats(numbers: Any, missing: Any) -> Part:
    import numpy as np

    values = numbers if missing is None else np.where(missing, np.nan, numbers)
    return Part(len(numbers), frozenset({Float}), values, missing, has_nan(values, missing))


def _texts(values: bytes, ends: bytes, size: int) -> Texts:
    import numpy as np

    offsets = np.zeros(size + 1, np.int64)
    offsets[1:] = _numbers(ends, "<i8", size)
    _check(int(offsets[-1]) == len(values) and not (np.diff(offsets) < 0).any())
    return Texts(np.frombuffer(values, np.uint8), offsets)


def _blobs(stored: Texts, missing: Any) -> list[bytes | None]:
    """Cut bytes that lie as texts do."""
    data = bytes(stored.data)
    blobs: list[bytes | None] = [data[start:stop] for start, stop in pairwise(stored.offsets.tolist())]
    for row in [] if missing is None else missing.nonzero()[0].tolist():
        blobs[row] = None
    return blobs


def _check(fits: bool) -> None:
    if not fits:
        raise ProtocolError("the server sent columns that do not hold what they say")
