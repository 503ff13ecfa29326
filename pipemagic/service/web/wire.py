"""The HTTP/1.1 side of a connection: uvicorn's, with limits for what comes before a request is known."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from pipemagic.service.http import Response
from pipemagic.service.web.sending import ABORT, body_of, headers_of

HEAD_TIMEOUT = 20.0
"""Seconds that a request's line and headers may take, from the connection or their first byte on."""
HEAD_LIMIT = 64 * 1024
"""Bytes that they may have."""

RECEIVED_AT_ONCE = 64 * 1024
"""Bytes of the buffer for what comes. asyncio's 256 KB are mapped anew each time, which takes 30 us instead of 6."""

TOGETHER = 0.005
"""Seconds for which requests that came together are answered at once; those behind them let others in between."""

PIPELINED = 64
"""Requests that may wait on a connection behind the one under way before nothing more is read."""


class Flow(FlowControl):
    """Reads on while few requests wait, and only then.

    uvicorn stops with the first one that does, and would not notice a client that leaves; for each one that is served
    it reads many more.
    """

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        super().__init__(transport)
        self._connection = connection

    def pause_reading(self) -> None:
        """Read no further if the body that comes is large, or with this request many wait."""
        if self._connection.cycle.body or len(self._connection.pipeline) + 1 >= PIPELINED:
            super().pause_reading()

    def resume_reading(self) -> None:
        """Read on, unless many wait."""
        if len(self._connection.pipeline) < PIPELINED:
            super().resume_reading()


class UntilClosed(RequestResponseCycle):
    """An exchange with a client of HTTP/1.0, which knows no chunks: the end of the connection ends the answer."""

    _has_length = True

    async def send(self, message: Any) -> None:
        """Send part of an answer; one whose length is not known goes as it is."""
        if message["type"] == "http.response.start":
            self._has_length = any(name == b"content-length" for name, _ in message["headers"])
            self.chunked_encoding = None if self._has_length else False
        elif not self._has_length:
            self.expected_content_length = len(message["body"])  # uvicorn looks at the length of all
        await super().send(message)


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    head_timeout = HEAD_TIMEOUT
    _head_alarm: asyncio.TimerHandle | None = None
    _head_size = 0
    _idle_since = math.inf
    """When the last answer was complete; inf while a request is under way."""
    _in_head = False
    """Whether a head has begun that is not here as a whole."""
    _fed_at = -math.inf
    """When the data came that the parser is busy with, perhaps a request and its body; -inf if it is not."""
    _held: Any = None
    """The application that is to serve a request whose body may be here in a moment."""
    _served: RequestResponseCycle | None = None
    """The exchange under way; `cycle` is the last one that came, perhaps behind it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.flow = Flow(transport, self)
        if hasattr(transport, "max_size"):  # asyncio's own on Unix; others have no such buffer
            transport.max_size = RECEIVED_AT_ONCE
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting, and tell the request that is under way."""
        self._head_is_here()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)
        if self._served is not None and not self._served.response_complete:  # uvicorn tells the last one only
            self._served.disconnected = True
            self._served.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Take what came, unless it is a head without end."""
        if self._head_alarm is not None:
            self._head_size += len(data)
        self._fed_at = self.loop.time()
        super().data_received(data)
        self._fed_at = -math.inf
        if self._in_head and self._head_alarm is None:
            self._await_head()
        elif self._idle_since == math.inf and not self._in_head and self.cycle and self.cycle.response_complete:
            self._idle_since = self.loop.time()  # blank lines are no request
        if self._held is not None:
            self._serve()  # the rest of the body has its time-out there
        if self._head_alarm is not None and self._head_size > HEAD_LIMIT:
            self._refuse(431, "Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        """Begin to wait for the headers; the shell may drop the connection."""
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]
        self._in_head, self._idle_since = True, math.inf

    def on_headers_complete(self) -> None:
        """Stop waiting: the shell has a time-out of its own for the body."""
        self._head_is_here()
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0":
            self.cycle.__class__ = UntilClosed

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Begin to serve a request: one that is likely to be short when its body is here."""
        if self.transport.is_closing():
            return
        self._served = cycle
        if cycle is self.cycle and self._may_be_short(app):
            self._held = app
        else:
            super()._start_asgi_task(cycle, app)

    def _may_be_short(self, app: Any) -> bool:
        scope = self.scope
        return (
            self.loop.time() - self._fed_at < TOGETHER
            and scope["method"] == "POST" and scope["http_version"] == "1.1" and not self.expect_100_continue
            and not self.flow.write_paused and hasattr(app, "at_once")
        )  # fmt: skip

    def on_message_complete(self) -> None:
        """Answer a short request now; else have it served as all others."""
        super().on_message_complete()
        if self._held is None:
            return
        app, self._held = self._held, None  # whatever happens now, it is not begun twice
        response = app.at_once(self.scope, bytes(self.cycle.body))
        if response is None:
            super()._start_asgi_task(self.cycle, app)
        else:
            self._send(self.cycle, response)

    def _serve(self) -> None:
        app, self._held = self._held, None
        super()._start_asgi_task(self.cycle, app)

    def _send(self, cycle: RequestResponseCycle, response: Response) -> None:
        """Send an answer in one piece, as uvicorn does it in two."""
        body = body_of(response)
        headers = (*cycle.default_headers, *headers_of(response, len(body)))
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        last = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        self.transport.write(b"".join((STATUS_LINE[response.status], lines, last, body)))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        if response.sent is not None:
            response.sent()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._head_is_here()
        self._refuse(400, msg)

    # The time between two requests. One timer looks again and again, where uvicorn sets one for each answer.

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = math.inf

    def on_response_complete(self) -> None:
        """Go on with the next request of a pipeline, or begin to wait for one."""
        self._idle_since = self.loop.time()
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        if self.timeout_keep_alive_task is None:
            self._look_whether_idle()

    def _look_whether_idle(self) -> None:
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left <= 0:
            self.timeout_keep_alive_handler()
        else:
            wait = min(left, self.timeout_keep_alive)
            self.timeout_keep_alive_task = self.loop.call_later(wait, self._look_whether_idle)

    def _await_head(self) -> None:
        self._head_size = 0
        self._head_alarm = self.loop.call_later(self.head_timeout, self._head_is_late)

    def _head_is_here(self) -> None:
        self._in_head = False
        if self._head_alarm is not None:
            self._head_alarm.cancel()
            self._head_alarm = None

    def _head_is_late(self) -> None:
        self._head_alarm = None
        self._refuse(408, "Request Timeout")

    def _refuse(self, status: int, reason: str) -> None:
        """Answer in one line and close; nobody waits for the client to take it."""
        self._head_is_here()
        if not self.transport.is_closing():
            head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain\r\ncontent-length: {len(reason)}\r\n"
            self.transport.write(f"{head}connection: close\r\n\r\n{reason}".encode("ascii"))
            self.transport.close()
