"""A table as it is in the database, and what belongs to it or uses it: indexes, triggers, views, foreign keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pipemagic.client import definitions
from pipemagic.errors import LoadError
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database

_SCHEMA = """
SELECT json_group_array(json_array(type, name, sql)) FROM
(SELECT type, name, sql FROM sqlite_master WHERE {which} ORDER BY type, name)
"""


@dataclass(frozen=True)
class Seen:
    """What the schema said about a table when it was looked at; with ``more`` all views and triggers as well."""

    table: str
    schema: str = "[]"
    more: bool = False

    def guard(self) -> str:
        """Give a statement that fails if the schema does not say the same any more."""
        return f"SELECT json('changed') WHERE ({self.question()}) IS NOT {_text(self.schema)}"

    def question(self) -> str:
        """Give the statement that asks what the schema says."""
        which = f"lower(tbl_name) = lower({_text(self.table)})" + (
            " OR type IN ('view', 'trigger')" if self.more else ""
        )
        return _SCHEMA.format(which=which).strip()


@dataclass(frozen=True)
class ColumnThere:
    """A column of the table. ``required``: it may not be NULL and has no default.

    ``is_rowid``: it is an INTEGER PRIMARY KEY, which holds nothing but integers.
    """

    name: str
    declared: str
    required: bool
    fills_itself: bool
    generated: bool
    is_rowid: bool = False


class KeyColumn(NamedTuple):
    """A column of a unique key and how it compares."""

    name: str
    collation: str


@dataclass(frozen=True)
class Table:
    """What has the name: ``columns`` by their names in small letters, ``kind`` is ``table`` or ``view``."""

    name: str
    kind: str
    sql: str
    columns: dict[str, ColumnThere]
    has_foreign_keys: bool
    seen: Seen = field(repr=False)


def look(database: Database, table: str) -> Table | None:
    """Find what has this name, as SQLite compares names; None if nothing has."""
    seen = Seen(table, str(rows(database, Seen(table).question())[0][0]))
    named = rows(database, "SELECT type, name, sql FROM sqlite_master WHERE lower(name) = lower(?)", table)
    if not named:
        return None
    kind, name, text = named[0]
    found = _columns(database, str(name)) if kind == "table" else []
    columns = {one.name.lower(): one for one in found}
    foreign = bool(rows(database, "SELECT 1 FROM pragma_foreign_key_list(?) LIMIT 1", name)) if columns else False
    return Table(str(name), str(kind), str(text or ""), columns, foreign, seen)


def check_not_referred_to(database: Database, table: Table) -> None:
    """Refuse to put another table in the place of one that foreign keys point to."""
    found = rows(
        database,
        """SELECT m.name FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f
        WHERE m.type = 'table' AND lower(f."table") = lower(?) LIMIT 1""",
        table.name,
    )
    for (name,) in found:
        raise LoadError(
            f"{table.name} is referred to by {name}, which replacing would break; nothing was changed",
            hint="empty the table and append",
        )


def check_indexed(database: Database, table: Table, names: Sequence[str]) -> None:
    """Refuse columns without one that an index has: made again, a name in double quotes would become a text."""
    kept = {name.lower() for name in names}
    found = rows(
        database,
        """SELECT i.name, c.name FROM pragma_index_list(?) AS i, pragma_index_info(i.name) AS c
        WHERE i.origin = 'c' AND c.name IS NOT NULL ORDER BY i.seq, c.seqno""",
        table.name,
    )
    for index, column in found:
        if str(column).lower() not in kept:
            raise LoadError(
                f"the index {index} is on {column}, which the frame does not have; nothing was changed",
                hint=f"drop it first: DROP INDEX {quote(str(index))}",
            )


@dataclass(frozen=True)
class Around:
    """What is to be made again when a table is replaced, as ``(type, name, table, sql)``, oldest first.

    ``numbers`` tells that the table has a counter of its rows that must not go back.
    """

    objects: Sequence[tuple[str, str, str, str]]
    seen: Seen
    numbers: bool = False

    def drops(self, table: Table) -> tuple[str, ...]:
        """Give the statements that make room: all that mentions the table goes, since a renaming looks at it."""
        views = {name.lower() for kind, name, _, _ in self.objects if kind == "view"}
        going = {table.name.lower(), *views}
        triggers = [name for kind, name, on, _ in self.objects if kind == "trigger" and on.lower() not in going]
        return (
            *(f"DROP TRIGGER {quote(name)}" for name in triggers),
            *(f"DROP VIEW {quote(name)}" for kind, name, _, _ in reversed(self.objects) if kind == "view"),
            *(_keep_numbers(table.name) if self.numbers else ()),
            f"DROP TABLE {quote(table.name)}",
        )

    def makes(self) -> tuple[str, ...]:
        """Give the statements that make all again, as they were written: indexes, then views, then triggers."""
        return tuple(
            text for wanted in ("index", "view", "trigger") for kind, _, _, text in self.objects if kind == wanted
        )

    def without_indexes(self) -> Around:
        """Give the same without the table's own indexes."""
        return replace(self, objects=[one for one in self.objects if one[0] != "index"])

    def checks(self, table: Table, names: Sequence[str]) -> tuple[str, ...]:
        """Give statements that fail if a view or a trigger does not fit the table's new columns."""
        views = [f"SELECT 1 FROM {quote(name)} LIMIT 0" for kind, name, _, _ in self.objects if kind == "view"]
        if not any(kind == "trigger" and on.lower() == table.name.lower() for kind, _, on, _ in self.objects):
            return tuple(views)
        target, sets = quote(table.name), ", ".join(f"{quote(name)} = {quote(name)}" for name in names)
        told = (f"INSERT INTO {target} DEFAULT VALUES", f"UPDATE {target} SET {sets}", f"DELETE FROM {target}")
        return (*views, *(f"EXPLAIN {one}" for one in told))  # which parses its triggers


