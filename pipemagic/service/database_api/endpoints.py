"""The endpoints of the database HTTP API, at a database's address or at the service's own with its token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import apsw
from starlette.requests import Request
from starlette.routing import Route

from pipemagic import __version__
from pipemagic.hrana import columns, cursors, messages
from pipemagic.service import responses
from pipemagic.service.auth.tokens import AccessGrant, Tokens
from pipemagic.service.budgets import MemoryBudget
from pipemagic.service.compression import SMALLEST, compress, compressed
from pipemagic.service.database_api import pipelines, statements
from pipemagic.service.database_api.cursors import Cursor
from pipemagic.service.database_api.decoding import LARGE, check_parts, decode_cursor, decode_pipeline
from pipemagic.service.database_api.pipelines import Pipeline
from pipemagic.service.database_api.results import Budget
from pipemagic.service.database_api.stream import ServerStream
from pipemagic.service.database_api.streams import StreamTable
from pipemagic.service.endpoint import SMALL_BODY, Admission, CancelToken, Endpoint, Runtime
from pipemagic.service.executor import UNVERIFIED, Steps, Tenant
from pipemagic.service.health import Health
from pipemagic.service.hosts import host_of
from pipemagic.service.limits import Limits
from pipemagic.service.registry.quotas import Meter
from pipemagic.service.registry.records import DatabaseRecord
from pipemagic.service.replicas.placement import Placement
from pipemagic.service.responses import PART, MethodNotAllowed, Refused, ServiceResponse, StreamedResponse
from pipemagic.service.sqlite.statement import Rejected
from pipemagic.service.sqlite.write_lock import Waiter

Handler = Callable[[Request, Admission, Any, CancelToken], Steps]

LINES = {
    "/v2": "Hello, this is HTTP API v2 (Hrana over HTTP)",
    "/v3": "Hello, this is HTTP API v3 (Hrana over HTTP)",
    "/version": f"pipemagic {__version__} (SQLite {apsw.sqlite_lib_version()})",
}
_COLUMNS_HEADER = columns.HEADER.lower()
_JSON = {"content-type": responses.JSON}


class TokenEndpoint(Endpoint):
    """An endpoint for one method and for requests with a token of the database."""

    method = "POST"

    def __init__(self, runtime: Runtime, tokens: Tokens, handler: Handler, *, body_limit: int) -> None:
        super().__init__(runtime, body_limit=body_limit)
        self._tokens = tokens
        self.handle = handler  # type: ignore[assignment,method-assign]

    async def admit(self, request: Request) -> Admission:
        """Check the token: from memory if it was checked before, otherwise in a worker, which reads the catalog."""
        if request.method != self.method:
            raise MethodNotAllowed(self.method)
        authorization, record = request.headers.get("authorization"), request.scope["state"]["record"]
        grant = self._tokens.recall(authorization, record)
        if grant is None:
            executor = self._runtime.executor
            grant = await executor.call(UNVERIFIED, self._tokens.check_database, authorization, record)
        return Admission(Tenant(grant.database.id, grant.database.organization), grant)


class GreetingEndpoint(Endpoint):
    """An endpoint for GET without a token."""

    def __init__(self, runtime: Runtime, greet: Callable[[Request, DatabaseRecord | None], ServiceResponse]) -> None:
        super().__init__(runtime, body_limit=SMALL_BODY)
        self._greet = greet

    async def admit(self, request: Request) -> Admission:
        """Admit every GET and HEAD."""
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed("GET,HEAD")
        return Admission(UNVERIFIED)

    def handle(self, request: Request, admission: Admission, body: Any, cancel: CancelToken) -> Steps:  # noqa: ARG002
        """Return the response."""
        response = self._greet(request, request.scope["state"]["record"])
        if len(response.body) >= SMALLEST:
            compress(response, request)
        return response
        yield


class DatabaseApi:
    """Runs pipelines, cursors and the requests of older packages."""

    def __init__(
        self, placement: Placement, streams: StreamTable, tokens: Tokens, meter: Meter,
        health: Health, clock: Callable[[], float], limits: Limits, memory: MemoryBudget,
    ) -> None:  # fmt: skip
        self._placement, self._streams, self._tokens, self._meter = placement, streams, tokens, meter
        self._health, self._clock, self._limits, self._memory = health, clock, limits, memory

    def routes(self, runtime: Runtime) -> list[Route]:
        """Return the routes, at every address of the service."""
        posted: dict[str, Handler] = {
            "/v2/pipeline": partial(self._pipeline, version=2),
            "/v3/pipeline": partial(self._pipeline, version=3),
            "/v3/cursor": self._cursor,
            "/v1/execute": partial(self._single, decoder=messages.decode_execute),
            "/v1/batch": partial(self._single, decoder=messages.decode_batch),
        }
        limit = self._limits.body
        return [
            *(Route(path, TokenEndpoint(runtime, self._tokens, handler, body_limit=limit))
              for path, handler in posted.items()),
            Route("/health", GreetingEndpoint(runtime, self._healthy)),
            *(Route(path, GreetingEndpoint(runtime, _greet)) for path in LINES),
        ]  # fmt: skip

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
        self, request: Request, admission: Admission, body: bytes, cancel: CancelToken, *, version: int
    ) -> Steps:
        started, grant = self._clock(), admission.context
        decoded = messages.decode_request(body) if len(body) <= LARGE else decode_pipeline(body)
        pipelines.check(decoded.requests, version)
        stream = yield from self._stream(request, decoded.baton, grant, cancel)
        budget = Budget(self._limits.response, self._memory, admission.tenant)
        baton = None
        try:
            pipeline = Pipeline(
                stream, grant, self._meter, clock=self._clock, limits=self._limits, budget=budget,
                by_columns=request.headers.get(_COLUMNS_HEADER) == columns.VALUE,
            )  # fmt: skip
            entries = yield from _while_connected(pipeline.run(decoded.requests), stream, cancel)
            base_url, delay = self._where(request, stream, grant.database)
            if pipeline.closed:
                self._streams.close(stream)
            else:
                baton = self._streams.finish(stream)
            head = b'{"baton":%b,"base_url":%b,"results":[' % (messages.encode(baton), messages.encode(base_url))
            timing = f"total;dur={(self._clock() - started) * 1000:.3f}"
            headers = {**_JSON, "server-timing": timing}
            response = _response(request, [head, *entries, b"]}"], budget, headers)
        except BaseException:
            budget.release()
            self._streams.destroy(stream)
            raise
        response.delay = delay
        if baton is not None or budget.taken:
            response.on_sent = partial(self._sent, stream, stream.response_count, budget)
        return response

    def _cursor(self, request: Request, admission: Admission, body: bytes, cancel: CancelToken) -> Steps:
        grant: AccessGrant = admission.context
        decoded = cursors.decode_request(body) if len(body) <= LARGE else decode_cursor(body)
        pipelines.check([messages.RunBatch(decoded.batch)], version=3)
        stream = yield from self._stream(request, decoded.baton, grant, cancel)
        budget = Budget(self._limits.response)  # the rows are not kept
        try:
            baton = self._streams.promise(stream)
            base_url, delay = self._where(request, stream, grant.database)
            cursor = Cursor(
                stream, grant, self._meter, clock=self._clock, limits=self._limits, budget=budget,
                by_columns=request.headers.get(_COLUMNS_HEADER) == columns.VALUE,
            )  # fmt: skip
            lines = _while_connected(cursor.stream(decoded.batch), stream, cancel)
            head = messages.encode(cursors.Head(baton, base_url)) + b"\n"
            sent = partial(self._streams.sent, stream, stream.response_count)
            try:
                last = yield from _send_lines(request, head, lines, delay, sent)
            finally:
                lines.close()  # before the stream returns its connection: the cursor may be between two rows
            if cursor.failed:
                self._streams.close(stream)
            else:
                self._streams.finish(stream)
        except BaseException:  # also GeneratorExit: the client does not read the rest
            self._streams.destroy(stream)
            raise
        return last

    def _single(
        self, request: Request, admission: Admission, body: bytes, cancel: CancelToken, *,
        decoder: Callable[[bytes], messages.Execute | messages.RunBatch],
    ) -> Steps:  # fmt: skip
        """Run one request of older packages on a stream of its own; a failed statement is a 400."""
        grant: AccessGrant = admission.context
        if len(body) > LARGE:
            check_parts(body)
        decoded = decoder(body)
        pipelines.check([decoded], version=1)
        stream = yield from self._stream(request, None, grant, cancel)
        budget = Budget(self._limits.response, self._memory, admission.tenant)
        try:
            pipeline = Pipeline(stream, grant, self._meter, clock=self._clock, limits=self._limits, budget=budget)
            result = yield from _while_connected(pipeline.run_one(decoded), stream, cancel)
            _, delay = self._where(request, stream, grant.database)
            self._streams.close(stream)
            response = _response(request, [messages.encode({"result": result["result"]})], budget, _JSON)
        except BaseException:
            budget.release()
            self._streams.destroy(stream)
            raise
        response.delay, response.on_sent = delay, budget.release
        return response

    def _stream(self, request: Request, baton: str | None, grant: AccessGrant, cancel: CancelToken) -> Steps:
        """Return the stream of the baton, or a new one at the nearest location; it is in use."""
        if baton is None:
            database, place = self._placement.choose(grant.database, request)
            stream = self._streams.open(database, grant.owner, place)
        else:
            under_way = self._streams.under_way(baton, grant.owner)
            if under_way is not None:
                yield Waiter.until_done(under_way, cancel.add_callback)
                if cancel.cancelled:
                    raise Refused(503, "the client hung up")
            stream = self._streams.resume(baton, grant.owner)
        try:
            self._tokens.recheck(grant)  # a rotation after the check did not see this stream
        except BaseException:
            self._streams.destroy(stream)
            raise
        return stream

    def _where(self, request: Request, stream: ServerStream, database: DatabaseRecord) -> tuple[str | None, float]:
        """Return the address of the stream's instance if it is not the request's, and the delay for its distance."""
        placement = self._placement
        base_url = placement.base_url(request, stream) if len(database.locations) > 1 else None
        return base_url, placement.delay(stream) if placement.simulates_latency else 0.0

    def _sent(self, stream: ServerStream, number: int, budget: Budget) -> None:
        budget.release()
        self._streams.sent(stream, number)


def _response(
    request: Request, parts: Sequence[bytes], budget: Budget, headers: Mapping[str, str]
) -> ServiceResponse:  # fmt: skip
    """Return the response whose body consists of ``parts``: of the same few bytes objects if it is large."""
    if budget.large_rows or sum(map(len, parts)) > PART:
        response = responses.in_pieces(budget.assemble(parts), headers)
    else:
        response = ServiceResponse(b"".join(parts), 200, headers)
    if response.pieces or len(response.body) >= SMALLEST:
        compress(response, request)
    return response


def _send_lines(request: Request, head: bytes, lines: Steps, delay: float, on_sent: Callable[[], None]) -> Steps:
    """Send the lines of a cursor: in one piece if there are few, as in most cursors."""
    while True:
        try:
            piece = next(lines)
        except StopIteration as end:
            response = ServiceResponse(head + end.value, 200, {"content-type": responses.TEXT})
            if len(response.body) >= SMALLEST:
                compress(response, request)
            response.delay, response.on_sent = delay, on_sent
            return response
        if isinstance(piece, bytes):
            break
        yield piece
    streamed = StreamedResponse(responses.TEXT)
    streamed.delay, streamed.on_sent = delay, on_sent
    return (yield from compressed(streamed, request, _streamed(streamed, head + piece, lines)))


def _streamed(response: StreamedResponse, first: bytes, rest: Steps) -> Steps:
    yield response
    yield first
    return (yield from rest)


def _greet(request: Request, _: DatabaseRecord | None) -> ServiceResponse:
    return responses.text(LINES[request.scope["path"]])


def _while_connected(steps: Steps, stream: ServerStream, cancel: CancelToken) -> Steps:
    """Run statements; cancel their stream if the client hangs up. Raise `Refused` if the whole request fails."""
    cancel.add_callback(stream.cancel)
    try:
        return (yield from steps)
    except Rejected as rejected:
        raise Refused(400, rejected.error.message, rejected.error.code) from None
    except statements.Cancelled:
        line = "the stream was ended: its client hung up, or the database is being deleted"
        raise Refused(503, line) from None
    finally:
        cancel.remove_callback(stream.cancel)
