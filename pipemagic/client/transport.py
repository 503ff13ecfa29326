"""Send one HTTP request and bring its answer back: time-outs, the one retry rule, httpx errors mapped to ours."""

from __future__ import annotations

import errno
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from urllib.parse import urlsplit

import httpx

from pipemagic.client.exchanges import HEAD, Exchange, Observer, keep
from pipemagic.client.outlines import redact
from pipemagic.client.secrets import Token
from pipemagic.client.urls import Endpoint
from pipemagic.errors import (
    AddressError,
    AnswerTimeout,
    AuthError,
    BusyError,
    ConnectError,
    InterruptedRequest,
    NotFound,
    PipemagicError,
    ServerError,
    UnknownOutcome,
)
from pipemagic.hrana.faults import read_fault

CONNECT_TIMEOUT = 10.0
"""Seconds to wait for a connection."""

READ_TIMEOUT = 60.0
"""Seconds to wait for the next part of an answer."""

KEEPALIVE = 60.0
"""Seconds an idle connection is kept: less than the 75 s of the servers, so that ours closes first."""

BUSY_PAUSES = (0.1, 0.25, 0.5, 1.0, 1.5)
"""Seconds between attempts after 429; in sum below the transaction window of 5 s."""


@dataclass(frozen=True)
class HttpAnswer:
    """A whole answer: its status, content type (lower case, '' if none), body, and date as the server writes it.

    ``exchange`` is its record for the observer of the transport, None if there is none.
    """

    status: int
    content_type: str
    body: bytes = field(repr=False)
    date: str = ""
    exchange: Exchange | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class Pieces:
    """The body of an answer in pieces, as they come; iterate once, and close.

    ``on_end`` is called once when it is over, with the error that ended it, if one did, and the first bytes.
    """

    def __init__(
        self, response: httpx.Response, address: str, on_end: Callable[[BaseException | None, bytes], None]
    ) -> None:
        self._response, self._address = response, address
        self._pieces = response.iter_bytes()
        self._on_end = on_end
        self._head = b""
        self._over = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Give the next piece. Raises UnknownOutcome if the body is cut, AnswerTimeout, InterruptedRequest."""
        try:
            piece = self._next()
        except (AnswerTimeout, UnknownOutcome) as error:
            self._end(error)
            raise
        if len(self._head) < HEAD:
            self._head += piece[:HEAD]
        return piece

    def _next(self) -> bytes:
        try:
            return next(self._pieces)
        except httpx.TimeoutException:
            raise AnswerTimeout(f"{self._address} stopped sending in the middle of its answer") from None
        except httpx.RequestError:
            raise UnknownOutcome(f"the connection to {self._address} ended in the middle of an answer") from None
        except KeyboardInterrupt:
            raise InterruptedRequest("interrupted while the answer came") from None

    def close(self) -> None:
        """Hang up, unless all of it came: then the connection can be used again."""
        self._response.close()
        self._end()

    def _end(self, error: BaseException | None = None) -> None:
        if not self._over:
            self._over = True
            self._on_end(error, self._head)


class Transport:
    """HTTP to one server. Never sends a request twice, except after 429, when nothing of it ran.

    ``http`` takes any ``httpx.Client`` (a proxy, client certificates, an ASGI or mock transport); it stays the
    caller's to close. ``timeout`` and ``connect_timeout`` are seconds; None waits without end. ``observer`` is told of
    every exchange.
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
        self._timeout = httpx.Timeout(timeout, connect=connect_timeout)
        self.binds_arguments: bool | None = None
        """Whether a server with only the seed takes arguments; None until it was asked."""
        self._owned = http is None
        self._http = http or _client(endpoint)
        self._sleep = sleep

    def sibling(self, *, timeout: float | None = None) -> Transport:
        """Give a transport to the same server with connections of its own and without an observer."""
        http = None if self._owned else self._http
        other = Transport(self.endpoint, self.token, http=http, sleep=self._sleep)
        if timeout is not None:
            other._timeout = httpx.Timeout(timeout)
        else:
            other._timeout = self._timeout
        other.binds_arguments = self.binds_arguments
        return other

    @property
    def timeout(self) -> float | None:
        """Seconds to wait for the next part of an answer; None waits without end."""
        return self._timeout.read

    def __repr__(self) -> str:
        return f"Transport({self.endpoint.address!r})"

    def post(
        self, path: str, body: bytes, endpoint: Endpoint | None = None, *, timeout: float | None = None
    ) -> HttpAnswer:
        """POST JSON and give the answer, whatever its status.

        Raises BusyError for 429 after some attempts, AddressError for a redirect, ConnectError if no connection
        came about (nothing was sent), UnknownOutcome if the request left and no whole answer came, and
        InterruptedRequest (its subclass) if the user interrupted.
        """
        return self.request("POST", path, body, endpoint=endpoint, timeout=timeout)

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
    ) -> HttpAnswer:
        """Send any request; raises as `post` does."""
        endpoint = endpoint or self.endpoint
        request = self._http.build_request(
            method,
            endpoint.url + path,
            content=body,
            params=params,
            headers=self._headers(endpoint, body),  # in no variable: tracebacks may show those
            timeout=self._timeout if timeout is None else httpx.Timeout(timeout, connect=self._timeout.connect),
            extensions=_extensions(endpoint),
        )
        with self._observed(request, body, endpoint) as exchange:
            return self._answer(self._send_patiently(request, endpoint, exchange), endpoint, exchange)

    def post_for_pieces(
        self, path: str, body: bytes, endpoint: Endpoint | None = None, *, timeout: float | None = None
    ) -> Pieces | HttpAnswer:
        """POST JSON and give the answer in pieces as they come; if its status is not 2xx, as a whole.

        Raises as `post` does.
        """
        endpoint = endpoint or self.endpoint
        request = self._http.build_request(
            "POST",
            endpoint.url + path,
            content=body,
            headers=self._headers(endpoint, body),
            timeout=self._timeout if timeout is None else httpx.Timeout(timeout, connect=self._timeout.connect),
            extensions=_extensions(endpoint),
        )
        exchange = self._begin(request, body, endpoint)
        try:
            response = self._send_patiently(request, endpoint, exchange, stream=True)
            if 200 <= response.status_code < 300:
                return Pieces(response, endpoint.address, partial(self._end_pieces, exchange, response))
            answer = self._answer(_whole(response, endpoint), endpoint, exchange)
        except BaseException as error:
            self._end(exchange, error)
            raise
        self._end(exchange)
        return answer

    def _begin(
        self, request: httpx.Request, body: bytes | None, endpoint: Endpoint, size: int | None = None
    ) -> Exchange | None:
        """Begin the record of an exchange, if there is somebody to tell."""
        if self.observer is None:
            return None
        exchange = Exchange(request.method, request.url.path, endpoint, time.perf_counter())
        exchange.sent, exchange.sent_size = keep(body), size or len(body or b"")
        return exchange

    def _end(self, exchange: Exchange | None, error: BaseException | None = None) -> None:
        """Tell the observer of an exchange that is over, however it ended."""
        if exchange is None or self.observer is None:
            return
        if error is not None:
            text = error.message if isinstance(error, PipemagicError) else str(error)
            exchange.error = redact(self.token.redact(f"{type(error).__name__}: {text}"))
        exchange.ended = time.perf_counter()
        self.observer.exchanged(exchange)

    def _end_pieces(
        self, exchange: Exchange | None, response: httpx.Response, error: BaseException | None, head: bytes
    ) -> None:
        """Note of an answer in pieces how it began and how much it was."""
        _note_head(exchange, response)
        if exchange is not None:
            exchange.received = head
        self._end(exchange, error)

    @contextmanager
    def _observed(
        self, request: httpx.Request, body: bytes | None, endpoint: Endpoint, size: int | None = None
    ) -> Iterator[Exchange | None]:
        exchange = self._begin(request, body, endpoint, size)
        try:
            yield exchange
        except BaseException as error:
            self._end(exchange, error)
            raise
        self._end(exchange)

    @contextmanager
    def streamed(
        self, method: str, path: str, content: Iterable[bytes] | None = None, *, size: int | None = None
    ) -> Iterator[Iterator[bytes]]:
        """Send a body of ``size`` bytes in pieces, take the answer in pieces; neither is in memory as a whole.

        Waits for the answer without end: the server may have to look at all that was sent. Raises as `post` does, and
        the typed error of an answer that is not 2xx; ConnectError if the answer ends too soon.
        """
        length = {"Content-Type": "application/octet-stream", "Content-Length": str(size)} if size is not None else {}
        request = self._http.build_request(
            method,
            self.endpoint.url + path,
            content=content,
            headers={**self._headers(self.endpoint, None), **length},
            timeout=httpx.Timeout(None, connect=self._timeout.connect),
            extensions=_extensions(self.endpoint),
        )
        with self._observed(request, None, self.endpoint, size) as exchange:
            response = self._send(request, self.endpoint, stream=True)
            try:
                if not 200 <= response.status_code < 300:
                    response.read()
                    raise self.refusal(self._answer(response, self.endpoint))
                yield response.iter_bytes()
            except httpx.RequestError as error:
                raise ConnectError(
                    f"the connection to {self.endpoint.address} ended before everything came: {error}",
                    hint="try again",
                ) from None
            finally:
                response.close()
                _note_head(exchange, response)

    def refusal(self, answer: HttpAnswer, what: str = "the request") -> ServerError:
        """Turn an answer that is not 2xx into the error to raise; no token shows in it."""
        fault = read_fault(answer.body, answer.content_type)
        return refusal(answer.status, self.token.redact(fault.message), fault.code or "", what)

    def close(self) -> None:
        """Close the connections, if they are ours."""
        if self._owned:
            self._http.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _headers(self, endpoint: Endpoint, body: bytes | None) -> dict[str, str]:
        headers = self.token.headers()
        if body is not None:
            headers["Content-Type"] = "application/json"
        if endpoint.host_header is not None:
            headers["Host"] = endpoint.host_header
        if endpoint.loopback:
            headers["Accept-Encoding"] = "identity"  # gzip on loopback costs more than it saves
        return headers

    def _send_patiently(
        self, request: httpx.Request, endpoint: Endpoint, exchange: Exchange | None, *, stream: bool = False
    ) -> httpx.Response:
        """Send, and after a 429 again: nothing of it ran."""
        for pause in BUSY_PAUSES:
            response = self._send(request, endpoint, stream=stream)
            if response.status_code != 429:
                return response
            response.close()
            _drop_connection(response)
            self._sleep(pause)
            if exchange is not None:
                exchange.attempts += 1
        return self._send(request, endpoint, stream=stream)

    def _send(self, request: httpx.Request, endpoint: Endpoint, *, stream: bool = False) -> httpx.Response:
        # Every error is raised `from None`: httpx's own frames hold the headers, and with them the token.
        try:
            return self._http.send(request, follow_redirects=False, stream=stream)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            raise _no_connection(error, endpoint) from None
        except httpx.TimeoutException:
            raise AnswerTimeout(
                f"{endpoint.address} did not answer in time; what was sent may have run, or may still be running",
                hint="look before you run it again; timeout=... of connect() sets how long to wait",
            ) from None
        except httpx.RequestError as error:
            raise _no_answer(error, endpoint) from None
        except (httpx.InvalidURL, UnicodeError):
            raise AddressError(f"{endpoint.address} is not an address that HTTP can use") from None
        except KeyboardInterrupt:  # httpx drops the connection, by which the server notices
            raise InterruptedRequest(
                "interrupted while a request was under way; what was sent may have run, wholly or in part",
                hint="look before you run it again",
            ) from None

    def _answer(
        self, response: httpx.Response, endpoint: Endpoint, exchange: Exchange | None = None
    ) -> HttpAnswer:  # fmt: skip
        headers = response.headers
        if response.status_code >= 400:
            _drop_connection(response)
        answer = HttpAnswer(
            response.status_code, headers.get("content-type", "").lower(), response.content, headers.get("date", ""),
            exchange,
        )  # fmt: skip
        if exchange is not None:
            _note_head(exchange, response)
            exchange.received = keep(answer.body)
            exchange.received_size = exchange.received_size or len(answer.body)  # one that never was on a wire
        if answer.status == 429:
            raise self.refusal(answer)
        if 300 <= answer.status < 400:
            where = urlsplit(response.headers.get("location", "")).netloc or "another path"
            raise AddressError(
                f"{endpoint.address} redirects to {where}; pipemagic does not take a token there",
                hint="connect to the final address itself (https:// instead of http://?)",
            )
        return answer


