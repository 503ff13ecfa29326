"""Send HTTP requests: timeouts, retries after 429, conversion of errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from math import inf
from types import TracebackType
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlencode, urlsplit

import httpx

from pipemagic.client.address import Endpoint
from pipemagic.client.http_errors import FAILURES, chunk_failure, failure, refusal, retry_seconds, transfer_failure
from pipemagic.client.response_body import Chunks, HttpResponse, TooLarge, read_chunks, read_whole
from pipemagic.client.secrets import Token
from pipemagic.client.trace_format import redact
from pipemagic.client.tracing import BODY_LIMIT, Observer, TracedRequest
from pipemagic.errors import AddressError, InterruptedRequest, PipemagicError, ServerError
from pipemagic.hrana import columns
from pipemagic.hrana.faults import read_fault
from pipemagic.hrana.stream import LIMITS_HEADER, STRICT
from pipemagic.http import CONNECT_TIMEOUT, READ_TIMEOUT
from pipemagic.http.proxy import find_proxy, proxy_transport
from pipemagic.http.transport import HttpTransport
from pipemagic.version import __version__

TRANSFER_TIMEOUT = 600.0
"""Seconds to wait for the next part of an export, or for the response to an upload."""

EXAMINED_PER_SECOND = 1_000_000
"""The lowest rate at which a server examines an upload, in bytes a second, for the timeout of its response."""

BUSY_PAUSES = (0.1, 0.25, 0.5, 1.0, 1.5)
"""Seconds between attempts after 429; in sum below the time limit of 5 s for a transaction."""

_HEADERS = [(b"User-Agent", f"pipemagic/{__version__}".encode()), (b"Accept", b"*/*")]

_COLUMNS = (columns.HEADER.encode(), columns.VALUE.encode())

Header: TypeAlias = tuple[bytes, bytes]


class Transport:
    """An HTTP client for one server. It never sends a request twice, except after 429, when nothing of it ran.

    ``http`` takes any ``httpx.Client`` (a proxy, client certificates, an ASGI or mock transport), which is not
    closed. ``timeout`` and ``connect_timeout`` are seconds; None is no limit. ``observer`` receives
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
        """Seconds to wait for the next part of a response; None is no limit."""
        self.binds_arguments: bool | None = None
        """Whether a server with only the seed supports arguments; None if unknown."""
        self.strict_limits = False
        """Whether the server is known to end each transaction at its limit, as the embedded service does.

        Others, such as sqld, may end it only when another connection waits to write.
        """
        self._connect_timeout = connect_timeout
        self._http = http
        self._lower = None if http is not None else _transport_to(endpoint)
        self._sleep = sleep

    def sibling(self, *, timeout: float | None = None) -> Transport:
        """Return a transport to the same server with its own connections and without an observer."""
        other = Transport(
            self.endpoint, self.token, http=self._http, sleep=self._sleep,
            timeout=self.timeout if timeout is None else timeout,
            connect_timeout=self._connect_timeout if timeout is None else timeout,
        )  # fmt: skip
        other.binds_arguments, other.strict_limits = self.binds_arguments, self.strict_limits
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
    ) -> HttpResponse:
        """POST JSON and return the response, whatever its status.

        ``timeout`` is the seconds to wait for the next part of it, ``limit`` for the whole. With ``reads`` the
        caller reads a 200 and then calls `record`.
        Raise BusyError for 429 after some attempts, AddressError for a redirect, ConnectError if no connection
        could be opened (nothing was sent), UnknownOutcome if the request was sent and its response is incomplete, and
        InterruptedRequest (its subclass) if the user interrupted.
        """
        return self.request("POST", path, body, endpoint=endpoint, timeout=timeout, limit=limit, reads=reads)

    def get(self, path: str) -> HttpResponse:
        """GET a path; raise the errors of `post`."""
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
    ) -> HttpResponse:
        """Send any request; raise the errors of `post`."""
        if params:
            path = f"{path}?{urlencode(params, quote_via=quote)}"
        endpoint, timeout = endpoint or self.endpoint, self.timeout if timeout is None else timeout
        traced = self._begin(method, endpoint, path, body, len(body or b""))
        response = None
        try:
            response = self._send(method, endpoint, path, body, traced, timeout=timeout, limit=limit)
            received = self._read(response, endpoint, traced, timeout)
        except BaseException as error:
            self._end(traced, response, error)
            raise
        self._end(traced, response, records=not (reads and received.status == 200))
        return received

    def post_for_chunks(
        self,
        path: str,
        body: bytes,
        endpoint: Endpoint | None = None,
        *,
        timeout: float | None = None,
        limit: float | None = None,
    ) -> Chunks | HttpResponse:
        """POST JSON and return the response in chunks as they arrive, or as a whole if its status is not 2xx.

        Raise the errors of `post`.
        """
        endpoint, timeout = endpoint or self.endpoint, self.timeout if timeout is None else timeout
        traced = self._begin("POST", endpoint, path, body, len(body))
        response = None
        try:
            response = self._send("POST", endpoint, path, body, traced, timeout=timeout, limit=limit)
            if response.is_success:
                end = partial(self._end, traced, response)
                return Chunks(
                    response, self._chunks(response, endpoint), lambda error: chunk_failure(error, endpoint), end
                )
            received = self._read(response, endpoint, traced, timeout)
        except BaseException as error:
            self._end(traced, response, error)
            raise
        self._end(traced, response)
        return received

    @contextmanager
    def streamed(
        self, method: str, path: str, content: Iterable[bytes] | None = None, *, size: int | None = None
    ) -> Iterator[Iterator[bytes]]:
        """Send a body of ``size`` bytes in chunks, yield the response in chunks; neither is kept in memory.

        The server may have to examine the upload, or prepare its response: the timeout of the next part of the response
        is `TRANSFER_TIMEOUT`, or that of other responses if it is longer. Raise the errors of `post`, that of `refusal`
        for a response that is not 2xx, and ConnectError if the response ends too soon.
        """
        longest = TRANSFER_TIMEOUT + (size or 0) / EXAMINED_PER_SECOND
        timeout = None if self.timeout is None else max(longest, self.timeout)
        traced = self._begin(method, self.endpoint, path, None, size or 0)
        response = None
        try:
            response = self._send(method, self.endpoint, path, content, traced, timeout=timeout, size=size)
            if not response.is_success:
                raise self.refusal(self._read(response, self.endpoint, None, timeout))
            yield self._chunks(response, self.endpoint)
        except BaseException as error:
            self._end(traced, response, error)
            if isinstance(error, httpx.RequestError):
                raise transfer_failure(error, self.endpoint) from None
            raise
        finally:
            if response is not None:
                response.close()
        self._end(traced, response)

    def refusal(self, received: HttpResponse) -> ServerError:
        """Return the error for a response that is not 2xx, without the token."""
        fault = read_fault(received.body, received.content_type)
        error = refusal(received.status, self.token.redact(fault.message), fault.code or "", received.retry_after)
        error.retry_after = retry_seconds(received.retry_after)
        return error

    def close(self) -> None:
        """Close the connections, except those of a client of the caller."""
        if self._lower is not None:
            self._lower.close()

    def abort(self) -> None:
        """End pending requests from another thread; the threads that wait for them get UnknownOutcome.

        Requests of a client of the caller or through a proxy cannot be aborted; they continue.
        """
        if isinstance(self._lower, HttpTransport):
            self._lower.abort()

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- sending

    def _send(
        self,
        method: str,
        endpoint: Endpoint,
        path: str,
        content: bytes | Iterable[bytes] | None,
        traced: TracedRequest | None,
        *,
        timeout: float | None,
        limit: float | None = None,
        size: int | None = None,
    ) -> httpx.Response:
        """Send a request, after a 429 again, since nothing of it ran; return the response before its body is read."""
        extensions: dict[str, Any] = {
            "timeout": {
                "connect": self._connect_timeout, "pool": self._connect_timeout,
                "read": timeout, "write": timeout if size is None else self.timeout,
            },
            "deadline": inf if limit is None else time.monotonic() + limit,
        }  # fmt: skip
        if endpoint.host_header is not None and endpoint.scheme == "https":
            extensions["sni_hostname"] = endpoint.named_host
        try:
            request = self._build(method, endpoint, path, content, size, extensions)
            for pause in BUSY_PAUSES if size is None else ():
                response = self._handle(request)
                if response.status_code != 429 or time.monotonic() + pause > extensions["deadline"]:
                    return response
                if (retry_seconds(response.headers.get("retry-after", "")) or 0) > pause:
                    return response  # the attempt would come before the time that the server names
                self._pause(response, pause, timeout)
                if traced is not None:
                    traced.attempts += 1
            return self._handle(request)
        except FAILURES as error:
            raise failure(error, endpoint) from None

    def _build(
        self,
        method: str,
        endpoint: Endpoint,
        path: str,
        content: bytes | Iterable[bytes] | None,
        size: int | None,
        extensions: dict[str, Any],
    ) -> httpx.Request:
        """Return a request. Its headers are not in a variable, since tracebacks may show those."""
        url = _url(endpoint.url, path)
        if self._http is not None:
            return self._http.build_request(
                method,
                url,
                headers=list(self._headers(endpoint, content, size)),
                content=content,
                extensions=extensions,
            )
        host = (b"Host", (endpoint.host_header or "").encode() or url.netloc)
        if not isinstance(content, bytes):
            headers = [host, *_HEADERS, *self._headers(endpoint, content, size)]
            return httpx.Request(method, url, headers=headers, content=content, extensions=extensions)
        length = (b"Content-Length", b"%d" % len(content))
        return httpx.Request(  # with all headers and a stream it takes a quarter of the time
            method, url, headers=[host, length, *_HEADERS, *self._headers(endpoint, content, size)],
            stream=httpx.ByteStream(content), extensions=extensions,
        )  # fmt: skip

    def _handle(self, request: httpx.Request) -> httpx.Response:
        if self._http is not None:
            if self._http.is_closed:
                raise httpx.ConnectError("the client that was given as http= is closed")
            return self._http.send(request, follow_redirects=False, stream=True)
        assert self._lower is not None
        response = self._lower.handle_request(request)
        response.request = request
        return response

    def _pause(self, response: httpx.Response, seconds: float, timeout: float | None) -> None:
        """Wait after a 429; an interrupt changes nothing."""
        try:
            with suppress(httpx.RequestError, TooLarge):  # whatever its body, nothing ran
                read_whole(response, _deadline(response), timeout)
            self._sleep(seconds)
        except KeyboardInterrupt:
            raise InterruptedRequest(
                "interrupted while the server was busy", hint="nothing was run", nothing_ran=True
            ) from None

    def _headers(
        self, endpoint: Endpoint, content: bytes | Iterable[bytes] | None, size: int | None
    ) -> Iterator[Header]:
        """Yield the headers that do not depend on the client that sends the request."""
        if self.token.authorization:
            yield b"Authorization", self.token.authorization
        if endpoint.host_header is not None and self._http is not None:
            yield b"Host", endpoint.host_header.encode()
        # on loopback gzip costs more than it saves
        yield b"Accept-Encoding", b"identity" if endpoint.loopback else b"gzip"
        if size is not None:
            yield b"Content-Type", b"application/octet-stream"
            yield b"Content-Length", b"%d" % size
        elif content is not None:
            yield b"Content-Type", b"application/json"
            yield _COLUMNS  # for servers that know it; others ignore it

    def _chunks(self, response: httpx.Response, endpoint: Endpoint) -> Iterator[bytes]:
        """Yield the body as it arrives; with TLS a chunk is a record, which does not grow."""
        grows = endpoint.scheme == "http" and isinstance(self._lower, HttpTransport)
        return read_chunks(response, _deadline(response), self._sleep if grows else None)

    def _read(
        self, response: httpx.Response, endpoint: Endpoint, traced: TracedRequest | None, timeout: float | None
    ) -> HttpResponse:
        """Read the body of a response. Raise BusyError for 429, AddressError for a redirect."""
        try:
            body = read_whole(response, _deadline(response), timeout)
        except FAILURES as error:
            raise failure(error, endpoint) from None
        finally:
            response.close()
        if traced is not None:
            traced.received = body if len(body) <= BODY_LIMIT else None
            traced.received_size = len(body)
        headers = {name.lower(): value.decode("latin-1") for name, value in response.headers.raw}
        self.strict_limits |= headers.get(LIMITS_HEADER) == STRICT
        received = HttpResponse(
            response.status_code,
            headers.get(b"content-type", "").lower(),
            body,
            headers.get(b"date", ""),
            headers.get(b"retry-after", ""),
            traced,
        )
        if received.status == 429:
            raise self.refusal(received)
        if 300 <= received.status < 400:
            raise AddressError(
                f"{endpoint.address} redirects to {_host_in(headers.get(b'location', ''))}; "
                "pipemagic does not send a token there",
                hint="connect to the final address itself (https:// instead of http://?)",
            )
        return received

    # -- tracing

    def _begin(self, method: str, endpoint: Endpoint, path: str, body: bytes | None, size: int) -> TracedRequest | None:
        """Begin the record of a request, if there is an observer."""
        if self.observer is None:
            return None
        path = unquote(urlsplit(endpoint.url).path + path.partition("?")[0])
        traced = TracedRequest(method, path, endpoint, time.perf_counter(), sent_size=size)
        if size <= BODY_LIMIT:
            traced.sent = body
        return traced

    def _end(
        self, traced: TracedRequest | None, response: httpx.Response | None,
        error: BaseException | None = None, received: bytes | None = None, *, records: bool = True,
    ) -> None:  # fmt: skip
        """Complete the record of a request; with ``records`` pass it to the observer."""
        if traced is None:
            return
        if response is not None:
            traced.status = response.status_code
            traced.server_timing = response.headers.get("server-timing", "")
            # 0 for a response without a network
            traced.received_size = response.num_bytes_downloaded or traced.received_size
        if received is not None:
            traced.received = received
        if error is not None:
            text = error.message if isinstance(error, PipemagicError) else str(error)
            traced.error = redact(self.token.redact(f"{type(error).__name__}: {text}"))
        traced.ended = time.perf_counter()
        if records:
            self.record(traced)

    def record(self, traced: TracedRequest | None) -> None:
        """Pass a request to the observer, if it is traced."""
        if traced is None or self.observer is None:
            return
        self.observer.exchanged(traced)
        if traced.tally is not None and hasattr(self.observer, "understood"):
            self.observer.understood(traced)


def _transport_to(endpoint: Endpoint) -> httpx.BaseTransport:
    """Return the transport to an endpoint: a proxy if there is one, but never for loopback."""
    if not endpoint.loopback and (proxy := find_proxy(endpoint.scheme, endpoint.named_host + endpoint.port_suffix)):
        return proxy_transport(proxy)
    return HttpTransport(endpoint.challenge)


@lru_cache(maxsize=1024)
def _url(base: str, path: str) -> httpx.URL:
    """Return a parsed address, cached since parsing costs more than the rest of a request."""
    return httpx.URL(base + path)


def _deadline(response: httpx.Response) -> float:
    deadline: float = response.request.extensions.get("deadline", inf)
    return deadline


def _host_in(location: str) -> str:
    """Return the host of a redirect, whose Location may be malformed."""
    try:
        return urlsplit(location).netloc or "another path"
    except ValueError:
        return "an address that cannot be read"
