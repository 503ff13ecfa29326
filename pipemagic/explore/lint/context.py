"""A statement as the rules read it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from pipemagic.explore.comparisons import Comparison, comparisons
from pipemagic.explore.query import Query, TableReference
from pipemagic.explore.schema import Relation
from pipemagic.hrana.messages import StmtResult
from pipemagic.hrana.values import SqlValue, decode
from pipemagic.sql import ParsedStatement

ROWID = ("rowid", "oid", "_rowid_")
"""Names of the rowid, which each table has."""

_ROWS = 20
"""The number of result rows that are examined."""


@dataclass(frozen=True)
class Context:
    """A statement with its queries, the values of its parameters by ``:name``, and the known tables.

    ``tables`` are by their names in lower case. ``result`` is None if it is not known. ``dates`` are the parameters
    that are sent as a date where they are compared with DATE columns alone. ``variables`` are what parameters could be
    bound to, by name.
    """

    statement: ParsedStatement
    queries: Sequence[Query]
    args: Mapping[str, SqlValue]
    tables: Mapping[str, Relation]
    result: StmtResult | None = None
    dates: Collection[str] = ()
    variables: Mapping[str, object] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of the statement."""
        return self.statement.text

    @cached_property
    def comparisons(self) -> Sequence[Comparison]:
        """Each comparison in the statement, from either side."""
        return list(comparisons(self.queries))

    @cached_property
    def finds_rows(self) -> bool | None:
        """True if the statement found rows: a row of an aggregate that is only 0 and NULL is none; None if unknown."""
        if self.result is None:
            return None
        if not self.result.cols:
            return bool(self.result.affected_row_count)
        rows = self.result.rows
        return len(rows) > 1 or (len(rows) == 1 and any(decode(value) not in (None, 0) for value in rows[0]))

    @cached_property
    def largest_number(self) -> float:
        """The largest number that the result has in other columns than those of tables, without its sign."""
        names = {name.lower() for query in self.queries for source in query.sources for name in source.names}
        computed = {(col.name or "").lower() for col in self.result.cols} - names if self.result is not None else ()
        values = (value for name in computed for value in self.values(name))
        return max((abs(value) for value in values if isinstance(value, int | float)), default=0)

    @cached_property
    def counts_seconds(self) -> bool:
        """True if the statement converts numbers to dates, which columns declared as dates can have, too."""
        text = self.text.lower()
        return "'unixepoch'" in text or "'auto'" in text

    def names_of(self, parameter: str) -> list[str]:
        """Return the name of a parameter, or those of the values of a list, which end with their numbers."""
        if parameter in self.args:
            return [parameter]
        start, end = f"{parameter}_", len(parameter)
        return [name for name in self.args if name.startswith(start) and name[end:].lstrip("_").isdecimal()]

    def values_of(self, parameter: str) -> list[SqlValue]:
        """Return the value of a parameter, or the values of a list."""
        return [self.args[name] for name in self.names_of(parameter)]

    def values(self, column: str) -> Iterator[SqlValue]:
        """Yield values that the result has under a name."""
        result = self.result or StmtResult()
        for index, col in enumerate(result.cols):
            if (col.name or "").lower() == column.lower():
                yield from (decode(row[index]) for row in result.rows[:_ROWS])

    @cached_property
    def used(self) -> frozenset[str]:
        """The names of the parameters in the statement, and the names in braces."""
        tokens = self.statement.tokens
        names = {token.text[1:] for token in tokens if token.kind == "param"}
        return frozenset(names | {token.text for before, token in pairwise(tokens) if before.text == "{"})


def is_known(source: TableReference) -> bool:
    """Return True if all columns of a source are known."""
    table = source.table
    if table is None or not source.columns or table.kind == "table function":
        return False
    return table.parsed or table.kind in ("table", "view")
