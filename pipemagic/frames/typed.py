"""A result -> typed columns, for tables that know NULL and fixed types: Arrow, Polars, Parquet.

| values of the column (NULL aside)            | kind |
|----------------------------------------------|------|
| INTEGER                                      | integer (64 bits) |
| REAL                                         | float (64 bits) |
| TEXT                                         | text |
| BLOB                                         | binary |
| declared BOOLEAN, only 0 and 1               | boolean |
| declared DATE, DATETIME, TIMESTAMP, only ISO | moment (microseconds), with offsets instant (in UTC) |
| INTEGER and REAL, each integer exact as float | float |
| anything else mixed                          | text, or binary where there is a BLOB; a note |
| none at all (empty or all NULL)              | by the declared type; nothing, if none was declared |

Numbers that become text are written with all their digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pipemagic.frames.parts import Part
from pipemagic.frames.reading import Note, affinity, all_exact, is_boolean, is_date, note_infinities
from pipemagic.frames.stored import StoredRows, items_of, stored, whole
from pipemagic.frames.texts import stored_dates
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import Blob, Float, Integer, Text

Kind: TypeAlias = Literal["integer", "float", "text", "binary", "boolean", "moment", "instant", "nothing"]

_NAMES: dict[Any, str] = {Integer: "INTEGER", Float: "REAL", Text: "TEXT", Blob: "BLOB"}
_KINDS: dict[Any, Kind] = {Integer: "integer", Float: "float", Text: "text", Blob: "binary"}


@dataclass(frozen=True)
class Typed:
    """A column: its name, what all its values are, and the values.

    These are a numpy array (moments as ``datetime64[us]``) or `Texts`, ``missing`` telling which are NULL, None if none
    is; or a list with None for NULL.
    """

    name: str
    kind: Kind
    values: Any
    missing: Any = None


def typed_columns(result: StmtResult, note: Note | None = None) -> list[Typed]:
    """Give the columns of a result, each of one kind.

    ``note`` is called with a line of text, at most once a column, where values had to change their type. Raises
    ProtocolError for rows that are not as wide as ``cols`` and for values that are none.
    """
    rows = result.rows if isinstance(result.rows, StoredRows) else stored(result.cols, [result.rows])
    say = note or (lambda _: None)
    pairs = zip(rows.columns, result.cols, strict=True)
    return [_column(parts, col, at, say) for at, (parts, col) in enumerate(pairs)]


def _column(parts: Sequence[Part], col: Col, at: int, note: Note) -> Typed:
    name, declared = col.name or "", col.decltype or ""
    kinds = {kind for part in parts for kind in part.kinds}
    if not kinds:
        return Typed(name, _declared_kind(declared), [None] * sum(part.size for part in parts))
    if len(kinds) > 1:
        return _mixed(name, items_of(parts), kinds, name or f"number {at + 1}", note)
    (kind,), part = kinds, whole(parts)
    if kind is Integer and is_boolean(declared) and ((part.values == 0) | (part.values == 1)).all():
        return Typed(name, "boolean", part.values == 1, part.missing)
    if kind is Text and is_date(declared):
        dates = stored_dates(part)
        if dates is not None:
            return _dates(name, dates)
    if part.infinite:
        note_infinities(name, note)
    return Typed(name, _KINDS[kind], part.values, part.missing)


def _dates(name: str, dates: Any) -> Typed:
    """Tell instants, which come as a pandas array in UTC, from dates and times without a zone."""
    zoned = hasattr(dates, "tz_localize")
    return Typed(name, "instant" if zoned else "moment", dates.tz_localize(None).to_numpy() if zoned else dates)


def _declared_kind(declared: str) -> Kind:
    if is_boolean(declared):
        return "boolean"
    if is_date(declared):
        return "moment"
    kinds: dict[str, Kind] = {
        "INTEGER": "integer", "REAL": "float", "NUMERIC": "float", "TEXT": "text", "BLOB": "binary",
    }  # fmt: skip
    return kinds.get(affinity(declared), "nothing")


def _mixed(name: str, values: list[Any], kinds: set[type], shown: str, note: Note) -> Typed:
    names = " and ".join(_NAMES[kind] for kind in _NAMES if kind in kinds)
    cast = f"CAST({shown} AS ...) gives it a type of your choice"
    if kinds == {Integer, Float} and all_exact(values):
        if any(value != value for value in values):
            note_infinities(shown, note)
        return Typed(name, "float", [None if value is None else float(value) for value in values])
    if Blob in kinds:
        note(f"column {shown} mixes {names} values and becomes binary; {cast}")
        return Typed(name, "binary", [None if value is None else _bytes(value) for value in values])
    note(f"column {shown} mixes {names} values and becomes text; {cast}")
    return Typed(name, "text", [None if value is None else as_text(value) for value in values])


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else as_text(value).encode()


def as_text(value: int | float | str) -> str:
    """Write a value as text that says all of it: 17 digits of a float where they are needed."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    return str(value)
