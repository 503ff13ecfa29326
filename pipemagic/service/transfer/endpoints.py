"""Endpoints that transfer whole databases, as a file or as SQL text.

``GET /info`` and ``GET /export/1`` return the file, ``GET /dump`` the text; ``POST /v1/upload`` receives the file of a
database that was created for it. Paths and responses are those of the public service and of sqld. An export is written
to a temporary file first, so that a slow client does not hold a read transaction, and is sent from there. Each export
is a new snapshot: it has no ETag and no ranges, which Starlette's `FileResponse` would offer.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive

from pipemagic.service.auth.tokens import AccessGrant, TokenAuthority
from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.catalog.usage import BLOCKED, OPERATION_BLOCKED, UsageMeter
from pipemagic.service.database_api.endpoints import TokenEndpoint
from pipemagic.service.endpoint import SLOWEST, SMALL_BODY, Handler, Runtime
from pipemagic.service.executor import Steps
from pipemagic.service.limits import MB, Limits
from pipemagic.service.memory import Reservation
from pipemagic.service.request import Disconnected, ServiceRequest
from pipemagic.service.responses import Refused, StreamedResponse, json, storage_refusal
from pipemagic.service.sqlite.database import snapshot
from pipemagic.service.sqlite.databases import UPLOAD_PATH, Databases
from pipemagic.service.transfer.dump import dump
from pipemagic.service.transfer.upload import validate_upload

log = logging.getLogger(__name__)

GENERATION = 1
"""The only generation: the history of a database is not kept."""
CHUNK = 256 * 1024
NO_LIMIT = 2**62
"""The body of an upload is limited by the size limit of its database."""
MARGIN = 64 * MB
"""Bytes of the disk that transfers leave free; of a small disk, a twentieth."""
EXPORT_TIME = 60.0
"""Seconds in which a client must read an export, and one more for each `SLOWEST` bytes of the database."""
CHECKS = 2
"""Uploads that are validated at a time, each in a process with its own memory (`validation.MEMORY`); others wait."""
RETRY_AFTER = "5"
"""Seconds after which a client should repeat a request that was refused because of another transfer."""


class Transfers:
    """Exports and uploads. ``folder`` is for temporary files; its content is removed at the start."""

    def __init__(
        self, folder: Path, databases: Databases, tokens: TokenAuthority, meter: UsageMeter, limits: Limits
    ) -> None:
        self.databases = databases
        self._folder, self._tokens, self._meter, self._limits = folder, tokens, meter, limits
        self._running: dict[tuple[str, bool], object] = {}
        """A key for each running export and upload, by the id of its database and whether its token is read-only."""
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # a full disk: the service starts, and each transfer tries again
            folder.mkdir(parents=True, exist_ok=True)
        databases.finish_arrivals()

    def routes(self, runtime: Runtime) -> list[Route]:
        """Return the routes, at every address of the service."""
        downloads: dict[str, Handler] = {"/info": self._info, "/dump": self._dump, "/export/{generation}": self._export}
        upload = UploadEndpoint(runtime, self._tokens, self._upload, body_limit=NO_LIMIT)
        upload.transfers, upload.checks = self, asyncio.Semaphore(CHECKS)
        return [
            Route(UPLOAD_PATH, upload),
            *(Route(path, TokenEndpoint(runtime, self._tokens, handler, body_limit=SMALL_BODY, method="GET"))
              for path, handler in downloads.items()),
        ]  # fmt: skip

    @contextmanager
    def _one_at_a_time(self, grant: AccessGrant) -> Iterator[None]:
        """Raise `Refused` (429) if another export or upload of the database is running: its client may be slow.

        Read-only tokens have one of their own, so that they cannot keep the database's owner from exporting it.
        """
        key, name = object(), grant.database.name
        slot = grant.database.id, grant.read_only
        if self._running.setdefault(slot, key) is not key:
            which = "export with a read-only token" if grant.read_only else "export or upload"
            line = f"another {which} of the database {name} is running: try again when it has ended"
            raise Refused(429, line, "TRANSFER_RUNNING", headers={"retry-after": RETRY_AFTER})
        try:
            yield
        finally:
            del self._running[slot]

    @contextmanager
    def temporary_file(self, size: int) -> Iterator[Path]:
        """Provide the path of a temporary file for about ``size`` bytes; raise `Refused` (507) if they do not fit."""
        with _storage_errors():
            self._folder.mkdir(parents=True, exist_ok=True)
        self._check_space(size)
        with TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            yield Path(folder) / "database.sqlite"

    def _check_space(self, size: int) -> None:
        """Raise `Refused` (507) if a file of this size would use up the free space of the disk."""
        disk = shutil.disk_usage(self._folder)
        if disk.free < size + min(MARGIN, disk.total // 20):
            raise Refused(507, "the disk of the service is full: make room on it and try again", "DISK_FULL")

    def _must_end(self, cancelled: Callable[[], bool]) -> bool:
        """Raise `Refused` if a transfer is cancelled or the disk is full, otherwise return False."""
        if cancelled():
            raise Refused(503, "the transfer was cancelled: its client disconnected, or the service is stopping")
        self._check_space(0)
        return False

    # Uploads.

    @contextmanager
    def begin_upload(self, grant: AccessGrant, size: int) -> Iterator[FileIO]:
        """Provide the file for the body of an upload; ``size`` is 0 if it is not declared.

        Raise `Refused`, before the body is read, if the upload cannot succeed.
        """
        database = grant.database
        if grant.read_only:
            raise Refused(403, "Authorization forbidden: the token is read-only")
        if not self.databases.awaits_upload(database.id):
            line = f"the database {database.name} accepts no upload: create one with the seed type database_upload"
            raise Refused(409, line, "NOT_AWAITED")
        self._meter.block(database).check(writes=True)
        self._check_size(database, size)
        with self._one_at_a_time(grant), self.temporary_file(size) as path:
            file = path.open("xb", 0)  # without a buffer: closing it writes nothing that a full disk would not take
            try:
                yield file
            finally:
                with suppress(OSError):  # `finish` raises it; an upload that failed has another error
                    file.close()

    def write(self, grant: AccessGrant, file: FileIO, data: bytes) -> None:
        """Write a part of a body; raise `Refused`: 413 if the file becomes too large, 507 if the disk is full."""
        self._check_size(grant.database, file.tell() + len(data))
        self._check_space(len(data))
        rest = memoryview(data)
        with _storage_errors():
            while rest:
                rest = rest[file.write(rest) :]

    def finish(self, file: FileIO) -> None:
        """Close the file; raise `Refused` for what a network disk or a quota reports only then."""
        with _storage_errors():
            file.close()

    def _check_size(self, database: DatabaseRecord, size: int) -> None:
        limit = self._limits.size_of(database.configuration.size_limit)
        if limit is not None and size > limit:
            raise Refused(413, f"the file is larger than the {limit:,} bytes that the database may have")

    def _upload(self, request: ServiceRequest, file: FileIO) -> Steps[Response]:
        database, path = request.grant.database, Path(file.name)
        validate_upload(path, partial(self._must_end, lambda: request.cancelled))
        self._check_size(database, path.stat().st_size)  # a file that was rewritten may have grown
        self.databases.supply(database, path)
        self.databases.open(database)  # now it can have its replicas
        log.info("uploaded the file of %s/%s (%s)", database.organization, database.name, database.id)
        return json({})
        yield

    # Exports.

    def _info(self, *_: object) -> Steps[Response]:
        return json({"current_generation": GENERATION, "snapshot": True})
        yield

    def _dump(self, request: ServiceRequest, _: bytes) -> Steps[Response | bytes]:
        database, cancelled = request.grant.database, lambda: request.cancelled
        with self._one_at_a_time(request.grant), self.copy(database, cancelled) as path:
            yield StreamedResponse("application/sql")
            chunks = dump(path, partial(self._must_end, cancelled))
            yield from _in_time(self._while_readable(database, chunks), path)
        return b""

    def _export(self, request: ServiceRequest, _: bytes) -> Steps[Response | bytes]:
        generation, database = request.path_params["generation"], request.grant.database
        if generation != str(GENERATION):
            raise Refused(404, f"the database has no generation {generation[:20]}; /info returns the current one")
        copy = self.copy(database, lambda: request.cancelled)
        with self._one_at_a_time(request.grant), copy as path, path.open("rb") as file:
            yield StreamedResponse("application/vnd.sqlite3", {"content-length": str(path.stat().st_size)})
            yield from _in_time(self._while_readable(database, iter(lambda: file.read(CHUNK), b"")), path)
        return b""

    def _must_end_copy(
        self, cancelled: Callable[[], bool], database: DatabaseRecord, outgrown: threading.Event
    ) -> bool:  # fmt: skip
        """Raise `Refused` also if the database was suspended, or has changed too much (``outgrown``)."""
        if outgrown.is_set():
            raise Refused(503, "others wrote too much to the database while it was copied: try again later")
        if not self.databases.may_be_read(database):
            raise Refused(403, f"{OPERATION_BLOCKED}: the database {database.name} was suspended", BLOCKED)
        return self._must_end(cancelled)

    def _while_readable(self, database: DatabaseRecord, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks of an export; end its response when the database is suspended."""
        for chunk in chunks:
            if not self.databases.may_be_read(database):
                log.info("an export of %s/%s was ended: it was suspended", database.organization, database.name)
                raise Disconnected
            yield chunk

    @contextmanager
    def copy(self, database: DatabaseRecord, cancelled: Callable[[], bool]) -> Iterator[Path]:
        """Copy a database to a temporary file, which is removed at the end unless it was moved."""
        self._meter.block(database).check(writes=False)
        opened = self.databases.open(database)
        if opened.paused:
            raise Refused(503, f"the location {opened.code} is paused", "LOCATION_PAUSED")
        with self.temporary_file(self.databases.size(database.id)) as path:
            connection, outgrown = opened.take(), threading.Event()
            try:
                with opened.reading(outgrown.set):
                    snapshot(connection.raw, path, partial(self._must_end_copy, cancelled, database, outgrown))
            finally:
                connection.release(connection)
            yield path


