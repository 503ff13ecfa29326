"""Track the transaction of a stream: whether it is open, its statements, and its loss.

A server of version 3 reports whether a transaction is open (``get_autocommit``). For others, and for a request without
a response, the text of the statements decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
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
from pipemagic.hrana.stream import TRANSACTION_LIMIT, Event, Phase, StreamState, Tx, TxEvent

AGAIN = "start again from BEGIN, or run the whole transaction in one cell"

ROLLED_BACK = "the server rolled the transaction back"

IN_TIME = f"it must be committed within {TRANSACTION_LIMIT:.0f} s"
"""Of servers that are known to end each transaction at that limit."""

TOO_LONG = "it was open for longer than the server allows"


class Reason(Enum):
    """Why a transaction was lost."""

    IDLE_LIMIT = "idle limit"  # its stream was idle for too long
    TRANSACTION_LIMIT = "transaction limit"  # it was open for too long
    FAILED_STATEMENT = "failed statement"  # such as INSERT OR ROLLBACK
    SERVER_CLOSED = "server closed"  # the server ended the stream, or no longer knows it
    SERVICE_STOPPED = "service stopped"
    UNKNOWN_OUTCOME = "unknown outcome"  # a request got no response


@dataclass(frozen=True)
class TransactionStatement:
    """A statement of a transaction: the user's text, the sent statement with its values, and whether it surely ran."""

    text: str
    stmt: Stmt = field(repr=False)
    ran: bool = True


def _changes(statement: TransactionStatement) -> bool:
    """Return True if a statement may change data or settings, so that its loss matters."""
    parsed = sql.parse(statement.text)
    return not (parsed.controls_transaction or parsed.only_reads or parsed.is_ignored_in_transaction)


class Certainty(Enum):
    """What is certain about the statements of a lost transaction; the first of these that applies."""

    NOTHING = "it may have been committed"
    LATE = "it was rolled back, but its last statements may have run, and been committed, after an unreported limit"
    UNLISTED = "it was rolled back, and statements that are not listed may have been part of it"
    ALL = "all of it is listed, and was rolled back"


@dataclass(frozen=True)
class Loss:
    """A transaction that ended without its COMMIT, or a request with an unknown outcome.

    ``statements`` are listed oldest first. ``not_run`` lists the other statements of the cell that met the loss; a
    retry does not run them. ``message`` is the first line of the error.

    Nothing is certain only if the reason is UNKNOWN_OUTCOME: the request without a response may have committed. With
    FAILED_STATEMENT and SERVICE_STOPPED the transaction began in an earlier cell, so all its statements ran. Whether
    further statements are refused is the state `Tx.LOST`, not part of the loss.
    """

    reason: Reason
    statements: tuple[TransactionStatement, ...] = ()
    certainty: Certainty = Certainty.ALL
    not_run: tuple[str, ...] = ()
    message: str = ""

    def __post_init__(self) -> None:
        if not self.certain and self.reason is not Reason.UNKNOWN_OUTCOME:
            raise ValueError(f"a loss by {self.reason.value} is certain")

    @property
    def certain(self) -> bool:
        """Whether the transaction was rolled back."""
        return self.certainty is not Certainty.NOTHING

    @property
    def texts(self) -> list[str]:
        """The texts of the statements."""
        return [statement.text for statement in self.statements]

    @property
    def timed_out(self) -> bool:
        """Whether a time limit was exceeded."""
        return self.reason in (Reason.IDLE_LIMIT, Reason.TRANSACTION_LIMIT)

    @property
    def all_ran(self) -> bool:
        """True if all statements had run; otherwise a cell was lost together with its transaction."""
        return all(statement.ran for statement in self.statements)

    @property
    def can_rerun(self) -> bool:
        """Whether the statements are all of it, are certainly undone, and change something."""
        return self.certainty is Certainty.ALL and any(map(_changes, self.statements))


