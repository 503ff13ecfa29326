"""A database that a panel shows, and queries of it that can be aborted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipemagic.errors import SessionError
from pipemagic.notebook.panels.tasks import STOPPED, LatestTask

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.session import Session


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
        """Return the database of a connection, queried outside the stream of the cells."""

        def read(query: Callable[[Database], Any], timeout: float | None = None) -> Any:
            def query_beside(database: Database) -> Any:
                with database.sibling(timeout=timeout, finds_again=True) as own:
                    return query(own)

            return session.connection(name).with_database(query_beside)

        return cls(name, read, is_connection=True)


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
        """Abort the query by closing the connection; a server that detects this stops."""
        self._aborted = True
        if (database := self._database) is not None:
            database.transport.abort()

    def _run_on(self, database: Database) -> Any:
        self._database = database
        try:
            if self._aborted:
                raise SessionError(STOPPED)
            return self.query(database)
        finally:
            self._database = None
