"""The operator's routes, about the process itself: leases, the stop request, metrics.

A lease is a response that does not end: the service does not stop while a program holds one. It needs no thread and no
clock, and when the program ends, however that happens, the operating system closes the connection. Programs that only
send requests, with a token, hold no lease: the service stops some time after the last use of either kind.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from pipemagic.service.auth.tokens import TokenAuthority
from pipemagic.service.endpoint import Runtime
from pipemagic.service.executor import UNVERIFIED
from pipemagic.service.files import LEASE_PATH, METRICS_PATH, PROOF_PATH, STOP_PATH, proof
from pipemagic.service.hosting import LOOPBACK
from pipemagic.service.http_server import ABORT
from pipemagic.service.metrics import CONTENT_TYPE, Metrics
from pipemagic.service.request import ServiceRequest
from pipemagic.service.responses import JSON, Refused, ServiceResponse, json, text

_NONCE = re.compile(rb"nonce=([0-9a-f]{64})")


class Leases:
    """Counts the open leases."""

    def __init__(self) -> None:
        self.open = 0
        self._ended = asyncio.Event()

    def end(self) -> None:
        """End all leases: the service is stopping."""
        self._ended.set()

    @property
    def ended(self) -> bool:
        """True if the leases have ended and no further ones are held."""
        return self._ended.is_set()

    async def hold(self, request: ServiceRequest) -> None:
        """Hold one lease until its client disconnects or the service stops."""
        self.open += 1
        tasks = [asyncio.ensure_future(request.disconnect()), asyncio.ensure_future(self._ended.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self.open -= 1


class LeaseResponse(Response):
    """A line about the service, then nothing until the lease ends."""

    def __init__(self, leases: Leases, about: Mapping[str, Any]) -> None:
        super().__init__(msgspec.json.encode(about) + b"\n", media_type=JSON)
        self._leases = leases
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the line and hold the lease."""
        if self._leases.ended:
            scope["extensions"][ABORT]()  # as a moment later: the client then starts a new service
            return
        request: ServiceRequest = scope["state"]["request"]
        request.is_use = True
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await self._leases.hold(request)
        await send({"type": "http.response.body", "body": b""})


class OperatorEndpoint:
    """An ASGI endpoint for the operator's account. Its platform token is in the data folder."""

    def __init__(self, runtime: Runtime, tokens: TokenAuthority, method: str, respond: Callable[[], Response]) -> None:
        self._executor, self._tokens, self._method, self._respond = runtime.executor, tokens, method, respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request: check its token and call ``respond`` in a worker thread."""
        request = Request(scope)
        if request.method != self._method:
            raise Refused(404, "not found")
        authorization = request.headers.get("authorization")
        response = await self._executor.call(UNVERIFIED, self._check_and_respond, authorization)
        await response(scope, receive, send)

    def _check_and_respond(self, authorization: str | None) -> Response:
        credential = self._tokens.credential(authorization)
        if not credential.account.operator or credential.limits is not None:
            raise Refused(403, "this is for the operator of the service", "FORBIDDEN")
        return self._respond()


class ProofEndpoint:
    """An ASGI endpoint that proves to a client that this is the service of its data folder, before it sends a token.

    It responds at the address for programs of this machine only, which alone is in the runtime file.
    """

    def __init__(self, runtime: Runtime, folder: Path, about: Mapping[str, Any]) -> None:
        self._executor, self._address = runtime.executor, (LOOPBACK, about["port"])
        self._proof = partial(proof, folder, about["url"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["method"] != "GET" or tuple(scope["server"] or ()) != self._address:
            raise Refused(404, "not found")
        nonce = _NONCE.fullmatch(scope["query_string"])
        if nonce is None:
            raise Refused(400, "the nonce must be 64 hexadecimal digits")
        response = await self._executor.call(UNVERIFIED, self._respond, nonce[1].decode())
        await response(scope, receive, send)

    def _respond(self, nonce: str) -> Response:
        try:
            return text(self._proof(nonce).decode())
        except OSError:
            raise Refused(503, "the platform token of the data folder cannot be read") from None


def operator_routes(
    runtime: Runtime, tokens: TokenAuthority, leases: Leases, metrics: Metrics, stop: Callable[[], None],
    folder: Path, about: Mapping[str, Any],
) -> list[BaseRoute]:  # fmt: skip
    """Return the routes. ``stop`` is called in a worker thread; ``about`` is the content of the runtime file."""

    def stop_service() -> Response:
        stop()
        return json({})

    def page() -> Response:
        return ServiceResponse(metrics.page(), 200, {"content-type": CONTENT_TYPE})

    def lease() -> Response:
        return LeaseResponse(leases, about)

    endpoints = {LEASE_PATH: ("GET", lease), STOP_PATH: ("POST", stop_service), METRICS_PATH: ("GET", page)}
    return [
        *(Route(path, OperatorEndpoint(runtime, tokens, *endpoint)) for path, endpoint in endpoints.items()),
        Route(PROOF_PATH, ProofEndpoint(runtime, folder, about)),
        Mount("/pipemagic", _not_found),
    ]


async def _not_found(*_: object) -> None:
    raise Refused(404, "not found")
