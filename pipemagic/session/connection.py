"""A named database and the stream that its cells run on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar
from weakref import ref

from pipemagic.client.bulk.batches import takes_records
from pipemagic.client.database import Database
from pipemagic.client.repeats import Cause
from pipemagic.client.stream import ClientStream, Dialect, Run
from pipemagic.client.transaction import Loss, Transaction, TransactionContent, TransactionStatement
from pipemagic.errors import (
    AuthError,
    BusyError,
    ConnectError,
    InterruptedRequest,
    LoadError,
    PipemagicError,
    ServerError,
    ServiceError,
    SessionError,
    StatementError,
    TransactionLost,
)
from pipemagic.explore.schema import Relation
from pipemagic.hrana.faults import RESPONSE_TOO_LARGE
from pipemagic.hrana.messages import Close, Entry, Execute, Request, Stmt
from pipemagic.hrana.stream import Phase, Tx
from pipemagic.session import date_parameters, frames, guards, interrupts, messages, recovery, tokens, transactions
from pipemagic.session.cell import DEFAULTS, NO_CELL, Cell, RunOptions, parse_cell
from pipemagic.session.connection_state import CHANGED_BY, CHECKED_AGAIN, ConnectionSettings, RowCounts
from pipemagic.session.database_files import is_without_foreign_keys
from pipemagic.session.interrupts import InterruptOutcome
from pipemagic.session.keep_alive import KeepAlive, RemainingTime
from pipemagic.session.messages import HintNames
from pipemagic.session.organization import Organization
from pipemagic.session.profiles import Profile
from pipemagic.session.recovery import End, end_after, with_last_end
from pipemagic.session.results import CellResult, Outcome, fetch, fetch_large, may_have_written, outcomes
from pipemagic.session.schema_cache import SchemaCache, cache_of
from pipemagic.session.services import FIRST_DATABASE, TEMPORARY
from pipemagic.session.signals import Signal
from pipemagic.text import list_names, word

if TYPE_CHECKING:
    from pipemagic.client.transport import Transport  # imports httpx, which takes long

T = TypeVar("T")


CHECK_TIMEOUT = 3.0
"""Seconds to wait for a server that is asked whether it responds."""


@dataclass(eq=False)
class Connection:
    """A named database. The first cell opens its stream, which stays open until it is closed.

    ``where`` describes where the database is; ``organization`` is the one in which it was found, if any,
    under the name ``listed_as``. ``find_again`` returns the database again when no server listens at its address any
    more (the embedded service may come back on another port).
    """

    name: str
    database: Database
    where: str
    organization: Organization | None = field(default=None, repr=False)
    find_again: Callable[[], Database] | None = field(default=None, repr=False)
    profile: Profile | None = field(default=None, repr=False)  # to connect here again
    listed_as: str = field(default="", repr=False)
    marker_tables: frozenset[str] = field(default=frozenset(), repr=False)  # those of the session that exist here
    existing_tables: Sequence[str] | None = field(default=None, repr=False)  # of a temporary database that existed
    notes: list[str] = field(default_factory=list, repr=False)  # lines of subscribers to `connected`, for the greeting
    refused: bool = field(default=False, repr=False)  # the server no longer accepts the token
    written: Signal[Connection] = field(default_factory=Signal, repr=False)  # sent after it was written to
    others: Callable[[], Mapping[str, Connection]] = field(default=dict, repr=False)  # of its session, for hints
    schema: SchemaCache = field(init=False, repr=False)
    keep_alive_thread: KeepAlive = field(init=False, repr=False)
    stream: ClientStream | None = field(default=None, repr=False)  # of the cells; None before the first one
    unit_of_work: Callable[[], object] = field(default=lambda: None, repr=False)  # that of a DB-API connection, if open
    _gone: bool = field(default=False, repr=False)
    _transaction: Transaction = field(default_factory=Transaction, repr=False)
    _last_end: End = field(default=End.NONE, repr=False)  # of the last transaction
    _settings: ConnectionSettings = field(default_factory=ConnectionSettings, repr=False)
    _row_counts: RowCounts = field(default_factory=RowCounts, repr=False)
    _frame_tables: set[str] = field(default_factory=set, repr=False)  # those with the name of a frame that exist
    _noted_tables: dict[str, frames.Loaded | None] = field(default_factory=dict, repr=False)  # those without a new note
    _reopened_before: int = field(default=0, repr=False)  # of the streams of `stream`, those that were noted
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)  # a panel may close it at the same time

    def __post_init__(self) -> None:
        self.schema = cache_of(lambda: self.database)
        self.keep_alive_thread = KeepAlive(lambda: self.stream, self._lock)
        self.database.transport.find_again = self._find_again

    @property
    def address(self) -> str:
        """The address of the database, for `pipemagic.connect` and other clients, without a token.

        The embedded service may have another port after each start.
        """
        return self.database.url

    @property
    def greeting(self) -> str:
        """The text that reports a new connection."""
        service = "" if self.organization is None else self.where  # otherwise the address says where it is
        details = ", ".join(filter(None, [service, "read-only" if self.read_only else ""]))
        connected = f"Connected to {self.name}{f' ({details})' if details else ''}."
        return "\n".join([connected, *self._existing, f"Address: {self.address}", *self.notes])

    @property
    def _existing(self) -> list[str]:
        """The line about a temporary database that existed before this connection; none for others."""
        if self.existing_tables is None:
            return []
        tables = self.existing_tables
        content = f"with its {'tables' if tables[1:] else 'table'} {list_names(tables)}" if tables else "without tables"
        return [f"It is the same temporary database as before, {content}."]

    @property
    def read_only(self) -> bool:
        """Whether statements that may write are refused before anything is sent."""
        return self.database.read_only

    @property
    def description(self) -> str:
        """Where the database is, and whether the connection is read-only, for people."""
        return f"{self.where}, read-only" if self.read_only else self.where

    @property
    def connect_line(self) -> str:
        """The line that connects again under this name."""
        if self.organization is None or self.profile is not None:
            options = "" if self.profile is None else self.profile.route_options
            return f"%pipedb connect {word(self.name)}{options}"
        is_first = self.listed_as == FIRST_DATABASE
        line = "%pipedb connect --temporary" if is_first else f"%pipedb connect {self.listed_as} --temporary"
        default = TEMPORARY if is_first else self.listed_as
        return line if self.name == default else f"{line} --as {word(self.name)}"

    def database_in(self, slug: str, where: str) -> str | None:
        """Return the name of the database, None if it is not in this organization and service."""
        if self.organization is None or self.where != where:
            return None
        profile = self.profile  # None for a temporary service, which has one organization
        return self.listed_as if profile is None or profile.organization == slug else None

    @property
    def transaction(self) -> Tx:
        """The state of the cells' transaction: none, open or lost."""
        return self._transaction.state

    def run(self, cell: Cell, options: RunOptions = DEFAULTS) -> CellResult:
        """Run a cell on the stream; stop at the first error.

        With ``options.close`` close() follows, so a transaction that it ends is not reported as open.
        Raise StatementError, TransactionLost, and the errors of ClientStream.send.
        """
        before = self._transaction.state
        try:
            with self._lock:
                if self._gone:
                    raise self._gone_error()
                settings = self._settings
                effects = settings.effects() if settings.pragmas or settings.deferred else {}
                try:
                    result = self._run(cell, options)
                except PipemagicError as error:
                    if lines := settings.left_since(effects):
                        raise error.replace(message="\n".join([error.message, *lines])) from None
                    raise
                finally:
                    if self.keep_alive_thread.seconds or settings.temporary.by_key or settings.temporary.marks:
                        self._restart_keep_alive()
                if settings.pragmas or settings.deferred:
                    result.notes += tuple(settings.left_since(effects))
                return result
        finally:  # also after a cell that failed
            ended = before is not Tx.NONE and not self._transaction.open
            if self.written.receivers and (ended or not all(statement.only_reads for statement in cell.statements)):
                self.written.send(self)

    def keep_alive(self, seconds: float | None) -> None:
        """Keep the server-side connection alive for ``seconds`` after each cell; None for the server's own limit.

        Without this choice a connection with temporary tables is kept alive for an hour.
        """
        with self._lock:
            self.keep_alive_thread.choose(seconds)
            self._restart_keep_alive()

    def _restart_keep_alive(self) -> None:
        self._settings.temporary.restore_if_rolled_back(still_open=self._transaction.open)
        self.keep_alive_thread.after_cell(temporary=self.has_temporary_tables)

    @property
    def has_temporary_tables(self) -> bool:
        """Whether the open stream has temporary tables, views or triggers, as far as known."""
        return bool(self._settings.temporary)

    @property
    def temporary_tables(self) -> list[str]:
        """The names of the temporary tables, views and triggers of the stream, as far as known."""
        return self._settings.temporary.names

    def _run(self, cell: Cell, options: RunOptions) -> CellResult:
        if self.database.read_only:
            guards.check_reads(cell, self.name)
        if options.atomic:
            guards.check_atomic(cell)
        loss, state, first = self._transaction.loss, self._transaction.state, cell.statements[0]
        done: list[Outcome] = []
        if loss is not None:
            done, cell = recovery.resume_after_loss(self._transaction, loss, cell)
            self._last_end = End.LOST
        if not cell.statements:
            return CellResult(tuple(done))
        try:
            if options.atomic and self._check_still_open(cell):
                raise guards.transaction_open(self.name)
            cell = cell if options.limit is None else cell.limited(options.limit)
            cell = cell if options.first_rows is None else cell.first_rows(options.first_rows)
            before = self._transaction.content()
            try:
                attempt = self._attempt(cell, before, options)
            except TransactionLost as error:
                if not recovery.is_rolled_back(error, self._transaction, cell, before):
                    raise
                attempt = None
            if attempt is None:  # the ROLLBACK that the cell begins with has nothing to do any more
                return self._run(cell, options)
            cell, run, notes = attempt
        except (ConnectError, LoadError, ServerError, ServiceError, SessionError, InterruptedRequest) as error:
            if isinstance(error, InterruptedRequest) and not error.nothing_ran:
                raise
            if not (error.ran or self._transaction.loss or first.rolls_back):
                self._transaction.restore(loss, refuses=state is Tx.LOST)  # nothing ran: the cell has no effect
            raise
        done += outcomes(cell, run.results, options.limit)
        if self._row_counts.reset or any(statement.changes_rows for statement in cell.statements):
            notes += self._row_counts.after(cell, run, self._tables_with_keys)
        if run.error is not None or not all(item.is_query or item.changes_rows for item in cell.statements):
            self._frame_tables.clear()  # they may be dropped
        undone = options.atomic and run.error is not None
        earlier = {name: self._settings.pragmas.get(name, "") for name in CHECKED_AGAIN}
        self._note_ran(cell, before, len(run.results), atomic=options.atomic, undone=undone)
        if first.keyword == "PRAGMA" and run.results and not self._transaction.open and is_without_foreign_keys(cell):
            notes += self._check_again(earlier)
        if run.error is not None:
            changed = run.results or first.rolls_back or first.changes_rows or first.changes_schema
            if loss is not None and (options.atomic or not (done or changed)):
                self._transaction.restore(loss, refuses=state is Tx.LOST)  # the cell has no effect: a retry is possible
            refused = run.error
            if options.first_rows is not None:
                cell, refused = cell.without_subquery(options.first_rows, refused)
            failure = self._failure(refused, cell, run, before, options)
            raise messages.statement_error(recovery.ended_by(failure, self._transaction), done, notes)
        is_open = self._transaction.open and not options.close
        open_line = transactions.open_line(self._transaction.count) if is_open else ""
        last = None if options.first_rows is None else cell.stmts[-1]
        return CellResult(tuple(done), tuple(notes), open_line, last=last)

    def _failure(
        self, error: StatementError, cell: Cell, run: Run, before: TransactionContent, options: RunOptions
    ) -> messages.FailedStatement:
        """Return what is known about a statement of a cell that failed."""
        if may_have_written(cell, run):
            self._transaction.ran_without_result()
        failed = cell.statements[len(run.results) : len(run.results) + 1]
        if not options.atomic and not all(statement.only_reads for statement in failed):
            self._transaction.failed()
        says_open = self._transaction.open and options.says_open and not options.close
        count = self._transaction.count if says_open else None
        return self.failure(error, cell, len(run.results), before, open_after=count, atomic=options.atomic)

    def failure(
        self, error: StatementError, cell: Cell, ran: int, before: TransactionContent, *,
        open_after: int | None = None, atomic: bool = False,
    ) -> messages.FailedStatement:  # fmt: skip
        """Return what is known about a statement that failed after ``ran`` statements, with its cause.

        ``open_after`` is the number of statements in the transaction that is still open, None if none is.
        """
        schema = self.schema
        if 0 <= error.index < len(cell.stmts):
            from pipemagic.session.causes import with_cause  # imported here, since few cells need it

            error = with_cause(error, cell.stmts[error.index], self.schema)
            error = frames.with_hint(error, cell, self.database.endpoint)
            if cell.scopes and (scope := cell.scopes[error.index]) is not None:
                schema = schema.with_tables(scope.tables.values())
        others = {name: other for name, other in self.others().items() if other is not self}
        return messages.FailedStatement(
            cell, with_last_end(error, self._last_end, self.loss, others), ran, before, schema,
            {name: other.schema for name, other in others.items()}, open_after, atomic=atomic,
        )  # fmt: skip

    @property
    def statements_open(self) -> int:
        """The number of statements in the open transaction."""
        return self._transaction.count

    @property
    def statements(self) -> Sequence[TransactionStatement]:
        """The statements of the open transaction, oldest first, with BEGIN and SAVEPOINT."""
        return self._transaction.statements

    def transaction_content(self) -> TransactionContent:
        """Return what is in the open transaction; nothing if none is open."""
        return self._transaction.content()

    @property
    def loss(self) -> Loss | None:
        """The transaction that was lost, until a cell has run after it; None if none was lost."""
        return self._transaction.loss

    @contextmanager
    def between_cells(self) -> Iterator[bool]:
        """Prevent cells from running inside the block; yield False immediately if one is running."""
        free = self._lock.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._lock.release()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Prevent cells from running inside the block, which waits for one that is running."""
        with self._lock:
            yield

    @property
    def remaining_time(self) -> RemainingTime:
        """The remaining time of both limits, without a request."""
        return RemainingTime.of(self.stream)

    def effects(self) -> list[str]:
        """Return what the settings of its cells change, such as foreign keys that are not checked."""
        return list(self._settings.effects().values())

    def check_server(self) -> str:
        """Ask the server whether it responds, and whether the open transaction still exists; return why not, or ''.

        Nothing is sent without a server-side connection, or while a cell runs. A transaction that has ended is lost
        from then on, and the next cell reports it.
        """
        with self.between_cells() as free:
            if not free or self.remaining_time.idle is None:
                return ""
            try:
                with self.database.sibling(timeout=CHECK_TIMEOUT) as beside:
                    if not beside.health():
                        return "the server reports that it is not healthy"
                self._check_still_open()
            except PipemagicError as error:
                if self.loss is None or self._transaction.open:
                    return error.message.partition("\n")[0]
                self._transaction.report_later()
        return ""

    def begin(self, mode: str = "DEFERRED") -> CellResult:
        """Begin a transaction on the stream of the cells; StatementError if one is open."""
        return self.run(parse_cell(f"BEGIN {mode}"))

    def commit(self) -> TransactionContent:
        """Commit the open transaction and return what was in it; raise StatementError if none is open."""
        return self._end("COMMIT")

    def rollback(self) -> TransactionContent | None:
        """Roll back the open transaction, or acknowledge its loss; return what was in it.

        Return None if the server had already rolled it back.
        """
        with self._lock:
            state, content = self.transaction, self._end("ROLLBACK")
            return None if state is not Tx.LOST and self._last_end is End.LOST else content

    def abandon_transaction(self) -> None:
        """Roll back an open transaction or acknowledge a lost one, in code that handles another error."""
        with self._lock:
            if self.transaction is Tx.NONE:
                return
            try:
                self.rollback()
            except PipemagicError:
                self.close()  # the server rolls back what is not committed when the stream ends
            self._transaction.acknowledge()

    def _end(self, how: str) -> TransactionContent:
        with self._lock:
            content = self._transaction.content()
            self.run(parse_cell(how))
            return content

    def to_retry(self) -> Cell:
        """Return the cell that retry() would run; raise SessionError with the reason if it cannot run.

        If a transaction is open, ask the server whether it still is; raise the errors of that request, too.
        """
        with self._lock:
            if self.transaction is Tx.OPEN:
                self._learn_loss()
            if (loss := self.loss) is None:
                raise SessionError(f"nothing to rerun on {self.name}", hint="%pipedb retry reruns a lost transaction")
            return recovery.retry_cell(loss)

    def _learn_loss(self) -> None:
        """Record the loss of the open transaction; raise SessionError if the server still has it."""
        try:
            self._check_still_open()
        except TransactionLost:
            pass
        except ConnectError:
            if self.find_again is None:
                raise
            self._stopped()
        else:
            raise SessionError(
                f"nothing to rerun on {self.name}: its transaction is still open", hint=transactions.END_IT
            )
        self._transaction.report_later()

    def retry(self) -> CellResult:
        """Rerun the statements of the transaction that was rolled back, as one atomic batch.

        Parameters keep their earlier values. If a statement fails nothing is changed, and retry() can be called
        again. Raise the errors of to_retry() and run().
        """
        with self._lock:
            cell, loss, refuses = self.to_retry(), self.loss, self.transaction is Tx.LOST
            self._transaction.acknowledge()
            try:
                return self.run(cell, RunOptions(atomic=True))
            except PipemagicError:
                now = self._transaction.loss
                if now is None or loss is None or now.statements == loss.statements:  # certainly nothing was changed
                    self._transaction.restore(loss, refuses=refuses)
                raise

    def with_database(self, function: Callable[[Database], T]) -> T:
        """Return what a function returns for the database, outside the stream; its timeout and transaction stay.

        The message and the hint of a StatementError are the same as for a statement of a cell, without the position.
        """
        self._check_not_gone()
        try:
            return function(self.database)
        except ConnectError:
            self._check_not_gone()  # it was closed meanwhile
            raise
        except StatementError as error:
            raise messages.explained(error, HintNames(self.schema, generated=True)) from None

    def check(self, cell: Cell) -> None:
        """Raise the error of the only statement of a cell if the server refuses it; it does not run.

        The request is outside of the stream.
        """
        from pipemagic.session.typed_sql import check_statement

        others = {name: other.schema for name, other in self.others().items() if other is not self}
        self.with_database(lambda database: check_statement(database, cell, self.schema, others))

    def request(
        self, requests: Sequence[Request], *, committed: bool = False, timeout: float | None = None
    ) -> list[Entry]:
        """Send requests that change nothing; return an entry for each, errors included.

        The stream of the cells is used if it may see more than others, in a transaction and with temporary tables,
        unless they are about what is ``committed``. ``timeout`` holds on that stream alone, and ends it.
        """
        with self._lock:
            if self.stream is not None and self.sees_more and not committed:
                with nullcontext() if timeout is None else self.stream.deadline(timeout):
                    return self._send(self.stream, requests)

        def on_own_stream(database: Database) -> list[Entry]:
            with database.open_stream() as own:
                return own.send([*requests, Close()])[: len(requests)]

        return self.with_database(on_own_stream)

    @property
    def closed(self) -> bool:
        """Whether it was closed by the user, and is no connection of its session any more."""
        return self._gone

    @property
    def sees_more(self) -> bool:
        """Whether cells may see tables and changes that other requests do not see: temporary or uncommitted ones."""
        return self.transaction is Tx.OPEN or (self.transaction is Tx.NONE and self.has_temporary_tables)

    def reset_counts(self, cell: Cell) -> list[str]:
        """Return the lines on functions such as changes() that would be 0 in a cell, if it ran now."""
        with self._lock:
            stream = self.stream
            is_open = stream is not None and stream.is_open and stream.idle_for() <= stream.idle_limit
            reopens = not is_open or (stream is not None and stream.reopened > self._reopened_before)
            return self._row_counts.expected(cell, self._tables_with_keys, reopens=reopens)

    def _tables_with_keys(self) -> Sequence[Relation]:
        return self.schema.tables_soon(complete=True)

    def with_dates(self, cell: Cell, *, committed: bool = False) -> Cell:
        """Return a cell with its values as they would be sent: see `pipemagic.session.date_parameters`.

        Its frames have no rows. With ``committed`` it is for a request outside of the stream, which sees only committed
        tables.
        """
        return self._with_arguments(cell, partial(self.request, committed=committed), self.statements, empty=True)[0]

    def has_loaded(self, table: str, frame: object) -> None:
        """Remember that a table exists that has the name of the variable with the frame which was loaded into it."""
        self._frame_tables.add(table)
        with suppress(TypeError):  # it has no weak references
            self._noted_tables[table] = ref(frame)

    def _with_arguments(
        self, cell: Cell, send: Callable[[Sequence[Request]], list[Entry]], earlier: Sequence[TransactionStatement],
        *, in_transaction: bool = False, empty: bool = False,
    ) -> tuple[Cell, list[str]]:  # fmt: skip
        """Return a cell with its dates and its frames as they are sent, and lines on the frames."""
        lines: list[str] = []
        if frames.may_send(cell, self.database.endpoint):
            tables, noted = self._frame_tables, self._noted_tables
            if empty:  # a plan shows no notes
                tables, noted = {*tables}, {**noted}
            cell, lines = frames.without_tables(cell, send, tables, noted)
        if cell.dates:
            cell = date_parameters.with_dates(cell, send, earlier)
        if any(cell.scopes):
            empty = empty or all(statement.keyword == "EXPLAIN" for statement in cell.statements)
            cell, sent = frames.with_rows(cell, lambda: self._takes_records, in_transaction=in_transaction, empty=empty)
            lines += sent
        return cell, lines

    @cached_property
    def _takes_records(self) -> bool:
        return takes_records(self.database)

    def renew(self, other: Connection) -> None:
        """Use the token and the encryption key of another connection to the same database, which is closed."""
        with self._lock:
            self.database.renew_token(other.database.transport.token)
            self.database.transport.key = other.database.transport.key
            self.refused, self.existing_tables = False, other.existing_tables
        other.dispose()

    def close(self, *, notify: bool = True) -> bool:
        """End the stream; return True if that rolled a transaction back. The next cell opens a new one.

        Without ``notify`` listeners are not notified, since the database no longer responds.
        """
        with self._lock:
            loss, state = self.loss, self.transaction
            was_open = state is Tx.OPEN
            stream, self.stream = self.stream, None
            if stream is None:
                return False
            stream.close()
            self._last_end = End.CLOSED if was_open else self._last_end
            self._transaction.restore(loss, refuses=state is Tx.LOST)
            self.schema.forget_temporary()
        if was_open and notify:
            self.written.send(self)
        return was_open

    def close_if_idle(self) -> None:
        """End the stream if no cell is running, and it has no transaction and no temporary tables.

        Never wait for a cell.
        """
        with self.between_cells() as free:
            if free and self.transaction is Tx.NONE and not self.has_temporary_tables:  # else it expires by itself
                self.close()

    def dispose(self) -> bool:
        """Close the stream and the HTTP connections permanently; return what close() returns."""
        with self._lock:
            self._gone = True
            was_open = self.close(notify=False)
        self.keep_alive_thread.close()
        self.schema.close()
        self.database.close()
        return was_open

    def _check_not_gone(self) -> None:
        if self._gone:
            raise self._gone_error()

    def _gone_error(self) -> SessionError:
        return SessionError(f"the connection {self.name} was closed", hint=self.connect_line)

    def _check_still_open(self, cell: Cell = NO_CELL) -> bool:
        """Return True if a transaction is open; raise TransactionLost if the server has ended it.

        A ``cell`` that waits for the answer does not run, then.
        """
        if self.stream is None or not self._transaction.open:
            return False
        self._send(self.stream, [Execute(Stmt("SELECT 1"))], confirm=True, cell=cell)
        return True

    def _send(
        self, stream: ClientStream, requests: Sequence[Request], *, confirm: bool = False, cell: Cell = NO_CELL
    ) -> list[Entry]:
        """Send requests outside of cells; with ``confirm`` check that the transaction is still open after them.

        After an error a ``cell`` does not run.
        """
        before = self._transaction.content()
        try:
            entries = stream.send(requests)
            if confirm:
                stream.confirm()
        except (PipemagicError, KeyboardInterrupt) as raised:
            error = stream.abandoned(raised)
            raise recovery.failed(error, stream, cell, before) from None
        return entries

    def _attempt(self, cell: Cell, before: TransactionContent, options: RunOptions) -> tuple[Cell, Run, list[str]]:
        """Send the cell; return it as it was sent, its run, and the lines to show if the stream replaces another."""
        stream, notes = (self.stream, []) if self.stream is not None else self._open()
        index = self.database.replication.reliable_index
        begins = not before.open and any(statement.opens_transaction for statement in cell.statements)
        records = (before.open or begins) and not options.atomic
        mode = cell.begin_mode if options.atomic else "DEFERRED"
        waits = options.timeout is not None and not options.atomic and interrupts.waits_first(cell, before)
        run = Run([])
        try:
            with nullcontext() if options.timeout is None else stream.deadline(options.timeout):
                if cell.frames or cell.dates:
                    cell, lines = self._with_arguments(cell, stream.send, before.statements, in_transaction=before.open)
                    notes += lines
                with self._transaction.recording(cell.texts) if records else nullcontext():
                    if waits:
                        run = stream.run(cell.stmts[:1])
                    is_query = any(cell.scopes) and len(cell.stmts) == 1 and cell.statements[0].is_query
                    if is_query and not options.atomic and stream.dialect is Dialect.V3:  # its frames are sent once
                        run = fetch(stream, cell.stmts[0], options.progress)
                    elif run.error is None:
                        rest = stream.run(
                            cell.stmts[len(run.results) :], atomic=options.atomic, undo=records and begins, mode=mode
                        )
                        run = run.followed_by(rest) if waits else rest
                    if run.error is not None and run.error.code == RESPONSE_TOO_LARGE and len(cell.stmts) == 1:
                        run = run if options.atomic else fetch_large(stream, cell, run.error, options.progress)
        except (PipemagicError, KeyboardInterrupt) as raised:
            error, count = frames.refused(stream.abandoned(raised), cell), len(run.results)
            error = error.replace(ran=count + error.ran) if count else error
            first = cell.only_first() if waits and not count else cell  # a timeout while it waits is about BEGIN alone
            undo = begins or options.atomic
            failed = self._failed(error, stream, cell, first, before, index, undo=undo, atomic=options.atomic)
            if self.organization is not None and isinstance(error, ServerError) and error.status in (404, 502):
                failed = failed.replace(hint=self.organization.archived_hint(self.listed_as) or failed.hint)
            raise failed from None
        if run.error is not None and self._transaction.open:
            began = before.began_at(cell.statements[: len(run.results)])
            if began is not None:  # after the cell ended the transaction of an earlier cell
                self._roll_back(stream)
        if stream.reopened > self._reopened_before:
            notes += self._reopened(stream.replayed)
        if cell.scopes:
            run = Run(frames.with_types(cell, run.results), run.error)
        return cell, run, notes

    def _failed(
        self, error: PipemagicError, stream: ClientStream, cell: Cell, sent: Cell, before: TransactionContent,
        index: int | None, *, undo: bool, atomic: bool,
    ) -> PipemagicError:  # fmt: skip
        """Return the error of a cell for one of a request, after which its transaction is open, ended or lost.

        - Nothing listens any more: an open transaction ended with the service, whose new address is used from now on.
        - The request was refused: nothing of it ran, and an earlier transaction is still open; one of the cell is
          rolled back (``undo``).
        - There was no response, or the server ended the transaction: `recovery.failed` says what is lost, and asks the
          server if that is not certain.

        ``sent`` is the part of the cell that the request is about, ``index`` the replication index before it.
        """
        is_gone = isinstance(error, ConnectError) and not error.ran and self.find_again is not None
        if is_gone and before.open and self._transaction.open:
            return self._stopped()
        if stream.phase is Phase.IDLE and not isinstance(error, TransactionLost):
            return self._refused(error, stream, cell, before, undo=undo, atomic=atomic)

        def query() -> InterruptOutcome:
            asks = stream.sent_for() > interrupts.UNDER_WAY and stream.instance is None
            asks = asks and (index is not None or interrupts.only_begins(sent, before))
            return interrupts.query_outcome(self.database, index) if asks else InterruptOutcome.OPEN

        failed = recovery.failed(error, stream, sent, before, atomic=atomic, query=query)
        if isinstance(error, TransactionLost) and is_without_foreign_keys(cell):
            self.close()  # otherwise foreign keys would stay off
        else:
            self._settings.note_ran(cell, before, error.ran, atomic=atomic, undone=True)
        return failed

    def _refused(
        self, error: PipemagicError, stream: ClientStream, cell: Cell, before: TransactionContent, *, undo: bool,
        atomic: bool,
    ) -> PipemagicError:  # fmt: skip
        """Return the error of a cell with a refused request; ``undo`` a transaction that the cell began."""
        hint = error.hint
        if isinstance(error, AuthError) and error.status == 401:
            self.refused = True  # nothing of the request ran; the stream and its transaction are unchanged
            hint = tokens.refused_token_hint(
                self.name, self.profile, expired="expired" in error.message,
                renewal="" if self.organization is None else self.connect_line,
            )  # fmt: skip
        still_open = self._transaction.open
        if still_open and undo:
            self._roll_back(stream)
            still_open = False
        elif not atomic:
            self._note_ran(cell, before, error.ran, atomic=False)
        if not error.ran:
            return error.replace(hint=hint)
        fate = messages.half_way(error, cell, before, still_open=still_open, atomic=atomic)
        hint = "" if isinstance(error, BusyError) else hint  # its message says that nothing ran
        return error.replace(message=f"{error.message}\n{fate}", hint=hint)

    def _roll_back(self, stream: ClientStream) -> None:
        """End the transaction on the stream, even if ROLLBACK fails."""
        try:
            stream.send([Execute(Stmt("ROLLBACK"))])
        except PipemagicError:
            self.close()  # the server rolls back when the stream ends
            self._transaction.forget()

    def _open(self) -> tuple[ClientStream, list[str]]:
        settings = self._settings
        stream = self.database.open_stream(settings.replay, self._transaction, is_empty=lambda: not settings.any)
        replay = settings.replay()
        replayed = stream.send(replay) if replay else []
        self.stream = stream  # only after the settings are restored
        return stream, self._reopened(replayed)

    def _reopened(self, replayed: Sequence[Entry]) -> list[str]:
        """Return the lines for a stream that replaces an earlier one, if settings or temporary tables were lost."""
        self.schema.forget_temporary()
        self._row_counts.reopened()
        self._reopened_before = 0 if self.stream is None else self.stream.reopened
        return self._settings.reopened(replayed)

    def _check_again(self, earlier: Mapping[str, str]) -> list[str]:
        """Repeat the ``earlier`` PRAGMAs of constraints that a script switched off, and return a line on each.

        Without one they are checked, as every connection begins.
        """
        lines: list[str] = []
        if self.stream is not None:
            for name, pragma in self._settings.check_again(earlier):
                with suppress(PipemagicError):  # the script has run; a connection that was lost begins again with ON
                    self._send(self.stream, [Execute(Stmt(pragma))])
                lines.append(CHECKED_AGAIN[name])
        return lines

    def _find_again(self, cause: Cause) -> Transport | None:
        """Return the transport to the database at its address of now; None if it has no other, or not now."""
        if cause is not Cause.UNREACHABLE or self.find_again is None or self._transaction.open:
            return None  # with an open transaction the next cell has to report its loss
        self._check_not_gone()
        return self.find_again().transport

    def _stopped(self) -> TransactionLost:
        """Use the service that was started again, and return the error for the transaction that ended with it."""
        assert self.find_again is not None
        self.database.transport.move_to(self.find_again().transport)
        self.stream = None
        return recovery.stopped(self._transaction)

    def _note_ran(
        self, cell: Cell, before: TransactionContent, count: int, *, atomic: bool, undone: bool = False
    ) -> None:
        """Record the effects of the first ``count`` statements of a cell, which ran without an error.

        Of those that were ``undone``, PRAGMAs stay in effect.
        """
        ran = cell.statements[:count]
        if [statement for statement in ran if statement.keyword in CHANGED_BY]:
            self._settings.note_ran(cell, before, count, atomic=atomic, undone=undone)
        in_transaction = before.open or self._transaction.open
        if self._settings.deferred and not self._transaction.open and any(statement.changes_rows for statement in ran):
            self._settings.deferred = False
        if atomic:
            self._last_end = End.FAILED if undone else End.COMMITTED
        elif in_transaction or any(statement.opens_transaction for statement in ran):
            self._last_end = end_after(self._last_end, before, ran, still_open=self._transaction.open)
        if in_transaction or any(statement.changes_schema for statement in ran) or monotonic() >= self.schema.check_at:
            self.schema.update(ran, self._transaction.state)
