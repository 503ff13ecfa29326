"""Databases: run statements, batches and transactions, read and load frames, in any Python program."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from pipemagic.client.address import Endpoint, parse_address, parse_follow
from pipemagic.client.arguments import Arguments, statement
from pipemagic.client.batch_runner import result_of
from pipemagic.client.cursor import Cursor
from pipemagic.client.readonly import HINT
from pipemagic.client.replication import ReplicationState
from pipemagic.client.result import Result
from pipemagic.client.secrets import BearerToken, EncryptionKey
from pipemagic.client.stream import ClientStream, Dialect, Run
from pipemagic.client.tracing import Observer
from pipemagic.client.transaction import AGAIN, Transaction
from pipemagic.errors import EncryptionKeyError, ProtocolError, ReadOnlyError, TransactionLost
from pipemagic.hrana.messages import Close, Execute, Request, Stmt
from pipemagic.hrana.stream import Tx
from pipemagic.http import CONNECT_TIMEOUT, READ_TIMEOUT
from pipemagic.text import plural

if TYPE_CHECKING:
    import httpx
    import pandas as pd

    from pipemagic.client.bulk.load import ProgressCallback
    from pipemagic.client.bulk.load_plan import IfExists
    from pipemagic.frames.any_frame import Frame

Mode = Literal["DEFERRED", "IMMEDIATE", "EXCLUSIVE"]
Statement = str | tuple[str, Arguments]


def connect(
    url: str,
    token: str | None = None,
    *,
    timeout: float | None = READ_TIMEOUT,
    connect_timeout: float | None = CONNECT_TIMEOUT,
    http: httpx.Client | None = None,
    read_only: bool = False,
    observer: Observer | None = None,
    encryption_key: str | None = None,
    follow: str | None = None,
) -> Database:
    """Return the database at ``url`` (``libsql://``, ``turso://``, ``https://``, ``http://``); nothing is sent yet.

    ``token`` is the database's token. ``timeout`` is the seconds to wait for the next part of a response,
    ``connect_timeout`` for the connection; None is no limit. ``http`` is an ``httpx.Client`` to use. With
    ``read_only`` a statement that may write raises ReadOnlyError and is not sent. ``observer`` receives
    every HTTP request (`pipemagic.client.tracing`). ``encryption_key`` is the key of an encrypted database in base64,
    which every request has. ``follow`` is another host, HOST or HOST:PORT, to which the server may refer.
    """
    return Database(
        url, token, timeout=timeout, connect_timeout=connect_timeout, http=http, read_only=read_only,
        observer=observer, encryption_key=encryption_key, follow=follow,
    )  # fmt: skip


class Database:
    """A database. Each call, except `transaction` and `open_stream`, is one request that leaves nothing open.

    ``url`` is ``libsql://``, ``https://`` or ``http://``; ``token`` its database token. ``timeout`` and
    ``connect_timeout`` are seconds. ``http`` takes your own ``httpx.Client``, which is not closed. With
    ``read_only`` all statements that may write are refused with ReadOnlyError. ``encryption_key`` and ``follow`` are
    those of `connect`.
    Reads see earlier writes through the same Database, also at a replica. Safe to use from
    several threads; a stream or transaction is for one.
    """

    def __init__(
        self,
        url: str | Endpoint,
        token: str | BearerToken | None = None,
        *,
        timeout: float | None = READ_TIMEOUT,
        connect_timeout: float | None = CONNECT_TIMEOUT,
        http: httpx.Client | None = None,
        clock: Callable[[], float] = time.monotonic,
        read_only: bool = False,
        observer: Observer | None = None,
        encryption_key: str | EncryptionKey | None = None,
        follow: str | None = None,
    ) -> None:
        from pipemagic.client.transport import Transport  # imports httpx, which takes long

        self.read_only = read_only
        endpoint = parse_address(url) if isinstance(url, str) else url
        if follow:
            endpoint = replace(endpoint, follow=parse_follow(follow))
        self.transport = Transport(
            endpoint, token, timeout=timeout, connect_timeout=connect_timeout, http=http, observer=observer,
            encryption_key=encryption_key,
        )  # fmt: skip
        self._clock = clock
        self._dialect: Dialect | None = None
        self.replication = ReplicationState()
        self.lacks: set[str] = set()
        """The functions that the engine turned out to lack, also for siblings."""

    def __repr__(self) -> str:
        return f"Database({self.endpoint.address!r})"

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of the server; the embedded service has another one after each start."""
        return self.transport.endpoint

    @property
    def url(self) -> str:
        """The address as named by the user."""
        return self.endpoint.address

    @property
    def dialect(self) -> Dialect:
        """The form of the protocol for the server, requested once (``GET /v3``)."""
        if self._dialect is None:
            self._dialect = self._probe()
        return self._dialect

    def sibling(self, *, timeout: float | None = None, finds_again: bool = False) -> Database:
        """Return the same database with separate HTTP connections and without an observer, for background work.

        Each sees the writes of the other. ``timeout`` is in seconds, by default the same. It ``finds_again`` the
        embedded service at another address, for both.
        """
        other = copy(self)
        other.transport = self.transport.sibling(timeout=timeout, finds_again=finds_again)
        return other

    def offers(self) -> frozenset[int]:
        """Return the protocol versions that the server supports in full: {2, 3}, or none if it has no version 3."""
        return frozenset({2, 3}) if self.dialect is Dialect.V3 else frozenset()

    def renew_token(self, token: str | BearerToken) -> None:
        """Use another token from the next request on, also on open streams."""
        self.transport.token = token if isinstance(token, BearerToken) else BearerToken(token)

    def execute(self, sql: str, args: Arguments = None) -> Result:
        """Run one statement, in one request.

        ``args`` is a list or tuple for ``?`` and ``?N``, or a mapping for ``:name``, ``@name`` and ``$name``. Raise
        StatementError if the statement fails, ParameterError for a value that SQL cannot store, and UnknownOutcome if
        the response is incomplete.
        """
        # Every server takes these two requests; arguments and an index require to know the server.
        dialect = self.dialect if args or self.replication.index is not None else Dialect.SEED
        stream = ClientStream(
            self.transport, dialect=dialect, clock=self._clock, replication=self.replication, read_only=self.read_only
        )  # fmt: skip
        entry = stream.send([Execute(statement(sql, args)), Close()])[0]
        return Result(result_of(entry, sql), sql)

    def query(self, sql: str, args: Arguments = None) -> pd.DataFrame:
        """Run one statement and return its rows as a DataFrame; see `execute` for ``args`` and errors."""
        return self.execute(sql, args).frame()

    def batch(self, statements: Sequence[Statement], *, atomic: bool = True) -> list[Result]:
        """Run statements in one round trip; with ``atomic`` all apply or none.

        A statement is its text, or a tuple of its text and its arguments. Return a result for each. Without ``atomic``
        those before a failed one stay applied. The ``index`` of StatementError is that of the failed one.
        """
        with self.open_stream() as stream:
            return _batch(stream, statements, atomic=atomic, close=True)

    @contextmanager
    def transaction(self, mode: Mode | None = None) -> Iterator[DatabaseTransaction]:
        """Open a transaction: committed when the block ends, rolled back when it raises.

        The default ``mode`` is IMMEDIATE, on a read-only database DEFERRED. A transaction must end
        within the server's limit, 5 s on the embedded service, or TransactionLost is raised.
        """
        begin = f"BEGIN {mode or ('DEFERRED' if self.read_only else 'IMMEDIATE')}"
        with self.open_stream() as stream:
            result_of(stream.send([Execute(Stmt(begin))])[0], begin)
            inside = DatabaseTransaction(stream)
            yield inside
            inside.commit()

    def cursor(self, sql: str, args: Arguments = None) -> Cursor:
        """Run one statement and receive its rows in batches, in a ``with`` block; the number of rows is not limited."""
        return Cursor(self.open_stream(), statement(sql, args), owned=True)

    def load(
        self,
        frame: Frame,
        table: str,
        if_exists: IfExists = "fail",
        *,
        keys: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
        progress: ProgressCallback | None = None,
    ) -> int:
        """Write a frame into a table, all rows or none; return their number.

        ``frame`` is a pandas or Polars DataFrame, an Arrow table, or an object with ``__arrow_c_stream__``; pyarrow
        reads those that are not of pandas.
        ``if_exists`` is ``fail``, ``append``, ``replace`` or ``upsert``, which needs ``keys``, the columns that
        identify a row. ``types`` are declared types for columns of a new table. ``progress`` is called after
        each request with the number of rows sent and the total. Raise LoadError if a frame cannot be loaded (the table
        is unchanged), and UnknownOutcome if it is not known whether the table changed.
        """
        from pipemagic.client.bulk.load import prepare

        self.check_writable("load")
        return prepare(self, frame, table, if_exists=if_exists, keys=keys, types=types).run(progress)

    def copy(
        self,
        table: str,
        to: Database,
        new: str | None = None,
        if_exists: IfExists = "fail",
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a table into another database, all rows or none; return their number.

        ``new`` is the name of the copy, by default the same. ``if_exists`` is as in `load`. ``progress`` is called with
        the number of rows that were sent.
        """
        from pipemagic.client.bulk.copy import copy

        to.check_writable("copy")
        return copy(self, to, table, new, if_exists=if_exists, progress=progress)

    def check_writable(self, what: str) -> None:
        """Raise ReadOnlyError for ``what``, which writes, if the database is read-only."""
        if self.read_only:
            raise ReadOnlyError(f"{what} writes, and this connection is read-only; nothing was sent", hint=HINT)

    def open_stream(
        self,
        on_reopen: Callable[[], Sequence[Request]] | None = None,
        transaction: Transaction | None = None,
        is_empty: Callable[[], bool] = lambda: False,
    ) -> ClientStream:
        """Return a stream that stays open between requests; the first one opens it.

        ``transaction`` is that of a stream that this one replaces. ``is_empty`` returns True if nothing is lost with
        the stream: see `ClientStream`.
        """
        return ClientStream(
            self.transport,
            dialect=self.dialect,
            clock=self._clock,
            on_reopen=on_reopen,
            replication=self.replication,
            read_only=self.read_only,
            transaction=transaction,
            is_empty=is_empty,
        )

    def version(self) -> str:
        """Return the server's version, one line of text."""
        response = self.transport.get("/version")
        if not response.ok:
            raise self.transport.refusal(response)
        if "html" in response.content_type:
            raise _not_a_database(self.url)
        return response.body.decode("utf-8", "replace").strip()

    def health(self) -> bool:
        """Return True if the server reports that it is healthy; raise if it cannot be reached."""
        return self.transport.get("/health").ok

    def close(self) -> None:
        """Close the connections to the server. Open streams expire by themselves."""
        self.transport.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _probe(self) -> Dialect:
        response = self.transport.get("/v3")
        if response.ok and "html" in response.content_type:
            raise _not_a_database(self.url)
        if response.ok:
            return Dialect.V3
        error = self.transport.refusal(response)
        if isinstance(error, EncryptionKeyError) or error.status in (401, 403) or 500 <= error.status != 501:
            raise error
        return Dialect.SEED


class DatabaseTransaction:
    """An open transaction on its own stream."""

    def __init__(self, stream: ClientStream) -> None:
        self._stream = stream

    def execute(self, sql: str, args: Arguments = None) -> Result:
        """Run one statement in the transaction, which an error leaves open."""
        self._check()
        entry = self._stream.send([Execute(statement(sql, args))])[0]
        return Result(result_of(entry, sql), sql)

    def query(self, sql: str, args: Arguments = None) -> pd.DataFrame:
        """Run one statement in the transaction and return its rows as a DataFrame."""
        return self.execute(sql, args).frame()

    def batch(self, statements: Sequence[Statement]) -> list[Result]:
        """Run statements in the transaction in one round trip, up to the first error."""
        self._check()
        return _batch(self._stream, statements, atomic=False, close=False)

    def commit(self) -> None:
        """Commit and close; raise StatementError, after a rollback, if the database refuses."""
        self._check()
        result_of(self._stream.send([Execute(Stmt("COMMIT")), Close()])[0], "COMMIT")

    def _check(self) -> None:
        """Raise TransactionLost if a statement ended the transaction (``INSERT OR ROLLBACK``)."""
        if self._stream.transaction.state is Tx.NONE:
            raise TransactionLost("the transaction has ended; nothing was run outside it", hint=AGAIN)


def _batch(stream: ClientStream, statements: Sequence[Statement], *, atomic: bool, close: bool) -> list[Result]:
    texts = [(item, None) if isinstance(item, str) else item for item in statements]
    run: Run = stream.run([statement(sql, args) for sql, args in texts], atomic=atomic, close=close)
    if run.error is not None:
        applied = 0 if atomic else len(run.results)
        raise run.error.replace(message=f"{run.error.message}\n{_what_was_applied(applied, len(texts))}")
    return [Result(wire, sql) for wire, (sql, _) in zip(run.results, texts, strict=True)]


def _what_was_applied(count: int, total: int) -> str:
    return f"{count} of {plural(total, 'statement')} ran before it." if count else "Nothing was applied."


def _not_a_database(url: str) -> ProtocolError:
    return ProtocolError(
        f"received an HTML page from {url} instead of a response of a database", hint="check the address"
    )
