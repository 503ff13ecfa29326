"""One look at a connection, and at a request that was sent: plain data, which a panel draws."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipemagic.client.trace_format import format_seconds, format_size, redact
from pipemagic.counts import duration
from pipemagic.errors import SessionError
from pipemagic.hrana.stream import Tx
from pipemagic.session.messages import describe_transaction, shorten

if TYPE_CHECKING:
    from pipemagic.client.tracing import TracedRequest
    from pipemagic.client.transaction import LostTransaction
    from pipemagic.notebook.panels.session.answering import Answer
    from pipemagic.session import Connection

STEADY = 0.2
"""Seconds by which a moment has to differ from what it was taken for before to be another one."""

LISTED = 20
"""So many statements of a transaction are listed; those before them are counted."""

LONGEST = 160
"""Characters of a statement that are shown."""

OFF = "off"


@dataclass(frozen=True)
class Statements:
    """Statements of a transaction in short: the newest ones, and how many came before them."""

    texts: tuple[str, ...] = ()
    earlier: int = 0

    @classmethod
    def of(cls, texts: Sequence[str]) -> Statements:
        """Give those of some texts."""
        newest = texts[-LISTED:]
        short = tuple(redact(shorten(text[: 4 * LONGEST], LONGEST)) for text in newest)
        return cls(short, len(texts) - len(newest))


@dataclass(frozen=True)
class Lost:
    """A transaction that is gone: what it held, what of the last cell did not run, whether it can be run again."""

    loss: LostTransaction
    held: Statements
    left: Statements
    why: str
    """What ended it."""
    refused: str
    """Why it cannot be run again, '' if it can."""


@dataclass(frozen=True)
class Seen:
    """A connection at one moment.

    ``ends`` and ``idles`` are when the windows of the transaction and of the idle time end, in Unix seconds: None
    without a window, 0.0 if it is over. ``since`` is when its server-side connection was opened, ``running`` when a
    cell was first seen to run, in Unix seconds, too.
    """

    name: str
    where: str
    current: bool
    answer: Answer
    refused: bool = False
    running: float | None = None
    transaction: Tx = Tx.NONE
    count: int = 0
    statements: Statements = Statements()
    ends: float | None = None
    idles: float | None = None
    since: float | None = None
    instance: str = ""
    lost: Lost | None = None
    keeping: str = OFF
    kept: str = ""

    @property
    def state(self) -> str:
        """What its transaction is, in words that hold no times."""
        said = describe_transaction(self.transaction, self.count, None if self.lost is None else self.lost.loss)
        return f"{said[0].lower()}{said[1:]}"

    @property
    def late(self) -> bool:
        """Whether the time of the transaction is over."""
        return self.transaction is Tx.OPEN and self.ends == 0.0

    @property
    def gone(self) -> bool:
        """Whether the transaction is certainly rolled back: its connection has ended, or its server counts strictly."""
        return self.transaction is Tx.OPEN and (self.idles == 0.0 or (self.late and self.answer.strict))

    @property
    def opened_at(self) -> str:
        """The time of the day at which its server-side connection was opened; '' without one."""
        return "" if self.since is None else _time(self.since)


def see(connection: Connection, before: Seen | None, now: float, *, current: bool, answer: Answer) -> Seen:
    """Look at a connection. While a cell runs on it there is nothing to see but that: the rest is as it was."""
    if before is None:
        before = Seen(connection.name, connection.description, current, answer)
    seen = replace(before, where=connection.description, current=current, answer=answer)
    with connection.between_cells() as free:
        return _look(connection, seen, now) if free else replace(seen, running=before.running or now)


def _look(connection: Connection, before: Seen, now: float) -> Seen:
    clocks, stream = connection.clocks, connection.stream
    opened = None if stream is None or clocks.idle is None else stream.open_for()
    transaction = connection.transaction
    held = [one.text for one in connection.held] if transaction is Tx.OPEN else []
    return replace(
        before,
        running=None,
        refused=connection.refused,
        transaction=transaction,
        count=connection.statements_open,
        statements=Statements.of(held),
        ends=_until(clocks.transaction, before.ends, now),
        idles=_until(clocks.idle, before.idles, now),
        since=None if opened is None else _steady(now - opened, before.since),
        instance="" if opened is None or stream is None else stream.instance or "",
        lost=_lost(connection, before.lost),
        keeping=OFF if connection.keeping is None else duration(connection.keeping.seconds),
        kept=_kept(connection, before.kept, now),
    )


def _until(left: float | None, before: float | None, now: float) -> float | None:
    """Give when a window ends: what was said before, if that is true still."""
    return _steady(now + left, before) if left else left


def _steady(at: float, before: float | None) -> float:
    """Give a moment as it was taken before, if the two differ by the precision of the clocks only."""
    return before if before is not None and abs(at - before) <= STEADY else round(at, 3)


def _lost(connection: Connection, before: Lost | None) -> Lost | None:
    loss = connection.loss
    if loss is None or (before is not None and before.loss is loss):
        return None if loss is None else before
    try:
        connection.to_retry()
        refused = ""
    except SessionError as error:
        refused = error.message
    return Lost(loss, Statements.of(loss.statements), Statements.of(loss.left), redact(loss.why), refused)


def _kept(connection: Connection, before: str, now: float) -> str:
    """Say until when a connection is kept alive, '' if it is not."""
    keeping = connection.keeping
    if keeping is None:
        return ""
    if keeping.ended:
        return f"no longer kept alive: {keeping.ended}"
    if connection.stream is None:
        return "from the next cell on"
    time_of_day = before.removeprefix("until ").removesuffix(" without a cell")
    return f"until {_steady_time(now + keeping.left, time_of_day)} without a cell"


def _steady_time(at: float, before: str) -> str:
    """Give a time of the day; the one given before if the two differ by rounding only."""
    near = [_time(at + by) for by in (-STEADY, STEADY)]
    return before if before in near else _time(at)


def _time(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


@dataclass(frozen=True)
class Said:
    """A request and what became of it, in words."""

    key: str
    time: str
    connection: str
    by: str
    request: str
    status: str
    took: str
    out: str
    back: str


def tell(request: TracedRequest, redact: Callable[[str], str], epoch: float) -> Said:
    """Describe a request; ``epoch`` is the Unix time at which ``perf_counter`` was 0."""
    error = redact(request.error).partition("\n")[0]
    again = f", sent {request.attempts} times" if request.attempts > 1 else ""
    return Said(
        f"{request.started:.6f} {request.connection}",
        _time(epoch + request.started),
        request.connection,
        "between cells" if request.origin is None else request.origin.name,
        redact(f"{request.method} {request.path}"),
        (f"HTTP {request.status}" if request.status is not None else error or "no response") + again,
        format_seconds(request.seconds),
        format_size(request.sent_size),
        format_size(request.received_size),
    )
