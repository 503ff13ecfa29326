"""What a DB-API connection runs its statements on: a stream of its own, or the notebook's connection."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from typing import TypeAlias
from weakref import ref

from pipemagic.client.cursor import Cursor
from pipemagic.client.database import Database
from pipemagic.client.stream import Dialect, Run
from pipemagic.client.transaction import TransactionContent
from pipemagic.dbapi.errors import OperationalError
from pipemagic.dbapi.rows import Rows
from pipemagic.errors import PipemagicError, TransactionLost, with_hint
from pipemagic.hrana.messages import Stmt, StmtResult
from pipemagic.hrana.stream import Tx
from pipemagic.session.cell import DEFAULTS, Cell, RunOptions
from pipemagic.session.connection import Connection as NotebookConnection
from pipemagic.session.connection_state import CHANGED_BY, ConnectionSettings
from pipemagic.session.transactions import listing
from pipemagic.sql import parse

AGAIN = "call rollback(), then run the whole transaction again"

_PREFIX = "pipemagic_dbapi_"
_numbers = count(1)


class StreamLink:
    """A stream of its own, on which a unit of work is a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._settings = ConnectionSettings()
        self._stream = database.open_stream(self._settings.replay, is_empty=lambda: not self._settings.any)
        self._reopened = 0
        self._begin = ""
        self._work: list[tuple[str, int]] = []
        """The statements of the open transaction, and how many times in a row each of them ran."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or lost and not yet rolled back."""
        return self._stream.transaction.state is not Tx.NONE or bool(self._begin)

    @property
    def in_unit(self) -> bool:
        """The same: every transaction is one of this connection."""
        return self.in_transaction

    @property
    def has_temporary_tables(self) -> bool:
        """Whether the stream has temporary tables, which end with it."""
        return bool(self._settings.temporary)

    @property
    def is_lost(self) -> bool:
        """Whether the transaction was lost, and not yet rolled back."""
        return self._stream.transaction.state is Tx.LOST

    def begin(self, mode: str) -> None:
        """Begin a unit of work with the next statement; ``mode`` is that of BEGIN."""
        self._begin = f"BEGIN {mode}".rstrip()

    def commit(self) -> None:
        """Commit the unit of work, if one is open."""
        self._end("COMMIT")

    def rollback(self) -> None:
        """Roll back the unit of work, or acknowledge its loss, if there is one."""
        transaction = self._stream.transaction
        if transaction.state is not Tx.LOST:
            try:
                self._end("ROLLBACK")
            except TransactionLost:  # the server has rolled it back already
                transaction.acknowledge()
        else:
            self._begin = ""
            transaction.acknowledge()

    def _end(self, how: str) -> None:
        if self._begin:
            self._begin = ""
        elif self._stream.transaction.state is not Tx.NONE:
            self.run(_cell(how))

    def run(self, cell: Cell, *, atomic: bool = False, times: int = 1) -> list[StmtResult]:
        """Run statements up to the first error; return their results. ``atomic``: all or none of them apply.

        ``times`` is the number of statements that each of them replaces, for the message about a lost transaction.
        """
        transaction = self._stream.transaction
        if transaction.state is Tx.LOST and cell.statements[0].rolls_back:
            self.rollback()
            rest = cell.without_first()
            return [StmtResult(), *(self.run(rest, atomic=atomic, times=times) if rest.statements else ())]
        begin = self._begin
        if begin:
            cell = replace(cell, statements=(parse(begin), *cell.statements), stmts=(Stmt(begin), *cell.stmts))
        before = transaction.content()
        try:
            run = self._stream.run(cell.stmts, atomic=atomic)
        except TransactionLost as error:
            raise self._with_work(error) from None
        except (PipemagicError, KeyboardInterrupt) as error:
            raise self._stream.abandoned(error) from None
        self._note_reopened()
        work = self._work
        self._note_ran(cell, before, run, atomic=atomic, times=times)
        if run.error is not None:
            if begin and len(run.results) == 1 and not run.error.code.startswith("SQLITE_CONSTRAINT"):
                self.rollback()  # nothing is in it; after a constraint, OR FAIL may have kept rows
            raise run.error
        if not atomic and not transaction.open and before.ahead(cell.statements, cell.stmts).open:
            # The time limit passed after the last statement, so that none has an error; commit() would do nothing.
            self._work = [*work, *((statement.text, times) for statement in cell.statements[bool(begin) :])]
            raise self._with_work(transaction.rolled_back(late=False))
        return run.results[bool(begin) :]

    def _note_ran(self, cell: Cell, before: TransactionContent, run: Run, *, atomic: bool, times: int) -> None:
        """Record settings, and what ran in the open transaction, for the message if it is lost."""
        count = len(run.results)
        if count or self._stream.transaction.open:  # of a batch with a result that is too large, BEGIN has run
            self._begin = ""
        ran = cell.statements[:count]
        if any(statement.keyword in CHANGED_BY for statement in ran):
            self._settings.note_ran(cell, before, count, atomic=atomic, undone=atomic and run.error is not None)
        if not self._stream.transaction.open:
            self._work = []
            return
        for statement in ran:
            if self._work and self._work[-1][0] == statement.text:
                self._work[-1] = statement.text, self._work[-1][1] + times
            elif not statement.only_reads and not statement.controls_transaction:
                self._work.append((statement.text, times))

    def _with_work(self, error: TransactionLost) -> TransactionLost:
        """Return the error of a lost transaction with the statements that were rolled back."""
        work, self._work = self._work, []
        texts = [text if times == 1 else f"({times:,} times) {text}" for text, times in work]
        lines = ["Undone:", listing(texts)] if texts else []
        return error.replace(message="\n".join([error.message, *lines]), hint=AGAIN)

    def _note_reopened(self) -> None:
        """Warn if temporary tables are gone because the server had ended the idle stream."""
        if self._stream.reopened > self._reopened:
            self._reopened = self._stream.reopened
            has_temporary = bool(self._settings.temporary)
            lines = self._settings.reopened(self._stream.replayed)
            for line in lines if has_temporary else lines[1:]:
                warnings.warn(line, stacklevel=5)

    def rows(self, cell: Cell) -> Rows:
        """Run a query; return its rows, which are received while they are fetched."""
        if self._stream.dialect is not Dialect.V3:
            return _all_rows(self.run(cell))
        if self._begin:
            begin, self._begin = self._begin, ""
            self.run(_cell(begin))
        stack = ExitStack()
        try:
            cursor = stack.enter_context(Cursor(self._stream, cell.stmts[0]))
        except TransactionLost as error:
            raise self._with_work(error) from None
        self._note_reopened()
        batches = iter(cursor)

        def close(error: BaseException | None) -> None:
            if error is None and self.has_temporary_tables:
                deque(batches, maxlen=0)  # the end of an aborted response is the end of the stream, and of its tables
            stack.__exit__(None if error is None else type(error), error, None)

        return Rows(cursor.cols, batches, close)

    def takes_records(self) -> bool:
        """Ask the server whether it can read records: see `pipemagic.dbapi.many`."""
        return _takes_records(self._database)

    def close(self) -> None:
        """Roll back the unit of work, and free what belongs to the connection."""
        self._stream.close()
        self._database.close()