def around(database: Database, table: Table) -> Around:
    """Find what belongs to a table or mentions it, views on views included."""
    seen = Seen(table.name, more=True)
    seen = Seen(table.name, str(rows(database, seen.question())[0][0]), more=True)
    found = rows(
        database,
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type <> 'table' ORDER BY rowid",
    )
    objects = [(str(kind), str(name), str(on), str(text)) for kind, name, on, text in found]
    names = _with_views({table.name.lower()}, objects)

    def concerns(kind: str, name: str, on: str, text: str) -> bool:
        if kind == "trigger":
            return on.lower() in names or definitions.mentions(text, names)
        return name.lower() in names if kind == "view" else on.lower() == table.name.lower()

    wanted = [one for one in objects if concerns(*one)]
    return Around(wanted, seen, definitions.is_autoincrement(table.sql))


def _with_views(names: set[str], objects: Sequence[tuple[str, str, str, str]]) -> set[str]:
    """Add the views that mention one of these names, and those that mention them in turn."""
    views = {name.lower(): text for kind, name, _, text in objects if kind == "view"}
    while more := {name for name, text in views.items() if name not in names and definitions.mentions(text, names)}:
        names = names | more
    return names


def rows(database: Database, sql: str, *args: Any) -> list[tuple[Any, ...]]:
    """Ask for some rows."""
    return list(database.execute(sql, list(args)).rows)


# Every primary key but an alias of the rowid has an index of its own.
_COLUMNS = """
SELECT name, type, "notnull", dflt_value, pk, hidden,
    pk AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk')
FROM pragma_table_xinfo(?1)
"""


def _columns(database: Database, table: str) -> list[ColumnThere]:
    found = []
    for name, declared, not_null, default, key, hidden, is_rowid in rows(database, _COLUMNS.strip(), table):
        itself = bool(default is not None or hidden or is_rowid)
        required = bool(not_null or key) and not itself
        found.append(ColumnThere(str(name), str(declared or ""), required, itself, hidden in (2, 3), bool(is_rowid)))
    return found


def _keep_numbers(table: str) -> tuple[str, str]:
    """Give the new table the counter of the old one, if that is further."""
    last = f"(SELECT max(seq) FROM sqlite_sequence WHERE name IN ({_text(table)}, '{{staging}}'))"
    return (
        f"INSERT INTO sqlite_sequence (name, seq) SELECT '{{staging}}', {last} "
        "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '{staging}')",
        f"UPDATE sqlite_sequence SET seq = {last} WHERE name = '{{staging}}'",
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
