"""A database that a panel shows, and queries of it that can be aborted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pipemagic.client.arguments import Arguments, statement
from pipemagic.client.batch_runner import result_of
from pipemagic.client.database import Database, Statement
from pipemagic.client.result import Result
from pipemagic.errors import SessionError, UnknownOutcome
from pipemagic.hrana.messages import Close, Entry, Execute, StmtResult
from pipemagic.hrana.messages import Request as StreamRequest
from pipemagic.notebook.panels.tasks import STOPPED, LatestTask
from pipemagic.session.cell import NO_CELL
from pipemagic.session.interrupts import InterruptOutcome, with_outcome

if TYPE_CHECKING:
    from pipemagic.client.stream import Dialect
    from pipemagic.session import Connection, Session


@dataclass(frozen=True)
class BrowsedDatabase:
    """A database to browse.

    ``read(query, timeout=None)`` calls a function with a Database and returns its result. The Database has its own
    HTTP connections, so that aborting it affects no other.
    """

    name: str
    read: Callable[..., Any]
    is_connection: bool = False
    """Whether the name is that of a connection, which commands can use."""

    @classmethod
    def of_connection(cls, session: Session, name: str) -> BrowsedDatabase:
        """Return the database of a connection, queried outside the stream of the cells: it shows what is committed."""

        def read(query: Callable[[Database], Any], timeout: float | None = None) -> Any:
            return session.connection(name).with_database(partial(_query_beside, query, timeout))

        return cls(name, read, is_connection=True)

    @classmethod
    def of_cells(cls, connection: Connection) -> BrowsedDatabase:
        """Return a database as the cells see it: with temporary tables, and the changes of the open transaction."""

        def read(query: Callable[[Database], Any], timeout: float | None = None) -> Any:
            if connection.closed:
                raise SessionError(
                    f"the connection {connection.name} was closed", hint="connect, and run the cell again"
                )
            if connection.sees_more:
                return connection.with_database(lambda _: query(cast("Database", CellsDatabase(connection, timeout))))
            return connection.with_database(partial(_query_beside, query, timeout))

        return cls(connection.name, read, is_connection=True)


def _query_beside(query: Callable[[Database], Any], timeout: float | None, database: Database) -> Any:
    try:
        with database.sibling(timeout=timeout, finds_again=True) as own:
            return query(own)
    except UnknownOutcome as error:
        raise with_outcome(error, NO_CELL, InterruptOutcome.ONLY_READS, (), "") from None


class CellsDatabase:
    """The part of `Database` that queries use, on the stream of the cells; each request waits for a running cell."""

    def __init__(self, connection: Connection, timeout: float | None = None) -> None:
        self._connection, self._timeout = connection, timeout

    @property
    def dialect(self) -> Dialect:
        """The form of the protocol for the server."""
        return self._connection.database.dialect

    @property
    def lacks(self) -> set[str]:
        """The functions that the server is known to lack."""
        return self._connection.database.lacks

    def send(self, requests: Sequence[StreamRequest]) -> list[Entry]:
        """Send requests; the stream stays open."""
        kept = [request for request in requests if not isinstance(request, Close)]
        return self._connection.request(kept, timeout=self._timeout)

    def execute(self, sql: str, args: Arguments = None) -> Result:
        """Run one statement."""
        return Result(result_of(self.send([Execute(statement(sql, args))])[0], sql), sql)

    def batch(self, statements: Sequence[Statement], *, atomic: bool) -> list[Result]:
        """Run statements, which only read, in one round trip."""
        assert not atomic
        texts = [(item, None) if isinstance(item, str) else item for item in statements]
        entries = self.send([Execute(statement(sql, args)) for sql, args in texts])
        return [
            Result(result_of(entry, sql, at), sql)
            for at, (entry, (sql, _)) in enumerate(zip(entries, texts, strict=True))
        ]

    @contextmanager
    def open_stream(self) -> Iterator[CellsDatabase]:
        """Return the stream, which stays open."""
        yield self

    @contextmanager
    def cursor(self, sql: str, args: Arguments = None) -> Iterator[ReceivedRows]:
        """Run one statement and receive its rows in one response."""
        yield ReceivedRows(self.execute(sql, args).wire)


@dataclass(frozen=True)
class ReceivedRows:
    """The rows of one response, in the form of a cursor."""

    result: StmtResult

    @property
    def cols(self) -> Sequence[Any]:
        """The columns."""
        return self.result.cols

    def __iter__(self) -> Iterator[Sequence[Any]]:
        yield self.result.rows


class Request:
    """A query of a source that can be aborted, also before it is sent."""

    def __init__(self, source: BrowsedDatabase, query: Callable[[Database], Any], timeout: float | None = None) -> None:
        self.source, self.query, self.timeout = source, query, timeout
        self._database: Database | None = None
        self._aborted = False

    def run(self) -> Any:
        """Run the query and return its result."""
        return self.source.read(self._run_on, timeout=self.timeout)

    def start(self, task: LatestTask, title: str, apply: Callable[[Any], str], line: str = "") -> None:
        """Run it as the work of a task."""
        task.start(title, self.run, apply, line=line, abort=self.abort)

    def abort(self) -> None:
        """Abort the query by closing the connection; a server that detects this stops.

        A query on the stream of the cells runs on, since closing the connection would end their transaction.
        """
        self._aborted = True
        if isinstance(database := self._database, Database):
            database.transport.abort()

    def _run_on(self, database: Database) -> Any:
        self._database = database
        try:
            if self._aborted:
                raise SessionError(STOPPED)
            return self.query(database)
        finally:
            self._database = None
