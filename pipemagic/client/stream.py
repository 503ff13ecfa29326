"""One stream of a database, as the client sees it: its baton, its clock, and what every kind of answer means."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from enum import IntEnum
from functools import partial
from types import TracebackType
from typing import TypeVar

from pipemagic.client import answers
from pipemagic.client.bodies import HttpAnswer
from pipemagic.client.consistency import Freshness, Seen
from pipemagic.client.deadline import Deadline
from pipemagic.client.following import AGAIN, Following
from pipemagic.client.readonly import refuse_writes
from pipemagic.client.streamed import Streamed
from pipemagic.client.tracing import TracedRequest
from pipemagic.client.transport import Transport
from pipemagic.client.urls import Endpoint, follow, instance_of
from pipemagic.errors import (
    BusyError,
    ConnectError,
    InterruptedRequest,
    PipemagicError,
    ProtocolError,
    StreamError,
    TransactionLost,
    UnsupportedError,
)
from pipemagic.frames.answers import read_answer
from pipemagic.hrana import cursors, faults
from pipemagic.hrana.messages import (
    Batch,
    Close,
    Entry,
    ErrorEntry,
    Execute,
    GetAutocommit,
    OkEntry,
    PipelineRequest,
    Request,
    RunBatch,
    Step,
    Stmt,
    encode,
    pipeline,
)
from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT, Phase, Stream, Transaction, Tx
from pipemagic.hrana.values import Integer

CLOSE_TIMEOUT = 5.0
"""Seconds to wait for the answer to a close: it only spares the server 10 s of waiting."""

E = TypeVar("E", bound=BaseException | None)

HANG_UP_TIMEOUT = 0.5
"""Seconds to wait when the user waits, too: after an interrupt."""

_SMALLEST: list[Request] = [Execute(Stmt("SELECT 1"))]
"""What renews the idle time where an empty request is not known to."""


class Dialect(IntEnum):
    """How much of the protocol a server speaks; the number is that of the path."""

    SEED = 1
    """Only ``execute`` and ``close``, on ``/v2/pipeline``."""
    V2 = 2
    """All request types of version 2."""
    V3 = 3
    """Also ``get_autocommit`` and ``is_autocommit``, on ``/v3/pipeline``."""


class ClientStream:
    """A stream that is opened by the first request, kept by its baton, and opened again when nothing was at stake.

    It takes one request at a time; a second one meanwhile raises StreamError. ``on_reopen`` is called when a
    stream is opened in the place of an earlier one and gives requests to send ahead (settings to replay);
    their entries are then in ``replayed``. ``reopened`` counts these times. ``seen`` is what is known of the
    database's state, shared by its streams: reads wait for it where a replica answers. With ``read_only`` nothing is
    sent that is not known to read.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        dialect: Dialect = Dialect.V3,
        clock: Callable[[], float] = time.monotonic,
        on_reopen: Callable[[], Sequence[Request]] | None = None,
        seen: Seen | None = None,
        read_only: bool = False,
    ) -> None:
        self.dialect = dialect
        self.read_only = read_only
        self.on_reopen = on_reopen
        self.reopened = 0
        self.replayed: list[Entry] = []
        self._anew = False  # the next request opens a stream in the place of an earlier one
        self._ended_by_server = False  # the last response had no baton although nothing closed the stream
        self._freshness = Freshness(seen or Seen())
        self._transport = transport
        self._clock = clock
        self._path = f"/v{max(dialect, 2)}/pipeline"
        self._endpoint: Endpoint | None = None
        self._stream = Stream()
        self._following = Following(clock)
        self._deadline = Deadline(clock)
        self._opened_at = 0.0
        self._answered_at = 0.0
        self._sent_at = 0.0
        self._encoding = 0.0
        self._traced: TracedRequest | None = None  # of the response that is being read
        self._beginning = threading.RLock()
        """Held from the look whether a request is under way until the next one is."""

    @property
    def phase(self) -> Phase:
        """Where the newest stream is in its life; IDLE before the first request."""
        return self._stream.phase

    @property
    def is_open(self) -> bool:
        """Whether the server holds a stream for us, as far as we know."""
        return self._stream.baton is not None and self.phase in (Phase.IDLE, Phase.IN_USE)

    @property
    def instance(self) -> str | None:
        """The name of the instance that answers, such as ``ams``; None where the server named no other address."""
        return None if self._endpoint is None else instance_of(self._transport.endpoint, self._endpoint)

    @property
    def transaction(self) -> Transaction:
        """What is known of the transaction on the stream."""
        return self._following.transaction

    def idle_for(self) -> float:
        """Seconds since the last answer; 0.0 if no stream is open."""
        return self._clock() - self._answered_at if self.is_open else 0.0

    def open_for(self) -> float | None:
        """Seconds since the request that opened the stream; None if none is open."""
        return self._clock() - self._opened_at if self.is_open else None

    def transaction_age(self) -> float | None:
        """Seconds since the request that opened the transaction; None if none is open."""
        return self._following.age()

    def within(self, seconds: float | None) -> AbstractContextManager[None]:
        """Wait for all answers together no longer than this: then AnswerTimeout, and the server is hung up on."""
        return self._deadline.within(seconds)

    def sent_for(self) -> float:
        """Seconds since the last request was sent."""
        return self._clock() - self._sent_at

    def settle(self) -> None:
        """Accept that a transaction was lost; until then `send` refuses everything."""
        self._following.settle()

    def send(self, requests: Sequence[Request], *, timeout: float | None = None) -> list[Entry]:
        """Send requests on the stream; gives one entry for each, in order. ``timeout`` is in seconds.

        A stream that expired, or whose baton the server no longer knows (400; 404 in the serverless protocol), is
        opened again and the requests are sent there, if no transaction was open. Nothing else is ever sent twice. A
        response without a baton ends the stream; the next request opens another one. Raises

        - ReadOnlyError: nothing was sent, the stream is as before;
        - TransactionLost: a transaction was open and the server rolled it back, now or earlier (see `settle`);
        - UnknownOutcome: no whole answer came, nobody knows what ran; the stream is dropped;
        - AuthError (401), BusyError, ConnectError: nothing of it ran, the stream and its baton are as before;
        - AuthError (403), NotFound, ServerError, ProtocolError, AddressError: refused, the stream is dropped.
        """
        self._check(requests)
        if self.is_open and self.phase is Phase.IDLE and self.idle_for() > IDLE_LIMIT:
            self._expire()
        self._check_that_it_is_open()
        entries = self._exchange(requests, timeout=timeout)
        if entries is None:  # the server no longer knows the baton, and nothing of this ran
            self._expire()
            entries = self._exchange(requests, timeout=timeout)
        if entries is None:
            raise ProtocolError("the server refuses the baton of a stream that was not opened yet")
        return entries

    def stream(self, stmt: Stmt) -> Streamed:
        """Run one statement as a cursor and give what it answers in pieces (`pipemagic.client.cursors` reads them).

        The stream is in use until those are closed. Only servers of version 3 have cursors; raises as `send` does.
        """
        self._check([Execute(stmt)])
        if self.is_open and self.phase is Phase.IDLE and self.idle_for() > IDLE_LIMIT:
            self._expire()
        if not self.is_open and (self._anew or self.phase is not Phase.IDLE):
            self.send([])  # opens it again, with what is to be sent ahead
        streamed = self._begin_rows(stmt)
        if streamed is None:
            self._expire()
            self.send([])
            streamed = self._begin_rows(stmt)
        if streamed is None:
            raise ProtocolError("the server refuses the baton of a stream that was not opened yet")
        return streamed

    def autocommit(self) -> bool:
        """Tell whether no transaction is open, by asking the server.

        Where the server has no such request a lone BEGIN tells: an error means that a transaction is open.
        """
        if self.dialect is Dialect.V3:
            self.send([])
        else:
            begin, undo = Execute(Stmt("BEGIN")), Execute(Stmt("ROLLBACK"))
            told = self._exchange_as_is([begin])[0]
            if isinstance(told, ErrorEntry) and "within a transaction" not in told.error.message:
                told = self._exchange_as_is([begin])[0]  # it may have been about the time, which is told only once
            if isinstance(told, OkEntry):
                self._exchange_as_is([undo])
                self._following.observe(autocommit=True)
        return self.transaction.state is not Tx.OPEN

    def renew(self) -> bool:
        """Renew the idle time of an open stream without a transaction; False if it is gone.

        Never opens one. Raises what `send` raises for a server that refuses, or does not answer within CLOSE_TIMEOUT.
        """
        with self._beginning:
            if not self.is_open or self.phase is not Phase.IDLE or self.transaction.state is not Tx.NONE:
                return False
            if self.idle_for() > IDLE_LIMIT:
                return False
            entries = self._exchange([] if self.dialect is Dialect.V3 else _SMALLEST, timeout=CLOSE_TIMEOUT)
        if entries is None:
            self._expire()
        return entries is not None

    def close(self) -> None:
        """End the stream; the server rolls an open transaction back. Never raises for what the server says."""
        if self.is_open and self.phase is Phase.IDLE and self.idle_for() <= IDLE_LIMIT:
            try:
                self._exchange([Close()], timeout=CLOSE_TIMEOUT)
            except PipemagicError:
                self._stream.baton = None  # the server ends it by itself after 10 s
        self._stream.baton = None
        self._following.observe(autocommit=True)
        self.settle()

    def __enter__(self) -> ClientStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_that_it_is_open(self) -> None:
        """Ask a server with only the seed whether a late transaction is over: what comes next would run outside it."""
        age = self.transaction_age()
        if self.dialect is Dialect.SEED and age is not None and age > TRANSACTION_LIMIT and self.autocommit():
            raise self._following.found_over()

    def _check(self, requests: Sequence[Request]) -> None:
        if self.transaction.state is Tx.LOST:
            raise TransactionLost("the transaction was lost and nothing was run outside it", hint=AGAIN)
        if self.read_only:
            refuse_writes(requests)
        if self.dialect is Dialect.SEED:
            for request in requests:
                if not isinstance(request, Execute | Close):
                    raise UnsupportedError("this server only knows execute and close")
                if isinstance(request, Execute) and (request.stmt.args or request.stmt.named_args):
                    self._check_arguments()

    def _check_arguments(self) -> None:
        """Find out once whether a server with only the seed binds arguments: if it ignored them, all were NULL."""
        if self._transport.binds_arguments is None:
            asked: list[Request] = [Execute(Stmt("SELECT ?", args=[Integer("7")])), Close()]
            answer = self._transport.post(self._path, pipeline(asked))
            if answer.status in (401, 403, 404) or answer.status >= 500:
                raise self._transport.refusal(answer)
            self._transport.binds_arguments = answer.status == 200 and b'"7"' in answer.body
        if not self._transport.binds_arguments:
            raise UnsupportedError(
                "this server does not take parameters", hint="write the values into the statement, with care"
            )

    def _exchange_as_is(self, requests: Sequence[Request]) -> list[Entry]:
        entries = self._exchange(requests, count=False)
        if entries is None:
            raise TransactionLost("the server no longer knows the stream", hint=AGAIN)
        return entries

    def _exchange(
        self, requests: Sequence[Request], *, timeout: float | None = None, count: bool = True
    ) -> list[Entry] | None:
        """Do one round trip; None if the stream is gone and nothing of it ran, and nothing was at stake."""
        behind: list[Request] = [GetAutocommit()] if self.dialect is Dialect.V3 and not answers.closes(requests) else []
        with self._beginning:
            reopened = self.reopened
            ahead = self._open_if_needed()
            asks = self.dialect is not Dialect.SEED and self.transaction.state is not Tx.OPEN
            sent = self._freshness.prepare([*ahead, *requests, *behind], asks=asks)
            if sent.limit is not None:
                timeout = min(timeout or sent.limit, self._transport.timeout or sent.limit, sent.limit)
            timeout = self._deadline.left(timeout, self._transport.timeout)
            started, message = time.perf_counter(), PipelineRequest(list(sent.requests), self._stream.baton)
            body = encode(message)
            self._encoding = time.perf_counter() - started
            self._stream.move("begin")
        self._sent_at, self._traced = self._clock(), None
        try:
            entries = self._round_trip(body, message, timeout)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):  # between the parts of the request
                error = InterruptedRequest("interrupted while a request was under way")
            self._transport.record(self._traced)
            self._freshness.failed(sent, error)
            self._deadline.name(error)
            if self.phase is Phase.IN_USE:  # whatever it was, the baton is spent
                raise self._lose(error, requests) from None
            raise
        if entries is None:
            return None
        self._freshness.answered(sent, entries)
        if self._anew:
            self.reopened, self._anew = self.reopened + 1, False
        if ahead:
            self.replayed, entries = entries[: len(ahead)], entries[len(ahead) :]
        try:
            if count:
                closed = self.phase is Phase.CLOSED
                self._following.answered(requests, entries, sent_at=self._sent_at, closed=closed)
        finally:
            if (traced := self._traced) is not None:
                traced.reopened, traced.transaction_open = self.reopened > reopened, self.transaction.state is Tx.OPEN
            self._transport.record(traced)
        if count and self.dialect is not Dialect.V3 and self.transaction.state is Tx.OPEN and answers.failed(entries):
            self.autocommit()  # some errors end the transaction; the text cannot tell
        return entries[: len(requests)]

    def _round_trip(self, body: bytes, sent: PipelineRequest, timeout: float | None) -> list[Entry] | None:
        try:
            limit = self._deadline.left(None, None)
            answer = self._transport.post(self._path, body, self._endpoint, timeout=timeout, limit=limit, reads=True)
        except (ConnectError, BusyError) as error:
            self._stream.move("finish")  # nothing was sent, or nothing ran: the baton is still good
            if isinstance(error, ConnectError) and self._endpoint and self.transaction.state is not Tx.OPEN:
                return None  # that instance is gone; the named address gives another one
            raise
        if answer.status == 200:
            self._traced = answer.traced
            return self._read(answer, sent)
        self._refuse(answer)
        return None

    def _begin_rows(self, stmt: Stmt) -> Streamed | None:
        """Send a cursor; None if the stream is gone and nothing of it ran, and nothing was at stake."""
        with self._beginning:
            self._open_if_needed()
            asks = self.transaction.state is not Tx.OPEN
            sent = self._freshness.prepare([RunBatch(Batch([Step(stmt)]))], asks=asks)
            (asked,) = sent.requests
            assert isinstance(asked, RunBatch)
            body = cursors.cursor(asked.batch, self._stream.baton)
            self._stream.move("begin")
        self._sent_at = self._clock()
        try:
            return self._ask_for_rows(asked, body, self._deadline.left(sent.limit, self._transport.timeout))
        except BaseException as error:
            self._freshness.failed(sent, error)
            self._deadline.name(error)
            if self.phase is Phase.IN_USE:
                raise self._lose(error, [asked]) from None
            raise

    def _ask_for_rows(self, asked: RunBatch, body: bytes, timeout: float | None) -> Streamed | None:
        try:
            limit = self._deadline.left(None, None)
            answer = self._transport.post_for_pieces("/v3/cursor", body, self._endpoint, timeout=timeout, limit=limit)
        except (ConnectError, BusyError) as error:
            self._stream.move("finish")
            if isinstance(error, ConnectError) and self._endpoint and self.transaction.state is not Tx.OPEN:
                return None
            raise
        if isinstance(answer, HttpAnswer):
            self._refuse(answer)
            return None
        streamed = Streamed(answer, partial(self._rows_ended, asked), self._deadline.check)
        head = streamed.read_head()
        if self._stream.baton is None:
            self._opened_at = self._sent_at
        self._stream.baton = head.baton
        if head.base_url:
            self._endpoint = follow(self._transport.endpoint, head.base_url)
        return streamed

    def _rows_ended(self, asked: RunBatch, error: BaseException | None, whole: bool) -> None:
        """Go on after a cursor, if all of it came; else the server has ended the stream, or is told to."""
        if whole:
            self._answered_at = self._clock()
            self._ended_by_server = self._stream.baton is None
            self._stream.move("close" if self._ended_by_server else "finish")
            if self._ended_by_server:
                self._following.unanswered([asked])  # a transaction that was open is not any more
            return
        self._hang_up()
        self._lose(error, [])

    def _hang_up(self) -> None:
        """Tell the server that a stream whose answer is not read to its end is not needed any more."""
        if self._stream.baton is not None:
            with suppress(PipemagicError):
                self._transport.post(
                    self._path, pipeline([Close()], self._stream.baton), self._endpoint, timeout=HANG_UP_TIMEOUT
                )

    def _open_if_needed(self) -> Sequence[Request]:
        """Start a new stream where the last one has ended; gives what must be sent ahead on it.

        That is given until an answer has come: the first try may be refused.
        """
        if self.phase is Phase.IN_USE:
            raise StreamError("a request is still under way on this connection; it takes one at a time")
        if self.phase is not Phase.IDLE:
            self._anew = self._anew or self.phase is not Phase.CLOSED
            self._stream, self._endpoint = Stream(), None
            self._freshness.restart()
        again = self._anew or self._ended_by_server
        return self.on_reopen() if again and self.on_reopen is not None else ()

    def _read(self, answer: HttpAnswer, sent: PipelineRequest) -> list[Entry]:
        """Read a 200: the entries, the new baton, the address to go on at."""
        started, asked = time.perf_counter(), len(sent.requests)
        try:
            response = read_answer(answer.body)
            if answer.traced is not None:
                answer.traced.encoding, answer.traced.decoding = self._encoding, time.perf_counter() - started
                answer.traced.add_results(sent, response)
            if len(response.results) != asked:
                raise ProtocolError(f"{asked} requests were sent and {len(response.results)} results came back")
            for request, entry in zip(sent.requests, response.results, strict=True):
                answers.check_kind(request, entry)
            endpoint = self._endpoint
            if response.base_url and response.baton is not None:
                endpoint = follow(self._transport.endpoint, response.base_url)
        except ProtocolError as error:
            raise answers.not_an_answer(error, answer) from None
        except KeyboardInterrupt:  # a large answer takes a while to read
            interrupted = InterruptedRequest("interrupted while the answer was read; what was sent has run")
            interrupted.answered = True
            raise interrupted from None
        self._answered_at = self._clock()
        if self._stream.baton is None:
            self._opened_at = self._sent_at
        self._stream.baton, self._endpoint = response.baton, endpoint
        self._ended_by_server = response.baton is None and not answers.closes(sent.requests)
        self._stream.move("finish" if response.baton is not None else "close")
        return response.results

    def _refuse(self, answer: HttpAnswer) -> None:
        """Read any other status; returns only if the stream is gone and the requests may be sent again."""
        fault = faults.read_fault(answer.body, answer.content_type)
        if self._stream.baton is not None and (
            answer.status == 404 or (answer.status == 400 and faults.is_baton_fault(fault))
        ):  # a 404 that is about the database itself is the answer to a request without a baton, too
            self._stream.move("finish")
            return
        if answer.status == 401:
            self._stream.move("finish")
        raise self._transport.refusal(answer)

    def _expire(self) -> None:
        """Give the stream up, known or found to be expired; TransactionLost if a transaction was open."""
        idle = self.idle_for()
        self._stream.move("expire")
        self._stream.baton = None
        self._following.expired(idle)

    def _lose(self, error: E, requests: Sequence[Request]) -> E:
        """Drop the stream. A transaction that was, or may be, open is lost with it; the error then says so."""
        self._stream.move("lose")
        self._stream.baton = None
        if self._following.unanswered(requests) and isinstance(error, PipemagicError):
            error.hint = "; ".join(filter(None, ["the open transaction is rolled back", error.hint]))
        return error
