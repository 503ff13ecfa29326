"""What a cell gave: one outcome for each statement, and the frame it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipemagic.frames import Note, to_frame
from pipemagic.hrana.messages import StmtResult
from pipemagic.session.reports import OPEN
from pipemagic.sql import Statement

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(eq=False)
class Outcome:
    """A statement that ran, and its result as it came."""

    statement: Statement
    result: StmtResult = field(default_factory=StmtResult, repr=False)
    _frame: DataFrame | None = field(default=None, repr=False)

    @property
    def has_columns(self) -> bool:
        """Whether the statement returns rows, be it none of them."""
        return bool(self.result.cols)

    @property
    def affected_row_count(self) -> int:
        """How many rows the statement inserted, updated or deleted."""
        return self.result.affected_row_count or 0

    def frame(self, note: Note | None = None) -> DataFrame:
        """Give the rows as a DataFrame, the same one each time.

        ``note`` is called, the first time, with a line for each column that could not get a type of its own.
        """
        if self._frame is None:
            self._frame = to_frame(self.result, note=note)
        return self._frame


@dataclass(frozen=True, eq=False)
class CellResult:
    """What a cell gave, statement by statement. ``notes`` are lines to show before it."""

    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()
    transaction_open: bool = False

    @property
    def returned(self) -> Outcome | None:
        """The last outcome that has columns: the one whose frame is the cell's value."""
        return next((outcome for outcome in reversed(self.outcomes) if outcome.has_columns), None)

    @property
    def frame(self) -> DataFrame | None:
        """The cell's value; None if no statement returns columns."""
        return None if self.returned is None else self.returned.frame()

    @property
    def open_line(self) -> str:
        """The line that says that a transaction is open; '' if none is."""
        return OPEN if self.transaction_open else ""
