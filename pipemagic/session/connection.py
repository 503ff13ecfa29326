"""A named database and the stream that its cells run on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pipemagic.client.database import Database
from pipemagic.client.running import Run, run
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.errors import (
    AuthError,
    BusyError,
    ConnectError,
    PipemagicError,
    ServerError,
    ServiceError,
    SessionError,
    TransactionLost,
)
from pipemagic.hrana.messages import Close, Entry, ErrorEntry, Execute, Request, Stmt
from pipemagic.hrana.stream import Phase, Tx
from pipemagic.session import atomic, clocks, guards, hints, interrupts, large, losses, reports
from pipemagic.session.cells import Cell, read
from pipemagic.session.clocks import Clocks
from pipemagic.session.interrupts import Finding
from pipemagic.session.keeping import KeepAlive
from pipemagic.session.ledger import Ledger, is_rollback, opens
from pipemagic.session.losses import Loss
from pipemagic.session.platform import Platform
from pipemagic.session.profiles import Profile
from pipemagic.session.results import CellResult, Outcome, failed, outcomes
from pipemagic.session.schemas import SchemaCache, cache_of
from pipemagic.session.settings import Settings
from pipemagic.session.wanted import AS_IT_IS, Wanted

T = TypeVar("T")


@dataclass(eq=False)
class Connection:
    """A database under a name. The stream is opened by the first cell and kept until it is closed.

    ``where`` says for people what it is a database of; ``platform`` is the organization it was found in, if it
    was. ``find_again`` gives the database anew when nothing listens at its address any more (the embedded service
    may come back on another port).
    """

    name: str
    database: Database
    where: str
    platform: Platform | None = field(default=None, repr=False)
    find_again: Callable[[], Database] | None = field(default=None, repr=False)
    profile: Profile | None = field(default=None, repr=False)  # what would lead here again
    refused: bool = field(default=False, repr=False)  # the server no longer takes the token
    keeping: KeepAlive | None = field(default=None, repr=False)
    schema: SchemaCache = field(init=False, repr=False)
    _stream: ClientStream | None = field(default=None, repr=False)
    _ledger: Ledger = field(default_factory=Ledger, repr=False)
    _settings: Settings = field(default_factory=Settings, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)  # a panel may close it meanwhile
    _loss: Loss | None = field(default=None, repr=False)  # what retry() is about
    _lost: bool = field(default=False, repr=False)  # a transaction is gone, and the rest of it must not run
    _ended: bool = field(default=False, repr=False)  # the server rolled back: a ROLLBACK has nothing left to do

    def __post_init__(self) -> None:
        self.schema = cache_of(self)

    @property
    def greeting(self) -> str:
        """The line that says where one is connected to."""
        parts = ["" if self.where == self.name else self.where, "read-only" if self.read_only else ""]
        where = ", ".join(filter(None, parts))
        return f"Connected to {self.name}{f' ({where})' if where else ''}."

    @property
    def read_only(self) -> bool:
        """Whether it only reads: what may write is refused before anything is sent."""
        return self.database.read_only

    @property
    def description(self) -> str:
        """What it is a database of, and whether it only reads, for people."""
        return f"{self.where}, read-only" if self.read_only else self.where

    @property
    def stream(self) -> ClientStream | None:
        """The stream of the cells, for its clocks; None before the first cell and after close()."""
        return self._stream

    @property
    def transaction(self) -> Tx:
        """Whether the cells have a transaction open, or lost one."""
        if self._lost:  # also if its stream is closed by now
            return Tx.LOST
        return Tx.NONE if self._stream is None else self._stream.transaction.state

    def run(self, cell: Cell, wanted: Wanted = AS_IT_IS) -> CellResult:
        """Run a cell on the stream, stopping at the first error.

        With ``wanted.close`` close() comes next, so that nothing is reported as open which then no longer is.
        Raises StatementError, TransactionLost, and what ClientStream.send raises.
        """
        with self._lock:
            try:
                return self._run(cell, wanted)
            finally:
                self._kept_from_now()

    def keep_alive(self, seconds: float | None) -> None:
        """Keep the server-side connection alive for so long after each cell; None for as long as the server does."""
        with self._lock:
            if self.keeping is not None:
                self.keeping.close()
            self.keeping = None if seconds is None else KeepAlive(self, seconds, self._lock)
            self._kept_from_now()

    def _kept_from_now(self) -> None:
        if self.keeping is not None and self._stream is not None:
            self.keeping.touch()

    def _run(self, cell: Cell, wanted: Wanted) -> CellResult:
        loss, lost, ended = self._loss, self._lost, self._ended
        try:
            return self._run_settled(cell, wanted)
        except (ConnectError, ServerError, ServiceError) as error:
            if not (error.ran or self._loss or is_rollback(cell.statements[0])):  # nothing ran: as if it was not typed
                self._loss, self._lost, self._ended = loss, lost, ended
            raise

    def _run_settled(self, cell: Cell, wanted: Wanted) -> CellResult:
        if self.read_only:
            guards.refuse_writes(cell, self.name)
        if wanted.atomic:
            atomic.check(cell)
        done, cell = self._settle(cell)
        if not cell.statements:
            return CellResult(tuple(done))
        if wanted.atomic and self._still_open():
            raise atomic.open_already(self.name)
        self._check_arguments(cell)
        cell, before = cell.limited(wanted.limit), self._ledger.ahead(())
        try:
            ran, notes = self._attempt(cell, wanted)
        except ConnectError as error:
            if error.ran:  # where each statement is a request of its own
                raise
            self._move(error)  # nothing was sent
            ran, notes = self._attempt(cell, wanted)
        done += self._follow(cell, ran, wanted)
        is_open = self.transaction is Tx.OPEN and not wanted.close
        if ran.error is not None:
            count = self._ledger.count if is_open else None
            failure = reports.Failure(cell, ran.error, len(ran.results), before, count, atomic=wanted.atomic)
            fault = reports.statement_error(self._ended_by(failure), notes)
            fault.cell = failed(failure, done, fault.message.split("\n")[0])
            raise fault
        line = reports.open_line(self._ledger.count, self._clock_line(wanted)) if is_open else ""
        return CellResult(tuple(done), tuple(notes), line)

    @property
    def statements_open(self) -> int:
        """How many statements the open transaction holds."""
        return self._ledger.count

    @property
    def clocks(self) -> Clocks:
        """What is left of the two windows, without asking the server."""
        return clocks.read(self._stream)

    def begin(self, mode: str = "DEFERRED") -> CellResult:
        """Begin a transaction on the stream of the cells; StatementError if one is open."""
        return self.run(read(f"BEGIN {mode}"))

    def commit(self) -> int:
        """Commit the open transaction; gives how many statements it held. StatementError if none is open."""
        return self._end("COMMIT")

    def rollback(self) -> int:
        """Roll the open transaction back, or go on without one that was lost; gives how many statements it held."""
        return self._end("ROLLBACK")

    def give_up(self) -> None:
        """Leave no transaction open and none to settle, whatever became of it: for what goes on with another error."""
        with self._lock:
            if self.transaction is Tx.NONE:
                return
            try:
                self.rollback()
            except PipemagicError:
                self.close()  # the server rolls back what is not committed when the stream ends
            self._lost = self._ended = False

    def _end(self, how: str) -> int:
        with self._lock:
            count = self._ledger.count
            self.run(read(how))
            return count

    def to_retry(self) -> Cell:
        """Give what retry() would run; SessionError with the reason if there is nothing, or must not be anything."""
        with self._lock:
            if self._loss is None:
                raise SessionError(
                    f"there is nothing to run again on {self.name}",
                    hint="it is for the cell after which a transaction was lost",
                )
            return self._loss.again()

    @property
    def left_over(self) -> tuple[str, ...]:
        """The statements of the cell that met a lost transaction: they did not run, and retry() does not run them."""
        return () if self._loss is None else self._loss.left

    def retry(self) -> CellResult:
        """Run the statements of the transaction that was rolled back again, as one atomic batch.

        They get the values that their parameters had then. If one fails nothing is changed, and retry() can be called
        again. Raises what to_retry() and run() raise.
        """
        with self._lock:
            cell, loss, lost, ended = self.to_retry(), self._loss, self._lost, self._ended
            self._go_on()
            try:
                return self._run(cell, Wanted(atomic=True))
            except PipemagicError:
                if self._loss in (None, loss):  # it is certain that nothing was changed
                    self._loss, self._lost, self._ended = loss, lost, ended
                raise

    def once(self, ask: Callable[[Database], T]) -> T:
        """Ask the database something beside the stream, which keeps its clock and its transaction."""
        try:
            return ask(self.database)
        except ConnectError:
            if self.find_again is None or self.transaction is Tx.OPEN:
                raise  # with a transaction open the next cell has to tell that it is gone
            self._stream = None
            self._use(self.find_again())
            return ask(self.database)

    def ask(self, requests: Sequence[Request]) -> list[Entry]:
        """Ask about statements without running one; gives an entry for each request, errors included.

        On the stream where it may know more than others: in a transaction, and if it has tables of its own.
        """
        with self._lock:
            stream = self._stream
            if stream is None or not (self.transaction is Tx.OPEN or self._settings.temporary):
                return self.once(lambda database: _asked_once(database, requests))
            try:
                return stream.send(requests)
            except PipemagicError as error:
                raise self._with_what_was_undone(error, stream, Cell("", (), ())) from None

    def renew(self, other: Connection) -> None:
        """Go on with the token of another connection to the same database, which is closed."""
        with self._lock:
            self.database.renew_token(other.database.transport.token)
            self.refused = False
        other.forget()

    def close(self) -> bool:
        """End the stream; tells whether that rolled a transaction back. A next cell would open a new one."""
        with self._lock:
            stream, self._stream = self._stream, None
            if stream is None:
                return False
            was_open = stream.transaction.state is Tx.OPEN
            stream.close()
            self._ledger.clear()
            self.schema.forget_temporary()
            return was_open

    def forget(self) -> bool:
        """Close for good, the stream and the HTTP connections; tells what close() tells."""
        was_open = self.close()
        if self.keeping is not None:
            self.keeping.close()
            self.keeping = None
        self.schema.close()
        self.database.close()
        return was_open

    def _settle(self, cell: Cell) -> tuple[list[Outcome], Cell]:
        """Let only BEGIN and ROLLBACK through after a transaction was lost; ROLLBACK has nothing left to do."""
        first = cell.statements[0]
        lost = self.transaction is Tx.LOST
        if lost and not is_rollback(first) and first.keyword != "BEGIN":
            raise reports.refused(cell)
        self._go_on()
        self._loss, ended, self._ended = None, self._ended or lost, False
        return ([Outcome(first)], cell.without_first()) if ended and is_rollback(first) else ([], cell)

    def _go_on(self) -> None:
        """Let cells run again after a lost transaction."""
        if self.transaction is Tx.LOST:
            self._ledger.clear()
        self._lost = False
        if self._stream is not None:
            self._stream.settle()

    def _still_open(self) -> bool:
        """Ask the server whether the transaction that was open still is; TransactionLost if it is not."""
        stream = self._stream
        if stream is None or stream.transaction.state is not Tx.OPEN:
            return False
        try:
            stream.send([Execute(Stmt("SELECT 1"))])
            if stream.dialect is not Dialect.V3 and stream.autocommit():
                raise TransactionLost("the server rolled the transaction back")
        except PipemagicError as error:
            raise self._with_what_was_undone(error, stream, Cell("", (), ())) from None
        return True

    def _check_arguments(self, cell: Cell) -> None:
        """Let a server that may not bind arguments tell so before the first statement runs, not in the middle."""
        unknown = self.database.dialect is Dialect.SEED and self.database.transport.binds_arguments is None
        if unknown and any(stmt.named_args for stmt in cell.stmts):
            self.once(lambda database: database.execute("SELECT :value", {"value": 1}))

    def _attempt(self, cell: Cell, wanted: Wanted) -> tuple[Run, list[str]]:
        """Send the cell; gives also the lines to show if the stream stands for an earlier one."""
        stream, notes = self._open()
        reopened = stream.reopened
        own = not self._ledger.open and any(map(opens, cell.statements)) and not wanted.atomic
        known = self.database.state
        try:
            with stream.within(wanted.timeout):
                ran = run(stream, cell.stmts, atomic=wanted.atomic, undo=own, mode=atomic.mode(cell))
                if not wanted.atomic:
                    ran = large.complete(stream, cell, ran, wanted)
        except PipemagicError as error:
            if isinstance(error, AuthError) and error.status == 401:
                self.refused = True  # nothing of the cell ran; stream and transaction are as before
                error.hint = hints.of_refused_token(self)
            before = self._ledger.ahead(())
            if stream.phase is Phase.IDLE and not isinstance(error, TransactionLost):
                self._stop_half_way(error, stream, cell, own=own, atomic=wanted.atomic)
            tell = self._with_what_an_atomic_cell_did if wanted.atomic else self._with_what_was_undone
            tell(error, stream, cell)
            if interrupts.is_about(error):
                with suppress(KeyboardInterrupt):  # pressed again: who does not want to wait is not told more
                    self._take_in(self._find_out(stream, cell, before, wanted, known), error, cell)
            raise error from None
        if ran.error is not None and stream.transaction.state is Tx.OPEN:
            self._undo(stream, cell, ran)
        if stream.reopened > reopened:
            notes += self._reopened(stream.replayed)
        return ran, notes

    def _stop_half_way(
        self, error: PipemagicError, stream: ClientStream, cell: Cell, *, own: bool, atomic: bool
    ) -> None:
        """Take in what ran of a cell before a request of it was refused; undo a transaction of its own."""
        before, still_open = self._ledger.ahead(()), stream.transaction.state is Tx.OPEN
        if still_open and (own or atomic):
            self._roll_back(stream)
            still_open = False
        elif not atomic:
            self._take_in_ran(cell, error.ran, atomic=False)
        if error.ran:
            error.message += f"\n{reports.half_way(cell, before, error.ran, still_open=still_open, atomic=atomic)}"
            error.hint = "" if isinstance(error, BusyError) else error.hint  # it says that nothing ran

    def _roll_back(self, stream: ClientStream) -> None:
        """Leave no transaction open on the stream, whatever the server says."""
        try:
            stream.send([Execute(Stmt("ROLLBACK"))])
        except PipemagicError:
            self.close()  # the server rolls back when the stream ends

    def _find_out(self, stream: ClientStream, cell: Cell, before: Ledger, wanted: Wanted, known: int | None) -> Finding:
        """Find out what became of a cell whose answer will not come, by a question beside its stream."""
        ran_long = stream.sent_for() > interrupts.UNDER_WAY and stream.instance is None

        def ask() -> Finding | None:
            return interrupts.ask(self.database, known) if known is not None and ran_long else Finding.OPEN

        return interrupts.find_out(cell, before, atomic=wanted.atomic, ask=ask)

    def _take_in(self, finding: Finding, error: PipemagicError, cell: Cell) -> None:
        """Put what was found out into the error, and have retry() go by it."""
        if finding in (Finding.NOTHING, Finding.ONLY_READS) and self._loss is not None and self._loss.doubt:
            self._loss = replace(self._loss, doubt="") if self._loss.held else None
            if self._loss is not None:
                error.message = reports.undone(error.message, self._loss)
                error.hint = reports.after_loss(self._loss, refusing=False)
        interrupts.tell(error, cell, finding)

    def _undo(self, stream: ClientStream, cell: Cell, ran: Run) -> None:
        """Roll back a transaction that a failed cell began after it had ended that of an earlier cell."""
        if self._ledger.began_at(cell.statements[: len(ran.results)]) is not None:
            self._roll_back(stream)

    def _open(self) -> tuple[ClientStream, list[str]]:
        if self._stream is not None:
            return self._stream, []
        stream, replay = self.database.open_stream(on_reopen=self._replay), self._replay()
        replayed = stream.send(replay) if replay else []
        self._stream = stream  # not before the settings are there
        return stream, self._reopened(replayed)

    def _replay(self) -> Sequence[Request]:
        return [Execute(Stmt(pragma)) for pragma in self._settings.replay()]

    def _reopened(self, replayed: Sequence[Entry]) -> list[str]:
        """Give the lines for a stream that stands for an earlier one, if anything was lost with that."""
        note = self._settings.note()
        self.schema.forget_temporary()
        self._settings.temporary = False
        failed = [entry.error.message for entry in replayed if isinstance(entry, ErrorEntry)]
        return [line for line in (note, *(f"Not set again: {text}" for text in failed)) if line]

    def _move(self, error: ConnectError) -> None:
        """Find the database at another address, or raise; a transaction that was open is lost with the old one."""
        if self.find_again is None:
            raise error
        self._use(self.find_again())
        was_open, self._stream = self.transaction is Tx.OPEN, None
        if was_open:
            lost = self._lose(Loss.of(self._ledger))
            reason = "the service was stopped while the transaction was open, and rolled it back"
            raise TransactionLost(reports.undone(reason, lost), hint=reports.after_loss(lost))

    def _use(self, database: Database) -> None:
        database.transport.observer = self.database.transport.observer
        self.database.close()
        self.database = database

    def _with_what_was_undone(self, error: PipemagicError, stream: ClientStream, cell: Cell) -> PipemagicError:
        """Add the statements that are gone with the transaction to the error that ended it."""
        state = stream.transaction.state
        if state is Tx.OPEN:
            return error
        loss = losses.of_error(error, cell, self._ledger)
        if state is Tx.LOST or isinstance(error, TransactionLost):
            self._lose(loss, refusing=state is Tx.LOST)
            error.message = reports.undone(error.message, loss)
            error.hint = reports.after_loss(loss, refusing=state is Tx.LOST)
        elif stream.phase is Phase.LOST:
            self._loss = loss if loss.held or loss.doubt else None
        self._ledger.clear()
        return error

    def _with_what_an_atomic_cell_did(self, error: PipemagicError, stream: ClientStream, _: Cell) -> PipemagicError:
        """Say of an atomic cell without an answer whether it is certain that nothing was changed."""
        if stream.transaction.state is Tx.LOST or isinstance(error, TransactionLost):
            error.message += "\nnothing was changed"
            error.hint = reports.IN_ONE_CELL if isinstance(error, TransactionLost) else ""
        elif stream.phase is Phase.LOST:
            error.message += "\nthe cell was applied as a whole, or nothing of it"
            self._loss = Loss((), losses.UNKNOWN)
        stream.settle()
        self._ledger.clear()
        return error

    def _ended_by(self, failure: reports.Failure) -> reports.Failure:
        """Take in that the database ended a transaction of earlier cells for the sake of a failed statement."""
        statements = failure.cell.statements[: failure.ran]
        ledger = failure.before.ahead(statements, failure.cell.stmts)
        ended = self.transaction is Tx.NONE and ledger.open and failure.before.began_at(statements) is None
        if not ended:
            return failure
        left = losses.left_over(failure.cell.statements[failure.ran :])
        return replace(failure, lost=self._lose(Loss.of(ledger, left=left)))

    def _lose(self, loss: Loss, *, refusing: bool = True) -> Loss:
        """Remember a transaction that is gone; ``refusing`` what may be the rest of it."""
        self._loss, self._lost, self._ended = loss, refusing, True
        self._ledger.clear()
        return loss

    def _follow(self, cell: Cell, ran: Run, wanted: Wanted) -> list[Outcome]:
        """Take in the statements that ran."""
        done = outcomes(cell, ran.results, wanted.limit)
        self._take_in_ran(cell, len(done), atomic=wanted.atomic)
        if self._ledger.open and large.may_have_written(cell, ran):
            self._ledger.incomplete = True
        return done

    def _take_in_ran(self, cell: Cell, count: int, *, atomic: bool) -> None:
        """Take in the first ``count`` statements of a cell, which ran without an error."""
        for index, statement in enumerate(cell.statements[:count]):
            self._settings.follow(cell.as_sent(index), inside=self._ledger.open or atomic)
            if not atomic:
                self._ledger.follow(statement, cell.stmts[index])
        self._ledger.correct(autocommit=self.transaction is not Tx.OPEN)
        self.schema.follow(cell.statements[:count], self.transaction)

    def _clock_line(self, wanted: Wanted) -> str:
        left = self.clocks
        return f"Transaction: {left.transaction_left}; connection: {left.idle_left}." if wanted.clock else ""


def _asked_once(database: Database, requests: Sequence[Request]) -> list[Entry]:
    with database.open_stream() as stream:
        return stream.send([*requests, Close()])[: len(requests)]
