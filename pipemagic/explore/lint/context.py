"""A statement as the rules read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipemagic.explore.query import Query, Source
from pipemagic.explore.schema import Relation
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import ParsedStatement

ROWID = ("rowid", "oid", "_rowid_")
"""Names of the rowid, which each table has."""


@dataclass(frozen=True)
class Context:
    """A statement with its queries, the values of its parameters by ``:name``, and the known tables.

    ``tables`` are by their names in lower case.
    """

    statement: ParsedStatement
    queries: Sequence[Query]
    args: Mapping[str, SqlValue]
    tables: Mapping[str, Relation]

    @property
    def text(self) -> str:
        """The text of the statement."""
        return self.statement.text


def is_known(source: Source) -> bool:
    """Return True if all columns of a source are known."""
    table = source.table
    if table is None or not source.columns or table.kind == "table function":
        return False
    return table.parsed or table.kind in ("table", "view")
