"""The endpoints that transfer whole databases, as a file or as SQL text.

``GET /info`` and ``GET /export/1`` return the file, ``GET /dump`` the text; ``POST /v1/upload`` takes the file of a
database that was created for it. Paths and responses are those of the public service and of sqld. A copy is a
snapshot: it is written to disk first, so that a slow client does not block others, and is streamed from there.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import apsw
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive

from pipemagic.service.auth.tokens import AccessGrant, Tokens
from pipemagic.service.database_api.endpoints import TokenEndpoint
from pipemagic.service.endpoint import SMALL_BODY, Admission, CancelToken, Disconnected, Runtime
from pipemagic.service.executor import Steps
from pipemagic.service.registry.quotas import Meter, blocked
from pipemagic.service.registry.records import DatabaseRecord
from pipemagic.service.responses import Refused, StreamedResponse, json
from pipemagic.service.sqlite.backup import Stopped
from pipemagic.service.sqlite.databases import UPLOAD_PATH, Databases
from pipemagic.service.sqlite.statement import Rejected
from pipemagic.service.transfer import dumps
from pipemagic.service.transfer.snapshots import snapshot
from pipemagic.service.transfer.uploads import Spool, adopt, no_room

log = logging.getLogger(__name__)

UPLOAD, DUMP, INFO = UPLOAD_PATH, "/dump", "/info"
GENERATION = 1
"""The only generation: the history of a database is not kept."""

_PIECE = 256 * 1024
_WRITTEN_AT_ONCE = 1024 * 1024
NO_LIMIT = 2**62
"""No limit of the body: the size limit of the database applies."""
SQLITE, SQL = "application/vnd.sqlite3", "application/sql"


class Transfers:
    """Serves these requests. ``folder`` is for temporary files; its content is removed at the start.

    ``size_limit`` returns the limit of a database in bytes, None if it has none.
    """

    def __init__(
        self, folder: Path, databases: Databases, tokens: Tokens, meter: Meter,
        size_limit: Callable[[DatabaseRecord], int | None],
    ) -> None:  # fmt: skip
        self.databases = databases
        self._folder, self._tokens, self._meter, self._size_limit = folder, tokens, meter, size_limit
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        databases.finish_arrivals()

    def routes(self, runtime: Runtime) -> list[Route]:
        """Return the routes, at every address of the service."""
        dump, info, export = (
            DownloadEndpoint(runtime, self._tokens, handler, body_limit=SMALL_BODY)
            for handler in (self._text, self._info, self._file)
        )
        upload = UploadEndpoint(runtime, self._tokens, self._upload, body_limit=NO_LIMIT)
        upload.transfers = self
        return [
            Route(DUMP, dump), Route(INFO, info), Route("/export/{generation}", export), Route(UPLOAD, upload),
        ]  # fmt: skip

    # -- upload

    def begin_upload(self, grant: AccessGrant, declared: int) -> Spool:
        """Return the destination of an upload, before its body is read.

        Raise `Refused` if it cannot succeed: the token is read-only, or the database waits for no file.
        """
        database = _writable(grant)
        self._check_awaited(database)
        self._let_pass(database, writes=True)
        spool = Spool(self._new_path(), self._size_limit(database))
        try:
            spool.expect(declared)
        except Refused:
            spool.discard()
            raise
        return spool

    def _upload(self, request: Request, admission: Admission, file: Path, cancel: CancelToken) -> Steps:  # noqa: ARG002
        database = _writable(admission.context)
        self._check_awaited(database)  # before the file is checked, which takes long
        adopt(file, cancel)
        self._fits(file, database)
        _sync(file)
        self.databases.supply(database, file)
        self.databases.open(database)  # now it can have its replicas
        log.info("database %s/%s (%s) uploaded", database.organization, database.name, database.id)
        return json({})
        yield

    def _check_awaited(self, database: DatabaseRecord) -> None:
        if not self.databases.awaits_upload(database.id):
            raise Refused(
                409, f"the database {database.name} takes no upload: create one with the seed type database_upload",
                "NOT_AWAITED",
            )  # fmt: skip

    def _fits(self, path: Path, database: DatabaseRecord) -> None:
        """Check the size again: a file that was rewritten may have grown."""
        limit = self._size_limit(database)
        if limit is not None and path.stat().st_size > limit:
            raise Refused(413, f"the file is larger than the {limit:,} bytes that the database may have")

    # -- download

    def _info(self, *_: object) -> Steps:
        return json({"current_generation": GENERATION, "snapshot": True})
        yield

    def _text(self, request: Request, admission: Admission, body: bytes, cancel: CancelToken) -> Steps:  # noqa: ARG002
        path = self.copy(admission.context.database, cancel)
        return (yield from _streamed(StreamedResponse(SQL), dumps.dump(path), path))

    def _file(self, request: Request, admission: Admission, body: bytes, cancel: CancelToken) -> Steps:  # noqa: ARG002
        generation = request.path_params["generation"]
        if generation != str(GENERATION):
            raise Refused(404, f"there is no generation {generation[:20]} of the database; /info gives the current one")
        path = self.copy(admission.context.database, cancel)
        response = StreamedResponse(SQLITE, {"content-length": str(path.stat().st_size)})
        return (yield from _streamed(response, _read(path), path))

    def check_quotas(self, organization: str) -> None:
        """Raise `Refused` (403) for a further database with content if the organization may not write any more."""
        block = self._meter.organization_block(organization)
        if block is not None and (reason := block.reason(writes=True)):
            raise _forbidden(blocked(reason))

    def copy(self, database: DatabaseRecord, cancel: CancelToken) -> Path:
        """Copy a database to a new file, which the caller moves or removes."""
        self._let_pass(database, writes=False)
        opened = self.databases.open(database)
        if opened.paused:
            raise Refused(503, f"the location {opened.code} is paused", "LOCATION_PAUSED")
        path = self._new_path()
        connection = opened.take()
        try:
            snapshot(connection.raw, path, lambda: cancel.cancelled)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, Stopped):
                raise Refused(503, "the copy was given up: its client hung up, or the service is stopping") from None
            if isinstance(error, apsw.FullError | apsw.IOError):
                raise no_room(error) from None
            raise
        finally:
            opened.give_back(connection)
        return path

    # -- both

    def _let_pass(self, database: DatabaseRecord, *, writes: bool) -> None:
        """Raise `Refused` (403) if a quota or the database's configuration blocks its statements."""
        try:
            self._meter.check(database, writes=writes)
        except Rejected as rejected:
            raise _forbidden(rejected) from None

    def _new_path(self) -> Path:
        return self._folder / secrets.token_hex(12)


