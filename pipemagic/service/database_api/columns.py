"""Convert rows of SQLite to values by columns (see `hrana.columns`), in steps for columns, not for cells."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, repeat
from operator import is_
from typing import Any

from pipemagic.hrana.columns import Blobs, Column, Floats, Integers, Mixed, Nulls, Part, Rows, Texts
from pipemagic.hrana.values import SqlValue
from pipemagic.service.database_api.rows import Form, SqlRow, encode, to_wire

FEWEST = 256
"""Rows from which on it is faster, for both sides."""

_EMPTY: dict[type, SqlValue] = {int: 0, float: 0.0, str: "", bytes: b""}
"""The placeholder for NULL among values of a type."""


def part(rows: Sequence[SqlRow]) -> Part:
    """Return rows by columns; there must be at least one."""
    return Part(len(rows), [_column(values) for values in zip(*rows, strict=True)])


BY_COLUMNS = Form(b'{"parts":[', lambda rows: encode(part(rows)), b"]}")
"""The rows of a result as `hrana.columns.Columns`."""


def entry_of(rows: Sequence[SqlRow]) -> bytes:
    """Return the line of a cursor with the entry for rows."""
    return encode(Rows(part(rows))) + b"\n"


def _column(values: tuple[Any, ...]) -> Column:
    kinds = set(map(type, values))
    missing = None
    if type(None) in kinds:
        kinds.discard(type(None))
        if not kinds:
            return Nulls()
        missing = bytes(map(is_, values, repeat(None)))
    if len(kinds) > 1:
        return Mixed(to_wire(values, signs=True))
    (kind,) = kinds
    present = values if missing is None else _filled(values, _EMPTY[kind])
    if kind is int:
        return Integers(_numbers("q", present), missing)
    if kind is float:
        return Floats(_numbers("d", present), missing)
    if kind is str:
        return _texts(present, missing)
    return Blobs(b"".join(present), _ends(map(len, present)), missing)


def _filled(values: tuple[Any, ...], empty: SqlValue) -> list[Any]:
    return [empty if value is None else value for value in values]


def _texts(texts: Collection[str], missing: bytes | None) -> Texts:
    joined = "".join(texts)
    data = joined.encode()
    sizes = map(len, texts) if len(data) == len(joined) else map(len, map(str.encode, texts))
    return Texts(data, _ends(sizes), missing)


def _ends(sizes: Iterable[int]) -> bytes:
    return _numbers("q", accumulate(sizes))


def _numbers(kind: str, numbers: Iterable[float]) -> bytes:
    packed = array(kind, numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
