"""Determine the logical type of each column of a result from its values and its declared type.

| values of the column (NULL aside)            | type |
|----------------------------------------------|------|
| INTEGER                                      | integer (64 bits) |
| REAL                                         | float (64 bits) |
| TEXT                                         | text |
| BLOB                                         | binary |
| declared BOOLEAN, only 0 and 1               | boolean |
| declared DATE, DATETIME, TIMESTAMP, only ISO | moment, with offsets instant (in UTC); in us, or ns if needed |
| INTEGER and REAL, each integer exact as float | float |
| anything else mixed                          | mixed |
| none at all (empty or all NULL)              | by the declared type; nothing, if none was declared |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from pipemagic.frames.columnar import ColumnarRows
from pipemagic.frames.columns import ColumnChunk, chunk_of, chunks_of, concat, nulls
from pipemagic.frames.moments import Misfit, first_misfit, have_times, parse_dates
from pipemagic.hrana.messages import StmtResult
from pipemagic.hrana.values import Blob, Float, Integer, Text
from pipemagic.sql.type_affinity import affinity, is_boolean, is_date
from pipemagic.text import escape_controls

Note: TypeAlias = Callable[[str], None]
"""Called with a sentence for a column that could not be converted to its type."""

_Type: TypeAlias = Literal[
    "integer", "float", "text", "binary", "boolean", "moment", "instant", "mixed", "nothing"
]  # fmt: skip

_NAMES: dict[Any, str] = {Integer: "INTEGER", Float: "REAL", Text: "TEXT", Blob: "BLOB"}
_TYPES: dict[Any, _Type] = {Integer: "integer", Float: "float", Text: "text", Blob: "binary"}
_DECLARED: dict[str, type] = {"INTEGER": Integer, "REAL": Float, "NUMERIC": Float, "TEXT": Text, "BLOB": Blob}


class LogicalColumn(NamedTuple):
    """A column: its name ('' for none), its name in messages, its logical type, its size, and its values.

    Values are a NumPy array (NaN for NULL in floats; moments are ``datetime64[us]`` or ``[ns]``), a pandas array of
    instants, `Texts`, or a list with None for NULL. ``missing`` is True for NULL, None if there is none or the values
    show it. ``mixes`` are the types of a mixed column, and ``noted`` is True if a note has said why it is mixed.
    """

    name: str
    shown: str
    type: _Type
    size: int
    values: Any
    missing: Any = None
    mixes: Sequence[str] = ()
    noted: bool = False

    def note_mixture(self, note: Note, becomes: str) -> None:
        """Call ``note`` with what a mixed column becomes, unless a note has said so."""
        if not self.noted:
            *others, last = self.mixes
            cast = f"CAST({self.name} AS ...)" if self.name.isidentifier() else "CAST"
            mixture = f"{', '.join(others)} and {last} values"
            note(f"Column {self.shown} has {mixture}, so {becomes}. Use {cast} to get one type.")


def logical_columns(result: StmtResult, note: Note) -> Iterator[LogicalColumn]:
    """Yield the columns of a result.

    ``note`` is called with a sentence for each with infinities whose sign the server does not send, and for each that
    is declared DATE, DATETIME or TIMESTAMP and stays text. Raise ProtocolError for rows with another number of values
    than ``cols``, and for invalid values.
    """
    if isinstance(result.rows, ColumnarRows):
        columns: Sequence[Sequence[ColumnChunk]] = result.rows.columns
    else:
        columns = [[chunk] for chunk in chunks_of(result.rows, len(result.cols))]
    for number, (col, chunks) in enumerate(zip(result.cols, columns, strict=True), start=1):
        yield _column(col.name or "", col.name or f"number {number}", col.decltype or "", chunks, note)


def _column(name: str, shown: str, declared: str, chunks: Sequence[ColumnChunk], note: Note) -> LogicalColumn:
    chunk = chunks[0] if len(chunks) == 1 else concat(chunks)
    size, values, missing = chunk.size, chunk.values, chunk.missing
    if not chunk.kinds:
        return _without_values(name, shown, declared, size)
    if len(chunk.kinds) > 1:
        return _mixed(name, shown, declared, chunk, note)
    (kind,) = chunk.kinds
    if declared and kind is Integer and is_boolean(declared) and ((values == 0) | (values == 1)).all():
        return LogicalColumn(name, shown, "boolean", size, values == 1, missing)
    if kind is Text and is_date(declared):
        dates = parse_dates(chunk)
        if not isinstance(dates, Misfit):
            return LogicalColumn(name, shown, "instant" if hasattr(dates, "tz_localize") else "moment", size, dates)
        _note_misfit(shown, declared, dates, note)
    if kind is Float and chunk.lacks_sign:
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


def _mixed(name: str, shown: str, declared: str, chunk: ColumnChunk, note: Note) -> LogicalColumn:
    import numpy as np

    items: list[Any] = chunk.items()
    if chunk.kinds == {Integer, Float} and all(int(float(item)) == item for item in items if isinstance(item, int)):
        if chunk.lacks_sign:
            note_infinities(shown, note)
        numbers = np.array([math.nan if item is None else item for item in items], np.float64)
        missing = np.array([item is None for item in items])
        return LogicalColumn(name, shown, "float", len(items), numbers, missing if missing.any() else None)
    misfit = first_misfit(items) if Text in chunk.kinds and is_date(declared) else None
    if misfit is not None:
        _note_misfit(shown, declared, misfit, note)
    mixes = [_NAMES[kind] for kind in _NAMES if kind in chunk.kinds]
    return LogicalColumn(name, shown, "mixed", len(items), items, mixes=mixes, noted=misfit is not None)


def _note_misfit(shown: str, declared: str, misfit: Misfit, note: Note) -> None:
    note(f"Column {shown} is declared {escape_controls(declared)} but was left as text: {misfit}.")


def note_infinities(name: str, note: Note, become: str = "NaN here") -> None:
    """Call ``note`` with the sentence about infinities that the server sends without a sign."""
    reason = f"the server does not send their sign. Use sign({name}) to get it."
    note(f"Column {name} has infinities, which are {become} because {reason}")


def stored_with_time(result: StmtResult) -> list[bool]:
    """Return for each column True if it is declared as dates and some of its texts have a time."""
    return [is_date(col.decltype or "") and _has_times(result, at) for at, col in enumerate(result.cols)]


def _has_times(result: StmtResult, at: int) -> bool:
    rows = result.rows
    chunks = rows.columns[at] if isinstance(rows, ColumnarRows) else [chunk_of([row[at] for row in rows])]
    return any(chunk.kinds == {Text} and have_times(chunk) for chunk in chunks)
