"""Questions about the statements of a cell: their plans, and what they would do. None of them is run.

A PRAGMA is not even asked about: some take effect when they are only looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipemagic.client.heads import TRANSACTION
from pipemagic.client.running import result_of, statement_error
from pipemagic.client.stream import Dialect
from pipemagic.errors import StatementError
from pipemagic.explore.dry_run import SCHEMA, Described, DryRun, Touched, touched
from pipemagic.explore.plans import Plan, StatementPlan, plan_of
from pipemagic.hrana.messages import (
    Describe,
    DescribeResponse,
    DescribeResult,
    Entry,
    ErrorEntry,
    Execute,
    OkEntry,
    Request,
    Stmt,
)
from pipemagic.hrana.values import Blob, Float, Integer, Null, Text, decode
from pipemagic.session import places
from pipemagic.session.cells import Cell
from pipemagic.session.connection import Connection
from pipemagic.session.kinds import verb
from pipemagic.session.messages import span
from pipemagic.sql import Statement

_PRAGMA = "a PRAGMA is not asked about: some take effect when they are only looked at"
_EXPLAIN = "it explains another statement itself"
_FRESH = Execute(Stmt("SELECT 1 FROM sqlite_master LIMIT 0"))
"""Sent ahead: only a statement that runs has SQLite notice that others changed the schema meanwhile."""

_TYPES = {Null: "NULL", Integer: "INTEGER", Float: "REAL", Text: "TEXT", Blob: "BLOB"}
_CHANGES_SCHEMA = frozenset({"CREATE", "DROP", "ALTER"})


def explain(connection: Connection, cell: Cell) -> Plan:
    """Ask for the plan of each statement, with its arguments."""
    asked = [at for at, statement in enumerate(cell.statements) if not _refused(statement)]
    entries = dict(
        zip(asked, _ask(connection, [_explained(cell, at, "EXPLAIN QUERY PLAN ") for at in asked]), strict=True)
    )
    return Plan(tuple(_plan(cell, at, entries.get(at)) for at in range(len(cell.statements))))


def describe(connection: Connection, cell: Cell) -> DryRun:
    """Ask what each statement takes, gives, reads and writes."""
    asked = [at for at, statement in enumerate(cell.statements) if not _refused(statement)]
    programs: list[Request] = [_explained(cell, at, "EXPLAIN ") for at in asked]
    describes = connection.database.dialect is not Dialect.SEED
    descriptions: list[Request] = [Describe(cell.sent(at)) for at in asked] if describes else []
    entries = _ask(connection, [Execute(Stmt(SCHEMA)), *programs, *descriptions]) if asked else []
    tables = {row[0]: str(row[1]) for row in _rows(entries[0])} if entries else {}
    told = dict(zip(asked, entries[1:], strict=False))
    more = dict(zip(asked, entries[1 + len(asked) :], strict=False))
    return DryRun(
        tuple(
            _described(cell, at, told.get(at), more.get(at), tables)
            for at in range(len(cell.statements))
        )
    )  # fmt: skip


def _refused(statement: Statement) -> str:
    """Say why a statement is not asked about; '' if it is."""
    return {"PRAGMA": _PRAGMA, "EXPLAIN": _EXPLAIN}.get(statement.keyword, "")


def _explained(cell: Cell, at: int, how: str) -> Execute:
    stmt = cell.stmts[at]
    return Execute(Stmt(how + cell.sent(at), named_args=stmt.named_args))


def _ask(connection: Connection, requests: Sequence[Request]) -> list[Entry]:
    return connection.ask([_FRESH, *requests])[1:] if requests else []


def _rows(entry: Entry) -> list[list[object]]:
    return [[decode(value) for value in row] for row in result_of(entry).rows]


def _plan(cell: Cell, at: int, entry: Entry | None) -> StatementPlan:
    text = cell.statements[at].text
    if entry is None:
        return StatementPlan(text, problem=_refused(cell.statements[at]))
    try:
        return plan_of(cell.sent(at), _rows(entry))
    except StatementError as error:
        return StatementPlan(text, problem=_problem(cell, at, error))


def _described(
    cell: Cell, at: int, program: Entry | None, description: Entry | None, tables: dict[object, str]
) -> Described:
    statement = cell.statements[at]
    arguments = tuple((one.name, _TYPES[type(one.value)]) for one in cell.stmts[at].named_args or ())
    if program is None:
        return Described(statement.text, arguments, problem=_refused(statement))
    try:
        found = touched(_rows(program), tables)
        about = None if description is None else _description(description)
    except StatementError as error:
        return Described(statement.text, arguments, problem=_problem(cell, at, error))
    columns = None if about is None else tuple((col.name or "", col.decltype or "") for col in about.cols)
    return Described(statement.text, arguments, columns, found.reads, found.writes, _does(statement, found))


def _description(entry: Entry) -> DescribeResult | None:
    if isinstance(entry, ErrorEntry):
        raise statement_error(entry.error)
    return (
        entry.response.result if isinstance(entry, OkEntry) and isinstance(entry.response, DescribeResponse) else None
    )


def _does(statement: Statement, found: Touched) -> str:
    if statement.keyword in TRANSACTION:
        return "begins or ends a transaction"
    if statement.keyword in ("ATTACH", "DETACH"):
        return f"{statement.keyword.lower()}es a database file"
    if found.schema:
        return "changes the schema"
    return "writes" if found.writes else "only reads"


def _problem(cell: Cell, at: int, error: StatementError) -> str:
    """Say what is wrong with a statement; it may need what an earlier one of the cell would have made."""
    message = places.read(error.message, cell.sent(at)).message  # without places in what was put around it
    makers = [number for number in range(at) if verb(cell.statements[number]) in _CHANGES_SCHEMA]
    if not makers:
        return message
    return f"{message}; it may need what {span(cell, makers[0], makers[-1] + 1)} would make, which was not run"
