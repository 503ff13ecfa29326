"""What the columns of a table hold: counts, NULLs, distinct values, quartiles, the most frequent values.

All of it is computed by the server, a statement for each column, in one round trip; only the summary travels. So it
does not matter how many rows or columns there are, but a column of a million different values takes the server some
seconds, since it has to sort them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pipemagic.errors import AnswerTimeout, StatementError, UnknownName
from pipemagic.explore import conditions
from pipemagic.explore.asking import ask_at
from pipemagic.explore.conditions import Condition
from pipemagic.explore.profile_sql import BINS, LONGEST, column_sql
from pipemagic.explore.schema import Column, Relation, Schema, read_relation
from pipemagic.explore.sending import received
from pipemagic.hrana.values import SqlValue

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database

Kind = Literal["number", "date", "text", "blob", "empty"]


@dataclass(frozen=True)
class Common:
    """A frequent value and how often it is there; ``whole`` tells that it was not too long to send."""

    value: SqlValue
    count: int
    whole: bool = True


@dataclass(frozen=True)
class ColumnProfile:
    """What one column holds. ``kind`` is what quartiles and bins are of; all else is of every value.

    ``stored`` counts the values by storage class ('integer', 'real', 'text', 'blob'). ``distinct`` is SQL's
    ``count(DISTINCT ...)``: NULL is not counted, 1 and 1.0 are one. ``minimum`` and ``maximum`` are SQL's, too: numbers
    are before text, text before blobs. ``quartiles`` are interpolated for numbers, as pandas does; of two dates they
    are the earlier one. ``bins`` are counts between the smallest and the largest finite number or date.
    """

    name: str
    type: str
    kind: Kind
    rows: int
    nulls: int
    distinct: int
    stored: Mapping[str, int]
    minimum: SqlValue = None
    maximum: SqlValue = None
    mean: float | None = None
    quartiles: tuple[SqlValue, SqlValue, SqlValue] = (None, None, None)
    common: tuple[Common, ...] = ()
    bins: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many values there are, NULLs aside."""
        return self.rows - self.nulls


