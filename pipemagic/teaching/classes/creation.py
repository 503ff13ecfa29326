"""Create, reset and delete the databases of a class, several at a time, within the rate limits of the service.

Each step is recorded in the file of the class, so that a repeated command continues where the interrupted one stopped.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import TypeVar

from pipemagic.client.database import Database
from pipemagic.client.names import longest
from pipemagic.client.secrets import EncryptionKey, Secret
from pipemagic.errors import (
    AlreadyExists,
    ConnectError,
    InterruptedRequest,
    NotFound,
    PipemagicError,
    ServerError,
    SessionError,
    StatementError,
    UnknownOutcome,
    UnsupportedError,
)
from pipemagic.management_api.client import Management, OnlyFullAccess
from pipemagic.management_api.models import DatabaseInfo
from pipemagic.teaching.classes.model import Class, Seat
from pipemagic.teaching.classes.roster import Student, database_name, folded
from pipemagic.teaching.classes.template import (
    Content,
    Template,
    add_tables,
    read_content,
    read_template,
    restore,
)
from pipemagic.text import plural

T = TypeVar("T")

WORKERS = 8
"""The number of databases that are created at a time; the file of the class is written before each such group."""

PAUSES = (1, 2, 4, 8)
"""Seconds before further attempts after a failure that may be temporary."""

PATIENCE = 300.0
"""Seconds without a successful request after which the work for a busy service ends."""

LONGEST_PAUSE = 60.0
"""The longest pause, in seconds, for a busy service that does not name one."""

HALF_HOUR = 1800.0
"""Seconds after which the teacher's tokens, which are valid for an hour, are replaced."""

_LONGEST_NAME = 58  # of databases of hosted services

Progress = Callable[[int, int], None]
"""Called with the number of students that are done and the number of all students."""

Notify = Callable[[str], None]
"""Called with a line for the teacher, such as on a long wait."""


def add_students(class_: Class, students: Sequence[Student], slug: str) -> list[Seat]:
    """Add a seat for each student that has none; return the new ones. ``slug`` is the slug of the organization.

    A student with another key than before, since the roster now has email addresses or ids, keeps the seat of the same
    email address, or name if it is the only one. Seats get the names and email addresses of the roster.
    """
    keys, names = {student.key for student in students}, Counter(folded(student.name) for student in students)
    seats, databases = {seat.key: seat for seat in class_.seats}, {seat.database for seat in class_.seats}
    earlier = {(seat.key, folded(seat.student)): seat for seat in class_.seats if seat.key not in keys}
    new = []
    for student in students:
        name = folded(student.name)
        seat = seats.get(student.key) or earlier.pop((folded(student.email), name), None)
        if not seat and names[name] == 1:
            seat = earlier.pop((name, name), None)
        if seat:
            seat.key, seat.student, seat.email = student
            continue
        database = database_name(class_.name, student, min(longest("database", slug), _LONGEST_NAME), databases)
        databases.add(database)
        new.append(Seat(student.key, student.name, database, student.email))
    class_.seats += new
    return new


def create(
    api: Management, class_: Class, *, progress: Progress = lambda *_: None, notify: Notify = lambda _: None,
    key: EncryptionKey | None = None,
) -> int:  # fmt: skip
    """Create what is missing: databases, their content, tokens and codes until the end of the lesson; return how many.

    ``key`` is that of an encrypted template; the databases of the students are not encrypted. Raise SessionError,
    before anything is created, if a database has the name of a new one.
    """
    work = _Work(api, class_, notify, key)
    if foreign := refresh(class_, work.with_retries(lambda: existing(api))):
        raise _foreign(class_, foreign[0])
    missing = [seat for seat in class_.seats if not class_.is_complete(seat)]
    if not all(seat.ready for seat in missing):
        work.with_retries(lambda: work.content)  # NotFound for a wrong template is raised here
    class_.save()

    def begin(seat: Seat) -> None:
        seat.attempted = True

    def prepare(seat: Seat) -> None:
        if not seat.ready:
            work.create(seat)
        extended = seat.expires != class_.expires
        if not seat.token or extended:
            seat.token = str(work.token(seat))
        if not seat.one_time_code or extended:
            seat.one_time_code = work.code(seat)
        seat.expires = class_.expires

    work.run(missing, begin, prepare, progress, "class create")
    return len(missing)


