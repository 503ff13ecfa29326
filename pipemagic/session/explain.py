"""Query plans (``--explain``) and descriptions (``--dry-run``) of a cell's statements, which are not run.

A PRAGMA is not sent: some take effect when they are prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipemagic import sql
from pipemagic.client.batch_runner import result_of
from pipemagic.client.statement_errors import statement_error
from pipemagic.client.stream import Dialect
from pipemagic.errors import StatementError
from pipemagic.explore.plans import Described, DryRun, QueryPlan, StatementPlan, plan_of
from pipemagic.hrana.messages import Describe, DescribeResponse, Entry, ErrorEntry, Execute, Request, Stmt
from pipemagic.hrana.values import Blob, Float, Integer, Null, Text, decode
from pipemagic.session import messages
from pipemagic.session.cell import Cell
from pipemagic.session.connection import Connection
from pipemagic.session.messages import HintNames
from pipemagic.sql import ParsedStatement

_NOT_EXPLAINED = {
    "PRAGMA": "not sent: some PRAGMAs take effect when they are prepared",
    "EXPLAIN": "an EXPLAIN is not explained",
}
_PLAN = "EXPLAIN QUERY PLAN "
_FRESH = Execute(Stmt("SELECT 1 FROM sqlite_master LIMIT 0"))
"""Sent ahead: SQLite notices that another connection changed the schema only when a statement runs."""

_TYPES = {Null: "NULL", Integer: "INTEGER", Float: "REAL", Text: "TEXT", Blob: "BLOB"}


def explain(connection: Connection, cell: Cell) -> QueryPlan:
    """Return the plan of each statement, with its arguments."""
    cell = connection.with_dates(cell)
    plans = iter(_entries(connection, [_explained(cell, at, _PLAN) for at in _indexes(cell)]))
    names = HintNames(connection.schema, saved=cell.saved)
    return QueryPlan(tuple(_plan(cell, at, plans, names) for at in range(len(cell.statements))))


def describe(connection: Connection, cell: Cell) -> DryRun:
    """Return the parameters, columns and effect of each statement.

    A server without ``describe`` still reports errors, by EXPLAIN.
    """
    cell = connection.with_dates(cell)
    has_describe = connection.database.dialect is not Dialect.SEED
    requests: list[Request] = [
        Describe(cell.sent(at)) if has_describe else _explained(cell, at, "EXPLAIN ") for at in _indexes(cell)
    ]
    entries = iter(_entries(connection, requests))
    names = HintNames(connection.schema, saved=cell.saved)
    return DryRun(tuple(_described(cell, at, entries, names) for at in range(len(cell.statements))))


def _indexes(cell: Cell) -> list[int]:
    """Return the indexes of the statements that are explained."""
    return [at for at, statement in enumerate(cell.statements) if statement.keyword not in _NOT_EXPLAINED]


def _explained(cell: Cell, at: int, how: str) -> Execute:
    return Execute(Stmt(how + cell.sent(at), named_args=cell.stmts[at].named_args))


def _entries(connection: Connection, requests: Sequence[Request]) -> list[Entry]:
    return connection.request([_FRESH, *requests])[1:] if requests else []


def _rows(entry: Entry, statement: str) -> list[list[object]]:
    return [[decode(value) for value in row] for row in result_of(entry, statement).rows]


def _plan(cell: Cell, at: int, plans: Iterator[Entry], names: HintNames) -> StatementPlan:
    statement = cell.statements[at]
    if statement.keyword in _NOT_EXPLAINED:
        return StatementPlan(statement.text, problem=_NOT_EXPLAINED[statement.keyword])
    try:
        return plan_of(cell.sent(at), _rows(next(plans), _PLAN + cell.sent(at)))
    except StatementError as error:
        problem, hint = _problem(cell, at, _without_prefix(error), names)
        return StatementPlan(statement.text, problem=problem, hint=hint)


def _without_prefix(error: StatementError) -> StatementError:
    """Return the error of a statement behind EXPLAIN as one of the statement itself."""
    offset = None if error.offset is None else error.offset - len(_PLAN)
    return error.replace(sql=error.sql.removeprefix(_PLAN), offset=offset)


def _described(cell: Cell, at: int, entries: Iterator[Entry], names: HintNames) -> Described:
    statement = cell.statements[at]
    arguments = tuple((argument.name, _TYPES[type(argument.value)]) for argument in cell.stmts[at].named_args or ())
    if statement.keyword in _NOT_EXPLAINED:
        return Described(statement.text, arguments, problem=_NOT_EXPLAINED[statement.keyword])
    entry = next(entries)
    if isinstance(entry, ErrorEntry):
        problem, hint = _problem(cell, at, statement_error(entry.error, cell.sent(at)), names)
        return Described(statement.text, arguments, problem=problem, hint=hint)
    if not isinstance(entry.response, DescribeResponse):
        return Described(statement.text, arguments, None, _effect(statement, reads_only=statement.only_reads))
    result = entry.response.result
    columns = tuple((sql.without_comments(col.name or "", cell.sent(at)), col.decltype or "") for col in result.cols)
    return Described(statement.text, arguments, columns, _effect(statement, reads_only=result.is_readonly))


def _effect(statement: ParsedStatement, *, reads_only: bool) -> str:
    if statement.controls_transaction:
        return "begins or ends a transaction"
    if statement.keyword in ("ATTACH", "DETACH"):
        return f"{statement.keyword.lower()}es a database file"
    if statement.changes_schema:
        return "changes the schema"
    if reads_only:
        return "read-only"
    return f"writes to {statement.changed_table}" if statement.changed_table else "writes"


def _problem(cell: Cell, at: int, error: StatementError, names: HintNames) -> tuple[str, str]:
    """Return the error of a statement, and a hint: perhaps an earlier statement of the cell changes the schema."""
    makers = [number for number in range(at) if cell.statements[number].changes_schema]
    if not makers:
        explained = messages.explained(error, names)
        return explained.message, explained.hint.replace("\n", "; ")
    maker = messages.span(cell, makers[0], makers[-1] + 1)
    return f"{error.message}; it may depend on {maker}, which did not run", ""
