"""Tables in the file of an exercise: what it was made with, and for one that commits, a copy to restore.

Each has its number of rows and a digest, so that data that have changed since are named before an answer is called
wrong. The file of an exercise with an answer that commits also contains the tables that the answer changes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from pipemagic import sql
from pipemagic.client.arguments import statement
from pipemagic.client.result import Result
from pipemagic.errors import SessionError, StatementError, TransactionLost
from pipemagic.hrana.messages import Stmt
from pipemagic.hrana.stream import Tx
from pipemagic.hrana.values import SqlValue
from pipemagic.teaching.exercises.digest import canonical
from pipemagic.teaching.exercises.exercise import Exercise, Table, frame_of, pack, unpack
from pipemagic.teaching.exercises.other_time import has_today
from pipemagic.teaching.exercises.running import rolled_back, run_all
from pipemagic.text import plural

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.client.stream import ClientStream
    from pipemagic.session.connection import Connection

MOST_ROWS = 20_000
"""The most rows of a table that are read for a digest, or stored."""

AGAIN = "run the cells from the top"
"""The hint for tables that cannot be restored."""

_ARGUMENTS = 5_000  # of an INSERT
_TOLERANCE = 1e-9

_ACTIONS = {"CASCADE", "SET"}
"""Words of foreign keys that change rows with those of another table."""

_SCHEMA = "SELECT type, name, tbl_name, sql FROM main.sqlite_schema ORDER BY rowid"
_COLUMNS = "SELECT name FROM temp.pragma_table_xinfo({}) WHERE hidden = 0 ORDER BY cid"
_SEQUENCE = "SELECT seq FROM main.sqlite_sequence WHERE name = {}"


# -- read


def tables_named(connection: Connection, texts: Iterable[str], *, content: bool = False) -> tuple[Table, ...]:
    """Return the tables that SQL or other text names, directly or in a view.

    With ``content`` also their rows, and the tables that change with them: by triggers, and by foreign keys.
    """
    words = [token.text for text in texts for token in sql.tokens(text) if token.kind in ("word", "quoted", "string")]

    def read(database: Database) -> tuple[Table, ...]:
        with rolled_back(database) as stream:
            schema = _schema(stream)
            names = _with_others({sql.normalize(word) for word in words}, schema, changes=content)
            chosen = [item.name for item in schema if item.is_table and sql.normalize(item.name) in names]
            return tuple(_table(stream, name, schema, content=content) for name in chosen)

    return connection.with_database(read)


class _Object(msgspec.Struct, frozen=True, array_like=True):
    """A row of sqlite_schema."""

    kind: str
    name: str
    table: str
    sql: str | None

    @property
    def is_table(self) -> bool:
        """True for a table that is neither virtual nor SQLite's own."""
        ordinary = not (self.sql or "").upper().startswith("CREATE VIRTUAL")
        return self.kind == "table" and ordinary and not self.name.startswith("sqlite_")


def _with_others(names: set[str], schema: Sequence[_Object], *, changes: bool) -> set[str]:
    """Return names with those that views among them read; with ``changes`` also those that change with them."""
    known = {sql.normalize(item.name) for item in schema if item.is_table}
    found, size = set(names), -1
    while len(found) > size:
        size = len(found)
        for item in schema:
            tokens = [*sql.tokens(item.sql or "")]
            words = {sql.normalize(token.text) for token in tokens}
            own, table = sql.normalize(item.name), sql.normalize(item.table)
            if (item.kind == "view" and own in found) or (changes and item.kind == "trigger" and table in found):
                found |= words
            elif changes and item.is_table and words & found & known and _ACTIONS & {token.word for token in tokens}:
                found.add(own)
    return found


