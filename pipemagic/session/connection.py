"""A named database and the stream that its cells run on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pipemagic.client.database import Database
from pipemagic.client.running import Run, run
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.errors import (
    AuthError,
    ConnectError,
    PipemagicError,
    TransactionLost,
)
from pipemagic.hrana.messages import Entry, ErrorEntry, Execute, Request, Stmt
from pipemagic.hrana.stream import Tx
from pipemagic.session import guards, reports
from pipemagic.session.cells import Cell
from pipemagic.session.ledger import Ledger, is_rollback, opens
from pipemagic.session.platform import Platform
from pipemagic.session.profiles import Profile
from pipemagic.session.results import CellResult, Outcome, failed, outcomes
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
    _stream: ClientStream | None = field(default=None, repr=False)
    _ledger: Ledger = field(default_factory=Ledger, repr=False)
    _settings: Settings = field(default_factory=Settings, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)  # a panel may close it meanwhile
    _lost: bool = field(default=False, repr=False)  # a transaction is gone, and the rest of it must not run
    _ended: bool = field(default=False, repr=False)  # the server rolled back: a ROLLBACK has nothing left to do

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
            return self._run(cell, wanted)

    def _run(self, cell: Cell, wanted: Wanted) -> CellResult:
        if self.read_only:
            guards.refuse_writes(cell, self.name)
        done, cell = self._settle(cell)
        if not cell.statements:
            return CellResult(tuple(done))
        self._check_arguments(cell)
        before = self._ledger.ahead(())
        try:
            ran, notes = self._attempt(cell)
        except ConnectError as error:  # nothing was sent
            self._move(error)
            ran, notes = self._attempt(cell)
        done += self._follow(cell, ran)
        is_open = self.transaction is Tx.OPEN and not wanted.close
        if ran.error is not None:
            failure = reports.Failure(cell, ran.error, len(ran.results), before, is_open)
            fault = reports.statement_error(failure, notes)
            fault.cell = failed(failure, done, fault.message.split("\n")[0])
            raise fault
        return CellResult(tuple(done), tuple(notes), is_open)

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
            return was_open

    def forget(self) -> bool:
        """Close for good, the stream and the HTTP connections; tells what close() tells."""
        was_open = self.close()
        self.database.close()
        return was_open

    def _settle(self, cell: Cell) -> tuple[list[Outcome], Cell]:
        """Let only BEGIN and ROLLBACK through after a transaction was lost; ROLLBACK has nothing left to do."""
        first = cell.statements[0]
        if self._lost and not is_rollback(first) and first.keyword != "BEGIN":
            raise reports.refused(cell)
        self._lost = False
        if self._stream is not None:
            self._stream.settle()
        ended, self._ended = self._ended, False
        return ([Outcome(first)], cell.without_first()) if ended and is_rollback(first) else ([], cell)

    def _check_arguments(self, cell: Cell) -> None:
        """Let a server that may not bind arguments tell so before the first statement runs, not in the middle."""
        unknown = self.database.dialect is Dialect.SEED and self.database.transport.binds_arguments is None
        if unknown and any(stmt.named_args for stmt in cell.stmts):
            self.once(lambda database: database.execute("SELECT :value", {"value": 1}))

    def _attempt(self, cell: Cell) -> tuple[Run, list[str]]:
        """Send the cell; gives also the lines to show if the stream stands for an earlier one."""
        stream, notes = self._open()
        reopened = stream.reopened
        own = not self._ledger.open and any(map(opens, cell.statements))
        try:
            ran = run(stream, cell.stmts, undo=own)
        except PipemagicError as error:
            if isinstance(error, AuthError) and error.status == 401:
                self.refused = True  # nothing of the cell ran; stream and transaction are as before
                error.hint = (
                    "renew the token and connect again as before: an open transaction goes on, "
                    "unless a rotation ended it"
                )
            raise self._with_what_was_undone(error, stream, cell) from None
        if ran.error is not None and stream.transaction.state is Tx.OPEN:
            self._undo(stream, cell, ran)
        if stream.reopened > reopened:
            notes += self._reopened(stream.replayed)
        return ran, notes

    def _undo(self, stream: ClientStream, cell: Cell, ran: Run) -> None:
        """Roll back a transaction that a failed cell began after it had ended that of an earlier cell."""
        if self._ledger.began_at(cell.statements[: len(ran.results)]) is not None:
            stream.send([Execute(Stmt("ROLLBACK"))])

    def _open(self) -> tuple[ClientStream, list[str]]:
        if self._stream is not None:
            return self._stream, []
        self._stream = self.database.open_stream(on_reopen=self._replay)
        replay = self._replay()
        return self._stream, self._reopened(self._stream.send(replay) if replay else [])

    def _replay(self) -> Sequence[Request]:
        return [Execute(Stmt(pragma)) for pragma in self._settings.replay()]

    def _reopened(self, replayed: Sequence[Entry]) -> list[str]:
        """Give the lines for a stream that stands for an earlier one, if anything was lost with that."""
        note = self._settings.note()
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
            self._lost = self._ended = True
            undone = list(self._ledger.statements)
            self._ledger.clear()
            reason = "the service was stopped while the transaction was open, and rolled it back"
            raise TransactionLost(reports.undone(reason, undone), hint=reports.AFTER_LOSS)

    def _use(self, database: Database) -> None:
        database.transport.observer = self.database.transport.observer
        self.database.close()
        self.database = database

    def _with_what_was_undone(self, error: PipemagicError, stream: ClientStream, cell: Cell) -> PipemagicError:
        """Add the statements that are gone with the transaction to the error that ended it."""
        state, hint, how = stream.transaction.state, reports.AGAIN, "Undone"
        undone = list(self._ledger.statements)
        if not undone and isinstance(error, TransactionLost):  # it began in this cell
            first = next((number for number, one in enumerate(cell.statements) if opens(one)), 0)
            undone, hint = [statement.text for statement in cell.statements[first:]], reports.IN_ONE_CELL
            how = "Undone, or not run"
        if state is not Tx.OPEN:
            self._ledger.clear()
        if state is Tx.LOST or isinstance(error, TransactionLost):
            self._lost, self._ended = state is Tx.LOST, True
            error.message = reports.undone(error.message, undone, how=how)
            error.hint = reports.AFTER_LOSS if state is Tx.LOST else hint
        return error

    def _follow(self, cell: Cell, ran: Run) -> list[Outcome]:
        """Take in the statements that ran."""
        done = outcomes(cell, ran.results)
        for index, outcome in enumerate(done):
            self._ledger.follow(outcome.statement)
            self._settings.follow(replace(outcome.statement, text=cell.sent(index)))
        if self.transaction is not Tx.OPEN:
            self._ledger.clear()
        return done
