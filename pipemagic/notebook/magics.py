"""The magics %pipedb, %sql and %%sql: parse the line, call the session, return the value."""

from __future__ import annotations

import logging
import re
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)

from pipemagic import plugins, sql
from pipemagic.errors import PipemagicError, StatementError, UsageError
from pipemagic.notebook import sql_options
from pipemagic.notebook.display import KEPT, say, show, warn
from pipemagic.notebook.load_source import add_load_hint
from pipemagic.notebook.notes import FOUND_IN, Notes, notes_on, notes_on_names
from pipemagic.notebook.progress import show_progress
from pipemagic.notebook.results import FrameDisplay, Results, without_reserved_names
from pipemagic.notebook.settings import PipeMagic
from pipemagic.notebook.sql_source import parameter_values, text_of_variable
from pipemagic.text import escape_controls, mask_passwords

if TYPE_CHECKING:
    from pipemagic.notebook.panels.result_grid import ResultGrid
    from pipemagic.notebook.plugin_magics import Accepted, PluginMagics
    from pipemagic.notebook.sql_options import SqlOptions
    from pipemagic.session import CellResult, Session
    from pipemagic.session.cell import Cell
    from pipemagic.session.results import Outcome
    from pipemagic.session.snippets import Snippet, Snippets

_log = logging.getLogger(__name__)

_MAYBE_JUPYSQL = re.compile(r"-|\S+\s*\Z|.*://|\w+\s*=\s*<<")
"""Matches every first line with JupySQL syntax: options, a connection, an address, ``name = <<``."""

_MAYBE_VARIABLE = re.compile(r"\s*(?:[{:@$;]|--|/\*)")
"""Matches the beginning of each text that is only a variable, perhaps with comments; few other texts match."""


class _Read(NamedTuple):
    """The SQL of a cell, the values of its parameters, and the snippet to save."""

    cell: Cell
    values: Mapping[str, Any]
    snippet: Snippet | None


