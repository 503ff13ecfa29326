"""A class and the seats of its students, stored in a private file of the user's settings."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from pipemagic.config import config_folder, make_config_folder, private_lock, write_private
from pipemagic.errors import NotFound, SessionError
from pipemagic.suggestions import nearest
from pipemagic.teaching.classes.roster import Student, labels, marks

LOCK_TIMEOUT = 1.0
"""Seconds to wait for another command that changes the same class."""


class Seat(msgspec.Struct):
    """A student of a class and the student's database.

    ``attempted`` is set before the database is created, ``ready`` once it has the content of the template. ``expires``
    is the time at which the token and the one-time code expire, in Unix seconds.
    """

    key: str
    student: str
    database: str
    email: str = ""
    url: str = ""
    token: str = ""
    one_time_code: str = ""
    expires: float = 0
    attempted: bool = False
    ready: bool = False


class Class(msgspec.Struct):
    """A class: the organization ``organization`` at ``api`` has its databases in ``group``.

    ``id`` is in each of its databases. ``copies`` is set if the service has copied the template itself, ``record`` if
    wrong answers are recorded in the databases, and ``codes`` unless the service has no one-time codes.

    ``template`` is the database that each student gets a copy of, '' for none. ``expires`` is the end of the lesson, in
    Unix seconds. ``address`` is the address that students use, '' for that of each database; ``link`` is printed in the
    hand-outs.
    """

    name: str
    api: str
    organization: str
    group: str
    template: str = ""
    expires: float = 0
    size_limit: str = ""
    address: str = ""
    link: str = ""
    id: str = msgspec.field(default_factory=lambda: secrets.token_hex(8))
    copies: bool = False
    record: bool = False
    codes: bool = True
    seats: list[Seat] = []

    def save(self) -> None:
        """Write the file of the class."""
        _make_folder()
        write_private(_path(self.name), msgspec.json.format(msgspec.json.encode(self)) + b"\n")

    def remove(self) -> None:
        """Delete the file of the class."""
        _path(self.name).unlink()

    def is_complete(self, seat: Seat) -> bool:
        """Return True if a seat has a database, and a token and a code until the end of the lesson."""
        has_code = bool(seat.one_time_code) or not self.codes
        return seat.ready and bool(seat.token) and has_code and seat.expires == self.expires

    @property
    def _students(self) -> list[Student]:
        return [Student(seat.key, seat.student, seat.email) for seat in self.seats]

    def labels(self) -> dict[str, str]:
        """Return how each student is named, by key; those of one name are distinguished (see `roster.labels`)."""
        return labels(self._students)

    def label(self, seat: Seat) -> str:
        """Return how the student of a seat is named."""
        return self.labels()[seat.key]

    def find(self, students: Sequence[str]) -> list[Seat]:
        """Return the seats of students by name, label, email address, id or database; raise NotFound for another."""
        seats = {seat.key: seat for seat in map(self._seat, students)}
        return list(seats.values())

    def _seat(self, text: str) -> Seat:
        folded, names = text.casefold().strip(), self.labels()
        seats = [
            seat for seat in self.seats
            if folded and folded in (
                seat.key, seat.student.casefold(), seat.email.casefold(), seat.database, names[seat.key].casefold()
            )
        ]  # fmt: skip
        if len(seats) == 1:
            return seats[0]
        if seats:
            distinct = marks(self._students)
            write = " or ".join(distinct[seat.key] or seat.database for seat in seats)
            raise SessionError(f"the class {self.name} has {len(seats)} students named {text}", hint=f"write {write}")
        guess = nearest(text, [seat.student for seat in self.seats])
        hint = f"did you mean {guess}?" if guess else f"list the students with `pipemagic class status {self.name}`"
        raise NotFound(f"the class {self.name} has no student {text}", status=404, hint=hint)


def names() -> list[str]:
    """Return the names of the classes on this machine."""
    return sorted(path.stem for path in _folder().glob("*.json"))


def load(name: str = "") -> Class:
    """Return a class by name; without a name the only one. Raise NotFound."""
    classes = names()
    if not name and len(classes) == 1:
        [name] = classes
    if name not in classes:
        missing = f"class {name} does not exist" if name else "several classes exist" if classes else "no class exists"
        create = "create one with `pipemagic class create ROSTER.csv --group G`"
        hint = f"the classes are: {', '.join(classes)}" if classes else create
        raise NotFound(missing, status=404, hint=hint)
    path = _path(name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Class)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise SessionError(
            f"cannot read {path}: it was written by another version of pipemagic",
            hint="move the file away, and delete the databases of the class with `pipemagic db destroy`",
        ) from None


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Prevent other commands from changing the class during the block; raise SessionError if one does."""
    _make_folder()
    try:
        lock = private_lock(_folder() / f"{name}.lock").acquire(LOCK_TIMEOUT)
    except TimeoutError:
        raise SessionError(
            f"another command is changing the class {name}", hint="try again when it has finished"
        ) from None
    with lock:
        yield


def _folder() -> Path:
    return config_folder() / "classes"


def _make_folder() -> None:
    make_config_folder(config_folder())
    make_config_folder(_folder())


def _path(name: str) -> Path:
    return _folder() / f"{name}.json"