class DownloadEndpoint(TokenEndpoint):
    """An endpoint that returns a whole database."""

    method = "GET"


class UploadEndpoint(TokenEndpoint):
    """An endpoint that writes its body to disk as it arrives."""

    transfers: Transfers
    body_in_memory = False

    async def read(self, request: Request, admission: Admission, receive: Receive, stack: AsyncExitStack) -> Path:
        """Write the body to a file, which is removed at the end of the request; each part has the time limit."""
        call = partial(self._runtime.executor.call, admission.tenant)
        declared = request.headers.get("content-length", "")
        size = int(declared) if declared.isdecimal() else 0
        spool: Spool = await call(self.transfers.begin_upload, admission.context, size)
        stack.push_async_callback(call, spool.discard)
        pending, size, more = [], 0, True
        while more:
            async with self._runtime.body_time():
                message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            more = message.get("more_body", False)
            pending.append(message.get("body", b""))
            size += len(pending[-1])
            if size >= _WRITTEN_AT_ONCE or not more:
                await call(spool.write, b"".join(pending))
                pending, size = [], 0
        await call(spool.finish)
        return spool.path


def _writable(grant: AccessGrant) -> DatabaseRecord:
    if grant.read_only:
        raise Refused(403, "Authorization forbidden: the token is read-only")
    return grant.database


def _forbidden(rejected: Rejected) -> Refused:
    return Refused(403, rejected.error.message, rejected.error.code)


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _streamed(response: StreamedResponse, pieces: Iterator[bytes], path: Path) -> Steps:
    """Yield the response and its pieces, then remove the file, also if the client hangs up."""
    try:
        yield response
        yield from pieces
    finally:
        with suppress(OSError):
            path.unlink()
    return b""


def _sync(path: Path) -> None:
    """Flush the file to disk before the upload is acknowledged."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())
