"""What a way to send HTTP takes and gives, and how it fails; two modules do it: `direct` and `through_httpx`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from pipemagic.client.urls import Endpoint


class NotConnected(Exception):
    """No connection came about, and nothing was sent; its cause says why."""


class TookTooLong(NotConnected):
    """Nobody took the connection in time."""


class ProxyRefused(NotConnected):
    """There is a proxy on the way, and it did not let us through."""


class Silent(Exception):
    """The server took too long to take, or to send, the next part."""


class Broken(Exception):
    """The connection ended before the answer did, or what came is no HTTP."""

    def __init__(self, message: str, *, not_http: bool = False) -> None:
        super().__init__(message)
        self.not_http = not_http


@dataclass(slots=True)
class Request:
    """One request. ``path`` may have a query and is below that of the endpoint; time-outs are seconds or None.

    ``timeout`` is for the next part of the answer, ``limit`` for the whole.
    A body in pieces needs a ``Content-Length`` among the headers. `headers` hold the token, so no repr shows them.
    """

    method: str
    endpoint: Endpoint
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | Iterable[bytes] | None = field(repr=False)
    connect_timeout: float | None
    timeout: float | None
    limit: float | None = None

    def until(self) -> float:
        """Tell when, by `time.monotonic`, a request that begins now must have its whole answer."""
        return inf if self.limit is None else time.monotonic() + self.limit


class Reply(Protocol):
    """An answer whose head is here. To be closed; what is read to its end is closed by that.

    ``headers`` have names in lower case. ``received_size`` is how many bytes of the body came, compressed as they
    were. The connection of an answer of 400 and above is not used again: who refuses before the body of the request is
    there, as sqld does, may hang up then, and the next request would have an outcome that nobody knows.
    """

    @property
    def status(self) -> int:
        """The status of HTTP."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""

    @property
    def received_size(self) -> int:
        """Bytes of the body so far."""

    def read(self) -> bytes:
        """Give the whole body, or what is left of it; again and again. Raises Silent and Broken."""

    def pieces(self) -> Iterator[bytes]:
        """Give the body as it comes. Raises Silent and Broken."""

    def close(self) -> None:
        """Hang up, unless all of it came: then the connection can be used again."""


class Sender(Protocol):
    """A way to send requests, from several threads."""

    def send(self, request: Request) -> Reply:
        """Send a request and wait for the head of its answer. Follows no redirect, sends nothing twice.

        Raises NotConnected if nothing was sent, Silent and Broken if it left and no answer came, UnicodeError for a
        host that no network knows how to name.
        """

    def close(self) -> None:
        """Close the connections that are idle; those in use when they are done."""

    def hang_up(self) -> None:
        """End what is under way, from another thread, for good: it raises Broken. Not every way can."""
