"""How a server is: its version, its health, the time of a round trip. Asked beside the stream of the cells."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pipemagic.errors import ConnectError, PipemagicError

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.session import Connection

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What a server said of itself. ``trouble`` says why it said nothing; ``seconds`` took its answer to /health."""

    version: str = ""
    health: str = ""
    seconds: float | None = None
    trouble: str = ""
    asking: bool = False

    @property
    def words(self) -> str:
        """All of it, for people."""
        if self.asking:
            return "asking ..."
        if self.trouble:
            return self.trouble
        trip = "" if self.seconds is None else f"round trip {self.seconds * 1000:.1f} ms"
        return ", ".join(filter(None, [self.version, self.health, trip]))


UNASKED = Answer()


def ask(connection: Connection, *, find: bool) -> Answer:
    """Ask the server of a connection; with ``find`` also at another address if nothing answers at its own.

    Never raises for what the server does.
    """
    try:
        return connection.once(_ask) if find else _ask(connection.database)
    except PipemagicError as error:
        return Answer(trouble=_first_line(error))


def _ask(database: Database) -> Answer:
    version = _or_why_not(database.version)
    started = time.perf_counter()
    health = "healthy" if database.health() else "says that it is not healthy"
    return Answer(version, health, time.perf_counter() - started)


def _or_why_not(question: Callable[[], str]) -> str:
    """Give the answer; '' where the server has none to give, raises where there is no server."""
    try:
        return question()
    except ConnectError:
        raise
    except PipemagicError:
        return "unknown version"


def _first_line(error: PipemagicError) -> str:
    return error.message.partition("\n")[0]
