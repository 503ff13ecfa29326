"""The transport of httpx over sockets, with a tenth of the processor time of its default transport.

Connections, which are sockets with or without TLS, the pool of idle ones, and the proxy of the environment.
"""

from __future__ import annotations

import hmac
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from math import inf
from typing import NamedTuple

import httpx
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from pipemagic.errors import ConnectError
from pipemagic.http.tls import tls_context

HEAD_TIMEOUT = 30.0
"""Seconds from the first byte of a response until its head must be complete."""

MAX_WITHOUT_BODY = 100 * 1024
"""The most bytes that may arrive without a byte of the body: a limit for heads and trailers."""

_ONE_PACKET = 64 * 1024
"""The most bytes of a body that is sent together with the head, in few packets."""

_RECEIVE_SIZE = 256 * 1024
"""Bytes of the receive buffer, which fit the cache of the processor."""

FIRST_RECEIVE_SIZE = 16 * 1024
"""Bytes of the buffer until a response fills it: most connections are kept and get only small responses."""

_TLS_RECORD = 2**14
"""The most bytes of a record of TLS. A part of a record cannot be read by the server."""

KEEP_ALIVE = {
    "TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 6, "TCP_USER_TIMEOUT": 60_000,
}  # fmt: skip
"""TCP options, on platforms that have them, to notice a vanished peer within a minute."""

IDLE_LIMIT = 60.0
"""Seconds an idle connection is kept: less than the 75 s of the servers, so that ours closes first."""

MAX_IDLE = 20
"""Idle connections that are kept; there is no limit for those in use."""

_UNPROVEN = "the process there did not prove that it is the service; no token was sent"


_Challenge = Callable[[], tuple[str, bytes]]
"""Returns the path of a request, and the body that only the right server responds with. May raise OSError."""


class Origin(NamedTuple):
    """The peer of a connection; ``server_name`` is the name that its certificate must have, None without TLS."""

    host: str
    port: int
    server_name: str | None


class ClosedUnsent(httpx.ConnectError):
    """The server closed an idle connection, and the system accepted no byte of the request."""


class SecretBytes(bytes):
    """Bytes with a repr that hides them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SecretBytes(***)"


class HttpTransport(httpx.BaseTransport):
    """A thread-safe transport with a pool of connections.

    It follows no redirects and sends nothing twice. The extension ``timeout`` is that of httpx: ``connect`` and, for
    the next part, ``read`` and ``write``. ``deadline`` is the time of `time.monotonic` for the end of the response.
    ``sni_hostname`` is the name that the certificate must have, if it is not the host of the URL. The body of a
    response is raw: possibly compressed. With a ``challenge`` a request is sent on a new connection only after the
    server has responded to the challenge there; otherwise httpx.ConnectError is raised.
    """

    def __init__(self, challenge: _Challenge | None = None) -> None:
        self.pool = ConnectionPool()
        self._challenge = challenge
        # Referenced here, they are never garbage together with an incomplete response: the garbage collector might
        # close the socket of one that is put back at the same moment.
        self._in_use: dict[HttpConnection, object] = {}  # and their users
        self._aborted = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the response after its head."""
        if self.pool.is_closed:
            raise httpx.ConnectError("it was closed here")
        extensions, url = request.extensions, request.url
        timeout, deadline = extensions.get("timeout", {}), extensions.get("deadline", inf)
        server_name = (extensions.get("sni_hostname") or url.host) if url.scheme == "https" else None
        port = url.port or (80 if server_name is None else 443)
        origin = Origin(url.raw_host.decode("ascii"), port, server_name)
        pooled_connection = self.pool.take(origin)
        connection = pooled_connection or connect(origin, _remaining(timeout.get("connect"), deadline))
        try:
            use = self._in_use[connection] = object()
            if self._aborted:
                raise httpx.ReadError("it was aborted")
            if pooled_connection is None and self._challenge is not None:
                _check_server(connection, self._challenge, _remaining(timeout.get("connect"), deadline))
            connection.has_sent = False
            write_timeout = _remaining(timeout.get("write"), deadline)
            head = SecretBytes(  # with the token
                b"%s %s HTTP/1.1\r\n%s\r\n\r\n"
                % (
                    request.method.encode("ascii"),
                    request.url.raw_path,
                    b"\r\n".join([b"%s: %s" % field for field in request.headers.raw]),
                )
            )
            if isinstance(request.stream, httpx.ByteStream) and len(request.read()) <= _ONE_PACKET:
                sent = connection.send(SecretBytes(head + request.read()), write_timeout)
            else:
                sent = connection.send(head, write_timeout) and _send_body(connection, request, write_timeout)
            release = partial(self._release, connection, use)
            stream = _ResponseStream(connection, timeout.get("read"), deadline, release, was_sent=sent)
            try:
                parser = stream.read_head()  # perhaps of a server that refuses each request
            except (httpx.ReadError, httpx.RemoteProtocolError) as error:
                if connection.has_sent:
                    raise
                raise ClosedUnsent("the connection was closed before the request was sent") from error
        except BaseException:
            self._in_use.pop(connection, None)
            connection.close()
            raise
        return httpx.Response(parser.status, headers=parser.headers, stream=stream)

    def close(self) -> None:
        """Close idle connections, and those in use when their response ends."""
        self.pool.close()

    def abort(self) -> None:
        """Abort pending and later requests: they raise httpx.ReadError or RemoteProtocolError."""
        self._aborted = True
        for connection in tuple(self._in_use):
            connection.abort()

    def _release(self, connection: HttpConnection, use: object, *, reusable: bool) -> None:
        """Put back a connection that is no longer in use."""
        if self._in_use.get(connection) is not use:
            return  # it was put back before an interrupt; another request may use it now
        del self._in_use[connection]
        if reusable:
            self.pool.put(connection)
        else:
            connection.close()