def _table(stream: ClientStream, name: str, schema: Sequence[_Object], *, content: bool) -> Table:
    """Read a table."""
    columns = [str(row[0]) for row in _rows(stream, _COLUMNS.format(sql.quote(name, "'")))]
    quoted = f"main.{sql.quote(name)}"
    ((count,),) = _rows(stream, f"SELECT count(*) FROM {quoted}")
    assert isinstance(count, int)
    made = Table(name=name, rows=count, columns=tuple(columns))
    if count > MOST_ROWS:
        return made
    rows = _rows(stream, f"SELECT {', '.join(map(sql.quote, columns))} FROM {quoted}")
    made = msgspec.structs.replace(made, digest=_digest(rows))
    if not content:
        return made
    own = [item for item in schema if sql.normalize(item.table) == sql.normalize(name) and item.sql]
    own.sort(key=lambda item: ["table", "index", "trigger"].index(item.kind))
    has_sequence = any(token.word == "AUTOINCREMENT" for token in sql.tokens(own[0].sql or ""))
    sequence = _rows(stream, _SEQUENCE.format(sql.quote(name, "'"))) if has_sequence else []
    return msgspec.structs.replace(
        made,
        definitions=tuple((item.kind, item.name, item.sql or "") for item in own),
        content=pack(frame_of(columns, rows)),
        sequence=sequence[0][0] if sequence else None,
    )


def _digest(rows: Sequence[Sequence[SqlValue]]) -> str:
    """Return a digest of rows in any order; '' if a value is of today, which is probably another one tomorrow."""
    if has_today(rows, datetime.now(UTC)):
        return ""
    lines = sorted(ascii([canonical(value, _TOLERANCE) for value in row]) for row in rows)
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def objects(connection: Connection) -> set[str]:
    """Return the names of the tables and views."""

    def read(database: Database) -> set[str]:
        with rolled_back(database) as stream:
            return {item.name for item in _schema(stream) if item.kind in ("table", "view")}

    return connection.with_database(read)


def _schema(stream: ClientStream) -> list[_Object]:
    return [msgspec.convert(row, _Object) for row in _rows(stream, _SCHEMA)]


def _rows(stream: ClientStream, query: str) -> list[tuple[SqlValue, ...]]:
    return Result(run_all(stream, [Stmt(query)])[0]).rows


# -- compare


def changed_data(exercise: Exercise, connection: Connection) -> list[str]:
    """Return a line for each table that an answer only reads and that is not as it was when the exercise was made."""
    read_only = [table for table in exercise.tables if not table.definitions]
    try:
        return [f"{line}: {AGAIN}" for line in _changes(read_only, connection)]
    except (StatementError, TransactionLost):
        return []


def is_at_start(exercise: Exercise, connection: Connection) -> bool:
    """Return True if the tables are those before an answer."""
    changed = [table for table in exercise.tables if table.definitions]
    return not (set(exercise.created) & objects(connection) or _changes(changed, connection))


def _changes(tables: Sequence[Table], connection: Connection) -> list[str]:
    """Return a line for each table that is not as before."""
    names = [sql.quote(table.name) for table in tables]
    present = {sql.normalize(table.name): table for table in tables_named(connection, names)} if names else {}
    return [line for table in tables for line in _differences(table, present.get(sql.normalize(table.name)))]


def _differences(made: Table, present: Table | None) -> Iterator[str]:
    """Yield what differs between a table and the one with which an exercise was made, at most one line."""
    if present is None:
        yield f"the table {made.name} is missing"
    elif sorted(map(str.lower, made.columns)) != sorted(map(str.lower, present.columns)):
        columns = [", ".join(table.columns) for table in (present, made)]
        yield f"{made.name} has the columns {columns[0]}, the exercise was made with {columns[1]}"
    elif made.rows != present.rows:
        yield f"{made.name} has {plural(present.rows, 'row')}, the exercise was made with {made.rows:,}"
    elif made.digest and present.digest and made.digest != present.digest:
        yield f"{made.name} has other values than those with which the exercise was made"


# -- restore


def restore(exercise: Exercise, connection: Connection) -> str:
    """Restore the tables of an exercise in one transaction; return what was done, without a point.

    Raise SessionError with what to do instead if its file contains none.
    """
    stored = [table for table in exercise.tables if table.definitions]
    if not stored and not exercise.created:
        raise _nothing_stored(exercise)
    if connection.transaction is Tx.OPEN:
        raise SessionError("your transaction is open and would block the reset", hint="run COMMIT or ROLLBACK first")
    dropped = put_back(connection, stored, exercise.created)
    names = [f"{table.name} ({plural(table.rows, 'row')})" for table in stored]
    done = [f"Restored {_list(names)}"] * bool(names)
    done += [f"{'dropped' if done else 'Dropped'} {_list(dropped)}"] * bool(dropped)
    return ", ".join(done) or "Nothing was changed"


