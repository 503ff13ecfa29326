"""Read a table and its indexes, triggers, views and foreign keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pipemagic import sql
from pipemagic.client.result import Executor
from pipemagic.errors import LoadError

_SCHEMA = """
SELECT json_group_array(json_array(type, name, sql)) FROM
(SELECT type, name, sql FROM sqlite_master WHERE {which} ORDER BY type, name)
"""

# Every primary key except an alias of the rowid has an index.
_COLUMNS = """
SELECT name, type, "notnull", dflt_value, pk, hidden,
    pk AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk')
FROM pragma_table_xinfo(?1)
"""

_CONSTRAINTS = frozenset({
    "AS", "AUTOINCREMENT", "CHECK", "COLLATE", "CONSTRAINT", "DEFAULT", "FOREIGN", "GENERATED", "NOT", "PRIMARY",
    "REFERENCES", "STRICT", "UNIQUE", "WITHOUT",
})  # fmt: skip


@dataclass(frozen=True)
class SchemaSnapshot:
    """The schema of a table at one moment; with ``users`` also all views and triggers."""

    table: str
    schema: str = "[]"
    users: bool = False

    @classmethod
    def read(cls, database: Executor, table: str, *, users: bool = False) -> SchemaSnapshot:
        """Return the current schema of a table."""
        empty = cls(table, users=users)
        return replace(empty, schema=str(rows(database, empty._query())[0][0]))

    def check(self) -> str:
        """Return a statement that fails if the schema has changed since."""
        return f"SELECT json('changed') WHERE ({self._query()}) IS NOT {_literal(self.schema)}"

    def _query(self) -> str:
        users = " OR type IN ('view', 'trigger')" if self.users else ""
        return _SCHEMA.format(which=f"lower(tbl_name) = lower({_literal(self.table)}){users}").strip()


@dataclass(frozen=True)
class TargetColumn:
    """A column of a table. ``required``: it must not be NULL and has no default.

    ``is_rowid``: it is an INTEGER PRIMARY KEY, which stores only integers.
    """

    name: str
    declared: str
    required: bool
    has_default: bool
    generated: bool
    is_rowid: bool = False


class KeyColumn(NamedTuple):
    """A column of a unique key and its collation."""

    name: str
    collation: str


@dataclass(frozen=True)
class Table:
    """A table or view: ``columns`` by name in lower case, ``kind`` is ``table`` or ``view``."""

    name: str
    kind: str
    sql: str
    columns: dict[str, TargetColumn]
    has_foreign_keys: bool
    snapshot: SchemaSnapshot = field(repr=False)

    @property
    def is_ordinary(self) -> bool:
        """Whether it is a table and not virtual."""
        return [one.text.upper() for one in _words(self.sql)[:2]] == ["CREATE", "TABLE"]


def inspect_table(database: Executor, table: str) -> Table | None:
    """Return the table or view of this name (case-insensitive); None if there is none."""
    snapshot = SchemaSnapshot.read(database, table)
    named = rows(database, "SELECT type, name, sql FROM sqlite_master WHERE lower(name) = lower(?)", table)
    if not named:
        return None
    kind, name, text = named[0]
    columns = {}
    for own, declared, not_null, default, key, hidden, is_rowid in (
        rows(database, _COLUMNS.strip(), str(name)) if kind == "table" else ()
    ):
        has_default = bool(default is not None or hidden or is_rowid)
        columns[str(own).lower()] = TargetColumn(
            str(own), str(declared or ""), bool(not_null or key) and not has_default, has_default, hidden in (2, 3),
            bool(is_rowid),
        )  # fmt: skip
    foreign = bool(rows(database, "SELECT 1 FROM pragma_foreign_key_list(?) LIMIT 1", name)) if columns else False
    return Table(str(name), str(kind), str(text or ""), columns, foreign, snapshot)


def check_not_referred_to(database: Executor, table: Table) -> None:
    """Raise LoadError if foreign keys refer to a table that is to be replaced."""
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


def check_indexed(database: Executor, table: Table, names: Sequence[str]) -> None:
    """Raise LoadError if a column of an index is missing: its quoted name would become a string."""
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
                hint=f"drop it first: DROP INDEX {sql.quote(str(index))}",
            )


@dataclass(frozen=True)
class Dependents:
    """The objects to create again when a table is replaced, as ``(type, name, table, sql)``, oldest first.

    ``autoincrement`` is True if the table has an AUTOINCREMENT counter to keep.
    """

    objects: Sequence[tuple[str, str, str, str]]
    snapshot: SchemaSnapshot
    autoincrement: bool = False

    def drops(self, table: Table) -> tuple[str, ...]:
        """Return the statements that drop the objects that mention the table, which a rename checks, and itself."""
        views = {name.lower() for kind, name, _, _ in self.objects if kind == "view"}
        going = {table.name.lower(), *views}
        triggers = [name for kind, name, on, _ in self.objects if kind == "trigger" and on.lower() not in going]
        return (
            *(f"DROP TRIGGER {sql.quote(name)}" for name in triggers),
            *(f"DROP VIEW {sql.quote(name)}" for kind, name, _, _ in reversed(self.objects) if kind == "view"),
            *(_keep_counter(table.name) if self.autoincrement else ()),
            f"DROP TABLE {sql.quote(table.name)}",
        )

    def creates(self, *, indexes: bool = True) -> tuple[str, ...]:
        """Return the statements that create everything again: ``indexes`` of the table, then views, then triggers."""
        kinds = ("index", "view", "trigger") if indexes else ("view", "trigger")
        return tuple(text for wanted in kinds for kind, _, _, text in self.objects if kind == wanted)

    def checks(self, table: Table, names: Sequence[str]) -> tuple[str, ...]:
        """Return statements that fail if a view or a trigger does not fit the table's new columns."""
        views = [f"SELECT 1 FROM {sql.quote(name)} LIMIT 0" for kind, name, _, _ in self.objects if kind == "view"]
        if not any(kind == "trigger" and on.lower() == table.name.lower() for kind, _, on, _ in self.objects):
            return tuple(views)
        target = sql.quote(table.name)
        sets = ", ".join(f"{sql.quote(name)} = {sql.quote(name)}" for name in names)
        firing = (f"INSERT INTO {target} DEFAULT VALUES", f"UPDATE {target} SET {sets}", f"DELETE FROM {target}")
        return (*views, *(f"EXPLAIN {one}" for one in firing))  # parses its triggers


