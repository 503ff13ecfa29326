"""The HTTP/1.1 protocol of a connection: uvicorn's, with limits on heads, chunks, pipelines and slow clients."""

from __future__ import annotations

import asyncio
import re
import select
import sys
from collections.abc import Callable
from heapq import nsmallest

import httptools
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

ABORT = "pipemagic.abort"
"""Name of an ASGI extension in the scope: a function that drops the connection without a response."""

BODY_RECEIVED = "pipemagic.body_received"
"""Key in the state of the scope, set once the whole body was received and can be read without waiting."""

HEAD_TIMEOUT = 20.0
"""Seconds that a request line and its headers may take, from the connection or from their first byte."""
HEAD_LIMIT = 64 * 1024
"""Bytes of a request line and its headers."""
SEND_TIMEOUT = 30.0
"""Seconds in which a client must take at least `SEND_MINIMUM` bytes of what is sent to it."""
SEND_MINIMUM = 16 * 1024
CHUNK_OVERHEAD = 16 * 1024
"""Bytes of chunk sizes, chunk extensions and trailers of a body, beyond 15 for each byte of the body itself."""
PIPELINE_LIMIT = 64
"""Requests that may wait behind the running one before nothing more is read."""
UNAVAILABLE_LIMIT = 8
"""Connections beyond the limit that may send a request before they get a 503; further ones are closed at once."""
LEAST_IDLE_TIME = 1.0
"""Seconds without a request after which a connection may be closed if the limit of connections is reached."""
MOST_CLOSED = 32
"""Idle connections closed at once, at most an eighth of the limit."""
READ_SIZE = 64 * 1024
"""Bytes read at once. asyncio's 256 KB are mapped for each read, which takes 30 us instead of 6."""

