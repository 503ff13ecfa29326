"""%pipedb, %sql and %%sql: arguments in, one call of the session, the value out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)

from pipemagic.errors import PipemagicError
from pipemagic.notebook import asking, inquiring, saving
from pipemagic.notebook.delivering import deliver
from pipemagic.notebook.display import say, short_traceback, show
from pipemagic.notebook.missing_tables import with_frame
from pipemagic.notebook.notes import FOUND_IN, Notes, notes_on
from pipemagic.notebook.preferences import PipeMagic
from pipemagic.notebook.progress import shown

if TYPE_CHECKING:
    from pipemagic.notebook.arguments import Arguments
    from pipemagic.session import CellResult, Session
    from pipemagic.session.cell import Cell

_log = logging.getLogger(__name__)


@magics_class
class PipeMagics(Magics):
    """The magics of one shell and the session behind them, which is made by their first use."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._notes: list[str] = []  # on the SQL of the cell that runs

    @property
    def user_ns(self) -> dict[str, Any]:
        """The variables of the notebook."""
        variables: dict[str, Any] = self.shell.user_ns
        return variables

    @cached_property
    def preferences(self) -> PipeMagic:
        """What the user prefers, as ``%config`` sets it."""
        return PipeMagic.of_shell(self.shell)

    @cached_property
    def session(self) -> Session:
        """The session of this shell."""
        from pipemagic.frames.arrow_polars import import_package
        from pipemagic.notebook.prompts import ask_token
        from pipemagic.session import Session

        self.shell.events.register("post_run_cell", self._after_cell)
        wanted = self.preferences
        return Session(
            ask_token=ask_token,
            tell=say,
            default=lambda: wanted.connection,
            default_of_project=lambda: wanted.connection_of_project,
            reads_ahead=lambda: wanted.read_ahead,
            while_starting=lambda: import_package(wanted.type),
        )

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def sql(self, line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None) -> Any:
        """Run SQL on the current connection; the value is the DataFrame of the last statement with columns.

        One statement, or several with ; between them::

            %%sql
            SELECT origin, count(*) AS n FROM flights GROUP BY origin

        The values of the notebook's variables, and the result under a name of its own::

            %%sql -o late --limit 1000
            SELECT * FROM flights WHERE dep_delay > :minutes AND origin IN :airports

        All or nothing; another connection; a plan; a value in Python::

            %%sql --atomic --on flights
            %sql --explain SELECT * FROM flights WHERE origin = 'JFK'
            n = %sql SELECT count(*) FROM flights

        %pipedb help sql lists every option; %pipedb help parameters, transactions, results and limits tell more.
        """
        from pipemagic.notebook import jupysql

        variables: dict[str, Any] = self.shell.user_ns
        with short_traceback():
            jupysql.refuse_sql(line, cell, self.session, variables)
            args, text = asking.read(line, cell)
            self.session.wire.begin()
            try:
                return self._sql(asking.question(args, text, local_ns, variables), args, variables)
            except PipemagicError as error:
                raise with_frame(error, variables, args) from None

    @no_var_expand
    @line_magic
    def pipedb(self, line: str) -> Any:
        """Connect to databases and look after them.

        A database of the service that comes along, or one at an address::

            %pipedb connect
            %pipedb connect libsql://flights-acme.example.com --token-env FLIGHTS_TOKEN

        What is there, a DataFrame into a table, what is open::

            %pipedb tables
            %pipedb load frame --table flights
            %pipedb status

        %pipedb help lists the subcommands and topics; %pipedb SUBCOMMAND --help shows one.
        """
        from pipemagic.notebook.commands import Context, run

        self.session.wire.begin()
        with short_traceback():
            return run(line, Context(self.session, self.user_ns, self.preferences))

    @no_var_expand
    def sqlcmd(self, line: str) -> None:
        """Show the line of %pipedb that does what this line does in JupySQL."""
        from pipemagic.notebook import jupysql

        with short_traceback():
            jupysql.refuse_sqlcmd(line, self.user_ns)

    @no_var_expand
    def sqlplot(self, line: str) -> None:
        """Show the line of %pipedb that draws what this line draws in JupySQL."""
        from pipemagic.notebook import jupysql

        with short_traceback():
            jupysql.refuse_sqlplot(line, self.session, self.user_ns)

    def _sql(self, asked: asking.Question, args: Arguments, variables: dict[str, Any]) -> Any:
        """Run, explain or save the SQL of a cell; return its value."""
        if args.on("--explain") or args.on("--dry-run"):
            return inquiring.answer(self.session, asked, args, variables)
        name, value = args.get("--save"), None
        snippet = None if name is None else saving.wished(name, asked, self.session.snippets)
        if not args.on("--no-execute"):
            ready = self.session.read(asked.text, asked.values, source=asked.source, using=asked.using)
            asking.check_cell(ready, args, self.preferences)
            value = deliver(partial(self._run, ready, args), args, variables, self.preferences)
        if snippet is not None:
            saving.keep(snippet, self.session.snippets, args, self.preferences)
        return value

    def _run(self, cell: Cell, args: Arguments) -> CellResult:
        """Run a cell, with progress while a large result comes."""
        with shown("rows received", self.preferences) as progress:
            result = self.session.run_cell(cell, on=args.get("--on"), options=asking.run_options(args, progress))
        if FOUND_IN.search(cell.text) and self.preferences.notes and not (self.preferences.quiet or args.on("--quiet")):
            try:
                schema = self.session.connection(args.get("--on")).schema
                self._notes += [line for line in notes_on(cell, schema) if line not in self._notes]
            except Exception:  # noqa: BLE001 - the statements have run: their result matters more
                _log.exception("no notes on a cell")
        return result

    def shut_down(self) -> None:
        """Close what the session holds, if there is one."""
        if "session" in self.__dict__:
            self.shell.events.unregister("post_run_cell", self._after_cell)
            self.session.shut_down()
            del self.__dict__["session"]

    def _after_cell(self, result: object = None) -> None:  # noqa: ARG002
        """Show below a cell the notes on its SQL, and what it said on the wire, if that is wanted."""
        notes, self._notes = self._notes, []
        if notes:
            show(Notes(tuple(notes)))
        wire = self.session.wire
        if wire.end() and wire.on:
            from IPython.display import display

            display(wire.last)  # type: ignore[no-untyped-call]