def reset(
    api: Management, class_: Class, seats: Sequence[Seat], progress: Progress = lambda *_: None,
    notify: Notify = lambda _: None, key: EncryptionKey | None = None,
) -> list[Seat]:  # fmt: skip
    """Replace the content of databases with the content of the template; return the seats that got a new token.

    Addresses and tokens stay, unless SQL cannot create the content; then the databases are deleted and created again,
    if the service can copy the template.
    """
    work, replaced = _Work(api, class_, notify, key), list[Seat]()
    refresh(class_, work.with_retries(lambda: existing(api)))
    if missing := [class_.label(seat) for seat in seats if not seat.url]:
        raise SessionError(f"no database yet for {', '.join(missing)}", hint="run `pipemagic class create` first")
    try:
        work.with_retries(lambda: work.template)
    except UnsupportedError:
        if not class_.copies:
            raise
        replaced = list(seats)

    def begin(seat: Seat) -> None:
        seat.ready = False
        if replaced:
            seat.token = seat.one_time_code = ""  # they end with the database

    def again(seat: Seat) -> None:
        if replaced:
            with suppress(NotFound):
                work.with_retries(lambda: api.delete_database(seat.database))
            work.create(seat)
            seat.token, seat.one_time_code = str(work.token(seat)), work.code(seat)
        else:
            work.restore(seat)

    work.run(seats, begin, again, progress, "class reset")
    return replaced


def renew_codes(
    api: Management, class_: Class, seats: Sequence[Seat], notify: Notify = lambda _: None
) -> None:  # fmt: skip
    """Replace the codes of students; earlier tokens stay valid. Raise SessionError if that is not possible."""
    work, again = _Work(api, class_, notify), "run `pipemagic class create` again"
    refresh(class_, work.with_retries(lambda: existing(api)))
    if class_.expires <= time.time():
        raise SessionError(f"the lesson of the class {class_.name} is over", hint=again)
    if missing := [class_.label(seat) for seat in seats if not seat.ready]:
        raise SessionError(f"no database yet for {', '.join(missing)}", hint=again)

    def renew(seat: Seat) -> None:
        seat.one_time_code = work.code(seat)
        if not seat.one_time_code:
            raise UnsupportedError("this service has no codes", hint="give the student the token of the hand-outs")
        seat.token = str(work.token(seat))  # the earlier one may have been invalidated

    work.run(seats, lambda _: None, renew, lambda *_: None, "class code")


def close(
    api: Management, class_: Class, progress: Progress = lambda *_: None, notify: Notify = lambda _: None
) -> list[Seat]:
    """Delete the databases of a class, and then the class; return the seats with databases that are not the class's."""
    work, foreign = _Work(api, class_, notify), list[Seat]()

    def delete(seat: Seat) -> None:
        with suppress(NotFound):
            if seat.ready or work.owns(seat):
                work.with_retries(lambda: api.delete_database(seat.database))
            else:
                foreign.append(seat)
        seat.attempted = seat.ready = False

    attempted = [seat for seat in class_.seats if seat.attempted]
    work.run(attempted, lambda _: None, delete, progress, "class close")
    class_.remove()
    return foreign


def existing(api: Management) -> dict[str, DatabaseInfo] | None:
    """Return the databases of the organization by name; None if the service cannot list them."""
    try:
        return {database.name: database for database in api.databases()}
    except UnsupportedError:
        return None


def refresh(class_: Class, there: dict[str, DatabaseInfo] | None) -> list[str]:
    """Update seats from the existing databases; return the names of those that exist before their seat's creation."""
    if there is None:
        return []
    foreign = []
    for seat in class_.seats:
        info = there.get(seat.database)
        if info is None:  # deleted, or never created
            seat.attempted = seat.ready = False
            seat.token = seat.one_time_code = seat.url = ""
        elif seat.attempted:
            seat.url = info.url  # the port of a local service may change
        else:
            foreign.append(seat.database)
    return foreign


def _foreign(class_: Class, name: str) -> SessionError:
    hint = "choose another name for the class with --name"
    return SessionError(f"database {name} already exists and does not belong to the class {class_.name}", hint=hint)


