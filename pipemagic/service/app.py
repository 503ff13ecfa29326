"""The ASGI application: middleware, errors, and the routes of each host name."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from http import HTTPStatus

import msgspec
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipemagic.errors import ProtocolError
from pipemagic.service import responses
from pipemagic.service.endpoint import Disconnected, Runtime
from pipemagic.service.executor import UNVERIFIED
from pipemagic.service.hosting import host_of
from pipemagic.service.limits import MB, Reservation
from pipemagic.service.logs import AccessLog
from pipemagic.service.metrics import Metrics
from pipemagic.service.responses import Refused
from pipemagic.service.service import Service

_log = logging.getLogger(__name__)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
PREFLIGHT_AGE = 7200
"""Seconds for which a browser remembers the response to a preflight request."""
LONGEST_HOST = 300
"""Bytes of a Host header that count: a domain name has at most 253."""
CLIENT_CLOSED = 499
"""The status, in metrics and logs, of a request whose client disconnected before the response. nginx uses the same."""
OLD_HTTP_LIMIT = 128 * MB
"""Largest response, in bytes, to a client of HTTP/1.0, which has no chunks: its length must be known first."""


def create_app(
    service: Service, runtime: Runtime, *, metrics: Metrics, cors: Collection[str] = (),
    access_log: AccessLog | None = None, more_routes: Sequence[BaseRoute] = (), base_path: str = "",
    activity: Activity | None = None,
) -> ASGIApp:  # fmt: skip
    """Return the application.

    ``cors``: the origins whose pages may read responses, or ``*`` for all. ``base_path``: as in `Settings`.
    ``activity`` records the running requests.

    Tokens are sent in a header that a page must set itself, never in cookies: a page without a token can read only what
    is public anyway.
    """
    app: ASGIApp = Errors(Hosts(service, runtime, more_routes), runtime)
    if cors:
        app = CORSMiddleware(
            app, allow_origins=cors, allow_methods=METHODS, allow_headers=("*",), allow_private_network=True,
            max_age=PREFLIGHT_AGE,
        )  # fmt: skip
    app = RequestLog(app, activity or Activity(), metrics, access_log)
    return BasePath(app, base_path) if base_path else app


class BasePath:
    """Middleware that removes the path below which a proxy offers the service.

    Paths that do not begin with it stay as they are: programs of this machine connect without the proxy.
    """

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app, self._path = app, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; ``scope["root_path"]`` is the removed path."""
        if f"{scope['path']}/".startswith(f"{self._path}/"):
            scope["root_path"], scope["path"] = self._path, scope["path"].removeprefix(self._path) or "/"
        await self._app(scope, receive, send)