@dataclass
class TransactionContent:
    """What is in a transaction, as the text of its statements shows it; empty if none is open.

    ``begun`` is True after BEGIN; ``savepoints`` are the open ones, outermost first, each with the number of statements
    when it was set. ``statements`` are oldest first, without those that ROLLBACK TO undid. ``incomplete`` is True if
    others may have written in it: their results were too large to send, or they were INSERT OR FAIL. ``failed`` is True
    if one failed that may have changed rows before its error, as by ON CONFLICT FAIL in the schema.
    """

    begun: bool = False
    savepoints: list[tuple[str, int]] = field(default_factory=list)
    statements: list[TransactionStatement] = field(default_factory=list)
    incomplete: bool = False
    failed: bool = False

    @property
    def open(self) -> bool:
        """Whether a transaction is open."""
        return self.begun or bool(self.savepoints)

    @property
    def texts(self) -> list[str]:
        """The texts of its statements."""
        return [statement.text for statement in self.statements]

    @property
    def count(self) -> int:
        """The number of its statements, without those that begin and end transactions and savepoints."""
        return sum(not sql.parse(statement.text).controls_transaction for statement in self.statements)

    @property
    def changes(self) -> bool:
        """Whether one of its statements may have changed data or settings."""
        return any(map(_changes, self.statements))

    def certainty(self, *, overran: bool) -> Certainty:
        """Return what is certain if it was rolled back; ``overran``: see `Transaction.overran`."""
        if overran and self.statements:
            return Certainty.LATE
        return Certainty.UNLISTED if self.incomplete else Certainty.ALL

    def apply(self, statement: sql.ParsedStatement, stmt: Stmt | None = None) -> None:
        """Update it after a statement that ran without an error; ``stmt`` is the sent one, if it is to be kept."""
        if statement.rollback_to is not None:
            if self._unwind(statement.rollback_to, keep=True):
                del self.statements[self.savepoints[-1][1] :]
            return
        if statement.commits or statement.rolls_back:
            self.clear()
        elif statement.release is not None:
            self._unwind(statement.release, keep=False)
        elif statement.savepoint is not None:
            self.savepoints.append((statement.savepoint, len(self.statements) + (stmt is not None)))
        self.begun = self.begun or statement.keyword == "BEGIN"
        if not self.open:
            self.clear()
        elif stmt is not None:
            # A retry does not run a query, and arguments can be large.
            recorded = Stmt(stmt.sql) if statement.is_query else stmt
            self.statements.append(TransactionStatement(statement.text, recorded))

    def clear(self) -> None:
        """Make it empty, after the end of the transaction."""
        self.begun = self.incomplete = self.failed = False
        self.savepoints, self.statements = [], []

    def copy(self) -> TransactionContent:
        """Return a copy."""
        return replace(self, savepoints=list(self.savepoints), statements=list(self.statements))

    def ahead(self, statements: Sequence[sql.ParsedStatement], stmts: Sequence[Stmt] = ()) -> TransactionContent:
        """Return it as it would be after these statements, if all run without an error."""
        ahead = self.copy()
        for statement, stmt in zip_longest(statements, stmts[: len(statements)]):
            ahead.apply(statement, stmt or Stmt(statement.text))
        return ahead

    def after(self, requests: Sequence[Request]) -> TransactionContent:
        """Return it as it would be after these requests, if all run without an error."""
        after = self.copy()
        for request in requests:
            for stmt in _statements(request):
                after.apply(sql.parse(stmt.sql or ""))
        if closes(requests):
            after.clear()
        return after

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

    def _unwind(self, name: str, *, keep: bool) -> bool:
        """End the savepoints set after the one of this name; return False if there is none."""
        for number in range(len(self.savepoints) - 1, -1, -1):
            if self.savepoints[number][0] == name:
                del self.savepoints[number + keep :]
                return True
        return False


