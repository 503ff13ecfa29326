"""What a request brings back: a whole answer, or its body in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pipemagic.client.http.messages import Broken, Reply, Silent
from pipemagic.client.tracing import HEAD, TracedRequest
from pipemagic.errors import AnswerTimeout, InterruptedRequest, UnknownOutcome


@dataclass(frozen=True)
class HttpAnswer:
    """A whole answer: its status, content type (lower case, '' if none), body, and date as the server writes it.

    ``retry_after`` says when to ask again, if the server does: a number of seconds, or a date. ``traced`` is its
    record for the observer of the transport, None if there is none.
    """

    status: int
    content_type: str
    body: bytes = field(repr=False)
    date: str = ""
    retry_after: str = ""
    traced: TracedRequest | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class Pieces:
    """The body of an answer in pieces, as they come; iterate once, and close.

    ``on_end`` is called once when it is over, with the error that ended it, if one did, and the first bytes.
    """

    def __init__(self, reply: Reply, address: str, on_end: Callable[[BaseException | None, bytes], None]) -> None:
        self._reply, self._address = reply, address
        self._pieces = reply.pieces()
        self._on_end = on_end
        self._head = b""
        self._over = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Give the next piece. Raises UnknownOutcome if the body is cut, AnswerTimeout, InterruptedRequest."""
        try:
            piece = self._next()
        except (AnswerTimeout, UnknownOutcome) as error:
            self._end(error)
            raise
        if len(self._head) < HEAD:
            self._head += piece[:HEAD]
        return piece

    def _next(self) -> bytes:
        try:
            return next(self._pieces)
        except Silent:
            raise AnswerTimeout(f"{self._address} stopped sending in the middle of its answer") from None
        except Broken:
            raise UnknownOutcome(f"the connection to {self._address} ended in the middle of an answer") from None
        except KeyboardInterrupt:
            raise InterruptedRequest("interrupted while the answer came") from None

    def close(self) -> None:
        """Hang up, unless all of it came: then the connection can be used again."""
        self._reply.close()
        self._end()

    def _end(self, error: BaseException | None = None) -> None:
        if not self._over:
            self._over = True
            self._on_end(error, self._head)