class Access:
    """Opens databases of a class for the teacher, with one token of their group if the service has such tokens.

    At the service's own address, such as behind the proxy of a hub, only a token of a database selects it.
    """

    def __init__(self, api: Management, class_: Class, *, read_only: bool = False) -> None:
        self._api, self._class, self._read_only = api, class_, read_only
        self._lock = threading.Lock()
        self._tokens: dict[str, Secret] = {}  # by database, '' for that of the group
        self._until = -math.inf

    def __call__(self, seat: Seat) -> Database:
        """Return the database of a seat."""
        return self.open(seat, self._token_for(seat))

    def open(self, seat: Seat, token: str) -> Database:
        """Return the database of a seat with a token."""
        return Database(self._api.endpoint.refer(seat.url), token, read_only=self._read_only)

    def _token_for(self, seat: Seat) -> Secret:
        with self._lock:
            if time.monotonic() >= self._until:
                self._tokens, self._until = {}, time.monotonic() + HALF_HOUR
                if seat.url != self._api.url:
                    with suppress(UnsupportedError, OnlyFullAccess):
                        self._tokens[""] = self._api.create_group_token(
                            self._class.group, expiration="1h", read_only=self._read_only
                        )
            token = self._tokens.get("") or self._tokens.get(seat.database)
        if token is None:
            create = self._api.create_reading_token if self._read_only else self._api.create_token
            token = create(seat.database, expiration="1h")
            self._tokens[seat.database] = token
        return token


