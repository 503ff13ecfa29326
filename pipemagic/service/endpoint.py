"""ASGI endpoints that run their handlers in the executor.

An endpoint checks the token before it reads more than a small body, reads the body within its limits, runs a handler in
a worker, and sends the response. Meanwhile it watches for a client that disconnects.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pipemagic.service.executor import UNVERIFIED, Executor, Job, Steps, Tenant
from pipemagic.service.http_server import BODY_RECEIVED
from pipemagic.service.limits import Limits
from pipemagic.service.memory import MemoryBudget, Reservation
from pipemagic.service.request import Disconnected, ServiceRequest
from pipemagic.service.responses import PART, Refused, ServiceResponse

BODY_TIMEOUT = 30.0
SLOWEST = 64 * 1024
"""Bytes a second: the time for a body grows by one second for each 64 KB received."""
SMALL_BODY = 64 * 1024
"""The largest body, in bytes, that is read without a token and without a reservation of memory."""
COPIES = 3
"""The memory that a body needs with its values, in its sizes, as most do; it is known when all of it was received."""
BUDGET_TIMEOUT, BUDGET_INTERVAL = 10.0, 0.05
"""Seconds that a request waits for memory for its body, and seconds between two attempts."""

CLOSE = {"connection": "close"}
"""The header of a response after which the connection cannot be used: the rest of a body is not read."""

_WATCH_AFTER = 0.01
"""Seconds after which a disconnect of the client is watched for: most requests have ended by then."""


class Runtime:
    """State that all endpoints share: the worker threads, the memory for requests, the running requests.

    ``body_timeout`` is in seconds, for the whole body of a request; a large one that arrives steadily has longer.
    ``clock`` returns seconds that only increase.
    """

    def __init__(
        self, limits: Limits | None = None, *,
        body_timeout: float = BODY_TIMEOUT, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.limits = limits or Limits()
        self.executor = Executor()
        self.memory = MemoryBudget(self.limits.memory // 2)
        self._complete: Counter[Tenant] = Counter()
        """The bodies, by database, that were received and need more memory than was reserved."""
        self.stopping = False
        self._clock, self._last_use = clock, clock()
        self._running: set[ServiceRequest] = set()
        self._unwatched: set[ServiceRequest] = set()
        """Requests that have just begun. Most end before it is worth watching for a disconnect of the client."""
        self._timer: asyncio.TimerHandle | None = None
        self._body_timeout = body_timeout
        self._reading: set[asyncio.Timeout] = set()

    def stop(self) -> None:
        """Cancel the running requests; call it in the event loop."""
        self.stopping = True
        for limit in self._reading:
            if not limit.expired():  # its request is being refused already
                limit.reschedule(0.0)
        for request in list(self._running):
            request.cancel()

    @property
    def running(self) -> int:
        """The number of running requests."""
        return len(self._running)

    @property
    def idle_time(self) -> float:
        """Seconds since the last request that counts as use ended; 0 while one runs."""
        if any(request.is_use for request in self._running):
            return 0.0
        return self._clock() - self._last_use

    @contextmanager
    def serve(self, request: ServiceRequest) -> Iterator[None]:
        """Count a request as running in a block."""
        self._running.add(request)
        if self.stopping:
            request.cancel()
        try:
            yield
        finally:
            self._running.discard(request)
            self._unwatched.discard(request)
            if request.watch is not None:
                request.watch.cancel()
                request.watch = None  # the task refers to the request: a reference cycle
            if request.is_use:
                self._last_use = self._clock()

    def watch(self, request: ServiceRequest) -> None:
        """Cancel a request when its client disconnects. Call it after the body was read."""
        self._unwatched.add(request)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER, self._watch)

    def _watch(self) -> None:
        """Start a task for each of these requests that still runs; most have ended."""
        self._timer = None
        for request in self._unwatched:
            request.watch = asyncio.create_task(_cancel_when_disconnected(request))
        self._unwatched.clear()

    @asynccontextmanager
    async def body_time(self) -> AsyncIterator[asyncio.Timeout]:
        """Raise `Refused`: 408 if the body takes too long, 503 for every body when the service stops."""
        try:
            async with asyncio.timeout(0.0 if self.stopping else self._body_timeout) as limit:
                self._reading.add(limit)
                try:
                    yield limit
                finally:
                    self._reading.discard(limit)
        except TimeoutError:
            if self.stopping:
                raise Refused(503, "the service is stopping", headers=CLOSE) from None
            line = f"the request body did not arrive within {self._body_timeout:g} s"
            raise Refused(408, line, "REQUEST_TIMEOUT", headers=CLOSE) from None

    async def reserve(self, reservation: Reservation, size: int, received: int, *, complete: bool = False) -> None:
        """Reserve ``size`` bytes for a body of which ``received`` bytes are there, perhaps all (``complete``).

        Raise `Refused`: 413 if it could never have as many, 503 if they do not become free within `BUDGET_TIMEOUT`.
        While it waits it has only what it uses, and no more bodies of its database begin while a complete one waits:
        otherwise they would wait for each other.
        """
        if size > self.memory.largest:
            raise Refused(
                413, f"the request body needs about {size:,} bytes of memory to decode, more than the "
                f"{self.memory.largest:,} that a database can have: send fewer requests, steps or values at a time",
            )  # fmt: skip
        ends = time.monotonic() + BUDGET_TIMEOUT
        self._complete[reservation.tenant] += complete
        try:
            while (self._complete[reservation.tenant] and not complete) or not reservation.resize(size):
                reservation.resize(min(reservation.size, received))
                if self.stopping:
                    raise Refused(503, "the service is stopping", headers=CLOSE)
                if time.monotonic() >= ends:
                    raise Refused(503, "too many large requests at a time; try again")
                await asyncio.sleep(BUDGET_INTERVAL)
        finally:
            self._complete[reservation.tenant] -= complete
            if not self._complete[reservation.tenant]:
                del self._complete[reservation.tenant]


Handler = Callable[[ServiceRequest, Any], Steps[Response | bytes]]
"""Serves a request with its body, in a worker: returns the response.

