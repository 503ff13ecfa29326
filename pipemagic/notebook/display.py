"""How results, lines and errors look in a notebook and in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipemagic.errors import PipemagicError

if TYPE_CHECKING:
    from pipemagic.session import CellResult, Outcome

_WRITES = ("INSERT", "REPLACE", "UPDATE", "DELETE", "WITH")


def say(line: str) -> None:
    """Print a line of output."""
    sys.stdout.write(f"{line}\n")


def warn(line: str) -> None:
    """Print a line beside the output."""
    sys.stderr.write(f"{line}\n")


@contextmanager
def short_traceback() -> Iterator[None]:
    """Show our errors as one message and bugs in full; both still stop Run All."""
    try:
        yield
    except PipemagicError as error:
        lines = f"{error.code}: {error}".split("\n")  # made here: `error` is unbound after this block
        error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
        raise


def show_cell(result: CellResult) -> None:
    """Show what a cell did, in order, all but the frame that it returns."""
    from IPython.display import display

    for note in result.notes:
        say(note)
    writes: list[Outcome] = []
    for outcome in result.outcomes:
        if outcome.has_columns and outcome is not result.returned:
            _say_affected(writes)
            display(outcome.frame(note=say))  # type: ignore[no-untyped-call]
        elif not outcome.has_columns and outcome.statement.keyword in _WRITES:
            writes.append(outcome)
    said = bool(writes)
    _say_affected(writes)
    if result.open_line:
        say(result.open_line)
    elif not said and result.returned is None:
        say("Done.")


def _say_affected(writes: list[Outcome]) -> None:
    """Say in one line how many rows were changed since the last time."""
    if writes:
        total = sum(outcome.affected_row_count for outcome in writes)
        by = f" by {len(writes)} statements" if len(writes) > 1 else ""
        say(f"{total} row{'' if total == 1 else 's'} affected{by}.")
        writes.clear()
