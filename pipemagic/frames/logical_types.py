"""Determine the logical type of each column of a result from its values and its declared type.

| values of the column (NULL aside)            | type |
|----------------------------------------------|------|
| INTEGER                                      | integer (64 bits) |
| REAL                                         | float (64 bits) |
| TEXT                                         | text |
| BLOB                                         | binary |
| declared BOOLEAN, only 0 and 1               | boolean |
| declared DATE, DATETIME, TIMESTAMP, only ISO | moment (microseconds), with offsets instant (in UTC) |
| INTEGER and REAL, each integer exact as float | float |
| anything else mixed                          | mixed |
| none at all (empty or all NULL)              | by the declared type; nothing, if none was declared |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from pipemagic.frames.columnar import ColumnarRows
from pipemagic.frames.columns import ColumnChunk, chunks_of, concat, nulls
from pipemagic.frames.dates import parse_dates
from pipemagic.hrana.messages import StmtResult
from pipemagic.hrana.values import Blob, Float, Integer, Text
from pipemagic.sql.type_affinity import affinity, is_boolean, is_date

Note: TypeAlias = Callable[[str], None]
"""Called with a line of text for a column that could not be converted to its type."""

Type: TypeAlias = Literal[
    "integer", "float", "text", "binary", "boolean", "moment", "instant", "mixed", "nothing"
]  # fmt: skip

_NAMES: dict[Any, str] = {Integer: "INTEGER", Float: "REAL", Text: "TEXT", Blob: "BLOB"}
_TYPES: dict[Any, Type] = {Integer: "integer", Float: "float", Text: "text", Blob: "binary"}
_DECLARED: dict[str, type] = {"INTEGER": Integer, "REAL": Float, "NUMERIC": Float, "TEXT": Text, "BLOB": Blob}


class LogicalColumn(NamedTuple):
    """A column: its name ('' for none), its name in messages, its logical type, its size, and its values.

    Values are a NumPy array (NaN for NULL in floats; moments are ``datetime64[us]``), a pandas array of instants,
    `Texts`, or a list with None for NULL. ``missing`` is True for NULL, None if there is none or the values show it.
    ``mixes`` names the types of a mixed column.
    """

    name: str
    shown: str
    type: Type
    size: int
    values: Any
    missing: Any = None
    mixes: str = ""


def logical_columns(result: StmtResult, note: Note) -> Iterator[LogicalColumn]:
    """Yield the columns of a result.

    ``note`` is called with a line for each with infinities whose sign the server does not send. Raise ProtocolError for
    rows with another number of values than ``cols``, and for invalid values.
    """
    if isinstance(result.rows, ColumnarRows):
        columns: Sequence[Sequence[ColumnChunk]] = result.rows.columns
    else:
        columns = [[chunk] for chunk in chunks_of(result.rows, len(result.cols))]
    for number, (col, chunks) in enumerate(zip(result.cols, columns, strict=True), start=1):
        yield _column(col.name or "", col.name or f"number {number}", col.decltype or "", chunks, note)


def _column(name: str, shown: str, declared: str, chunks: Sequence[ColumnChunk], note: Note) -> LogicalColumn:
    chunk = concat(chunks)
    size, values, missing = chunk.size, chunk.values, chunk.missing
    if not chunk.kinds:
        return _without_values(name, shown, declared, size)
    if len(chunk.kinds) > 1:
        return _mixed(name, shown, chunk, note)
    (kind,) = chunk.kinds
    if declared and kind is Integer and is_boolean(declared) and ((values == 0) | (values == 1)).all():
        return LogicalColumn(name, shown, "boolean", size, values == 1, missing)
    if kind is Text and is_date(declared) and (dates := parse_dates(chunk)) is not None:
        return LogicalColumn(name, shown, "instant" if hasattr(dates, "tz_localize") else "moment", size, dates)
    if chunk.lacks_sign:
        note_infinities(shown, note)
    return LogicalColumn(name, shown, _TYPES[kind], size, values, missing)


def _without_values(name: str, shown: str, declared: str, size: int) -> LogicalColumn:
    import numpy as np

    if is_boolean(declared):
        none = nulls(frozenset({Integer}), size)
        return LogicalColumn(name, shown, "boolean", size, none.values == 1, none.missing)
    if is_date(declared):
        return LogicalColumn(name, shown, "moment", size, np.full(size, "NaT", "datetime64[us]"))
    kind = _DECLARED.get(affinity(declared))
    if kind is None:
        return LogicalColumn(name, shown, "nothing", size, [None] * size)
    none = nulls(frozenset({kind}), size)
    return LogicalColumn(name, shown, _TYPES[kind], size, none.values, none.missing)


def _mixed(name: str, shown: str, chunk: ColumnChunk, note: Note) -> LogicalColumn:
    import numpy as np

    items: list[Any] = chunk.items()
    if chunk.kinds == {Integer, Float} and all(int(float(item)) == item for item in items if isinstance(item, int)):
        if chunk.lacks_sign:
            note_infinities(shown, note)
        numbers = np.array([math.nan if item is None else item for item in items], np.float64)
        missing = np.array([item is None for item in items])
        return LogicalColumn(name, shown, "float", len(items), numbers, missing if missing.any() else None)
    mixes = " and ".join(_NAMES[kind] for kind in _NAMES if kind in chunk.kinds)
    return LogicalColumn(name, shown, "mixed", len(items), items, mixes=mixes)


def note_infinities(name: str, note: Note, become: str = "NaN here") -> None:
    """Call ``note`` with the line about infinities whose sign the server does not send."""
    note(f"column {name} holds infinities; the server sends no sign, so they are {become}: sign({name}) returns it")
