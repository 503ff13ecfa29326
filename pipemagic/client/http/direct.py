"""HTTP/1.1 over sockets of our own: a tenth of the processor time of a general HTTP client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pipemagic
from pipemagic.client.http.connection import Connection, connect, origin_of, trusting
from pipemagic.client.http.incoming import Incoming, Unpacking
from pipemagic.client.http.messages import Broken, NotConnected, Request, Silent
from pipemagic.client.http.pool import Pool
from pipemagic.client.secrets import SecretBytes
from pipemagic.client.urls import Endpoint

if TYPE_CHECKING:
    import ssl

_SENT_AT_ONCE = 64 * 1024
"""Bytes of a body that is copied behind the head, so that both leave in one packet, or few."""

_CRUMB = 8 * 1024
"""Bytes of a piece below which the next one is left some time to grow."""

_CRUMBS_AT_ONCE = 16
"""Pieces that are taken as they come, whatever their size: what is short comes at once."""

_GATHERING = 0.005
"""Seconds that a piece may grow. Else sqld, which sends each row by itself, and we wake each other for each row."""

_IN_PATHS = "/:@!$&'()*+,;=~%?"
"""What stands for itself in a path and its query, besides letters, digits and ``_.-``."""

_COMMON = {"User-Agent": f"pipemagic/{pipemagic.__version__}", "Accept": "*/*", "Accept-Encoding": "gzip"}


class DirectSender:
    """Sends over connections that are kept for the next request, whichever thread makes it."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self.pool = Pool()
        # Held here, they are never garbage together with an answer that nobody reads to its end: the collector might
        # close the socket of one that is given back at the same moment.
        self._in_use: set[Connection] = set()
        self._sleep = sleep
        self._hung_up = False

    def send(self, request: Request) -> DirectReply:
        """Send a request and wait for the head of its answer; see `Sender`."""
        head = _head(request)  # it may not be an address that HTTP can use: before there is a connection
        connection = self._connection(request)
        try:
            self._in_use.add(connection)
            if self._hung_up:
                raise Broken("it was given up")
            until = request.until()
            connection.wait_for(request.timeout)
            sent = _send(connection, head, request)
            reply = DirectReply(connection, request.timeout, until, self._done if sent else self._hang_up, self._sleep)
            reply.read_head()
        except BaseException:
            self._in_use.discard(connection)
            connection.close()
            raise
        return reply

    def close(self) -> None:
        """Close the connections that are idle; those in use when they are done."""
        self.pool.close()

    def hang_up(self) -> None:
        """End what is under way, and whatever is begun later: whoever waits for an answer gets Broken."""
        self._hung_up = True
        for connection in tuple(self._in_use):
            connection.hang_up()

    def _connection(self, request: Request) -> Connection:
        if self.pool.is_closed:
            raise NotConnected("it was closed here")
        origin = origin_of(request.endpoint)
        context = self._trust if origin.server_name is not None else None
        return self.pool.take(origin) or connect(origin, request.connect_timeout, context)

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return trusting()

    def _done(self, connection: Connection, reply: DirectReply) -> None:
        if not reply.can_be_followed:
            self._hang_up(connection, reply)
        elif connection in self._in_use:  # else it was done before, and an interrupt came between
            self._in_use.discard(connection)
            self.pool.give_back(connection)

    def _hang_up(self, connection: Connection, _reply: DirectReply) -> None:
        self._in_use.discard(connection)
        connection.close()


