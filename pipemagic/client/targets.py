"""The table that rows are to be written into: what is there, whether it can be done, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipemagic.client import definitions, surroundings
from pipemagic.client.affinities import check_affinity, check_rowids, check_types
from pipemagic.client.keys import check_keys, unique_key
from pipemagic.errors import LoadError, StatementError
from pipemagic.frames.writing import Column
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database, IfExists

CHOICES = ("fail", "append", "replace", "upsert")

_ROWID = ("rowid", "_rowid_", "oid")


@dataclass(frozen=True)
class Plan:
    """What to do with a target table.

    ``text`` defines the staging table, which becomes the table unless rows are added ``into`` one. ``names`` are the
    columns that are written, ``types`` those and their declared types in the table as it will be. ``schema`` is what
    was there when it was looked at: the switch fails if it has changed since. ``drops`` and ``makes`` are the
    statements of the switch before and after the staging table gets its name.
    """

    table: str
    names: tuple[str, ...]
    types: tuple[tuple[str, str], ...]
    text: str
    schema: surroundings.Seen
    into: Literal["", "append", "upsert"] = ""
    keys: tuple[surroundings.KeyColumn, ...] = ()
    drops: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    keeps: bool = False
    """Whether a table that is replaced keeps its definition."""

    def create(self, staging: str) -> str:
        """Give the SQL that makes the staging table."""
        return definitions.under_name(self.text, staging)

    def switch(self, staging: str, total: int) -> list[str]:
        """Give the statements that make the staged rows the table's; they have to apply together or not at all."""
        guard = self.schema.guard()
        if self.into:
            return [guard, self.insert(staging), self._all_added(total), f"DROP TABLE {quote(staging)}"]
        rename = f"ALTER TABLE {quote(staging)} RENAME TO {quote(self.table)}"
        return [guard, *(text.replace("{staging}", staging) for text in self.drops), rename, *self.makes]

    def insert(self, staging: str, first: int | None = None) -> str:
        """Give the statement that adds the staged rows to the table, or only the first ones."""
        names = ", ".join(map(quote, self.names))
        rowid = next((one for one in _ROWID if one not in {name.lower() for name in self.names}), None)
        limit = "" if first is None else f" LIMIT {first}"
        order = f" ORDER BY {rowid}" if rowid else ""
        added = f"SELECT {names} FROM {quote(staging)} WHERE true{order}{limit}"
        return f"INSERT INTO {quote(self.table)} ({names}) {added}{self._on_conflict()}"

    def _all_added(self, total: int) -> str:
        """Give a statement that fails if some rows were passed over: a constraint or a trigger of the table may."""
        only_keys = self.into == "upsert" and len(self.keys) == len(self.names)  # those that are there stay
        return "SELECT 1" if only_keys else f"SELECT json('fewer') WHERE changes() <> {total}"

    def _on_conflict(self) -> str:
        if self.into != "upsert":
            return ""
        keys = {key.name.lower() for key in self.keys}
        sets = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in self.names if name.lower() not in keys)
        target = ", ".join(quote(key.name) for key in self.keys)
        return f" ON CONFLICT ({target}) DO " + (f"UPDATE SET {sets}" if sets else "NOTHING")

    def explain(self, error: StatementError) -> LoadError:
        """Turn the error of a switch into what it means for the load."""
        if error.index == 0 and error.sql != "BEGIN" and "malformed JSON" in error.message:
            return LoadError(f"{self.table} was changed by somebody else meanwhile; nothing was changed by this load")
        if self.into and error.index == 2 and "malformed JSON" in error.message:
            return LoadError(
                f"a constraint of {self.table} or a trigger on it passes over some of the rows; nothing was changed",
                hint="look for ON CONFLICT IGNORE and RAISE(IGNORE) in its schema",
            )
        hint = ""
        if "error in view" in error.message or "error in trigger" in error.message:
            hint = "it does not fit the table as it was to be: change or drop it first"
        elif any(error.sql == text for text in self.makes):
            hint = f"what belongs to {self.table} is kept, and this does not fit its new columns: drop it first"
        return LoadError(f"{error.message}; nothing was changed", hint=hint)


def plan_table(
    database: Database,
    table: str,
    columns: Sequence[Column],
    if_exists: IfExists = "fail",
    *,
    keys: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
) -> Plan:
    """Look at the target and decide; LoadError for what cannot be done exactly and atomically. Changes nothing."""
    check_name(table)
    if if_exists not in CHOICES:
        raise LoadError(f"if_exists is fail, append, replace or upsert, not {if_exists!r}")
    wanted = check_types(columns, types or {})
    found = surroundings.look(database, table)
    if (if_exists == "upsert") != bool(keys):
        raise LoadError(
            "keys=... names the columns that tell which rows are the same, and goes with if_exists='upsert'",
            hint="load(frame, table, if_exists='upsert', keys=['id'])",
        )
    if keys:
        keys = check_keys(keys, columns)
    if found is None:
        return _new(table, columns, wanted, keys, surroundings.Seen(table))
    if found.kind != "table":
        raise LoadError(f"{found.name} is a {found.kind}, not a table", hint="choose another name")
    if if_exists == "fail":
        raise LoadError(
            f"there is a table {table} already",
            hint="--append adds the rows, --upsert KEY changes those that are there, --replace gives the old ones up "
            "(in Python: if_exists=...)",
        )
    if if_exists == "replace":
        return _replace(database, found, columns, wanted)
    if types:
        raise LoadError(f"{table} has types already; types=... is for a new table")
    return _add(database, found, columns, keys)


