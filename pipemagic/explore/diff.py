"""What differs between two tables, views or queries: columns, types, and rows.

In one database the server compares, and only what differs travels. Between two, both send their rows in the same
order (see `pipemagic.explore.diff_streams`). Values are the same only if their types are, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pipemagic.errors import UnsupportedError
from pipemagic.explore import diff_sql, diff_streams
from pipemagic.explore.asking import ask
from pipemagic.explore.conditions import used
from pipemagic.explore.diff_streams import Found, Row, not_unique
from pipemagic.explore.infinities import decoded
from pipemagic.explore.sources import Column, Source, keyed, shared, source
from pipemagic.hrana.values import SqlValue, Value, decode

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database, Statement


@dataclass(frozen=True)
class Change:
    """A value that differs: of which row by its key, in which column."""

    key: Row
    column: str
    a: SqlValue
    b: SqlValue


@dataclass(frozen=True)
class Diff:
    """What differs between ``a`` and ``b``. The numbers are of all rows, the rows are the first ones.

    ``key`` are the columns that rows were matched by; without one whole rows are compared, also how often each is
    there. ``columns_a`` and ``columns_b`` are only in one of them, ``retyped`` are declared with other types.
    """

    a: str
    b: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    columns_a: tuple[str, ...]
    columns_b: tuple[str, ...]
    retyped: tuple[tuple[str, str, str], ...]
    same_rows: int
    only_a_count: int
    only_b_count: int
    changed_count: int
    changed_columns: dict[str, int]
    moved: bool = False
    rows_a: tuple[tuple[int, Row], ...] = field(default=(), repr=False)
    rows_b: tuple[tuple[int, Row], ...] = field(default=(), repr=False)
    changes: tuple[Change, ...] = field(default=(), repr=False)

    @property
    def same(self) -> bool:
        """Whether nothing differs, neither columns nor types nor rows."""
        return self.rows_same and not (self.columns_a or self.columns_b or self.retyped)

    @property
    def rows_same(self) -> bool:
        """Whether no row differs in the columns that both have."""
        return not (self.only_a_count or self.only_b_count or self.changed_count)

    @cached_property
    def only_a(self) -> DataFrame:
        """The first rows that are only in A; without a key with a column ``times``."""
        return self._frame(self.rows_a)

    @cached_property
    def only_b(self) -> DataFrame:
        """The first rows that are only in B; without a key with a column ``times``."""
        return self._frame(self.rows_b)

    @cached_property
    def changed(self) -> DataFrame:
        """The values of the first rows that differ: key, column, value in A, value in B."""
        from pandas import DataFrame

        rows = [(*one.key, one.column, one.a, one.b) for one in self.changes]
        return DataFrame(rows, columns=[*self.key, "column", "a", "b"], dtype=object)

    def _frame(self, rows: Sequence[tuple[int, Row]]) -> DataFrame:
        from pandas import DataFrame

        cells = [row if self.key else (*row, times) for times, row in rows]
        return DataFrame(cells, columns=[*self.columns, *([] if self.key else ["times"])], dtype=object)

    def __repr__(self) -> str:
        from pipemagic.explore.diff_view import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from pipemagic.explore.diff_view import as_html

        return as_html(self)


def diff(
    database: Database,
    a: str,
    b: str | None = None,
    *,
    other: Database | None = None,
    key: Sequence[str] | None = None,
    limit: int = 10,
    places: tuple[str, str] = ("A", "B"),
    params: Mapping[str, SqlValue] | None = None,
) -> Diff:
    """Compare ``a`` of one database with ``b`` of the same or an ``other`` one; without ``b`` with its namesake there.

    Both are tables, views or SELECTs. Rows are matched by ``key``, by default by the primary key if both have the same
    one, else whole rows are compared. ``limit`` is how many rows of each kind to give. ``places`` tell the two apart
    where they have one name. ``params`` has the values of the parameters of SELECTs. UnknownName for a wrong name,
    ParameterError for a key that several rows have.
    """
    sides = source(database, a, params), source(other or database, a if b is None else b, params)
    columns = shared(*sides)
    if not columns or len(columns) > diff_sql.WIDEST:
        raise UnsupportedError(
            f"{sides[0].name} and {sides[1].name} have {len(columns)} columns in common; "
            f"at least 1 and at most {diff_sql.WIDEST} can be compared"
        )
    by = keyed(*sides, columns, key)
    rest = [column for column in columns if column not in by]
    moved = False
    if other is not None and other is not database:
        found = diff_streams.compare(*sides, (database, other), by, rest, limit)
    else:
        found, moved = _by_key(database, *sides, by, rest, limit) if by else _by_row(database, *sides, rest, limit)
    if sides[0].name == sides[1].name:
        one, two = (replace(side, name=f"{side.name} on {place}") for side, place in zip(sides, places, strict=True))
        sides = one, two
    return _put_together(sides, columns, by, rest, found, moved)


def _bound(statements: Sequence[str], a: Source, b: Source) -> list[Statement]:
    """Return statements with the values of the parameters that each of them has."""
    params = {**a.args, **b.args}
    return [(statement, used(statement, params) or None) if params else statement for statement in statements]


def _by_row(database: Database, a: Source, b: Source, columns: Sequence[Column], limit: int) -> tuple[Found, bool]:
    (total, result), moved = ask(database, _bound([diff_sql.total(a), diff_sql.by_row(a, b, columns, limit)], a, b))
    only_a, only_b, *_ = map(decode, result.wire.rows[0])
    listed = [(_whole(decode(row[0])), decoded(row[1:])) for row in result.wire.rows[1:]]
    return Found(
        _whole(total.rows[0][0]), _whole(only_a), _whole(only_b),
        rows_a=[(times, cells) for times, cells in listed if times > 0],
        rows_b=[(-times, cells) for times, cells in listed if times < 0],
    ), moved  # fmt: skip


def _by_key(
    database: Database, a: Source, b: Source, key: Sequence[Column], rest: Sequence[Column], limit: int
) -> tuple[Found, bool]:
    by = diff_sql.ByKey(a, b, key, rest)
    statements = [
        diff_sql.total(a), diff_sql.duplicates(a, [column.a for column in key]),
        diff_sql.duplicates(b, [column.b for column in key]), by.only("a"), by.only("a", limit), by.only("b"),
        by.only("b", limit), by.changed(), by.changed(limit),
    ]  # fmt: skip
    results, moved = ask(database, _bound(statements, a, b))
    total, twice_a, twice_b, only_a, rows_a, only_b, rows_b, changed, pairs = results
    if twice_a.rows[0][0] or twice_b.rows[0][0]:
        raise not_unique([column.a for column in key])
    count, *by_column = map(_whole, changed.rows[0])
    return Found(
        _whole(total.rows[0][0]), _whole(only_a.rows[0][0]), _whole(only_b.rows[0][0]), count,
        {len(key) + place: number for place, number in enumerate(by_column) if number},
        [(1, row) for row in map(decoded, rows_a.wire.rows)], [(1, row) for row in map(decoded, rows_b.wire.rows)],
        [_pair(row[: len(rest)], decoded(row[len(rest) :]), len(key)) for row in pairs.wire.rows],
    ), moved  # fmt: skip


def _pair(flags: Sequence[Value], cells: Row, keys: int) -> tuple[Row, Row]:
    """Give a changed row of both sides; where it does not differ, the first side's value stands for both."""
    one, other, rest = cells[:keys], cells[keys : 2 * keys], cells[2 * keys :]
    triples = list(zip(map(decode, flags), rest[::2], rest[1::2], strict=True))
    return (*one, *(a for _, a, _ in triples)), (*other, *(b if differs else a for differs, a, b in triples))


def _whole(number: SqlValue) -> int:
    return int(number or 0)


def _put_together(
    sides: tuple[Source, Source], columns: Sequence[Column], by: Sequence[Column], rest: Sequence[Column],
    found: Found, moved: bool,
) -> Diff:  # fmt: skip
    a, b = sides
    names = tuple(column.a for column in [*by, *rest])
    both = {column.a for column in columns}, {column.b for column in columns}
    changes = [
        Change(one[: len(by)], names[place], one[place], other[place])
        for one, other in found.pairs
        for place in range(len(names))
        if diff_streams.exact(one[place]) != diff_streams.exact(other[place])
    ]
    return Diff(
        a.name, b.name, tuple(column.a for column in by), names,
        tuple(name for name, _ in a.columns if name not in both[0]),
        tuple(name for name, _ in b.columns if name not in both[1]),
        tuple((column.a, *column.types) for column in columns if column.types[0].upper() != column.types[1].upper()),
        found.total - found.only_a - found.changed, found.only_a, found.only_b, found.changed,
        {names[place]: number for place, number in sorted(found.by_column.items())}, moved,
        tuple(found.rows_a), tuple(found.rows_b), tuple(changes),
    )  # fmt: skip
