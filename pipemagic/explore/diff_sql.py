"""The inputs of a comparison, and the comparison of two inputs of one database by the server.

Two values are equal if type and value are: 1, 1.0 and '1' are three values, text is compared byte by byte regardless of
the column's collation, NULL equals NULL. Each side is a subquery with column names of our own, which cannot clash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipemagic import sql
from pipemagic.errors import ParameterError, UnknownName
from pipemagic.explore.conditions import args_of, check_balance
from pipemagic.explore.diff_result import Row
from pipemagic.explore.previews import LETTER
from pipemagic.explore.round_trip import run_queries
from pipemagic.explore.schema import Relation
from pipemagic.explore.schema_reader import read_relation
from pipemagic.frames.columns import InvalidText
from pipemagic.hrana.values import SqlValue, Text, Value, decode
from pipemagic.sql import dates, folded, quote
from pipemagic.sql.type_affinity import affinity, is_date, is_day_type
from pipemagic.suggestions import did_you_mean
from pipemagic.text import escape_controls, shorten

if TYPE_CHECKING:
    from pipemagic.client.database import Database, Statement

# -- tables, views and queries with their columns, and the columns to compare


@dataclass(frozen=True)
class DiffInput:
    """A table, view or query: ``rows`` is its SQL in FROM, ``columns`` are names and declared types.

    ``indexed`` is True if the primary key is compared byte by byte, so that the comparison can use its index. ``args``
    are the values of the parameters of a query.
    """

    name: str
    rows: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...] = ()
    indexed: bool = False
    args: Mapping[str, SqlValue] = field(default_factory=dict)

    def column(self, name: str) -> str:
        """Return the name of a column as declared. Raise UnknownName with the nearest name."""
        for own, _ in self.columns:
            if folded(own) == folded(name):
                return own
        own_names = [own for own, _ in self.columns]
        raise UnknownName(f"{self.name} has no column {name!r}", hint=did_you_mean(name, own_names))


@dataclass(frozen=True)
class ColumnPair:
    """A column of both sources: its names and declared types."""

    a: str
    b: str
    types: tuple[str, str]

    @property
    def has_days_and_moments(self) -> bool:
        """True if one side is declared DATE, and the other one DATETIME or TIMESTAMP."""
        first, second = map(is_day_type, self.types)
        return first != second and all(map(is_date, self.types))

    @property
    def same_affinity(self) -> bool:
        """True if values compare without conversion."""
        return affinity(self.types[0]) == affinity(self.types[1])


def read_input(database: Database, text: str, params: Mapping[str, SqlValue] | None = None) -> DiffInput:
    """Read the columns of a table, view or SELECT. Raise UnknownName if the table does not exist.

    ``params`` has the values of the parameters of a SELECT. Raise ParameterError for a parameter without a value, or
    for several statements.
    """
    if not is_query(text):
        relation = read_relation(database, text)
        if relation.broken:
            relation.column("")  # raises the reason
        columns = tuple((column.name, column.type) for column in relation.visible)
        rows, indexed = f"main.{sql.quote(relation.name)}", relation.kind == "table" and _is_binary(relation)
        return DiffInput(relation.name, rows, columns, relation.primary_key, indexed)
    statements = sql.split(text)
    if len(statements) != 1:
        raise ParameterError("diff takes one SELECT, not several statements")
    check_balance(statements[0].text, "SELECT")
    rows = f"({statements[0].text}\n)"
    args = args_of(statements[0].text, params or {})
    cols = database.execute(f"SELECT * FROM {rows} LIMIT 0", args or None).wire.cols
    names = [col.name or "" for col in cols]
    shown = [sql.without_comments(name, rows) for name in names]
    columns = tuple((name, col.decltype or "") for name, col in zip(shown, cols, strict=True))
    if shown != names:
        rows = _renamed(rows, names, shown)
    return DiffInput(shorten(escape_controls(" ".join(text.split())), 40), rows, columns, args=args)


def _renamed(rows: str, names: Sequence[str], new: Sequence[str]) -> str:
    listed = (f"t.{sql.quote(name)} AS {sql.quote(shown)}" for name, shown in zip(names, new, strict=True))
    return f"(SELECT {', '.join(listed)} FROM {rows} AS t)"


def with_days(source: DiffInput, columns: Sequence[str]) -> DiffInput:
    """Return a source in which the moments at midnight of some columns are days, as in DATE columns."""
    if not columns:
        return source
    values = [(f"t.{sql.quote(name)}", name) for name, _ in source.columns]
    listed = ", ".join(
        f"{dates.midnights_as_days(value) if name in columns else value} AS {sql.quote(name)}" for value, name in values
    )
    return replace(source, rows=f"(SELECT {listed} FROM {source.rows} AS t)", indexed=False)


def _is_binary(relation: Relation) -> bool:
    """Return True if the primary key is compared byte by byte. A rowid has no index."""
    of_key = [index for index in relation.indexes if index.origin == "primary key"]
    return all(column.collation == "BINARY" for index in of_key for column in index.columns)


def is_query(text: str) -> bool:
    """Return True if the text is a query, not the name of a table."""
    return sql.parse(text).keyword in ("SELECT", "WITH", "VALUES") and len(text.split()) >= 2


def common_columns(a: DiffInput, b: DiffInput) -> list[ColumnPair]:
    """Return the columns of both sources, in the order of the first."""
    of_b = {folded(name): (name, type_) for name, type_ in b.columns}
    return [
        ColumnPair(name, of_b[folded(name)][0], (type_, of_b[folded(name)][1]))
        for name, type_ in a.columns
        if folded(name) in of_b
    ]


def key_columns(
    a: DiffInput, b: DiffInput, columns: Sequence[ColumnPair], key: Sequence[str] | None
) -> tuple[ColumnPair, ...]:
    """Return the columns of the key: by default the primary key if both have the same one, otherwise none."""
    if key is None:
        key = a.primary_key if list(map(folded, a.primary_key)) == list(map(folded, b.primary_key)) else ()
    by_name = {column.a: column for column in columns}
    names = [a.column(name) for name in key]
    for name in key:
        b.column(name)  # raises UnknownName
    return tuple(dict.fromkeys(by_name[name] for name in names))


# -- the comparison in one database, which sends only differences

WIDEST = 640
"""Maximum number of columns: a statement can return 2000, and a changed row needs three for each."""

_ROWS = "_pipemagic_rows"
"""The name of a common table expression, which hides tables of the same name from a compared query."""


@dataclass
class Differences:
    """The counts of differences, and the first rows of each kind.

    ``total`` is the number of rows of A, ``by_column`` counts the changes by the index of the column. ``rows_a`` and
    ``rows_b`` are rows of one side with their number of occurrences, ``changes`` the rows of A and B with the same key.
    """

    total: int = 0
    only_a: int = 0
    only_b: int = 0
    changed: int = 0
    by_column: dict[int, int] = field(default_factory=dict)
    rows_a: list[tuple[int, Row]] = field(default_factory=list)
    rows_b: list[tuple[int, Row]] = field(default_factory=list)
    changes: list[tuple[Row, Row]] = field(default_factory=list)


def compare_in_database(
    a: DiffInput, b: DiffInput, database: Database, key: Sequence[ColumnPair], rest: Sequence[ColumnPair], limit: int
) -> tuple[Differences, bool | None]:
    """Compare by key, or all columns without one. Return also whether the database changed meanwhile.

    Raise ParameterError if the key is not unique.
    """
    return _compare_keys(a, b, database, key, rest, limit) if key else _compare_rows(a, b, database, rest, limit)


def _compare_rows(
    a: DiffInput, b: DiffInput, database: Database, columns: Sequence[ColumnPair], limit: int
) -> tuple[Differences, bool | None]:
    statements = [_count(a), _rows_sql(a, b, columns, limit)]
    (total, result), inconsistent, _ = run_queries(database, _with_args(statements, a, b))
    (only_a, only_b, *_), *rows = result.wire.rows
    groups = [(_integer(decode(row[0])), decode_row(row[1:])) for row in rows]
    differences = Differences(_integer(total.rows[0][0]), _integer(decode(only_a)), _integer(decode(only_b)))
    differences.rows_a = [(times, cells) for times, cells in groups if times > 0]
    differences.rows_b = [(-times, cells) for times, cells in groups if times < 0]
    return differences, inconsistent


def _compare_keys(
    a: DiffInput, b: DiffInput, database: Database, key: Sequence[ColumnPair], rest: Sequence[ColumnPair], limit: int
) -> tuple[Differences, bool | None]:
    def statements(by: _ByKey) -> list[Statement]:
        texts = [
            _duplicates(a, [column.a for column in key]), _duplicates(b, [column.b for column in key]), _count(a),
            by.only("a"), by.only("b"), by.changed(), by.only("a", limit), by.only("b", limit), by.changed(limit),
        ]  # fmt: skip
        return _with_args(texts, a, b)

    results, inconsistent, _ = run_queries(
        database, statements(_ByKey(a, b, key, rest)), without=lambda: statements(_ByKey(a, b, key, rest, equal=True))
    )
    duplicates_a, duplicates_b, total, only_a, only_b, changed = (result.rows[0] for result in results[:6])
    rows_a, rows_b, changes = (result.wire.rows for result in results[6:])
    if duplicates_a[0] or duplicates_b[0]:
        raise not_unique([column.a for column in key])
    count, *by_column = map(_integer, changed)
    differences = Differences(
        _integer(total[0]), _integer(only_a[0]), _integer(only_b[0]), count,
        {len(key) + at: number for at, number in enumerate(by_column) if number},
        [(1, decode_row(row)) for row in rows_a], [(1, decode_row(row)) for row in rows_b],
        [_changed_rows(row[: len(rest)], decode_row(row[len(rest) :]), len(key)) for row in changes],
    )  # fmt: skip
    return differences, inconsistent


def _with_args(statements: Sequence[str], a: DiffInput, b: DiffInput) -> list[Statement]:
    """Return statements, each with the values of its parameters."""
    args = {**a.args, **b.args}
    return [(statement, args_of(statement, args) or None) if args else statement for statement in statements]


def _changed_rows(flags: Sequence[Value], cells: Row, keys: int) -> tuple[Row, Row]:
    """Return a changed row of both sides. Where their values are equal, both have the value of A."""
    key_a, key_b, rest = cells[:keys], cells[keys : 2 * keys], cells[2 * keys :]
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    values_b = (b if decode(flag) else a for flag, (a, b) in zip(flags, pairs, strict=True))
    return (*key_a, *(a for a, _ in pairs)), (*key_b, *values_b)


def _integer(number: SqlValue) -> int:
    return int(number or 0)


def not_unique(key: Sequence[str]) -> ParameterError:
    """Return the error for a key of several rows."""
    return ParameterError(
        f"{', '.join(key)} is not a unique key: several rows have the same value",
        hint="add columns to --key, or omit it to compare whole rows",
    )


def typed(value: SqlValue) -> tuple[str, SqlValue]:
    """Return a value with its type, so that 1, 1.0 and '1' differ."""
    return type(value).__name__, value


def sent_cells(cells: Sequence[str]) -> str:
    """Return the expressions that send the cells of a row, and a text with a letter for each.

    JSON has no infinities: some servers send null or invalid JSON for them. So NULL is sent in their place, and the
    letter is their sign. Texts of databases in UTF-8, which may be invalid, are sent as bytes, and the letter is t.
    """
    is_text = f"typeof({{0}}) = 'text' AND {LETTER} = x'61'"
    sent = (
        f"CASE WHEN typeof({cell}) = 'real' AND abs({cell}) = 9e999 THEN NULL "
        f"WHEN {is_text.format(cell)} THEN CAST({cell} AS BLOB) ELSE {cell} END"
        for cell in cells
    )
    # The type comes first, because in a text column 'Inf' = 9e999.
    letters = [
        f"CASE WHEN {is_text.format(cell)} THEN 't' WHEN typeof({cell}) <> 'real' THEN '.' "
        f"WHEN {cell} = 9e999 THEN '+' WHEN {cell} = -9e999 THEN '-' ELSE '.' END"
        for cell in cells
    ]
    return ", ".join([*sent, _join(letters, "||")])


def decode_row(row: Sequence[Value]) -> Row:
    """Return the values of a row sent by `sent_cells`."""
    *cells, last = row
    letters = last.value if isinstance(last, Text) else ""
    return tuple(_decode_cell(decode(cell), letter) for cell, letter in zip(cells, letters, strict=True))


def _decode_cell(value: SqlValue, letter: str) -> SqlValue:
    if letter in "+-":
        return float(f"{letter}inf")
    if letter != "t" or not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return InvalidText(value)


def _duplicates(source: DiffInput, names: Sequence[str]) -> str:
    """Return the statement that counts the duplicate keys."""
    key = ", ".join(f"+t.{quote(name)} COLLATE BINARY" for name in names)
    return f"SELECT count(*) FROM (SELECT 1 FROM {source.rows} AS t GROUP BY {key} HAVING count(*) > 1)"


def _count(source: DiffInput) -> str:
    """Return the statement that counts the rows."""
    return f"SELECT count(*) FROM {source.rows} AS t"


class _ByKey:
    """The statements of a comparison by key.

    With ``equal`` they also compare keys by =, for an engine that builds an index for = but not for IS.
    """

    def __init__(
        self, a: DiffInput, b: DiffInput, key: Sequence[ColumnPair], rest: Sequence[ColumnPair], *, equal: bool = False
    ) -> None:
        self._key, self._rest, self._equal = key, rest, equal
        by_primary = not equal and tuple(column.a for column in key) == a.primary_key and a.indexed and b.indexed
        raw = by_primary and all(column.same_affinity for column in key)
        self._a = self._side(a, [column.a for column in key], [column.a for column in rest], raw=raw) + " AS a"
        self._b = self._side(b, [column.b for column in key], [column.b for column in rest], raw=raw) + " AS b"

    def _side(self, source: DiffInput, key: Sequence[str], rest: Sequence[str], *, raw: bool) -> str:
        """Return the subquery of one side. Unless its own index can be used, make SQLite build one for the comparison.

        LIMIT prevents SQLite from merging the subquery into the statement. If a value had to be converted or the index
        had another collation, it would then scan one table for each row of the other.
        """
        plus, apart = ("", "") if raw else ("+", " LIMIT -1")
        keys = [f"{plus}t.{quote(name)} AS k{at}" for at, name in enumerate(key)]
        others = [f"+t.{quote(name)} AS c{at}" for at, name in enumerate(rest)]
        others += [f"ifnull(+t.{quote(name)}, '') AS e{at}" for at, name in enumerate(key) if self._equal]
        return f"(SELECT 1 AS here, {', '.join([*keys, *others])} FROM {source.rows} AS t{apart})"

    def _match(self, a: str, b: str) -> str:
        numbers = range(len(self._key))
        equal = [f"{a}.e{at} = {b}.e{at}" for at in numbers if self._equal]
        return " AND ".join([*equal, *(f"{a}.k{at} IS {b}.k{at} COLLATE BINARY" for at in numbers)])

    def only(self, side: str, limit: int | None = None) -> str:
        """Return the statement for the rows of one side ('a' or 'b') with keys that the other side lacks."""
        other = "b" if side == "a" else "a"
        own, others = (self._a, self._b) if side == "a" else (self._b, self._a)
        cells = [f"{side}.k{at}" for at in range(len(self._key))] + [f"{side}.c{at}" for at in range(len(self._rest))]
        shown = "count(*)" if limit is None else sent_cells(cells)
        return (
            f"SELECT {shown} FROM {own} LEFT JOIN {others} ON {self._match(other, side)} "
            f"WHERE {other}.here IS NULL{_first(side, len(self._key), limit)}"
        )

    def changed(self, limit: int | None = None) -> str:
        """Return the statement for the rows with the same key that differ.

        Without ``limit`` it counts them, and the differences in each column. With ``limit`` it returns for each column
        whether it differs, both keys (1 and 1.0 match), both values of each column, and the signs of infinities.
        """
        differs = [_differs(f"a.c{at}", f"b.c{at}") for at in range(len(self._rest))]
        keys = [_differs(f"a.k{at}", f"b.k{at}") for at in range(len(self._key))]
        if limit is None:
            shown = ["count(*)", *(f"sum({condition})" for condition in differs)]
        else:
            cells = [f"{side}.k{at}" for side in ("a", "b") for at in range(len(self._key))]
            cells += [f"{side}.c{at}" for at in range(len(self._rest)) for side in ("a", "b")]
            shown = [*differs, sent_cells(cells)]
        return (
            f"SELECT {', '.join(shown)} FROM {self._a} JOIN {self._b} ON {self._match('b', 'a')} "
            f"WHERE {_join([*differs, *keys], 'OR')}{_first('a', len(self._key), limit)}"
        )


def _rows_sql(a: DiffInput, b: DiffInput, columns: Sequence[ColumnPair], limit: int) -> str:
    """Return the statement of a comparison without a key, which counts the occurrences of each row.

    Its first row has the numbers of rows only in A and only in B. The first rows of each follow, after the number of
    occurrences (negative for B) and before the signs of infinities.
    """
    cells = [f"c{at}" for at in range(len(columns))]
    left = ", ".join(f"+t.{quote(column.a)} AS {cell}" for column, cell in zip(columns, cells, strict=True))
    right = ", ".join(f"+t.{quote(column.b)}" for column in columns)
    group = ", ".join(f"typeof({cell}), {cell} COLLATE BINARY" for cell in cells)
    listed, shown, nothing = ", ".join(cells), sent_cells(cells), ", NULL" * len(cells)
    return f"""
        WITH {_ROWS} AS MATERIALIZED (
            SELECT sum(side) AS times, {listed} FROM (
                SELECT 1 AS side, {left} FROM {a.rows} AS t UNION ALL SELECT -1, {right} FROM {b.rows} AS t
            ) GROUP BY {group} HAVING sum(side) <> 0
        )
        SELECT ifnull(sum(max(times, 0)), 0), ifnull(sum(max(-times, 0)), 0){nothing} FROM {_ROWS}
        UNION ALL SELECT * FROM (SELECT times, {shown} FROM {_ROWS} WHERE times > 0 LIMIT {limit})
        UNION ALL SELECT * FROM (SELECT times, {shown} FROM {_ROWS} WHERE times < 0 LIMIT {limit})
    """


def _differs(a: str, b: str) -> str:
    return f"(typeof({a}) <> typeof({b}) OR +{a} IS NOT +{b} COLLATE BINARY)"


def _join(parts: Sequence[str], operator: str) -> str:
    """Join expressions as a balanced tree, because SQLite limits the depth of expressions to 1000."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return f"({_join(parts[:middle], operator)} {operator} {_join(parts[middle:], operator)})"


def _first(side: str, keys: int, limit: int | None) -> str:
    if limit is None:
        return ""
    return " ORDER BY " + ", ".join(f"{side}.k{at} COLLATE BINARY" for at in range(keys)) + f" LIMIT {limit}"
