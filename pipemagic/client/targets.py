"""The table that a frame is to be written into: what is there, whether it can be done, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipemagic.client.affinities import check_affinity
from pipemagic.errors import LoadError, StatementError
from pipemagic.frames import Column
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database, IfExists

_SCHEMA = """
SELECT json_group_array(json_array(type, name, sql)) FROM
(SELECT type, name, sql FROM sqlite_master WHERE lower(tbl_name) = lower({table}) ORDER BY type, name)
"""


@dataclass(frozen=True)
class Plan:
    """What to do with a target table.

    ``replaces`` tells that there is one to drop, ``appends`` that there is one to add to. ``schema`` is the target's
    definition as it was looked at: the switch fails if it has changed since.
    """

    table: str
    columns: Sequence[Column]
    appends: bool = False
    replaces: bool = False
    schema: str = ""

    def create(self, staging: str) -> str:
        """Give the SQL that makes the staging table, which becomes the table unless there is one to add to."""
        defined = (f"{quote(column.name)} {column.declared}".rstrip() for column in self.columns)
        return f"CREATE TABLE {quote(staging)} ({', '.join(defined)})"

    def switch(self, staging: str) -> list[str]:
        """Give the statements that make the staged rows the table's; they have to apply together or not at all."""
        guard = _guard(self.table, self.schema)
        source, target = quote(staging), quote(self.table)
        if self.appends:
            names = ", ".join(quote(column.name) for column in self.columns)
            insert = f"INSERT INTO {target} ({names}) SELECT {names} FROM {source} ORDER BY rowid"
            return [guard, insert, f"DROP TABLE {source}"]
        rename = f"ALTER TABLE {source} RENAME TO {target}"
        return [guard, f"DROP TABLE {target}", rename] if self.replaces else [guard, rename]

    def explain(self, error: StatementError) -> LoadError:
        """Turn the error of a switch into what it means for the load."""
        if error.index == 0 and error.sql != "BEGIN" and "malformed JSON" in error.message:
            return LoadError(f"{self.table} was changed by somebody else meanwhile; nothing was changed by this load")
        hint = ""
        if "error in view" in error.message or "error in trigger" in error.message:
            hint = "a view or a trigger uses the table: drop it first and make it again afterwards"
        return LoadError(f"{error.message}; nothing was changed", hint=hint)


def _guard(table: str, schema: str) -> str:
    """Give a statement that fails if the table's definition is not what it was."""
    text = "'" + schema.replace("'", "''") + "'"
    name = "'" + table.replace("'", "''") + "'"
    return f"SELECT json('changed') WHERE ({_SCHEMA.format(table=name).strip()}) IS NOT {text}"


def plan_table(database: Database, table: str, columns: Sequence[Column], if_exists: IfExists) -> Plan:
    """Look at the target and decide; LoadError for what cannot be done exactly and atomically. Changes nothing."""
    if if_exists not in ("fail", "append", "replace"):
        raise LoadError(f"if_exists is fail, append or replace, not {if_exists!r}")
    if not table or "\0" in table or table.lower().startswith("sqlite_"):
        raise LoadError(f"{table!r} cannot be the name of a table")
    objects = _rows(database, "SELECT type, name, sql FROM sqlite_master WHERE lower(tbl_name) = lower(?)", table)
    own = [kind for kind, name, _ in objects if str(name).lower() == table.lower()]
    schema = str(_rows(database, _SCHEMA.format(table="?"), table)[0][0])
    if not own:
        return Plan(table, columns, schema=schema)
    if own != ["table"]:
        raise LoadError(f"{table} is a {own[0]}, not a table", hint="choose another name")
    if if_exists == "fail":
        raise LoadError(
            f"there is a table {table} already", hint="add to it with if_exists='append', or give it up with 'replace'"
        )
    if if_exists == "append":
        _check_append(database, table, columns)
        return Plan(table, columns, appends=True, schema=schema)
    _check_replace(database, table, objects)
    return Plan(table, columns, replaces=True, schema=schema)


def _check_replace(database: Database, table: str, objects: Sequence[tuple[Any, ...]]) -> None:
    """Refuse to drop what would not come back: indexes, triggers, foreign keys."""
    for kind, name, sql in objects:
        if kind in ("index", "trigger") and sql is not None:  # an index without text belongs to a constraint
            raise LoadError(
                f"{table} has the {kind} {name}, which replacing would lose; nothing was changed",
                hint=f"drop the {kind} first and make it again afterwards, or empty the table and append",
            )
    keys = """
        SELECT m.name FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f
        WHERE m.type = 'table' AND (lower(f."table") = lower(?1) OR lower(m.name) = lower(?1)) LIMIT 1
    """
    for (name,) in _rows(database, keys, table):
        other = "has foreign keys" if str(name).lower() == table.lower() else f"is referred to by {name}"
        raise LoadError(
            f"{table} {other}, which replacing would break; nothing was changed",
            hint="empty the table and append",
        )


def _check_append(database: Database, table: str, columns: Sequence[Column]) -> None:
    """Refuse columns that do not go together by name, and values that the table's types would change."""
    described = 'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)'
    there = {str(row[0]).lower(): row for row in _rows(database, described, table)}
    unknown = [column.name for column in columns if column.name.lower() not in there]
    given = {column.name.lower() for column in columns}
    missing = [str(row[0]) for name, row in there.items() if name not in given and not _fills_itself(row)]
    if unknown or missing:
        what = [f"the table has no {', '.join(unknown)}"] if unknown else []
        what += [f"the frame has no {', '.join(missing)}"] if missing else []
        raise LoadError(f"the columns do not match: {'; '.join(what)}; nothing was changed", hint="rename or add them")
    for column in columns:
        name, declared, *_, hidden = there[column.name.lower()]
        if hidden in (2, 3):
            raise LoadError(f"column {name} of {table} is generated and cannot be written; nothing was changed")
        check_affinity(column, str(declared or ""), table)


def _fills_itself(row: tuple[Any, ...]) -> bool:
    """Tell whether a column may be left out: it has a default, is generated, or numbers the rows."""
    _, declared, _, default, key, hidden = row
    return default is not None or hidden != 0 or (bool(key) and str(declared).upper() == "INTEGER")


def _rows(database: Database, sql: str, *args: Any) -> list[tuple[Any, ...]]:
    return list(database.execute(sql, list(args)).rows)