def dependents(database: Executor, table: Table) -> Dependents:
    """Return the objects that belong to a table or mention it, including views on views."""
    snapshot = SchemaSnapshot.read(database, table.name, users=True)  # first, to detect later changes
    found = rows(
        database,
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type <> 'table' ORDER BY rowid",
    )
    objects = [(str(kind), str(name), str(on), str(text)) for kind, name, on, text in found]
    names, views = {table.name.lower()}, {name.lower(): text for kind, name, _, text in objects if kind == "view"}
    while more := {name for name, text in views.items() if name not in names and _mentions(text, names)}:
        names |= more

    def concerns(kind: str, name: str, on: str, text: str) -> bool:
        if kind == "trigger":
            return on.lower() in names or _mentions(text, names)
        return name.lower() in names if kind == "view" else on.lower() == table.name.lower()

    counts = any(one.word == "AUTOINCREMENT" for one in sql.tokens(table.sql))
    return Dependents([one for one in objects if concerns(*one)], snapshot, counts)


def rows(database: Executor, query: str, *args: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    return list(database.execute(query, list(args)).rows)


def _keep_counter(table: str) -> tuple[str, str]:
    """Return the statements that copy the counter of the old table to the new one if it is larger."""
    last = f"(SELECT max(seq) FROM sqlite_sequence WHERE name IN ({_literal(table)}, '{{staging}}'))"
    return (
        f"INSERT INTO sqlite_sequence (name, seq) SELECT '{{staging}}', {last} "
        "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '{staging}')",
        f"UPDATE sqlite_sequence SET seq = {last} WHERE name = '{{staging}}'",
    )


# -- definitions in the form of ``sqlite_master``


def table_under_name(text: str, name: str) -> str:
    """Return the definition of a table with another name.

    SQLite stores it as ``CREATE TABLE name ...``, without TEMP, IF NOT EXISTS or a schema before the name.
    """
    return _replaced(text, _words(text)[2], name)


def index_under_name(text: str, name: str, table: str) -> str:
    """Return the definition of an index with another name, on a table with another name."""
    words = _words(text)
    at = 3 if words[1].text.upper() == "UNIQUE" else 2
    on = next(number for number in range(at + 1, len(words)) if words[number].text.upper() == "ON")
    text = _replaced(text, words[on + 1], table)  # the later position first, so that the earlier one stays valid
    return _replaced(text, words[at], name)


def has_constraints(text: str) -> bool:
    """Return True if the definition of a table may have constraints."""
    return any(one.word in _CONSTRAINTS for one in sql.tokens(text))


def _mentions(text: str, names: Iterable[str]) -> bool:
    """Return True if one of the lower-case names may be in the text."""
    return not {sql.normalize(one.text) for one in _words(text)}.isdisjoint(names)


def _words(text: str) -> list[sql.Token]:
    return [one for one in sql.tokens(text) if one.kind in ("word", "quoted", "string")]


def _replaced(text: str, word: sql.Token, name: str) -> str:
    return text[: word.start] + sql.quote(name) + text[word.start + len(word.text) :]


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
