"""Read a table and its indexes, triggers, views and foreign keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pipemagic import sql
from pipemagic.errors import LoadError
from pipemagic.hrana.messages import Close, ErrorEntry, Execute, Stmt
from pipemagic.sql import Definition, folded
from pipemagic.text import escape_controls, list_names, shorten

if TYPE_CHECKING:
    from pipemagic.client.database import Database

STAGING = "\0"
"""Stands for the name of the staging table in statements that are made before it; no name contains it."""

TEXT = str
MAYBE_TEXT = str | None
ANY = object

_SCHEMA = """
SELECT json_group_array(json_array(type, name, sql)) FROM
(SELECT type, name, sql FROM sqlite_master WHERE {which} ORDER BY type, name)
"""

# Every primary key except an alias of the rowid has an index.
_COLUMNS = """
SELECT name, type, "notnull", dflt_value, pk, hidden,
    pk AND NOT EXISTS (SELECT 1 FROM temp.pragma_index_list(?1) WHERE origin = 'pk')
FROM temp.pragma_table_xinfo(?1)
"""

_CONSTRAINTS = frozenset({
    "AS", "AUTOINCREMENT", "CHECK", "COLLATE", "CONSTRAINT", "DEFAULT", "FOREIGN", "GENERATED", "NOT", "PRIMARY",
    "REFERENCES", "STRICT", "UNIQUE", "WITHOUT",
})  # fmt: skip


@dataclass(frozen=True)
class SchemaSnapshot:
    """The schema of a table ('' for none) at one moment; with ``users`` also all views and triggers."""

    table: str
    schema: str = "[]"
    users: bool = False

    @classmethod
    def read(cls, database: Database, table: str, *, users: bool = False) -> SchemaSnapshot:
        """Return the current schema of a table."""
        empty = cls(table, users=users)
        return replace(empty, schema="".join(text for (text,) in rows(database, empty._query(), types=(TEXT,))))

    def check(self) -> str:
        """Return a statement that fails if the schema has changed since."""
        # Only the argument depends on rows: the new engine of the hosted service calls json('changed') before WHERE.
        return f"SELECT json(iif(({self._query()}) IS NOT {_literal(self.schema)}, 'changed', NULL))"

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
    """A table or view: ``columns`` by folded name, ``kind`` is ``table`` or ``view``."""

    name: str
    kind: str
    sql: str
    columns: dict[str, TargetColumn]
    has_foreign_keys: bool
    snapshot: SchemaSnapshot = field(repr=False)

    @property
    def is_ordinary(self) -> bool:
        """Whether it is a table and not virtual."""
        return self.kind == "table" and [token.word for token in _words(self.sql)[:2]] != ["CREATE", "VIRTUAL"]


def inspect_table(database: Database, table: str) -> Table | None:
    """Return the table or view of this name (case-insensitive); None if there is none."""
    snapshot = SchemaSnapshot.read(database, table)
    entries = rows(
        database,
        "SELECT type, name, sql FROM sqlite_master WHERE lower(name) = lower(?) AND type <> 'trigger'",
        table,
        types=(TEXT, TEXT, MAYBE_TEXT),
    )
    if not entries:
        return None
    kind, name, text = entries[0]
    if folded(name) != folded(table):
        raise _unexpected(name)
    columns = {}
    for own, declared, not_null, default, key, hidden, is_rowid in (
        rows(database, _COLUMNS.strip(), name, types=(TEXT, MAYBE_TEXT, ANY, ANY, ANY, ANY, ANY))
        if kind == "table"
        else ()
    ):
        has_default = bool(default is not None or hidden or is_rowid)
        columns[folded(own)] = TargetColumn(
            own, declared or "", bool(not_null or key) and not has_default, has_default, hidden in (2, 3),
            bool(is_rowid),
        )  # fmt: skip
    keys = "SELECT 1 FROM temp.pragma_foreign_key_list(?) LIMIT 1"
    foreign = bool(rows(database, keys, name, types=(ANY,))) if columns else False
    return Table(name, kind, text or "", columns, foreign, snapshot)


def check_not_referred_to(database: Database, table: Table) -> None:
    """Raise LoadError if foreign keys refer to a table that is to be replaced."""
    references = rows(
        database,
        """SELECT m.name FROM sqlite_master AS m, temp.pragma_foreign_key_list(m.name) AS f
        WHERE m.type = 'table' AND lower(f."table") = lower(?) LIMIT 1""",
        table.name,
        types=(TEXT,),
    )
    for (name,) in references:
        raise LoadError(
            f"cannot replace {table.name}: {name} has a foreign key that refers to it; nothing was changed",
            hint="empty the table and append",
        )


def check_indexed(database: Database, table: Table, names: Sequence[str]) -> None:
    """Raise LoadError if a column of an index is missing: its quoted name would become a string."""
    column_names = {folded(name) for name in names}
    index_columns = rows(
        database,
        """SELECT i.name, c.name FROM temp.pragma_index_list(?) AS i, temp.pragma_index_info(i.name) AS c
        WHERE i.origin = 'c' AND c.name IS NOT NULL ORDER BY i.seq, c.seqno""",
        table.name,
        types=(TEXT, TEXT),
    )
    for index, column in index_columns:
        if folded(column) not in column_names:
            raise LoadError(
                f"the index {index} is on {column}, which the frame does not have; nothing was changed",
                hint=_drop_first("index", index),
            )


@dataclass(frozen=True)
class Dependents:
    """The objects to create again when a table gets its name, as ``(type, name, table, sql)``, oldest first.

    ``autoincrement`` is True if the table has an AUTOINCREMENT counter to keep.
    """

    objects: Sequence[tuple[str, str, str, str]]
    snapshot: SchemaSnapshot
    autoincrement: bool = False

    @property
    def names(self) -> str:
        """The kinds and names of the first few objects."""
        return list_names([_shown(f"{kind} {name}") for kind, name, *_ in self.objects])

    def drops(self, table: Table) -> tuple[str, ...]:
        """Return the statements that drop the objects that mention the table, which a rename checks, and itself."""
        counter = _keep_counter(table.name) if self.autoincrement else ()
        return (*self.drops_of_users(table.name), *counter, f"DROP TABLE {sql.quote(table.name)}")

    def drops_of_users(self, table: str = "") -> tuple[str, ...]:
        """Return the statements that drop the views and triggers; a trigger on the ``table`` is dropped with it."""
        views = {folded(name) for kind, name, _, _ in self.objects if kind == "view"}
        going = {folded(table), *views}
        triggers = [name for kind, name, on, _ in self.objects if kind == "trigger" and folded(on) not in going]
        return (
            *(f"DROP TRIGGER {sql.quote(name)}" for name in triggers),
            *(f"DROP VIEW {sql.quote(name)}" for kind, name, _, _ in reversed(self.objects) if kind == "view"),
        )

    def creates(self, *, indexes: bool = True) -> tuple[str, ...]:
        """Return the statements that create everything again: ``indexes`` of the table, then views, then triggers.

        They are the texts as they are, with comments at the end. Raise LoadError for a text that is not the definition
        of its object.
        """
        kinds = ("index", "view", "trigger") if indexes else ("view", "trigger")
        entries = [entry for next_kind in kinds for entry in self.objects if entry[0] == next_kind]
        for kind, name, on, text in entries:
            definition_of(kind, name, on, text, _drop_first(kind, name))
        return tuple(text for *_, text in entries)

    def checks(self, table: Table, names: Sequence[str]) -> tuple[str, ...]:
        """Return statements that fail if a view or a trigger does not fit the table's new columns."""
        views = [f"SELECT 1 FROM {sql.quote(name)} LIMIT 0" for kind, name, _, _ in self.objects if kind == "view"]
        if not any(kind == "trigger" and folded(on) == folded(table.name) for kind, _, on, _ in self.objects):
            return tuple(views)
        target = sql.quote(table.name)
        sets = ", ".join(f"{sql.quote(name)} = {sql.quote(name)}" for name in names)
        firing = (f"INSERT INTO {target} DEFAULT VALUES", f"UPDATE {target} SET {sets}", f"DELETE FROM {target}")
        return (*views, *(f"EXPLAIN {statement}" for statement in firing))  # parses its triggers


