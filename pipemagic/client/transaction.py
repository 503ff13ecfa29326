"""Track the transaction of a stream: whether it is open, its statements, and its loss.

A server of version 3 reports whether a transaction is open (``get_autocommit``). For others, and for a request without
a response, the text of the statements decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from pipemagic import sql
from pipemagic.errors import TransactionLost
from pipemagic.hrana import faults, messages
from pipemagic.hrana.messages import (
    BatchResponse,
    Close,
    Entry,
    Error,
    ErrorEntry,
    Execute,
    ExecuteResponse,
    GetAutocommitResponse,
    OkCond,
    OkEntry,
    Request,
    RunBatch,
    Stmt,
)
from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT, Tx

MARGIN = 0.5
"""Seconds after a limit until it is certainly over: clocks and the network are not exact."""

AGAIN = "start again from BEGIN, or run the whole transaction in one cell"

ROLLED_BACK = "the server rolled the transaction back"

IN_TIME = f"it must be committed within {TRANSACTION_LIMIT:.0f} s"


@dataclass(frozen=True)
class Held:
    """A statement of a transaction: the user's text, and the sent statement with its values."""

    text: str
    stmt: Stmt = field(repr=False)


@dataclass(frozen=True)
class LostTransaction:
    """A transaction that ended without its COMMIT.

    ``held`` are its statements, oldest first; with ``partly`` some of them may not have run. ``doubt`` is the reason
    why it may have been committed, '' if it was certainly rolled back. ``left`` are the other statements of the cell in
    which it was lost: they did not run, and a retry does not run them. ``incomplete`` is True if more than ``held`` may
    have run in it. ``why`` is the reason for its end. Until the user acknowledges the loss it is ``refusing``
    statements that may belong to it. ``rolled_back`` is True if a ROLLBACK has no effect, ``timed_out`` if a time limit
    was exceeded. ``reported`` is False until a cell has raised its error.
    """

    held: tuple[Held, ...] = ()
    doubt: str = ""
    partly: bool = False
    left: tuple[str, ...] = ()
    incomplete: bool = False
    why: str = ""
    refusing: bool = True
    rolled_back: bool = True
    timed_out: bool = False
    reported: bool = True

    @property
    def statements(self) -> list[str]:
        """The texts of the statements."""
        return [one.text for one in self.held]


