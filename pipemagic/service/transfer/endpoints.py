"""The endpoints of whole databases: their file, their SQL text, and files that become databases.

``GET /info`` and ``GET /export/1`` give the file, ``GET /dump`` the text, ``POST /v1/upload`` takes the file of a
database that was created for it. Paths and answers are those of the public service and of sqld. Each copy is that of
one moment: it is made on disk first, so that a slow client holds nothing up, and is streamed from there.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from pipemagic.service.embedded.databases import UPLOAD_PATH, Databases
from pipemagic.service.embedded.plans import Rejected
from pipemagic.service.haste import AT_LEISURE
from pipemagic.service.http import Body, Cancel, Generated, Refused, Request, Response, empty, json
from pipemagic.service.registry.quotas import Meter, blocked
from pipemagic.service.registry.records import DatabaseRecord
from pipemagic.service.registry.tokens import Grant, Tokens
from pipemagic.service.transfer import dumps
from pipemagic.service.transfer.snapshots import Stopped, snapshot
from pipemagic.service.transfer.uploads import Spool, adopt, no_room

log = logging.getLogger(__name__)

UPLOAD, DUMP, INFO = UPLOAD_PATH, "/dump", "/info"
GENERATION = 1
"""The only one: a database's history is not kept."""

_EXPORT = re.compile(r"/export/([0-9]{1,9})")
_PIECE = 256 * 1024
SQLITE, SQL = "application/vnd.sqlite3", "application/sql"


