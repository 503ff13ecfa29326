"""Send one HTTP request and bring its answer back: time-outs, the one retry rule, typed errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlencode, urlsplit

from pipemagic.client.bodies import HttpAnswer, Pieces
from pipemagic.client.failures import explained, refusal, retry_time
from pipemagic.client.http.choice import sender_to
from pipemagic.client.http.messages import Broken, Reply, Request, Silent
from pipemagic.client.secrets import Token
from pipemagic.client.trace_format import redact
from pipemagic.client.tracing import BODY_LIMIT, Observer, TracedRequest
from pipemagic.client.urls import Endpoint
from pipemagic.errors import AddressError, ConnectError, PipemagicError, ServerError
from pipemagic.hrana import columns
from pipemagic.hrana.faults import read_fault

if TYPE_CHECKING:
    import httpx

CONNECT_TIMEOUT = 10.0
"""Seconds to wait for a connection."""

READ_TIMEOUT = 60.0
"""Seconds to wait for the next part of an answer."""

BUSY_PAUSES = (0.1, 0.25, 0.5, 1.0, 1.5)
"""Seconds between attempts after 429; in sum below the transaction window of 5 s."""


class Transport:
    """HTTP to one server. Never sends a request twice, except after 429, when nothing of it ran.

    ``http`` takes any ``httpx.Client`` (a proxy, client certificates, an ASGI or mock transport); it stays the
    caller's to close. ``timeout`` and ``connect_timeout`` are seconds; None waits without end. ``observer`` receives
    every request.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        token: str | Token | None = None,
        *,
        timeout: float | None = READ_TIMEOUT,
        connect_timeout: float | None = CONNECT_TIMEOUT,
        http: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
        observer: Observer | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.observer = observer
        self.token = token if isinstance(token, Token) else Token(token)
        self.timeout = timeout
        """Seconds to wait for the next part of an answer; None waits without end."""
        self.binds_arguments: bool | None = None
        """Whether a server with only the seed takes arguments; None until it was asked."""
        self._connect_timeout = connect_timeout
        self._http = http
        self._sender = sender_to(endpoint, http)
        self._sleep = sleep

    def sibling(self, *, timeout: float | None = None) -> Transport:
        """Give a transport to the same server with connections of its own and without an observer."""
        other = Transport(
            self.endpoint, self.token, http=self._http, sleep=self._sleep,
            timeout=self.timeout if timeout is None else timeout,
            connect_timeout=self._connect_timeout if timeout is None else timeout,
        )  # fmt: skip
        other.binds_arguments = self.binds_arguments
        return other

    def __repr__(self) -> str:
        return f"Transport({self.endpoint.address!r})"

    def post(
        self,
        path: str,
        body: bytes,
        endpoint: Endpoint | None = None,
        *,
        timeout: float | None = None,
        limit: float | None = None,
        reads: bool = False,
    ) -> HttpAnswer:
        """POST JSON and give the answer, whatever its status.

        ``timeout`` is how many seconds to wait for the next part of it, ``limit`` for the whole. With ``reads`` the
        caller reads a 200 and then calls `record`.
        Raises BusyError for 429 after some attempts, AddressError for a redirect, ConnectError if no connection
        came about (nothing was sent), UnknownOutcome if the request left and no whole answer came, and
        InterruptedRequest (its subclass) if the user interrupted.
        """
        return self.request("POST", path, body, endpoint=endpoint, timeout=timeout, limit=limit, reads=reads)

    def get(self, path: str) -> HttpAnswer:
        """GET a path; raises as `post` does."""
        return self.request("GET", path)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        endpoint: Endpoint | None = None,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
        limit: float | None = None,
        reads: bool = False,
    ) -> HttpAnswer:
        """Send any request; raises as `post` does."""
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        request = self._request(method, path + query, body, endpoint, timeout, limit)
        traced = self._begin(request, len(body or b""))
        try:
            answer = self._answer(self._send_patiently(request, traced), request.endpoint, traced)
        except BaseException as error:
            self._end(traced, error)
            raise
        if traced is not None:
            traced.ended = time.perf_counter()
            if not (reads and answer.status == 200):
                self.record(traced)
        return answer

    def post_for_pieces(
        self,
        path: str,
        body: bytes,
        endpoint: Endpoint | None = None,
        *,
        timeout: float | None = None,
        limit: float | None = None,
    ) -> Pieces | HttpAnswer:
        """POST JSON and give the answer in pieces as they come; if its status is not 2xx, as a whole.

        Raises as `post` does.
        """
        request = self._request("POST", path, body, endpoint, timeout, limit)
        traced = self._begin(request, len(body))
        try:
            reply = self._send_patiently(request, traced, whole=False)
            if 200 <= reply.status < 300:
                return Pieces(reply, request.endpoint.address, partial(self._end_pieces, traced, reply))
            answer = self._answer(reply, request.endpoint, traced)
        except BaseException as error:
            self._end(traced, error)
            raise
        self._end(traced)
        return answer

    @contextmanager
    def streamed(
        self, method: str, path: str, content: Iterable[bytes] | None = None, *, size: int | None = None
    ) -> Iterator[Iterator[bytes]]:
        """Send a body of ``size`` bytes in pieces, take the answer in pieces; neither is in memory as a whole.

        Waits for the answer without end: the server may have to look at all that was sent. Raises as `post` does, and
        the typed error of an answer that is not 2xx; ConnectError if the answer ends too soon.
        """
        length = {"Content-Type": "application/octet-stream", "Content-Length": str(size)} if size is not None else {}
        request = Request(
            method, self.endpoint, path, {**self._headers(self.endpoint, None), **length}, content,
            self._connect_timeout, None,
        )  # fmt: skip
        with self._observed(request, size or 0) as traced:
            send = self._send if content is not None else partial(self._send_patiently, traced=traced)
            reply = send(request, whole=False)
            try:
                if not 200 <= reply.status < 300:
                    reply.read()
                    raise self.refusal(self._answer(reply, self.endpoint))
                yield reply.pieces()
            except (Broken, Silent) as error:
                raise ConnectError(
                    f"the connection to {self.endpoint.address} ended before everything came: {error}",
                    hint="try again",
                ) from None
            finally:
                reply.close()
                _note_head(traced, reply)

    def refusal(self, answer: HttpAnswer, what: str = "the request") -> ServerError:
        """Turn an answer that is not 2xx into the error to raise; no token shows in it."""
        fault = read_fault(answer.body, answer.content_type)
        error = refusal(answer.status, self.token.redact(fault.message), fault.code or "", what)
        if answer.status in (429, 503) and (when := retry_time(answer.retry_after)):
            error.hint = f"{error.hint.removesuffix(', or try again later')}; try again {when}".removeprefix("; ")
        return error

    def close(self) -> None:
        """Close the connections, if they are ours."""
        self._sender.close()

    def hang_up(self) -> None:
        """Give up, from another thread, what is under way, for good: who waits for it gets UnknownOutcome.

        Where httpx sends, nothing can be ended from outside: the answer is waited for.
        """
        self._sender.hang_up()

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- sending

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        endpoint: Endpoint | None,
        timeout: float | None,
        limit: float | None,
    ) -> Request:
        endpoint = endpoint or self.endpoint
        return Request(
            method, endpoint, path,
            self._headers(endpoint, body),  # in no variable: tracebacks may show those
            body, self._connect_timeout, self.timeout if timeout is None else timeout, limit,
        )  # fmt: skip

    def _headers(self, endpoint: Endpoint, body: bytes | None) -> dict[str, str]:
        headers = self.token.headers()
        if body is not None:
            headers["Content-Type"] = "application/json"
            headers[columns.HEADER] = columns.VALUE  # of a server that knows it; others pass over it
        if endpoint.loopback:
            headers["Accept-Encoding"] = "identity"  # gzip on loopback costs more than it saves
        return headers

    def _send_patiently(self, request: Request, traced: TracedRequest | None, *, whole: bool = True) -> Reply:
        """Send, and after a 429 again: nothing of it ran."""
        for pause in BUSY_PAUSES:
            reply = self._send(request, whole=whole)
            if reply.status != 429:
                return reply
            reply.close()
            self._sleep(pause)
            if traced is not None:
                traced.attempts += 1
        return self._send(request, whole=whole)

    def _send(self, request: Request, *, whole: bool) -> Reply:
        """Send, and wait for the head of the answer, or for the whole."""
        with explained(request.endpoint):
            reply = self._sender.send(request)
            if whole:
                reply.read()
            return reply

    def _answer(self, reply: Reply, endpoint: Endpoint, traced: TracedRequest | None = None) -> HttpAnswer:
        """Read what is not read yet. Raises BusyError for 429, AddressError for a redirect."""
        headers = reply.headers
        with explained(endpoint):
            body = reply.read()
        answer = HttpAnswer(
            reply.status,
            headers.get("content-type", "").lower(),
            body,
            headers.get("date", ""),
            headers.get("retry-after", ""),
            traced,
        )
        if traced is not None:
            _note_head(traced, reply)
            traced.received = body if len(body) <= BODY_LIMIT else None
            traced.received_size = traced.received_size or len(body)  # one that never was on a wire
        if answer.status == 429:
            raise self.refusal(answer)
        if 300 <= answer.status < 400:
            where = _host_in(headers.get("location", ""))
            raise AddressError(
                f"{endpoint.address} redirects to {where}; pipemagic does not take a token there",
                hint="connect to the final address itself (https:// instead of http://?)",
            )
        return answer

    # -- tracing

    @contextmanager
    def _observed(self, request: Request, size: int) -> Iterator[TracedRequest | None]:
        traced = self._begin(request, size)
        try:
            yield traced
        except BaseException as error:
            self._end(traced, error)
            raise
        self._end(traced)

    def _begin(self, request: Request, size: int) -> TracedRequest | None:
        """Begin the record of a request, if there is an observer."""
        if self.observer is None:
            return None
        path = unquote(urlsplit(request.endpoint.url).path + request.path.partition("?")[0])
        traced = TracedRequest(request.method, path, request.endpoint, time.perf_counter(), sent_size=size)
        if isinstance(request.body, bytes) and size <= BODY_LIMIT:
            traced.sent = request.body
        return traced

    def _end(self, traced: TracedRequest | None, error: BaseException | None = None) -> None:
        """Record a request that is over, however it ended."""
        if traced is None:
            return
        if error is not None:
            text = error.message if isinstance(error, PipemagicError) else str(error)
            traced.error = redact(self.token.redact(f"{type(error).__name__}: {text}"))
        traced.ended = time.perf_counter()
        self.record(traced)

    def record(self, traced: TracedRequest | None) -> None:
        """Give a request to the observer, if it is traced."""
        if traced is not None and self.observer is not None:
            self.observer.exchanged(traced)

    def _end_pieces(self, traced: TracedRequest | None, reply: Reply, error: BaseException | None, head: bytes) -> None:
        """Note of an answer in pieces how it began and how much it was."""
        _note_head(traced, reply)
        if traced is not None:
            traced.received = head
        self._end(traced, error)


def _host_in(location: str) -> str:
    """Tell whereto a redirect leads; servers write what they like."""
    try:
        return urlsplit(location).netloc or "another path"
    except ValueError:
        return "an address that cannot be read"


def _note_head(traced: TracedRequest | None, reply: Reply) -> None:
    if traced is not None:
        traced.status = reply.status
        traced.received_size = reply.received_size
        traced.server_timing = reply.headers.get("server-timing", "")
