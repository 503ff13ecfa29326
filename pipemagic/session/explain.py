"""EXPLAIN and dry runs: the plans of a cell's statements, and what they would do. None of them is run.

A PRAGMA is not explained: some take effect when they are only prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipemagic.client.batch_runner import result_of
from pipemagic.client.statement_errors import statement_error
from pipemagic.client.stream import Dialect
from pipemagic.errors import StatementError
from pipemagic.explore.dry_run import SCHEMA, Described, DryRun, Touched, touched
from pipemagic.explore.plans import Plan, StatementPlan, plan_of
from pipemagic.hrana.messages import Describe, DescribeResponse, Entry, ErrorEntry, Execute, Request, Stmt
from pipemagic.hrana.values import Blob, Float, Integer, Null, Text, decode
from pipemagic.session.cell import Cell
from pipemagic.session.connection import Connection
from pipemagic.session.messages import span
from pipemagic.sql import ParsedStatement

_NOT_EXPLAINED = {
    "PRAGMA": "a PRAGMA is not asked about: some take effect when they are only looked at",
    "EXPLAIN": "it explains another statement itself",
}
_PLAN, _PROGRAM = "EXPLAIN QUERY PLAN ", "EXPLAIN "
_FRESH = Execute(Stmt("SELECT 1 FROM sqlite_master LIMIT 0"))
"""Sent ahead: only a statement that runs has SQLite notice that others changed the schema meanwhile."""

_TYPES = {Null: "NULL", Integer: "INTEGER", Float: "REAL", Text: "TEXT", Blob: "BLOB"}


def explain(connection: Connection, cell: Cell) -> Plan:
    """Return the plan of each statement, with its arguments."""
    plans = iter(_ask(connection, [_explained(cell, at, _PLAN) for at in _indexes(cell)]))
    return Plan(tuple(_plan(cell, at, plans) for at in range(len(cell.statements))))


def describe(connection: Connection, cell: Cell) -> DryRun:
    """Return what each statement takes, returns, reads and writes."""
    indexes = _indexes(cell)
    requests: list[Request] = [_explained(cell, at, _PROGRAM) for at in indexes]
    if connection.database.dialect is not Dialect.SEED:
        requests += [Describe(cell.sent(at)) for at in indexes]
    entries = _ask(connection, [Execute(Stmt(SCHEMA)), *requests] if requests else [])
    tables = {row[0]: str(row[1]) for row in _rows(entries[0], SCHEMA)} if entries else {}
    programs, descriptions = iter(entries[1 : 1 + len(indexes)]), iter(entries[1 + len(indexes) :])
    statements = range(len(cell.statements))
    return DryRun(tuple(_described(cell, at, programs, descriptions, tables) for at in statements))


def _indexes(cell: Cell) -> list[int]:
    """Return the indexes of the statements that are explained."""
    return [at for at, statement in enumerate(cell.statements) if statement.keyword not in _NOT_EXPLAINED]


def _explained(cell: Cell, at: int, how: str) -> Execute:
    return Execute(Stmt(how + cell.sent(at), named_args=cell.stmts[at].named_args))


def _ask(connection: Connection, requests: Sequence[Request]) -> list[Entry]:
    return connection.ask([_FRESH, *requests])[1:] if requests else []


def _rows(entry: Entry, sql: str) -> list[list[object]]:
    return [[decode(value) for value in row] for row in result_of(entry, sql).rows]


def _plan(cell: Cell, at: int, plans: Iterator[Entry]) -> StatementPlan:
    statement = cell.statements[at]
    if statement.keyword in _NOT_EXPLAINED:
        return StatementPlan(statement.text, problem=_NOT_EXPLAINED[statement.keyword])
    try:
        return plan_of(cell.sent(at), _rows(next(plans), _PLAN + cell.sent(at)))
    except StatementError as error:
        return StatementPlan(statement.text, problem=_problem(cell, at, error))


def _described(
    cell: Cell, at: int, programs: Iterator[Entry], descriptions: Iterator[Entry], tables: dict[object, str]
) -> Described:
    statement = cell.statements[at]
    arguments = tuple((one.name, _TYPES[type(one.value)]) for one in cell.stmts[at].named_args or ())
    if statement.keyword in _NOT_EXPLAINED:
        return Described(statement.text, arguments, problem=_NOT_EXPLAINED[statement.keyword])
    program, description, sent = next(programs), next(descriptions, None), cell.sent(at)
    try:
        found, columns = touched(_rows(program, _PROGRAM + sent), tables), _columns(description, sent)
    except StatementError as error:
        return Described(statement.text, arguments, problem=_problem(cell, at, error))
    return Described(statement.text, arguments, columns, found.reads, found.writes, _does(statement, found))


def _columns(description: Entry | None, sql: str) -> tuple[tuple[str, str], ...] | None:
    """Return the columns with their declared types; None if the server does not describe statements."""
    if isinstance(description, ErrorEntry):
        raise statement_error(description.error, sql)
    if description is None or not isinstance(description.response, DescribeResponse):
        return None
    return tuple((col.name or "", col.decltype or "") for col in description.response.result.cols)


def _does(statement: ParsedStatement, found: Touched) -> str:
    if statement.controls_transaction:
        return "begins or ends a transaction"
    if statement.keyword in ("ATTACH", "DETACH"):
        return f"{statement.keyword.lower()}es a database file"
    if found.schema:
        return "changes the schema"
    return "writes" if found.writes else "only reads"


def _problem(cell: Cell, at: int, error: StatementError) -> str:
    """Return the problem of a statement; it may need what an earlier one of the cell would have made."""
    makers = [number for number in range(at) if cell.statements[number].changes_schema]
    if not makers:
        return error.message
    return f"{error.message}; it may need what {span(cell, makers[0], makers[-1] + 1)} would make, which was not run"
