"""A server that speaks version 2 of the protocol, but not version 3: sqld, of which the client sees no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from sqld_server import SqldDatabase

from pipemagic.client.database import Database


class WithoutVersion3(httpx.HTTPTransport):
    """Responds as a server that does not know version 3; sends everything else."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.startswith("/v3"):
            return httpx.Response(404, json={"error": "not found"}, request=request)
        return super().handle_request(request)


@contextmanager
def version_2(database: SqldDatabase) -> Iterator[Database]:
    """Yield a client of a database of sqld without version 3."""
    with httpx.Client(transport=WithoutVersion3()) as http, Database(database.url, database.token, http=http) as client:
        yield client
