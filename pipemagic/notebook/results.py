"""The results of a cell: shown below a summary, stored in variables, written to files, or returned."""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from IPython.core.formatters import DisplayFormatter
from IPython.core.getipython import get_ipython

from pipemagic.errors import SessionError
from pipemagic.notebook.display import say, show
from pipemagic.svg import FAINT, INK, LINE, WARNING
from pipemagic.text import escape_controls, join_words, literal_html, plural, shorten, text_table

if TYPE_CHECKING:
    from pipemagic.notebook.settings import PipeMagic
    from pipemagic.notebook.sql_options import SqlOptions
    from pipemagic.session import CellResult, Outcome
    from pipemagic.session.cell import Cell

_WIDTH = 56
"""Maximum length of a statement in the summary."""

_STYLE = (
    f"<style>.pipemagic-summary {{ border-collapse: collapse; border: none; border-left: 2px solid {LINE} }}"
    " .pipemagic-summary tr, .pipemagic-summary td"
    f" {{ background: none !important; border: none; color: {INK}; text-align: left !important;"
    " padding: 1px 16px 1px 6px; white-space: pre }"
    " .pipemagic-summary .text { font-family: var(--jp-code-font-family, monospace) }"
    f" .pipemagic-summary .failed td {{ color: {WARNING} }} .pipemagic-summary .faint td {{ color: {FAINT} }}</style>"
)
_CLASSES = ("", "", "text", "", "")  # of the columns

_OF_IPYTHON = re.compile(r"_+|_i+|_i?\d+|_[iod]h|In|Out|__\w+__")


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
        self._grid: object = None
        if self.type != "pandas" or self.files:
            self._check()

    def deliver(self, result: CellResult, seconds: float, grid: object = None) -> Any:
        """Show, store and write the results of a cell that ran for ``seconds``, and return the cell's value.

        That is the ``grid`` of its last statement, if there is one.
        """
        self._grid = grid
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
        if grid is not None or out or self.files or returned is None:
            return grid
        return self._table(returned, shown=True)

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
            raise SessionError(f"cannot write {file}: no statement returned columns")
        encoding = "utf-8-sig" if self.options.excel else self.options.encoding or "utf-8"
        count = returned.write(file, form, self._note, encoding=encoding)
        if not self.quiet:
            say(f"Wrote {plural(count, 'row')} to {escape_controls(file)}.")

    def _show(self, result: CellResult, stored: Collection[Outcome], seconds: float) -> None:
        """Show everything but the value of the cell: lines, the outcomes of its statements, and earlier frames."""
        if not self.quiet:
            for note in result.notes:
                say(note)
            if result.total > 1 or result.returned is None or (result.returned.more and self._grid is None):
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
        outcome = result.outcomes[0] if result.outcomes else None
        if result.total > 1:
            show(_summarize(result, timed=self.options.time))
        elif outcome is not None and (outcome.more or outcome.statement.changes_rows or not result.open_line):
            line = _describe_outcome(outcome)
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
    durations = [outcome.result.query_duration_ms for outcome in result.outcomes]
    times = [duration for duration in durations if duration is not None]
    server = _milliseconds(sum(times) if len(times) == len(durations) else None)
    say(f"Time: {_milliseconds(seconds * 1000)}, of which {server} on the server.")


# -- the summary above the results of several statements


class StatementLine(NamedTuple):
    """One statement: number, name or "", shortened text, outcome, server time or "".

    ``style`` is "failed", "faint" for a statement that did not run, or "".
    """

    number: str
    name: str
    text: str
    outcome: str
    time: str = ""
    style: str = ""


@dataclass(frozen=True, repr=False)
class StatementSummary:
    """A table in a notebook, aligned lines elsewhere; empty columns are left out."""

    rows: tuple[StatementLine, ...]

    def __repr__(self) -> str:
        return "\n".join(text_table(row[:-1] for row in self.rows))

    def _repr_html_(self) -> str:
        used = [any(column) for column in zip(*self.rows, strict=True)]
        body = ""
        for row in self.rows:
            cells = zip(_CLASSES, row, used, strict=False)  # all but the style
            columns = (f"<td{_class(name)}>{escape(text)}</td>" for name, text, has_text in cells if has_text)
            body += f"<tr{_class(row.style)}>{''.join(columns)}</tr>"
        return literal_html(f'{_STYLE}<table class="pipemagic-summary"><tbody>{body}</tbody></table>')


