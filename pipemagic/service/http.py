"""What a call of the service takes and gives, free of any web framework."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from pipemagic.service.haste import Haste
from pipemagic.service.turns import Turn

JSON = "application/json"
TEXT = "text/plain"

_ENCODER = msgspec.json.Encoder()


class Request(msgspec.Struct, frozen=True, dict=True):
    """One HTTP request, wholly read. Header names are in lower case; ``path`` is percent-decoded.

    ``file`` holds the body of a request whose body is too large for memory; it is removed when it is answered.
    """

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    file: Path | None = None
    scheme: str = "http"

    @property
    def port(self) -> str:
        """The port of the Host header with its colon; empty if it has none."""
        host = self.headers.get("host", "")
        return host[host.rindex(":") :] if ":" in host and not host.endswith("]") else ""

    @cached_property
    def host(self) -> str:
        """The Host header without its port and the dot of an absolute name, in lower case."""
        host = self.headers.get("host", "").lower()
        if ":" in host and not host.endswith("]"):
            host = host.rpartition(":")[0]
        return host.removesuffix(".")


class Response(msgspec.Struct, frozen=True):
    """Status, content type and the body in chunks: a list, or a `Body` that is made while it is sent.

    ``delay`` is in seconds, before the first byte is sent. ``sent`` is called when the last one is, or when the
    client left.
    """

    status: int
    chunks: Iterable[bytes | Turn] = ()
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    sent: Callable[[], None] | None = None


class Body(ABC):
    """A body that is made while it is sent; gives a Turn where it has to wait."""

    def __iter__(self) -> Iterator[bytes | Turn]:
        return self

    @abstractmethod
    def __next__(self) -> bytes | Turn: ...

    @abstractmethod
    def close(self) -> None:
        """Give up what is not sent yet. Whoever does not take a body to its end must call this; twice is fine."""


class Generated(Body):
    """Gives ``first``, then what a generator that was started already yields and returns."""

    def __init__(self, first: bytes, rest: Generator[bytes | Turn, None, bytes]) -> None:
        self._first, self._rest = first, rest
        self._lock = threading.Lock()  # closing waits for the part that is being made
        self._over = False

    def __next__(self) -> bytes | Turn:
        with self._lock:
            if self._over:
                raise StopIteration
            if self._first:
                first, self._first = self._first, b""
                return first
            return self._make()

    def _make(self) -> bytes | Turn:
        try:
            return next(self._rest)
        except StopIteration as end:
            self._over = True
            last: bytes = end.value
            return last

    def close(self) -> None:
        """End the generator."""
        with self._lock:
            self._over = True
            self._rest.close()


@dataclass(frozen=True)
class Later:
    """What an endpoint gives that has to wait: for all the turns, after which ``finish`` gives the answer."""

    turns: Sequence[Turn]
    finish: Callable[[], Response]


def json(body: Any, status: int = 200) -> Response:
    """Answer with JSON."""
    return Response(status, [_ENCODER.encode(body)])


def text(line: str, status: int = 200) -> Response:
    """Answer with one line of plain text."""
    return Response(status, [line.encode()], TEXT)


def empty(status: int, *headers: tuple[str, str]) -> Response:
    """Answer without a body."""
    return Response(status, (), "", headers)


class Refused(Exception):
    """Ends a call with an HTTP error; caught in one place, where it becomes the answer."""

    def __init__(self, status: int, message: str, code: str | None = None, *, plain: bool = False) -> None:
        super().__init__(message)
        self.status, self.message, self.plain = status, message, plain
        self.code = code or _CODES.get(status, "ERROR")

    def response(self) -> Response:
        """Give the answer: a line of text, or JSON with ``error``, ``message`` and ``code``.

        Published clients differ in which of the members they read.
        """
        if self.plain:
            return text(self.message, self.status)
        return json({"error": self.message, "message": self.message, "code": self.code}, self.status)


_CODES = {
    400: "BAD_REQUEST", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND", 409: "CONFLICT",
    413: "BODY_TOO_LARGE", 421: "MISDIRECTED", 429: "TOO_MANY_REQUESTS", 500: "INTERNAL", 503: "UNAVAILABLE",
}  # fmt: skip


class Cancel:
    """Tells a running call that its client has hung up; safe to use from any thread.

    ``haste`` is for a call that others wait for while it runs.
    """

    def __init__(self, haste: Haste | None = None) -> None:
        self.haste = haste or Haste()
        self._lock = threading.Lock()
        self._set = False
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_set(self) -> bool:
        """Whether the client is gone."""
        return self._set

    def set(self) -> None:
        """Note that the client is gone and tell who listens; once."""
        with self._lock:
            if self._set:
                return
            self._set = True
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    def listen(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the client hangs up; at once if it already has."""
        with self._lock:
            if not self._set:
                self._callbacks.append(callback)
                return
        callback()

    def forget(self, callback: Callable[[], None]) -> None:
        """Stop listening."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