class DirectReply:
    """An answer that comes over a socket. ``on_end`` takes the connection when the answer is over, or given up.

    ``timeout`` is how many seconds to wait for the next part, ``until`` when all of it must be there.
    """

    _connection: Connection | None = None

    def __init__(
        self,
        connection: Connection,
        timeout: float | None,
        until: float,
        on_end: Callable[[Connection, DirectReply], None],
        sleep: Callable[[float], None],
    ) -> None:
        self.received_size = 0
        self._timeout, self._until = timeout, until
        self._on_end, self._sleep = on_end, sleep
        self._incoming = Incoming()
        self._unpacking: Unpacking | None = None
        self._body: bytes | None = None
        self._connection = connection

    @property
    def status(self) -> int:
        """The status of HTTP."""
        return self._incoming.status

    @property
    def headers(self) -> dict[str, str]:
        """The headers, with names in lower case."""
        return self._incoming.headers

    @property
    def can_be_followed(self) -> bool:
        """Whether another request can go over the same connection."""
        return self._incoming.is_whole and self._incoming.keeps_alive and self.status < 400

    def read_head(self) -> None:
        """Read as far as the end of the head."""
        while not self._incoming.head_is_whole:
            self._advance()
        if self.headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate"):
            self._unpacking = Unpacking()

    def read(self) -> bytes:
        """Give the whole body, or what is left of it."""
        if self._body is None:
            pieces = list(self.pieces())
            self._body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return self._body

    def pieces(self) -> Iterator[bytes]:
        """Give the body as it comes: one piece for each time that something was there."""
        crumbs, gathers = 0, self._connection is not None and self._connection.gathers
        try:
            while True:
                if piece := self._take():
                    yield piece
                if self._incoming.is_whole:
                    break
                if gathers and len(piece) < _CRUMB:
                    crumbs += 1
                    if crumbs > _CRUMBS_AT_ONCE:
                        self._sleep(_GATHERING)
                self._advance()
            if self._unpacking is not None:
                self._unpacking.end()
        finally:
            self.close()

    def close(self) -> None:
        """Hang up, unless all of it came."""
        if self._connection is not None:
            self._incoming.release()
            self._on_end(self._connection, self)
            self._connection = None

    def __del__(self) -> None:
        self.close()

    def _take(self) -> bytes:
        piece = self._incoming.take()
        self.received_size += len(piece)
        return piece if self._unpacking is None else self._unpacking.feed(piece)

    def _advance(self) -> None:
        if self._connection is None:
            raise Broken("the answer was given up")
        if self._until != inf:
            self._connection.wait_for(self._patience(self._until - time.monotonic()))
        if data := self._connection.receive():
            self._incoming.feed(data)
        else:
            self._incoming.end()

    def _patience(self, left: float) -> float:
        """Tell how long to wait for the next part; Silent if there is no time left."""
        if left <= 0:
            raise Silent("the answer did not come to its end in time")
        return left if self._timeout is None else min(left, self._timeout)


def _send(connection: Connection, head: SecretBytes, request: Request) -> bool:
    """Send a request; False if the server did not take all of it, as when it refuses after the head."""
    body = request.body
    if body is None:
        return connection.send(head)
    if not isinstance(body, bytes):
        return connection.send(head) and _send_pieces(connection, body, int(request.headers["Content-Length"]))
    if len(body) <= _SENT_AT_ONCE:
        return connection.send(SecretBytes(head + body))
    return connection.send(head) and connection.send(body)


def _send_pieces(connection: Connection, pieces: Iterable[bytes], size: int) -> bool:
    """Send a body of so many bytes; Broken if it has more or less."""
    for piece in pieces:
        size -= len(piece)
        if size < 0:
            break
        if not connection.send(piece):
            return False
    if size != 0:
        raise Broken(f"what was to be sent has {abs(size)} bytes {'more' if size < 0 else 'less'} than was said")
    return True


@lru_cache(maxsize=1024)
def _place_of(endpoint: Endpoint) -> tuple[str, str]:
    """Give the host as it stands in the header of that name, and where the paths begin."""
    parts = urlsplit(endpoint.url)
    host = endpoint.host_header or parts.netloc
    return host if host.isascii() else host.encode("idna").decode("ascii"), parts.path


def _head(request: Request) -> SecretBytes:
    """Write the head of a request, which holds the token; UnicodeError if the host is not one that HTTP can name."""
    host, base = _place_of(request.endpoint)
    headers = {"Host": host, **_COMMON, **request.headers}
    if isinstance(request.body, bytes) or (request.body is None and request.method not in ("GET", "DELETE")):
        headers["Content-Length"] = str(len(request.body or b""))
    lines = [f"{request.method} {quote(base + request.path, safe=_IN_PATHS)} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return SecretBytes("\r\n".join([*lines, "", ""]), "ascii")