@magics_class
class PipeMagics(Magics):
    """The magics of one shell; their session is created at the first use."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._notes: list[str] = []  # on the SQL of the running cell
        self._grids: dict[str, tuple[str, list[ResultGrid]]] = {}
        """The grids that cells show, by the id of the cell, each with the id of the request that ran it."""
        self.of_plugins: list[PluginMagics] = []

    @property
    def user_ns(self) -> dict[str, Any]:
        """The variables of the notebook."""
        variables: dict[str, Any] = self.shell.user_ns
        return variables

    @property
    def arguments_of_plugins(self) -> dict[str, Accepted]:
        """The arguments of the magics of plugins, by their names with percent signs."""
        return {marker: accepted for magics in self.of_plugins for marker, accepted in magics.arguments.items()}

    @cached_property
    def settings(self) -> PipeMagic:
        """The settings that ``%config`` shows."""
        return PipeMagic.of_shell(self.shell)

    @cached_property
    def session(self) -> Session:
        """The session of this shell."""
        from pipemagic.frames.arrow_polars import import_package
        from pipemagic.notebook.display import ask_token
        from pipemagic.session import Session

        self.shell.events.register("post_run_cell", self._after_cell)
        settings = self.settings
        session = Session(
            ask_token=ask_token,
            notify=say,
            default=lambda: settings.connection,
            default_of_project=lambda: settings.connection_of_project,
            reads_ahead=lambda: settings.read_ahead,
            while_starting=lambda: import_package(settings.type),
            variables=lambda: self.user_ns,
        )
        plugins.for_each(lambda plugin: plugins.load(plugin.start)(session) if plugin.start else None, warn)
        return session

    @cached_property
    def frame_display(self) -> FrameDisplay:
        """How the frames that the running cell returns are displayed."""
        return FrameDisplay(self.shell.display_formatter or DisplayFormatter())

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def sql(self, line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None) -> Any:
        """Run SQL on the current connection and return the DataFrame of the last statement with columns.

        One statement, or several separated by semicolons::

            %%sql
            SELECT origin, count(*) AS n FROM flights GROUP BY origin

        Use the values of variables, and store the result in a variable::

            %%sql -o late --limit 1000
            SELECT * FROM flights WHERE dep_delay > :minutes AND origin IN :airports

        Run all statements or none on another connection; show a query plan; return a value to Python::

            %%sql --atomic --on flights
            %sql --explain SELECT * FROM flights WHERE origin = 'JFK'
            n = %sql SELECT count(*) FROM flights

        %pipedb help sql lists all options; see also %pipedb help parameters, transactions, results and limits.
        """
        variables: dict[str, Any] = self.shell.user_ns
        with short_traceback():
            if _MAYBE_JUPYSQL.match((line.strip() or (cell or "").lstrip()).partition("\n")[0]):
                from pipemagic.notebook import jupysql

                jupysql.refuse_sql(line, cell, self.session, variables)
            visible: Mapping[str, Any] = variables
            on = None
            if local_ns is not None and local_ns is not variables:  # those of a function
                visible = visible_variables(local_ns, variables)
            try:
                if self._grids:
                    self._close_grids()
                options, text = sql_options.parse(line, cell, visible)
                on = options.on
                self.session.wire.begin()
                read = self._read(options, text, visible)
                if options.grid or (cell is not None and self.settings.display == "grid"):
                    options = replace(options, grid=sql_options.shows_grid(options, read.cell))
                run = self._explain if options.explain or options.dry_run else self._run
                value = run(read.cell, options, read.values)
                if read.snippet is not None:
                    self._save(read.snippet, options)
            except UsageError as error:
                raise sql_options.add_variable_hint(error, line, cell, visible) from None
            except PipemagicError as error:
                if self.session.cell_failed.receivers:
                    self.session.cell_done(on, error)
                explained = add_load_hint(error, variables, on)
                raise sql_options.add_variable_hint(explained, line, cell, visible) from None
            if self.session.cell_ran.receivers:
                self.session.cell_done(on)
            return value

    @no_var_expand
    @needs_local_scope
    @line_magic
    def pipedb(self, line: str, local_ns: Mapping[str, Any] | None = None) -> Any:
        """Connect to databases and manage them.

        Connect to a database of the embedded service, or to one by its address::

            %pipedb connect
            %pipedb connect libsql://flights-acme.example.com --token-env FLIGHTS_TOKEN

        List the tables, load a DataFrame into a table, show the state of the connection::

            %pipedb tables
            %pipedb load frame --table flights
            %pipedb status

        %pipedb help lists the commands of daily use, %pipedb help --all lists all; %pipedb COMMAND --help shows one.
        """
        from pipemagic.notebook.commands import CommandContext, run

        self.session.wire.begin()
        with short_traceback():
            visible = visible_variables(local_ns, self.user_ns)
            value = run(line, CommandContext(self.session, visible, self.user_ns, self.settings))
        if type(value).__name__ == "DataFrame":
            self.frame_display.apply(value)
        return value

    @no_var_expand
    def sqlcmd(self, line: str) -> None:
        """Raise UsageError with the %pipedb line that replaces this line of JupySQL."""
        from pipemagic.notebook import jupysql

        with short_traceback():
            jupysql.refuse_sqlcmd(line, self.user_ns)

    @no_var_expand
    def sqlplot(self, line: str) -> None:
        """Raise UsageError with the %pipedb line that replaces this line of JupySQL."""
        from pipemagic.notebook import jupysql

        with short_traceback():
            jupysql.refuse_sqlplot(line, self.session, self.user_ns)

    def _read(self, options: SqlOptions, text: str, variables: Mapping[str, Any]) -> _Read:
        """Read the SQL of a cell with the values of its parameters, and the snippet to save."""
        from pipemagic.session.cell import READS_TABLES, parse_cell  # loaded with the session

        values = variables if options.params is None else parameter_values(options.params, variables)
        source, bound, name = options.file or "", False, ""
        if _MAYBE_VARIABLE.match(text) and options.file is None:
            text, source, name = text_of_variable(text, values, variables) or (text, "", "")
        if options.jinja:
            from pipemagic.session import parameters

            rendered = parameters.render(text, values, source=source)
            source = f"{source} as rendered" if source else parameters.RENDERED
            text, values, bound = rendered.text, ChainMap(rendered.bound, dict(values)), bool(rendered.bound)
        snippets = self.session.snippets
        snippet = None if options.save is None else _snippet(options, text, snippets, bound=bound)
        cell = parse_cell(text, values, source=source, using=options.with_, snippets=snippets)
        if options.frames and self.settings.frames == "off":
            raise UsageError("frames are switched off", hint='%config PipeMagic.frames = "explicit" allows --frames')
        if READS_TABLES.search(cell.text) and self.settings.frames != "off":
            from pipemagic.session.cell import FramePolicy
            from pipemagic.session.frames import with_frames

            policy = FramePolicy(self.settings.frames == "auto", options.frames, options.on)
            cell = with_frames(cell, variables, policy)
        return _Read(replace(cell, names=(name, *cell.names[1:])) if name else cell, values, snippet)

    def _save(self, snippet: Snippet, options: SqlOptions) -> None:
        self.session.snippets.save(snippet)
        if not (options.quiet or self.settings.quiet):
            say(f"Saved {snippet.name}.")

    def _run(self, cell: Cell, options: SqlOptions, variables: Mapping[str, object]) -> Any:
        """Run a cell, deliver its results, and return its value; ``variables`` are those that it can use."""
        settings = self.settings
        reserved: list[str] = []
        if any(cell.names):
            cell, reserved = without_reserved_names(cell, self.shell.user_ns, options.out)
        if not (options.confirm or settings.confirm or all(statement.only_reads for statement in cell.statements)):
            from pipemagic.session.guards import check_where

            check_where(cell)
        results = Results(options, settings, self.shell.user_ns, self.frame_display)
        started = perf_counter()
        try:
            watched = getattr(self.shell, "kernel", None) is not None or sys.stderr.isatty()
            with show_progress("rows received", settings) if watched else nullcontext() as progress:
                result = self.session.run_cell(cell, on=options.on, options=options.run_options(progress))
        except StatementError as error:
            results.deliver_failed(error.cell, perf_counter() - started)
            raise
        grid = self._grid(cell, options, result, variables) if options.grid and result.last is not None else None
        seconds = perf_counter() - started
        notes = settings.notes and not results.quiet
        if notes and FOUND_IN.search(cell.text):
            self._notes += self._notes_on(cell, options.on, result.outcomes, variables)
        for line in () if results.quiet else reserved:
            say(line)
        value = results.deliver(result, seconds, grid)
        if notes and result.repeated:
            self._notes += self._notes_on_names(result, results, options.on)
        return value

    def read(self, text: str, variables: Mapping[str, Any]) -> Cell:
        """Return the SQL of a cell without options, with the values of its parameters; it reads no frames."""
        return replace(self._read(sql_options.SqlOptions(), text, variables).cell, frames=(), frame_policy=None)

    def notes_on(
        self, cell: Cell, on: str | None, outcomes: Sequence[Outcome], variables: Mapping[str, object]
    ) -> list[str]:
        """Return the notes that %%sql shows below a cell whose last statement with columns returns its value."""
        from pipemagic.session import CellResult

        if not self.settings.notes:
            return []
        results = Results(sql_options.SqlOptions(), self.settings, self.shell.user_ns, self.frame_display)
        notes = self._notes_on(cell, on, outcomes, variables)
        return notes + self._notes_on_names(CellResult(tuple(outcomes)), results, on)

    def _grid(
        self, cell: Cell, options: SqlOptions, result: CellResult, variables: Mapping[str, Any]
    ) -> ResultGrid:  # fmt: skip
        """Return the grid of the last statement, and give its outcome the rows of the first page.

        ``variables`` has the values of its parameters. Those that a copied cell would not find are written into it.
        """
        from pipemagic.explore.conditions import with_literals
        from pipemagic.explore.page_query import SelectedRows
        from pipemagic.hrana.values import decode_argument
        from pipemagic.notebook.panels.result_grid import ResultGrid
        from pipemagic.text import word

        assert result.last is not None
        connection, outcome = self.session.connection(options.on), result.outcomes[-1]
        args = {argument.name: decode_argument(argument.value) for argument in result.last.named_args or ()}
        sent = (result.last.sql or "").rpartition(" LIMIT ")[0]
        found: Mapping[str, Any] = self.user_ns  # the variables of a function may have the same names
        if options.params:
            found = variables.parents if options.jinja and isinstance(variables, ChainMap) else variables
        unknown = {
            name: value for name, value in args.items()
            if name[1:] not in found or found[name[1:]] is not variables[name[1:]]
        }  # fmt: skip
        rows = SelectedRows.of_result(outcome.result.cols, with_literals(cell.statements[-1].text, unknown), sent, args)
        repeated = {"--params": options.params, "--with": ",".join(options.with_)}
        flags = "".join(f" {flag} {word(value)}" for flag, value in repeated.items() if value)
        flags += " --frames" if options.frames else ""
        try:
            grid = ResultGrid(connection, rows, self.user_ns, timeout=options.timeout, options=flags)
        except StatementError as error:
            if result.total == 1:
                raise
            raise error.replace(message=f"{error.message}\nThe statements before the last one ran.") from None
        if grid.model.page is not None:
            outcome.result, outcome.more = grid.model.page.result, grid.model.page.more
        cell_id, request = self._running_cell()
        if cell_id:
            self._grids.setdefault(cell_id, (request, []))[1].append(grid)
        return grid

    def _running_cell(self) -> tuple[str, str]:
        """Return the id of the cell that runs and of the request that runs it, '' if the front end sends none."""
        parent = self.shell.get_parent() if hasattr(self.shell, "get_parent") else {}
        return parent.get("metadata", {}).get("cellId", ""), parent.get("header", {}).get("msg_id", "")

    def _close_grids(self) -> None:
        """Close the grids that the running cell showed when it ran before: its new output has replaced them."""
        cell_id, request = self._running_cell()
        if cell_id in self._grids and self._grids[cell_id][0] != request:
            for grid in self._grids.pop(cell_id)[1]:
                grid.close()

    def _notes_on(
        self, cell: Cell, on: str | None, outcomes: Sequence[Outcome], variables: Mapping[str, object]
    ) -> list[str]:
        """Return the notes on the SQL of a cell."""
        try:
            return list(notes_on(cell, self.session.connection(on).schema, variables, outcomes))
        except Exception:  # noqa: BLE001 - the statements have run: their result matters more
            _log.exception("notes on a cell failed")
            return []

    def _notes_on_names(self, result: CellResult, results: Results, on: str | None) -> list[str]:
        """Return the notes on results with several columns of one name."""
        try:
            return list(notes_on_names(result, results, self.session.connection(on).schema))
        except Exception:  # noqa: BLE001 - as in _notes_on
            _log.exception("notes on a result failed")
            return []

    def _explain(self, cell: Cell, options: SqlOptions, _: Mapping[str, object]) -> Any:
        """Return the query plans, or the descriptions of the statements; with ``--out`` store them in a variable."""
        if len(options.out) > 1:
            flag = "--explain" if options.explain else "--dry-run"
            raise UsageError(f"{flag} returns one value; --out must name one variable")
        explain = self.session.explain if options.explain else self.session.describe
        value = explain(cell, on=options.on)
        if not self.settings.quiet:
            for line in self.session.connection(options.on).reset_counts(cell):
                say(line)
        if not options.out:
            return value
        self.user_ns[options.out[0]] = value
        return None

    def shut_down(self) -> None:
        """Close the session, if there is one."""
        self.frame_display.clear()
        if "session" in self.__dict__:
            self.shell.events.unregister("post_run_cell", self._after_cell)
            self.session.shut_down()
            del self.__dict__["session"]

    def _after_cell(self, result: object = None) -> None:  # noqa: ARG002
        """Show the notes on the SQL of a cell below it, and its requests if that is switched on."""
        self.frame_display.clear()
        notes, self._notes = self._notes, []
        if notes:
            show(Notes(tuple(dict.fromkeys(notes))))
        wire = self.session.wire
        if wire.end() and wire.on:
            show(wire.last)


def _snippet(options: SqlOptions, text: str, snippets: Snippets, *, bound: bool) -> Snippet:
    """Return the snippet to save, checked; ``bound`` is True if a template bound values in the text."""
    from pipemagic.session.snippets import Snippet

    if bound:
        raise UsageError("--save cannot store the values of | bind", hint="use :name instead")
    statements = sql.split(text)
    snippet = Snippet(str(options.save), statements[0].text if len(statements) == 1 else text, tuple(options.with_))
    snippets.check(snippet)
    return snippet


def visible_variables(local_ns: Mapping[str, Any] | None, user_ns: dict[str, Any]) -> Mapping[str, Any]:
    """Return the variables visible to a magic: also those of the function that runs it."""
    in_function = local_ns is not None and local_ns is not user_ns
    return ChainMap(dict(local_ns or {}), user_ns) if in_function else user_ns


@contextmanager
def short_traceback() -> Iterator[None]:
    """Show errors of pipemagic without a traceback, and bugs with one. Both stop Run All."""
    try:
        yield
    except PipemagicError as error:
        shown = _printable(error)
        lines = f"{shown.code}: {shown}".split("\n")
        shown._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
        if shown is error:
            raise
        raise shown.with_traceback(error.__traceback__) from None


def _printable(error: PipemagicError) -> PipemagicError:
    """Return the error, or a copy without passwords and control characters: notebooks save its text as well."""
    message, hint = (escape_controls(mask_passwords(text), keep=KEPT) for text in (error.message, error.hint))
    return error if (message, hint) == (error.message, error.hint) else error.replace(message=message, hint=hint)
