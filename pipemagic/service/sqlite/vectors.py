"""libSQL's vectors: BLOBs of numbers, and the distances between them.

A vector of 32-bit floats is their bytes, little-endian; behind 64-bit floats is one more byte, a 2. Other kinds, and
the index, need a libSQL server. Source: https://github.com/tursodatabase/libsql, libsql-sqlite3/src/vector.c
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import apsw

from pipemagic.hrana.values import SqlValue

MOST_DIMENSIONS = 65_536
"""The most numbers of a vector, as in libSQL."""
INDEX = frozenset({"libsql_vector_idx", "vector_top_k"})
"""Functions for an index of vectors, which only libSQL servers have."""
ELSEWHERE = INDEX | {"vector16", "vector1bit", "vector8", "vectorb16"}
"""Functions for vectors that only libSQL servers have."""

_SINGLE, _DOUBLE = "<f4", "<f8"
_DOUBLE_MARK = b"\2"
_LONGEST = 32 * MOST_DIMENSIONS  # characters of a vector as text
_LONGEST_CACHED = 64 * 1024
_CHARACTERS = frozenset("0123456789+-.eE, \t\n\r")


def install(connection: apsw.Connection) -> None:
    """Register the functions. They are not deterministic for SQLite (see `functions.install`)."""
    functions: dict[str, tuple[int, Any]] = {
        "vector": (1, lambda value: _blob(value, _SINGLE)),
        "vector32": (1, lambda value: _blob(value, _SINGLE)),
        "vector64": (1, lambda value: _blob(value, _DOUBLE)),
        "vector_extract": (1, _text),
        "vector_distance_cos": (2, _cosine_distance),
        "vector_distance_l2": (2, _euclidean_distance),
    }
    for name, (count, function) in functions.items():
        connection.create_scalar_function(name, function, count, flags=apsw.SQLITE_INNOCUOUS)


def _blob(value: SqlValue, kind: str) -> bytes:
    if isinstance(value, str):
        return _parse(value, kind) if len(value) > _LONGEST_CACHED else _parse_cached(value, kind)
    numbers = _numbers(value)
    return _encode(numbers.tolist(), kind) if numbers.dtype.str != kind else bytes(value)  # type: ignore[arg-type]


def _parse(text: str, kind: str) -> bytes:
    """Return the vector of a text such as ``[1, -2.5, 3e10]``."""
    inner = text.strip()
    if not (inner.startswith("[") and inner.endswith("]")):
        raise apsw.SQLError(f"a vector is a text such as '[1.5, 2]', not {text[:30]!r}")
    inner = inner[1:-1].strip()
    if len(inner) > _LONGEST or inner.count(",") >= MOST_DIMENSIONS:
        raise apsw.SQLError(f"a vector has at most {MOST_DIMENSIONS:,} numbers")
    numbers: list[float] = []
    for part in inner.split(",") if inner else ():
        try:
            if not _CHARACTERS.issuperset(part):
                raise ValueError
            numbers.append(float(part))
        except ValueError:
            number = len(numbers) + 1
            raise apsw.SQLError(f"element {number} of a vector is not a number: {part.strip()[:30]!r}") from None
    return _encode(numbers, kind)


_parse_cached = lru_cache(maxsize=64)(_parse)
"""A query compares each row with the same text."""


def _encode(numbers: list[float], kind: str) -> bytes:
    import numpy  # only here: few statements need it

    with numpy.errstate(over="ignore"):
        array = numpy.array(numbers, kind)
    if not numpy.isfinite(array).all():
        number = next(number for number, value in zip(numbers, array, strict=True) if not math.isfinite(value))
        raise apsw.SQLError(f"a vector of {array.itemsize * 8}-bit floats cannot have {number}")
    return array.tobytes() + _DOUBLE_MARK * (kind == _DOUBLE)


def _numbers(value: SqlValue) -> Any:
    """Return the numbers of a vector as an array of shape (n,); of a text, as 32-bit floats."""
    import numpy

    if isinstance(value, str):
        value = _blob(value, _SINGLE)
    if not isinstance(value, bytes):
        raise apsw.SQLError(
            f"a vector is a BLOB or a text such as '[1.5, 2]', not {'NULL' if value is None else value}"
        )
    kind = _DOUBLE if len(value) % 2 and value[-1:] == _DOUBLE_MARK else _SINGLE
    size = len(value) - (kind == _DOUBLE)
    if size % numpy.dtype(kind).itemsize:
        raise apsw.SQLError(f"a BLOB of {len(value):,} bytes is not a vector of 32-bit or 64-bit floats")
    if size > MOST_DIMENSIONS * numpy.dtype(kind).itemsize:
        raise apsw.SQLError(f"a vector has at most {MOST_DIMENSIONS:,} numbers")
    return numpy.frombuffer(value[:size], kind)


def _text(value: SqlValue) -> str:
    """Return a vector as text with all digits of its numbers; libSQL writes six."""
    return "[" + ",".join(str(number).removesuffix(".0") for number in _numbers(value)) + "]"


def _pair(first: SqlValue, second: SqlValue) -> tuple[Any, Any]:
    """Return the numbers of two vectors as 64-bit floats, in which distances are computed."""
    one, other = _numbers(first), _numbers(second)
    if one.dtype != other.dtype or len(one) != len(other):
        kinds = [f"{array.itemsize * 8}-bit vector of length {len(array):,}" for array in (one, other)]
        raise apsw.SQLError(f"a {kinds[0]} and a {kinds[1]} have no distance")
    return one.astype(float), other.astype(float)


def _cosine_distance(first: SqlValue, second: SqlValue) -> float | None:
    """Return 1 minus the cosine of the angle; None if a vector is zero, or too long for 64-bit floats."""
    import numpy

    one, other = _pair(first, second)
    with numpy.errstate(all="ignore"):
        product = float(one @ one) * float(other @ other)
        return min(max(1 - float(one @ other) / math.sqrt(product), 0.0), 2.0) if 0 < product < math.inf else None


def _euclidean_distance(first: SqlValue, second: SqlValue) -> float:
    import numpy

    one, other = _pair(first, second)
    with numpy.errstate(all="ignore"):
        difference = one - other
        distance = math.sqrt(float(difference @ difference))
    return distance if distance < math.inf else math.dist(one.tolist(), other.tolist())
