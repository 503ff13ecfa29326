"""The HTTP/1.1 server: uvicorn's, with several sockets, and limits on heads, on slow clients and on connections.

A connection serves one request at a time: one that is sent before the response to the previous one closes it behind
that response, so nothing has to be kept for later (RFC 9112, 9.3.2).
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pipemagic.service.hosting import LOOPBACK, LOOPBACK_6
from pipemagic.service.listeners import Listener

ABORT = "pipemagic.abort"
"""Name of an ASGI extension in the scope: a function that drops the connection without a response."""

BODY_RECEIVED = "pipemagic.body_received"
"""Key in the state of the scope, set once the whole body was received and can be read without waiting."""

KEEP_ALIVE = 75  # seconds; clients drop idle connections before that, so they never use one that is being closed
GRACE = 1  # seconds in which running requests may end when the server stops
CONNECTIONS_SHARE = 4
"""The limit of connections is the number of file handles divided by this: a stream of a client needs three more."""

HEAD_LIMIT = 64 * 1024
"""Bytes of a request line and its headers; also of what is received in a row that is no body, such as trailers."""
MOST_HEADERS = 100
"""Headers of a request, and its trailers: a short one takes twenty times its size in memory."""
INVALID = "Invalid HTTP request received."
TOO_LARGE = "Request Header Fields Too Large"
UNAVAILABLE_LIMIT = 8
"""Connections beyond the limit that get a 503; further ones are closed at once."""
SEND_MINIMUM = 16 * 1024
"""Bytes that a client must take of what is sent to it, in each `send_timeout`."""
DISCARD_LIMIT = 256 * 1024 * 1024
"""Bytes that are read and discarded behind a response, so that the client sees it instead of a reset."""
READ_SIZE = 64 * 1024
"""Bytes read at once. asyncio's 256 KB are mapped for each read, which takes 40 us more, for all connections."""

_HOST = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[\w.~!$&'()*+,;=%-]*)(:\d*)?")


class HttpServer:
    """Serves an ASGI application.

    ``connections``: how many may be open; further ones get 503. None derives it from the file handles. ``proxies``:
    addresses or networks of trusted proxies, whose ``X-Forwarded-For`` names the client.
    """

    def __init__(
        self, app: Any, listeners: Sequence[Listener], *, connections: int | None = None, proxies: Sequence[str] = ()
    ) -> None:
        self._uvicorn = uvicorn.Server(uvicorn.Config(
            app, http=HttpProtocol, ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=bool(proxies), forwarded_allow_ips=_trusted(proxies), interface="asgi3",
            limit_concurrency=_default_connection_limit() if connections is None else connections,
            timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=GRACE,
        ))  # fmt: skip
        self._listeners = listeners

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._uvicorn.server_state.connections)

    @property
    def stopping(self) -> bool:
        """True if `stop` was called."""
        return self._uvicorn.should_exit

    def stop(self) -> None:
        """Begin to stop."""
        self._uvicorn.should_exit = True

    async def serve(self, *, on_start: Callable[[], None], on_stop: Callable[[], None]) -> None:
        """Listen and call ``on_start``; serve until `stop`, call ``on_stop``, and wait for running requests."""
        await self._listen()
        on_start()
        await self._uvicorn.main_loop()
        on_stop()
        await self._uvicorn.shutdown()

    async def _listen(self) -> None:
        """Listen on all sockets; uvicorn itself has one TLS context for all of them."""
        config = self._uvicorn.config
        config.load()
        self._uvicorn.lifespan = config.lifespan_class(config)
        servers = []
        for listener in self._listeners:
            config.ssl = listener.tls
            await self._uvicorn.startup([listener.socket])
            servers += self._uvicorn.servers
        self._uvicorn.servers = servers


def _trusted(proxies: Sequence[str]) -> list[str]:
    """Return the addresses of trusted proxies, with both of this machine: one that connects to localhost has either."""
    trusted = list(proxies)
    for proxy in proxies:
        with suppress(ValueError):
            if ipaddress.ip_address(LOOPBACK) in ipaddress.ip_network(proxy, strict=False):
                trusted.append(LOOPBACK_6)
    return trusted


def _default_connection_limit() -> int | None:
    """Return how many connections the file handles of this process allow beside databases; None for any number."""
    if sys.platform == "win32":
        return None
    import resource

    handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if handles == resource.RLIM_INFINITY else handles // CONNECTIONS_SHARE


class RequestPhase(Enum):
    """What of a request is received next."""

    START = "the start of a request"
    HEAD = "the rest of its head"
    BODY = "the rest of its body"


class Awaited(Enum):
    """What a client has to do within a time, while its connection has no running request."""

    REQUEST = "begin a request"
    HEAD = "complete its head"
    READING = "read what is sent to it"
    END = "end what it sends behind the response"