class ResponseParser:
    """Parses one response. Call `release` at the end: this parser and the parser of httptools refer to each other."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        """Without trailers."""
        self.head_begun = False
        self.head_is_complete = False
        self.is_complete = False
        self.keeps_alive = False
        """Whether the connection can be reused once the response is complete."""
        self._fields: list[tuple[bytes, bytes]] = []
        self._without_body = 0
        self._chunks: list[bytes] = []
        self.on_body = self._chunks.append  # called for each chunk, and sqld sends a chunk for each row
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    def feed(self, data: bytes | memoryview) -> None:
        """Parse received data, empty at the end of the connection.

        Raise httpx.RemoteProtocolError if it is not HTTP, or incomplete at the end.
        """
        if self._parser is None:
            return
        if not data:
            self._end()
            return
        before = len(self._chunks)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if isinstance(error.__context__, KeyboardInterrupt):  # httptools wraps exceptions of its callbacks
                self.keeps_alive = False
                raise error.__context__ from None
            if not self.is_complete:
                what = "malformed response" if self._parser.get_status_code() else "illegal status line"
                raise httpx.RemoteProtocolError(f"{what}: {error}") from None
            self.keeps_alive = False  # unrequested data follow the response
        self._without_body = self._without_body + len(data) if len(self._chunks) == before else 0
        if self._without_body > MAX_WITHOUT_BODY:
            raise httpx.RemoteProtocolError("the header of the response is incomplete")

    def take_body(self) -> bytes:
        """Return the part of the body that arrived since the last call."""
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        return body

    def release(self) -> None:
        """Drop the parser of httptools."""
        self._parser = None

    def _end(self) -> None:
        names = {name.lower(): value for name, value in self.headers}
        if not self.head_is_complete or b"transfer-encoding" in names or b"content-length" in names:
            raise httpx.RemoteProtocolError("the connection ended in the middle of a response")
        self.is_complete, self.keeps_alive = True, False  # without a length the body ends with the connection

    # -- called by httptools

    def on_message_begin(self) -> None:
        """Refuse a second response."""
        if self.is_complete:
            raise ValueError("an unexpected second response")
        self.head_begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Read the status; below 200 the response is informational, such as ``100 Continue``."""
        assert self._parser is not None
        self.status, self.keeps_alive = self._parser.get_status_code(), self._parser.should_keep_alive()
        self.headers, self._fields = self._fields, []
        self.head_is_complete = self.status >= 200

    def on_message_complete(self) -> None:
        """Record the end, unless the response is informational and the final one follows."""
        self.is_complete, self.head_begun = self.head_is_complete, False
        if self.status == 204 and any(
            name.lower() == b"transfer-encoding" or (name.lower() == b"content-length" and value != b"0")
            for name, value in self.headers
        ):
            self.keeps_alive = False  # it has no body: an announced one, which may follow, is not the next response