def check_name(table: str) -> None:
    """Refuse what no table can be called."""
    if not table or "\0" in table or table.lower().startswith("sqlite_"):
        raise LoadError(f"{table!r} cannot be the name of a table")


def _new(
    table: str, columns: Sequence[Column], types: Mapping[str, str], keys: Sequence[str], seen: surroundings.Seen
) -> Plan:
    declared = tuple((column.name, types.get(column.name, column.declared)) for column in columns)
    return Plan(table, tuple(column.name for column in columns), declared, _text(declared, keys), seen)


def _text(declared: Sequence[tuple[str, str]], keys: Sequence[str]) -> str:
    defined = [f"{quote(name)} {kind}".rstrip() for name, kind in declared]
    if keys:
        defined.append(f"PRIMARY KEY ({', '.join(map(quote, keys))})")
    return f'CREATE TABLE "t" ({", ".join(defined)})'


def _add(database: Database, found: surroundings.Table, columns: Sequence[Column], keys: Sequence[str]) -> Plan:
    """Plan to add rows to a table."""
    if problem := _differences(found, columns, nullable=bool(keys)):
        raise LoadError(f"the columns do not match: {problem}; nothing was changed", hint="rename or add them")
    _check_values(found, columns)
    plain = [(column.name, column.declared) for column in columns]
    return Plan(
        found.name,
        tuple(column.name for column in columns),
        _types(found, columns),
        _text(plain, ()),
        found.seen,
        into="upsert" if keys else "append",
        keys=unique_key(database, found, keys) if keys else (),
    )


def _replace(
    database: Database, found: surroundings.Table, columns: Sequence[Column], types: Mapping[str, str]
) -> Plan:
    """Plan to put another table in the place of one; its indexes and triggers, and the views on it, are made again.

    A table whose columns are those of the frame keeps its definition; another one is defined anew.
    """
    surroundings.check_not_referred_to(database, found)
    around = surroundings.around(database, found)
    names = tuple(column.name for column in columns)
    if not types and _keeps(found, columns):
        return Plan(
            found.name, names, _types(found, columns), found.sql, around.seen,
            drops=around.drops(found), makes=around.makes(), keeps=True,
        )  # fmt: skip
    if found.has_foreign_keys:
        raise LoadError(
            f"{found.name} has foreign keys, which other columns or types would lose; nothing was changed",
            hint="empty the table and append",
        )
    surroundings.check_indexed(database, found, names)
    new = _new(found.name, columns, types, (), around.seen)
    return Plan(
        new.table, names, new.types, new.text, around.seen,
        drops=around.drops(found), makes=(*around.makes(), *around.checks(found, names)),
    )  # fmt: skip


def _keeps(found: surroundings.Table, columns: Sequence[Column]) -> bool:
    """Tell whether a table keeps its definition; LoadError if it has to, and the values do not fit."""
    if not definitions.is_ordinary(found.sql) or _differences(found, columns):
        return False
    try:
        _check_values(found, columns)
    except LoadError as error:
        if definitions.has_constraints(found.sql):
            hint = "convert the column in the frame, or give types=... to define the table anew"
            raise error.replace(hint=hint) from None
        return False
    return True


def _types(found: surroundings.Table, columns: Sequence[Column]) -> tuple[tuple[str, str], ...]:
    return tuple((column.name, found.columns[column.name.lower()].declared) for column in columns)


def _differences(found: surroundings.Table, columns: Sequence[Column], *, nullable: bool = False) -> str:
    """Say how the columns differ from those of the table; '' if the rows can be written.

    With ``nullable`` one that may be NULL can be left out, too.
    """
    given = {column.name.lower() for column in columns}
    unknown = [column.name for column in columns if column.name.lower() not in found.columns]
    missing = [
        one.name
        for name, one in found.columns.items()
        if name not in given and not one.fills_itself and not (nullable and not one.required)
    ]
    what = [f"the table has no {', '.join(unknown)}"] if unknown else []
    what += [f"the frame has no {', '.join(missing)}"] if missing else []
    return "; ".join(what)


def _check_values(found: surroundings.Table, columns: Sequence[Column]) -> None:
    """Refuse to write generated columns, and values that the table's types would change."""
    for column in columns:
        there = found.columns[column.name.lower()]
        if there.generated:
            raise LoadError(
                f"column {there.name} of {found.name} is generated and cannot be written; nothing was changed"
            )
        check_affinity(column, there.declared, found.name)
        if there.is_rowid:
            check_rowids(column, f"{found.name}.{there.name}")
