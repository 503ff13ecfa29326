"""The endpoints of the database HTTP API, at a database's address or at the service's own with its token."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial

import apsw
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipemagic.hrana import columns, cursors, messages
from pipemagic.hrana.stream import LIMITS_HEADER, RELAXED, STRICT, Event
from pipemagic.service import responses
from pipemagic.service.auth.tokens import AccessGrant, TokenAuthority
from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.catalog.usage import BLOCKED, OPERATION_BLOCKED
from pipemagic.service.database_api import pipelines
from pipemagic.service.database_api.cursors import Cursor
from pipemagic.service.database_api.requests import decode_cursor, decode_pipeline, decode_single, memory_for
from pipemagic.service.database_api.results import Budget, encode
from pipemagic.service.database_api.statements import Cancelled, Runner
from pipemagic.service.database_api.stream import ServerStream
from pipemagic.service.database_api.streams import StreamTable
from pipemagic.service.endpoint import SMALL_BODY, Endpoint, Handler, Runtime
from pipemagic.service.engine import EngineContext
from pipemagic.service.executor import UNVERIFIED, Steps, Tenant, Waiter
from pipemagic.service.health import Health
from pipemagic.service.hosting import host_of
from pipemagic.service.memory import MemoryBudget
from pipemagic.service.replicas.placement import Placement
from pipemagic.service.request import ServiceRequest
from pipemagic.service.responses import (
    PART,
    SMALLEST,
    Refused,
    ServiceResponse,
    StreamedResponse,
    compress_if_large,
    compress_stream,
    wrong_method,
)
from pipemagic.service.sqlite.statement import Rejected
from pipemagic.service.stopped_statements import StoppedStatements
from pipemagic.version import __version__

LINES = {
    "/v2": "Hello, this is HTTP API v2 (Hrana over HTTP)",
    "/v3": "Hello, this is HTTP API v3 (Hrana over HTTP)",
    "/version": f"pipemagic {__version__} (SQLite {apsw.sqlite_lib_version()})",
}
_COLUMNS_HEADER = columns.HEADER.lower()


class TokenEndpoint(Endpoint):
    """An endpoint for one method and for requests with a token of the database."""

    def __init__(
        self, runtime: Runtime, tokens: TokenAuthority, handler: Handler, *, body_limit: int, method: str = "POST"
    ) -> None:  # fmt: skip
        super().__init__(runtime, handler, body_limit=body_limit)
        self._tokens, self.method = tokens, method

    async def admit(self, request: ServiceRequest) -> Tenant:
        """Check the token: from memory if it was checked before, otherwise in a worker, which reads the catalog."""
        if request.method != self.method:
            raise wrong_method(self.method)
        authorization = request.headers.get("authorization")
        grant = self._tokens.recall(authorization, request.record)
        if grant is None:
            executor = self._runtime.executor
            grant = await executor.call(UNVERIFIED, self._tokens.check_database, authorization, request.record)
        request.grant, request.is_use = grant, True
        return grant.database.id

    def memory_for(self, body: bytearray) -> int:
        """Estimate the bytes of memory that a large body needs after decoding."""
        return memory_for(body)


class GreetingEndpoint(Endpoint):
    """An endpoint for GET without a token."""

    def __init__(self, runtime: Runtime, greet: Callable[[Request, DatabaseRecord | None], ServiceResponse]) -> None:
        super().__init__(runtime, self._handle, body_limit=SMALL_BODY)
        self._greet = greet

    async def admit(self, request: ServiceRequest) -> Tenant:
        """Admit every GET and HEAD."""
        if request.method not in ("GET", "HEAD"):
            raise wrong_method("GET,HEAD")
        return UNVERIFIED

    def _handle(self, request: ServiceRequest, _: bytes) -> Steps[Response]:
        response = self._greet(request, request.record)
        compress_if_large(response, request)
        return response
        yield


class DatabaseApi:
    """Runs pipelines, cursors and the requests of older packages."""

    def __init__(
        self, placement: Placement, streams: StreamTable, tokens: TokenAuthority, health: Health,
        stopped: StoppedStatements, context: EngineContext,
    ) -> None:  # fmt: skip
        self._placement, self._streams, self._tokens, self._health = placement, streams, tokens, health
        self._stopped, self._context = stopped, context
        self._clock, self._limits = context.clock, context.limits

    def routes(self, runtime: Runtime) -> list[Route]:
        """Return the routes, at every address of the service."""
        pipeline = partial(self._pipeline, memory=runtime.memory)
        posted: dict[str, Handler] = {
            "/v1/execute": partial(pipeline, version=1, decode=partial(decode_single, messages.decode_execute)),
            "/v1/batch": partial(pipeline, version=1, decode=partial(decode_single, messages.decode_batch)),
            "/v2/pipeline": partial(pipeline, version=2, decode=decode_pipeline),
            "/v3/pipeline": partial(pipeline, version=3, decode=decode_pipeline),
            "/v3/cursor": partial(self._cursor, memory=runtime.memory),
        }
        limit = self._limits.body
        return [
            *(Route(path, TokenEndpoint(runtime, self._tokens, handler, body_limit=limit))
              for path, handler in posted.items()),
            Route("/health", GreetingEndpoint(runtime, self._healthy)),
            *(Route(path, GreetingEndpoint(runtime, self._version_line)) for path in LINES),
        ]  # fmt: skip

    def _version_line(self, request: Request, _: DatabaseRecord | None) -> ServiceResponse:
        """Return the line about a version, with a header that says how exact the time limits are."""
        mode = RELAXED if self._limits.relaxed else STRICT
        return responses.text(LINES[request.scope["path"]], headers={LIMITS_HEADER.decode(): mode})

    def _healthy(self, request: Request, record: DatabaseRecord | None) -> ServiceResponse:
        """Return 200 if the service, and the instance at this address, is healthy, otherwise 503."""
        if record is None:
            return responses.empty(200 if self._health.ok() else 503)
        host = host_of(request.headers["host"])
        well = self._placement.healthy(record, self._placement.code_of(record, host)) and self._health.ok()
        response = responses.empty(200 if well else 503)
        response.delay = self._placement.distance(record, host)
        return response

    def _pipeline(
        self, request: ServiceRequest, body: bytes, *,
        memory: MemoryBudget, version: int, decode: Callable[[bytes, int], messages.PipelineRequest],
    ) -> Steps[Response]:  # fmt: skip
        """Run a pipeline. In version 1 it is a single request, and a failed statement is a 400."""
        start, single = self._clock(), version == 1
        decoded = decode(body, version)
        stream = yield from self._stream(request, decoded.baton)
        baton = None
        with self._runner(request, stream, memory) as runner:
            if single:
                result = yield from pipelines.run_one(runner, decoded.requests[0])
            else:
                result = yield from pipelines.run(runner, decoded.requests)
            base_url, delay = self._address(request, stream)
            if single or any(isinstance(entry, messages.Close) for entry in decoded.requests):
                self._streams.end(stream, Event.CLOSE)
            else:
                baton = self._streams.finish(stream)
            lives = b"" if baton is None else b',"stream_ttl_ms":%d' % self._streams.ttl
            head = b'{"baton":%b,"base_url":%b%b,"results":[' % (encode(baton), encode(base_url), lives)
            pieces = [b'{"result":', *result, b"}"] if single else [head, *result, b"]}"]
            del result  # pieces are freed as they are compressed
            timing = f"total;dur={(self._clock() - start) * 1000:.3f}"
            response = _response(request, pieces, {"content-type": responses.JSON, "server-timing": timing})
        response.delay = delay
        if baton is not None or runner.budget.reservation.size or stream.thread_left is not None:
            response.on_sent = partial(self._sent, stream, stream.response_count, runner.budget)
        return response

    def _cursor(
        self, request: ServiceRequest, body: bytes, *, memory: MemoryBudget
    ) -> Steps[Response | bytes]:  # fmt: skip
        decoded = decode_cursor(body)
        stream = yield from self._stream(request, decoded.baton)
        with self._runner(request, stream, memory) as runner:  # until the client has read the rest, or disconnects
            baton = self._streams.next_baton(stream)
            base_url, delay = self._address(request, stream)
            cursor = Cursor(runner)
            head = encode(cursors.Head(baton, base_url, self._streams.ttl)) + b"\n"
            sent = partial(self._streams.sent, stream, stream.response_count)
            with closing(cursor.stream(decoded.batch)) as lines:
                last = yield from _send_lines(request, head, lines, delay, sent)
            runner.budget.reservation.release()
            if cursor.failed:
                self._streams.end(stream, Event.LOSE)
            else:
                self._streams.finish(stream)
        return last

    @contextmanager
    def _runner(self, request: ServiceRequest, stream: ServerStream, memory: MemoryBudget) -> Iterator[Runner]:
        """Provide the runner of the statements of a request, whose responses, or unsent rows, are in ``memory``.

        Close the stream if the request fails as a whole; cancel its statements if the client disconnects.
        """
        budget = Budget(self._limits.response, memory, request.tenant)
        request.add_callback(stream.cancel)
        try:
            by_columns = request.headers.get(_COLUMNS_HEADER) == columns.VALUE
            yield Runner(stream, request.grant, budget, self._context, self._stopped, by_columns=by_columns)
        except BaseException as error:
            budget.reservation.release()
            self._streams.end(stream, Event.LOSE)
            match error:
                case Rejected():
                    raise Refused(400, error.error.message, error.error.code) from None
                case Cancelled():
                    line = "the stream was ended: its client disconnected, or the database was deleted or paused"
                    raise Refused(503, line) from None
            raise
        finally:
            request.remove_callback(stream.cancel)

    def _stream(self, request: ServiceRequest, baton: str | None) -> Steps[ServerStream]:
        """Return the stream of the baton, or a new one at the nearest location; it is in use."""
        grant = request.grant
        stream: ServerStream | Waiter
        if baton is None:
            database, place = self._placement.choose(grant.database, request)
            stream = self._streams.open(database, grant.owner, place)
        else:
            try:
                while isinstance(stream := self._streams.resume(baton, grant.owner), Waiter):  # for a running cursor
                    waiter = Waiter(math.inf)
                    stream.add_done_callback(waiter.finish)
                    request.add_callback(waiter.finish)
                    yield waiter
                    if request.cancelled:
                        raise Refused(503, "the client disconnected")
            except Refused as refused:
                raise self._cause_of(refused, grant) from None
        try:
            # A rotation, or a suspension of the database, after the check did not see this stream.
            if (record := self._tokens.recheck(grant)) is not None and record.configuration.block_reads:
                self._context.meter.block(record).check(writes=False)
        except BaseException:
            self._streams.end(stream, Event.LOSE)
            raise
        return stream

    def _cause_of(self, refused: Refused, grant: AccessGrant) -> Refused:
        """Return the error for a baton that was refused, which names a suspension if the stream ended by it."""
        record = self._tokens.recheck(grant) or grant.database  # it may have waited
        if not record.configuration.block_reads:
            return refused
        reason = f"{self._context.meter.block(record).reads}; the stream has ended, and an open transaction is"
        return Refused(403, f"{OPERATION_BLOCKED}: {reason} rolled back", BLOCKED)

    def _address(self, request: ServiceRequest, stream: ServerStream) -> tuple[str | None, float]:
        """Return the address of the stream's instance if it is not the request's, and the delay for its distance."""
        base_url = self._placement.base_url(request, stream) if len(request.grant.database.locations) > 1 else None
        return base_url, self._placement.delay(stream) if self._placement.simulates_latency else 0.0

    def _sent(self, stream: ServerStream, number: int, budget: Budget) -> None:
        budget.reservation.release()
        self._streams.sent(stream, number)


def _response(request: Request, pieces: list[bytes], headers: Mapping[str, str]) -> ServiceResponse:
    """Return a response with ``pieces`` as its body; the pieces of a large body are not joined."""
    if sum(map(len, pieces)) > PART:
        response = responses.in_pieces(pieces, headers)
    else:
        response = ServiceResponse(b"".join(pieces), 200, headers)
    if response.pieces or len(response.body) >= SMALLEST:
        compress_if_large(response, request)
    return response


def _send_lines(
    request: Request, head: bytes, lines: Steps[bytes], delay: float, on_sent: Callable[[], None]
) -> Steps[Response | bytes]:  # fmt: skip
    """Send the lines of a cursor: in one piece if there are few, as in most cursors."""
    while True:
        try:
            piece = next(lines)
        except StopIteration as end:
            response = ServiceResponse(head + end.value, 200, {"content-type": responses.TEXT})
            compress_if_large(response, request)
            response.delay, response.on_sent = delay, on_sent
            return response
        if isinstance(piece, bytes):
            break
        yield piece
    streamed = StreamedResponse(responses.TEXT)
    streamed.delay, streamed.on_sent = delay, on_sent
    return (yield from compress_stream(streamed, request, head + piece, lines))