class _Work:
    """Requests for the databases of a class, in several threads; ``notify`` gets a line before long waits.

    ``key`` is that of an encrypted template. The service does not copy it: students would need the key for the copies.
    """

    def __init__(self, api: Management, class_: Class, notify: Notify, key: EncryptionKey | None = None) -> None:
        self._api, self._class, self._notify, self._key = api, class_, notify, key
        self._open = Access(api, class_)
        self._lock, self._one_by_one = threading.Lock(), threading.Lock()
        self._template: Template | None = None
        self._content: Content | None = None
        self._copies = bool(class_.template) and key is None
        self._stopped = threading.Event()
        self._busy = False
        self._busy_until, self._pause, self._succeeded = 0.0, 1.0, time.monotonic()

    # -- the template

    @property
    def template(self) -> Template:
        """The content of the template as SQL, which is read once."""
        with self._lock:
            if self._template is None:
                self._template = self._read(read_template) if self._class.template else Template()
            return self._template

    @property
    def content(self) -> Content:
        """The objects of the template, which are read once."""
        with self._lock:
            if self._content is None:
                self._content = self._read(read_content) if self._class.template else Content({})
            return self._content

    def _read(self, read: Callable[[Database], T]) -> T:
        name = self._class.template
        info = self._api.database(name)
        token = self._api.create_reading_token(name, expiration="1h")
        url = self._api.endpoint.refer(info.url)
        with Database(url, token, read_only=True, encryption_key=self._key) as database:
            return read(database)

    # -- one database

    def create(self, seat: Seat) -> None:
        """Create the database of a seat with the content of the template."""
        fresh = True
        try:
            info = self.with_retries(lambda: self._create(seat.database))
        except AlreadyExists:  # by an interrupted command, or by a request whose response was lost
            info, fresh = self.with_retries(lambda: self._api.database(seat.database)), False
        except ServerError as error:
            seat.attempted = error.status >= 500
            raise
        seat.url = info.url

        def fill() -> None:
            with self._open(seat) as database:
                self._fill(database, fresh=fresh)

        # A hosted service may take seconds to find a new database. Another command may create the same class.
        self.with_retries(fill, *((NotFound, StatementError) if fresh else (StatementError,)))
        seat.ready = True

    def _create(self, name: str) -> DatabaseInfo:
        limit = self._class.size_limit or None
        if self._copies:
            try:
                return self._api.create_database(
                    name, self._class.group, copy_of=self._class.template, size_limit=limit
                )
            except ServerError as error:
                if '"seed"' not in error.message:
                    raise
                self._copies = False
        return self._api.create_database(name, self._class.group, size_limit=limit)

    def _fill(self, database: Database, *, fresh: bool) -> None:
        """Send the content of the template, unless the database is a copy; raise SessionError for one of others."""
        content, owner, record = read_content(database), self._class.id, self._class.record
        copied = self._copies and content.objects == self.content.objects
        if content.owner == owner:  # a restore may have been interrupted
            try:
                restore(database, self.template, owner, record=record)
            except UnsupportedError:
                if not copied:
                    raise
        elif not (fresh or self._is_unmarked(content)):
            raise _foreign(self._class, database.url)
        elif copied:
            add_tables(database, content, owner, record=record)
            self._class.copies = True
        else:
            restore(database, self.template, owner, record=record)

    def _is_unmarked(self, content: Content) -> bool:
        """Return True for a database as it is between its creation and the creation of the progress table."""
        if not content.objects and not content.tables:
            return True
        return self._copies and content == self.content

    def owns(self, seat: Seat) -> bool:
        """Return True if a database belongs to the class, although its creation was interrupted."""
        with self._open(seat) as database:
            content = self.with_retries(lambda: read_content(database))
        return content.owner == self._class.id or self._is_unmarked(content)

    def restore(self, seat: Seat) -> None:
        """Replace the content of a database; repeat it if a student has written between two parts of it."""

        def send() -> None:
            with self._open(seat) as database:
                restore(database, self.template, self._class.id, record=self._class.record)

        self.with_retries(send, StatementError)
        seat.ready = True

    def token(self, seat: Seat) -> Secret:
        """Create the token of a student."""
        return self.with_retries(lambda: self._api.create_token(seat.database, expiration=self._expiration))

    def code(self, seat: Seat) -> str:
        """Create the code of a student, which ends earlier ones; return '' if the service has none."""
        if not self._class.codes:
            return ""
        expiration = self._expiration
        try:
            code = self.with_retries(lambda: self._api.create_code(seat.database, expiration=expiration, replace=True))
        except UnsupportedError:
            self._class.codes = False
            return ""
        return str(code)

    @property
    def _expiration(self) -> str:
        seconds = max(1, math.ceil(self._class.expires - time.time()))
        return f"{seconds}s" if seconds < 60 else f"{math.ceil(seconds / 60)}m"

    # -- requests

    def with_retries(self, send: Callable[[], T], *temporary: type[PipemagicError]) -> T:
        """Call ``send`` again after each temporary failure; for a busy service, one thread at a time does so."""
        failures = 0
        while True:
            self._sleep(0)
            with self._one_by_one if self._busy else nullcontext():
                if self._busy:
                    self._sleep(self._busy_until - time.monotonic())
                try:
                    result = send()
                except PipemagicError as error:
                    if getattr(error, "status", 0) in (429, 503):
                        self._set_busy(error)
                        continue
                    if not (_is_temporary(error) or isinstance(error, temporary)) or failures == len(PAUSES):
                        raise
                else:
                    self._busy, self._pause, self._succeeded = False, 1.0, time.monotonic()
                    return result
            self._sleep(PAUSES[failures])
            failures += 1

    def _set_busy(self, error: PipemagicError) -> None:
        """Let all threads wait until the service accepts requests; raise the error if that takes too long."""
        now, wait = time.monotonic(), getattr(error, "retry_after", None) or self._pause
        if now + wait > self._succeeded + PATIENCE:
            raise error
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        if wait >= 5 and now + wait > self._busy_until + 1:
            self._notify(f"The service is busy. Trying again in {wait:.0f} s.")
        self._busy, self._busy_until = True, now + wait

    def _sleep(self, seconds: float) -> None:
        if self._stopped.wait(max(0.0, seconds)):
            raise InterruptedRequest("interrupted", nothing_ran=True)

    def run(
        self, seats: Sequence[Seat], begin: Callable[[Seat], None], work: Callable[[Seat], None],
        progress: Progress, command: str,
    ) -> None:  # fmt: skip
        """Do the work for all seats; after a failure or an interrupt the other seats of the same group are finished.

        The class is saved after ``begin`` was called for each seat of a group, and after the work.
        """
        finished, hint = list[Seat](), f"run `pipemagic {command}` again to continue"
        pool = ThreadPoolExecutor(WORKERS)

        def finish(seat: Seat) -> PipemagicError | None:
            try:
                work(seat)
            except PipemagicError as error:
                text = f"{error.hint}\n{hint}".strip()
                return error.replace(message=f"{self._class.label(seat)}: {error.message}", hint=text)
            finished.append(seat)
            return None

        try:
            for at in range(0, len(seats), WORKERS):
                group = seats[at : at + WORKERS]
                for seat in group:
                    begin(seat)
                self._class.save()
                for error in list(pool.map(finish, group)):
                    if error is not None:
                        raise error
                progress(len(finished), len(seats))
        except KeyboardInterrupt:
            self._stopped.set()
            pool.shutdown()
            done = f"{len(finished)} of {plural(len(seats), 'student')}"
            raise InterruptedRequest(f"interrupted: {done} done", hint=hint) from None
        finally:
            pool.shutdown()
            self._class.save()


def _is_temporary(error: PipemagicError) -> bool:
    if isinstance(error, InterruptedRequest):
        return False
    return isinstance(error, ConnectError | UnknownOutcome) or getattr(error, "status", 0) >= 500
