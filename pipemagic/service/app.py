"""The ASGI application: what is counted of a request, its route by host name, and errors that become responses."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipemagic.errors import ProtocolError
from pipemagic.service import responses
from pipemagic.service.endpoint import Runtime
from pipemagic.service.executor import UNVERIFIED
from pipemagic.service.hosting import host_of
from pipemagic.service.limits import MB
from pipemagic.service.logs import AccessLog
from pipemagic.service.memory import Reservation
from pipemagic.service.metrics import Metrics
from pipemagic.service.request import Disconnected, ServiceRequest
from pipemagic.service.responses import Refused
from pipemagic.service.service import Service

_log = logging.getLogger(__name__)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
PREFLIGHT_AGE = 7200
"""Seconds for which a browser remembers the response to a preflight request."""
LONGEST_HOST = 300
"""Bytes of a Host header that count: a domain name has at most 253."""
OLD_HTTP_LIMIT = 128 * MB
"""Largest response, in bytes, to a client of HTTP/1.0, which has no chunks: its length must be known first."""


def create_app(
    service: Service, runtime: Runtime, *, metrics: Metrics, cors: Collection[str] = (),
    access_log: AccessLog | None = None, more_routes: Sequence[BaseRoute] = (), base_path: str = "",
) -> ASGIApp:  # fmt: skip
    """Return the application.

    ``cors``: the origins whose pages may read responses, or ``*`` for all. ``base_path``: as in `Settings`.

    Tokens are sent in a header that a page must set itself, never in cookies: a page without a token can read only what
    is public anyway.
    """
    app: ASGIApp = Hosts(service, runtime, more_routes)
    if cors:
        app = CORSMiddleware(
            app, allow_origins=cors, allow_methods=METHODS, allow_headers=("*",), allow_private_network=True,
            max_age=PREFLIGHT_AGE,
        )  # fmt: skip
    return Requests(app, runtime, metrics, access_log, base_path)


class Requests:
    """The outermost layer: registers each request, removes the base path, counts it and writes it to the access log.

    Paths that do not begin with the base path stay as they are: programs of this machine connect without the proxy.
    """

    def __init__(
        self, app: ASGIApp, runtime: Runtime, metrics: Metrics, log: AccessLog | None, base_path: str
    ) -> None:  # fmt: skip
        self._app, self._runtime, self._metrics, self._log = app, runtime, metrics, log
        self._base_path = base_path
        metrics.in_flight.set_function(lambda: runtime.running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; ``scope["root_path"]`` is the removed base path."""
        if self._base_path and f"{scope['path']}/".startswith(f"{self._base_path}/"):
            scope["root_path"], scope["path"] = self._base_path, scope["path"].removeprefix(self._base_path) or "/"
        request = scope["state"]["request"] = ServiceRequest(scope, receive, send)
        start = time.perf_counter()
        try:
            with self._runtime.serve(request):
                await self._app(scope, request.receive_message, request.send_message)
        finally:
            del scope["state"]["request"]  # it refers to uvicorn's object for the request, which refers to the scope
            seconds = time.perf_counter() - start
            self._metrics.record(
                scope["method"], scope["path"], request.status, seconds, request.received, request.sent
            )
            if self._log is not None:
                self._log.write(scope, request.status, request.sent, seconds)


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
    """Routes a request by its Host header: to the service itself, or to one of its databases. Errors become responses.

    Starlette's `Host` matches patterns, and databases may have any name; it reads ``[::1]:8080`` as the host ``[``. Its
    `ExceptionMiddleware` makes an error of the server's of each client that disconnects in the middle of a response.
    """

    def __init__(self, service: Service, runtime: Runtime, more_routes: Sequence[BaseRoute]) -> None:
        self._service, self._runtime = service, runtime
        routes = [*more_routes, *service.routes(runtime)]
        self._own = Router(routes, default=_not_found, redirect_slashes=False)
        self._databases = Router(service.engine.database_routes(runtime), default=_not_found, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request: ServiceRequest = scope["state"]["request"]
        try:
            router = await self._route(request)
            if scope["http_version"] == "1.0":
                with closing(ResponseWithLength(Reservation(self._runtime.memory, UNVERIFIED), send)) as response:
                    await router(scope, receive, response.send)
            else:
                await router(scope, receive, send)
        except Disconnected:
            _log.debug("%s %s: the client disconnected", scope["method"], scope["path"])
        except Exception as error:
            if request.responds and not isinstance(error, Refused | ProtocolError):
                raise  # uvicorn closes the connection: the end of the response is missing
            refused = _refusal(error, scope)
            _drop_tracebacks(error)
            await refused.response()(scope, receive, send)

    async def _route(self, request: ServiceRequest) -> Router:
        """Return the router of the request's host; set its database."""
        headers = request.scope["headers"]
        value = next((value for name, value in headers if name == b"host"), b"")
        host = host_of(value[:LONGEST_HOST].decode("latin-1"))
        if host in self._service.own_hosts:
            return self._own
        request.record = self._service.recall_host(host)
        if request.record is None:
            request.record = await self._runtime.executor.call(UNVERIFIED, self._service.find_host, host)
        return self._databases


def _refusal(error: Exception, scope: Scope) -> Refused:
    """Return the HTTP error for an error; log one that is unexpected."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, ProtocolError):
        return Refused(400, f"Cannot deserialize client message from JSON: {error.message}", plain=True)
    _log.exception("%s %s failed", scope["method"], scope["path"])
    internal = Refused(500, "internal server error; see service.log in the data folder of the service")
    return responses.storage_refusal(error) or internal


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await responses.empty(404)(scope, receive, send)