def dependents(database: Database, table: Table) -> Dependents:
    """Return the objects that belong to a table or mention it, including views on views."""
    snapshot = SchemaSnapshot.read(database, table.name, users=True)  # first, to detect later changes
    objects = _objects(database)
    names, views = {folded(table.name)}, {folded(name): text for kind, name, _, text in objects if kind == "view"}
    while more := {name for name, text in views.items() if name not in names and _mentions(text, names)}:
        names |= more

    def concerns(kind: str, name: str, on: str, text: str) -> bool:
        if kind == "trigger":
            return folded(on) in names or _mentions(text, names)
        return folded(name) in names if kind == "view" else folded(on) == folded(table.name)

    counts = any(token.word == "AUTOINCREMENT" for token in sql.tokens(table.sql))
    return Dependents([entry for entry in objects if concerns(*entry)], snapshot, counts)


def broken_objects(database: Database, message: str, others: Dependents | None) -> Dependents | None:
    """Return the invalid view or trigger of SQLite's message, with the triggers on it, added to the ``others``.

    The first call adds all invalid views. Return None if the message is another one, or names none but the others.
    SQLite renames a table only if all views and triggers are valid; sqld refuses PRAGMA legacy_alter_table, which would
    skip this check.
    """
    if not message.startswith(("error in view ", "error in trigger ")):
        return None
    snapshot = SchemaSnapshot.read(database, "", users=True)  # first, to detect later changes
    objects, names = _objects(database), {entry[:2] for entry in others.objects} if others else set()
    candidates = (entry[:2] for entry in objects if message.startswith(f"error in {entry[0]} {entry[1]}: "))
    broken = next((entry for entry in candidates if entry not in names), None)
    if broken is None:
        return None
    names |= {broken, *(() if others else _invalid_views(database, objects))}
    views = {folded(name) for kind, name in names if kind == "view"}
    names |= {(kind, name) for kind, name, on, _ in objects if kind == "trigger" and folded(on) in views}
    return Dependents([entry for entry in objects if entry[:2] in names], snapshot)


