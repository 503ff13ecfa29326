"""A service in process as an HTTP transport, so that a client and the service share one clock."""

from __future__ import annotations

import httpx
from asgi_calls import call

from pipemagic.service.service import Service


class ServiceTransport(httpx.BaseTransport):
    """Passes every request to a service by a function call. ``down`` refuses the connection instead."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.down = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("refused", request=request)
        reply = call(
            self.service, request.method, request.url.path, headers=request.headers, body=request.read(),
            query=dict(request.url.params),
        )  # fmt: skip
        return httpx.Response(reply.status, headers=reply.headers, content=reply.read())
