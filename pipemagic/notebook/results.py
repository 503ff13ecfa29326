"""The results of a cell: shown, stored in variables, written to files, or returned."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from IPython.core.formatters import DisplayFormatter

from pipemagic.errors import SessionError
from pipemagic.notebook.display import say, show
from pipemagic.text import escape_controls, join_words, literal_html, plural

if TYPE_CHECKING:
    from pipemagic.notebook.settings import PipeMagic
    from pipemagic.notebook.sql_options import SqlOptions
    from pipemagic.session import CellResult, Outcome


class Results:
    """Delivers the results of one cell according to its options and the settings.

    Raise UnsupportedError if a package is not installed, and SessionError for a file that cannot be written. This is
    checked when the object is made, before anything runs.
    """

    def __init__(
        self, options: SqlOptions, settings: PipeMagic, variables: dict[str, Any], frame_display: FrameDisplay
    ) -> None:
        self.options, self.variables = options, variables
        self.type = options.type or str(settings.type)
        self.quiet = options.quiet or settings.quiet
        self.files = {
            form: file for form, file in (("csv", options.to_csv), ("parquet", options.to_parquet)) if file is not None
        }
        self._frame_display, self._rows = frame_display, int(settings.display_limit)
        self._note = None if self.quiet else say
        if self.type != "pandas" or self.files:
            self._check()

    def deliver(self, result: CellResult, seconds: float) -> Any:
        """Show, store and write the results of a cell that ran in so many seconds; return the cell's value."""
        out, returned = self.options.out, result.returned
        stored = self.stored(result) if out else result.named
        self._show(result, stored.values(), seconds)
        if len(out) > 1:
            result.check_tables(len(out))
        if stored:
            self._store(stored)
        for form, file in self.files.items():
            self._write(returned, form, file)
        if len(out) == 1 and returned is None:
            self.variables[out[0]] = None
            if not self.quiet:
                say(f"{out[0]} is None: no statement returned columns.")
        return None if out or self.files or returned is None else self._table(returned, shown=True)

    def deliver_failed(self, result: CellResult | None, seconds: float) -> None:
        """Show the outcomes of a failed cell; store the named results that were not undone."""
        if result is not None and result.total > 1:
            self._show(result, result.tables, seconds)
            self._store({name: outcome for name, outcome in result.named.items() if not outcome.undone})

    def _check(self) -> None:
        from pipemagic.frames import arrow_polars, files

        if self.type != "pandas":
            arrow_polars.check_type(self.type)
        for form, file in self.files.items():
            files.check_path(Path(os.path.expanduser(file)))
            if form == "parquet":
                arrow_polars.check_type("arrow")

    def stored(self, result: CellResult) -> dict[str, Outcome]:
        """Return the outcomes to store, by variable name."""
        if not self.options.out:
            return result.named
        out, tables = self.options.out, result.tables
        if len(out) == 1:
            tables = tables[-1:]
        if len(out) != len(tables):
            return result.named
        return result.named | {name: table for name, table in zip(out, tables, strict=True) if name != "_"}

    def _store(self, outcomes: dict[str, Outcome]) -> None:
        by_comment = [name for name, outcome in outcomes.items() if outcome.name == name and outcome.has_columns]
        for name, outcome in outcomes.items():
            self.variables[name] = self._table(outcome) if outcome.has_columns else None
            if not outcome.has_columns and not self.quiet:
                say(f"{name} is None: its statement returned no columns.")
        if by_comment and not self.quiet:
            say(f"Stored in {join_words(by_comment)}.")

    def _write(self, returned: Outcome | None, form: str, file: str) -> None:
        if returned is None:
            raise SessionError(f"no statement returned columns; {file} was not written")
        encoding = "utf-8-sig" if self.options.excel else self.options.encoding or "utf-8"
        count = returned.write(file, form, self._note, encoding=encoding)
        if not self.quiet:
            say(f"Wrote {plural(count, 'row')} to {escape_controls(file)}.")

    def _show(self, result: CellResult, stored: Collection[Outcome], seconds: float) -> None:
        """Show all but the value of the cell: lines, the outcomes of its statements, and earlier frames."""
        if not self.quiet:
            for note in result.notes:
                say(note)
            if result.total > 1 or result.returned is None or result.returned.more:
                self._show_outcomes(result)
            for outcome in result.tables:
                if outcome is not result.returned and outcome not in stored:
                    show(self._table(outcome, shown=True))
            if result.open_line:
                say(result.open_line)
        if self.options.time:
            _show_time(result, seconds)

    def _show_outcomes(self, result: CellResult) -> None:
        """Show a summary of several statements, or a line on a single one."""
        from pipemagic.notebook.statement_summary import describe_outcome, summarize

        outcome = result.outcomes[0] if result.outcomes else None
        if result.total > 1:
            show(summarize(result, timed=self.options.time))
        elif outcome is not None and (outcome.more or outcome.statement.changes_rows or not result.open_line):
            line = describe_outcome(outcome)
            say(f"{line[:1].upper()}{line[1:]}.")

    def _table(self, outcome: Outcome, *, shown: bool = False) -> Any:
        """Return the rows of an outcome; with ``shown`` IPython displays at most ``display_limit`` of them."""
        table = outcome.table(self.type, self._note)
        if shown:
            has_moments = self.type == "pandas" and any(dtype.kind == "M" for dtype in table.dtypes)
            rows = 0 if self.type == "arrow" else self._rows
            self._frame_display.apply(table, rows=rows, timed=outcome.timed if has_moments else ())
        return table


