"""Send HTTP requests: timeouts, the one loop that sends a request again, conversion of errors."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from math import inf
from types import TracebackType
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import httpx

from pipemagic.client.address import Endpoint
from pipemagic.client.arguments import ROWS_OF
from pipemagic.client.http_errors import (
    FAILURES,
    NO_TOKEN,
    asks_for_key,
    cause_of_failure,
    chunk_failure,
    failure,
    key_refusal,
    refusal,
    retry_seconds,
    transfer_failure,
)
from pipemagic.client.repeats import (
    BUSY_PAUSES,
    REPEATS,
    Cause,
    First,
    Message,
    cause_of_refusal,
    interrupted,
    nothing_ran,
)
from pipemagic.client.response_body import Chunks, HttpResponse, read_chunks, read_whole
from pipemagic.client.secrets import BearerToken, EncryptionKey
from pipemagic.client.trace_format import redact
from pipemagic.client.tracing import BODY_LIMIT, Observer, TracedRequest
from pipemagic.errors import AddressError, ConnectError, PipemagicError, ServerError
from pipemagic.hrana import columns
from pipemagic.hrana.faults import read_fault
from pipemagic.hrana.stream import LIMITS_HEADER
from pipemagic.http import CONNECT_TIMEOUT, READ_TIMEOUT
from pipemagic.http.transport import HttpTransport, find_proxy, proxy_transport
from pipemagic.version import __version__

TRANSFER_TIMEOUT = 600.0
"""Seconds to wait for the next part of an export, or for the response to an upload."""

EXAMINED_PER_SECOND = 1_000_000
"""The lowest rate at which a server examines an upload, in bytes a second, for the timeout of its response."""

_HEADERS = [(b"User-Agent", f"pipemagic/{__version__}".encode()), (b"Accept", b"*/*")]

_JSON = ((b"Content-Type", b"application/json"), (columns.HEADER.encode(), columns.VALUE.encode()))
"""The headers of a body of JSON; a server that does not know the second one ignores it."""

_BINARY = (b"Content-Type", b"application/octet-stream")

_IDENTITY, _GZIP = (b"Accept-Encoding", b"identity"), (b"Accept-Encoding", b"gzip")
"""On loopback gzip costs more than it saves."""


class Transport:
    """An HTTP client for one server. It sends a request again only as `repeats.REPEATS` allows.

    ``http`` takes any ``httpx.Client`` (a proxy, client certificates, an ASGI or mock transport), which is not
    closed. ``timeout`` and ``connect_timeout`` are seconds; None is no limit. ``observer`` receives
    every request. Every request has the ``token`` and the ``encryption_key`` of the database, if it has these.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        token: str | BearerToken | None = None,
        *,
        timeout: float | None = READ_TIMEOUT,
        connect_timeout: float | None = CONNECT_TIMEOUT,
        http: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
        observer: Observer | None = None,
        encryption_key: str | EncryptionKey | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.observer = observer
        self.token = token if isinstance(token, BearerToken) else BearerToken(token)
        self.key = encryption_key if isinstance(encryption_key, EncryptionKey) else EncryptionKey(encryption_key)
        self.timeout = timeout
        """Seconds to wait for the next part of a response; None is no limit."""
        self.binds_arguments: bool | None = None
        """Whether a server with only the seed supports arguments; None if unknown."""
        self.limits = ""
        """What the server says about the time limits of transactions, see `LIMITS_HEADER`; '' if it says nothing."""
        self.find_again: Callable[[Cause], Transport | None] | None = None
        """Returns a transport to the same server at its address of now, for the embedded service; None if not now."""
        self._aborted = False
        self._finding = threading.Lock()
        self._closed = False
        self._connect_timeout = connect_timeout
        self._http = http
        self._lower = None if http is not None else _transport_to(endpoint)
        self._sleep = sleep

    def sibling(self, *, timeout: float | None = None, finds_again: bool = False) -> Transport:
        """Return a transport to the same server with its own connections and without an observer.

        If it ``finds_again`` the embedded service, this one has found it, too.
        """
        other = Transport(
            self.endpoint, self.token, http=self._http, sleep=self._sleep, encryption_key=self.key,
            timeout=self.timeout if timeout is None else timeout,
            connect_timeout=self._connect_timeout if timeout is None else timeout,
        )  # fmt: skip
        other.binds_arguments, other.limits = self.binds_arguments, self.limits
        if finds_again:
            lower = self._lower
            other.find_again = lambda cause: self.sibling(timeout=timeout) if self._find(cause, lower) else None
        return other

    def __repr__(self) -> str:
        return f"Transport({self.endpoint.address!r})"

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        params: Mapping[str, str] | None = None,
        endpoint: Endpoint | None = None,
        timeout: float | None = None,
    ) -> HttpResponse:
        """Send a request, with a body as JSON; return its response, whatever the status. Raise the errors of `send`."""
        if params:
            path = f"{path}?{urlencode(params, quote_via=quote)}"
        message = Message(method, path, body, endpoint, timeout)
        del body  # tracebacks may show variables, and a body may have a secret
        response: HttpResponse = self.send(message)
        self.end(message)
        return response

    def get(self, path: str) -> HttpResponse:
        """GET a path; raise the errors of `send`."""
        return self.request("GET", path)

    def send(self, message: Message, *, streams: bool = False) -> Any:
        """Send a message, and again as `repeats.REPEATS` allows; return its response, whatever the status.

        That is an `HttpResponse`; with ``streams`` a 2xx is a response of httpx, whose body is not read. Raise
        BusyError for 429 after some attempts, AddressError for a redirect, ConnectError if no connection could be
        opened (nothing was sent), UnknownOutcome if the request was sent and its response is incomplete, and
        InterruptedRequest (its subclass) if the user interrupted. Without an error the caller calls `end`.
        """
        message.deadline = inf if message.limit is None else time.monotonic() + message.limit
        times: Counter[Cause] = Counter()
        self._begin(message)
        while True:
            lower, endpoint = self._lower, message.endpoint or self.endpoint
            response: httpx.Response | None = None
            message.nothing_ran = False
            try:
                request = self._build(message, endpoint)
                response = lower.handle_request(request) if lower is not None else self._send_by_client(request)
                if streams and response.is_success:
                    return response
                whole = self._read(message, response)
                if 200 <= whole.status < 300:
                    return whole
                error, cause = self._error(whole, endpoint), cause_of_refusal(whole, message)
            except FAILURES as raised:
                error, cause = self._failed(raised, response, message)
            except BaseException as raised:
                self.end(message, raised)
                raise
            message.nothing_ran = nothing_ran(cause, error)
            try:
                repeats = cause is not None and self._prepare(message, cause, times[cause], response, lower)
            except BaseException as raised:
                self.end(message, error or raised)
                raise
            if cause is None or not repeats:
                if error is None:
                    return whole
                self.end(message, error)
                raise error from None
            times[cause] += 1
            if REPEATS[cause].first is not First.PAUSE:
                self.end(message, error)
                self._begin(message)
            elif message.traced is not None:
                message.traced.attempts += 1

    def chunks(self, message: Message) -> Chunks | HttpResponse:
        """Send a message; return the response in chunks as they arrive, or as a whole if its status is not 2xx.

        Raise the errors of `send`.
        """
        response = self.send(message, streams=True)
        if isinstance(response, HttpResponse):
            self.end(message)
            return response
        return Chunks(
            response,
            self._chunks(response, message.deadline),
            partial(chunk_failure, endpoint=message.endpoint or self.endpoint),
            partial(self._end_chunks, message, response),
        )

    @contextmanager
    def streamed(
        self, method: str, path: str, content: Iterable[bytes] | None = None, *, size: int | None = None
    ) -> Iterator[Iterator[bytes]]:
        """Send a body of ``size`` bytes in chunks, yield the response in chunks; neither is kept in memory.

        The server may have to examine the upload, or prepare its response: the timeout of the next part of the response
        is `TRANSFER_TIMEOUT`, or that of other responses if it is longer. Raise the errors of `send`, that of `refusal`
        for a response that is not 2xx, and ConnectError if the response ends too soon.
        """
        longest = TRANSFER_TIMEOUT + (size or 0) / EXAMINED_PER_SECOND
        message = Message(method, path, content, size=size)
        message.timeout = None if self.timeout is None else max(longest, self.timeout)
        response = self.send(message, streams=True)
        if isinstance(response, HttpResponse):
            error = self.refusal(response)
            self.end(message, error)
            raise error
        try:
            yield self._chunks(response, inf)
        except BaseException as error:
            self._end_chunks(message, response, error)
            if isinstance(error, httpx.RequestError):
                raise transfer_failure(error, self.endpoint) from None
            raise
        finally:
            response.close()
        self._end_chunks(message, response)

    def redact(self, text: str) -> str:
        """Mask the secrets of its requests in a text."""
        return self.key.redact(self.token.redact(text))

    def refusal(self, response: HttpResponse) -> ServerError:
        """Return the error for a response that is not 2xx, without secrets."""
        fault = read_fault(response.body, response.content_type)
        message = self.redact(fault.message)
        if fault.code != "BLOCKED" and asks_for_key(response.status, message):
            return key_refusal(response.status, message, has_key=bool(self.key))
        error = refusal(response.status, message, fault.code or "", response.retry_after)
        error.retry_after = retry_seconds(response.retry_after)
        if response.status == 401 and not self.token:
            return error.replace(message=f"a token is required: {message}", hint=NO_TOKEN)
        return error

    def close(self) -> None:
        """Close the connections, except those of a client of the caller."""
        with self._finding:
            self._closed = True
        if self._lower is not None:
            self._lower.close()

    def abort(self) -> None:
        """End pending requests from another thread; the threads that wait for them get UnknownOutcome.

        Requests of a client of the caller or through a proxy cannot be aborted; they continue.
        """
        self._aborted = True  # before the rest: a request that fails by it must not look for the service again
        self._abort_lower()

    def _abort_lower(self) -> None:
        if isinstance(self._lower, HttpTransport):
            self._lower.abort()

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- sending

    def _build(self, message: Message, endpoint: Endpoint) -> httpx.Request:
        """Return a request. Its headers are not in a variable, since tracebacks may show those."""
        content, size, url = message.body, message.size, _url(endpoint.url, message.path)
        stream: httpx.ByteStream | None = None
        timeout = self.timeout if message.timeout is None else message.timeout
        extensions: dict[str, Any] = {
            "timeout": {
                "connect": self._connect_timeout, "pool": self._connect_timeout,
                "read": timeout, "write": timeout if size is None else self.timeout,
            },
            "deadline": message.deadline,
        }  # fmt: skip
        if endpoint.host_header is not None and endpoint.scheme == "https":
            extensions["sni_hostname"] = endpoint.named_host
        kind = () if content is None else _JSON
        if size is not None:
            kind = (_BINARY, (b"Content-Length", b"%d" % size))
        encoding = _IDENTITY if endpoint.loopback else _GZIP
        host_header = () if endpoint.host_header is None else ((b"Host", endpoint.host_header.encode()),)
        if self._http is not None:
            return self._http.build_request(
                message.method, url, content=content, extensions=extensions,
                headers=[*self.token.headers, *self.key.headers, *host_header, encoding, *kind],
            )  # fmt: skip
        length: tuple[tuple[bytes, bytes], ...] = ()
        if isinstance(content, bytes):
            length = ((b"Content-Length", b"%d" % len(content)),)
            stream, content = httpx.ByteStream(content), None  # with all headers it takes a quarter of the time
        return httpx.Request(
            message.method, url, content=content, stream=stream, extensions=extensions,
            headers=[
                *(host_header or ((b"Host", url.netloc),)), *length, *_HEADERS, *self.token.headers, *self.key.headers,
                encoding, *kind,
            ],
        )  # fmt: skip

    def _send_by_client(self, request: httpx.Request) -> httpx.Response:
        """Send a request with the client of the caller."""
        assert self._http is not None
        if self._http.is_closed:
            raise httpx.ConnectError("the client passed as http= is closed")
        return self._http.send(request, follow_redirects=False, stream=True)

    # -- sending again

    def _failed(
        self, raised: BaseException, response: httpx.Response | None, message: Message
    ) -> tuple[PipemagicError, Cause | None]:
        """Return the error for a failed request, and why it may be sent again."""
        error, cause = failure(raised, message.endpoint or self.endpoint), cause_of_failure(raised)
        if response is not None and response.status_code == 429:  # whatever its body, nothing ran
            if isinstance(raised, KeyboardInterrupt):
                return interrupted(Cause.BUSY), None
            return refusal(429, "its response is incomplete"), Cause.BUSY
        if cause is Cause.UNREACHABLE and message.endpoint is not None:
            cause = Cause.INSTANCE_ENDED
        return error, cause

    def _prepare(
        self,
        message: Message,
        cause: Cause,
        times: int,
        response: httpx.Response | None,
        lower: httpx.BaseTransport | None,
    ) -> bool:
        """Do what must happen before a message is sent again; return False if it must not be."""
        repeat = REPEATS[cause]
        if message.size is not None or not (repeat.certain or message.only_reads(message)):
            return False
        try:
            match repeat.first:
                case First.RECONNECT:
                    ready = not times
                case First.PAUSE:
                    ready = self._pause(message, times, response)
                case First.FIND:
                    ready = not times and message.reopens is not False and self._find(cause, lower)
                case First.REOPEN:
                    ready = not times and bool(message.reopens)
            if ready and message.renew is not None:
                message.renew(message, cause)
        except KeyboardInterrupt:
            raise interrupted(cause) from None
        return ready

    def _pause(self, message: Message, times: int, response: httpx.Response | None) -> bool:
        """Wait for a busy server; return False if it would be too often, too late, or before the time that it names."""
        if times == len(BUSY_PAUSES):
            return False
        pause, retry_after = BUSY_PAUSES[times], "" if response is None else response.headers.get("retry-after", "")
        if (retry_seconds(retry_after) or 0) > pause or time.monotonic() + pause > message.deadline:
            return False
        self._sleep(pause)
        return True

    def _find(self, cause: Cause, lower: httpx.BaseTransport | None) -> bool:
        """Use the address and the token that the server has now; return False if it cannot be found."""
        with self._finding:
            if self._lower is not lower:  # another thread has found it
                return True
            if self._closed or self._aborted or self.find_again is None:
                return False
            other = self.find_again(cause)
            if other is None:
                return False
            self._adopt(other)
            if self._aborted:
                self._abort_lower()
            return True

    def move_to(self, other: Transport) -> None:
        """Use the address, the token and the connections of another transport, which is not used any more."""
        with self._finding:
            self._adopt(other)

    def _adopt(self, other: Transport) -> None:
        if self.endpoint.challenge is not None and other.endpoint.challenge is None:  # it may be another process
            raise ConnectError(f"the service at {other.endpoint.address} did not prove its identity; no token was sent")
        lower = self._lower
        self.endpoint, self.token, self._http, self._lower = other.endpoint, other.token, other._http, other._lower
        if lower is not None:
            lower.close()

    # -- responses

    def _chunks(self, response: httpx.Response, deadline: float) -> Iterator[bytes]:
        """Yield the body as it arrives; with TLS a chunk is a record, which does not grow."""
        grows = self.endpoint.scheme == "http" and isinstance(self._lower, HttpTransport)
        return read_chunks(response, deadline, self._sleep if grows else None)

    def _read(self, message: Message, response: httpx.Response) -> HttpResponse:
        """Read the body of a response."""
        traced = message.traced
        if traced is not None:
            traced.status = response.status_code
            traced.server_timing = response.headers.get("server-timing", "")
        try:
            body = read_whole(response, message.deadline, self.timeout if message.timeout is None else message.timeout)
        finally:
            response.close()
            if traced is not None:  # 0 for a response without a network
                traced.received_size, traced.ended = response.num_bytes_downloaded, time.perf_counter()
        if traced is not None:
            traced.received = body if len(body) <= BODY_LIMIT else None
            traced.received_size = traced.received_size or len(body)
        headers = {name.lower(): value.decode("latin-1") for name, value in response.headers.raw}
        self.limits = headers.get(LIMITS_HEADER, self.limits)
        return HttpResponse(
            response.status_code,
            headers.get(b"content-type", "").lower(),
            body,
            headers.get(b"date", ""),
            headers.get(b"retry-after", ""),
            headers.get(b"location", ""),
        )

    def _error(self, response: HttpResponse, endpoint: Endpoint) -> PipemagicError | None:
        """Return the error for a response that no caller understands: 429 and redirects."""
        if response.status == 429:
            return self.refusal(response)
        if 300 <= response.status < 400:
            return AddressError(
                f"{endpoint.address} redirects to {_host_in(response.location)}; pipemagic does not send a token there",
                hint="connect to the final address itself; did you mean https://?",
            )
        return None

    # -- tracing

    def _begin(self, message: Message) -> None:
        """Begin the record of a message, if there is an observer."""
        if self.observer is None:
            return
        endpoint, body = message.endpoint or self.endpoint, message.body
        size = len(body) if isinstance(body, bytes) else message.size or 0
        path = unquote(urlsplit(endpoint.url).path + message.path.partition("?")[0])
        message.traced = TracedRequest(message.method, path, endpoint, time.perf_counter(), sent_size=size)
        if size <= BODY_LIMIT and isinstance(body, bytes) and ROWS_OF.encode() not in body:
            message.traced.sent = body

    def end(self, message: Message, error: BaseException | None = None) -> None:
        """Complete the record of a message, and pass it to the observer."""
        traced, message.traced = message.traced, None
        if traced is None or self.observer is None:
            return
        if error is not None:
            text = error.message if isinstance(error, PipemagicError) else str(error)
            traced.error = redact(self.redact(f"{type(error).__name__}: {text}"))
        traced.ended = traced.ended or time.perf_counter()
        self.observer.exchanged(traced)

    def _end_chunks(
        self, message: Message, response: httpx.Response, error: BaseException | None = None, head: bytes | None = None
    ) -> None:
        """Complete the record of a message after its response was read in chunks."""
        if message.traced is not None:
            message.traced.status = response.status_code
            message.traced.server_timing = response.headers.get("server-timing", "")
            message.traced.received, message.traced.received_size = head, response.num_bytes_downloaded
        self.end(message, error)


def _transport_to(endpoint: Endpoint) -> httpx.BaseTransport:
    """Return the transport to an endpoint: a proxy if there is one, but never for loopback."""
    if not endpoint.loopback and (proxy := find_proxy(endpoint.scheme, endpoint.named_host + endpoint.port_suffix)):
        return proxy_transport(proxy)
    return HttpTransport(endpoint.challenge)


@lru_cache(maxsize=1024)
def _url(base: str, path: str) -> httpx.URL:
    """Return a parsed address, cached since parsing costs more than the rest of a request."""
    return httpx.URL(base + path)


def _host_in(location: str) -> str:
    """Return the host of a redirect; its Location may be malformed."""
    try:
        return urlsplit(location).netloc or "another path"
    except ValueError:
        return "an address that cannot be read"