class NotebookLink:
    """The connection of a notebook, on which a unit of work is a savepoint.

    So a unit inside a transaction of the cells leaves that transaction open, and one outside commits by itself. A cell
    that ends the transaction also ends the unit. Results are received at once, since a cell may run between two
    fetches. A call waits while a cell runs.
    """

    def __init__(self, connection: NotebookConnection) -> None:
        self._connection = connection
        self._name = ""
        """The savepoint of the unit of work."""
        self._begins = self._has_begun = self._is_outermost = False

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or lost and not yet rolled back."""
        return self._connection.transaction is not Tx.NONE or self._begins

    @property
    def in_unit(self) -> bool:
        """Whether a unit of work is open, or lost and not yet rolled back."""
        return self._begins or self._has_begun

    @property
    def has_temporary_tables(self) -> bool:
        """Whether the stream has temporary tables, which end with it."""
        return self._connection.has_temporary_tables

    @property
    def is_lost(self) -> bool:
        """Whether the unit of work ended with a transaction that was lost, or that a cell ended."""
        return self._has_begun and not self._is_open

    @property
    def _is_open(self) -> bool:
        return self._name in _savepoints(self._connection.transaction_content())

    def begin(self, mode: str) -> None:  # noqa: ARG002 - see StreamLink
        """Begin a unit of work with the next statement; a savepoint has no ``mode``."""
        self._begins = True

    def commit(self) -> None:
        """Commit the unit of work, if one is open; after an error `rollback` still undoes it."""
        self._begins = False
        with self._connection.exclusive():
            if self._has_begun:
                self._check_unit()
                self._run(_cell(f"RELEASE {self._name}"))
                self._end()

    def rollback(self) -> None:
        """Roll back the unit of work, or acknowledge its loss, if there is one."""
        self._begins = False
        with self._connection.exclusive():
            if self._has_begun:
                self._roll_back()

    def _roll_back(self) -> None:
        if self._is_open:
            try:
                self._run(_cell(f"ROLLBACK TO {self._name}", f"RELEASE {self._name}"))
            except TransactionLost:
                if not self._is_outermost:
                    self._end()
                    raise
        self._end()
        loss = self._connection.loss
        if self._is_outermost and loss is not None and f"SAVEPOINT {self._name}" in loss.texts:
            self._run(_cell("ROLLBACK"))  # acknowledges the loss; one of the cells is for a cell to acknowledge

    def _end(self) -> None:
        self._has_begun = False
        if self._connection.unit_of_work() is self:
            self._connection.unit_of_work = lambda: None

    def _begin(self) -> None:
        """Begin the unit of work; raise OperationalError if another one is open, which its end would end as well."""
        other = self._connection.unit_of_work()
        if isinstance(other, NotebookLink) and other is not self and not other.is_lost:
            message = f"another DB-API connection has uncommitted changes in {self._connection.name}"
            raise OperationalError(with_hint(message, "call commit() or rollback() there first"))
        self._connection.unit_of_work = ref(self)
        try:
            for name in _savepoints(self._connection.transaction_content()):
                if name.startswith(_PREFIX):  # of a dropped connection; inside it, no RELEASE would commit
                    self._run(_cell(f"ROLLBACK TO {name}", f"RELEASE {name}"))
                    break
            self._name = f"{_PREFIX}{next(_numbers)}"
            self._is_outermost = self._connection.transaction is Tx.NONE
            self._run(_cell(f"SAVEPOINT {self._name}"))
        except BaseException:
            self._end()
            raise
        self._begins, self._has_begun = False, True

    def run(self, cell: Cell, *, atomic: bool = False, times: int = 1) -> list[StmtResult]:  # noqa: ARG002
        """Run statements up to the first error; return their results. ``atomic``: all or none of them apply."""
        with self._connection.exclusive():
            if self._begins:
                self._begin()
            self._check_unit()
            before = self._connection.transaction_content()
            is_of_library = self._has_begun and self._is_outermost  # it ends the transaction, not a cell
            results = self._run(cell, RunOptions(atomic=atomic, says_open=not is_of_library))
            if self._has_begun and self._name not in _savepoints(before.ahead(cell.statements, cell.stmts)):
                self._end()  # a COMMIT or ROLLBACK among the statements; commit() reports an end by the server
        return results

    def _check_unit(self) -> None:
        """Raise TransactionLost if the unit of work is over: statements would commit by themselves, in silence."""
        if self._has_begun and not self._is_open and self._connection.transaction is not Tx.LOST:
            message = "a cell, %pipedb close or OR ROLLBACK has ended the transaction"
            raise TransactionLost(message, hint="call rollback(), and check which of its changes were kept")

    def _run(self, cell: Cell, options: RunOptions = DEFAULTS) -> list[StmtResult]:
        try:
            result = self._connection.run(cell, options)
        except TransactionLost as error:
            if not (self._has_begun and self._is_outermost):
                raise
            message = error.message.replace(f"\n  SAVEPOINT {self._name}", "").removesuffix("\nUndone:")
            raise error.replace(message=message, hint=AGAIN) from None
        for note in result.notes:
            warnings.warn(note, stacklevel=5)
        return [outcome.result for outcome in result.outcomes]

    def rows(self, cell: Cell) -> Rows:
        """Run a query; return its rows, received at once."""
        return _all_rows(self.run(cell))

    def takes_records(self) -> bool:
        """Ask the server whether it can read records: see `pipemagic.dbapi.many`."""
        return _takes_records(self._connection.database)

    def close(self) -> None:
        """Roll back the unit of work, and free what belongs to the connection."""
        self.rollback()


Link: TypeAlias = StreamLink | NotebookLink


def _cell(*texts: str) -> Cell:
    """Return a cell of statements without parameters."""
    return Cell("; ".join(texts), tuple(map(parse, texts)), tuple(map(Stmt, texts)))


def _savepoints(content: TransactionContent) -> list[str]:
    return [name for name, _ in content.savepoints]


def _takes_records(database: Database) -> bool:
    from pipemagic.client.bulk.batches import takes_records  # imports numpy

    return takes_records(database)


def _all_rows(results: Sequence[StmtResult]) -> Rows:
    """Return the rows of the only result."""
    return Rows(results[0].cols, [results[0].rows])
