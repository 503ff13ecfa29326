"""Profiles of tables: counts, NULLs, distinct values, quartiles and the most frequent values of each column.

The server computes them, with one statement for each column, in one round trip; only the summary is sent. The number
of rows and columns does not matter much, but a column of a million different values takes some seconds to sort.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipemagic.errors import AnswerTimeout, StatementError, UnknownName
from pipemagic.explore import conditions, previews
from pipemagic.explore.conditions import Condition
from pipemagic.explore.page_query import SelectedRows, args_of, as_sent, identifier, source_sql
from pipemagic.explore.profile_result import ColumnKind, ColumnProfile, Profile, ValueCount
from pipemagic.explore.round_trip import run_queries
from pipemagic.explore.schema import Column, Relation, Schema
from pipemagic.explore.schema_reader import read_relation
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database

BINS = 12

_TEXT_BYTES, _BLOB_BYTES = 200, 20
"""Maximum bytes of a value that are sent."""


_NO_COLLATION = "no such collation sequence"


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
    """Profile a table, a view or a SELECT, or some of its ``columns``. Raise UnknownName for a wrong name.

    ``where`` is an SQL expression that selects rows, and ``params`` has the values of its parameters. Raise
    ParameterError if it is invalid. ``top`` is the number of frequent values. The server truncates values of more than
    200 bytes.

    This takes one round trip to read the columns and one for the profile. The first is omitted if ``table`` is a
    Relation, or if it is in ``known``, a schema read earlier; the second then verifies the version of the schema.
    """
    names = None if columns is None else tuple(columns)
    if where:
        conditions.check(where, parameters=params is not None)
    condition = Condition(where, conditions.args_of(where, params) if params else {})
    if known is not None and isinstance(table, str):
        result = _profile_known(database, known, table, names, top, condition)
        if result is not None:
            return result
    relation = read_relation(database, table) if isinstance(table, str) else table
    return _profile(database, relation, names, top, condition)[0]


def _profile_known(
    database: Database, schema: Schema, table: str, names: Sequence[str] | None, top: int, where: Condition
) -> Profile | None:
    """Profile a table of a schema read earlier. Return None if the schema has changed or lacks a name."""
    try:
        result, version = _profile(database, schema.relation(table), names, top, where)
    except UnknownName:
        return None
    except StatementError as error:
        if "no such " not in error.message:
            raise
        return None
    return result if version == schema.version else None


def _profile(
    database: Database, relation: Relation, names: Sequence[str] | None, top: int, where: Condition
) -> tuple[Profile, int]:
    """Return the profile and the version of the schema."""
    columns = relation.visible if names is None else tuple(relation.column(name) for name in names)
    if not columns:
        relation.column("")  # raises the reason why the columns are unknown
    args, sent = {**args_of(relation), **where.args} or None, as_sent(relation)

    def run(binary: Collection[str] = ()) -> Any:
        texts = [_column_sql(sent, column.name, top, where.sql, binary=column.name in binary) for column in columns]
        return run_queries(database, [(text, args) for text in texts])

    try:
        try:
            results, inconsistent, version = run()
        except StatementError as error:
            if _NO_COLLATION not in error.message:
                raise
            uncomparable = _uncomparable(database, sent, columns, args)
            results, inconsistent, version = run(uncomparable)
    except AnswerTimeout as error:
        hint = "profile fewer columns at once with --columns, or use a longer timeout=... of connect()"
        raise error.replace(hint=hint) from None
    profiles = tuple(_read_column(column, result.rows) for column, result in zip(columns, results, strict=True))
    return Profile(relation.name, profiles[0].rows, profiles, inconsistent, where.sql), version


def _read_column(column: Column, rows: Sequence[tuple[SqlValue, ...]]) -> ColumnProfile:
    """Return the profile of a column from the rows of its statement."""
    parts: dict[SqlValue, list[tuple[Any, ...]]] = {}
    for part, *rest in rows:
        parts.setdefault(part, []).append(tuple(rest))
    total, nulls, distinct, integers, numbers, texts, blobs, dates = parts["counts"][0]
    stored = {"integer": integers, "real": numbers - integers, "text": texts, "blob": blobs}
    kind: ColumnKind = (
        "number" if numbers else "empty" if not texts + blobs else "blob" if not texts
        else "date" if dates == texts else "text"
    )  # fmt: skip
    (ends,) = parts["ends"]
    letter = ends[6]

    def value(form: SqlValue, preview: SqlValue) -> Any:
        return previews.decode_preview(form, preview, letter, _TEXT_BYTES)

    least, most, mean = map(value, ends[0:6:2], ends[1:6:2])
    ranks = [(first, end, value(form, preview)) for first, end, form, preview, *_ in parts.get("rank", [])]
    bins = {number or 0: count for number, count, *_ in parts.get("bin", [])}  # NULL: all values are equal
    return ColumnProfile(
        column.name, column.type, kind, total, nulls, distinct,
        {name: count for name, count in stored.items() if count},
        least, most, None if mean is None else float(mean),
        _quartiles(ranks, numbers if kind == "number" else texts, kind),
        tuple(ValueCount(value(form, preview), n, bool(whole)) for n, form, preview, whole, *_ in parts.get("top", [])),
        tuple(bins.get(number, 0) for number in range(BINS)) if bins else (),
    )  # fmt: skip


def _quartiles(ranks: Sequence[tuple[int, int, Any]], size: int, kind: ColumnKind) -> tuple[Any, Any, Any]:
    """Return the quartiles of ``size`` values, from values with their first rank and the rank after their last one."""

    def at(rank: int) -> Any:
        return next((value for first, end, value in ranks if first <= rank < end), None)

    def quartile(quarter: int) -> Any:
        rank, rest = divmod((size - 1) * quarter, 4)
        low, high = at(rank), at(rank + (rest > 0))
        if kind != "number" or low == high or low is None or high is None:
            return low
        if isinstance(low, int) and isinstance(high, int):
            return (low * (4 - rest) + high * rest) / 4  # exact except for the division
        return _interpolate(float(low), float(high), rest / 4)

    return (quartile(1), quartile(2), quartile(3)) if ranks else (None, None, None)


def _interpolate(low: float, high: float, share: float) -> float | None:
    """Return the number at a share of the way between two numbers; None between -inf and inf."""
    if math.isinf(low) and math.isinf(high):
        return None
    distance = high - low
    if math.isinf(distance) and math.isfinite(low) and math.isfinite(high):
        return low * (1 - share) + high * share
    return low + distance * share if math.isfinite(low) else low


def profile_sql(relation: Relation, columns: Iterable[str], *, top: int = 5, where: str = "") -> str:
    """Return the statements of a profile, one for each column."""
    return ";\n".join(_column_sql(relation, column, top, where).strip() for column in columns)


def _uncomparable(database: Database, relation: Relation, columns: Iterable[Column], args: Any) -> set[str]:
    """Return the columns with a collation that the server does not have."""
    uncomparable = set()
    for column in columns:
        rows, value = _source(relation, column.name)
        try:
            database.execute(f"SELECT 1 FROM {rows} GROUP BY {value} LIMIT 0", args)
        except StatementError as error:
            if _NO_COLLATION not in error.message:
                raise
            uncomparable.add(column.name)
    return uncomparable


def _source(relation: Relation, column: str) -> tuple[str, str]:
    """Return the SQL of the rows, and of a column in them."""
    is_select = isinstance(relation, SelectedRows)
    owner = "t" if is_select else quote(relation.name)
    rows = f"{source_sql(relation)} AS t" if is_select else f"main.{owner}"
    return rows, f"{owner}.{identifier(column)}"  # it may be empty


def _column_sql(relation: Relation, column: str, top: int, where: str, *, binary: bool = False) -> str:
    """Return the statement for a column. Each row begins with its part: counts, ends, rank, bin or top.

    ``binary`` compares texts by their bytes, not by the collation of the column.
    """
    rows, value = _source(relation, column)
    if where:  # renamed, because in a subquery columns named true or false cannot be resolved
        rows, value = f"(SELECT {value} AS v_ FROM {rows} WHERE {where}\n)", "v_"
    if binary:
        value = f"{value} COLLATE BINARY"
    return _SQL.format(column=value, rows=rows, bins=BINS, last=BINS - 1, top=int(top))


def _sent(value: str) -> str:
    return previews.preview_sql(value, text=_TEXT_BYTES, blob=_BLOB_BYTES)


_RANKS = " OR ".join(
    f"(upto - n <= {rank} AND upto > {rank})"
    for quarter in (1, 2, 3)
    for rank in (f"last * {quarter} / 4", f"(last * {quarter} + 3) / 4")
)
"""The condition for the values at the quartiles, or next to them."""

# The values are grouped once (SQLite sorts them), and all figures come from the groups. The running total of their
# sizes is the rank of each value, so quartiles are exact without a percentile function, which only some servers have.
# The names end in _ because a condition may query a table named g.
# In a group of equal values only 1 and 1.0 can differ in type: `i` counts the integers among them.
# `kind` decides what is ranked: the numbers, or text if all of it is dates.
# Bins are computed from halves, since the difference of two large doubles would be infinite.
_SQL = f"""
WITH g_(v, n, i, k) AS MATERIALIZED (
    SELECT {{column}}, count(*), sum(typeof({{column}}) = 'integer'), typeof({{column}})
    FROM {{rows}} GROUP BY {{column}}
), s_ AS MATERIALIZED (
    SELECT ifnull(sum(n), 0) AS total, ifnull(sum(iif(k = 'null', n, 0)), 0) AS nulls,
        ifnull(sum(k <> 'null'), 0) AS different, ifnull(sum(i), 0) AS integers,
        ifnull(sum(iif(k IN ('integer', 'real'), n, 0)), 0) AS numbers,
        ifnull(sum(iif(k = 'text', n, 0)), 0) AS texts, ifnull(sum(iif(k = 'blob', n, 0)), 0) AS blobs,
        ifnull(sum(iif(k = 'text' AND v GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'
            AND julianday(v) IS NOT NULL, n, 0)), 0) AS dates,
        total(iif(k IN ('integer', 'real'), 1.0 * v * n, NULL)) AS amount, min(v) AS least, max(v) AS most,
        min(iif(k IN ('integer', 'real') AND abs(1.0 * v) < 9e999, 1.0 * v, NULL)) AS low,
        max(iif(k IN ('integer', 'real') AND abs(1.0 * v) < 9e999, 1.0 * v, NULL)) AS high,
        min(iif(k = 'text', v, NULL)) AS first, max(iif(k = 'text', v, NULL)) AS final
    FROM g_
), m_ AS MATERIALIZED (
    SELECT CASE WHEN numbers > 0 THEN 1 WHEN texts > 0 AND texts = dates THEN 2 ELSE 0 END AS kind,
        iif(numbers > 0, numbers, texts) - 1 AS last,
        0.5 * iif(numbers > 0, low, julianday(first)) AS low, 0.5 * iif(numbers > 0, high, julianday(final)) AS high,
        iif(numbers > 0, amount / numbers, NULL) AS mean
    FROM s_
), o_ AS (
    SELECT v, n, sum(n) OVER (ORDER BY v) AS upto FROM g_, m_
    WHERE (m_.kind = 1 AND k IN ('integer', 'real')) OR (m_.kind = 2 AND k = 'text')
)
SELECT 'counts', total, nulls, different, integers, numbers, texts, blobs, dates FROM s_
UNION ALL SELECT 'ends', typeof(least), {_sent("least")}, typeof(most), {_sent("most")},
    typeof(mean), {_sent("mean")}, {previews.LETTER}, NULL FROM s_, m_
UNION ALL SELECT 'rank', upto - n, upto, typeof(v), {_sent("v")}, NULL, NULL, NULL, NULL FROM o_, m_
    WHERE {_RANKS}
UNION ALL SELECT 'bin', b, c, NULL, NULL, NULL, NULL, NULL, NULL FROM (
    SELECT sum(n) AS c,
        CAST(min({{last}}, (0.5 * iif(m_.kind = 2, julianday(v), v) - low) / (high - low) * {{bins}}) AS INTEGER) AS b
    FROM g_, m_
    WHERE (m_.kind = 1 AND k IN ('integer', 'real') AND abs(1.0 * v) < 9e999) OR (m_.kind = 2 AND k = 'text') GROUP BY b
)
UNION ALL SELECT 'top', n, k, {_sent("v")}, complete, NULL, NULL, NULL, NULL FROM (
    SELECT v, n, k,
        CASE k WHEN 'text' THEN {previews.byte_length("v")} <= {_TEXT_BYTES}
            WHEN 'blob' THEN length(v) <= {_BLOB_BYTES} ELSE 1 END AS complete
    FROM g_ WHERE v IS NOT NULL
    ORDER BY n DESC, v LIMIT {{top}}
)
"""