def _drop_connection(response: httpx.Response) -> None:
    """Use the connection of a refusal no more: who refuses before the body is there, as sqld does, may hang up then.

    A request that meets that would have an outcome that nobody knows.
    """
    connection = response.extensions.get("network_stream")
    if connection is not None and response.http_version.startswith("HTTP/1"):
        connection.close()  # the pool sees that it is closed


def _whole(response: httpx.Response, endpoint: Endpoint) -> httpx.Response:
    """Read the rest of an answer that came in pieces."""
    try:
        response.read()
    except httpx.RequestError as error:
        raise _no_answer(error, endpoint) from None
    finally:
        response.close()
    return response


def _note_head(exchange: Exchange | None, response: httpx.Response) -> None:
    if exchange is not None:
        exchange.status = response.status_code
        exchange.received_size = response.num_bytes_downloaded
        exchange.server_timing = response.headers.get("server-timing", "")


_FORWARDED = "Failed to execute queries via RPC protocol"
"""How a libSQL replica says that its primary did not take what the replica does not do by itself."""


def refusal(status: int, message: str, code: str = "", what: str = "the request") -> ServerError:
    """Give the typed error for an HTTP status that is not 2xx."""
    match status:
        case 401:
            return AuthError(
                f"the token was not accepted: {message}",
                status=status,
                hint="give another token; the database token and the platform token are different ones",
            )
        case 403 if code == "BLOCKED":  # by a quota or a setting, whatever the token
            return ServerError(message, status=status, code=code)
        case 403:
            return AuthError(
                f"the token does not allow this: {message}",
                status=status,
                hint="a read-only token cannot write; ask for one with full access",
            )
        case 404:
            return NotFound(
                f"not found: {message}",
                status=status,
                hint="is the name right, and was the token made for this database?",
            )
        case 429:
            return BusyError(
                f"the server is busy: {message}",
                status=status,
                hint="nothing of this ran; close connections that are not needed, or try again later",
            )
        case 500 if _FORWARDED in message:
            return ServerError(
                "this address is that of a replica: it takes no writes, and answers reads once it has caught up",
                status=status, code="REPLICA",
                hint="write at the primary's address (`pipemagic db show NAME --http-url`); a read may need a moment",
            )  # fmt: skip
    hint = "parts of what was sent may have been applied" if status >= 500 else ""
    return ServerError(f"the server refused {what} (HTTP {status}): {message}", status=status, hint=hint, code=code)


