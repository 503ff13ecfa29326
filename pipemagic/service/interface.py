"""The database interface: what is answered at a database's address, or at the service's own with its token."""

from __future__ import annotations

from collections.abc import Callable, Generator

import apsw

from pipemagic import __version__
from pipemagic.errors import ProtocolError
from pipemagic.hrana import messages
from pipemagic.service import http, pipelines
from pipemagic.service.catalog import DatabaseRecord
from pipemagic.service.databases import Databases
from pipemagic.service.http import Cancel, Refused, Request, Response
from pipemagic.service.limits import Limits
from pipemagic.service.quotas import Meter
from pipemagic.service.streams import ServerStream, StreamTable
from pipemagic.service.tokens import Grant, Tokens
from pipemagic.service.turns import Turn

Steps = Generator[Turn, None, Response]

PIPELINES = {"/v2/pipeline": 2, "/v3/pipeline": 3}
LINES = {
    "/v2": "Hello, this is HTTP API v2 (Hrana over HTTP)",
    "/v3": "Hello, this is HTTP API v3 (Hrana over HTTP)",
    "/version": f"pipemagic {__version__} (SQLite {apsw.sqlite_lib_version()})",
    "/health": "",
}


class DatabaseInterface:
    """Answers the requests of the database interface."""

    def __init__(
        self, databases: Databases, streams: StreamTable, tokens: Tokens, meter: Meter,
        clock: Callable[[], float], limits: Limits,
    ) -> None:  # fmt: skip
        self._databases, self._streams, self._tokens, self._meter = databases, streams, tokens, meter
        self._clock, self._limits = clock, limits

    def handle(self, request: Request, cancel: Cancel, record: DatabaseRecord | None) -> Steps:
        """Answer a request to the database ``record``; None at an address where the token names the database."""
        if request.path in LINES:
            return self._greet(request)
        if request.path not in PIPELINES:
            return http.empty(404)
        if request.method != "POST":
            return http.empty(405, ("allow", "POST"))
        grant = self._tokens.check_database(request.headers.get("authorization"), record)
        return (yield from self._pipeline(request, cancel, grant, PIPELINES[request.path]))

    def _greet(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return http.empty(405, ("allow", "GET,HEAD"))
        line = LINES[request.path]
        return http.text(line) if line and request.method == "GET" else http.empty(200)

    def _pipeline(self, request: Request, cancel: Cancel, grant: Grant, version: int) -> Steps:
        try:
            body = messages.decode_request(request.body)
        except ProtocolError as error:
            line = f"Cannot deserialize client message from JSON: {error.message}"
            raise Refused(400, line, plain=True) from None
        pipelines.check(body.requests, version)
        stream = self._stream(body.baton, grant)
        self._recheck(grant, stream)
        pipeline = pipelines.Pipeline(stream, grant, self._meter, clock=self._clock, limits=self._limits)
        baton, whole = None, False
        cancel.listen(stream.abandon)
        try:
            entries = yield from pipeline.run(body.requests)
            whole = not stream.gone
        except pipelines.HungUp:
            raise Refused(503, "the stream was ended: its client hung up, or the database is going away") from None
        finally:
            cancel.forget(stream.abandon)
            if not whole:
                self._streams.destroy(stream)
        if pipeline.closed:
            self._streams.close(stream)
        elif whole:
            baton = self._streams.finish(stream)
        head = b'{"baton":' + messages.encode(baton) + b',"base_url":null,"results":['
        return Response(200, [head, b",".join(entries), b"]}"])

    def _recheck(self, grant: Grant, stream: ServerStream) -> None:
        """Refuse a token that a rotation made void after it was checked: that rotation did not see this stream."""
        try:
            self._tokens.recheck(grant)
        except Refused:
            self._streams.destroy(stream)
            raise

    def _stream(self, baton: str | None, grant: Grant) -> ServerStream:
        """Give the stream to run on, in use: the one that the baton stands for, else a new one."""
        owner = (grant.database.id, grant.subject)
        if baton is not None:
            return self._streams.resume(baton, owner)
        return self._streams.open(self._databases.open(grant.database), owner)
