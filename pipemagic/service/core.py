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
from collections.abc import Callable, Collection, Generator, Iterator
from pathlib import Path

from msgspec.structs import replace

from pipemagic.service import openapi
from pipemagic.service.embedded import storage
from pipemagic.service.embedded.databases import Databases
from pipemagic.service.embedded.interface import POSTED, DatabaseInterface, looks_brief
from pipemagic.service.embedded.placement import Placement
from pipemagic.service.embedded.streams import StreamTable
from pipemagic.service.health import Health
from pipemagic.service.hosting import LOCAL_DOMAIN, LOOPBACK_HOSTS
from pipemagic.service.http import Body, Cancel, Later, Refused, Request, Response
from pipemagic.service.limits import Limits
from pipemagic.service.management import PREFIXES, Management
from pipemagic.service.management.routing import Platform
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.logins import Logins
from pipemagic.service.registry.quotas import Meter
from pipemagic.service.registry.records import DatabaseRecord
from pipemagic.service.registry.tokens import Tokens
from pipemagic.service.transfer.endpoints import Transfers
from pipemagic.service.transfer.uploads import Spool
from pipemagic.service.turns import Turn
from pipemagic.service.web.compression import compressed
from pipemagic.service.web.cors import Cors
from pipemagic.service.web.exposition import Page
from pipemagic.service.web.measures import measure_databases, measure_streams

log = logging.getLogger(__name__)