def _client(endpoint: Endpoint) -> httpx.Client:
    return httpx.Client(
        trust_env=not endpoint.loopback,  # a proxy must never see loopback
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEPALIVE),
        verify=_tls_context(endpoint),
    )


def _tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Skip loading the certificate store (some 20 ms) where TLS is not spoken.

    SSL_CERT_FILE counts on loopback, too, where the variables that name proxies do not.
    """
    if endpoint.scheme == "https":
        return httpx.create_ssl_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _extensions(endpoint: Endpoint) -> dict[str, str]:
    if endpoint.scheme == "https" and endpoint.host_header is not None:
        return {"sni_hostname": endpoint.named_host}
    return {}


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _no_connection(error: httpx.TransportError, endpoint: Endpoint) -> ConnectError:
    """Say in one line why no connection came about."""
    where = endpoint.address
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return ConnectError(
                    f"the certificate of {where} is not trusted: {cause.verify_message}",
                    hint="is it the right host? SSL_CERT_FILE=... names a certificate authority of your own",
                )
            case ssl.SSLError():
                return ConnectError(
                    f"no TLS connection to {where}: {cause.reason or 'the handshake failed'}",
                    hint="a server without TLS wants http:// instead",
                )
            case socket.gaierror():
                hint = "is it spelled right? is there a network?"
                return ConnectError(f"the host name in {where} is unknown", hint=hint)
            case ConnectionRefusedError():
                hint = "is the server running, and the port right?"
                return ConnectError(f"nothing listens at {where} (connection refused)", hint=hint)
            case OSError(errno=errno.ENETUNREACH | errno.EHOSTUNREACH):
                return ConnectError(f"there is no route to {where}", hint="is there a network?")
    if isinstance(error, httpx.TimeoutException):
        return ConnectError(f"{where} did not take the connection in time", hint="is there a network, a firewall?")
    if isinstance(error, httpx.ProxyError):
        return ConnectError(f"the proxy on the way to {where} refused: {error}")
    return ConnectError(f"no connection to {where}: {error}")


def _no_answer(error: httpx.RequestError, endpoint: Endpoint) -> UnknownOutcome:
    text = str(error)
    hint = "look before you run it again"
    if "illegal status line" in text or "SSL" in text:
        hint = f"the answer was not HTTP; {'https' if endpoint.scheme == 'http' else 'http'}:// instead?"
    elif isinstance(error, httpx.UnsupportedProtocol):
        hint = "write the address with http:// or https://"
    return UnknownOutcome(
        f"the connection to {endpoint.address} ended before a whole answer came; what was sent may have run", hint=hint
    )
