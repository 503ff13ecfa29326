"""The client's side of a stream: baton, time limits, and the handling of every kind of response."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, cast

from pipemagic.client.address import Endpoint, check_base_url, instance_of
from pipemagic.client.arguments import ROWS_OF
from pipemagic.client.cursor_response import CursorResponse
from pipemagic.client.deadline import Deadline
from pipemagic.client.readonly import may_write, refuse_writes
from pipemagic.client.repeats import REPEATS, Cause, First, Message
from pipemagic.client.replication import ReadYourWrites, ReplicationState
from pipemagic.client.statement_errors import statement_error
from pipemagic.client.transaction import AGAIN, IN_TIME, ROLLED_BACK, Reason, Transaction, count_succeeded, errors_of
from pipemagic.errors import (
    ConnectError,
    InterruptedRequest,
    PipemagicError,
    ProtocolError,
    StatementError,
    StreamError,
    TransactionLost,
    UnsupportedError,
)
from pipemagic.frames.typed_json import read_response
from pipemagic.hrana import cursors, faults
from pipemagic.hrana.messages import (
    ENCODER,
    Batch,
    Close,
    Entry,
    Error,
    ErrorEntry,
    Execute,
    ExecuteResponse,
    GetAutocommit,
    GetAutocommitResponse,
    OkEntry,
    PipelineRequest,
    PipelineResponse,
    Request,
    RunBatch,
    Step,
    Stmt,
    StmtResult,
    not_unicode,
    pipeline,
)
from pipemagic.hrana.stream import IDLE_LIMIT, STRICT, TRANSACTION_LIMIT, Event, Phase, Tx
from pipemagic.hrana.values import Integer

if TYPE_CHECKING:  # these import httpx, which takes long
    from pipemagic.client.response_body import Chunks, HttpResponse
    from pipemagic.client.transport import Transport

CLOSE_TIMEOUT = 5.0
"""Seconds to wait for the response to a close, which only frees the server before its timeout of 10 s."""

E = TypeVar("E", bound="BaseException | None")

HANG_UP_TIMEOUT = 0.5
"""Seconds to wait while the user waits, after an interrupt."""

_NOTHING = PipelineRequest([])

_ENDED = (Phase.CLOSED, Phase.EXPIRED, Phase.LOST)

_SMALLEST: list[Request] = [Execute(Stmt("SELECT 1"))]
"""Renews the idle time on servers where an empty request may not."""


class Dialect(IntEnum):
    """The requests that a server accepts; the number is part of the path."""

    SEED = 2
    """Only ``execute`` and ``close``, on ``/v2/pipeline``: every server of version 2 has them, whatever else it has."""
    V3 = 3
    """The requests of version 3: also batches, descriptions, ``get_autocommit`` and cursors."""


@dataclass(slots=True, eq=False)
class StreamMessage(Message):
    """A message on a stream, with its ``requests``. It may be written again for a stream that ``replaces`` this one.

    ``sent`` is what a pipeline contains, with ``ahead`` requests before those of the caller; a cursor contains the only
    one of its requests. ``encoding`` is how many seconds the JSON took.
    """

    requests: Sequence[Request] = ()
    replaces: bool = True
    is_cursor: bool = False
    sent: PipelineRequest = _NOTHING
    ahead: int = 0
    encoding: float = 0.0


@dataclass(frozen=True)
class Run:
    """The outcome of some statements.

    ``results`` are those of the statements that ran, in order, so ``len(results)`` is the index of the failed
    one, if any; ``error`` is its error, with that ``index``.
    """

    results: list[StmtResult]
    error: StatementError | None = None

    def followed_by(self, rest: Run) -> Run:
        """Return the outcome of these statements, which all ran, and of the ``rest`` of them."""
        count, error = len(self.results), rest.error
        if count and error is not None:
            error = error.replace(index=error.index + count)
        return Run(self.results + rest.results, error)


class ClientStream:
    """A stream: opened by the first request, continued by its baton, and reopened if no transaction was open.

    It takes one request at a time; a concurrent one raises StreamError. ``on_reopen`` is called when a
    stream replaces an earlier one and returns requests to send first (settings to restore);
    their entries are then in ``replayed``. ``reopened`` counts these streams. ``replication`` is the known
    state of the database, shared by its streams: reads at a replica wait for it. With ``read_only`` statements that may
    write are refused. ``transaction`` tracks the transaction, and the states of both; the caller may pass one that
    outlives the stream. ``is_empty`` returns True if nothing is lost with the stream, such as a setting.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        dialect: Dialect = Dialect.V3,
        clock: Callable[[], float] = time.monotonic,
        on_reopen: Callable[[], Sequence[Request]] | None = None,
        replication: ReplicationState | None = None,
        read_only: bool = False,
        transaction: Transaction | None = None,
        is_empty: Callable[[], bool] = lambda: False,
    ) -> None:
        self.dialect = dialect
        self.read_only = read_only
        self.on_reopen = on_reopen
        self.reopened = 0
        self.replayed: list[Entry] = []
        self.baton: str | None = None
        self.transaction = transaction or Transaction()
        self.transaction.replace_stream()
        self._machine = self.transaction.machine
        self._deadline: Deadline | None = None
        """The time limit of all responses together."""
        self.sent_at = 0.0
        self.idle_limit = IDLE_LIMIT
        """The seconds after which the server ends the stream if it is idle."""
        self.names_limit = False
        """Whether the server named its idle limit, in the last response; otherwise it is an estimate."""
        self._replaces = False
        """Whether the stream that the next response opens replaces an earlier one."""
        self._is_empty = is_empty
        self._reads = ReadYourWrites(replication or ReplicationState())
        self._transport = transport
        self._clock = clock
        self._path = f"/v{dialect:d}/pipeline"
        self._endpoint: Endpoint | None = None
        self._opened_at = 0.0
        self._response_at = 0.0
        self._beginning = threading.RLock()
        """Held from the check for a pending request until the next one is pending."""

    @property
    def phase(self) -> Phase:
        """The state of the newest stream; IDLE before the first request."""
        return self._machine.phase

    @property
    def is_open(self) -> bool:
        """Whether the server has an open stream, as far as known."""
        return self.baton is not None and self.phase in (Phase.IDLE, Phase.IN_USE)

    @property
    def instance(self) -> str | None:
        """The name of the instance that responds, such as ``ams``; None if the server named no other address."""
        return None if self._endpoint is None else instance_of(self._transport.endpoint, self._endpoint)

    @property
    def limits(self) -> str:
        """What the server says about its limits: see `LIMITS_HEADER`. '' if it says nothing."""
        return self._transport.limits

    @property
    def is_outdated(self) -> bool:
        """Whether the stream has probably expired, and nothing is lost with it: the next request opens another one."""
        is_old = self.baton is not None and self._clock() - self._response_at > self.idle_limit
        return is_old and self.phase is Phase.IDLE and not self.transaction.open and self._is_empty()

    def idle_for(self) -> float:
        """Return the seconds since the last response; 0.0 if no stream is open."""
        return self._clock() - self._response_at if self.is_open else 0.0

    def open_for(self) -> float | None:
        """Return the seconds since the request that opened the stream; None if none is open."""
        return self._clock() - self._opened_at if self.is_open else None

    def transaction_age(self) -> float | None:
        """Return the seconds since the request that opened the transaction; None if none is open."""
        return self.transaction.age(self._clock())

    def sent_for(self) -> float:
        """Return the seconds since the last request was sent."""
        return self._clock() - self.sent_at

    def send(self, requests: Sequence[Request], *, timeout: float | None = None) -> list[Entry]:
        """Send requests on the stream; return one entry for each, in order. ``timeout`` is in seconds.

        A stream whose baton the server no longer knows (`pipemagic.hrana.faults.is_stream_gone`) is replaced and the
        requests are sent again, if no transaction was open. Nothing else is ever sent twice. A
        response without a baton ends the stream; the next request opens another one. Raise

        - ReadOnlyError: nothing was sent, the stream is unchanged;
        - TransactionLost: the server rolled an open transaction back, now or earlier (`Transaction.acknowledge`);
        - UnknownOutcome: the response is incomplete, what ran is not known; the stream is dropped;
        - AuthError (401), BusyError, ConnectError, InterruptedRequest with ``nothing_ran``: nothing of it ran, the
          stream and its baton are unchanged;
        - AuthError (403), NotFound, ServerError, ProtocolError, AddressError: refused, the stream is dropped.
        """
        self.check(requests)
        entries = self._exchange(requests, timeout=timeout, reopens=True)
        assert entries is not None
        return entries

    def run(
        self,
        stmts: Sequence[Stmt],
        *,
        atomic: bool = False,
        undo: bool = False,
        close: bool = False,
        mode: str = "IMMEDIATE",
    ) -> Run:
        """Run statements in order up to the first error, in one round trip if the server allows it.

        With ``atomic`` they run between BEGIN ``mode`` and COMMIT: all apply or none. A read-only stream begins
        DEFERRED, which does not block writers. With ``undo`` a transaction that is open after an error is rolled back.
        With ``close`` the stream ends in the same request. Raise the errors of `send`; a statement's error is returned,
        not raised.
        """
        if not stmts:
            return Run([])
        if len(stmts) > 1 or atomic or undo:
            from pipemagic.client import batch_runner

            mode = "DEFERRED" if self.read_only else mode
            return batch_runner.run(self, stmts, atomic=atomic, undo=undo, close=close, mode=mode)
        end: list[Request] = [Close()] if close else []
        entry = self.send([Execute(stmts[0]), *end])[0]
        if isinstance(entry, ErrorEntry):
            return Run([], statement_error(entry.error, stmts[0].sql or ""))
        assert isinstance(entry.response, ExecuteResponse)  # `_read` has checked it
        return Run([entry.response.result])

    def stream(self, stmt: Stmt) -> CursorResponse:
        """Run one statement as a cursor; return its response in chunks (see `pipemagic.client.cursor`).

        The stream is in use until the response is closed. Only servers of version 3 have cursors. Raise the errors of
        `send`.
        """
        self.check([Execute(stmt)])
        requests = [RunBatch(Batch([Step(stmt)]))]
        message = StreamMessage(
            "POST", "/v3/cursor", requests=requests, is_cursor=True, only_reads=self._only_reads, renew=self._renew
        )
        self._write(message)
        response: CursorResponse | None = None
        try:
            chunks = self._transport.chunks(message)
            if chunks.status != 200:
                refused = cast("HttpResponse", chunks)  # a response in chunks is a 2xx
                self._is_gone(refused)
                raise self._transport.refusal(refused)
            response = CursorResponse(cast("Chunks", chunks), self._cursor_ended, self._deadline)
            head = response.read_head()
            if head.base_url:
                self._endpoint = check_base_url(self._transport.endpoint, head.base_url)
        except BaseException as error:  # noqa: BLE001 - the error to raise may know more
            if response is not None:
                response.discard()
            raise self._failed(error, message) from None
        self._continue(head)
        return response

    def autocommit(self) -> bool:
        """Return True if the server reports that no transaction is open."""
        if self.dialect is Dialect.V3:
            self.check([])
            self._exchange([], reopens=True, accepts_end=True)
        elif self._has_ended():
            self.transaction.ended()
        return not self.transaction.open

    def confirm(self) -> None:
        """Raise TransactionLost if the server has ended the open transaction, and reports it in no other way."""
        if self.dialect is not Dialect.V3 and self._has_ended():
            raise self.transaction.rolled_back(late=False)

    def renew(self) -> bool:
        """Renew the idle time of an open stream without a transaction; return False if it has ended.

        Never open one. Raise the errors of `send` for a server that refuses or does not respond within CLOSE_TIMEOUT.
        """
        with self._beginning:
            if not self.is_open or self.transaction.state is not Tx.NONE:
                return False
            return self._exchange([] if self.dialect is Dialect.V3 else _SMALLEST, timeout=CLOSE_TIMEOUT) is not None

    def close(self) -> None:
        """End the stream; the server rolls an open transaction back. Ignore errors of the server."""
        if self.is_open and self.phase is Phase.IDLE and not self.is_outdated:
            with suppress(PipemagicError):  # the server ends it after its idle limit
                self._exchange([Close()], timeout=CLOSE_TIMEOUT)
        self.baton = None
        self.transaction.closed()

    def abandoned(self, error: PipemagicError | KeyboardInterrupt) -> PipemagicError:
        """Drop the stream if an interrupt between two lines left a request pending; return the error to raise.

        Raise the interrupt itself if no request is pending.
        """
        under_way = self.phase is Phase.IN_USE
        if isinstance(error, KeyboardInterrupt):
            if not under_way:
                raise error
            error = InterruptedRequest("interrupted while a request was pending")
        return self._lose(error, []) if under_way else error

    def __enter__(self) -> ClientStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- before a request

    @contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Limit the total time of the requests in a block; after it they raise AnswerTimeout."""
        self._deadline = Deadline(seconds, self._clock)
        try:
            yield
        finally:
            self._deadline = None

    def check(self, requests: Sequence[Request]) -> None:
        """Raise the errors that `send` would raise before sending these requests."""
        if self._machine.phase in _ENDED:
            self._reopen()  # what ended the last stream says nothing about these requests
        if self._machine.transaction is Tx.LOST:
            raise TransactionLost("the transaction was lost and nothing was run outside it", hint=AGAIN)
        if self.read_only:
            refuse_writes(requests)
        if self.is_outdated:  # otherwise the server decides whether it still has the stream
            self._gone()
        if self.dialect is Dialect.SEED:
            self._check_seed(requests)
        if self.transaction.open and self._may_end_silently() and self._has_ended():
            raise self._lost()  # the requests would run outside it

    def _may_end_silently(self) -> bool:
        """Return True if the server may have ended the old transaction, and may run more before it says so.

        Servers that name their limits report it, others are asked only after a long time.
        """
        if self.dialect is Dialect.SEED:
            return (self.transaction_age() or 0.0) > TRANSACTION_LIMIT
        return not (self.names_limit or self.limits) and self.idle_for() > IDLE_LIMIT

    def _check_seed(self, requests: Sequence[Request]) -> None:
        """Raise UnsupportedError for requests that a server without version 3 is not sent."""
        for request in requests:
            if not isinstance(request, Execute | Close):
                raise UnsupportedError("only execute and close are sent to a server without version 3 of the protocol")
            if isinstance(request, Execute) and (request.stmt.args or request.stmt.named_args):
                self._check_arguments()

    def _check_arguments(self) -> None:
        """Check once whether a server binds arguments, or ignores them, so that all are NULL: the seed has none."""
        if self._transport.binds_arguments is None:
            probe: list[Request] = [Execute(Stmt("SELECT ?", args=[Integer("7")])), Close()]
            response = self._transport.request("POST", self._path, pipeline(probe))
            if response.status in (401, 403, 404) or response.status >= 500:
                raise self._transport.refusal(response)
            self._transport.binds_arguments = response.status == 200 and b'"7"' in response.body
        if not self._transport.binds_arguments:
            raise UnsupportedError(
                "this server does not support parameters", hint="write the values into the statement, properly quoted"
            )

    def _has_ended(self) -> bool:
        """Return True if the server has no open transaction; before version 3 a BEGIN shows that, which is undone."""
        question: Request = GetAutocommit() if self.dialect is Dialect.V3 else Execute(Stmt("BEGIN"))
        entry = self._untracked(question)
        if isinstance(entry, ErrorEntry) and "within a transaction" not in entry.error.message:
            entry = self._untracked(question)  # it may have been the timeout, which is reported once
        if isinstance(entry, ErrorEntry):
            if "within a transaction" in entry.error.message:
                self.transaction.still_open()
            return False
        if isinstance(entry.response, GetAutocommitResponse):
            return entry.response.is_autocommit
        self._untracked(Execute(Stmt("ROLLBACK")))
        return True

    def _lost(self) -> TransactionLost:
        """Return the error for a transaction that the server has ended; some servers report it once, to a statement."""
        reports = self.dialect is Dialect.V3  # before version 3, the question was a statement
        entry = self._untracked(Execute(Stmt("SELECT 1"))) if reports else None
        return self.transaction.ended_by_server(entry, sent_at=self.sent_at, exact=self.limits == STRICT)

    def _untracked(self, request: Request) -> Entry:
        """Send a request without tracking its effect on the transaction; return its entry."""
        entries = self._exchange([request], tracked=False)
        if entries is None:
            raise TransactionLost("the server no longer knows the stream", hint=AGAIN)
        return entries[0]

    # -- requests

    def _exchange(
        self,
        requests: Sequence[Request],
        *,
        timeout: float | None = None,
        tracked: bool = True,
        reopens: bool = False,
        accepts_end: bool = False,
    ) -> list[Entry] | None:
        """Send requests, with ``reopens`` on another stream if this one has ended and nothing was open on it.

        Return None if it has ended, and nothing ran. Raise TransactionLost if the server reports that the transaction
        has ended, and nothing in the requests can have ended it; with ``accepts_end`` the caller knows the reason.
        """
        message = StreamMessage(
            "POST", self._path, timeout=timeout, requests=requests, replaces=reopens,
            only_reads=self._only_reads, renew=self._renew,
        )  # fmt: skip
        self._write(message)
        try:
            http = self._transport.send(message)
            if http.status != 200:
                self._transport.end(message)
                if self._is_gone(http):
                    return None
                raise self._transport.refusal(http)
            response = self._read(http, message)
        except BaseException as error:  # noqa: BLE001 - the error to raise may know more
            self._transport.end(message)
            raise self._failed(error, message) from None
        entries, unexplained = response.results[message.ahead :], False
        try:
            ran, results = (requests, entries) if tracked else ((), ())
            late_at = None if self.dialect is Dialect.V3 else self._response_at
            unexplained = self.transaction.responded(
                ran, results, sent_at=self.sent_at, baton=response.baton, late_at=late_at,
                exact=self._transport.limits == STRICT,
            )  # fmt: skip
        except KeyboardInterrupt as error:
            raise self._failed(error, message) from None
        finally:
            self._reads.state.update(response.results, self._reads.index)
            reopened, self._replaces = self._replaces, False
            self.reopened += reopened
            if message.ahead:
                self.replayed = response.results[: message.ahead]
            if (traced := message.traced) is not None:  # after the outcome of the transaction is known
                traced.reopened, traced.transaction_open = reopened, self.transaction.open
                self._transport.end(message)
        if unexplained and not accepts_end:
            raise self._lost()
        if unexplained:
            self.transaction.ended()
        if tracked and self.dialect is not Dialect.V3 and self.transaction.open and any(map(errors_of, entries)):
            self._check_after_error(requests, entries)
        return entries[: len(requests)]

    def _check_after_error(self, requests: Sequence[Request], entries: Sequence[Entry]) -> None:
        """Ask the server whether an error ended the transaction, which the text of the statements does not show."""
        try:
            self.autocommit()
        except TransactionLost as error:
            raise error.replace(ran=count_succeeded(requests, entries)) from None

    def _cursor_ended(self, error: E, complete: bool) -> E:
        """Keep the stream after a complete response to a cursor; otherwise end it. Return the error to raise."""
        if complete:
            self._response_at = self._clock()
            with suppress(TransactionLost):  # the server ended the stream: the next request reports the loss
                self.transaction.responded((), (), sent_at=self.sent_at, baton=self.baton)
            return error
        if self.baton is not None:
            close = pipeline([Close()], self.baton)
            with suppress(PipemagicError):
                self._transport.request("POST", self._path, close, endpoint=self._endpoint, timeout=HANG_UP_TIMEOUT)
        return self._lose(error, [])

    def _write(self, message: StreamMessage) -> None:
        """Write the body of a message for the current stream, and begin to send it with the shortest timeout."""
        if message.is_cursor and not self.is_open and (self._replaces or self.phase is not Phase.IDLE):
            self.send([])  # reopens it, with the requests to send first, for which a cursor has no room
        with self._beginning:
            ahead, in_transaction = self._open(), self.transaction.open
            asks = (
                self.dialect is Dialect.V3
                and not message.is_cursor
                and not any(isinstance(request, Close) for request in message.requests)
            )
            everything = [*ahead, *message.requests, *([GetAutocommit()] if asks else [])]
            waits = self.dialect is not Dialect.SEED and not in_transaction
            message.sent = PipelineRequest(self._reads.prepare(everything, waits=waits), self.baton)
            message.ahead, start = len(ahead), time.perf_counter()
            try:
                message.body = ENCODER.encode(_as_cursor(message.sent) if message.is_cursor else message.sent)
            except UnicodeEncodeError as error:
                raise not_unicode(error) from None
            message.encoding = time.perf_counter() - start
            message.endpoint = self._endpoint
            message.reopens = None if self.baton is None else message.replaces and not in_transaction
            if (limit := self._reads.limit) is not None:
                message.timeout = min(message.timeout or limit, self._transport.timeout or limit, limit)
            if self._deadline is not None:
                message.timeout = self._deadline.left(message.timeout, self._transport.timeout)
                message.limit = self._deadline.left()
            self.sent_at = self._clock()
            self._machine.move(Event.SEND)

    def _open(self) -> Sequence[Request]:
        """Start a new stream if the last one has ended; return the requests to send first on it.

        They are returned until a response has arrived: the first attempt may be refused.
        """
        phase = self._machine.phase
        if phase is Phase.IN_USE:
            raise StreamError("a request is pending on this connection, which takes one at a time")
        if phase in _ENDED:
            self._reopen()
        return self.on_reopen() if self._replaces and self.on_reopen is not None else ()

    def _reopen(self) -> None:
        """Begin with another stream, since the last one has ended."""
        with self._beginning:
            if self.phase in _ENDED:  # otherwise another thread was first
                self._replaces = self._replaces or self.phase is not Phase.CLOSED
                self._machine.move(Event.REOPEN)
                self.baton, self._endpoint = None, None
                self.idle_limit, self.names_limit = IDLE_LIMIT, False
                self._reads.restart()

    def _renew(self, message: StreamMessage, cause: Cause) -> None:
        """Write a message again before the transport sends it again, if it goes to another stream."""
        if REPEATS[cause].first not in (First.REOPEN, First.FIND):
            return
        with self._beginning:
            if self.baton is None:
                self._machine.move(Event.REFUSE)
            else:
                self._gone()
            if cause is Cause.UNREACHABLE:
                self._reads.state.forget()  # it may count from a lower number
            self._write(message)

    def _only_reads(self, message: StreamMessage) -> bool:
        """Return True if a message changes nothing, has no rows of a frame, and no transaction is open."""
        has_rows = isinstance(message.body, bytes) and ROWS_OF.encode() in message.body
        return not (self.transaction.open or has_rows or may_write(message.requests))

    # -- responses

    def _read(self, http: HttpResponse, message: StreamMessage) -> PipelineResponse:
        """Read a 200: the entries, the new baton, and the next base URL."""
        sent, traced = message.sent, message.traced
        try:
            start = time.perf_counter()
            response = read_response(http.body)
            if traced is not None:
                traced.encoding, traced.decoding = message.encoding, time.perf_counter() - start
                traced.add_results(sent, response)
            if len(response.results) != len(sent.requests):
                counts = f"{len(sent.requests)} requests were sent and {len(response.results)} results were received"
                raise ProtocolError(counts)
            for request, entry in zip(sent.requests, response.results, strict=True):
                if isinstance(entry, OkEntry):
                    question, answer = request.__struct_config__.tag, entry.response.__struct_config__.tag
                    if question != answer:
                        raise ProtocolError(f"expected the response to {question!r}, not to {answer!r}")
            if response.base_url and response.baton is not None:
                self._endpoint = check_base_url(self._transport.endpoint, response.base_url)
        except ProtocolError as error:
            raise _not_a_response(error, http) from None
        except KeyboardInterrupt:  # a large response takes a while to read
            raise InterruptedRequest(
                "interrupted while the response was read; the request has run", answered=True
            ) from None
        self._continue(response)
        return response

    def _continue(self, response: PipelineResponse | cursors.Head) -> None:
        """Take the baton of a response for the next request, and the limit that the server names."""
        self._response_at = self._clock()
        if self.baton is None:
            self._opened_at = self.sent_at
        self.baton = response.baton
        limit, self.names_limit = response.stream_ttl_ms, response.stream_ttl_ms is not None
        self.idle_limit = IDLE_LIMIT if limit is None else limit / 1000

    def _is_gone(self, refused: HttpResponse) -> bool:
        """Return True if a refusal says that the server no longer has the stream, which is dropped."""
        fault = faults.read_fault(refused.body, refused.content_type)
        if self.baton is None or not faults.is_stream_gone(refused.status, fault):
            return False  # a 404 for the database itself is the response to a request without a baton, too
        self._gone(fault)
        return True

    def _gone(self, fault: Error | None = None) -> None:
        """Drop a stream that the server no longer has; raise TransactionLost if a transaction was open."""
        idle, limit, age = self.idle_for(), self.idle_limit, self.transaction_age() or 0.0
        late = age > TRANSACTION_LIMIT and self.limits == STRICT
        reason, why = Reason.IDLE_LIMIT, f"the connection was idle for more than {limit:g} s and was closed"
        if idle <= limit and fault is not None and fault.code == faults.STREAM_EXPIRED:
            why = "the connection was idle for longer than the server allows and was closed"
        elif idle <= limit:
            reason = Reason.SERVER_CLOSED
            why = "the server closed the connection (was it restarted, or are its limits shorter?)"
        self.baton = None
        longer = f"{IN_TIME} and was open for longer; " if late else ""
        self.transaction.stream_gone(reason, f"{ROLLED_BACK}: {longer}{why}")

    def _failed(self, error: BaseException, message: StreamMessage) -> BaseException:
        """Return the error to raise for a request without a readable response."""
        if isinstance(error, KeyboardInterrupt):  # between the parts of the request
            error = InterruptedRequest("interrupted while a request was pending")
        if self._machine.phase is Phase.IN_USE and (message.nothing_ran or isinstance(error, ConnectError)):
            self._machine.move(Event.REFUSE)  # the baton is still valid
        error = self._reads.failed(error)
        error = error if self._deadline is None else self._deadline.explain(error)
        return self._lose(error, message.requests) if self._machine.phase is Phase.IN_USE else error

    def _lose(self, error: E, requests: Sequence[Request]) -> E:
        """Drop the stream. Return the error, which reports the loss of a transaction that was or may be open."""
        self.baton = None
        if self.transaction.no_response(requests) and isinstance(error, PipemagicError):
            return error.replace(message=f"{error.message}\nThe open transaction was rolled back.")
        return error


def _as_cursor(sent: PipelineRequest) -> cursors.CursorRequest:
    """Return the request for a cursor of the last of some requests."""
    last = sent.requests[-1]
    assert isinstance(last, RunBatch)
    return cursors.CursorRequest(last.batch, sent.baton)


def _not_a_response(error: ProtocolError, http: HttpResponse) -> ProtocolError:
    """Return the error for a 200 that cannot be read; a short one for a web page."""
    if "html" in http.content_type or http.body.lstrip()[:1] == b"<":
        return ProtocolError(
            "received an HTML page instead of a response of the database",
            hint="check that this is the address of a database, without a login page or a proxy in between",
        )
    return error if error.hint else ProtocolError(f"{error.message}; the request may have run")
