"""The service as one object: a request in, an answer out, free of any web framework.

`Service.steps` is the synchronous core. It yields a `Turn` while a request waits for the writer's turn; the
shell parks the request until then. `Service.call` is the same for a caller that may block.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import apsw

from pipemagic import __version__
from pipemagic.errors import ProtocolError
from pipemagic.hrana import messages
from pipemagic.service import http, pipelines
from pipemagic.service.catalog import Catalog, DatabaseRecord
from pipemagic.service.connections import OpenDatabase
from pipemagic.service.http import Cancel, Refused, Request, Response
from pipemagic.service.limits import Limits
from pipemagic.service.management import Management
from pipemagic.service.streams import StreamTable
from pipemagic.service.tokens import Grant, Tokens
from pipemagic.service.turns import Turn

log = logging.getLogger(__name__)

OWN_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
SWEEP_EVERY = 1.0  # seconds at most between two looks; no window is shorter

PIPELINES = {"/v2/pipeline": 2, "/v3/pipeline": 3}
GREETINGS = {
    "/v2": "Hello, this is HTTP API v2 (Hrana over HTTP)",
    "/v3": "Hello, this is HTTP API v3 (Hrana over HTTP)",
}


class Databases:
    """The databases that are in use, by id."""

    def __init__(self, folder: Path, catalog: Catalog, limits: Limits, clock: Callable[[], float]) -> None:
        self._folder, self._catalog, self._limits, self._clock = folder, catalog, limits, clock
        self._lock = threading.Lock()
        self._open: dict[str, OpenDatabase] = {}

    def open(self, record: DatabaseRecord) -> OpenDatabase:
        """Give the database, opening its file if it is not in use; Refused (404) if it was deleted meanwhile."""
        with self._lock:
            database = self._open.get(record.id)
            if database is None:
                if self._catalog.database_by_id(record.id) is None:  # a deletion takes it out of the catalog first
                    raise Refused(404, "the database was deleted")
                database = self._open[record.id] = OpenDatabase(
                    self._folder / record.id / "primary.sqlite",
                    self._limits,
                    self._clock,
                    index=self._catalog.reserved_index(record.id),
                    reserve=lambda index: self._catalog.reserve_index(record.id, index),
                )
            return database

    def pop(self, identifier: str) -> OpenDatabase | None:
        """Take a database out of use."""
        with self._lock:
            return self._open.pop(identifier, None)

    def trim(self, now: float) -> None:
        """Close idle connections."""
        with self._lock:
            databases = list(self._open.values())
        for database in databases:
            database.trim(now)

    def close(self) -> None:
        """Close all databases."""
        with self._lock:
            databases, self._open = list(self._open.values()), {}
        for database in databases:
            database.close()


class Service:
    """Management API and database HTTP API over one data folder."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
        limits: Limits | None = None,
        domain: str = "localhost",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.limits = limits or Limits()
        self.domain = domain
        self._clock = clock
        self._files = folder / "databases"
        self.catalog = Catalog(folder / "catalog.sqlite", domain=domain, now=now)
        self.catalog.finish_deletions(self._files)
        self.tokens = Tokens(folder, self.catalog, now, random)
        self.management = Management(self.catalog, self.tokens)
        self.management.on_delete = self._deleted
        self.databases = Databases(self._files, self.catalog, self.limits, clock)
        self.streams = StreamTable(clock, random, self.limits)
        self._stopping = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_forever, name="pipemagic-sweeper", daemon=True)

    # Life.

    def start(self) -> None:
        """Start the sweeper, which enforces the windows when no request comes."""
        self._sweeper.start()

    def close(self) -> None:
        """Interrupt what runs, roll back what is open, close every file."""
        self._stopping.set()
        if self._sweeper.is_alive():
            self._sweeper.join()
        self.streams.end_all()
        self.databases.close()
        self.catalog.close()

    def sweep(self) -> None:
        """Enforce the windows once, now."""
        self.streams.sweep()
        self.databases.trim(self._clock())

    def _sweep_forever(self) -> None:
        wait = SWEEP_EVERY
        while not self._stopping.wait(wait):
            try:
                self.sweep()
            except apsw.Error:
                log.exception("the sweep of the streams met an error; it goes on")
            deadline = self.streams.next_deadline()
            wait = SWEEP_EVERY
            if deadline is not None:
                wait = min(wait, max(0.01, deadline - self._clock()))

    def _deleted(self, record: DatabaseRecord) -> None:
        database = self.databases.pop(record.id)
        if database is not None:
            self.streams.end_all(database)
            database.close()
        # What an open handle keeps (Windows) is removed at the next start: the catalog notes what it deleted.
        shutil.rmtree(self._files / record.id, ignore_errors=True)

    # Calls.

    def call(self, request: Request, cancel: Cancel | None = None) -> Response:
        """Answer a request, blocking while it waits for the writer's turn."""
        steps = self.steps(request, cancel or Cancel())
        try:
            while True:
                turn = next(steps)
                while not turn.block(0.05):
                    self.streams.sweep()
        except StopIteration as end:
            response: Response = end.value
            return response

    def steps(self, request: Request, cancel: Cancel) -> Generator[Turn, None, Response]:
        """Answer a request; yields a Turn while it waits for the writer's turn."""
        try:
            return (yield from self._route(request, cancel))
        except Refused as refused:
            return refused.response()
        except Exception:  # the last line of defence: a bug must not take the connection down
            log.exception("%s %s failed", request.method, request.path)
            return Refused(500, "internal error of the service; see service.log in its data folder").response()

    def _route(self, request: Request, cancel: Cancel) -> Generator[Turn, None, Response]:
        if len(request.body) > self.limits.body:
            raise Refused(413, f"the request body is larger than {self.limits.body:,} bytes")
        record: DatabaseRecord | None = None
        if request.host not in OWN_HOSTS:
            record = self._by_host(request.host)
        elif request.path.startswith("/v1/"):
            return self.management.handle(request)
        if request.path in PIPELINES:
            if request.method != "POST":
                return http.empty(405, ("allow", "POST"))
            grant = self.tokens.check_database(request.headers.get("authorization"), record)
            return (yield from self._pipeline(request, cancel, grant, PIPELINES[request.path]))
        return self._greet(request)

    def _by_host(self, host: str) -> DatabaseRecord:
        if not host.endswith("." + self.domain):
            raise Refused(421, f"this service does not answer for the host {host[:100]!r}")
        record = self.catalog.database_by_host(host)
        if record is None:
            raise Refused(404, f"there is no database at {host[:100]!r}")
        return record

    def _greet(self, request: Request) -> Response:
        lines = {
            "/version": f"pipemagic {__version__} (SQLite {apsw.sqlite_lib_version()})",
            "/health": "",
            **GREETINGS,
        }
        if request.path not in lines:
            return http.empty(404)
        if request.method not in ("GET", "HEAD"):
            return http.empty(405, ("allow", "GET,HEAD"))
        line = lines[request.path]
        return http.text(line) if line and request.method == "GET" else http.empty(200)

    def _pipeline(
        self, request: Request, cancel: Cancel, grant: Grant, version: int
    ) -> Generator[Turn, None, Response]:
        try:
            body = messages.decode_request(request.body)
        except ProtocolError as error:
            line = f"Cannot deserialize client message from JSON: {error.message}"
            raise Refused(400, line, plain=True) from None
        pipelines.check(body.requests, version)
        owner = (grant.database.id, grant.subject)
        if body.baton is None:
            stream = self.streams.open(self.databases.open(grant.database), owner)
        else:
            stream = self.streams.resume(body.baton, owner)
        pipeline = pipelines.Pipeline(stream, clock=self._clock, limits=self.limits, read_only=grant.read_only)
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
                self.streams.destroy(stream)
        if pipeline.closed:
            self.streams.close(stream)
        elif whole:
            baton = self.streams.finish(stream)
        head = b'{"baton":' + messages.encode(baton) + b',"base_url":null,"results":['
        return Response(200, [head, b",".join(entries), b"]}"])
