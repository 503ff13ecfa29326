"""What may be sent again, why that is safe, and what must happen first: the only table of it.

`Transport.send` has the loop. A request of which anything may have run is never sent again: not after a response that
is missing or incomplete, not after a timeout, not after any other status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any

from pipemagic.errors import InterruptedRequest
from pipemagic.hrana import faults

if TYPE_CHECKING:  # these import httpx, which takes long
    from pipemagic.client.address import Endpoint
    from pipemagic.client.response_body import HttpResponse
    from pipemagic.client.tracing import TracedRequest

BUSY_PAUSES = (0.1, 0.25, 0.5, 1.0, 1.5)
"""Seconds between attempts at a busy server; in sum below the time limit of 5 s for a transaction."""


class First(Enum):
    """What must happen before a request is sent again."""

    RECONNECT = "another connection is opened"
    PAUSE = "a pause, the next one of `BUSY_PAUSES`, unless the server or the deadline requires more than that"
    FIND = "the service is found, which starts it if necessary, and the message is renewed: batons of before are gone"
    REOPEN = "the message is renewed: it opens another stream, with the settings of the one before"


class Cause(Enum):
    """Why a request may be sent again."""

    CLOSED_UNSENT = "a kept connection was closed before a byte was sent"
    UNREACHABLE = "nothing is listening at the address"
    BUSY = "429"
    OVERLOADED = "503 with the seconds of Retry-After"
    REFUSED_TOKEN = "401"
    REFUSED_BATON = "the server no longer has the stream"
    INSTANCE_ENDED = "nothing is listening at the address of an instance that the server named before"


@dataclass(frozen=True)
class Repeat:
    """A row of the table: why it is safe to send a request again, and what must happen first.

    ``certain`` is True if nothing of the request ran, whatever it is; otherwise only one that reads may be repeated.
    ``times`` is how often, None for as often as there are `BUSY_PAUSES`. ``interrupted`` is the message for an
    interrupt while it is prepared.
    """

    safe: str
    first: First
    certain: bool = True
    times: int | None = 1
    interrupted: str = "interrupted before the request was sent"


REPEATS = {
    Cause.CLOSED_UNSENT: Repeat(
        "the system accepted no byte of it, with TLS no whole record, so the server received none", First.RECONNECT
    ),
    Cause.UNREACHABLE: Repeat(
        "no connection was opened. Only the embedded service may listen elsewhere: it has another port with each start",
        First.FIND, interrupted="interrupted while the embedded service was started",
    ),
    Cause.BUSY: Repeat(
        "a rate limit is applied before a request is processed, also by sqld and the service", First.PAUSE, times=None,
        interrupted="interrupted while the server was busy",
    ),
    Cause.OVERLOADED: Repeat(
        "it only reads, outside of a transaction. Nothing says that a 503 precedes the work: a gateway sends it also "
        "for a request that it has passed on. Neither sqld nor the service sends Retry-After with one",
        First.PAUSE, certain=False, times=None, interrupted="interrupted while the server was overloaded",
    ),
    Cause.REFUSED_TOKEN: Repeat(
        "a token is checked before anything runs. Only the embedded service may have another one: it is in its folder",
        First.FIND, interrupted="interrupted while the embedded service was started",
    ),
    Cause.REFUSED_BATON: Repeat(
        "a baton is checked before anything runs, and nothing was open on the stream that could be lost", First.REOPEN
    ),
    Cause.INSTANCE_ENDED: Repeat(
        "no connection was opened, and nothing was open on the stream; the named address leads to another instance",
        First.REOPEN,
    ),
}  # fmt: skip


def _is_get(message: Message) -> bool:
    return message.method == "GET"


@dataclass(slots=True, eq=False)
class Message:
    """A request, which `Transport.send` may send again.

    ``endpoint`` is that of the transport unless it is given. ``timeout`` is the seconds to wait for the next part of
    the response, None for that of the transport; ``limit`` for the whole, from now on until ``deadline``. ``size`` is
    the number of bytes of a body in chunks, which can be sent only once. ``only_reads`` returns True for one that only
    reads, outside of a transaction. ``reopens`` is True if it continues a stream that another one may replace, False if
    only the caller could do that, None if it continues none. ``renew`` is called before it is sent again: it may change
    it, or raise an error instead.

    After an error ``nothing_ran`` is True if it is certain that nothing of it ran.
    """

    method: str
    path: str
    body: bytes | Iterable[bytes] | None = field(default=None, repr=False)
    endpoint: Endpoint | None = None
    timeout: float | None = None
    limit: float | None = None
    size: int | None = None
    only_reads: Callable[[Any], bool] = _is_get
    reopens: bool | None = None
    renew: Callable[[Any, Cause], None] | None = None
    deadline: float = inf
    nothing_ran: bool = False
    traced: TracedRequest | None = field(default=None, repr=False)


def cause_of_refusal(response: HttpResponse, message: Message) -> Cause | None:
    """Return why a message without a 2xx response may be sent again; None if it must not."""
    if message.reopens:
        fault = faults.read_fault(response.body, response.content_type)
        if faults.is_stream_gone(response.status, fault):
            return Cause.REFUSED_BATON
    match response.status:
        case 401:
            return Cause.REFUSED_TOKEN
        case 429:
            return Cause.BUSY
        case 503 if response.retry_after.isdecimal():
            return Cause.OVERLOADED
    return None


def nothing_ran(cause: Cause | None, error: BaseException | None) -> bool:
    """Return True if it is certain that nothing ran of a request that was refused, or failed with an error."""
    if cause is None:
        return isinstance(error, InterruptedRequest) and error.nothing_ran
    return REPEATS[cause].certain


def interrupted(cause: Cause) -> InterruptedRequest:
    """Return the error for an interrupt before a request was sent again."""
    return InterruptedRequest(REPEATS[cause].interrupted, hint="nothing was run", nothing_ran=True)