class _ResponseStream(httpx.SyncByteStream):
    """The body of a response in chunks as they arrive.

    ``release`` puts the connection back at the end; ``was_sent`` is False if the request was not sent completely.
    """

    _connection: HttpConnection | None = None

    def __init__(
        self, connection: HttpConnection, timeout: float | None, deadline: float, release: Callable[..., None],
        *, was_sent: bool,
    ) -> None:  # fmt: skip
        self._parser = ResponseParser()
        self._timeout, self._deadline = timeout, deadline
        self._release, self._was_sent = release, was_sent
        self._connection = connection

    def read_head(self) -> ResponseParser:
        """Read the head."""
        end = inf
        while not self._parser.head_is_complete:
            assert self._connection is not None
            self._parser.feed(self._connection.receive(_remaining(self._timeout, min(self._deadline, end))))
            if not self._parser.head_begun:
                end = inf
            elif end == inf:
                end = time.monotonic() + HEAD_TIMEOUT
        return self._parser

    def __iter__(self) -> Iterator[bytes]:
        try:
            while True:
                if chunk := self._parser.take_body():
                    yield chunk
                if self._parser.is_complete:
                    break
                if self._connection is None:
                    raise httpx.ReadError("the response was closed")
                self._parser.feed(self._connection.receive(_remaining(self._timeout, self._deadline)))
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection, unless the response is complete and the connection can be reused."""
        if self._connection is not None:
            parser = self._parser
            parser.release()
            self._release(reusable=self._was_sent and parser.is_complete and parser.keeps_alive)
            self._connection = None

    def __del__(self) -> None:
        self.close()


class HttpConnection:
    """An open socket. After an error of `send` or `receive` it must be closed.

    ``has_sent`` is True once the system accepted a byte of the request, with TLS a record.
    """

    def __init__(self, sock: socket.socket, origin: Origin) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self.has_sent = False
        self._socket = sock
        self._at_once = None if origin.server_name is None else _TLS_RECORD  # of several, some may have been sent
        self._process = os.getpid()
        self._buffer = memoryview(bytearray(FIRST_RECEIVE_SIZE))

    def send(self, data: bytes, timeout: float | None) -> bool:
        """Send all data; return False if the server closed its end, possibly after a response.

        ``timeout`` is for each part. `socket.sendall` would limit the total time.
        """
        unsent = memoryview(data)
        try:
            self._socket.settimeout(timeout)
            while unsent:
                unsent = unsent[self._socket.send(unsent[: self._at_once]) :]
                self.has_sent = True
        except TimeoutError:
            raise httpx.WriteTimeout("the server does not accept more data") from None
        except OSError:
            return False
        return True

    def receive(self, timeout: float | None) -> memoryview:
        """Return received data, at least one byte, or empty at the end; the next call overwrites the buffer."""
        if self._socket.gettimeout() != timeout:
            self._socket.settimeout(timeout)
        try:
            data = self._buffer[: self._socket.recv_into(self._buffer)]
        except TimeoutError:
            raise httpx.ReadTimeout("the server does not respond") from None
        except OSError as error:
            raise httpx.ReadError(str(error)) from None
        if len(data) == len(self._buffer) == FIRST_RECEIVE_SIZE:
            self._buffer = memoryview(bytearray(_RECEIVE_SIZE))
        return data

    def is_stale(self) -> bool:
        """Return True if data arrived without a request: usually the end, since the server closed the connection.

        In a forked process the connections of the parent are stale, too: both would read the same responses.
        """
        if self._process != os.getpid():
            return True
        if sys.platform == "win32":  # without poll; select has no limit on the number of a socket
            return bool(select.select([self._socket], [], [], 0)[0])
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def abort(self) -> None:
        """Shut down both directions, which wakes the waiting thread. That thread closes the socket."""
        with suppress(OSError):  # it is no longer connected
            # Not the method of SSLSocket: it ends TLS first, and the other thread would send plain text.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class ConnectionPool:
    """Keep idle connections. The last used one is reused first, so that the others expire."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_closed = False
        self._clock = clock
        self._idle: list[HttpConnection] = []  # the oldest first
        # While the lock is held the garbage collector may find a response that was not read to its end, whose
        # connection comes here: in the same thread.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, origin: Origin) -> HttpConnection | None:
        """Return a connection that can still be used, None if there is none."""
        limit = self._clock() - IDLE_LIMIT
        unusable = []
        with self._lock:
            while self._idle and self._idle[0].idle_since < limit:
                unusable.append(self._idle.pop(0))
            while (
                match := next((connection for connection in reversed(self._idle) if connection.origin == origin), None)
            ) is not None:
                self._idle.remove(match)
                if not match.is_stale():
                    break
                unusable.append(match)
        for connection in unusable:
            connection.close()
        return match

    def put(self, connection: HttpConnection) -> None:
        """Keep a connection after the end of its response."""
        connection.idle_since = self._clock()
        surplus = []
        with self._lock:
            self._idle.append(connection)
            while self._idle and (self.is_closed or len(self._idle) > MAX_IDLE):
                surplus.append(self._idle.pop(0))
        for other in surplus:
            other.close()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they are put back."""
        with self._lock:
            idle, self._idle, self.is_closed = self._idle, [], True
        for connection in idle:
            connection.close()


def _remaining(timeout: float | None, deadline: float) -> float | None:
    """Return the timeout for the next part; raise httpx.ReadTimeout after the deadline."""
    if deadline != inf:
        left = deadline - time.monotonic()
        if left <= 0:
            raise httpx.ReadTimeout("the response did not end in time")
        timeout = left if timeout is None else min(left, timeout)
    return None if timeout is None else max(timeout, 0.001)  # 0 would not wait at all


def _check_server(connection: HttpConnection, challenge: _Challenge, timeout: float | None) -> None:
    """Raise httpx.ConnectError unless the server of a new connection responds to a challenge as expected."""
    origin, body, parser = connection.origin, b"", ResponseParser()
    deadline = time.monotonic() + (HEAD_TIMEOUT if timeout is None else timeout)
    try:
        path, expected = challenge()
        connection.send(f"GET {path} HTTP/1.1\r\nHost: {origin.host}:{origin.port}\r\n\r\n".encode("ascii"), timeout)
        while not parser.is_complete and len(body) <= len(expected):
            parser.feed(connection.receive(_remaining(None, deadline)))
            body += parser.take_body()
    except (httpx.TransportError, OSError) as error:
        raise httpx.ConnectError(f"{_UNPROVEN} ({error})") from None
    finally:
        parser.release()
    if parser.status != 200 or not parser.keeps_alive or not hmac.compare_digest(body, expected):
        raise httpx.ConnectError(_UNPROVEN)


def _send_body(connection: HttpConnection, request: httpx.Request, timeout: float | None) -> bool:
    """Send a body in parts; return False if the server did not accept all of it."""
    if isinstance(request.stream, httpx.ByteStream):
        return connection.send(request.read(), timeout)
    assert isinstance(request.stream, httpx.SyncByteStream)
    unsent = int(request.headers["Content-Length"])
    for chunk in request.stream:
        unsent -= len(chunk)
        if unsent < 0:
            break
        if not connection.send(chunk, timeout):
            return False
    if unsent != 0:
        raise httpx.LocalProtocolError(
            f"the body has {abs(unsent)} bytes {'more' if unsent < 0 else 'fewer'} than announced"
        )
    return True


def connect(origin: Origin, timeout: float | None) -> HttpConnection:
    """Open a connection; ``timeout`` is the seconds for each address of the host, and for the TLS handshake."""
    context = tls_context() if origin.server_name is not None else None
    try:
        sock = socket.create_connection((origin.host, origin.port), timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option in _keep_alive_options():
                with suppress(OSError):  # an option unknown to this system
                    sock.setsockopt(*option)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=origin.server_name)
        except BaseException:
            sock.close()
            raise
    except UnicodeError as error:
        raise httpx.InvalidURL(f"invalid host name: {error}") from None
    except TimeoutError as error:
        raise httpx.ConnectTimeout(str(error)) from error
    except OSError as error:
        raise httpx.ConnectError(str(error)) from error
    return HttpConnection(sock, origin)


def _keep_alive_options() -> list[tuple[int, int, int]]:
    """Return the keep-alive options for `socket.setsockopt`."""
    pairs = ((getattr(socket, name, None), value) for name, value in KEEP_ALIVE.items())
    options = [(socket.IPPROTO_TCP, option, value) for option, value in pairs if option is not None]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *options]


def find_proxy(scheme: str, host: str) -> str | None:
    """Return the proxy for a host, which may have a port; None if there is none."""
    from urllib.request import getproxies, proxy_bypass  # its import is slow

    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def proxy_transport(proxy: str) -> httpx.BaseTransport:
    """Return a transport through a proxy; ConnectError if it cannot be used."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_LIMIT)
    try:
        return httpx.HTTPTransport(
            verify=tls_context(), limits=limits, proxy=proxy, socket_options=_keep_alive_options()
        )
    except ImportError as error:  # a package that only some proxies need
        raise ConnectError(f"cannot use the proxy that the environment names: {error}") from None
    except (ValueError, httpx.InvalidURL):  # whose text may contain a part of a password
        raise ConnectError(
            "cannot use the proxy that the environment names",
            hint="check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; write http://host:port",
        ) from None
