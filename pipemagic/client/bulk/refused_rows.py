"""Find the row of a frame that a constraint refuses, without changing anything.

SQLite does not say which row failed. The rows are added again with OR FAIL, which keeps those before the failed one
until the transaction is rolled back: their number is the position of the failed row. That takes no longer than the
first attempt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pipemagic.client.arguments import statement
from pipemagic.client.batch_runner import result_of
from pipemagic.client.bulk.load_plan import LoadPlan
from pipemagic.client.bulk.schema_objects import ANY, MAYBE_TEXT, TEXT, rows
from pipemagic.client.result import Result
from pipemagic.client.statement_errors import statement_error
from pipemagic.errors import PipemagicError
from pipemagic.hrana.messages import Entry, ErrorEntry, Execute, OkEntry, Stmt
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import folded, quote, significant, unquote

if TYPE_CHECKING:
    from pipemagic.client.bulk.batches import RowBatch
    from pipemagic.client.database import Database

_FAILED = re.compile(r"\A(UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed(?:: (.+))?\Z", re.DOTALL)
_INSERT = re.compile(r"\AINSERT (?:OR ABORT )?INTO ")

_WITHOUT_PARENTS = "PRAGMA defer_foreign_keys = ON"
"""The rows before the failed one are kept even if their foreign keys refer to nothing; sqld refuses this."""


class RefusedRow(NamedTuple):
    """The number of a row, from 1, the values that a constraint is about, as text, and what they conflict with."""

    number: int
    values: str = ""
    hint: str = ""

    def message(self, message: str) -> str:
        """Return the message of the database with the row in front."""
        return f"row {self.number}{f' ({self.values})' if self.values else ''}: {message}"


def refused_row(database: Database, plan: LoadPlan, staging: str, message: str) -> RefusedRow | None:
    """Return the first staged row that a constraint of the table refuses; None if that is not certain.

    The rows of a copy, whose plan has no columns of a frame, have no numbers that the user knows.
    """
    match = _FAILED.match(message)
    if match is None or not plan.columns or plan.rowid is None:
        return None
    with suppress(PipemagicError, KeyboardInterrupt):  # the error of the load is more important
        if match[1] == "FOREIGN KEY":
            return _without_parent(database, plan, staging)
        number = _first_failed(database, plan.insert(staging), (), message)
        if number is None or not _is_refused(database, plan, staging, number, message):
            return None
        names = _columns_of(match[1], match[2] or "", plan, plan.table)
        hint = _conflict(database, plan, staging, number, names) if match[1] == "UNIQUE" and names else ""
        return RefusedRow(number, _shown(plan, number, names), hint)
    return None


def refused_row_of_batch(
    database: Database, plan: LoadPlan, staging: str, batch: RowBatch, message: str
) -> RefusedRow | None:
    """Return the row of a batch that a constraint of the staging table refuses; None if that is not certain."""
    match = _FAILED.match(message)
    if match is None or match[1] == "FOREIGN KEY" or not plan.columns:
        return None
    with suppress(PipemagicError, KeyboardInterrupt):
        number = _first_failed(database, batch.sql, batch.args, message)
        if number is not None:
            names = _columns_of(match[1], match[2] or "", plan, staging)
            return RefusedRow(batch.start + number, _shown(plan, batch.start + number, names))
    return None


def _first_failed(database: Database, insert: str, args: Sequence[SqlValue], message: str) -> int | None:
    """Return the number of the row that fails in an INSERT, from 1; None if it does not fail with that message."""
    again = _INSERT.sub("INSERT OR FAIL INTO ", insert, count=1)
    insertion, texts = statement(again, list(args) or None), ("BEGIN IMMEDIATE", _WITHOUT_PARENTS)
    stmts = [*map(Stmt, texts), insertion, Stmt("SELECT changes()"), Stmt("ROLLBACK")]
    with database.open_stream() as stream:
        begun, _, failed, counted, _ = stream.send([Execute(stmt) for stmt in stmts])
    if not isinstance(begun, OkEntry) or not isinstance(failed, ErrorEntry):
        return None
    if _bare(statement_error(failed.error, again).message, insert) != _bare(message, insert):
        return None  # another constraint fails first: one with ON CONFLICT IGNORE or REPLACE
    return _number(counted) + 1


def _is_refused(database: Database, plan: LoadPlan, staging: str, number: int, message: str) -> bool:
    """Return True if the rows before this one can be added, but not together with it.

    This is the proof: after the error of a trigger, SQLite's count of rows is another one.
    """
    inserts = [plan.insert(staging, number - 1), plan.insert(staging, number)]
    stmts = [Stmt(text) for insert in inserts for text in ("BEGIN IMMEDIATE", _WITHOUT_PARENTS, insert, "ROLLBACK")]
    with database.open_stream() as stream:
        entries = stream.send([Execute(stmt) for stmt in stmts])
    added, refused = entries[2], entries[6]
    if not isinstance(added, OkEntry) or not isinstance(refused, ErrorEntry):
        return False
    return statement_error(refused.error, inserts[1]).message == message


def _bare(message: str, insert: str) -> str:
    """Return a message without the table into which the rows were inserted: a staging table has another name."""
    return message.replace(unquote(significant(_INSERT.sub("", insert, count=1))[0].text), "")


def _number(entry: Entry) -> int:
    ((number,),) = Result(result_of(entry)).rows
    return int(number or 0)


def _columns_of(kind: str, text: str, plan: LoadPlan, table: str) -> list[str]:
    """Return the columns of the frame that explain the message of a constraint of a table."""
    if kind == "NOT NULL":
        return []
    if kind == "CHECK":
        words = {folded(unquote(token.text)) for token in significant(text) if token.kind in ("word", "quoted")}
        return [name for name in plan.names if folded(name) in words]
    columns = {folded(name) for name in text.split(", ")}
    names = [name for name in plan.names if folded(f"{table}.{name}") in columns]
    return names if len(names) == len(columns) else []


def _shown(plan: LoadPlan, number: int, names: Sequence[str]) -> str:
    values = {column.name: next(iter(column.values.cut(number - 1, number).items())) for column in plan.columns}
    return ", ".join(f"{name} = {_literal(values[name])}" for name in names)


def _literal(value: SqlValue) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return repr(value if not isinstance(value, str) or len(value) <= 40 else f"{value[:39]}…")


def _conflict(database: Database, plan: LoadPlan, staging: str, number: int, names: Sequence[str]) -> str:
    """Return which row has the same values: an earlier one of the frame, or one of the table; '' if none is found."""
    rowid = plan.rowid
    if rowid is None or plan.into != "append":
        return ""
    same = " AND ".join(f"a.{quote(name)} = b.{quote(name)} COLLATE BINARY" for name in names)
    of_frame = f"SELECT min(a.{rowid}) FROM {quote(staging)} AS a, {quote(staging)} AS b"
    of_table = f"SELECT count(*) FROM {quote(plan.table)} AS a, {quote(staging)} AS b"
    query = f"SELECT ({of_frame} WHERE b.{rowid} = ?1 AND {same}), ({of_table} WHERE b.{rowid} = ?1 AND {same})"
    ((first, there),) = rows(database, query, number, types=(ANY, ANY))
    if isinstance(first, int) and first < number:
        return f"row {first} has the same {' and '.join(names)}"
    return f"{plan.table} has a row with the same {' and '.join(names)}" if there else ""


def _without_parent(database: Database, plan: LoadPlan, staging: str) -> RefusedRow | None:
    """Return the first staged row with values that refer to no row of another table."""
    query = 'SELECT id, "table", "from", "to" FROM temp.pragma_foreign_key_list(?) ORDER BY id, seq'
    references: dict[object, list[tuple[str, str, str | None]]] = {}
    for key, parent, column, target in rows(database, query, plan.table, types=(ANY, TEXT, TEXT, MAYBE_TEXT)):
        references.setdefault(key, []).append((parent, column, target))
    keys = [_with_targets(database, pairs) for pairs in references.values()]
    missing = [row for pairs in keys if (row := _orphan(database, plan, staging, pairs)) is not None]
    return min(missing, default=None)


def _with_targets(database: Database, pairs: Sequence[tuple[str, str, str | None]]) -> list[tuple[str, str, str]]:
    """Return the columns of a foreign key and the columns that they refer to; without names, the primary key."""
    query = "SELECT name FROM temp.pragma_table_info(?) WHERE pk > 0 ORDER BY pk"
    primary = [name for (name,) in rows(database, query, pairs[0][0], types=(TEXT,))]
    targets = [target for *_, target in pairs if target is not None] or primary
    return [(parent, column, target) for (parent, column, _), target in zip(pairs, targets, strict=False)]


def _orphan(
    database: Database, plan: LoadPlan, staging: str, pairs: Sequence[tuple[str, str, str]]
) -> RefusedRow | None:
    """Return the first staged row without a row that its foreign key refers to; None if that is not certain."""
    rowid, sources = plan.rowid, {folded(name): name for name in plan.names}
    parents = {folded(parent) for parent, *_ in pairs}
    itself = folded(plan.table) in parents  # its new rows may be parents
    if rowid is None or itself or not pairs or not all(folded(column) in sources for _, column, _ in pairs):
        return None
    parent = pairs[0][0]
    same = " AND ".join(f"p.{quote(target)} = s.{quote(column)}" for _, column, target in pairs)
    not_null = " AND ".join(f"s.{quote(column)} IS NOT NULL" for _, column, _ in pairs)
    query = (
        f"SELECT min(s.{rowid}) FROM {quote(staging)} AS s "
        f"WHERE {not_null} AND NOT EXISTS (SELECT 1 FROM {quote(parent)} AS p WHERE {same})"
    )
    ((number,),) = rows(database, query, types=(ANY,))
    if not isinstance(number, int):
        return None
    names = [sources[folded(column)] for _, column, _ in pairs]
    description = " and ".join(f"this {target}" for *_, target in pairs)
    return RefusedRow(number, _shown(plan, number, names), f"{parent} has no row with {description}")