@contextmanager
def restored_after_error(connection: Connection, texts: Sequence[str]) -> Iterator[None]:
    """Restore the tables that texts name, and drop new ones, if a solution has committed and an error follows."""
    saved, existing = tables_named(connection, texts, content=True), objects(connection)
    try:
        yield
    except BaseException:
        if connection.transaction is not Tx.OPEN:
            present = tables_named(connection, texts, content=True)
            changed = [table for table in saved if table.definitions and table not in present]
            put_back(connection, changed, objects(connection) - existing)
        raise


def _nothing_stored(exercise: Exercise) -> SessionError:
    """Return the error for an exercise without tables to restore, with what to do instead."""
    name, variable = exercise.name, exercise.variable
    if variable:
        hint = f"assign {variable} again, then run %check {name} {variable}"
        return SessionError(f"{name} has no tables to restore: its answer is the variable {variable}", hint=hint)
    if not exercise.probes[0].sql:
        hint = f"change the SQL below %%check {name}, and run its cell again"
        return SessionError(f"{name} has no tables to restore: its answer is a query", hint=hint)
    hint = f"%%check {name} undoes the statements below it; to undo others, {AGAIN}"
    return SessionError(f"the file of {name} contains no tables to restore", hint=hint)


def put_back(connection: Connection, tables: Sequence[Table], created: Collection[str] = ()) -> list[str]:
    """Replace tables by copies, and drop those that an answer ``created``; return the names of the dropped ones.

    Foreign keys are not checked meanwhile, so no row of another table is changed.
    """

    def run(database: Database) -> list[str]:
        other = database.sibling()
        try:
            with other.open_stream() as stream:
                run_all(stream, [Stmt("PRAGMA foreign_keys = OFF")])
                present = _schema(stream)
                names = {sql.normalize(name) for name in [*created, *(table.name for table in tables)]}
                away = [
                    item for item in present if sql.normalize(item.name) in names and item.kind in ("table", "view")
                ]
                statements = [Stmt(f"DROP {item.kind} {_quoted(item.name)}") for item in away]
                statements += [part for table in tables for part in _statements(table)]
                done = stream.run(statements, atomic=True)
                if done.error is not None:
                    raise done.error
                return [item.name for item in away if item.name in created]
        finally:
            other.close()

    dropped = connection.with_database(run)
    connection.schema.refresh()
    return dropped


def _statements(table: Table) -> Iterator[Stmt]:
    """Yield the statements that create a table with its rows, indexes and triggers."""
    (_, _, first), *others = table.definitions
    yield Stmt(first)
    rows = unpack(table.content).to_numpy(dtype=object).tolist()
    names = ", ".join(map(sql.quote, table.columns))
    size = max(1, _ARGUMENTS // max(1, len(table.columns)))
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        values = ", ".join(f"({', '.join(map(_place, row))})" for row in part)
        arguments = [value for row in part for value in row if _place(value) == "?"]
        yield statement(f"INSERT INTO {_quoted(table.name)} ({names}) VALUES {values}", arguments)
    if table.sequence is not None:
        text = sql.quote(table.name, "'")
        yield Stmt(f"DELETE FROM sqlite_sequence WHERE name = {text}")
        yield Stmt(f"INSERT INTO sqlite_sequence VALUES ({text}, {table.sequence})")
    for kind, name, text in others:
        yield Stmt(f"DROP {kind} IF EXISTS {_quoted(name)}")  # an answer may have made it for another table
        yield Stmt(text)


def _place(value: SqlValue) -> str:
    """Return a placeholder, or an infinity, which JSON cannot represent."""
    return ("9e999" if value > 0 else "-9e999") if isinstance(value, float) and math.isinf(value) else "?"


def _quoted(name: str) -> str:
    return f"main.{sql.quote(name)}"


def _list(names: Sequence[str]) -> str:
    """Return names with a comma or 'and' between them."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