def _show_time(result: CellResult, seconds: float) -> None:
    from pipemagic.notebook.statement_summary import milliseconds

    durations = [outcome.result.query_duration_ms for outcome in result.outcomes]
    times = [duration for duration in durations if duration is not None]
    server = milliseconds(sum(times) if len(times) == len(durations) else None)
    say(f"Time: {milliseconds(seconds * 1000)}, of which {server} on the server.")


class FrameDisplay:
    """Displays the frames that the running cell returns: their texts as they are stored, never as something to execute.

    Control characters are escaped in a terminal, and formulas (``$...$``) are not set in a notebook. The number of rows
    may be limited, and times are shown where they are stored. The frames are ordinary DataFrames, and the options of
    pandas and Polars stay as they are: until `clear`, which ends the cell, a formatter for the type of the frame
    displays it with a changed option.
    """

    def __init__(self, formatter: DisplayFormatter) -> None:
        self._formatter = formatter
        self._frames: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by id: a frame has no hash
        self._changes: dict[int, tuple[int, Sequence[bool]]] = {}
        self._replaced: dict[type, Callable[..., Any] | None] = {}

    def apply(self, frame: object, *, rows: int = 0, timed: Sequence[bool] = ()) -> None:
        """Until the cell ends, display a frame so, with at most ``rows`` rows, and with times in the ``timed`` columns.

        0 rows leave the number to pandas or Polars. ``timed`` has a value for each column of a DataFrame, see
        `timed_frames.with_times`.
        """
        self._frames[id(frame)] = frame
        self._changes[id(frame)] = rows, timed
        if type(frame) not in self._replaced:
            bundles = self._formatter.mimebundle_formatter
            self._replaced[type(frame)] = bundles.for_type(type(frame), self._format)

    def clear(self) -> None:
        """Remove the formatters."""
        bundles = self._formatter.mimebundle_formatter
        for kind, replaced in self._replaced.items():
            if replaced is None:
                bundles.pop(kind, None)
            else:
                bundles.for_type(kind, replaced)
        self._replaced.clear()
        self._frames.clear()
        self._changes.clear()

    def _format(self, frame: object) -> Any:
        """Return the representations of a frame by all other formatters."""
        if self._frames.pop(id(frame), None) is None:
            replaced = next((self._replaced[kind] for kind in type(frame).__mro__ if kind in self._replaced), None)
            return None if replaced is None else replaced(frame)
        rows, timed = self._changes[id(frame)]
        try:
            with _displayed_rows(frame, rows) if rows else nullcontext():
                bundle, metadata = self._formatter.format(_with_times(frame, timed))  # type: ignore[no-untyped-call]
            return _as_text(bundle), metadata
        finally:
            self._frames[id(frame)] = frame


def _as_text(bundle: dict[str, Any]) -> dict[str, Any]:
    """Return the representations of a frame whose texts neither a terminal nor a page executes."""
    safe = {"text/plain": lambda text: escape_controls(text, keep="\n"), "text/html": literal_html}
    return {mime: safe[mime](shown) if mime in safe else shown for mime, shown in bundle.items()}


def _with_times(frame: object, timed: Sequence[bool]) -> object:
    if not any(timed):
        return frame
    from pipemagic.notebook.timed_frames import with_times

    return with_times(frame, timed)


@contextmanager
def _displayed_rows(frame: object, rows: int) -> Iterator[None]:
    """Change the option of pandas or Polars inside a block."""
    if type(frame).__module__.partition(".")[0] == "polars":
        import polars

        with polars.Config(tbl_rows=rows):
            yield
    else:
        import pandas

        with pandas.option_context("display.max_rows", rows, "display.min_rows", rows):
            yield


def show_frame(frame: object) -> None:
    """Display a frame at once, its texts as `FrameDisplay` does."""
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    formatter = getattr(get_ipython(), "display_formatter", None) or DisplayFormatter()
    bundle, metadata = formatter.format(frame)
    display(_as_text(bundle), metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
