"""What a column's declared type would do to the values that are written into it (datatype3.html, section 3)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipemagic.client.definitions import has_constraints
from pipemagic.errors import LoadError
from pipemagic.frames import Column
from pipemagic.frames.cells import DIGITS, MIXED, PLAIN, digits
from pipemagic.frames.reading import affinity
from pipemagic.hrana.values import SqlValue

_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*\Z", re.ASCII)
_EXACT = 2**53
_AT_ONCE = 50_000
_NEGATIVE_ZERO = digits(-0.0)  # a column for numbers would drop its sign


_TYPE = re.compile(r"[^\W\d]\w*(?: [^\W\d]\w*)*(?: ?\( ?[+-]?\d+ ?(?:, ?[+-]?\d+ ?)?\))?\Z")


def check_types(columns: Sequence[Column], types: Mapping[str, str]) -> dict[str, str]:
    """Give the wanted types by the names of the columns; LoadError for what is none, or would change a value."""
    there = {column.name.lower(): column for column in columns}
    wanted = {}
    for name, declared in types.items():
        column = there.get(name.lower())
        if column is None:
            raise LoadError(f"the frame has no column {name} to give a type; nothing was changed")
        if not _TYPE.match(declared) or has_constraints(declared):
            raise LoadError(
                f"column {name}: {declared[:60]!r} is not a type; nothing was changed",
                hint="a type is INTEGER, TEXT, DECIMAL(10, 2) and the like; constraints need a CREATE TABLE",
            )
        check_affinity(column, declared)
        wanted[column.name] = declared
    return wanted


def check_affinity(column: Column, declared: str, table: str = "") -> None:
    """Refuse a column some of whose values SQLite would turn into others in a column of this declared type.

    A REAL that becomes an INTEGER of the same value, or the other way round, counts as the same; -0.0 has none.
    """
    kind = affinity(declared)
    if kind in ("", "BLOB") or not _may_change(column, kind):
        return
    changed = next((cell for cell in _cells(column) if _changes(cell, column, kind)), None)
    if changed is not None:
        where, zero = f"{table} declares it" if table else "declared", _is_negative_zero(changed)
        raise LoadError(
            f"column {column.name}: {where} {declared}, where {'-0.0' if zero else str(changed)[:40]!r} would become "
            "another value; nothing was changed",
            hint="adding 0.0 to the column makes 0.0 of it" if zero else "convert the column in the frame first",
        )


def _may_change(column: Column, kind: str) -> bool:
    """Tell whether the values have to be looked at: by what they all are it is mostly clear."""
    if column.form is MIXED or (column.form is DIGITS and not column.declared):  # the latter holds a -0.0
        return True
    if column.declared in ("DATE", "DATETIME", "TIMESTAMP", "BLOB"):
        return False
    if column.declared == "TEXT":
        return kind != "TEXT"
    return kind == "TEXT" or (kind == "REAL" and column.form is PLAIN)


def _cells(column: Column) -> Iterator[Any]:
    start = 0
    while part := column.cells(start, start + _AT_ONCE):
        yield from part
        start += _AT_ONCE


def _changes(cell: Any, column: Column, kind: str) -> bool:
    """Tell of one cell. Doubles and bytes of a mixed column are a list and a dict."""
    if cell is None or isinstance(cell, dict):
        return False
    if isinstance(cell, str) and column.form in (PLAIN, MIXED):
        return kind != "TEXT" and _NUMBER.match(cell) is not None
    if _is_negative_zero(cell):
        return True
    return kind == "TEXT" or (kind == "REAL" and isinstance(cell, int) and abs(cell) > _EXACT)


def _is_negative_zero(cell: Any) -> bool:
    return bool((cell[0] if isinstance(cell, list) else cell) == _NEGATIVE_ZERO)


def would_change(value: SqlValue, kind: str) -> bool:
    """Tell whether a column of this affinity ('' for none) would turn a value into another one."""
    if kind in ("", "BLOB") or value is None or isinstance(value, bytes):
        return False
    if isinstance(value, str):
        return kind != "TEXT" and _NUMBER.match(value) is not None
    if value == 0 and math.copysign(1, value) < 0:
        return True
    return kind == "TEXT" or (kind == "REAL" and isinstance(value, int) and abs(value) > _EXACT)