class UploadEndpoint(TokenEndpoint):
    """An endpoint that writes its body to disk as it arrives."""

    transfers: Transfers
    checks: asyncio.Semaphore
    body_in_memory = False

    async def read(
        self, request: ServiceRequest, receive: Receive,
        memory: Reservation, stack: AsyncExitStack,  # noqa: ARG002 - the body goes to a file
    ) -> FileIO:  # fmt: skip
        """Write the body to a file, which is removed at the end of the request; each part has the time limit."""
        call: Callable[..., Any] = partial(self._runtime.executor.call, request.tenant)
        declared = request.headers.get("content-length", "")
        upload = self.transfers.begin_upload(request.grant, int(declared) if declared.isdecimal() else 0)
        file: FileIO = await call(upload.__enter__)
        stack.push_async_callback(call, upload.__exit__, None, None, None)
        more = True
        while more:
            async with self._runtime.body_time():
                message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            more = message.get("more_body", False)
            await call(self.transfers.write, request.grant, file, message.get("body", b""))
        await call(self.transfers.finish, file)
        await stack.enter_async_context(self.checks)
        return file


@contextmanager
def _storage_errors() -> Iterator[None]:
    """Raise `Refused` in the place of an error of the disk, which is no fault of the service."""
    try:
        yield
    except OSError as error:
        raise storage_refusal(error) or error from None


def _in_time(chunks: Iterable[bytes], path: Path) -> Iterator[bytes]:
    """Yield the chunks of an export while its client reads it in time; the server ends one that reads nothing."""
    seconds = EXPORT_TIME + path.stat().st_size / SLOWEST
    deadline = time.monotonic() + seconds
    for chunk in chunks:
        if time.monotonic() > deadline:
            log.warning("an export was ended: its client did not read it within %.0f s", seconds)
            raise Disconnected
        yield chunk