@dataclass
class Transaction:
    """Track the transaction of a stream, and of the streams that replace it.

    ``begun`` is True after BEGIN; ``savepoints`` are the open ones, outermost first, each with the number of held
    statements when it was set. ``held`` are the statements of the open transaction, oldest first, without those that
    ROLLBACK TO undid. Only statements in ``sources`` are held, which maps the sent SQL to the user's text.
    ``incomplete`` is True if others may have run in it, whose results were too large to send. ``opened_at`` is when the
    request that opened it was sent, ``opened_by`` when its response arrived.
    """

    begun: bool = False
    savepoints: list[tuple[str, int]] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    incomplete: bool = False
    lost: LostTransaction | None = None
    opened_at: float | None = None
    opened_by: float | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether a transaction is open."""
        return self.begun or bool(self.savepoints)

    @property
    def state(self) -> Tx:
        """The state: none, open, or lost and not yet acknowledged."""
        if self.begun or self.savepoints:
            return Tx.OPEN
        return Tx.LOST if self.lost is not None and self.lost.refusing else Tx.NONE

    @property
    def statements(self) -> list[str]:
        """The texts of its statements."""
        return [one.text for one in self.held]

    @property
    def count(self) -> int:
        """The number of its statements, without those that begin and end transactions and savepoints."""
        return sum(not sql.parse(one.text).controls_transaction for one in self.held)

    def age(self, now: float) -> float | None:
        """Return the seconds since the request that opened the transaction; None if none is open."""
        return now - self.opened_at if self.open and self.opened_at is not None else None

    def clear(self) -> None:
        """Reset after the end of the transaction."""
        self.begun = self.incomplete = False
        self.savepoints, self.held, self.opened_at, self.opened_by = [], [], None, None

    def clear_loss(self) -> None:
        """Acknowledge the loss of the transaction; until then nothing else runs on the stream."""
        if self.lost is not None:
            self.lost = replace(self.lost, refusing=False)

    def apply(self, statement: sql.ParsedStatement, stmt: Stmt | None = None) -> None:
        """Update the state after a statement that ran without an error; ``stmt`` is the sent one, if it is held."""
        if statement.rollback_to is not None:
            if self._unwind(statement.rollback_to, keep=True):
                del self.held[self.savepoints[-1][1] :]
            return
        if statement.commits or statement.rolls_back:
            self.clear()
        elif statement.release is not None:
            self._unwind(statement.release, keep=False)
        elif statement.savepoint is not None:
            self.savepoints.append((statement.savepoint, len(self.held) + (stmt is not None)))
        self.begun = self.begun or statement.keyword == "BEGIN"
        if not self.open:
            self.clear()
        elif stmt is not None:
            self.held.append(Held(statement.text, stmt))

    def ahead(self, statements: Sequence[sql.ParsedStatement], stmts: Sequence[Stmt] = ()) -> Transaction:
        """Return the transaction after these statements, if all run without an error."""
        ahead = self.copy()
        for statement, stmt in zip_longest(statements, stmts[: len(statements)]):
            ahead.apply(statement, stmt or Stmt(statement.text))
        return ahead

    def ends(self, statements: Sequence[sql.ParsedStatement]) -> Iterator[int]:
        """Return the indexes of the statements that would end a transaction."""
        return (number for number, opened in self._changes(statements) if not opened)

    def began_at(self, statements: Sequence[sql.ParsedStatement]) -> int | None:
        """Return the index of the statement that begins the transaction which is open after all of them.

        Return None if no transaction is open then, or if it was open before.
        """
        index = None
        for number, opened in self._changes(statements):
            index = number if opened else None
        return index

    def _changes(self, statements: Sequence[sql.ParsedStatement]) -> Iterator[tuple[int, bool]]:
        """Yield the indexes of the statements that begin or end a transaction, and whether one is open after them."""
        ahead, was_open = self.copy(), self.open
        for number, statement in enumerate(statements):
            ahead.apply(statement)
            if ahead.open is not was_open:
                was_open = ahead.open
                yield number, was_open

    def update(self, requests: Sequence[Request], entries: Sequence[Entry], *, sent_at: float, closed: bool) -> None:
        """Update the state after a response, ``closed`` if the stream ended with it.

        Raise TransactionLost if the server rolled the transaction back on its own.
        """
        errors = [error for entry in entries for error in errors_of(entry)]
        if any(map(_is_timeout, errors)):
            raise self._time_out(requests, entries, sent_at)
        was_open, autocommit = self.open, None
        if entries and isinstance(last := entries[-1], OkEntry) and isinstance(last.response, GetAutocommitResponse):
            autocommit = last.response.is_autocommit
        if autocommit and not closed:
            if was_open:
                self.clear()
            return
        for request, entry in zip(requests, entries, strict=False):
            for stmt in _succeeded(request, entry):
                self.ran(stmt)
        if closes(requests):
            self.clear()
        elif closed and self.open:
            if not (autocommit and errors):
                self.lose()
                why = "the server closed the connection and rolled the transaction back"
                failed = f"; a statement failed: {errors[0].message}" if errors else ""
                raise TransactionLost(why + failed, hint=AGAIN)
            self.clear()  # the failed statement ended the transaction, such as INSERT OR ROLLBACK
        elif autocommit is False and not self.open:
            self.begun = True
        if self.open and self.opened_at is None:
            self.opened_at = sent_at

    def ran(self, stmt: Stmt) -> None:
        """Update the state after a statement that the stream ran."""
        text = self.sources.get(stmt.sql or "")
        self.apply(sql.parse(text or stmt.sql or ""), None if text is None else stmt)

    def drop(self, requests: Sequence[Request]) -> bool:
        """Update the state after a stream ended without a response; return True if a transaction ended with it."""
        ahead = self._after(requests)
        if ahead.open:
            self.lose()
        else:
            self.clear()  # the requests contained COMMIT, ROLLBACK or close: it has ended, committed or not
        return ahead.open

    def expired(self, idle: float, now: float) -> None:
        """Raise TransactionLost if a transaction was open on a stream that expired after ``idle`` seconds."""
        if self.age(now) is None:
            return
        limits = self._limits_over(idle, now)
        self.lose(timed_out=bool(limits))
        if idle <= IDLE_LIMIT:
            limits.append("the server closed the connection (was it restarted, or are its limits shorter?)")
        raise TransactionLost(f"{ROLLED_BACK}: {'; '.join(limits)}", hint=AGAIN)

    def expire(self, idle: float, now: float, *, strict: bool) -> bool:
        """Mark the transaction as lost if a time limit is certainly over; return True if it is.

        That is the limit of a stream that has been ``idle`` for that many seconds; on a ``strict`` server, which ends
        every transaction at its limit, also that of the transaction.
        """
        late = strict and self.opened_by is not None and now - self.opened_by > TRANSACTION_LIMIT + MARGIN
        if over := self.open and (late or idle > IDLE_LIMIT + MARGIN):
            self.lose(f"{ROLLED_BACK}: {'; '.join(self._limits_over(idle, now))}", timed_out=True, reported=False)
        return over

    def _limits_over(self, idle: float, now: float) -> list[str]:
        """Return the limits that are over, as text."""
        late = [f"{IN_TIME} and was open for longer"] if (self.age(now) or 0.0) > TRANSACTION_LIMIT else []
        closed = f"the connection was idle for more than {IDLE_LIMIT:.0f} s and was closed"
        return [*late, closed] if idle > IDLE_LIMIT else late

    def timed_out(self, *, late: bool = True, more: str = "", ran: int = 0) -> TransactionLost:
        """Return the error for a transaction that was open for too long."""
        longer = " and was open for longer" if late else ""  # no duration, so that saved notebooks do not change
        return TransactionLost(f"{ROLLED_BACK}: {IN_TIME}{longer}{more}", hint=AGAIN).replace(ran=ran)

    def _time_out(self, requests: Sequence[Request], entries: Sequence[Entry], now: float) -> TransactionLost:
        """Mark the transaction as lost, which was rolled back before one of the entries; return the error."""
        at = next(number for number, entry in enumerate(entries) if any(map(_is_timeout, errors_of(entry))))
        outside = sum(map(_written, entries[at + 1 : len(requests)]))
        more = f"; {outside} later statement(s) of the same request ran outside it and stay applied" if outside else ""
        late = (self.age(now) or 0.0) > TRANSACTION_LIMIT
        if self._after(requests).open:
            self.lose(timed_out=True)
        else:
            self.clear()
        return self.timed_out(late=late, more=more, ran=_ran_in_time(entries[at]))

    def lose(self, why: str = "", *, timed_out: bool = False, reported: bool = True) -> None:
        """Record that the open transaction was rolled back."""
        self.lost = LostTransaction(
            tuple(self.held), incomplete=self.incomplete, why=why, timed_out=timed_out, reported=reported
        )
        self.clear()

    def _after(self, requests: Sequence[Request]) -> Transaction:
        """Return the transaction after these requests, if all run without an error."""
        ahead = self.copy()
        for request in requests:
            for stmt in _statements(request):
                ahead.apply(sql.parse(stmt.sql or ""))
        if closes(requests):
            ahead.clear()
        return ahead

    def copy(self) -> Transaction:
        """Return a copy of the current state."""
        return replace(self, savepoints=list(self.savepoints), held=list(self.held))

    def _unwind(self, name: str, *, keep: bool) -> bool:
        """End the savepoints set after the one of this name; return False if there is none."""
        for number in range(len(self.savepoints) - 1, -1, -1):
            if self.savepoints[number][0] == name:
                del self.savepoints[number + keep :]
                return True
        return False


def closes(requests: Sequence[Request]) -> bool:
    """Return True if the stream ends with these requests."""
    return any(isinstance(request, Close) for request in requests)


def errors_of(entry: Entry) -> Sequence[Error]:
    """Return the errors of an entry, including those of the steps of a batch."""
    if isinstance(entry, ErrorEntry):
        return [entry.error]
    if isinstance(entry.response, BatchResponse):
        return [error for error in entry.response.result.step_errors if error is not None]
    return ()


def _is_timeout(error: Error) -> bool:
    """Return True if the server rolled the transaction back before the statement ran."""
    return error.code == faults.TRANSACTION_TIMEOUT or (error.code == "PROXY_ERROR" and "timed-out" in error.message)


def _ran_in_time(entry: Entry) -> int:
    """Count the steps of a batch that ran before the transaction timed out; 0 for a single statement."""
    if isinstance(entry, ErrorEntry) or not isinstance(entry.response, BatchResponse):
        return 0
    errors = entry.response.result.step_errors
    return next((number for number, error in enumerate(errors) if error is not None), len(errors))


def _written(entry: Entry) -> int:
    """Count the statements of an entry that changed rows."""
    match entry:
        case OkEntry(ExecuteResponse(result)):
            results = [result]
        case OkEntry(BatchResponse(batch)):
            results = [one for one in batch.step_results if one is not None]
        case _:
            return 0
    return sum(bool(one.affected_row_count) for one in results)


def _statements(request: Request) -> Iterator[Stmt]:
    match request:
        case Execute(stmt):
            yield stmt
        case messages.Sequence(text):
            yield from (Stmt(piece.text) for piece in sql.split(text or ""))
        case RunBatch(batch):
            for step in batch.steps:
                if step.condition is None or isinstance(step.condition, OkCond):  # not those that run after a failure
                    yield step.stmt


def _succeeded(request: Request, entry: Entry) -> Iterator[Stmt]:
    """Yield the statements of a request that ran without an error."""
    if not isinstance(entry, OkEntry):
        return
    if isinstance(request, RunBatch) and isinstance(entry.response, BatchResponse):
        for step, result in zip(request.batch.steps, entry.response.result.step_results, strict=False):
            if result is not None:
                yield step.stmt
    else:
        yield from _statements(request)
