"""The ASGI shell: takes a request, lets the service work on it in a thread, sends the answer.

It knows nothing of SQL. It adds what only a network needs: an eye on clients that hang up, a share of the threads
for everybody, and requests that wait for the writer's turn without holding one. Short calls need none of that: they
are made in the event loop itself (`haste`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pipemagic.service.haste import BRIEF, ELSEWHERE, Haste
from pipemagic.service.http import Body, Cancel, Refused, Request, Response
from pipemagic.service.turns import Turn
from pipemagic.service.web import sending
from pipemagic.service.web.receiving import BODY_LIMIT, BODY_TIMEOUT, Intake, Receive, Receiver, read_request
from pipemagic.service.web.sending import HungUp, Scope, Send
from pipemagic.service.web.shares import Shares
from pipemagic.service.web.workers import Job, Workers

Steps = Generator[Turn, None, Response]
Brief = Callable[[str, int], bool]

_LOG = logging.getLogger(__name__)

SEND_TIMEOUT = 30.0
THREADS = 64
SHARE = 3 / 4  # of the threads, for the requests that come with one token

_WATCH_AFTER = 0.01  # most calls are over by then and need no task that watches their client
_CLOSE = ("connection", "close")


class _Work(Protocol):
    """What is done in parts, with a Turn wherever it waits: the steps of a call, the body of its answer."""

    def close(self) -> None: ...


T = TypeVar("T")
W = TypeVar("W", bound=_Work)


class Core(Protocol):
    """What the shell needs of the service."""

    def steps(self, request: Request, cancel: Cancel) -> Steps:
        """Answer a request; yields a Turn while it waits for the writer's turn."""


class Shell:
    """An ASGI application around a service.

    ``body_limit`` is in bytes; ``body_timeout`` in seconds, for the whole body of a request; ``send_timeout`` in
    seconds, for a client that takes nothing of its answer. ``file_paths`` and ``intake`` are a `Receiver`'s.
    ``brief`` tells by path and size of the body which requests may be begun in the event loop; none by default.
    """

    def __init__(
        self, service: Core, *,
        threads: int = THREADS, body_limit: int = BODY_LIMIT, body_timeout: float = BODY_TIMEOUT,
        send_timeout: float = SEND_TIMEOUT,
        file_paths: frozenset[str] = frozenset(), intake: Intake = lambda _: None,
        brief: Brief = lambda *_: False,
    ) -> None:  # fmt: skip
        self._service, self._brief = service, brief
        self._workers = Workers(threads, "pipemagic")
        self._shares = Shares(self._workers, max(1, int(threads * SHARE)))
        self._receiver = Receiver(
            self._workers, limit=body_limit, timeout=body_timeout, file_paths=file_paths, intake=intake
        )
        self._send_timeout = send_timeout
        self._exchanges: set[_Exchange] = set()
        self._stopping = False

    def at_once(self, scope: Scope, body: bytes) -> Response | None:
        """Answer a request that is here as a whole, if it is a short one; None if it takes longer.

        Then the call is under way, or not, and `__call__` with the same scope goes on with it.
        """
        if self._stopping or not self._brief(scope["path"], len(body)):
            return None
        request, cancel = read_request(scope, body), Cancel(Haste(BRIEF))
        try:
            steps = self._service.steps(request, cancel)
            outcome = _advance(steps)
        except Exception:  # noqa: BLE001 - what uvicorn does with those of `__call__`
            _LOG.exception("%s %s failed", request.method, request.path)
            return Refused(500, "internal error of the service").response()
        if isinstance(outcome, Response) and sending.is_small(outcome):
            return outcome
        cancel.haste.on = False  # it goes on in threads
        scope[_BEGUN] = _Begun(request, cancel, steps, outcome)
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        begun = scope.get(_BEGUN)
        if begun is not None:
            await receive()  # what it was begun with
            await self._serve(scope, begun, receive, send)
            return
        async with AsyncExitStack() as stack:
            try:
                request = await self._receiver.read(scope, receive, stack)
            except HungUp:
                return
            except Refused as refused:
                await sending.send_response(send, refused.response(), _CLOSE)
                return
            cancel = Cancel()
            begun = _Begun(request, cancel, self._service.steps(request, cancel), ELSEWHERE)
            await self._serve(scope, begun, receive, send)

    async def _serve(self, scope: Scope, begun: _Begun, receive: Receive, send: Send) -> None:
        who = begun.request.headers.get("authorization", "")
        exchange = _Exchange(self._workers, self._shares, who, begun.cancel, receive)
        self._exchanges.add(exchange)
        try:
            if self._stopping:
                exchange.hang_up()
            response = await exchange.answer(begun)
            await exchange.send(sending.watched(send, scope, self._send_timeout), response)
        except HungUp:
            _LOG.debug("%s %s: the client hung up", scope["method"], scope["path"])
        finally:
            exchange.end()
            self._exchanges.discard(exchange)

    def stop(self) -> None:
        """End the calls that are running, as if their clients had hung up; called in the event loop."""
        self._stopping = True
        self._receiver.stop()
        for exchange in list(self._exchanges):
            exchange.hang_up()

    def close(self) -> None:
        """Wait for the threads to end."""
        self._workers.close()


