"""The keys of an upsert: which rows are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipemagic.client.surroundings import KeyColumn, Table, rows
from pipemagic.errors import LoadError
from pipemagic.frames.writing import Column, values_of
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database


def check_keys(keys: Sequence[str], columns: Sequence[Column]) -> tuple[str, ...]:
    """Give the keys as the frame spells them; LoadError for one that it does not have, or that is NULL in a row."""
    there = {column.name.lower(): column for column in columns}
    unknown = [key for key in keys if key.lower() not in there]
    if unknown:
        raise LoadError(f"the frame has no {', '.join(unknown)}, which is to be the key; nothing was changed")
    for key in keys:
        values = values_of(there[key.lower()])
        row = next((row for row, value in enumerate(values, start=1) if value is None), None)
        if row is not None:
            raise LoadError(f"column {key}: the key of row {row} is NULL; nothing was changed", hint="fill or drop it")
    return tuple(there[key.lower()].name for key in keys)


def unique_key(database: Database, table: Table, keys: Sequence[str]) -> tuple[KeyColumn, ...]:
    """Find the unique index over just these columns; LoadError if the table has none, which ON CONFLICT needs."""
    wanted = {key.lower() for key in keys}
    if missing := [key for key in keys if key.lower() not in table.columns]:
        raise LoadError(f"{table.name} has no {', '.join(missing)}, which is to be the key; nothing was changed")
    primary = rows(database, "SELECT name FROM pragma_table_xinfo(?) WHERE pk > 0", table.name)
    indexed: dict[str, dict[str, str]] = {}
    found = rows(
        database,
        """SELECT l.name, x.name, x.coll FROM pragma_index_list(?) AS l, pragma_index_xinfo(l.name) AS x
        WHERE l."unique" AND NOT l.partial AND x.key""",
        table.name,
    )
    for index, column, collation in found:  # an expression has no name
        indexed.setdefault(str(index), {})[str(column or "").lower()] = str(collation)
    for columns in indexed.values():
        if set(columns) == wanted:
            return tuple(KeyColumn(key, columns[key.lower()]) for key in keys)
    if {str(name).lower() for (name,) in primary} == wanted:  # the rowid itself, which has no index
        return tuple(KeyColumn(key, "BINARY") for key in keys)
    listed = ", ".join(map(quote, keys))
    raise LoadError(
        f"{table.name} has no unique index on {', '.join(keys)}, so nothing says which rows are the same; "
        "nothing was changed",
        hint=f"CREATE UNIQUE INDEX ... ON {quote(table.name)}({listed})",
    )


def check_once(database: Database, staging: str, keys: Sequence[KeyColumn]) -> None:
    """Refuse rows that have the same key: which of them should win, nobody said."""
    by = ", ".join(f"{quote(key.name)} COLLATE {key.collation}" for key in keys)
    names = ", ".join(quote(key.name) for key in keys)
    twice = rows(database, f"SELECT {names} FROM {quote(staging)} GROUP BY {by} HAVING count(*) > 1 LIMIT 1")
    for values in twice:
        shown = ", ".join(f"{key.name} = {str(value)[:40]!r}" for key, value in zip(keys, values, strict=True))
        raise LoadError(
            f"several rows have the same key ({shown}); nothing was changed",
            hint="keep one of each, as with .drop_duplicates(subset=[...], keep='last')",
        )
