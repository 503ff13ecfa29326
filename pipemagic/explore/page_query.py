"""The SQL of a page of a table or a SELECT, filtered and sorted by the server, and functions that read or export it.

The statement of a page has that of `rows_sql` as a subquery and truncates long values on the server, so the statement
that users see and copy returns the same rows.
"""

from __future__ import annotations

import keyword
import math
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from pipemagic.client.stream import Dialect
from pipemagic.errors import ParameterError, SessionError
from pipemagic.explore.conditions import literal
from pipemagic.explore.conditions import one_line as condition_on_one_line
from pipemagic.explore.page_values import (
    BLOB,
    BLOB_BYTES,
    FULL_LENGTH,
    NUMBER,
    TEXT_BYTES,
    FullValue,
    TableCell,
    full_value,
    row_cells,
    row_values,
)
from pipemagic.explore.previews import LETTER, byte_length, decode_preview, preview_sql
from pipemagic.explore.schema import Column, Relation
from pipemagic.explore.schema_reader import read_relation
from pipemagic.explore.sqlite_reference import KEYWORDS
from pipemagic.frames import arrow_polars, files, to_frame
from pipemagic.frames.columnar import RowsBuilder
from pipemagic.frames.columns import InvalidText
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import SqlValue, encode
from pipemagic.sql import dates, folded, tokens
from pipemagic.sql.type_affinity import affinity, is_date, is_day_type
from pipemagic.text import escape_controls, plural

if TYPE_CHECKING:
    from pipemagic.client.cursor import Cursor
    from pipemagic.client.database import Database
    from pipemagic.client.result import Result

COLUMNS = 200
"""Maximum number of columns on a page."""

SIZES = (25, 50, 100)

OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "contains", "starts with", "is null", "is not null")

_RESERVED = {*KEYWORDS, "TRUE", "FALSE"}
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MINUTE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d", re.ASCII)
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,25}", re.ASCII)

WriteValue = Callable[[SqlValue], str]
"""Writes a value into SQL: as a literal (`literal`), or as a parameter (`BoundValues`)."""


@dataclass(frozen=True)
class Filter:
    """A comparison of a column with a typed value; '' if the operator takes none."""

    column: str
    operator: str
    value: str = ""

    def __str__(self) -> str:
        return escape_controls(f"{self.column} {self.operator} {self.value}").rstrip()


@dataclass(frozen=True)
class SelectedRows(Relation):
    """The rows of a SELECT as a relation: ``sql`` is its text as users copy it.

    ``sent`` is the text that is sent, in which the rows of DataFrames may be arguments, and ``args`` are the values of
    its parameters, by their names with the colon. The names of the columns are those of a subquery in SQLite, which are
    unique.
    """

    sent: str = field(default="", repr=False, compare=False)
    args: Mapping[str, SqlValue] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_result(cls, cols: Iterable[Col], sql: str, sent: str, args: Mapping[str, SqlValue]) -> SelectedRows:
        """Return the rows of a SELECT with these columns as a subquery."""
        columns = tuple(Column(col.name or "", col.decltype or "") for col in cols)
        return cls("the result", "subquery", columns, sql=sql, sent=sent, args=args)


