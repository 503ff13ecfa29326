"""What a column's declared type would do to the values that are written into it (datatype3.html, section 3)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from pipemagic.client.definitions import has_constraints
from pipemagic.errors import LoadError
from pipemagic.frames.reading import affinity
from pipemagic.frames.writing import Column, values_of
from pipemagic.hrana.values import SqlValue, is_integer

_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*\Z", re.ASCII)
_EXACT = 2**53
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
    changed = next((value for value in values_of(column) if would_change(value, kind)), None)
    if changed is not None:
        where, zero = f"{table} declares it" if table else "declared", _is_negative_zero(changed)
        raise LoadError(
            f"column {column.name}: {where} {declared}, where {'-0.0' if zero else str(changed)[:40]!r} would become "
            "another value; nothing was changed",
            hint="adding 0.0 to the column makes 0.0 of it" if zero else "convert the column in the frame first",
        )


def check_rowids(column: Column, name: str) -> None:
    """Refuse a column with values that the INTEGER PRIMARY KEY of this name cannot hold."""
    if column.declared == "INTEGER":
        return
    wrong = next(((row, value) for row, value in enumerate(values_of(column), start=1) if not is_integer(value)), None)
    if wrong is not None:
        row, value = wrong
        shown = repr(value[:40]) if isinstance(value, str | bytes) else str(value)
        raise LoadError(
            f"row {row}: {name} is an INTEGER PRIMARY KEY and cannot hold {shown}; nothing was changed",
            hint="convert the column in the frame first",
        )


def _may_change(column: Column, kind: str) -> bool:
    """Tell whether the values have to be looked at: by what they all are it is mostly clear."""
    match column.declared:
        case "":  # several kinds, or a -0.0
            return True
        case "DATE" | "DATETIME" | "TIMESTAMP" | "BLOB":
            return False
        case "TEXT":
            return kind != "TEXT"
        case "REAL":
            return kind == "TEXT"
    return kind in ("TEXT", "REAL")


def would_change(value: SqlValue, kind: str) -> bool:
    """Tell whether a column of this affinity ('' for none) would turn a value into another one."""
    if kind in ("", "BLOB") or value is None or isinstance(value, bytes):
        return False
    if isinstance(value, str):
        return kind != "TEXT" and _NUMBER.match(value) is not None
    if _is_negative_zero(value):  # a column for numbers would drop its sign
        return True
    return kind == "TEXT" or (kind == "REAL" and isinstance(value, int) and abs(value) > _EXACT)


def _is_negative_zero(value: SqlValue) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1, value) < 0
