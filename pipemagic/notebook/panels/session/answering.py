"""How a server is: its version, its health, the time of a round trip. Asked beside the stream of the cells."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pipemagic.errors import AnswerTimeout, ConnectError, PipemagicError

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.session import Connection

T = TypeVar("T")

PATIENCE = 3.0
"""Seconds to wait for each answer: who looks at a panel wants to know soon that none comes."""

AGAIN = 5.0
"""Seconds after which a server is asked again that did not answer, or that a cell waits for."""

OURS = "pipemagic "
"""How the version of our own service begins."""


@dataclass(frozen=True)
class Answer:
    """What a server said of itself. ``trouble`` says why it said nothing; ``seconds`` took its answer to /health.

    ``at`` is when that was, by `time.monotonic`. ``asking`` tells that it is being asked anew.
    """

    version: str = ""
    health: str = ""
    seconds: float | None = None
    trouble: str = ""
    asking: bool = False
    at: float = field(default=0.0, compare=False)

    @property
    def words(self) -> str:
        """All of it, for people; what is known stays while it is asked again."""
        trip = "" if self.seconds is None else f"round trip {self.seconds * 1000:.1f} ms"
        told = ", ".join(filter(None, [self.trouble or self.version, self.health, trip]))
        return ", ".join(filter(None, [told, "asking ..." if self.asking else ""]))

    @property
    def strict(self) -> bool:
        """Whether it ends every transaction when its time is over, as our own service does.

        Others, such as sqld, may do so only when somebody else wants to write.
        """
        return self.version.startswith(OURS)


UNASKED = Answer()


def ask(connection: Connection, *, find: bool) -> Answer:
    """Ask the server of a connection; with ``find`` also at another address if nothing answers at its own.

    Never raises for what the server does.
    """
    try:
        return connection.once(_ask) if find else _ask(connection.database)
    except AnswerTimeout:
        return Answer(trouble=f"no answer within {PATIENCE:.0f} s", at=time.monotonic())
    except PipemagicError as error:
        return Answer(trouble=_first_line(error), at=time.monotonic())


def _ask(database: Database) -> Answer:
    """Ask over HTTP connections of its own: with less patience than cells have, and not counted as theirs."""
    with database.sibling(timeout=PATIENCE) as beside:
        version = _or_why_not(beside.version)
        started = time.perf_counter()
        health = "healthy" if beside.health() else "says that it is not healthy"
        ended = time.perf_counter()
    return Answer(version, health, ended - started, at=time.monotonic())


def _or_why_not(question: Callable[[], str]) -> str:
    """Give the answer; '' where the server has none to give, raises where there is no server."""
    try:
        return question()
    except (ConnectError, AnswerTimeout):
        raise
    except PipemagicError:
        return "unknown version"


def _first_line(error: PipemagicError) -> str:
    return error.message.partition("\n")[0]
