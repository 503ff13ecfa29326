"""A DB-API connection: transactions as in the sqlite3 module of Python 3.12."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from pipemagic.dbapi import errors
from pipemagic.dbapi.cursor import Cursor
from pipemagic.dbapi.links import Link
from pipemagic.dbapi.parameters import Parameters
from pipemagic.dbapi.runner import IsolationLevel, Runner


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
        self._runner = Runner(link, autocommit, isolation_level)

    # -- transactions

    @property
    def autocommit(self) -> bool | int:
        """True, False or LEGACY_TRANSACTION_CONTROL; True commits an open transaction, False begins one."""
        return self._runner.autocommit

    @autocommit.setter
    def autocommit(self, value: bool | int) -> None:
        self._runner.autocommit = value

    @property
    def isolation_level(self) -> IsolationLevel:
        """``""`` or DEFERRED, IMMEDIATE, EXCLUSIVE: the mode of BEGIN. None: no statement begins a transaction.

        None also commits an open one.
        """
        return self._runner.isolation_level

    @isolation_level.setter
    def isolation_level(self, level: IsolationLevel) -> None:
        self._runner.isolation_level = level

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; it can be one of a cell of the notebook."""
        return self._runner.in_transaction

    def begin(self) -> None:
        """Begin a transaction with the next statement that may write, unless one is open; for ``autocommit=True``.

        `commit` or `rollback` ends it. Nothing happens if ``isolation_level`` is None. On the notebook's connection it
        is a savepoint.
        """
        self._runner.begin()

    def commit(self) -> None:
        """Commit the transaction, if one is open; with ``autocommit=True`` only one of `begin`.

        On the notebook's connection a transaction of a cell stays open.
        """
        self._runner.commit()

    def rollback(self) -> None:
        """Roll back the transaction, if `commit` would commit it; or acknowledge that it was lost."""
        self._runner.rollback()

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
        self._runner.check_open()
        return Cursor(self, self._runner, stream=stream)

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
        self._runner.close()