class Transaction:
    """Track the transaction of a stream, and of the streams that replace it. Only its methods change it.

    They are named after what happened, and also move ``machine``, the state of both.
    """

    def __init__(self) -> None:
        self._machine = StreamState()
        self._content = TransactionContent()
        self._opened_at: float | None = None
        self._loss: Loss | None = None
        self._reported = True
        self._overran = False
        self._sources: Mapping[str, str] = {}

    @property
    def machine(self) -> StreamState:
        """The state of the stream and of the transaction."""
        return self._machine

    @property
    def state(self) -> Tx:
        """The state: none, open, or lost and not yet acknowledged."""
        return self._machine.transaction

    @property
    def open(self) -> bool:
        """Whether a transaction is open."""
        return self._machine.transaction is Tx.OPEN

    @property
    def statements(self) -> Sequence[TransactionStatement]:
        """The statements of the open transaction that `recording` keeps, oldest first."""
        return tuple(self._content.statements)

    @property
    def count(self) -> int:
        """The number of its statements, without those that begin and end transactions and savepoints."""
        return self._content.count

    @property
    def loss(self) -> Loss | None:
        """The last loss, until it is forgotten."""
        return self._loss

    @property
    def reported(self) -> bool:
        """Whether a cell has raised the error of the loss."""
        return self._reported

    @property
    def overran(self) -> bool:
        """Whether statements of the last transaction may have run after its end, which the server does not report."""
        return self._overran

    def content(self) -> TransactionContent:
        """Return a copy of what is in the open transaction; an empty one if none is open."""
        content = self._content
        return content.copy() if content.open else TransactionContent()

    def age(self, now: float) -> float | None:
        """Return the seconds since the request that opened the transaction; None if none is open."""
        return now - self._opened_at if self.open and self._opened_at is not None else None

    @contextmanager
    def recording(self, sources: Mapping[str, str]) -> Iterator[None]:
        """Keep the statements that run in a block and are in ``sources``, which maps sent SQL to the user's text."""
        self._sources = sources
        try:
            yield
        finally:
            self._sources = {}

    # -- what happened on the stream

    def replace_stream(self) -> None:
        """Begin with another stream; a request that is still pending on the one before it was abandoned."""
        if self._machine.phase is Phase.IN_USE:
            self.no_response(())
        if self._machine.phase is not Phase.IDLE:
            self._machine.move(Event.REOPEN)

    def ran(self, stmt: Stmt, *, late: bool = False) -> None:
        """Update the state after a statement that ran on the stream, ``late`` if the transaction may have ended."""
        text = self._sources.get(stmt.sql or "")
        statement = sql.parse(text or stmt.sql or "")
        self._content.apply(statement, None if text is None else stmt)
        self._follow()
        if late and self.open and not (statement.only_reads or statement.controls_transaction):
            self._overran = True

    def still_open(self) -> None:
        """Record that the transaction has not ended, or not before the statement to which the server reports it."""
        self._overran = False

    def responded(
        self,
        requests: Sequence[Request],
        entries: Sequence[Entry],
        *,
        sent_at: float,
        baton: str | None,
        late_at: float | None = None,
        exact: bool = False,
    ) -> bool:
        """Update the state after a response; without a ``baton`` the stream has ended with it.

        ``late_at`` is when it arrived, for a server that does not report the end of a transaction: what ran so long
        after its begin may have run outside. The limits of the server are known if they are ``exact``.

        Return True if the server reports that the transaction has ended, and nothing in the requests can have ended it;
        `ended_by_server` or `ended` updates the state, then. Raise TransactionLost if the server reports that it rolled
        the transaction back on its own.
        """
        event = Event.ANSWER if baton is not None else Event.CLOSE if closes(requests) else Event.LOSE
        try:
            is_unexplained = self._read(requests, entries, sent_at, event, late_at=late_at, exact=exact)
        except TransactionLost:
            self._machine.move(event)
            raise
        self._machine.move(event)  # not after an interrupt: what was read is not complete
        return is_unexplained

    def statement_failed(self, error: Error, *, sent_at: float, exact: bool) -> None:
        """Update the state after an error in a cursor; raise TransactionLost if the transaction was lost."""
        if self.open and _is_timeout(error):
            raise self._time_out((), [ErrorEntry(error)], sent_at, exact=exact)

    def no_response(self, requests: Sequence[Request]) -> bool:
        """Update the state after requests without a response; return True if a transaction certainly ended with them.

        If they contain its COMMIT, or close the stream, it is not known how it ended.
        """
        if is_lost := self._content.after(requests).open:
            self._lose(Reason.UNKNOWN_OUTCOME)
        elif self.open:
            self._machine.change(TxEvent.DOUBT)
        self._content.clear()
        self._machine.move(Event.LOSE)
        return is_lost

    def stream_gone(self, reason: Reason, message: str) -> None:
        """Update the state after the server no longer has the stream; raise TransactionLost if a transaction was open.

        ``message`` is the one of the error.
        """
        if was_open := self.open:
            self._lose(reason, message)
        self._machine.move(Event.EXPIRE)
        if was_open:
            raise TransactionLost(message, hint=AGAIN)

    def closed(self) -> None:
        """Update the state after the stream was closed on purpose; an open transaction is rolled back."""
        self._content.clear()
        if self._machine.phase in (Phase.IDLE, Phase.IN_USE):
            self._machine.move(Event.CLOSE)
        self.acknowledge()

    def ended(self) -> None:
        """Update the state after the server reported that no transaction is open."""
        overran = self._overran
        self._content.clear()
        self._follow()
        self._overran = overran

    def rolled_back(self, *, late: bool, exact: bool = False) -> TransactionLost:
        """Update the state after the server rolled the transaction back, ``late`` after its limit; return the error."""
        reason = Reason.TRANSACTION_LIMIT if late else Reason.SERVER_CLOSED
        message = f"{ROLLED_BACK}: {_limit_over(exact=exact, late=True)}" if late else ROLLED_BACK
        self._lose(reason, message)
        return TransactionLost(message, hint=AGAIN)

    def ended_by_server(self, entry: Entry | None, *, sent_at: float, exact: bool) -> TransactionLost:
        """Update the state after the server ended the transaction on its own; return the error.

        ``entry`` is that of a statement after it, if there was one, which may report the reason.
        """
        if entry is not None and any(map(_is_timeout, errors_of(entry))):
            return self._time_out((), [entry], sent_at, exact=exact)
        return self.rolled_back(late=(self.age(sent_at) or 0.0) > TRANSACTION_LIMIT, exact=exact)

    def service_stopped(self, message: str) -> Loss:
        """Update the state after the service ended with an open transaction; return its loss, with a ``message``."""
        loss = self._lose(Reason.SERVICE_STOPPED, message)
        self._machine.move(Event.LOSE)
        return loss

    def ran_without_result(self) -> None:
        """Record that a statement may have written in the open transaction, although it has no result."""
        self._content.incomplete = self._content.incomplete or self.open

    def failed(self) -> None:
        """Record that a statement failed in the open transaction, perhaps after it had changed rows."""
        self._content.failed = self._content.failed or self.open

    # -- what became of a loss

    def acknowledge(self) -> None:
        """Accept a loss: from now on statements run outside of the lost transaction."""
        if self.state is Tx.LOST:
            self._machine.change(TxEvent.ACKNOWLEDGE)

    def forget(self) -> None:
        """Acknowledge a loss that has no consequences any more, also for a retry."""
        self.acknowledge()
        self._loss, self._overran = None, False

    def restore(self, loss: Loss | None, *, refuses: bool = True) -> None:
        """Set a loss that was acknowledged before a request which did not run, or that a failed statement caused.

        If it ``refuses``, no statement runs until it is acknowledged.
        """
        if loss is not None and refuses and self.state is Tx.NONE:
            self._machine.change(TxEvent.RESTORE)
        self._loss = loss

    def explain(self, loss: Loss) -> None:
        """Replace the loss with one that says more; statements are refused, or not, as before."""
        self._loss, self._reported = loss, True

    def report_later(self) -> None:
        """Let the next cell report the loss, which was found between cells."""
        self._reported = False

    # -- inside

    def _follow(self) -> None:
        """Move the machine after a statement began or ended a transaction."""
        if self._content.open is not self.open:
            self._machine.change(TxEvent.BEGIN if self._content.open else TxEvent.END)
            self._opened_at, self._overran = None, False

    def _lose(self, reason: Reason, message: str = "", *, refuses: bool = True) -> Loss:
        """Record that the transaction was rolled back; one of the last request began with it."""
        if self.state is Tx.NONE:
            self._machine.change(TxEvent.BEGIN)
        if self.open:
            self._machine.change(TxEvent.LOSE)
        if not refuses:
            self._machine.change(TxEvent.ACKNOWLEDGE)
        content = self._content
        certainty = content.certainty(overran=self._overran)
        self._loss = loss = Loss(reason, tuple(content.statements), certainty, message=message)
        self._reported = True
        content.clear()
        return loss

    def _read(
        self,
        requests: Sequence[Request],
        entries: Sequence[Entry],
        sent_at: float,
        event: Event,
        *,
        late_at: float | None,
        exact: bool,
    ) -> bool:
        """Update the state from the entries of a response; return and raise as `responded` does."""
        errors = [error for entry in entries for error in errors_of(entry)]
        if any(map(_is_timeout, errors)):
            raise self._time_out(requests, entries, sent_at, exact=exact)
        autocommit = None
        if entries and isinstance(last := entries[-1], OkEntry) and isinstance(last.response, GetAutocommitResponse):
            autocommit = last.response.is_autocommit
        if autocommit and event is Event.ANSWER:
            unexplained = self.open and not errors and _only_reads(requests)
            if self.open and not unexplained:
                self.ended()
            return unexplained
        late = (
            late_at is not None
            and late_at - (sent_at if self._opened_at is None else self._opened_at) > TRANSACTION_LIMIT
        )
        for request, entry in zip(requests, entries, strict=False):
            for stmt in _succeeded(request, entry):
                self.ran(stmt, late=late)
        if event is Event.CLOSE or (event is Event.LOSE and autocommit and errors):
            self.ended()  # a failed statement may end the transaction, such as INSERT OR ROLLBACK
        elif event is Event.LOSE and self.open:
            failed = f"; a statement failed: {errors[0].message}" if errors else ""
            message = f"the server closed the connection and rolled the transaction back{failed}"
            self._lose(Reason.SERVER_CLOSED, message)
            raise TransactionLost(message, hint=AGAIN).replace(ran=count_succeeded(requests, entries))
        elif autocommit is False and not self.open:
            self._content.begun = True
            self._follow()
        if self.open and self._opened_at is None:
            self._opened_at = sent_at
        return False

    def _time_out(
        self, requests: Sequence[Request], entries: Sequence[Entry], now: float, *, exact: bool
    ) -> TransactionLost:
        """Record the loss of the transaction, which was rolled back before one of the entries; return the error."""
        self.still_open()  # until then
        at, error = next(
            (number, error) for number, entry in enumerate(entries) for error in errors_of(entry) if _is_timeout(error)
        )
        outside = sum(map(_written, entries[at + 1 : len(requests)]))
        more = f"; {outside} later statement(s) of the same request ran outside it and stay applied" if outside else ""
        late = (self.age(now) or 0.0) > TRANSACTION_LIMIT
        message = f"{ROLLED_BACK}: {faults.timeout_reason(error) or _limit_over(exact=exact, late=late)}{more}"
        self._lose(Reason.TRANSACTION_LIMIT, message, refuses=self._content.after(requests).open)
        return TransactionLost(message, hint=AGAIN).replace(ran=_ran_in_time(entries[at]))


def _limit_over(*, exact: bool, late: bool) -> str:
    """Return that the limit of a transaction is over, without a duration, so that saved notebooks do not change."""
    if not exact:
        return TOO_LONG
    return f"{IN_TIME} and was open for longer" if late else IN_TIME


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


def count_succeeded(requests: Sequence[Request], entries: Sequence[Entry]) -> int:
    """Count the statements that ran without an error."""
    return sum(len([*_succeeded(*pair)]) for pair in zip(requests, entries, strict=False))


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
            results = [result for result in batch.step_results if result is not None]
        case _:
            return 0
    return sum(bool(result.affected_row_count) for result in results)


def _only_reads(requests: Sequence[Request]) -> bool:
    """Return True if no statement of the requests can end a transaction, or write outside of one that has ended."""
    parsed = (sql.parse(stmt.sql or "") for request in requests for stmt in _statements(request))
    return all(statement.only_reads and not statement.controls_transaction for statement in parsed)


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
