"""An answer as its bytes come: the head, then the body, until it is whole."""

from __future__ import annotations

import zlib

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from pipemagic.client.http.messages import Broken

MOST_WITHOUT_BODY = 100 * 1024
"""Bytes that may come without a byte of the body among them: heads and trailers have an end."""

_CODED = "transfer-encoding"


class Incoming:
    """Understands one answer. `release` it at the end: the parser and this refer to each other."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """With names in lower case; those that come behind the body are left out."""
        self.head_is_whole = False
        self.is_whole = False
        self.keeps_alive = False
        """Whether the connection can be used for the next request, once the answer is whole."""
        self._begun = False
        self._without_body = 0
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append  # one call for each chunk, and sqld sends one chunk for each row
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    def feed(self, data: bytes | memoryview) -> None:
        """Take in what came; Broken if it is no HTTP."""
        if self._parser is None:
            return
        before = len(self._pieces)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if isinstance(error.__context__, KeyboardInterrupt):  # the parser wraps what is raised in what it calls
                self.keeps_alive = False
                raise error.__context__ from None
            if not self.is_whole:
                raise Broken(f"what came is not HTTP: {error}", not_http=not self._begun) from None
            self.keeps_alive = False  # something that nobody asked for came behind it
        self._without_body = self._without_body + len(data) if len(self._pieces) == before else 0
        if self._without_body > MOST_WITHOUT_BODY:
            raise Broken("the head of the answer has no end")

    def end(self) -> None:
        """Take in that the server hung up; Broken if something is missing."""
        coding = self.headers.get(_CODED)
        if not self.head_is_whole or coding is not None or "content-length" in self.headers:
            raise Broken("the connection ended in the middle of an answer")
        self.is_whole, self.keeps_alive = True, False  # without a length the body goes on until then

    def take(self) -> bytes:
        """Give what came of the body since the last time."""
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return body

    def release(self) -> None:
        """Let go of the parser."""
        self._parser = None

    # -- called by the parser

    def on_message_begin(self) -> None:
        """Refuse a second answer in what came."""
        if self.is_whole:
            raise ValueError("one more answer")

    def on_status(self, _reason: bytes) -> None:
        """Note that it is HTTP."""
        self._begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        if self.head_is_whole:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """Read the status; below 200 the answer only says to wait, as ``100 Continue`` does."""
        assert self._parser is not None
        self._begun = True
        self.status, self.keeps_alive = self._parser.get_status_code(), self._parser.should_keep_alive()
        self.head_is_whole = self.status >= 200

    def on_message_complete(self) -> None:
        """Note the end; after what only says to wait the answer is still to come."""
        self.is_whole = self.head_is_whole
        if not self.is_whole:
            self.headers.clear()
        elif self.status == 204 and (self.headers.get("content-length", "0") != "0" or _CODED in self.headers):
            self.keeps_alive = False  # it has no body: one that is announced, and may come, is not the next answer


class Unpacking:
    """Undoes gzip (or zlib's own format, which HTTP calls deflate) piece by piece."""

    def __init__(self) -> None:
        self._inner = _decompressor()
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """Give what a piece holds; may be empty."""
        self._begun = self._begun or bool(data)
        try:
            unpacked = self._inner.decompress(data)
            while rest := self._inner.unused_data.lstrip(b"\0"):  # gzip may be several, one behind the other
                self._inner = _decompressor()
                unpacked += self._inner.decompress(rest)
            return unpacked
        except zlib.error as error:
            raise Broken(f"the compressed answer cannot be read: {error}") from None

    def end(self) -> None:
        """Take in that all of it came; Broken if it did not."""
        if self._begun and not self._inner.eof:
            raise Broken("the compressed answer is cut")


def _decompressor() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 32)
