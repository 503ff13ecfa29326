"""Incremental parsing of a response: head, then body."""

from __future__ import annotations

import httpx
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_WITHOUT_BODY = 100 * 1024
"""The most bytes that may arrive without a byte of the body: a limit for heads and trailers."""


class ResponseParser:
    """Parses one response. Call `release` at the end: this parser and that of httptools refer to each other."""

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
            raise httpx.RemoteProtocolError("the head of the response has no end")

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
            raise ValueError("one more response")
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
