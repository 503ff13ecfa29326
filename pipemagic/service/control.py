"""The operator's routes, about the process itself: leases, the stop request, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from pipemagic.service.auth.tokens import Tokens
from pipemagic.service.endpoint import SMALL_BODY, Admission, CancelToken, Endpoint, Runtime, disconnected
from pipemagic.service.executor import UNVERIFIED, Steps
from pipemagic.service.http_protocol import ABORT
from pipemagic.service.layout import LEASE_PATH, METRICS_PATH, STOP_PATH
from pipemagic.service.leases import Leases
from pipemagic.service.metrics import CONTENT_TYPE, Metrics
from pipemagic.service.responses import JSON, Refused, ServiceResponse, json


class OperatorEndpoint(Endpoint):
    """An endpoint for the operator's account, whose platform token is in the data folder."""

    def __init__(self, runtime: Runtime, tokens: Tokens, method: str, respond: Callable[[], ServiceResponse]) -> None:
        super().__init__(runtime, body_limit=SMALL_BODY)
        self._tokens, self._method, self._respond_now = tokens, method, respond

    async def admit(self, request: Request) -> Admission:
        """Check the token."""
        if request.method != self._method:
            raise Refused(404, "not found")
        await self._runtime.executor.call(UNVERIFIED, self._check, request.headers.get("authorization"))
        return Admission(UNVERIFIED)

    def _check(self, authorization: str | None) -> None:
        if not self._tokens.check_platform(authorization).operator:
            raise Refused(403, "this is for the operator of the service", "FORBIDDEN")

    def handle(self, request: Request, admission: Admission, body: Any, cancel: CancelToken) -> Steps:  # noqa: ARG002
        """Return the response."""
        return self._respond_now()
        yield


class LeaseEndpoint(OperatorEndpoint):
    """Holds a lease until its client hangs up or the service ends."""

    def __init__(self, runtime: Runtime, tokens: Tokens, leases: Leases, about: dict[str, Any]) -> None:
        super().__init__(runtime, tokens, "GET", ServiceResponse)
        self._leases, self._about = leases, about

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a line about the service, then nothing until the lease ends."""
        await self.admit(Request(scope))
        if self._leases.ended:
            scope["extensions"][ABORT]()  # as a moment later: the client then starts a new service
            return
        headers = [(b"content-type", JSON.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        line = msgspec.json.encode(self._about) + b"\n"
        await send({"type": "http.response.body", "body": line, "more_body": True})
        await self._leases.hold(disconnected(receive))
        await send({"type": "http.response.body", "body": b""})


def control_routes(
    runtime: Runtime, tokens: Tokens, leases: Leases, metrics: Metrics, on_stop: Callable[[], None],
    about: dict[str, Any],
) -> list[BaseRoute]:  # fmt: skip
    """Return the routes. ``on_stop`` is called in a worker thread."""

    def stop() -> ServiceResponse:
        on_stop()
        return json({})

    def page() -> ServiceResponse:
        return ServiceResponse(metrics.page(), 200, {"content-type": CONTENT_TYPE})

    return [
        Route(LEASE_PATH, LeaseEndpoint(runtime, tokens, leases, about)),
        Route(STOP_PATH, OperatorEndpoint(runtime, tokens, "POST", stop)),
        Route(METRICS_PATH, OperatorEndpoint(runtime, tokens, "GET", page)),
        Route("/pipemagic/{rest:path}", _NotFound()),
    ]


class _NotFound:
    """A path without an endpoint, whatever the method."""

    async def __call__(self, *_: object) -> None:
        """Refuse the request."""
        raise Refused(404, "not found")
