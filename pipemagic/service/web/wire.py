"""The HTTP/1.1 side of a connection: uvicorn's, with limits for what comes before a request is known."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

ABORT = "pipemagic.abort"
"""Name of an ASGI extension: a function that drops the connection without waiting for its client."""

HEAD_TIMEOUT = 20.0
"""Seconds that a request's line and headers may take, from the connection or their first byte on."""
HEAD_LIMIT = 64 * 1024
"""Bytes that they may have."""


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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, unless it is a head without end."""
        if self._head_alarm is not None:
            self._head_size += len(data)
        super().data_received(data)
        if self._head_alarm is not None and self._head_size > HEAD_LIMIT:
            self._refuse(431, "Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        """Begin to wait for the headers; the shell may drop the connection."""
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]
        if self._head_alarm is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """Stop waiting: the shell has a time-out of its own for the body."""
        self._head_is_here()
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0":
            self.cycle.__class__ = UntilClosed

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._head_is_here()
        self._refuse(400, msg)

    def _await_head(self) -> None:
        self._head_size = 0
        self._head_alarm = self.loop.call_later(self.head_timeout, self._head_is_late)

    def _head_is_here(self) -> None:
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