class Transfers:
    """Answers these requests. ``folder`` is for files on their way; what is in it at the start is removed.

    ``size_limit`` gives how large a database may be, in bytes, None without a limit.
    """

    def __init__(
        self, folder: Path, databases: Databases, tokens: Tokens, meter: Meter,
        size_limit: Callable[[DatabaseRecord], int | None],
    ) -> None:  # fmt: skip
        self.databases = databases
        self._folder, self._tokens, self._meter, self._size_limit = folder, tokens, meter, size_limit
        self._lock = threading.Lock()
        self._arriving: set[str] = set()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        databases.finish_arrivals()

    @staticmethod
    def takes(path: str) -> bool:
        """Whether a path is one of these."""
        return path in (UPLOAD, DUMP, INFO) or _EXPORT.fullmatch(path) is not None

    # -- in

    def intake(self, request: Request, record: DatabaseRecord | None) -> Spool | None:
        """Say where the body of a request goes, before it is read; None if it goes into memory.

        Refused where the request cannot succeed: a token without the right, a database that awaits nothing.
        """
        if request.path != UPLOAD or request.method != "POST":
            return None
        database = self._writable(request, record)
        if not self.databases.awaits_upload(database.id):
            raise Refused(
                409, f"the database {database.name} takes no upload: create one with the seed type database_upload",
                "NOT_AWAITED",
            )  # fmt: skip
        self._let_pass(database, writes=True)
        spool = Spool(self._new_path(), self._size_limit(database))
        try:
            declared = request.headers.get("content-length", "")
            spool.expect(int(declared) if declared.isdecimal() else 0)
        except Refused:
            spool.discard()
            raise
        return spool

    def _upload(self, request: Request, cancel: Cancel, record: DatabaseRecord | None) -> Response:
        if request.file is None:
            raise Refused(400, "send the file as the body of the request")
        database = self._writable(request, record)
        with self._one_at_a_time(database.id):
            if not self.databases.awaits_upload(database.id):
                raise Refused(409, f"the database {database.name} has its file already", "NOT_AWAITED")
            adopt(request.file, cancel)
            self._fits(request.file, database)
            _sync(request.file)
            self.databases.supply(database, request.file)
            self.databases.open(database)  # now it can have its replicas
        log.info("database %s/%s (%s) uploaded", database.organization, database.name, database.id)
        return json({})

    def _fits(self, path: Path, database: DatabaseRecord) -> None:
        """Check the size once more: a file that was rewritten may have grown."""
        limit = self._size_limit(database)
        if limit is not None and path.stat().st_size > limit:
            raise Refused(413, f"the file is larger than the {limit:,} bytes that the database may have")

    def _writable(self, request: Request, record: DatabaseRecord | None) -> DatabaseRecord:
        grant = self._grant(request, record)
        if grant.read_only:
            raise Refused(403, "Authorization forbidden: the token is read-only")
        return grant.database

    @contextmanager
    def _one_at_a_time(self, identifier: str) -> Iterator[None]:
        with self._lock:
            if identifier in self._arriving:
                raise Refused(409, "another upload to this database is under way", "NOT_AWAITED")
            self._arriving.add(identifier)
        try:
            yield
        finally:
            with self._lock:
                self._arriving.discard(identifier)

    # -- out

    def handle(self, request: Request, cancel: Cancel, record: DatabaseRecord | None) -> Response:
        """Answer a request to the database ``record``; None at an address where the token names the database."""
        method = "POST" if request.path == UPLOAD else "GET"
        if request.method != method:
            return empty(405, ("allow", method))
        if request.path == UPLOAD:
            return self._upload(request, cancel, record)
        database = self._grant(request, record).database
        if request.path == INFO:
            return json({"current_generation": GENERATION, "snapshot": True})
        if request.path == DUMP:
            return self._text(database, cancel)
        return self._file(request.path, database, cancel)

    def check_quotas(self, organization: str) -> None:
        """Refuse (403) one more database with something in it where the organization may write no more."""
        block = self._meter.organization_block(organization)
        if block is not None and (reason := block.reason(writes=True)):
            raise _told(blocked(reason))

    def copy(self, database: DatabaseRecord, cancel: Cancel) -> Path:
        """Make a copy of a database as it is now; the file is the caller's to move or to remove."""
        self._let_pass(database, writes=False)
        opened = self.databases.open(database)
        if opened.paused:
            raise Refused(503, f"the location {opened.code} is paused", "LOCATION_PAUSED")
        path = self._new_path()
        connection = opened.take()
        connection.hurry(AT_LEISURE)
        try:
            snapshot(connection.raw, path, lambda: cancel.is_set)
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

    def _text(self, database: DatabaseRecord, cancel: Cancel) -> Response:
        path = self.copy(database, cancel)
        return Response(200, _started(dumps.dump(path), path), SQL)

    def _file(self, path: str, database: DatabaseRecord, cancel: Cancel) -> Response:
        match = _EXPORT.fullmatch(path)
        assert match is not None
        if int(match[1]) != GENERATION:
            raise Refused(404, f"there is no generation {match[1]} of the database; /info gives the current one")
        copy = self.copy(database, cancel)
        size = ("content-length", str(copy.stat().st_size))
        return Response(200, _started(_read(copy), copy), SQLITE, (size,))

    # -- both

    def _grant(self, request: Request, record: DatabaseRecord | None) -> Grant:
        return self._tokens.check_database(request.headers.get("authorization"), record)

    def _let_pass(self, database: DatabaseRecord, *, writes: bool) -> None:
        """Refuse (403) what a quota or the database's configuration forbids its statements."""
        try:
            self._meter.check(database, writes=writes)
        except Rejected as rejected:
            raise _told(rejected) from None

    def _new_path(self) -> Path:
        return self._folder / secrets.token_hex(12)


def _told(rejected: Rejected) -> Refused:
    return Refused(403, rejected.error.message, rejected.error.code)


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _started(pieces: Iterator[bytes], path: Path) -> Body:
    """Give the pieces as a body and remove the file behind them, also if nobody takes them to the end."""

    def all_of_them() -> Generator[bytes, None, bytes]:
        try:
            yield b""
            yield from pieces
        finally:
            with suppress(OSError):
                path.unlink()
        return b""

    made = all_of_them()
    return Generated(next(made), made)  # from here on, closing it or letting it go removes the file


def _sync(path: Path) -> None:
    """Have the file on disk before anybody is told so."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