class HttpProtocol(HttpToolsProtocol):
    """One connection of a client."""

    head_timeout = 20.0
    """Seconds in which a head must be complete; that to begin it is uvicorn's `timeout_keep_alive`."""
    send_timeout = 30.0
    """Seconds in which a client must take at least `SEND_MINIMUM` bytes of what is sent to it."""
    discard_timeout = 30.0
    """Seconds in which a client must end what it sends behind a response."""
    least_idle_time = 1.0
    """Seconds without a request after which a connection may be closed if the limit of connections is reached."""
    transport: HalfClosingTransport  # type: ignore[assignment]
    _idle_since = 0.0
    """When the connection was opened, or the last response was sent."""
    _phase = RequestPhase.START
    _unparsed = 0
    """Bytes received since the last part of a body, or complete head."""
    _refused = False
    """True if nothing is parsed any more."""
    _discarded = 0
    """Bytes received that no application gets, since the last head."""
    _awaited: Awaited | None = None
    _ends = 0.0
    """When the time for what is awaited ends."""
    _unsent = 0
    """Bytes that the client had not yet read when its time began."""

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request.

        Beyond the limit of connections, the one that has been idle longest is closed, so that a client with many
        connections does not lock out others. If none is idle, the response is 503.
        """
        super().connection_made(HalfClosingTransport(transport, self))  # type: ignore[arg-type]
        self._idle_since, self.headers = self.loop.time(), []
        # `pause_writing` is called as soon as the client takes less than is sent; 0 would stop TLS of asyncio for good.
        transport.set_write_buffer_limits(high=1)
        if hasattr(transport, "max_size"):  # only asyncio's own transport for plain sockets has it
            transport.max_size = READ_SIZE
        # uvicorn would also refuse the requests of connections that were open before the limit was reached.
        limit, self.limit_concurrency = self.limit_concurrency, None
        excess = 0 if limit is None else len(self.connections) - limit
        if excess > 0 and not self._close_longest_idle():
            if excess > UNAVAILABLE_LIMIT:
                transport.close()
            else:
                self._refuse(503, "Service Unavailable")
        self._await()

    def _close_longest_idle(self) -> bool:
        """Close the connection without a request for the longest time, unless its next one has arrived."""
        latest = self.loop.time() - self.least_idle_time
        protocols = [protocol for protocol in self.connections if isinstance(protocol, HttpProtocol)]
        idle = [protocol for protocol in protocols if not protocol._is_running() and protocol._idle_since <= latest]
        for protocol in sorted(idle, key=lambda protocol: protocol._idle_since):
            if protocol._refused or not _has_data(protocol.transport.get_extra_info("socket").fileno()):
                self.connections.discard(protocol)  # `connection_lost` follows later
                protocol.transport.end()
                return True
        return False

    def _is_running(self) -> bool:
        """Return True while the application serves a request."""
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.disconnected

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer, also after an error."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Parse data, and limit what is incomplete; discard what follows the last response."""
        if self._refused or not self._is_running():
            self._discarded += len(data)
            if self._discarded > DISCARD_LIMIT:
                self.transport.abort()
        if self._refused or self.transport.is_closing():
            return
        self._unparsed += len(data)
        self._parse(data)
        if self._unparsed > HEAD_LIMIT or len(self.headers) > MOST_HEADERS:
            self._refuse(431, TOO_LARGE)
        self._await()

    # Requests

    def _parse(self, data: bytes) -> None:
        """Parse data. Another protocol that a client offers is declined by ignoring the offer (RFC 9110, 7.8).

        httptools takes what follows a head with Upgrade for data of that protocol: the body, too.
        """
        self._unset_keepalive_if_required()
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                head = self._head_without_offer()
                self.parser = httptools.HttpRequestParser(self)
                with suppress(AttributeError):  # httptools before 0.6.3; uvicorn does the same
                    self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                self.parser.feed_data(head + data[offer.args[0] :])
        except httptools.HttpParserError:
            self.logger.warning(INVALID)
            self.send_400_response(INVALID)

    def _head_without_offer(self) -> bytes:
        """Return the head that was parsed without its Upgrade header."""
        start = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        lines = [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([start, *lines, b"", b""])

    def on_message_begin(self) -> None:
        """Begin a request, the only one."""
        self._phase, self._unparsed = RequestPhase.HEAD, 0
        if self._is_running():
            self._refuse_head(400, "A request must wait for the response to the previous one.")
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]

    def on_headers_complete(self) -> None:
        """Check the head and start the request."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                self._refuse_head(400, "This server is no proxy.")
            return  # it is parsed again
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > HEAD_LIMIT or len(self.headers) > MOST_HEADERS:
            self._refuse_head(431, TOO_LARGE)
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or not all(map(_HOST.fullmatch, hosts)):  # RFC 9112, 3.2
            self._refuse_head(400, "The Host header is malformed, or there are several.")
        if not hosts and self.parser.get_http_version() != "1.0":
            self._refuse_head(400, "A request requires a Host header.")
        self._phase, self._unparsed, self._discarded = RequestPhase.BODY, 0, 0
        super().on_headers_complete()
        self.headers = []  # takes the trailers: they are no headers of this request

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        super().on_body(body)
        self._unparsed = 0

    def on_message_complete(self) -> None:
        """Note that the body is complete."""
        if self.parser.should_upgrade():
            return
        self._phase, self._unparsed = RequestPhase.START, 0
        self.scope["state"][BODY_RECEIVED] = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or the rest of this one."""
        self._idle_since = self.loop.time()
        super().on_response_complete()
        self._await()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(400, msg)

    def _refuse_head(self, status: int, reason: str) -> None:
        self._refuse(status, reason)
        raise httptools.HttpParserError(reason)  # ends the parsing

    def _refuse(self, status: int, reason: str) -> None:
        """Parse nothing more; send a response of one line and close, or close behind the running request."""
        if self._refused:
            return
        self._refused = True
        if self._is_running():
            if self._phase is not RequestPhase.BODY:
                self.cycle.keep_alive = False
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain\r\ncontent-length: {len(reason)}\r\n"
            self.transport.write(f"{head}connection: close\r\n\r\n{reason}".encode("ascii"))
        self.transport.close()

    # Slow clients

    def may_send(self) -> bool:
        """Return True if the client may be sending, so that the end of the connection would drop the response."""
        return self._refused or self._phase is not RequestPhase.START

    def pause_writing(self) -> None:
        """Pause the application until the client has read what is sent."""
        super().pause_writing()
        self._await()

    def resume_writing(self) -> None:
        """Resume the application."""
        super().resume_writing()
        self._await()

    def discard_rest(self) -> None:
        """Read and discard what the client sends until its end, whatever the application has read."""
        self.flow.resume_reading()
        self._await()

    def _await(self) -> None:
        """Set the timer for what the client has to do now; its time does not begin again with each byte."""
        awaited: Awaited | None
        if self.flow.write_paused:
            awaited, seconds = Awaited.READING, self.send_timeout
        elif self.transport.half_closed:
            awaited, seconds = Awaited.END, self.discard_timeout
        elif self._is_running() or self.transport.is_closing():
            awaited, seconds = None, 0.0
        elif self._phase is RequestPhase.BODY:
            awaited, seconds = Awaited.END, self.discard_timeout
        elif self._phase is RequestPhase.HEAD:
            awaited, seconds = Awaited.HEAD, self.head_timeout
        else:
            awaited, seconds = Awaited.REQUEST, self.timeout_keep_alive
        if awaited is not self._awaited:
            self._awaited, self._ends = awaited, self.loop.time() + seconds
            self._unsent = self.transport.get_write_buffer_size()
        self._unset_keepalive_if_required()
        if awaited is not None:
            self.timeout_keep_alive_task = self.loop.call_at(self._ends, self._timed_out)

    def _timed_out(self) -> None:
        """End the connection, unless the client is reading what is sent; say why if it was in a head."""
        if self._awaited is Awaited.HEAD:
            self._refuse(408, "Request Timeout")
        elif self._awaited is Awaited.READING:
            if self._unsent - self.transport.get_write_buffer_size() < SEND_MINIMUM:
                self.transport.abort()
            else:
                self._awaited = None
                self._await()
        else:
            self.transport.end()


class HalfClosingTransport:
    """A transport that does not close while the client may be sending (RFC 9112, 9.6).

    Otherwise the kernel answers what arrives behind a response with a reset, and the client loses the response.
    """

    def __init__(self, transport: asyncio.Transport, protocol: HttpProtocol) -> None:
        self._transport, self._protocol = transport, protocol
        self.half_closed = False
        self.write, self.end, self.abort = transport.write, transport.close, transport.abort
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading
        self.get_extra_info, self.get_write_buffer_size = transport.get_extra_info, transport.get_write_buffer_size

    def is_closing(self) -> bool:
        """Return True if nothing more is sent."""
        return self.half_closed or self._transport.is_closing()

    def close(self) -> None:
        """Close, now or when the client has ended."""
        if self.is_closing() or not self._protocol.may_send():
            self.end()
            return
        self.half_closed = True
        if self._transport.can_write_eof():  # TLS cannot: its clients know the end by the length
            self._transport.write_eof()
        self._protocol.discard_rest()


def _has_data(handle: int) -> bool:
    """Return True if data of a socket, or its end, was not read yet. Needs no file handle: none may be left."""
    if sys.platform == "win32":
        return bool(select.select([handle], [], [], 0)[0])
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))
