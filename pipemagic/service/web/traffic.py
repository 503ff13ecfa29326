"""What goes through a service, counted for `/metrics` and written to the access log. All in the event loop's thread."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from pipemagic.service.http import Response
from pipemagic.service.web.access_log import AccessLog
from pipemagic.service.web.receiving import Receive
from pipemagic.service.web.sending import App, Message, Scope, Send, size_of

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds, in seconds, of the histogram of durations."""

HUNG_UP = 499  # nobody heard the answer; the number that nginx has for it

_ROUTES = frozenset({
    "/v2/pipeline", "/v3/pipeline", "/v3/cursor", "/v1/execute", "/v1/batch", "/v2", "/v3", "/version", "/health",
    "/metrics", "/openapi.json",
})  # fmt: skip
_STARTED = "pipemagic.started"  # in the scope of a request that was begun at once
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Key(NamedTuple):
    """The labels of a request; of few values each, however many databases and odd clients there are."""

    method: str
    route: str
    status: int


class Durations:
    """A histogram: ``counts`` has one more bucket than BUCKETS, for what took longer; ``total`` is in seconds."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class Traffic:
    """Counts of requests since the start, the histograms by route."""

    def __init__(self) -> None:
        self.requests: Counter[Key] = Counter()
        self.durations: dict[str, Durations] = {}
        self.received = 0
        self.sent = 0
        self.in_flight = 0

    def add(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request that is over."""
        route = route_of(path)
        self.requests[Key(method if method in _METHODS else "other", route, status)] += 1
        durations = self.durations.get(route)
        if durations is None:
            durations = self.durations[route] = Durations()
        durations.add(seconds)


def route_of(path: str) -> str:
    """Give the route that a path belongs to: itself if it is one of few, else that of its family."""
    if path in _ROUTES:
        return path
    if path.startswith("/v1/"):
        return "/v1/*"
    return "/pipemagic/*" if path.startswith("/pipemagic/") else "other"


class Watched:
    """An ASGI application around another one that takes note of every request."""

    def __init__(
        self, app: App, traffic: Traffic, log: AccessLog | None = None,
    ) -> None:  # fmt: skip
        self._app, self._traffic, self._log = app, traffic, log

    def at_once(self, scope: Scope, body: bytes) -> Response | None:
        """Answer a short request, if the application does."""
        started = scope[_STARTED] = time.perf_counter()
        response = self._app.at_once(scope, body)
        if response is not None:
            self._traffic.received += len(body)
            self._note(scope, response.status, size_of(response), time.perf_counter() - started)
        return response

    def _note(self, scope: Scope, status: int, sent: int, seconds: float) -> None:
        """Take note of a request that is over."""
        self._traffic.sent += sent
        self._traffic.add(scope["method"], scope["path"], status, seconds)
        if self._log is not None:
            self._log.write(scope, status, sent, seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        traffic, status, sent = self._traffic, HUNG_UP, 0

        async def receive_counted() -> Message:
            message = await receive()
            traffic.received += len(message.get("body", b""))
            return message

        async def send_counted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                sent += len(message.get("body", b""))
            await send(message)

        traffic.in_flight += 1
        started = scope.get(_STARTED) or time.perf_counter()
        try:
            await self._app(scope, receive_counted, send_counted)
        finally:
            traffic.in_flight -= 1
            self._note(scope, status, sent, time.perf_counter() - started)