@dataclass(frozen=True)
class PageQuery:
    """Table ('' for a SELECT), filters, order and page of a query."""

    table: str = ""
    filters: tuple[Filter, ...] = ()
    where: str = ""
    sort: str | None = None
    descending: bool = False
    size: int = SIZES[0]
    offset: int = 0

    def sort_by(self, name: str) -> PageQuery:
        """Return the query sorted by a column: ascending, then descending, then not at all."""
        if self.sort != name:
            return replace(self, sort=name, descending=False, offset=0)
        return replace(self, sort=None if self.descending else name, descending=not self.descending, offset=0)

    def order_of(self, name: str) -> str | None:
        """Return ascending or descending if the rows are sorted by a column."""
        return None if self.sort != name else "descending" if self.descending else "ascending"

    def last_offset(self, total: int) -> int:
        """Return the offset of the last page of ``total`` rows."""
        return max(0, (total - 1) // self.size * self.size)

    def previous_offset(self, total: int | None) -> int:
        """Return the offset of the previous page; for a page beyond all rows, the offset of the last page."""
        before = max(0, self.offset - self.size)
        return before if total is None or self.offset < total else min(before, self.last_offset(total))


@dataclass(frozen=True)
class Page:
    """The displayed columns of the rows of a query; ``more`` is True if more rows follow.

    ``result`` has the same rows as values, of which the long ones are truncated.
    """

    query: PageQuery
    relation: Relation
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    more: bool
    result: StmtResult = field(default_factory=StmtResult, repr=False, compare=False)

    @property
    def end(self) -> int:
        """The number of the last row, counted from 1."""
        return self.query.offset + len(self.rows)

    @property
    def is_last(self) -> bool:
        """True if no rows follow and `end` is the total number of rows."""
        return not self.more and bool(self.rows or not self.query.offset)

    @property
    def count_key(self) -> tuple[object, ...]:
        """The values that determine the number of rows."""
        return (self.query.table, self.query.filters, self.query.where, self.relation)

    def contradicts(self, total: int | None) -> bool:
        """Return True if the page shows that an earlier count is wrong, or provides the unknown count."""
        if self.is_last:
            return total != self.end
        if total is None:
            return False
        return total <= self.end if self.more else total > self.query.offset

    @property
    def empty_text(self) -> str:
        """A message that explains why there are no rows."""
        if self.query.offset:
            return "No rows at this position."
        if self.query.filters or self.query.where:
            return "No rows match the filters."
        return "The table is empty." if self.query.table else "No rows."


class BoundValues:
    """Writes parameters, and collects their values by name, beside those of a SELECT."""

    def __init__(self, args: Mapping[str, SqlValue]) -> None:
        self.values = dict(args)

    def __call__(self, value: SqlValue) -> str:
        """Write a parameter."""
        number = len(self.values) + 1
        while (name := f":value{number}") in self.values:
            number += 1
        self.values[name] = value
        return name


def identifier(given: str) -> str:
    """Return an identifier, in backticks if needed: SQLite reads an unknown double-quoted name as a string."""
    if "\0" in given:
        raise ParameterError(f"{given!r} is not a valid name in SQL")
    plain = _BARE.fullmatch(given) and given.upper() not in _RESERVED
    return given if plain else "`" + given.replace("`", "``") + "`"


def rows_sql(query: PageQuery, relation: Relation, write: WriteValue = literal, *, limit: bool = True) -> str:
    """Return the statement of a page, or of all rows without ``limit``."""
    lines = [*_from(query, relation, write), *_order(query, relation)]
    if limit:
        # OFFSET is fast enough for deep pages: row 250,000 of a million takes 25 ms longer than the first one.
        lines.append(f"LIMIT {query.size}" + (f" OFFSET {query.offset}" if query.offset else ""))
    return "\n".join(lines)


def drop_missing_columns(query: PageQuery, relation: Relation) -> PageQuery:
    """Remove sorting and filters by columns that no longer exist from a query; ``where`` is unchanged."""
    there = {folded(column.name) for column in relation.columns}
    return replace(
        query,
        filters=tuple(condition for condition in query.filters if folded(condition.column) in there),
        sort=query.sort if query.sort is not None and folded(query.sort) in there else None,
    )


def count_sql(query: PageQuery, relation: Relation, write: WriteValue = literal) -> str:
    """Return the statement that counts all rows."""
    head, *rest = _from(query, relation, write)
    return "\n".join([head.replace("*", "count(*)", 1), *rest])


def filter_sql(query: PageQuery, relation: Relation) -> str:
    """Return the filter condition on one line; '' if there is none."""
    typed = [f"({condition_on_one_line(query.where)})"] if query.where else []
    return " AND ".join([*(_comparison(condition, relation, literal) for condition in query.filters), *typed])


def _from(query: PageQuery, relation: Relation, write: WriteValue) -> list[str]:
    conditions = [_comparison(condition, relation, write) for condition in query.filters]
    if query.where:
        end = "\n" if any(token.kind == "comment" for token in tokens(query.where)) else ""
        conditions.append(f"({query.where}{end})")
    where = [f"WHERE {' AND '.join(conditions)}"] if conditions else []
    return [f"SELECT * FROM {source_sql(relation)}", *where]


def source_sql(relation: Relation) -> str:
    """Return what a statement has after FROM: the name of a table, or a SELECT in parentheses."""
    return f"(\n{relation.sql}\n)" if isinstance(relation, SelectedRows) else identifier(relation.name)


def as_sent(relation: Relation) -> Relation:
    """Return a relation with the text of its SELECT that is sent."""
    return replace(relation, sql=relation.sent) if isinstance(relation, SelectedRows) else relation


def args_of(relation: Relation) -> Mapping[str, SqlValue]:
    """Return the values of the parameters of a SELECT."""
    return relation.args if isinstance(relation, SelectedRows) else {}


def _order(query: PageQuery, relation: Relation) -> list[str]:
    by = []
    if query.sort is not None:
        by.append(identifier(relation.column(query.sort).name) + (" DESC" if query.descending else ""))
    by += [column for column in map(identifier, row_order(relation)) if column not in by]
    return [f"ORDER BY {', '.join(by)}"] if by else []


def row_order(relation: Relation) -> tuple[str, ...]:
    """Return the columns that order rows uniquely: the rowid or the primary key; none for a view."""
    if relation.kind in ("view", "subquery"):
        return ()
    names = {folded(column.name) for column in relation.columns}
    rowid = next((name for name in ("rowid", "_rowid_", "oid") if name not in names), None)
    return relation.primary_key if relation.without_rowid or rowid is None else (rowid,)


def _comparison(filter_: Filter, relation: Relation, write: WriteValue) -> str:
    column = relation.column(filter_.column)
    written = identifier(column.name)
    match filter_.operator:
        case "is null" | "is not null":
            return f"{written} {filter_.operator.upper()}"
        case "contains":
            return f"{written} LIKE {_like(f'%{_escaped(filter_.value)}%', write)}"
        case "starts with":
            return f"{written} LIKE {_like(f'{_escaped(filter_.value)}%', write)}"
        case operator if operator in OPERATORS:
            value = operand(filter_.value, column, strict=relation.strict)
            if isinstance(value, str) and dates.is_day(value) and is_date(column.type) and not is_day_type(column.type):
                return _comparison_with_day(written, operator, value, write)
            return f"{written} {operator} {write(value)}"
    raise ParameterError(f"unknown comparison {filter_.operator!r}")


def _comparison_with_day(column: str, operator: str, day: str, write: WriteValue) -> str:
    """Return the comparison of a column of moments with a whole day: a moment of it is not > it, and is <= it."""
    after = dates.next_day(day)
    match operator:
        case "=":
            return f"({column} >= {write(day)} AND {column} < {write(after)})"
        case "<>":
            return f"({column} < {write(day)} OR {column} >= {write(after)})"
        case "<=" | ">":
            return f"{column} {'<' if operator == '<=' else '>='} {write(after)}"
    return f"{column} {operator} {write(day)}"


def _like(pattern: str, write: WriteValue) -> str:
    return write(pattern) + (r" ESCAPE '\'" if "\\" in pattern else "")


def _escaped(typed: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", typed)


def operand(typed: str, column: Column, *, strict: bool = False) -> SqlValue:
    """Convert typed text to a value for comparison with a column.

    Return text if the column has text affinity, otherwise a number if the text looks like one. For a column without
    affinity, '5' is text and x'..' is a blob, as in SQL. ANY has no affinity in a ``strict`` table, and numeric
    affinity in others. For a DATE column, a moment at midnight is the day. A moment without seconds gets them, as the
    stored ones have.
    """
    if is_day_type(column.type) and (day := dates.day_of_midnight(typed.strip())) is not None:
        return day
    if is_date(column.type) and dates.is_day(typed.strip()):
        return typed.strip()
    if is_date(column.type) and _MINUTE.fullmatch(typed.strip()):
        return f"{typed.strip()}:00"
    kind = "" if strict and column.type.upper() == "ANY" else affinity(column.type)
    if kind == "TEXT":
        return typed
    if kind in ("", "BLOB"):
        if len(typed) > 1 and typed[0] == typed[-1] == "'":
            return typed[1:-1].replace("''", "'")
        if match := BLOB.fullmatch(typed):
            return bytes.fromhex(match[1])
    return _number(typed.strip(), typed)


def _number(word: str, typed: str) -> SqlValue:
    if _WHOLE_NUMBER.fullmatch(word) and -(2**63) <= int(word) < 2**63:
        return int(word)
    if NUMBER.fullmatch(word) and math.isfinite(float(word)):
        return float(word)
    return typed


def read_page(database: Database, query: PageQuery, relation: Relation) -> Page:
    """Read a page in one round trip. Raise ParameterError for an invalid comparison, or as Database.execute."""
    if not relation.visible:
        relation.column("")  # raises the reason
    columns = relation.visible[:COLUMNS]
    one_more = replace(query, size=query.size + 1)
    result = _execute(
        database,
        relation,
        lambda sent, write: _of_rows(f"{LETTER},\n{_sent(columns)}", rows_sql(one_more, sent, write), relation),
    )
    values = [row_values(row) for row in result.rows[: query.size]]
    rows = tuple(row_cells(row, columns) for row in result.rows[: query.size])
    shown = StmtResult(
        [Col(column.name, column.type) for column in columns], [[encode(value) for value in row] for row in values],
        query_duration_ms=result.wire.query_duration_ms,
    )  # fmt: skip
    return Page(query, relation, columns, rows, len(result.rows) > query.size, shown)


def refresh_page(database: Database, query: PageQuery) -> Page:
    """Read the columns of a table and a page, ignoring sorting and filters by columns that no longer exist."""
    relation = read_relation(database, query.table)
    return read_page(database, drop_missing_columns(query, relation), relation)


def count_rows(database: Database, query: PageQuery, relation: Relation) -> int:
    """Return the number of all rows."""
    (number,) = _execute(database, relation, lambda sent, write: count_sql(query, sent, write)).rows[0]
    return int(number or 0)


def read_value(database: Database, page: Page, row: int, place: int) -> FullValue:
    """Read a full text value: at most 100,000 characters, or 50,000 bytes if it is not UTF-8.

    ``row`` and ``place`` are its row and column on the page, from 0. Raise ParameterError if the row no
    longer exists or has changed.
    """
    query, relation, column = page.query, page.relation, page.columns[place]
    at = replace(query, size=1, offset=query.offset + row)
    written, longest = _inside(column), 4 * FULL_LENGTH
    values = f"{preview_sql(written, text=longest, blob=longest)}, length({written}), {LETTER},\n{_sent([column])}"
    result = _execute(database, relation, lambda sent, write: _of_rows(values, rows_sql(at, sent, write), relation))
    if not result.rows:
        raise ParameterError("the row no longer exists", hint="click Refresh")
    value, characters, letter, *shown = result.rows[0]
    if row_cells([letter, *shown], [column])[0] != page.rows[row][place]:
        raise ParameterError("another row is at this position now", hint="click Refresh")
    stored = int(shown[-1] or 0)
    text, complete = decode_preview("text", value, letter, longest), stored <= longest
    return full_value(text, None if complete else stored if isinstance(text, InvalidText) else int(characters or 0))


def statement(
    database: Database, relation: Relation, write_sql: Callable[[Relation, WriteValue], str]
) -> tuple[str, Any]:
    """Return a statement and its arguments; those of filters are literals if the server may not support arguments.

    ``write_sql`` gets the relation as it is sent.
    """
    bound, sent = BoundValues(args_of(relation)), as_sent(relation)
    text = write_sql(sent, literal if database.dialect is Dialect.SEED else bound)
    return text, bound.values or None


def _execute(database: Database, relation: Relation, write_sql: Callable[[Relation, WriteValue], str]) -> Result:
    return database.execute(*statement(database, relation, write_sql))


def _of_rows(values: str, rows: str, relation: Relation) -> str:
    """Return a statement that selects ``values`` from the rows of another; `_inside` names its columns."""
    if all(_inner(column.name) == column.name for column in relation.visible):
        return f"SELECT {values}\nFROM (\n{rows}\n) AS t"
    columns = ", ".join(identifier(_inner(column.name)) for column in relation.visible)
    return f"WITH pipemagic_page({columns}) AS (\n{rows}\n)\nSELECT {values}\nFROM pipemagic_page AS t"


def _inside(column: Column) -> str:
    return f"t.{identifier(_inner(column.name))}"


def _inner(name: str) -> str:
    """Return the name of a column in the subquery, in which SQLite cannot resolve columns named true or false."""
    return f"{name} of the table" if name.upper() in ("TRUE", "FALSE") else name


def _sent(columns: Iterable[Column]) -> str:
    """Return the expressions for each column: type, value (truncated if long), and size in bytes."""
    parts = []
    for column in columns:
        value = _inside(column)
        parts.append(
            f"typeof({value}), {preview_sql(value, text=TEXT_BYTES, blob=BLOB_BYTES)}, "
            f"CASE WHEN typeof({value}) IN ('text', 'blob') THEN {byte_length(value)} END"
        )
    return ",\n".join(parts)


# -- export of all rows to a DataFrame, CSV file or Parquet file

ExportKind = Literal["variable", "csv", "excel", "parquet"]

REPORT_INTERVAL = 0.5
"""Seconds between progress reports."""


def check_target(kind: ExportKind, target: str, variables: Container[str], *, replace: bool) -> None:
    """Raise SessionError if the target is invalid, or exists and must not be replaced."""
    if kind == "variable":
        if not target.isidentifier() or keyword.iskeyword(target):
            raise SessionError(f"{target!r} is not a valid variable name")
        exists = target in variables
    else:
        if not target:
            raise SessionError("enter a file name")
        path = Path(os.path.expanduser(target))
        files.check_path(path)
        if kind == "parquet":
            arrow_polars.check_type("arrow")
        exists = path.exists()
    if exists and not replace:
        what = "variable" if kind == "variable" else "file"
        raise SessionError(f"the {what} {target} already exists", hint="tick Replace, or choose another name")


def export_rows(
    database: Database, page: Page, kind: ExportKind, target: str, report: Callable[[str], None]
) -> tuple[Any, str]:
    """Return a DataFrame, or write a file and return None; in both cases with a message."""
    sql, args = statement(database, page.relation, lambda sent, write: rows_sql(page.query, sent, write, limit=False))
    notes: list[str] = []
    frame = None
    with database.cursor(sql, args) as cursor:
        batches, cols = _report_batches(cursor, report), list(cursor.cols)
        columns = page.relation.columns
        if isinstance(page.relation, SelectedRows) and [col.name for col in cols] == [
            column.name for column in columns
        ]:
            cols = [Col(column.name, column.type) for column in columns]  # also those of DataFrames
        if kind in ("csv", "excel"):
            path, encoding = Path(os.path.expanduser(target)), "utf-8-sig" if kind == "excel" else "utf-8"
            count = files.write_csv(path, cols, batches, note=notes.append, encoding=encoding)
        else:
            rows = RowsBuilder(cols)
            for batch in batches:
                rows.add(batch)
            result = StmtResult(cols, rows.build())
            count = len(result.rows)
            if kind == "parquet":
                files.write_parquet(Path(os.path.expanduser(target)), result, note=notes.append)
            else:
                frame = to_frame(result, note=notes.append)
    rows_ = plural(count, "row")
    message = f"{target} is a DataFrame of {rows_}." if kind == "variable" else f"Wrote {rows_} to {target}."
    return frame, "\n".join([message, *notes])


def _report_batches(cursor: Cursor, report: Callable[[str], None]) -> Iterator[Sequence[Any]]:
    count, reported = 0, monotonic()
    for batch in cursor:
        count += len(batch)
        if monotonic() - reported > REPORT_INTERVAL:
            report(f"Exporting: {plural(count, 'row')} so far ...")
            reported = monotonic()
        yield batch