_HOST = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[\w.~!$&'()*+,;=%-]*)(:\d*)?")


class HttpProtocol(HttpToolsProtocol):
    """One connection of a client. Overrides public callbacks of asyncio, httptools and uvicorn only."""

    head_timeout = HEAD_TIMEOUT
    send_timeout = SEND_TIMEOUT
    least_idle_time = LEAST_IDLE_TIME
    _extensions: dict[str, Callable[[], None]]
    _idle_since = 0.0
    """When the connection was opened, or the last response was sent."""
    _in_head = False
    """Whether the parser is inside a request line or headers."""
    _head_timer: asyncio.TimerHandle | None = None
    """Set while the first head of the connection, or the rest of a later one, is awaited."""
    _overhead = 0
    """Bytes of the head since the timer was set, or of chunks and trailers beyond those that the body explains."""
    _send_timer: asyncio.TimerHandle | None = None
    _unsent = 0
    _running: RequestResponseCycle | None = None
    """The request that the application serves; `cycle` is the last one that was received."""
    _reading_stopped = False
    """Whether nothing is read because the pipeline is full."""
    _refusal: bytes | None = None
    """The response to a request that is refused here; nothing behind it is parsed."""

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request.

        Beyond the limit of connections, those that have been idle longest are closed, so that a client with many
        connections does not lock out others. If none is idle, the response is 503.
        """
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._extensions = {ABORT: transport.abort}
        # `pause_writing` is called as soon as the client takes less than is sent; 0 would stop TLS of asyncio for good.
        transport.set_write_buffer_limits(high=1)
        if hasattr(transport, "max_size"):  # only asyncio's own transport for plain sockets has it
            transport.max_size = READ_SIZE
        # uvicorn would also refuse the requests of connections that were open before the limit was reached.
        limit, self.limit_concurrency = self.limit_concurrency, None
        if limit is not None and len(self.connections) > limit:
            self._close_longest_idle(limit)
        excess = 0 if limit is None else len(self.connections) - limit
        if excess > UNAVAILABLE_LIMIT:
            self._refuse(503, "Service Unavailable")
            return
        if excess > 0:
            self.app = service_unavailable
        self._start_head_timer()

    def _close_longest_idle(self, limit: int) -> None:
        """Close connections that have been without a request for the longest time.

        Close several at a time, since finding them takes time; skip those whose next request has arrived.
        """
        latest = self.loop.time() - self.least_idle_time
        idle = [one for one in self.connections if isinstance(one, HttpProtocol) and one._is_idle_since(latest)]
        for one in nsmallest(max(1, min(MOST_CLOSED, limit // 8)), idle, key=lambda one: one._idle_since):
            if not _has_data(one.transport.get_extra_info("socket").fileno()):
                self.connections.discard(one)  # `connection_lost` follows later
                one.transport.close()

    def _is_idle_since(self, latest: float) -> bool:
        unused = self.cycle is None or self.cycle.response_complete
        return unused and self._idle_since <= latest and self.app is not service_unavailable

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers and disconnect the running request; uvicorn disconnects the last one only."""
        for timer in (self._head_timer, self._send_timer, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Parse data, then limit what is incomplete: a head, chunks without a body, a pipeline."""
        if self._refusal is not None or self.transport.is_closing():
            return
        cycle = self.cycle
        body_size = 0 if cycle is None else len(cycle.body)
        super().data_received(data)
        if self._in_head:
            self._limit_head(len(data))
        elif cycle is not None and cycle is self.cycle:
            self._limit_body(len(data), len(cycle.body) - body_size)
        if self.pipeline:
            self._limit_pipeline()

    # Requests

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]
        self._in_head = True

    def on_headers_complete(self) -> None:
        """Check the headers and start the request, or queue it behind the running one."""
        self._check_head()
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()
        self.headers = []  # takes the trailers: they are no headers of this request
        self._overhead = 0
        if not self.pipeline:
            self._running = self.cycle

    def on_message_complete(self) -> None:
        """Note that the body is complete."""
        self.scope["state"][BODY_RECEIVED] = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the next request of the pipeline, send the refusal behind the last one, or wait for a request."""
        self._idle_since = self.loop.time()
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        elif self._refusal is not None:
            self._send_refusal()
        super().on_response_complete()
        if self._reading_stopped and not self._pipeline_is_full():
            self._reading_stopped = False
            self.transport.resume_reading()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(400, msg)

    def _check_head(self) -> None:
        """Refuse a head that is too large, and what RFC 9112, 3.2 forbids about Host."""
        size, host = len(self.url), None
        for name, value in self.headers:
            size += len(name) + len(value) + 4
            if name == b"host":
                if host is not None or not _HOST.fullmatch(value):
                    self._refuse_head(400, "The Host header is malformed, or there are several.")
                host = value
        if host is None and self.parser.get_http_version() != "1.0":
            self._refuse_head(400, "A request needs a Host header.")
        if size > HEAD_LIMIT:
            self._refuse_head(431, "Request Header Fields Too Large")

    def _refuse_head(self, status: int, reason: str) -> None:
        self._refuse(status, reason)
        raise httptools.HttpParserError(reason)  # ends the parsing

    def _limit_head(self, received: int) -> None:
        """Limit the time and the size of a head of which a part was received."""
        if self._head_timer is None:
            self._start_head_timer()
            return
        self._overhead += received
        if self._overhead > HEAD_LIMIT:
            self._refuse(431, "Request Header Fields Too Large")

    def _limit_body(self, received: int, body: int) -> None:
        """Limit what is received after the head of a request but is not its body."""
        if self.cycle.response_complete:  # the rest of an unread body, or blank lines; uvicorn cancelled its timer
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        elif self.cycle.more_body:
            self._overhead = max(0, self._overhead + received - 16 * body)
            if self._overhead > CHUNK_OVERHEAD:
                self._refuse(400, "The chunk extensions or trailers are too large.")

    def _start_head_timer(self) -> None:
        if self._refusal is None:
            self._overhead = 0
            self._head_timer = self.loop.call_later(self.head_timeout, self._head_timed_out)

    def _head_timed_out(self) -> None:
        if self._reading_stopped or self.flow.read_paused:  # the client may have sent the rest
            self._start_head_timer()
        else:
            self._refuse(408, "Request Timeout")

    def _limit_pipeline(self) -> None:
        """Read on, unless the pipeline is full: uvicorn would not notice that the client disconnected."""
        self.flow.resume_reading()
        if self._pipeline_is_full():
            # Unknown to `flow`, which resumes whenever the running request reads more.
            self.transport.pause_reading()
            self._reading_stopped = True

    def _pipeline_is_full(self) -> bool:
        return len(self.pipeline) >= PIPELINE_LIMIT or sum(len(cycle.body) for cycle, _ in self.pipeline) > READ_SIZE

    # Refusals

    def _refuse(self, status: int, reason: str) -> None:
        """Send a response of one line and close the connection, after the responses that are pending."""
        if self._refusal is not None:
            return
        head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain\r\ncontent-length: {len(reason)}\r\n"
        self._refusal = f"{head}connection: close\r\n\r\n{reason}".encode("ascii")
        if self._head_timer is not None:
            self._head_timer.cancel()
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._send_refusal()
        elif cycle.more_body and not self._in_head:  # its own body is refused
            if cycle is self._running and not cycle.response_started:
                self._send_refusal()
            else:
                self.transport.close()

    def _send_refusal(self) -> None:
        if self._refusal is not None and not self.transport.is_closing():
            self.transport.write(self._refusal)
            self.transport.close()

    # Responses

    def pause_writing(self) -> None:
        """Pause the application, and abort the connection if the client does not take what is sent."""
        super().pause_writing()
        self._start_send_timer()

    def resume_writing(self) -> None:
        """Resume the application."""
        super().resume_writing()
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def _start_send_timer(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._send_timer = self.loop.call_later(self.send_timeout, self._check_sending)

    def _check_sending(self) -> None:
        if self._unsent - self.transport.get_write_buffer_size() < SEND_MINIMUM:
            self.transport.abort()
        else:
            self._start_send_timer()


def _has_data(handle: int) -> bool:
    """Return True if data of a socket, or its end, was not read yet. Needs no file handle: none may be left."""
    if sys.platform == "win32":
        return bool(select.select([handle], [], [], 0)[0])
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))