def _summarize(result: CellResult, *, timed: bool = False) -> StatementSummary:
    """Return the summary of a cell; ``timed`` adds the time that the server took for each statement."""
    rows = [
        StatementLine(
            str(number),
            outcome.name,
            _one_line(outcome.statement.text),
            _describe_outcome(outcome),
            _milliseconds(outcome.result.query_duration_ms) if timed else "",
        )
        for number, outcome in enumerate(result.outcomes, start=1)
    ]
    for number, statement in enumerate(result.rest, start=len(rows) + 1):
        failed = statement is result.failed
        outcome = f"failed: {shorten(escape_controls(result.fault), _WIDTH)}" if failed else "not run"
        style = "failed" if failed else "faint"
        rows.append(StatementLine(str(number), "", _one_line(statement.text), outcome, style=style))
    return StatementSummary(tuple(rows))


def _describe_outcome(outcome: Outcome) -> str:
    """Return the outcome of a statement in a few words: ``2 rows affected``."""
    count, parts = outcome.affected_row_count, []
    if outcome.more:
        parts.append(f"first {plural(len(outcome.result.rows), 'row')}; there are more")
    elif outcome.has_columns:
        parts.append(plural(len(outcome.result.rows), "row"))
        parts += [f"{count:,} affected"] if count else []
    elif outcome.statement.changes_rows:
        parts.append(f"{plural(count, 'row')} affected")
    parts += ["undone"] if outcome.undone else []
    return ", ".join(parts) or "done"


def _milliseconds(time: float | None) -> str:
    """Return a time with its unit, "?" if the server does not report it."""
    return "?" if time is None else f"{time:.2f} ms"


def _one_line(statement: str) -> str:
    return shorten(escape_controls(" ".join(statement.split())), _WIDTH)


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


# -- names in `-- name: x` comments: a comment never replaces more than data


def without_reserved_names(cell: Cell, variables: Mapping[str, Any], out: Sequence[str]) -> tuple[Cell, list[str]]:
    """Return the cell without the names that comments must not assign, and a line for each of them.

    ``out`` are the variables that --out names.
    """
    reasons = {name: _reason(name, variables, out) for name in cell.names if name}
    if not any(reasons.values()):
        return cell, []
    names = tuple("" if reasons.get(name) else name for name in cell.names)
    hidden = cell.names[-1] if len(out) == 1 else ""  # --out stores its rows under the same name
    lines = [
        f"`-- name: {name}` stores nothing, because {reason}; use another name."
        for name, reason in reasons.items()
        if reason and not (name == hidden and name in out)
    ]
    return replace(cell, names=names), lines


def _reason(name: str, variables: Mapping[str, Any], out: Sequence[str]) -> str:
    """Return why a name cannot be assigned, '' if it can."""
    if name in out:
        return f"--out {name} names the same variable"
    if _OF_IPYTHON.fullmatch(name):
        return f"{name} is a variable of IPython"
    value = variables[name] if name in variables else getattr(builtins, name, None)
    if isinstance(value, ModuleType):
        return f"{name} is a module"
    if isinstance(value, type):
        return f"{name} is a class"
    return f"{name} is a function" if callable(value) else ""


# -- the display of frames


class FrameDisplay:
    """Displays the frames that the running cell returns; their texts are shown as stored and never executed.

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
        """Display a frame with at most ``rows`` rows, and with times in the ``timed`` columns, until the cell ends.

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
    """Return the representations of a frame, escaped so that no terminal or page executes their texts."""
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
    """Display a frame immediately, escaped as in `FrameDisplay`."""
    from IPython.display import display

    formatter = getattr(get_ipython(), "display_formatter", None) or DisplayFormatter()
    bundle, metadata = formatter.format(frame)
    display(_as_text(bundle), metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