SWEEP_EVERY = 1.0  # seconds at most between two looks; no window is shorter


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
        here: str | None = None,
        simulate_latency: bool = False,
        signup: bool = True,
        cors: Collection[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.limits = limits or Limits()
        self.folder = folder
        self.domain = domain
        self.own_hosts = LOOPBACK_HOSTS | {domain}
        self._clock = clock
        self._files = folder / "databases"
        self.catalog = Catalog(folder / "catalog.sqlite", domain=domain, now=now)
        self.catalog.finish_deletions(self._files)
        self.tokens = Tokens(folder, self.catalog, now, random)
        self.streams = StreamTable(clock, random, self.limits)
        self.placement = Placement(
            lambda: self.databases, self.streams, self.catalog, self.limits, clock,
            here=here, simulate_latency=simulate_latency,
        )  # fmt: skip
        self.databases = Databases(self._files, self.catalog, self.limits, clock, self.placement.replicate)
        self.meter = Meter(self.catalog, now=now, size=self.databases.size)
        self.logins = Logins(self.catalog, self.tokens, clock=clock, random=random, signup=signup)
        self.transfers = Transfers(folder / "transfers", self.databases, self.tokens, self.meter, self._size_limit)
        self.management = Management(Platform(
            self.catalog, self.tokens, self.logins, self.meter, on_delete=self._deleted, transfers=self.transfers,
            on_locations=self.placement.sync, on_rotate=self._rotated, engine=self.placement,
        ))  # fmt: skip
        self.health = Health(folder, self.catalog, clock)
        self._cors = Cors(cors)
        self.interface = DatabaseInterface(
            self.placement, self.streams, self.tokens, self.meter, self.health, clock, self.limits
        )
        self._stopping = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_forever, name="pipemagic-sweeper", daemon=True)

    # Life.

    def start(self) -> None:
        """Start the sweeper, which enforces the windows when no request comes."""
        self._sweeper.start()
        self.placement.start()

    def close(self) -> None:
        """Interrupt what runs, roll back what is open, close every file."""
        self._stopping.set()
        if self._sweeper.is_alive():
            self._sweeper.join()
        self.streams.end_all()
        self.placement.close()
        self.databases.close()
        self.meter.flush()
        self.catalog.close()

    def sweep(self) -> None:
        """Enforce the windows once, now."""
        now = self._clock()
        self.streams.sweep()
        self.databases.expire(now)
        self.databases.trim(now)
        self.meter.sweep(now)

    def _sweep_forever(self) -> None:
        wait = SWEEP_EVERY
        while not self._stopping.wait(wait):
            try:
                self.sweep()
                wait = self._until_due()
            except Exception:  # whatever it is: without the sweeper no window would end any more
                log.exception("the sweep of the streams met an error; it goes on")
                wait = SWEEP_EVERY

    def _until_due(self) -> float:
        """Give the seconds until the next look."""
        deadlines = (self.streams.next_deadline(), self.databases.next_deadline())
        times = [max(0.01, one - self._clock()) for one in deadlines if one is not None]
        return min([SWEEP_EVERY, *times])

    def _deleted(self, record: DatabaseRecord) -> None:
        self.placement.drop(record)
        # What an open handle keeps (Windows) is removed at the next start: the catalog notes what it deleted.
        shutil.rmtree(self._files / record.id, ignore_errors=True)

    def _rotated(self, record: DatabaseRecord) -> None:
        database = self.databases.get(record.id)
        if database is not None:
            self.streams.end_all(database)

    def measure(self, page: Page) -> None:
        """Say how things stand with streams, databases and replicas."""
        measure_streams(page, self.streams, self.limits)
        measure_databases(page, self.databases.in_use())

    # Calls.

    def call(self, request: Request, cancel: Cancel | None = None) -> Response:
        """Answer a request, blocking while it waits for the writer's turn, also between the chunks."""
        steps = self.steps(request, cancel or Cancel())
        try:
            while True:
                self._wait(next(steps))
        except StopIteration as end:
            response: Response = end.value
        if isinstance(response.chunks, Body):
            return replace(response, chunks=self._chunks(response))
        if response.sent is not None:
            response.sent()
        return response

    def _chunks(self, response: Response) -> Iterator[bytes]:
        body = response.chunks
        assert isinstance(body, Body)
        try:
            for piece in body:
                if isinstance(piece, Turn):
                    self._wait(piece)
                else:
                    yield piece
        finally:
            body.close()
            if response.sent is not None:
                response.sent()

    def _wait(self, turn: Turn) -> None:
        while not turn.block(0.05):
            self.sweep()

    def steps(self, request: Request, cancel: Cancel) -> Generator[Turn, None, Response]:
        """Answer a request; yields a Turn while it waits for the writer's turn."""
        response = yield from self._answer(request, cancel)
        response = compressed(response, request)
        if headers := self._cors.headers(request):
            response = replace(response, headers=response.headers + headers)
        return response

    def looks_brief(self, path: str, size: int) -> bool:
        """Tell by path and size of its body whether a request may be begun in haste."""
        return looks_brief(path, size) and not self.catalog.busy

    def _answer(self, request: Request, cancel: Cancel) -> Generator[Turn, None, Response]:
        try:
            return (yield from self._route(request, cancel))
        except Refused as refused:
            return refused.response()
        except Exception as error:  # the last line of defence: a bug must not take the connection down
            log.exception("%s %s failed", request.method, request.path)
            if (told := storage.refusal(error)) is not None:
                return told.response()
            return Refused(500, "internal error of the service; see service.log in its data folder").response()

    def _route(self, request: Request, cancel: Cancel) -> Generator[Turn, None, Response]:
        if len(request.body) > self.limits.body:
            raise Refused(413, f"the request body is larger than {self.limits.body:,} bytes")
        record: DatabaseRecord | None = None
        if request.host not in self.own_hosts:
            record = self._by_host(request.host)
        if (preflight := self._cors.preflight(request)) is not None:
            return preflight
        if record is None and request.path == openapi.PATH:
            return openapi.respond(request)
        if record is None and self._is_management(request.path):
            answer = self.management.handle(request)
            return answer if isinstance(answer, Response) else (yield from self._later(answer))
        if self.transfers.takes(request.path):
            return self.transfers.handle(request, cancel, record)
        return (yield from self.interface.handle(request, cancel, record))

    def _is_management(self, path: str) -> bool:
        return path.startswith(PREFIXES) and path not in POSTED and not self.transfers.takes(path)

    def _later(self, answer: Later) -> Generator[Turn, None, Response]:
        for turn in answer.turns:
            if not turn.granted:
                yield turn
        return answer.finish()

    def intake(self, request: Request) -> Spool | None:
        """Say where the body of a request goes, which is not read yet; None if into memory. May raise Refused."""
        record = self._by_host(request.host) if request.host not in self.own_hosts else None
        return self.transfers.intake(request, record)

    def _size_limit(self, record: DatabaseRecord) -> int | None:
        return self.limits.size_of(record.configuration.size_limit)

    def _by_host(self, host: str) -> DatabaseRecord:
        if not host.endswith((f".{self.domain}", f".{LOCAL_DOMAIN}")):
            raise Refused(421, f"this service does not answer for the host {host[:100]!r}")
        record = self.catalog.database_by_host(host)
        if record is None:
            raise Refused(404, f"there is no database at {host[:100]!r}")
        return record
