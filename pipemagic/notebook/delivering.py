"""What becomes of a cell's results: shown, given back, or stored."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
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


@dataclass
class Delivery:
    """The results of one cell on their way into the notebook."""

    args: Arguments
    variables: dict[str, Any]
    preferences: PipeMagic

    def check(self) -> None:
        """Refuse, before anything is run, what could not be delivered."""
        from pipemagic.frames import files, tables

        tables.check_type(self.type)
        for form, file in self.files.items():
            files.check_path(Path(file).expanduser())
            if form == "parquet":
                tables.check_type("arrow")

    @property
    def type(self) -> str:
        """Which kind of table is wanted."""
        return self.args.get("--type") or str(self.preferences.type)

    @property
    def files(self) -> dict[str, str]:
        """The files that are to be written, by their forms."""
        given = {form: self.args.get(f"--to-{form}") for form in ("csv", "parquet")}
        return {form: file for form, file in given.items() if file is not None}

    @property
    def quiet(self) -> bool:
        """Whether only the frame is wanted."""
        return self.args.on("--quiet") or self.preferences.quiet

    def take(self, result: CellResult, seconds: float) -> Any:
        """Take in the results of a cell that ran; gives its value."""
        names, stored = asking.variables(self.args), self._stored(result)
        self._show(result, stored.values())
        self._say_time(result, seconds)
        if len(names) > 1:
            result.check_tables(len(names))
        self._store(stored)
        returned = result.returned
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
        self._say_time(result, seconds)
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
        limit_display(self.type, int(self.preferences.display_limit))
        return outcome.table(self.type, self._note)

    @property
    def _note(self) -> Callable[[str], None] | None:
        return None if self.quiet else say

    def _say_time(self, result: CellResult, seconds: float) -> None:
        if self.args.on("--time"):
            told = [outcome.result.query_duration_ms for outcome in result.outcomes]
            known = [time for time in told if time is not None]
            server = milliseconds(sum(known) if len(known) == len(told) else None)
            say(f"Time: {milliseconds(seconds * 1000)}, of which {server} on the server.")
