"""What becomes of a cell's results: shown, given back, or stored."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pipemagic.counts import plural
from pipemagic.errors import SessionError, StatementError
from pipemagic.notebook import asking
from pipemagic.notebook.arguments import Arguments
from pipemagic.notebook.display import say, show, show_end, show_lines
from pipemagic.notebook.limits import limit_display
from pipemagic.notebook.preferences import PipeMagic
from pipemagic.notebook.strip import milliseconds
from pipemagic.svg import printable

if TYPE_CHECKING:
    from pipemagic.session import CellResult, Outcome


def deliver(run: Callable[[], CellResult], args: Arguments, variables: dict[str, Any], preferences: PipeMagic) -> Any:
    """Run a cell; show what is to be shown; give the frame, or store it."""
    delivery = Delivery(args, variables, preferences)
    delivery.check()
    started = perf_counter()
    try:
        result = run()
    except StatementError as error:
        delivery.failed(error, perf_counter() - started)
        raise
    return delivery.take(result, perf_counter() - started)


class Delivery:
    """The results of one cell on their way into the notebook.

    ``type`` is the kind of table that is wanted, ``files`` are the files to write, by their forms. With ``quiet`` only
    the frame is wanted.
    """

    def __init__(self, args: Arguments, variables: dict[str, Any], preferences: PipeMagic) -> None:
        self.args, self.variables = args, variables
        self.type = args.get("--type") or str(preferences.type)
        self.quiet = args.on("--quiet") or preferences.quiet
        self.files = {form: file for form in ("csv", "parquet") if (file := args.get(f"--to-{form}")) is not None}
        self._display_limit = int(preferences.display_limit)
        self._note = None if self.quiet else say

    def check(self) -> None:
        """Refuse, before anything is run, what could not be delivered."""
        from pipemagic.frames import arrow_polars, files

        if self.type != "pandas":
            arrow_polars.check_type(self.type)
        for form, file in self.files.items():
            files.check_path(Path(file).expanduser())
            if form == "parquet":
                arrow_polars.check_type("arrow")

    def take(self, result: CellResult, seconds: float) -> Any:
        """Take in the results of a cell that ran; gives its value."""
        names, stored = asking.variables(self.args), self._stored(result)
        self._show(result, stored.values())
        if self.args.on("--time"):
            _say_time(result, seconds)
        if len(names) > 1:
            result.check_tables(len(names))
        if stored:
            self._store(stored)
        returned = result.returned
        if self.files:
            self._write(returned)
        if not names:
            return None if returned is None or self.files else self._frame(returned)
        if len(names) == 1 and returned is None:
            self.variables[names[0]] = None
            if not self.quiet:
                say(f"{names[0]} is None: no statement returned columns.")
        return None

    def failed(self, error: StatementError, seconds: float) -> None:
        """Take in what ran of a cell that failed: it is shown, and what is named and not undone is stored."""
        result: CellResult | None = error.cell
        if result is None or result.total == 1:
            return
        named = {name: outcome for name, outcome in result.named.items() if not outcome.undone}
        self._show(result, result.tables)
        if self.args.on("--time"):
            _say_time(result, seconds)
        self._store(named)

    def _stored(self, result: CellResult) -> dict[str, Outcome]:
        """Give the outcomes that go into variables, by their names."""
        names, tables, stored = asking.variables(self.args), result.tables, result.named
        if len(names) == 1:
            tables = tables[-1:]
        if len(names) == len(tables):
            stored = stored | {name: one for name, one in zip(names, tables, strict=True) if name != "_"}
        return stored

    def _store(self, outcomes: dict[str, Outcome]) -> None:
        for name, outcome in outcomes.items():
            self.variables[name] = self._frame(outcome) if outcome.has_columns else None
            if not outcome.has_columns and not self.quiet:
                say(f"{name} is None: its statement returned no columns.")

    def _write(self, returned: Outcome | None) -> None:
        for form, file in self.files.items():
            if returned is None:
                raise SessionError(f"no statement returned columns; {file} was not written")
            count = returned.write(file, form, self._note)
            if not self.quiet:
                say(f"Wrote {plural(count, 'row')} to {printable(file)}.")

    def _show(self, result: CellResult, kept: Collection[Outcome]) -> None:
        if self.quiet:
            return
        show_lines(result, timed=self.args.on("--time"))
        for outcome in result.tables:
            if outcome is not result.returned and outcome not in kept:
                show(self._frame(outcome))
        show_end(result)

    def _frame(self, outcome: Outcome) -> Any:
        if self._display_limit:
            limit_display(self.type, self._display_limit)
        return outcome.table(self.type, self._note)


def _say_time(result: CellResult, seconds: float) -> None:
    durations = [outcome.result.query_duration_ms for outcome in result.outcomes]
    known = [duration for duration in durations if duration is not None]
    server = milliseconds(sum(known) if len(known) == len(durations) else None)
    say(f"Time: {milliseconds(seconds * 1000)}, of which {server} on the server.")