def _invalid_views(database: Database, objects: Sequence[tuple[Any, ...]]) -> list[tuple[str, str]]:
    """Return the views that cannot be read, as ``(view, name)``."""
    views = [(kind, name) for kind, name, _, _ in objects if kind == "view"]
    if not views:
        return []
    requests = [Execute(Stmt(f"SELECT 1 FROM {sql.quote(name)} LIMIT 0")) for _, name in views]
    with database.open_stream() as stream:
        entries = stream.send([*requests, Close()])[:-1]
    return [view for view, entry in zip(views, entries, strict=True) if isinstance(entry, ErrorEntry)]


def _objects(database: Database) -> list[tuple[Any, ...]]:
    """Return all indexes, views and triggers as ``(type, name, table, sql)``, oldest first."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type <> 'table'"
    return rows(database, f"{query} ORDER BY rowid", types=(TEXT, TEXT, TEXT, TEXT))


def rows(database: Database, query: str, *args: Any, types: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a query on the schema; raise LoadError for values of other ``types`` than its columns have."""
    result = database.execute(query, list(args)).rows
    for row in result:
        if len(row) != len(types) or not all(map(isinstance, row, types)):
            raise _unexpected(*row)
    return list(result)


def _unexpected(*values: object) -> LoadError:
    return LoadError(
        f"the server describes its schema in an unknown way: {_shown(', '.join(map(repr, values)))}; "
        "nothing was changed",
        hint="is it the address of a SQLite or libSQL server?",
    )


def _keep_counter(table: str) -> tuple[str, str]:
    """Return the statements that copy the counter of the old table to the new one if it is larger."""
    last = f"(SELECT max(seq) FROM sqlite_sequence WHERE name IN ({_literal(table)}, '{STAGING}'))"
    return (
        f"INSERT INTO sqlite_sequence (name, seq) SELECT '{STAGING}', {last} "
        f"WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '{STAGING}')",
        f"UPDATE sqlite_sequence SET seq = {last} WHERE name = '{STAGING}'",
    )


# -- definitions


def definition_of(kind: str, name: str, table: str, text: str, hint: str) -> Definition:
    """Return the definition of an object; raise LoadError for any other text, which must not run."""
    definition = sql.parse_definition(text)
    if definition is None or not name or not definition.creates(kind, name, table):
        subject = f"{kind} {name}" if name == table else f"{kind} {name} on {table}"
        what = f"is not one statement that creates it: {_shown(text) or 'it is empty'}"
        raise LoadError(f"the definition of {_shown(subject)} {what}; nothing was changed", hint=hint)
    return definition


def _drop_first(kind: str, name: str) -> str:
    return (
        f"drop it first: DROP {kind.upper()} {_shown(sql.quote(name)) if name and STAGING not in name else ''}".rstrip()
    )


def _shown(text: str) -> str:
    return shorten(escape_controls(" ".join(text.split())), 60)


def has_constraints(text: str) -> bool:
    """Return True if the definition of a table may have constraints."""
    return any(token.word in _CONSTRAINTS for token in sql.tokens(text))


def _mentions(text: str, names: Iterable[str]) -> bool:
    """Return True if one of the folded names may be in the text."""
    return not {folded(sql.unquote(token.text)) for token in _words(text)}.isdisjoint(names)


def _words(text: str) -> list[sql.Token]:
    return [token for token in sql.tokens(text) if token.kind in ("word", "quoted", "string")]


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
