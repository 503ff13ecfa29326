"""The service in process as an HTTP transport, so that a client and the service share one clock."""

from __future__ import annotations

import httpx

from pipemagic.service.core import Service
from pipemagic.service.http import Request


class ServiceTransport(httpx.BaseTransport):
    """Hands every request to a service by a plain call. ``down`` refuses the connection instead."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.down = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("refused", request=request)
        headers = {name.lower(): value for name, value in request.headers.items()}
        call = Request(request.method, request.url.path, dict(request.url.params), headers, request.read())
        response = self.service.call(call)
        kinds = [("content-type", response.content_type)] if response.content_type else []
        return httpx.Response(response.status, headers=[*kinds, *response.headers], content=b"".join(response.chunks))
