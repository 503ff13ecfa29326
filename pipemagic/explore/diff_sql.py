"""Two tables of one database compared by the server, so that only what differs travels.

Values are the same if type and value are: 1, 1.0 and '1' are three, text is compared byte by byte whatever the
column's collation, NULL is NULL. Each side is a subquery with columns of our own names, so that none can clash.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipemagic.explore.infinities import sent
from pipemagic.explore.sources import Column, Source
from pipemagic.sql import quote

WIDEST = 640
"""Columns that can be compared in one statement: the server takes 2000, and a changed row needs three for each."""

_ROWS = "_pipemagic_rows"
"""The name of what several parts of a statement read: a query that is compared would see it before a table."""


def duplicates(one: Source, names: Sequence[str]) -> str:
    """Give the statement that counts the keys that are there more than once."""
    key = ", ".join(f"+t.{quote(name)} COLLATE BINARY" for name in names)
    return f"SELECT count(*) FROM (SELECT 1 FROM {one.rows} AS t GROUP BY {key} HAVING count(*) > 1)"


def total(one: Source) -> str:
    """Give the statement that counts the rows."""
    return f"SELECT count(*) FROM {one.rows} AS t"


class ByKey:
    """The statements of a comparison by key."""

    def __init__(self, a: Source, b: Source, key: Sequence[Column], rest: Sequence[Column]) -> None:
        self._key, self._rest = key, rest
        by_primary = tuple(column.a for column in key) == a.primary_key and a.indexed and b.indexed
        raw = by_primary and all(column.alike for column in key)
        self._a = self._side(a, [column.a for column in key], [column.a for column in rest], raw=raw) + " AS a"
        self._b = self._side(b, [column.b for column in key], [column.b for column in rest], raw=raw) + " AS b"

    def _side(self, one: Source, key: Sequence[str], rest: Sequence[str], *, raw: bool) -> str:
        """Give the rows with our names. Unless their own index will do, SQLite is made to build one for the comparison.

        That is what LIMIT is for: without it the subquery becomes a part of the statement, which, where a value has to
        be converted or the index has another collation, would walk through one table for each row of the other.
        """
        plus, apart = ("", "") if raw else ("+", " LIMIT -1")
        keys = [f"{plus}t.{quote(name)} AS k{place}" for place, name in enumerate(key)]
        others = [f"+t.{quote(name)} AS c{place}" for place, name in enumerate(rest)]
        return f"(SELECT 1 AS here, {', '.join([*keys, *others])} FROM {one.rows} AS t{apart})"

    def _match(self, one: str, other: str) -> str:
        return " AND ".join(f"{one}.k{place} IS {other}.k{place} COLLATE BINARY" for place in range(len(self._key)))

    def only(self, side: str, limit: int | None = None) -> str:
        """Give the statement for the rows of one side ('a' or 'b') whose key the other does not have."""
        other = "b" if side == "a" else "a"
        own, others = (self._a, self._b) if side == "a" else (self._b, self._a)
        columns = [
            *(f"k{place}" for place in range(len(self._key))),
            *(f"c{place}" for place in range(len(self._rest))),
        ]
        shown = "count(*)" if limit is None else sent([f"{side}.{name}" for name in columns])
        return (
            f"SELECT {shown} FROM {own} LEFT JOIN {others} ON {self._match(other, side)} "
            f"WHERE {other}.here IS NULL{_first(side, len(self._key), limit)}"
        )

    def changed(self, limit: int | None = None) -> str:
        """Give the statement for the rows that both have by their key, and that differ.

        It counts them and, for each column, how many differ there; or tells for each column whether it differs, and
        gives both keys (1 and 1.0 match), both values of each column, and the signs of infinities.
        """
        differs = [_differs(f"a.c{place}", f"b.c{place}") for place in range(len(self._rest))]
        keys = [_differs(f"a.k{place}", f"b.k{place}") for place in range(len(self._key))]
        if limit is None:
            shown = ["count(*)", *(f"sum({one})" for one in differs)]
        else:
            cells = [f"{side}.k{place}" for side in ("a", "b") for place in range(len(self._key))]
            cells += [f"{side}.c{place}" for place in range(len(self._rest)) for side in ("a", "b")]
            shown = [*differs, sent(cells)]
        return (
            f"SELECT {', '.join(shown)} FROM {self._a} JOIN {self._b} ON {self._match('b', 'a')} "
            f"WHERE {_any([*differs, *keys])}{_first('a', len(self._key), limit)}"
        )


def by_row(a: Source, b: Source, columns: Sequence[Column], limit: int) -> str:
    """Give the statement of a comparison without a key: how often each row is there, more often in A or in B.

    Its first row holds how many rows are only in A and only in B; then come the first rows of each, with how often
    (less than zero: in B) before and the signs of infinities behind.
    """
    cells = [f"c{place}" for place in range(len(columns))]
    left = ", ".join(f"+t.{quote(column.a)} AS {cell}" for column, cell in zip(columns, cells, strict=True))
    right = ", ".join(f"+t.{quote(column.b)}" for column in columns)
    group = ", ".join(f"typeof({cell}), {cell} COLLATE BINARY" for cell in cells)
    listed, shown, nothing = ", ".join(cells), sent(cells), ", NULL" * len(cells)
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


def _differs(one: str, other: str) -> str:
    return f"(typeof({one}) <> typeof({other}) OR +{one} IS NOT +{other} COLLATE BINARY)"


def _any(conditions: Sequence[str]) -> str:
    """Join by OR as a balanced tree: SQLite takes expressions 1000 deep."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_any(conditions[:middle])} OR {_any(conditions[middle:])})"


def _first(side: str, keys: int, limit: int | None) -> str:
    if limit is None:
        return ""
    return " ORDER BY " + ", ".join(f"{side}.k{place} COLLATE BINARY" for place in range(keys)) + f" LIMIT {limit}"
