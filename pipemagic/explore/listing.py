"""Lists of tables and of columns as DataFrames, and the CREATE statements of a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pipemagic.client.batch_runner import result_of
from pipemagic.explore.ddl import create_statements
from pipemagic.explore.schema import Column, ForeignKey, Relation, same
from pipemagic.explore.schema_reader import LISTED, read_relation, read_schema
from pipemagic.hrana.messages import Close, ErrorEntry, Execute, Stmt
from pipemagic.hrana.values import decode
from pipemagic.sql import folded, quote
from pipemagic.text import escape_controls

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database

_NAMES = f"SELECT l.name, l.type FROM temp.pragma_table_list AS l WHERE {LISTED} AND l.type <> 'shadow'"


def tables(database: Database, pattern: str = "", *, rows: bool = False) -> DataFrame:
    """Return the tables and views as a DataFrame (table, type), sorted by name.

    ``pattern`` is a part of the name, or with ``*`` and ``?`` a pattern for the whole name; case is ignored. ``rows``
    adds the number of rows, for which the server reads all of them; it is NA for a view that cannot be read.
    """
    from pandas import DataFrame, array

    names = sorted(database.execute(_NAMES).rows, key=lambda row: folded(str(row[0])))
    matches = [(str(name), kind) for name, kind in names if _fits(str(name), pattern)]
    frame = DataFrame(matches, columns=["table", "type"])
    if rows:
        frame["rows"] = array(_counts(database, [name for name, _ in matches]), dtype="Int64")
    return frame


def _fits(name: str, pattern: str) -> bool:
    if not any(char in pattern for char in "*?"):
        return folded(pattern) in folded(name)
    return fnmatchcase(folded(name), folded(pattern).replace("[", "[[]"))


def _counts(database: Database, names: Sequence[str]) -> list[int | None]:
    """Count the rows in one round trip, with a statement for each table: a broken view does not affect the others."""
    requests = [Execute(Stmt(f"SELECT count(*) FROM {quote(name)}")) for name in names]
    if not requests:
        return []
    with database.open_stream() as stream:
        entries = stream.send([*requests, Close()])[:-1]
    counted = [None if isinstance(entry, ErrorEntry) else decode(result_of(entry).rows[0][0]) for entry in entries]
    return [None if count is None else int(count) for count in counted]


def columns(database: Database, table: str) -> DataFrame:
    """Return the columns of a table or view as a DataFrame. Raise UnknownName if it does not exist.

    The columns ``generated`` and ``references`` are left out if they would be empty.
    """
    relation = read_relation(database, table)
    if relation.broken:
        relation.column("")  # raises the error
    return frame_of(relation)


def frame_of(relation: Relation) -> DataFrame:
    """Return the columns of a table or view as a DataFrame."""
    from pandas import DataFrame

    frame = DataFrame(
        [_row(relation, column) for column in relation.visible],
        columns=["column", "type", "nullable", "default", "primary key", "generated", "references"],
    )
    empty = [name for name in ("generated", "references") if not frame[name].astype(bool).any()]
    return frame.drop(columns=empty)


def _row(relation: Relation, column: Column) -> tuple[object, ...]:
    references = ", ".join(_target(key, column.name) for key in relation.foreign_keys if _has(key, column.name))
    return (
        column.name, column.type, column.nullable, column.default, bool(column.key), column.generated, references,
    )  # fmt: skip


def _has(key: ForeignKey, column: str) -> bool:
    return any(same(name, column) for name in key.columns)


def _target(key: ForeignKey, column: str) -> str:
    """Return the column that a column of a foreign key refers to, ``city.id``, or only the table."""
    named = {folded(own): other for own, other in zip(key.columns, key.references, strict=False)}
    other = named.get(folded(column))
    return key.table if other is None else f"{key.table}.{other}"


@dataclass(frozen=True)
class Script:
    """SQL text, displayed without quotes."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return escape_controls(self.text, keep="\n\t") or "-- there are no tables and views"


def ddl(database: Database, table: str | None = None) -> Script:
    """Return the CREATE statements of a table or view with its indexes and triggers, or of the whole database.

    They create the same schema in an empty database. Raise UnknownName if there is no such table.
    """
    if table is not None:
        return Script("\n".join(create_statements(read_relation(database, table))))
    # A virtual table creates its shadow tables itself.
    relations = [relation for relation in read_schema(database).relations if relation.kind != "shadow"]
    ordered = sorted(relations, key=lambda relation: relation.kind == "view")
    return Script("\n\n".join("\n".join(create_statements(relation)) for relation in ordered))
