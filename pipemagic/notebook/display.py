"""How results, lines and errors look in a notebook and in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from pipemagic.counts import plural
from pipemagic.errors import PipemagicError
from pipemagic.notebook.strip import strip
from pipemagic.terminals import visible, without_passwords

if TYPE_CHECKING:
    from pipemagic.session import CellResult


_KEPT = "\n\t"  # of the control characters; names and messages come from elsewhere, and a terminal obeys the others


def say(line: str) -> None:
    """Print a line of output."""
    sys.stdout.write(f"{visible(line, keep=_KEPT)}\n")


def warn(line: str) -> None:
    """Print a line beside the output."""
    sys.stderr.write(f"{visible(line, keep=_KEPT)}\n")


@contextmanager
def short_traceback() -> Iterator[None]:
    """Show our errors as one message and bugs in full; both still stop Run All."""
    try:
        yield
    except PipemagicError as error:
        # made here: `error` is unbound after this block
        lines = visible(without_passwords(f"{error.code}: {error}"), keep=_KEPT).split("\n")
        error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
        raise
    except UsageError as error:  # IPython prints its text as it is
        error.args = (visible(without_passwords(str(error)), keep=_KEPT),)
        raise


def show(thing: object) -> None:
    """Show a frame or a picture as a cell shows its value."""
    from IPython.display import display

    display(thing)  # type: ignore[no-untyped-call]


def show_lines(result: CellResult, *, timed: bool = False) -> None:
    """Show what stands above the frames of a cell: lines to know, and a strip if it has several statements."""
    for note in result.notes:
        say(note)
    if result.total > 1:
        show(strip(result, timed=timed))
    elif result.returned is not None and result.returned.more:
        say(f"First {plural(len(result.returned.result.rows), 'row')}; there are more.")


def show_end(result: CellResult) -> None:
    """Show what stands below them: a line for a single statement without rows, another for an open transaction."""
    if result.total == 1 and result.returned is None and (_writes(result) or not result.open_line):
        say(_done(result))
    if result.open_line:
        say(result.open_line)


def _writes(result: CellResult) -> bool:
    return any(outcome.statement.changes_rows for outcome in result.outcomes)


def _done(result: CellResult) -> str:
    """Say what the only statement of a cell did."""
    return f"{plural(result.outcomes[0].affected_row_count, 'row')} affected." if _writes(result) else "Done."