@dataclass(frozen=True)
class Profile:
    """What a table holds, column by column; with ``where`` only the rows for which that SQL holds.

    ``moved`` tells that it was written to while it was looked at.
    """

    table: str
    rows: int
    columns: tuple[ColumnProfile, ...]
    moved: bool = False
    where: str = ""

    def __getitem__(self, name: str) -> ColumnProfile:
        """Give the profile of one column; KeyError if it was not looked at."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @cached_property
    def frame(self) -> DataFrame:
        """The figures as a DataFrame, one row for each column; what a column does not have is None."""
        from pandas import DataFrame

        rows = [_row(column) for column in self.columns]
        names = (
            "column", "type", "stored as", "count", "nulls", "distinct",
            "min", "25%", "50%", "75%", "max", "mean", "top", "top count",
        )  # fmt: skip
        frame = DataFrame(rows, columns=list(names), dtype=object)
        whole = dict.fromkeys(("count", "nulls", "distinct", "top count"), "int64")
        return frame.astype(whole)

    def __repr__(self) -> str:
        from pipemagic.explore.profile_view import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from pipemagic.explore.profile_view import as_html

        return as_html(self)


def _row(column: ColumnProfile) -> tuple[Any, ...]:
    first = column.common[0] if column.common else Common(None, 0)
    low, middle, high = column.quartiles
    return (
        column.name, column.type, ", ".join(column.stored), column.count, column.nulls, column.distinct,
        column.minimum, low, middle, high, column.maximum, column.mean, first.value, first.count,
    )  # fmt: skip


def profile(
    database: Database,
    table: str | Relation,
    columns: Iterable[str] | None = None,
    *,
    top: int = 5,
    known: Schema | None = None,
    where: str = "",
    params: Mapping[str, SqlValue] | None = None,
) -> Profile:
    """Look at a table or view, or only at some of its ``columns``; UnknownName for a wrong name.

    ``where`` is an SQL expression: only rows for which it holds are looked at. ParameterError if it is not one.
    ``params`` has the values of its parameters.

    One round trip, after one that looks the columns up. That is not needed if ``table`` is a Relation, or if it is in
    ``known``, a schema that was read earlier: whether it still holds is asked in the same round trip. ``top`` is how
    many frequent values to give. Values longer than 200 bytes are cut by the server.
    """
    wanted = None if columns is None else tuple(columns)
    if where:
        conditions.check(where, parameters=params is not None)
    condition = Condition(where, conditions.used(where, params) if params else {})
    if known is not None and isinstance(table, str):
        found = _if_it_still_holds(database, known, table, wanted, top, condition)
        if found is not None:
            return found
    relation = read_relation(database, table) if isinstance(table, str) else table
    return _ask(database, relation, _chosen(relation, wanted), top, condition)[0]


def _if_it_still_holds(
    database: Database, known: Schema, table: str, columns: Sequence[str] | None, top: int, where: Condition
) -> Profile | None:
    """Go by a schema of earlier; None if it does not know the names, or is not that of the database any more."""
    try:
        relation = known.relation(table)
        found, version = _ask(database, relation, _chosen(relation, columns), top, where)
    except UnknownName:
        return None
    except StatementError as error:
        if "no such " not in error.message:
            raise
        return None
    return found if version == known.version else None


def _chosen(relation: Relation, columns: Sequence[str] | None) -> Sequence[Column]:
    chosen = relation.visible if columns is None else tuple(relation.column(name) for name in columns)
    if not chosen:
        relation.column("")  # says why nothing is known of the columns
    return chosen


def _ask(
    database: Database, relation: Relation, columns: Sequence[Column], top: int, where: Condition
) -> tuple[Profile, int]:
    """Give the profile and the version of the schema that it was taken under."""
    args = where.args or None
    statements = [(column_sql(relation.name, column.name, top=top, where=where.sql), args) for column in columns]
    try:
        results, moved, version = ask_at(database, statements)
    except AnswerTimeout as error:
        hint = "look at fewer columns at once with --columns, or wait longer with timeout=... of connect()"
        raise error.replace(hint=hint) from None
    found = tuple(_read(column, result.rows) for column, result in zip(columns, results, strict=True))
    return Profile(relation.name, found[0].rows, found, moved, where.sql), version


def _read(column: Column, rows: Sequence[tuple[SqlValue, ...]]) -> ColumnProfile:
    """Put together what the statement of one column gave."""
    parts: dict[SqlValue, list[tuple[Any, ...]]] = {}
    for what, *rest in rows:
        parts.setdefault(what, []).append(tuple(rest))
    total, nulls, distinct, integers, numbers, texts, blobs, dates = parts["counts"][0]
    stored = {"integer": integers, "real": numbers - integers, "text": texts, "blob": blobs}
    kind: Kind = (
        "number" if numbers else "empty" if not texts + blobs else "blob" if not texts
        else "date" if dates == texts else "text"
    )  # fmt: skip
    (ends,) = parts["ends"]
    letter = ends[6]

    def value(form: SqlValue, given: SqlValue) -> Any:
        return received(form, given, letter, LONGEST)

    least, most, mean = map(value, ends[0:6:2], ends[1:6:2])
    tops = parts.get("top", [])
    size = numbers if kind == "number" else texts
    ranks = [(first, last, value(form, given)) for first, last, form, given, *_ in parts.get("rank", [])]
    return ColumnProfile(
        column.name, column.type, kind, total, nulls, distinct,
        {name: count for name, count in stored.items() if count},
        least, most, None if mean is None else float(mean), _quartiles(ranks, size, kind),
        tuple(Common(value(form, given), number, bool(whole)) for number, form, given, whole, *_ in tops),
        _bins(parts.get("bin", [])),
    )  # fmt: skip


def _bins(rows: Sequence[tuple[Any, ...]]) -> tuple[int, ...]:
    """Give the count of each bin; where all numbers are the same one there is no width, and all are in the first."""
    counts = {number or 0: count for number, count, *_ in rows}
    return tuple(counts.get(number, 0) for number in range(BINS)) if counts else ()


def _quartiles(ranks: Sequence[tuple[int, int, Any]], size: int, kind: Kind) -> tuple[Any, Any, Any]:
    """Find the values at a quarter, a half, three quarters of the way from the first to the last."""

    def at(rank: int) -> Any:
        return next((given for first, last, given in ranks if first <= rank < last), None)

    def between(quarter: int) -> Any:
        rank, rest = divmod((size - 1) * quarter, 4)
        low, high = at(rank), at(rank + (rest > 0))
        if kind != "number" or low == high or low is None or high is None:
            return low
        if isinstance(low, int) and isinstance(high, int):
            return (low * (4 - rest) + high * rest) / 4  # exact up to the one division
        return _between(float(low), float(high), rest / 4)

    return (None, None, None) if not ranks else (between(1), between(2), between(3))


def _between(low: float, high: float, share: float) -> float | None:
    """Give what is a share of the way from one number to another; None from -inf to inf, where nothing is."""
    if math.isinf(low) and math.isinf(high):
        return None
    distance = high - low
    if math.isinf(distance) and math.isfinite(low) and math.isfinite(high):
        return low * (1 - share) + high * share
    return low + distance * share if math.isfinite(low) else low
