"""What is answered at the service's own address about the process itself: leases, the stop request, metrics.

A lease is an answer that does not end. Whoever holds one needs no thread and no clock for it, and when its
process ends, however it ends, the operating system closes the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from pipemagic.service.http import Refused, Response, json
from pipemagic.service.layout import LEASE_PATH, METRICS_PATH, STOP_PATH
from pipemagic.service.web.exposition import CONTENT_TYPE
from pipemagic.service.web.gauges import Gauges
from pipemagic.service.web.receiving import Receive, read_request
from pipemagic.service.web.sending import ABORT, App, Scope, Send, send_response

if TYPE_CHECKING:
    from pipemagic.service.core import Service
    from pipemagic.service.sqld.service import SqldService

LINGER = 20.0
"""Seconds without a lease after which a service that nobody started by hand ends."""


class Leases:
    """Counts the open leases; with ``linger`` set, calls ``on_idle`` that many seconds after the last one.

    The clock starts with `start`, so that a service whose starter died ends as well.
    """

    def __init__(self, linger: float | None, on_idle: Callable[[], None]) -> None:
        self.open = 0
        self._linger = linger
        self._on_idle = on_idle
        self._timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()

    def start(self) -> None:
        """Begin to count."""
        self._wait_for_one()

    def end(self) -> None:
        """End all leases: the service is going down."""
        self._ended.set()

    @property
    def ended(self) -> bool:
        """Whether there are no leases any more."""
        return self._ended.is_set()

    async def hold(self, gone: Callable[[], Awaitable[None]]) -> None:
        """Hold one lease until its client is ``gone`` or the service goes down."""
        self.open += 1
        if self._timer is not None:
            self._timer.cancel()
        tasks = [asyncio.ensure_future(gone()), asyncio.ensure_future(self._ended.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self.open -= 1
            if not self.open:
                self._wait_for_one()

    def _wait_for_one(self) -> None:
        if self._linger is not None and not self._ended.is_set():
            self._timer = asyncio.get_running_loop().call_later(self._linger, self._on_idle)


class Control:
    """An ASGI application: the addresses of this module, and for all else the shell behind it.

    They are for the account that the service was made with, whose platform token lies in the data folder.
    """

    def __init__(
        self, shell: App, service: Service | SqldService, leases: Leases,
        on_stop: Callable[[], None], about: dict[str, Any], gauges: Gauges,
    ) -> None:  # fmt: skip
        self._shell = shell
        self._service = service
        self._leases = leases
        self._on_stop = on_stop
        self._about = about
        self._gauges = gauges

    def at_once(self, scope: Scope, body: bytes) -> Response | None:
        """Leave short requests to the shell: none of them is for an address of this module."""
        return self._shell.at_once(scope, body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope["path"]
        request = read_request(scope) if path == METRICS_PATH or path.startswith("/pipemagic/") else None
        if request is None or request.host not in self._service.own_hosts:
            await self._shell(scope, receive, send)
            return
        try:
            if (request.method, request.path) not in _ENDPOINTS:
                raise Refused(404, "not found")
            await asyncio.to_thread(self._check, request.headers.get("authorization"))
            await _ENDPOINTS[request.method, request.path](self, scope, receive, send)
        except Refused as refused:
            await send_response(send, refused.response())

    def _check(self, authorization: str | None) -> None:
        account = self._service.tokens.check_platform(authorization)
        if not account.operator:
            raise Refused(403, "this is for the operator of the service", "FORBIDDEN")

    async def _metrics(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        page = await asyncio.to_thread(self._gauges.page)
        await send_response(send, Response(200, [page], CONTENT_TYPE))

    async def _lease(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._leases.ended:
            scope["extensions"][ABORT]()  # as it would be a moment later: who asks then starts a new service
            return

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        line = msgspec.json.encode(self._about) + b"\n"
        await send({"type": "http.response.body", "body": line, "more_body": True})
        await self._leases.hold(gone)
        await send({"type": "http.response.body", "body": b""})

    async def _stop(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self._on_stop()
        await send_response(send, json({}))


_ENDPOINTS: dict[tuple[str, str], Callable[[Control, Scope, Receive, Send], Awaitable[None]]] = {
    ("GET", LEASE_PATH): Control._lease,
    ("POST", STOP_PATH): Control._stop,
    ("GET", METRICS_PATH): Control._metrics,
}