class Parked(Generic[T]):
    """A call that waits without a thread; it goes on once, whoever says so first, from any thread."""

    def __init__(self, workers: Workers, job: Job[T]) -> None:
        self.job, self._workers = job, workers
        self._waiting = [job]

    def go_on(self) -> None:
        """Have a thread make the call now, before all others."""
        if self.withdraw():
            self._workers.run_ahead(self.job)

    def withdraw(self) -> bool:
        """Take the call back; False if it went on already."""
        try:
            self._waiting.pop()  # in one step: two threads cannot both get it
        except IndexError:
            return False
        return True


class _Begun(NamedTuple):
    """A call that is under way, and what it gave last."""

    request: Request
    cancel: Cancel
    steps: Steps
    outcome: Turn | Response


_BEGUN = "pipemagic.begun"  # in the scope of its request


class _Exchange:
    """One request of ``who`` while the service works on it."""

    def __init__(self, workers: Workers, shares: Shares, who: str, cancel: Cancel, receive: Receive) -> None:
        self.cancel = cancel
        self._loop = asyncio.get_running_loop()
        self._workers, self._shares, self._who = workers, shares, who
        self._receive = receive
        self._gone = False
        self._parked: Parked[Any] | None = None
        self._paused: asyncio.Future[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._alarm = self._loop.call_later(_WATCH_AFTER, self._watch)

    async def answer(self, begun: _Begun) -> Response:
        """Run the call to its end, a thread for each part, none while it waits for a turn."""
        outcome, steps = begun.outcome, begun.steps
        while not isinstance(outcome, Response):
            if outcome is ELSEWHERE:
                outcome = await self._shares.run(self._who, _advance, steps)
            else:
                outcome = await self._after(outcome, _advance, steps)
        return outcome

    async def send(self, send: Send, response: Response) -> None:
        """Send an answer, one that is made on the way as far as the client takes it."""
        try:
            if response.delay:
                await self._pause(response.delay)
            if isinstance(response.chunks, Body):
                await sending.send_stream(send, response, self._pull)
            else:
                await sending.send_response(send, response)
        finally:
            if isinstance(response.chunks, Body):
                await self._workers.run(response.chunks.close)
            if response.sent is not None:
                response.sent()

    async def _pull(self, body: Body) -> bytes | None:
        """Get the next piece; None at its end. When the service stops, the body itself ends with a word about it."""
        if self._gone:
            raise HungUp
        outcome = await self._shares.run(self._who, _next, body)
        while isinstance(outcome, Turn):
            outcome = await self._after(outcome, _next, body)
        return outcome

    async def _pause(self, seconds: float) -> None:
        """Let time pass before the answer is sent, as if the way to the client were longer; no thread waits."""
        paused = self._paused = self._loop.create_future()
        if not self.cancel.is_set:
            await asyncio.wait([paused], timeout=seconds)

    def hang_up(self) -> None:
        """Note that nobody waits for the answer any more."""
        self.cancel.set()
        if self._parked is not None:
            self._parked.go_on()
        if self._paused is not None and not self._paused.done():
            self._paused.set_result(None)

    def end(self) -> None:
        """Stop watching the client."""
        self._alarm.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    async def _after(self, turn: Turn, call: Callable[[W], T], work: W) -> T:
        """Go on when it is the request's turn: a writer at once, since all who want to write wait for it.

        So the thread that gave the turn up hands it on by itself; by way of the loop it took ten times as long.
        """
        job = Job(call, (work,)) if turn.exclusive else self._shares.job(self._who, call, work)
        parked = Parked(self._workers, job)
        self._parked = parked
        turn.on_ready(parked.go_on)
        if self.cancel.is_set:
            parked.go_on()
        try:
            return await parked.job.future
        except asyncio.CancelledError:
            if parked.withdraw():
                work.close()  # the server is going down: leave the queue
            raise

    def _watch(self) -> None:
        self._watcher = self._loop.create_task(self._until_gone())

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self.hang_up()


def _advance(steps: Steps) -> Turn | Response:
    try:
        return next(steps)
    except StopIteration as end:
        response: Response = end.value
        return response


def _next(body: Body) -> bytes | Turn | None:
    return next(body, None)
