"""The SQL that makes a table, or all of a database's schema, as text to read or run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipemagic.explore.schema import Relation, read_relation, read_schema

if TYPE_CHECKING:
    from pipemagic.client.database import Database


@dataclass(frozen=True)
class Script:
    """SQL text that shows as it is; ``str()`` gives it."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text or "-- there are no tables and views"


def script(database: Database, table: str | None = None) -> Script:
    """Give the CREATE statements of a table or view with its indexes and triggers, or of everything.

    Run on an empty database they make the same schema: tables come before views. UnknownName if there is no such table.
    """
    if table is not None:
        return Script("\n".join(statements(read_relation(database, table))))
    # What serves a virtual table is made with it.
    relations = [relation for relation in read_schema(database).relations if relation.kind != "shadow"]
    ordered = sorted(relations, key=lambda one: one.kind == "view")
    return Script("\n\n".join("\n".join(statements(relation)) for relation in ordered))


def statements(relation: Relation) -> Iterator[str]:
    """Yield each statement with its semicolon; what SQLite makes by itself for a key has none."""
    beside = [*(index.sql for index in relation.indexes), *(trigger.sql for trigger in relation.triggers)]
    for sql in (relation.sql, *beside):
        if sql:
            yield f"{sql};"
