"""%pipedb, %sql and %%sql: arguments in, one call of the session, the value out."""

from __future__ import annotations

import keyword
import re
from collections import ChainMap
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)

from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Arguments, Option
from pipemagic.notebook.display import say, short_traceback, show_cell

if TYPE_CHECKING:
    from pipemagic.session import CellResult, Session

OPTIONS = (
    Option("--on", "run it on this connection, the current one stays", "NAME"),
    Option("--out", "store the frame under this name and show nothing of it", "NAME", short="-o"),
    Option("--params", "take the values of :name parameters from this dict", "NAME"),
    Option("--quiet", "print no lines and show no frame but the returned one", short="-q"),
    Option("--close", "close the server-side connection afterwards"),
)

_INTO = re.compile(r"\s*([^\W\d]\w*)\s*<<(?!<)")  # name << SELECT ...; no statement of SQL begins like this

_STARTS = re.compile(
    r"(ALTER|ANALYZE|ATTACH|BEGIN|COMMIT|CREATE|DELETE|DETACH|DROP|END|EXPLAIN|INSERT|PRAGMA|REINDEX|RELEASE"
    r"|REPLACE|ROLLBACK|SAVEPOINT|SELECT|UPDATE|VACUUM|VALUES|WITH)\Z",
    re.IGNORECASE,
)


def sql_usage(cell: bool) -> str:
    """Give the usage line of %%sql or %sql."""
    head = "%%sql" if cell else "%sql"
    return arguments.usage_of(head, (), OPTIONS) + " [NAME <<] " + ("[SQL]" if cell else "SQL")


@magics_class
class PipeMagics(Magics):
    """The magics of one shell and the session behind them, which is made by their first use."""

    shell: InteractiveShell

    @property
    def user_ns(self) -> dict[str, Any]:
        """The variables of the notebook."""
        variables: dict[str, Any] = self.shell.user_ns
        return variables

    @cached_property
    def session(self) -> Session:
        """The session of this shell."""
        from pipemagic.notebook.prompts import ask_token
        from pipemagic.session import Session

        return Session(ask_token=ask_token, tell=say)

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def sql(self, line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None) -> Any:
        """Run SQL on the current connection; the value is a DataFrame (see %pipedb help sql)."""
        from pipemagic.frames.collector import collector_paused

        args, text = _read(line, cell)
        with short_traceback(), collector_paused():
            result = self.session.run_cell(
                text, self._values(args, local_ns), on=args.get("--on"), close=args.on("--close")
            )
            return self._deliver(result, args)

    @no_var_expand
    @line_magic
    def pipedb(self, line: str) -> Any:
        """Connect to databases and look after them (see %pipedb help)."""
        from pipemagic.notebook.commands import Context, run

        with short_traceback():
            return run(line, Context(self.session, self.user_ns))

    def shut_down(self) -> None:
        """Close what the session holds, if there is one."""
        if "session" in self.__dict__:
            self.session.shut_down()
            del self.__dict__["session"]

    def _values(self, args: Arguments, local_ns: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Give where the parameters of the cell find their values."""
        variables = ChainMap(self.user_ns if local_ns is None else dict(local_ns), self.user_ns)
        name = args.get("--params")
        if name is None:
            return variables
        if name not in variables:
            raise UsageError(f"--params: there is no variable {name}")
        values = variables[name]
        if not isinstance(values, Mapping):
            raise UsageError(f"--params: {name} is not a dict but a {type(values).__name__}")
        return values

    def _deliver(self, result: CellResult, args: Arguments) -> Any:
        """Show what is to be shown; give the frame, or store it."""
        quiet, returned = args.on("--quiet"), result.returned
        if not quiet:
            show_cell(result)
        frame = None if returned is None else returned.frame(note=None if quiet else say)
        name = args.get("--out")
        if name is None:
            return frame
        self.user_ns[name] = frame
        if frame is None and not quiet:
            say(f"{name} is None: no statement returned columns.")
        return None


def _read(line: str, cell: str | None) -> tuple[Arguments, str]:
    """Take a magic apart: its options, and the SQL, with the line of the magic as line 1 of a cell."""
    usage = sql_usage(cell is not None)
    args, first = arguments.leading(line, OPTIONS, usage)
    if cell is not None:
        _refuse_connection(first, usage)
    text = first if cell is None else f"{first}\n{cell}"
    if match := _INTO.match(text):
        if args.get("--out"):
            raise UsageError(f"--out {args['--out']} and {match[1]} << both name a variable\nusage: {usage}")
        args.values["--out"] = match[1]
        text = "\n" * match[0].count("\n") + text[match.end() :]
    name = args.get("--out")
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        raise UsageError(f"{name!r} is not a name that a variable can have")
    if not text.strip():
        raise UsageError(f"there is no SQL to run\nusage: {usage}")
    return args, text


def _refuse_connection(first: str, usage: str) -> None:
    """Other magics take a connection there; as SQL it would only be a puzzling syntax error."""
    if "://" in first and len(first.split()) == 1:
        raise UsageError("an address does not go there: %pipedb connect ADDRESS, then %%sql\nusage: " + usage)
    if re.fullmatch(r"\w[\w.-]*", first) and not _STARTS.match(first):
        raise UsageError(f"{first} is not SQL; is it a connection? then write --on {first}\nusage: {usage}")
