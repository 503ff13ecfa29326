"""Lists of what there is: the tables and views of a database, the columns of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pipemagic.client.batch_runner import result_of
from pipemagic.explore.schema import LISTED, Column, ForeignKey, Relation, folded, read_relation, same
from pipemagic.hrana.messages import Close, ErrorEntry, Execute, Stmt
from pipemagic.hrana.values import decode
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database

_NAMES = f"SELECT l.name, l.type FROM pragma_table_list AS l WHERE {LISTED} AND l.type <> 'shadow'"


def tables(database: Database, pattern: str = "", *, rows: bool = False) -> DataFrame:
    """Give the tables and views as a DataFrame (table, type), sorted by name.

    ``pattern`` is a part of the name, or with ``*`` and ``?`` the whole of it; case does not matter. ``rows`` counts
    the rows, too, for which the server has to walk through all of them; a view that cannot be read has none (NA).
    """
    from pandas import DataFrame, array

    found = sorted(database.execute(_NAMES).rows, key=lambda row: folded(str(row[0])))
    listed = [(str(name), kind) for name, kind in found if _fits(str(name), pattern)]
    frame = DataFrame(listed, columns=["table", "type"])
    if rows:
        frame["rows"] = array(_counts(database, [name for name, _ in listed]), dtype="Int64")
    return frame


def _fits(name: str, pattern: str) -> bool:
    if not any(char in pattern for char in "*?"):
        return folded(pattern) in folded(name)
    return fnmatchcase(folded(name), folded(pattern).replace("[", "[[]"))


def _counts(database: Database, names: Sequence[str]) -> list[int | None]:
    """Count in one round trip, each table by itself: a view that cannot be read takes nothing from the others."""
    requests = [Execute(Stmt(f"SELECT count(*) FROM {quote(name)}")) for name in names]
    if not requests:
        return []
    with database.open_stream() as stream:
        entries = stream.send([*requests, Close()])[:-1]
    counted = [None if isinstance(entry, ErrorEntry) else decode(result_of(entry).rows[0][0]) for entry in entries]
    return [None if count is None else int(count) for count in counted]


def columns(database: Database, table: str) -> DataFrame:
    """Give the columns of a table or view as a DataFrame; UnknownName if there is no such table.

    Which columns are generated, and what they refer to, is in it where there is any of that.
    """
    relation = read_relation(database, table)
    if relation.broken:
        relation.column("")  # says why nothing is known of them
    return frame_of(relation)


def frame_of(relation: Relation) -> DataFrame:
    """Give the columns of a table or view as a DataFrame."""
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
    """Give what a column of a foreign key refers to, ``city.id``; without the column where none is named."""
    named = {folded(own): other for own, other in zip(key.columns, key.references, strict=False)}
    other = named.get(folded(column))
    return key.table if other is None else f"{key.table}.{other}"
