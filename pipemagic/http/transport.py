"""The transport of httpx over sockets, with a tenth of the processor time of its default transport."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Iterator
from functools import partial
from math import inf

import httpx

from pipemagic.http.connection import Challenge, ClosedUnsent, Connection, Origin, Pool, connect
from pipemagic.http.parser import ResponseParser

HEAD_TIMEOUT = 30.0
"""Seconds from the first byte of a response until its head must be complete."""

_ONE_PACKET = 64 * 1024
"""The most bytes of a body that is sent together with the head, in few packets."""


_UNPROVEN = "the process there does not prove that it is the service; no token was sent"


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

    def __init__(self, challenge: Challenge | None = None) -> None:
        self.pool = Pool()
        self._challenge = challenge
        # Referenced here, they are never garbage together with an incomplete response: the garbage collector might
        # close the socket of one that is put back at the same moment.
        self._in_use: dict[Connection, object] = {}  # and their users
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
        known = self.pool.take(origin)
        connection = known or connect(origin, remaining(timeout.get("connect"), deadline))
        try:
            use = self._in_use[connection] = object()
            if self._aborted:
                raise httpx.ReadError("it was aborted")
            if known is None and self._challenge is not None:
                _check_server(connection, self._challenge, remaining(timeout.get("connect"), deadline))
            connection.has_sent = False
            write_timeout, head = remaining(timeout.get("write"), deadline), _head(request)
            if isinstance(request.stream, httpx.ByteStream) and len(request.read()) <= _ONE_PACKET:
                sent = connection.send(SecretBytes(head + request.read()), write_timeout)
            else:
                sent = connection.send(head, write_timeout) and _send_body(connection, request, write_timeout)
            release = partial(self._release, connection, use)
            stream = ResponseStream(connection, timeout.get("read"), deadline, release, was_sent=sent)
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

    def _release(self, connection: Connection, use: object, *, reusable: bool) -> None:
        """Put back a connection that is no longer in use."""
        if self._in_use.get(connection) is not use:
            return  # it was put back before an interrupt; another request may use it now
        del self._in_use[connection]
        if reusable:
            self.pool.put(connection)
        else:
            connection.close()


class ResponseStream(httpx.SyncByteStream):
    """The body of a response in chunks as they arrive.

    ``release`` puts the connection back at the end; ``was_sent`` is False if the request was not sent completely.
    """

    _connection: Connection | None = None

    def __init__(
        self, connection: Connection, timeout: float | None, deadline: float, release: Callable[..., None],
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
            self._receive(min(self._deadline, end))
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
                self._receive(self._deadline)
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

    def _receive(self, deadline: float) -> None:
        if self._connection is None:
            raise httpx.ReadError("the response was closed")
        self._parser.feed(self._connection.receive(remaining(self._timeout, deadline)))


def remaining(timeout: float | None, deadline: float) -> float | None:
    """Return the timeout for the next part; raise httpx.ReadTimeout after the deadline."""
    if deadline != inf:
        left = deadline - time.monotonic()
        if left <= 0:
            raise httpx.ReadTimeout("the response did not end in time")
        timeout = left if timeout is None else min(left, timeout)
    return None if timeout is None else max(timeout, 0.001)  # 0 would not wait at all


def _check_server(connection: Connection, challenge: Challenge, timeout: float | None) -> None:
    """Raise httpx.ConnectError unless the server of a new connection responds to a challenge as expected."""
    origin, body, parser = connection.origin, b"", ResponseParser()
    deadline = time.monotonic() + (HEAD_TIMEOUT if timeout is None else timeout)
    try:
        path, expected = challenge()
        connection.send(f"GET {path} HTTP/1.1\r\nHost: {origin.host}:{origin.port}\r\n\r\n".encode("ascii"), timeout)
        while not parser.is_complete and len(body) <= len(expected):
            parser.feed(connection.receive(remaining(None, deadline)))
            body += parser.take_body()
    except (httpx.TransportError, OSError) as error:
        raise httpx.ConnectError(f"{_UNPROVEN} ({error})") from None
    finally:
        parser.release()
    if parser.status != 200 or not parser.keeps_alive or not hmac.compare_digest(body, expected):
        raise httpx.ConnectError(_UNPROVEN)


def _head(request: httpx.Request) -> SecretBytes:
    """Return the head of a request, with the token."""
    return SecretBytes(
        b"\r\n".join(
            [
                b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path),
                *[b"%s: %s" % field for field in request.headers.raw],
                b"\r\n",
            ]
        )
    )


def _send_body(connection: Connection, request: httpx.Request, timeout: float | None) -> bool:
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
            f"the body has {abs(unsent)} bytes {'more' if unsent < 0 else 'less'} than announced"
        )
    return True
