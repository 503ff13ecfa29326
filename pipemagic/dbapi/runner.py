"""Run the statements of a DB-API connection, in transactions by ``autocommit`` and ``isolation_level``."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pipemagic.client.readonly import find_write
from pipemagic.dbapi import many
from pipemagic.dbapi.errors import ProgrammingError, converting
from pipemagic.dbapi.links import Link
from pipemagic.dbapi.many import ManyRequest
from pipemagic.dbapi.rows import Rows
from pipemagic.errors import StatementError, UnknownOutcome
from pipemagic.hrana.messages import Stmt, StmtResult
from pipemagic.session.cell import Cell
from pipemagic.sql import ParsedStatement, split

LEGACY_TRANSACTION_CONTROL = -1
"""The value of ``autocommit`` for transactions that INSERT, UPDATE, DELETE and REPLACE begin."""

IsolationLevel = Literal["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"] | None


class Runner:
    """Runs statements on a link; a connection and its cursors share it.

    ``autocommit`` and ``isolation_level`` are those of `Connection`. The methods that run statements raise the errors
    of pipemagic, so that cursors can tell them apart.
    """

    def __init__(self, link: Link, autocommit: bool | int, isolation_level: IsolationLevel) -> None:
        self._autocommit = _checked_autocommit(autocommit)
        self._isolation_level = _checked_level(isolation_level)
        self._link: Link | None = link
        self._begins = False
        """Whether `begin` was called, and no statement has begun the transaction yet."""
        self._has_begun = False
        """Whether the last transaction is one of `begin`."""
        self._receiving: tuple[weakref.ref[object], Rows] | None = None
        """The rows that the server is still sending, and their cursor."""
        self._takes_records: bool | None = None

    # -- transactions

    @property
    def autocommit(self) -> bool | int:
        """See `Connection.autocommit`."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool | int) -> None:
        value = _checked_autocommit(value)
        if value is True:
            self._begins = False
            with converting():
                self._free_link().commit()  # also a transaction of BEGIN
        self._autocommit = value

    @property
    def isolation_level(self) -> IsolationLevel:
        """See `Connection.isolation_level`."""
        return self._isolation_level

    @isolation_level.setter
    def isolation_level(self, level: IsolationLevel) -> None:
        level = _checked_level(level)
        if level is None:
            self.commit()
        self._isolation_level = level

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; it can be one of a cell of the notebook."""
        return self.autocommit is False or self._open_link().in_transaction

    def begin(self) -> None:
        """Begin a transaction with the next statement that may write, unless one is open."""
        self._begins = self.isolation_level is not None and not self._open_link().in_unit

    def commit(self) -> None:
        """Commit the transaction, if one is open; with ``autocommit`` True only one of `begin`."""
        self._open_link()
        self._begins = False
        if self._ends_transaction:
            with converting():
                self._free_link().commit()

    def rollback(self) -> None:
        """Roll back the transaction, if `commit` would commit it; or acknowledge that it was lost."""
        link, self._begins = self._open_link(), False
        if self._ends_transaction or link.is_lost:
            with converting():
                if link.in_unit and self._receiving is not None and not link.has_temporary_tables:
                    self._abort_rows("rollback() ended the rows")  # receiving them all may take long
                self._free_link().rollback()

    @property
    def _ends_transaction(self) -> bool:
        return self.autocommit is not True or (self._has_begun and self._open_link().in_unit)

    def close(self) -> None:
        """Roll back the open transaction, and close the link."""
        if self._link is not None:
            with converting():
                self._abort_rows("the connection is closed")
                self._link.close()
            self._link = None

    # -- statements

    def check_open(self) -> None:
        """Raise ProgrammingError if the connection is closed."""
        self._open_link()

    def run(self, cell: Cell, *, atomic: bool = False) -> list[StmtResult]:
        """Run a statement once or several times, in a transaction if ``autocommit`` says so."""
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
            link.begin(self.isolation_level or "")
        elif not atomic:
            link.run(many.UNDO)
        return link.run(request.one_by_one(statement), atomic=atomic)

    def takes_records(self) -> bool:
        """Return True if the server reads records (`pipemagic.dbapi.many`), which is checked once."""
        if self._takes_records is None:
            self._takes_records = self._free_link().takes_records()
        return self._takes_records

    def rows(self, cell: Cell, cursor: object) -> Rows:
        """Run a query of a cursor, and return its rows before all of them are received."""
        rows = self._ready_link(cell.statements[0]).rows(cell)
        self._receiving = weakref.ref(cursor), rows
        return rows

    def run_script(self, script: str) -> None:
        """Run the statements of a script; first, a transaction is committed as the sqlite3 module does."""
        is_legacy = self.autocommit == LEGACY_TRANSACTION_CONTROL
        if is_legacy:
            self.commit()
        statements = split(script)
        if statements:
            cell = Cell(script, statements, tuple(Stmt(statement.text, want_rows=False) for statement in statements))
            first = next(filter(self._needs_unit, statements), None)
            link = self._free_link() if is_legacy or first is None else self._ready_link(first)
            link.run(cell)

    @contextmanager
    def all_or_none(self, *, one_request: bool) -> Iterator[bool]:
        """Undo what ran in a block that raises, if each statement commits by itself otherwise.

        Yield True if ``one_request`` can do that by itself.
        """
        link = self._free_link()
        commits_each = self.autocommit is True or (self.autocommit is not False and self.isolation_level is None)
        if not commits_each or self._begins or link.in_unit:
            yield False
        elif one_request and not link.in_transaction:
            yield True
        else:
            link.begin("IMMEDIATE")
            try:
                yield False
                link.commit()  # it fails for a deferred constraint, and the transaction would stay open
            except BaseException:
                link.rollback()
                raise

    def _ready_link(self, statement: ParsedStatement) -> Link:
        """Return the link, with a unit of work if the statement needs one."""
        link = self._free_link()
        if not link.in_unit:
            self._has_begun = False
            if self._needs_unit(statement):
                self._has_begun, self._begins = self._begins, False
                link.begin(self.isolation_level or "")
        return link

    def _needs_unit(self, statement: ParsedStatement) -> bool:
        if self.autocommit is False:
            return True
        if self._begins:
            return statement.keyword == "SAVEPOINT" or find_write(statement.text) is not None
        return self.autocommit is not True and self.isolation_level is not None and statement.changes_rows

    def _open_link(self) -> Link:
        if self._link is None:
            raise ProgrammingError("the connection is closed")
        return self._link

    def _abort_rows(self, why: str) -> None:
        """End the rows that are being received; fetching the rest raises an error."""
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
            receiving[1].abort(UnknownOutcome(why, hint="fetch all rows before"))

    def _free_link(self) -> Link:
        """Return the link, after rows that are being received have arrived: it takes one request at a time.

        They are dropped if their cursor no longer exists.
        """
        link = self._open_link()
        if self._receiving is not None:
            (cursor, rows), self._receiving = self._receiving, None
            if cursor() is None:
                rows.close()
            else:
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
