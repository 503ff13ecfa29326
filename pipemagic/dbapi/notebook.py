"""The notebook's connection, for scripts and libraries: ``pipemagic.current()``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from pipemagic.dbapi.connection import Connection
from pipemagic.dbapi.links import NotebookLink
from pipemagic.dbapi.runner import IsolationLevel
from pipemagic.hrana.stream import Tx
from pipemagic.session.cell import parse_cell

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.session import Session
    from pipemagic.session.connection import Connection as SessionConnection

IN_PROGRAMS = "pipemagic.connect(ADDRESS, token=...) connects a program, create_engine('sqlite+pipemagic://HOST') too"


class CurrentConnection:
    """A connection of the notebook: the one that was current when `current` was called.

    It stays the same when a cell changes the current connection. Statements run on the server-side connection of the
    cells, so they belong to a transaction that a cell began, and see its temporary tables. They wait while a cell runs
    on it in another thread, and raise SessionError after ``%pipedb close``.
    """

    def __init__(self, session: Session, connection: SessionConnection) -> None:
        self._session = session
        self._connection = connection

    def __repr__(self) -> str:
        return f"CurrentConnection({self.name!r}, {self.address!r})"

    def __getattr__(self, name: str) -> NoReturn:
        hint = "\nHint: libraries take pipemagic.current().dbapi()" if hasattr(Connection, name) else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    @property
    def name(self) -> str:
        """The name of the connection in the notebook."""
        return self._connection.name

    @property
    def address(self) -> str:
        """The address of the database, for `pipemagic.connect` and other clients, without a token.

        The embedded service may have another port after each start.
        """
        return self._connection.address

    @property
    def read_only(self) -> bool:
        """Whether statements that may write are refused before anything is sent."""
        return self._connection.read_only

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or lost and not yet rolled back."""
        return self._connection.transaction is not Tx.NONE

    def query(self, sql: str, params: Mapping[str, object] | None = None) -> DataFrame:
        """Run SQL as a cell does, and return the last result with columns, or an empty DataFrame.

        ``params`` has the values of ``:name``, ``@name``, ``$name`` and ``{name}``. Warn about columns of mixed types,
        and if temporary tables are gone. Raise StatementError for a statement that fails (those after it do not run),
        TransactionLost, ParameterError, and SessionError if the connection was closed.
        """
        with self._session.wire.cell():
            result = self._connection.run(parse_cell(sql, params))
        lines = [*result.notes]
        frame = (result.returned or result.outcomes[-1]).frame(lines.append)
        for line in lines:
            warnings.warn(line, stacklevel=2)
        return frame

    def dbapi(self, *, autocommit: bool | int = True, isolation_level: IsolationLevel = "") -> Connection:
        """Return a connection of PEP 249 that runs its statements where the cells run.

        It never ends a transaction that a cell began: inside of one, and in its own transactions, it uses a savepoint.
        ``close`` leaves the notebook's connection open. The options are those of `pipemagic.dbapi.connect`; the
        default is ``autocommit=True``, because a connection pool rolls back each connection that it gets back.
        """
        return Connection(NotebookLink(self._connection), autocommit=autocommit, isolation_level=isolation_level)


def current() -> CurrentConnection:
    """Return the current connection of the notebook, after ``%load_ext pipemagic`` and ``%pipedb connect``.

    A function in a module can use it without an argument. As a cell does, it connects to the default database if the
    notebook has no connection and a default is set. Raise SessionError, with what to type, if there is no notebook,
    the extension is not loaded, or no database is connected.
    """
    from pipemagic.notebook.extension import loaded_magics

    session = loaded_magics(IN_PROGRAMS).session
    return CurrentConnection(session, session.connection())