class RequestLog:
    """Middleware that counts every request and writes it to the access log."""

    def __init__(self, app: ASGIApp, activity: Activity, metrics: Metrics, log: AccessLog | None = None) -> None:
        self._app, self._activity, self._metrics, self._log = app, activity, metrics, log
        metrics.in_flight.set_function(lambda: activity.running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        traffic = scope["state"]["traffic"] = Traffic(receive, send)
        start = time.perf_counter()
        self._activity.begin(traffic)
        try:
            await self._app(scope, traffic.receive, traffic.send)
        finally:
            del scope["state"]["traffic"]  # it refers to uvicorn's object for the request, which refers to the scope
            self._activity.end(traffic)
            seconds = time.perf_counter() - start
            self._metrics.record(
                scope["method"], scope["path"], traffic.status, seconds, traffic.received, traffic.sent
            )
            if self._log is not None:
                self._log.write(scope, traffic.status, traffic.sent, seconds)


class Traffic(msgspec.Struct, eq=False):
    """The messages of one request: the bytes of their bodies, and the status of the response.

    ``is_use``: whether it counts as use of the service (see `count_as_use`).
    """

    receive_message: Receive
    send_message: Send
    status: int = CLIENT_CLOSED
    received: int = 0
    sent: int = 0
    is_use: bool = False

    @property
    def responds(self) -> bool:
        """Whether the response has begun."""
        return self.status != CLIENT_CLOSED

    async def receive(self) -> Message:
        """Receive a message."""
        message = await self.receive_message()
        self.received += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        """Send a message."""
        await self.send_message(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.sent += len(message.get("body", b""))


class Activity:
    """The running requests, and the time since the last use of the service. Use it in the event loop.

    ``clock`` returns seconds that only increase.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._last_use = clock, clock()
        self._running: set[Traffic] = set()

    @property
    def running(self) -> int:
        """The number of running requests."""
        return len(self._running)

    def begin(self, request: Traffic) -> None:
        """Add a running request."""
        self._running.add(request)

    def end(self, request: Traffic) -> None:
        """Remove a request."""
        self._running.remove(request)
        if request.is_use:
            self._last_use = self._clock()

    @property
    def idle_time(self) -> float:
        """Seconds since the last request that counts as use ended; 0 while one runs."""
        if any(request.is_use for request in self._running):
            return 0.0
        return self._clock() - self._last_use


class Errors:
    """Middleware that turns errors into responses."""

    def __init__(self, app: ASGIApp, runtime: Runtime) -> None:
        self._app, self._runtime = app, runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            if scope["http_version"] == "1.0":
                with closing(ResponseWithLength(self._runtime.memory.reserve(UNVERIFIED), send)) as response:
                    await self._app(scope, receive, response.send)
            else:
                await self._app(scope, receive, send)
        except Disconnected:
            _log.debug("%s %s: the client disconnected", scope["method"], scope["path"])
        except Exception as error:
            if isinstance(error, Refused):
                refused = error
            elif isinstance(error, ProtocolError):
                line = f"Cannot deserialize client message from JSON: {error.message}"
                refused = Refused(400, line, plain=True)
            else:
                if scope["state"]["traffic"].responds:  # uvicorn closes the connection: its end is missing
                    raise
                _log.exception("%s %s failed", scope["method"], scope["path"])
                internal = Refused(500, "internal error of the service; see service.log in its data folder")
                refused = responses.storage_refusal(error) or internal
            _drop_tracebacks(error)
            await refused.response()(scope, receive, send)


def _drop_tracebacks(error: BaseException | None) -> None:
    """Drop those of an error and of its causes: their frames refer to the error, which is a reference cycle."""
    while error is not None:
        error.__traceback__, error = None, error.__context__


class ResponseWithLength:
    """Collects a streamed response for a client of HTTP/1.0, which cannot read chunks, and sends it with its length."""

    def __init__(self, reservation: Reservation, send: Send) -> None:
        self._reservation, self._send = reservation, send
        self._headers: list[tuple[bytes, bytes]] | None = None
        self._pieces: list[bytes] = []

    async def send(self, message: Message) -> None:
        """Send a message of a response that has its length; collect those of any other."""
        if message["type"] == "http.response.start" and "content-length" not in Headers(raw=message["headers"]):
            self._headers = message["headers"]
        elif self._headers is None:
            await self._send(message)
        else:
            self._collect(message.get("body", b""))
            if not message.get("more_body", False):
                response = responses.in_pieces(self._pieces, {})
                response.raw_headers += self._headers
                await response.send_in_parts(self._send, lambda: False)

    def _collect(self, piece: bytes) -> None:
        size = self._reservation.size + len(piece)
        if size > OLD_HTTP_LIMIT or not self._reservation.resize(size):
            raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "the response is too large for HTTP/1.0; use HTTP/1.1")
        self._pieces.append(piece)

    def close(self) -> None:
        """Release the memory."""
        self._reservation.release()


class Hosts:
    """Routes a request by its Host header: to the service itself, or to one of its databases."""

    def __init__(self, service: Service, runtime: Runtime, more_routes: Sequence[BaseRoute]) -> None:
        self._service, self._runtime = service, runtime
        routes = [*more_routes, *service.routes(runtime)]
        self._own = Router(routes, default=_not_found, redirect_slashes=False)
        self._databases = Router(service.engine.database_routes(runtime), default=_not_found, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; ``scope["state"]["record"]`` is its database, None at the service's own address."""
        host = next(
            (host_of(value[:LONGEST_HOST].decode("latin-1")) for name, value in scope["headers"] if name == b"host"), ""
        )
        record, router = None, self._own
        if host not in self._service.own_hosts:
            record, router = self._service.recall_host(host), self._databases
            if record is None:
                record = await self._runtime.executor.call(UNVERIFIED, self._service.find_host, host)
        scope["state"]["record"] = record
        await router(scope, receive, send)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await responses.empty(404)(scope, receive, send)