For a streamed response, it yields the `StreamedResponse` and the pieces of its body, and returns the last piece.
"""


class Endpoint:
    """An ASGI endpoint, which runs a ``handler``. ``body_limit`` is in bytes.

    Subclasses check whether a request is allowed (`admit`).
    """

    body_in_memory = True
    """True if a body is read as a whole before it is handled."""

    def __init__(self, runtime: Runtime, handler: Handler, *, body_limit: int) -> None:
        self.handler, self._runtime, self._body_limit = handler, runtime, body_limit

    async def admit(self, request: ServiceRequest) -> Tenant:
        """Return the tenant of a request, or raise `Refused`."""
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request: ServiceRequest = scope["state"]["request"]
        request.tenant = await self.admit(request)
        if scope["state"].get(BODY_RECEIVED) and self.body_in_memory:
            body = (await receive()).get("body", b"")
            if len(body) > self._body_limit:
                raise too_large(self._body_limit)
            await self._respond(request, body, receive, send)
            return
        async with AsyncExitStack() as stack:
            memory = Reservation(self._runtime.memory, request.tenant)
            stack.callback(memory.release)
            body = await self.read(request, receive, memory, stack)
            await self._respond(request, body, receive, send, memory)

    def memory_for(self, body: bytearray) -> int:
        """Estimate the bytes of memory that a large body needs after decoding."""
        return len(body)

    async def read(
        self, request: ServiceRequest, receive: Receive,
        memory: Reservation, stack: AsyncExitStack,  # noqa: ARG002 - for endpoints that keep more than memory
    ) -> Any:  # fmt: skip
        """Read the body; reserve memory for a large body and its decoded values. ``stack`` is closed with the request.

        It takes what it probably needs before more is read, but only when some has arrived: what is declared costs its
        sender nothing.
        """
        declared = request.headers.get("content-length", "0")
        length = int(declared) if declared.isdigit() else 0
        if length > self._body_limit:
            raise too_large(self._body_limit)
        runtime, expected = self._runtime, SMALL_BODY
        body = bytearray()  # joining parts of 60 MB would block the event loop for 0.1 s
        async with runtime.body_time() as timeout:
            ends = timeout.when()
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                body += message.get("body", b"")
                size = len(body)
                if size > self._body_limit:
                    raise too_large(self._body_limit)
                if not message.get("more_body", False):
                    break
                if size > expected:
                    expected = max(length, 2 * size)
                    probable = max(expected, min(COPIES * expected, runtime.memory.largest))
                    await runtime.reserve(memory, probable, size)
                if ends is not None and not runtime.stopping:
                    timeout.reschedule(ends + size / SLOWEST)
        if size > SMALL_BODY:
            needed = await runtime.executor.call(request.tenant, self.memory_for, body)
            await runtime.reserve(memory, needed, size, complete=True)
        return body

    async def _respond(
        self, request: ServiceRequest, body: Any, receive: Receive, send: Send, memory: Reservation | None = None
    ) -> None:
        runtime = self._runtime
        runtime.watch(request)
        job = runtime.executor.start(request.tenant, self.handler(request, body))
        response = None
        try:
            response = await job.future
            if not job.done:
                response.body_iterator = self._pieces(job, request)
            if response.delay:
                await _delay(response.delay, request)
            if isinstance(response, ServiceResponse) and (response.pieces or len(response.body) > PART):
                await response.send_in_parts(send, lambda: request.cancelled and not runtime.stopping)
            else:
                await response(request.scope, receive, send)
        finally:
            if memory is not None and job.left is not None:
                memory.release_after(job.left)
            try:
                if not job.done:
                    request.cancel()
                    if not job.future.cancelled():  # otherwise a worker may be running it, and it ends by itself
                        await runtime.executor.call(UNVERIFIED, job.steps.close)  # not behind its tenant's long jobs
            finally:
                if response is not None and response.on_sent is not None:
                    response.on_sent()

    async def _pieces(self, job: Job, request: ServiceRequest) -> AsyncIterator[bytes]:
        """Produce the next piece of a body when the previous one was sent."""
        while not job.done:
            if request.cancelled and not self._runtime.stopping:
                raise Disconnected
            piece = await self._runtime.executor.proceed(job)
            if piece:
                yield piece


async def _cancel_when_disconnected(request: ServiceRequest) -> None:
    await request.disconnect()
    request.cancel()


async def _delay(seconds: float, request: ServiceRequest) -> None:
    """Wait before a response is sent, as if the network were slower; return early if the client disconnects."""
    cancelled = asyncio.Event()
    request.add_callback(cancelled.set)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await cancelled.wait()


def too_large(limit: int) -> Refused:
    """Return the error for a body larger than ``limit`` bytes."""
    return Refused(413, f"the request body is larger than {limit:,} bytes")
