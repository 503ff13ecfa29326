"""The database interface: what is answered at a database's address, or at the service's own with its token."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from types import TracebackType
from typing import TypeVar, cast

import apsw

from pipemagic import __version__
from pipemagic.errors import ProtocolError
from pipemagic.hrana import columns, cursors, messages
from pipemagic.service import http
from pipemagic.service.embedded import pipelines, statements
from pipemagic.service.embedded.cursors import Cursor
from pipemagic.service.embedded.pipelines import Pipeline
from pipemagic.service.embedded.placement import Placement
from pipemagic.service.embedded.plans import Rejected
from pipemagic.service.embedded.stream import ServerStream
from pipemagic.service.embedded.streams import StreamTable
from pipemagic.service.health import Health
from pipemagic.service.http import Cancel, Generated, Refused, Request, Response
from pipemagic.service.limits import Limits
from pipemagic.service.registry.quotas import Meter
from pipemagic.service.registry.records import DatabaseRecord
from pipemagic.service.registry.tokens import Grant, Tokens
from pipemagic.service.turns import Turn

T = TypeVar("T")
Steps = Generator[Turn, None, Response]

HEALTH = "/health"
PIPELINES = frozenset({"/v2/pipeline", "/v3/pipeline"})
BRIEF_BODY = 16 * 1024
"""Bytes of a request; reading a larger one takes too long for haste."""
BRIEF_ANSWER = 64 * 1024
"""Bytes of an answer; packing a larger one does."""
_ROWS = columns.HEADER.lower()
LINES = {
    "/v2": "Hello, this is HTTP API v2 (Hrana over HTTP)",
    "/v3": "Hello, this is HTTP API v3 (Hrana over HTTP)",
    "/version": f"pipemagic {__version__} (SQLite {apsw.sqlite_lib_version()})",
}


def looks_brief(path: str, size: int) -> bool:
    """Tell whether a request may be answered in haste: one of the usual kind whose body is not large."""
    return path in PIPELINES and size <= BRIEF_BODY


class DatabaseInterface:
    """Answers the requests of the database interface."""

    def __init__(
        self, placement: Placement, streams: StreamTable, tokens: Tokens, meter: Meter,
        health: Health, clock: Callable[[], float], limits: Limits,
    ) -> None:  # fmt: skip
        self._placement, self._streams, self._tokens, self._meter = placement, streams, tokens, meter
        self._health, self._clock, self._limits = health, clock, limits

    def handle(self, request: Request, cancel: Cancel, record: DatabaseRecord | None) -> Steps:
        """Answer a request to the database ``record``; None at an address where the token names the database."""
        if request.path == HEALTH or request.path in LINES:
            return self._greet(request, record)
        answer = POSTED.get(request.path)
        if answer is None:
            return http.empty(404)
        if request.method != "POST":
            return http.empty(405, ("allow", "POST"))
        grant = self._tokens.check_database(request.headers.get("authorization"), record)
        return (yield from answer(self, request, cancel, grant))

    def _greet(self, request: Request, record: DatabaseRecord | None) -> Response:
        if request.method not in ("GET", "HEAD"):
            return http.empty(405, ("allow", "GET,HEAD"))
        if request.path == HEALTH:
            delay = self._placement.distance(record, request.host) if record is not None else 0.0
            return Response(200 if self._healthy(request, record) else 503, (), "", delay=delay)
        return http.text(LINES[request.path])

    def _healthy(self, request: Request, record: DatabaseRecord | None) -> bool:
        """Tell whether the service is well, and the instance whose address this is."""
        if record is not None and not self._placement.healthy(record, self._placement.code_of(record, request.host)):
            return False
        return self._health.ok()

    def _pipeline(self, request: Request, cancel: Cancel, grant: Grant, *, version: int) -> Steps:
        started = self._clock()
        body = _decoded(messages.decode_request, request.body)
        pipelines.check(body.requests, version)
        if body.baton is None and not self._placement.at_hand(grant.database):
            yield from cancel.haste.end()
        stream = yield from self._stream(request, body.baton, grant)
        with self._held(stream):
            pipeline = Pipeline(
                stream, grant, self._meter, clock=self._clock, limits=self._limits, haste=cancel.haste,
                by_columns=_reads_columns(request),
            )  # fmt: skip
            with _InUse(stream, cancel):
                entries = yield from _without_bytes(pipeline.run(body.requests))
                if sum(map(len, entries)) > BRIEF_ANSWER:
                    yield from stream.wait_for(cancel.haste.end())
            base_url, delay = self._placement.base_url(request, stream, grant.database), self._placement.delay(stream)
            baton = self._finish(stream, closed=pipeline.closed)
            head = b'{"baton":%b,"base_url":%b,"results":[' % (messages.encode(baton), messages.encode(base_url))
        sent = self._sent(stream) if baton else None
        timing = ("server-timing", f"total;dur={(self._clock() - started) * 1000:.3f}")
        return Response(200, [head, b",".join(entries), b"]}"], headers=(timing,), delay=delay, sent=sent)

    def _cursor(self, request: Request, cancel: Cancel, grant: Grant) -> Steps:
        body = _decoded(cursors.decode_request, request.body)
        pipelines.check([messages.RunBatch(body.batch)], version=3)
        stream = yield from self._stream(request, body.baton, grant)
        with self._held(stream):
            baton, base_url = self._streams.promise(stream), self._placement.base_url(request, stream, grant.database)
            head = messages.encode(cursors.Head(baton, base_url)) + b"\n"
            cursor = Cursor(
                stream, grant, self._meter, clock=self._clock, limits=self._limits, by_columns=_reads_columns(request)
            )
            entries = self._entries(stream, cursor, body.batch, cancel)
            try:
                chunks = yield from self._chunks(head, entries)
                delay = self._placement.delay(stream)
            except BaseException:
                entries.close()  # before the stream gives its connection back: it may be between two rows
                raise
        return Response(200, chunks, http.TEXT, delay=delay, sent=self._sent(stream))

    def _chunks(self, head: bytes, entries: statements.Steps[bytes]) -> Generator[Turn, None, list[bytes] | Generated]:
        """Begin a cursor: give all there is if that is little, else what will give the rest."""
        try:
            while isinstance(piece := next(entries), Turn):
                yield piece
        except StopIteration as end:  # all there is: most cursors are small
            return [head, end.value]
        return Generated(head + piece, entries)

    def _alone(
        self, request: Request, cancel: Cancel, grant: Grant, *,
        decode: Callable[[bytes], messages.Execute | messages.RunBatch],
    ) -> Steps:  # fmt: skip
        """Run one request of older packages, on a stream that ends with it; a failed statement is a 400."""
        asked = _decoded(decode, request.body)
        pipelines.check([asked], version=1)
        stream = yield from self._stream(request, None, grant)
        with self._held(stream):
            pipeline = Pipeline(stream, grant, self._meter, clock=self._clock, limits=self._limits)
            with _InUse(stream, cancel):
                response = yield from _without_bytes(pipeline.alone(asked))
            delay = self._placement.delay(stream)
            self._finish(stream, closed=True)
        return Response(200, [messages.encode({"result": response["result"]})], delay=delay)

    def _entries(
        self, stream: ServerStream, cursor: Cursor, batch: messages.Batch, cancel: Cancel
    ) -> statements.Steps[bytes]:
        with self._held(stream):  # again: most of it is made after the request got its answer
            with _InUse(stream, cancel):
                last = yield from cursor.stream(batch)
            self._finish(stream, closed=cursor.failed)
        return last

    def _held(self, stream: ServerStream) -> _Held:
        return _Held(self._streams, stream)

    def _recheck(self, grant: Grant, stream: ServerStream) -> None:
        """Refuse a token that a rotation made void after it was checked: that rotation did not see this stream."""
        with self._held(stream):
            self._tokens.recheck(grant)

    def _finish(self, stream: ServerStream, *, closed: bool) -> str | None:
        """Give the baton for the next request, if there can be one."""
        if not closed:
            return self._streams.finish(stream)
        self._streams.close(stream)
        return None

    def _sent(self, stream: ServerStream) -> Callable[[], None]:
        return partial(self._streams.sent, stream, stream.answers)

    def _stream(self, request: Request, baton: str | None, grant: Grant) -> Generator[Turn, None, ServerStream]:
        """Give the stream to run on, in use: the one that the baton stands for, else a new one nearby."""
        owner = (grant.database.id, grant.subject)
        if baton is None:
            wanted = self._placement.code_of(grant.database, request.host)
            database, place = self._placement.choose(grant.database, wanted)
            stream = self._streams.open(database, owner, place)
        else:
            under_way = self._streams.under_way(baton, owner)
            if under_way is not None:
                yield under_way
            stream = self._streams.resume(baton, owner)
        self._recheck(grant, stream)
        return stream


POSTED: dict[str, Callable[..., Steps]] = {
    "/v1/execute": partial(DatabaseInterface._alone, decode=messages.decode_execute),
    "/v1/batch": partial(DatabaseInterface._alone, decode=messages.decode_batch),
    "/v2/pipeline": partial(DatabaseInterface._pipeline, version=2),
    "/v3/pipeline": partial(DatabaseInterface._pipeline, version=3),
    "/v3/cursor": DatabaseInterface._cursor,
}
"""What is asked with a token, by its path."""


class _Held:
    """Destroys a stream if the request that uses it fails as a whole: else it would be in use for ever."""

    __slots__ = ("_stream", "_streams")

    def __init__(self, streams: StreamTable, stream: ServerStream) -> None:
        self._streams, self._stream = streams, stream

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # also GeneratorExit: nobody takes the rest of the answer
            self._streams.destroy(self._stream)


class _InUse:
    """Has a stream listen to its client while statements run on it, and says what ends the request as a whole."""

    __slots__ = ("_cancel", "_stream")

    def __init__(self, stream: ServerStream, cancel: Cancel) -> None:
        self._stream, self._cancel = stream, cancel

    def __enter__(self) -> None:
        self._cancel.listen(self._stream.abandon)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cancel.forget(self._stream.abandon)
        if isinstance(error, Rejected):
            raise Refused(400, error.error.message, error.error.code) from None
        if isinstance(error, statements.HungUp):
            raise Refused(503, "the stream was ended: its client hung up, or the database is going away") from None


def _reads_columns(request: Request) -> bool:
    """Tell whether the client reads many rows by columns."""
    return request.headers.get(_ROWS) == columns.VALUE


def _without_bytes(steps: statements.Steps[T]) -> Generator[Turn, None, T]:
    """Say what is so of all but cursors: they wait for turns only."""
    return cast("Generator[Turn, None, T]", steps)


def _decoded(decode: Callable[[bytes], T], body: bytes) -> T:
    try:
        return decode(body)
    except ProtocolError as error:
        line = f"Cannot deserialize client message from JSON: {error.message}"
        raise Refused(400, line, plain=True) from None
