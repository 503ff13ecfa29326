"""A DB-API connection: transactions as in the sqlite3 module of Python 3.12."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Literal

from pipemagic.client.readonly import find_write
from pipemagic.dbapi import errors, many
from pipemagic.dbapi.cursor import Cursor
from pipemagic.dbapi.errors import ProgrammingError, converting
from pipemagic.dbapi.links import Link
from pipemagic.dbapi.many import ManyRequest
from pipemagic.dbapi.parameters import Parameters
from pipemagic.dbapi.rows import Rows
from pipemagic.errors import StatementError
from pipemagic.hrana.messages import Stmt, StmtResult
from pipemagic.session.cell import Cell
from pipemagic.sql import ParsedStatement, split

LEGACY_TRANSACTION_CONTROL = -1
"""The value of ``autocommit`` for transactions that INSERT, UPDATE, DELETE and REPLACE begin."""

IsolationLevel = Literal["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"] | None


class Connection:
    """A connection of PEP 249, with the attributes of one of the sqlite3 module that concern transactions.

    With ``autocommit`` True every statement commits by itself, unless `begin` or BEGIN was called. With False a
    transaction is always open: it begins with the next statement, and `commit` and `rollback` end it. With
    LEGACY_TRANSACTION_CONTROL a statement that changes rows begins a transaction, unless ``isolation_level`` is None.
    ``isolation_level`` is the mode of its BEGIN.

    Threads may share the module, not a connection.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, link: Link, *, autocommit: bool | int, isolation_level: IsolationLevel = "") -> None:
        self._link: Link | None = link
        self._autocommit = _checked_autocommit(autocommit)
        self._isolation_level = _checked_level(isolation_level)
        self._begins = False
        """Whether `begin` was called, and no statement has begun the transaction yet."""
        self._has_begun = False
        """Whether the last transaction is one of `begin`."""
        self._receiving: Rows | None = None
        """The rows that the server is still sending."""

    # -- transactions

    @property
    def autocommit(self) -> bool | int:
        """True, False or LEGACY_TRANSACTION_CONTROL; True commits an open transaction, False begins one."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool | int) -> None:
        value = _checked_autocommit(value)
        if value is True:
            self.commit()
        self._autocommit = value

    @property
    def isolation_level(self) -> IsolationLevel:
        """``""`` or DEFERRED, IMMEDIATE, EXCLUSIVE: the mode of BEGIN. None: no statement begins a transaction.

        None also commits an open one.
        """
        return self._isolation_level

    @isolation_level.setter
    def isolation_level(self, level: IsolationLevel) -> None:
        if level is None:
            self.commit()
        self._isolation_level = _checked_level(level)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; it can be one of a cell of the notebook."""
        return self._autocommit is False or self._open_link().in_transaction

    def begin(self) -> None:
        """Begin a transaction with the next statement that may write, unless one is open; for ``autocommit=True``.

        `commit` or `rollback` ends it. Nothing happens if ``isolation_level`` is None. On the notebook's connection it
        is a savepoint.
        """
        self._begins = self._isolation_level is not None and not self._open_link().in_unit

    def commit(self) -> None:
        """Commit the transaction, if one is open; with ``autocommit=True`` only one of `begin`.

        On the notebook's connection a transaction of a cell stays open.
        """
        link, self._begins = self._free_link(), False
        if self._ends_transaction:
            with converting():
                link.commit()

    def rollback(self) -> None:
        """Roll back the transaction, if `commit` would commit it; or acknowledge that it was lost."""
        link, self._begins = self._free_link(), False
        if self._ends_transaction or link.is_lost:
            with converting():
                link.rollback()

    @property
    def _ends_transaction(self) -> bool:
        return self._autocommit is not True or self._has_begun

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self.commit()
            except BaseException:
                self.rollback()
                raise
        else:
            self.rollback()

    # -- statements

    def cursor(self, *, stream: bool = False) -> Cursor:
        """Return a new cursor. With ``stream`` rows of queries are received while they are fetched."""
        self._open_link()
        return Cursor(self, stream=stream)

    def execute(self, sql: str, parameters: Parameters = (), /) -> Cursor:
        """Run a statement on a new cursor, and return that."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Parameters], /) -> Cursor:
        """Run a statement with each of some parameters on a new cursor, and return that."""
        return self.cursor().executemany(sql, parameters)

    def executescript(self, script: str, /) -> Cursor:
        """Run the statements of a script on a new cursor, and return that."""
        return self.cursor().executescript(script)

    def close(self) -> None:
        """Roll back the open transaction and close the connection; the notebook's own connection stays open."""
        if self._link is not None:
            with converting():
                self._free_link().close()
            self._link = None

    def check_open(self) -> None:
        """Raise ProgrammingError if the connection is closed."""
        self._open_link()

    def run(self, cell: Cell, *, atomic: bool = False) -> list[StmtResult]:
        """Run a statement once or several times, in a transaction if ``autocommit`` says so; for cursors."""
        return self._ready_link(cell.statements[0]).run(cell, atomic=atomic)

    def run_many(self, statement: ParsedStatement, request: ManyRequest, *, atomic: bool) -> list[StmtResult]:
        """Run a request of executemany; rows that cannot be inserted together are inserted one by one."""
        began = not self._free_link().in_unit
        link = self._ready_link(statement)
        if not request.rows:
            return link.run(request.cell(statement), atomic=atomic)
        cell = request.cell(statement) if atomic else request.enclosed(statement)
        try:
            return link.run(cell, atomic=atomic, times=len(request.rows))
        except StatementError as error:
            if error.code.startswith("SQLITE_BUSY") or not (atomic or link.in_transaction):
                raise
        if not atomic and began:
            link.rollback()
            link.begin(self._isolation_level or "")
        elif not atomic:
            link.run(many.UNDO)
        return link.run(request.one_by_one(statement), atomic=atomic)

    def takes_records(self) -> bool:
        """Return True if the server reads records (`pipemagic.dbapi.many`), which is checked once; for cursors."""
        if self._takes_records is None:
            self._takes_records = self._free_link().takes_records()
        return self._takes_records

    _takes_records: bool | None = None

    def rows(self, cell: Cell) -> Rows:
        """Run a query, and return its rows before all of them are received; for cursors."""
        self._receiving = self._ready_link(cell.statements[0]).rows(cell)
        return self._receiving

    def run_script(self, script: str) -> None:
        """Run the statements of a script; first, a transaction is committed as the sqlite3 module does."""
        if self._autocommit == LEGACY_TRANSACTION_CONTROL:
            self.commit()
        statements = split(script)
        if statements:
            cell = Cell(script, statements, tuple(Stmt(statement.text) for statement in statements))
            link = self._ready_link(statements[0]) if self._autocommit is False else self._free_link()
            link.run(cell)

    @contextmanager
    def all_or_none(self, *, one_request: bool) -> Iterator[bool]:
        """Undo what ran in a block that raises, if each statement commits by itself otherwise; for cursors.

        Yield True if ``one_request`` can do that by itself.
        """
        link = self._free_link()
        commits_each = self._autocommit is True or (self._autocommit is not False and self._isolation_level is None)
        if not commits_each or self._begins or link.in_unit:
            yield False
        elif one_request and not link.in_transaction:
            yield True
        else:
            link.begin("IMMEDIATE")
            try:
                yield False
            except BaseException:
                link.rollback()
                raise
            link.commit()

    def _ready_link(self, statement: ParsedStatement) -> Link:
        """Return the link, with a unit of work if the statement needs one."""
        link = self._free_link()
        if not link.in_unit and self._needs_unit(statement):
            self._has_begun, self._begins = self._begins, False
            link.begin(self._isolation_level or "")
        return link

    def _needs_unit(self, statement: ParsedStatement) -> bool:
        if self._autocommit is False:
            return True
        if self._begins:
            return statement.keyword == "SAVEPOINT" or find_write(statement.text) is not None
        return self._autocommit is not True and self._isolation_level is not None and statement.changes_rows

    def _open_link(self) -> Link:
        if self._link is None:
            raise ProgrammingError("the connection is closed")
        return self._link

    def _free_link(self) -> Link:
        """Return the link, after rows that are being received have arrived: it takes one request at a time."""
        link = self._open_link()
        if self._receiving is not None:
            rows, self._receiving = self._receiving, None
            rows.receive()
        return link


def _checked_autocommit(value: bool | int) -> bool | int:
    if isinstance(value, bool) or (isinstance(value, int) and value == LEGACY_TRANSACTION_CONTROL):
        return value
    raise ValueError("autocommit must be True, False, or LEGACY_TRANSACTION_CONTROL")


def _checked_level(level: IsolationLevel) -> IsolationLevel:
    if level is not None and not isinstance(level, str):
        raise TypeError("isolation_level must be str or None")
    if level is not None and level.upper() not in ("", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"):
        raise ValueError("isolation_level string must be '', 'DEFERRED', 'IMMEDIATE', or 'EXCLUSIVE'")
    return level
