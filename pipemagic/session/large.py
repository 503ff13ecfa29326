"""Results that are too large for one response: a single query is asked again by cursor, everything else is not.

The cursor runs on the stream of the cells, so it sees what an open transaction has not committed yet.
"""

from __future__ import annotations

from pipemagic.client.cursors import Cursor, described
from pipemagic.client.running import Run
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.errors import InterruptedRequest, StatementError, UnknownOutcome
from pipemagic.frames.stored import GrowingRows
from pipemagic.hrana.faults import RESPONSE_TOO_LARGE
from pipemagic.hrana.messages import Stmt, StmtResult
from pipemagic.hrana.stream import Phase
from pipemagic.session import interrupts
from pipemagic.session.cells import Cell
from pipemagic.session.kinds import only_reads
from pipemagic.session.wanted import Wanted

FEWER = "ask for fewer rows with LIMIT, or for fewer columns"


def complete(stream: ClientStream, cell: Cell, ran: Run, wanted: Wanted) -> Run:
    """Give what a cell ran, with the rows of a query that one response could not hold.

    A statement that may have written, by its text or by what the server says of it, is never sent again, and its error
    says so. Raises what a request raises, with the stream and its transaction lost where that tells so.
    """
    if ran.error is None or ran.error.code != RESPONSE_TOO_LARGE or len(cell.stmts) != 1:
        return ran
    stmt = cell.stmts[0]
    if stream.dialect is not Dialect.V3:
        ran.error.hint = f"this server has no cursors; {FEWER}"
        return ran
    if not only_reads(cell.statements[0]) or not described(stream, stmt).is_readonly:
        ran.error.message = "the rows that the statement returns are too large for one response"
        ran.error.hint = (
            "it ran, and what it changed may be applied; it was not sent again: look before you run it again"
        )
        return ran
    try:
        return Run([_fetched(stream, stmt, wanted)])
    except StatementError as error:
        return Run([], error)
    except KeyboardInterrupt:  # between two pieces
        interrupted = InterruptedRequest("interrupted while the rows came")
        if stream.phase is Phase.IDLE:  # all had come: the connection goes on
            interrupted.answered = True
            interrupted.message += f"\n{interrupts.Finding.ONLY_READS.value}"
        raise interrupted from None
    except UnknownOutcome as error:
        if not interrupts.is_about(error):  # about those the connection tells what is known
            error.message += f"\n{interrupts.Finding.ONLY_READS.value}"
            error.hint = error.hint or "run it again"
        raise


def may_have_written(cell: Cell, ran: Run) -> bool:
    """Tell whether the results were too large and something of the cell that is not known to have run may have."""
    too_large = ran.error is not None and ran.error.code == RESPONSE_TOO_LARGE
    return too_large and not all(map(only_reads, cell.statements[len(ran.results) :]))


def _fetched(stream: ClientStream, stmt: Stmt, wanted: Wanted) -> StmtResult:
    with Cursor(stream, stmt) as cursor:
        rows = GrowingRows(cursor.cols)
        for batch in cursor:
            rows.add(batch)
            if wanted.progress is not None:
                wanted.progress(len(rows))
    return StmtResult(list(cursor.cols), rows.taken())
