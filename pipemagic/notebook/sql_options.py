"""The options of %%sql and %sql: definitions, help, checks, and conversion."""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pipemagic import sql
from pipemagic.errors import PipemagicError, UsageError
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option, ParsedArguments, at_least, names
from pipemagic.notebook.sql_source import read_file, refuse_addresses, starts_statement

if TYPE_CHECKING:
    from pipemagic.notebook.line_variables import LineVariables
    from pipemagic.session.cell import Cell, RunOptions


def _variable_names(text: str, name: str) -> tuple[str, ...]:
    names = arguments.items(text, name)
    for variable in names:
        if not variable.isidentifier() or keyword.iskeyword(variable):
            raise UsageError(f"{variable!r} is not a valid variable name")
    duplicate = next((variable for variable in names if variable != "_" and names.count(variable) > 1), None)
    if duplicate is not None:
        raise UsageError(f"{name}: duplicate name {duplicate!r}")
    return tuple(names)


def _seconds(text: str, name: str) -> float:
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text, re.ASCII) or not float(text):
        raise UsageError(f"{name} must be a number of seconds, not {text!r}")
    return float(text)


def _encoding(text: str, name: str) -> str:
    from pipemagic.frames.files import is_encoding

    if not is_encoding(text):
        raise UsageError(f"{name}: unknown encoding {text!r}", hint="use utf-8-sig, latin-1 or another Python encoding")
    return text


PARAMETERS = (
    Option(
        "--params",
        "read the values of :name and {name} from this dict, or from JSON: '{\"year\": 2013}'",
        "NAME",
        code=True,
        own_braces=True,
    ),
    Option("--jinja", "render the text as a Jinja template first"),
    Option("--with", "make these saved SELECTs available as tables: --with top,late", "NAME", type=names),
    Option("--save", "save the cell's SELECT under this name, for --with", "NAME"),
    Option("--file", "run the SQL in this file (UTF-8)", "PATH"),
    Option("--frames", "send the rows of the DataFrames that the cell reads as tables, to any host"),
)

RUNNING = (
    Option("--on", "run on this connection; the current connection does not change", "NAME"),
    Option("--explain", "show the query plan of each statement; run nothing"),
    Option("--dry-run", "show the parameters, columns and effect of each statement; run nothing"),
    Option("--confirm", "run an UPDATE or DELETE that has no WHERE"),
    Option("--atomic", "apply all statements or none, in one round trip"),
    Option("--timeout", "stop the cell after this many seconds, on the server as well", "SECONDS", type=_seconds),
    Option("--close", "close the server-side connection after the cell"),
)

RESULTS = (
    Option(
        "--out",
        "store the frame in this variable instead of showing it; a,b,c for several frames",
        "NAME",
        short="-o",
        type=_variable_names,
    ),
    Option(
        "--limit",
        "fetch at most this many rows of each query, and report whether more exist",
        "N",
        type=at_least(0),
    ),
    Option("--grid", "show the rows of the last SELECT in pages, which the server sorts and filters"),
    Option("--type", "the type of the returned table", "TYPE", choices=("pandas", "polars", "arrow")),
    Option("--to-csv", "write the last result to this CSV file instead of showing it", "FILE"),
    Option("--excel", "with --to-csv: begin the file with a byte order mark, so that Excel reads it as UTF-8"),
    Option("--encoding", "with --to-csv: write the file in this encoding; by default utf-8", "NAME", type=_encoding),
    Option(
        "--to-parquet", "write the last result to this Parquet file instead of showing it (requires pyarrow)", "FILE"
    ),
    Option("--time", "show the time of each statement and of the cell"),
    Option("--quiet", "print no lines and show only the returned frame", short="-q"),
)

OPTIONS = (*RUNNING, *PARAMETERS, *RESULTS)

_FLAGS = tuple(option.flag for option in OPTIONS)
_OF_A_RUN = {option.flag for option in (*RUNNING, *RESULTS)}
_OF_A_REPORT = {"--explain", "--dry-run", "--on", "--out"}

_OF_ROWS = {"--out", "--limit", "--type", "--to-csv", "--excel", "--encoding", "--to-parquet"}

_REQUIRED = (("--excel", "--to-csv", "FILE"), ("--encoding", "--to-csv", "FILE"))
"""A flag, and the flag with a value that it requires."""

_CONFLICTS: tuple[tuple[str, str, set[str]], ...] = (
    ("--explain", "runs nothing", (_OF_A_RUN - _OF_A_REPORT) | {"--save", "--dry-run"}),
    ("--dry-run", "runs nothing", (_OF_A_RUN - _OF_A_REPORT) | {"--save"}),
    ("--excel", "writes utf-8-sig", {"--encoding"}),
    ("--grid", "shows pages and stores no rows", _OF_ROWS),
    ("--grid", "reads its pages after the cell and opens the connection again", {"--close"}),
)
"""A flag, its effect, and the flags that have no effect with it."""

_ASSIGNMENT = re.compile(r"\s*([^\W\d]\w*)\s*<<(?!<)")  # name << SELECT ...; no SQL statement starts like this


@dataclass(frozen=True)
class SqlOptions:
    """The options of one cell: the fields are the long flags, see their help."""

    on: str | None = None
    explain: bool = False
    dry_run: bool = False
    confirm: bool = False
    atomic: bool = False
    timeout: float | None = None
    close: bool = False
    params: str | None = None
    jinja: bool = False
    with_: Sequence[str] = ()
    save: str | None = None
    file: str | None = None
    frames: bool = False
    out: tuple[str, ...] = ()
    limit: int | None = None
    grid: bool = False
    type: str | None = None
    to_csv: str | None = None
    excel: bool = False
    encoding: str | None = None
    to_parquet: str | None = None
    time: bool = False
    quiet: bool = False

    @property
    def keeps_rows(self) -> bool:
        """Whether an option is about the rows of a frame."""
        return bool(self.out or self.type or self.to_csv or self.to_parquet) or self.limit is not None

    def run_options(self, progress: Callable[[int], None] | None) -> RunOptions:
        """Return the options for the session; ``progress`` is called with the number of rows received."""
        from pipemagic.session.cell import RunOptions

        first_rows = None
        if self.grid:  # which reads its rows itself; but an error in the first page must undo an atomic cell
            from pipemagic.explore.page_query import SIZES

            first_rows = SIZES[0] + 1 if self.atomic else 0
        return RunOptions(
            close=self.close,
            atomic=self.atomic,
            tables=len(self.out) if len(self.out) > 1 else None,
            limit=self.limit,
            timeout=self.timeout,
            first_rows=first_rows,
            progress=progress,
        )


@cache
def sql_usage(cell: bool) -> str:
    """Return the usage line of %%sql or %sql."""
    head = "%%sql" if cell else "%sql"
    return arguments.usage_of(head, (), OPTIONS) + (" [SQL]" if cell else " SQL")


def parse(line: str, cell: str | None, variables: Mapping[str, Any]) -> tuple[SqlOptions, str]:
    """Return the options of a magic and its SQL; the line of the magic is line 1 of a cell.

    A value that is ``{name}`` is that of one of the ``variables``. Raise UsageError for invalid options, options
    without effect, and missing SQL.
    """
    usage = sql_usage(cell is not None)
    args, first = ParsedArguments(), line.lstrip()
    if first.startswith("-"):
        args, first = arguments.leading(line, OPTIONS, usage, _line_variables(line, cell, variables).value)
    if first.startswith("#"):
        raise arguments.no_comment(first.rstrip())
    if "--" in first:
        _check_comments(first)
    if cell is not None and re.fullmatch(r"\w[\w.-]*", first) and not starts_statement(first):
        # other SQL magics take a connection there
        raise UsageError(f"{first} is not SQL", hint=f"to run on a connection of that name, write --on {first}")
    text = first if cell is None else f"{first}\n{cell}"
    if match := _ASSIGNMENT.match(text):
        if out := args.get("--out"):
            raise UsageError(f"--out {','.join(out)} and {match[1]} << both name a variable")
        args.values["--out"] = _variable_names(match[1], "--out")
        text = "\n" * match[0].count("\n") + text[match.end() :]
    options = SqlOptions()
    if values := {**args.values, **dict.fromkeys(args.switches, True)}:
        _check_combinations(args)
        fields = {flag.removeprefix("--").replace("-", "_"): value for flag, value in values.items()}
        options = SqlOptions(**{"with_" if name == "with" else name: value for name, value in fields.items()})
    if options.file is not None:
        if text.strip():
            raise UsageError(f"--file {options.file} and SQL in the cell cannot be combined")
        text = read_file(options.file)
    if "://" in text:
        refuse_addresses(text)
    if not text.strip():
        if options.file is not None:
            raise UsageError(f"{options.file} is empty")
        raise UsageError("no SQL to run", hint=arguments.usage_hint(usage))
    return options, text


def shows_grid(options: SqlOptions, cell: Cell) -> bool:
    """Return True if the last statement of a cell is shown as a grid; raise UsageError if --grid cannot show it."""
    is_select = cell.statements[-1].is_query and not (options.explain or options.dry_run)
    if not options.grid:
        return is_select and not (options.keeps_rows or options.close or cell.names[-1])
    if not is_select:
        if not starts_statement(cell.statements[-1].keyword):
            return False  # the server reports the misspelt keyword
        raise UsageError("--grid requires a SELECT as the last statement")
    if cell.names[-1]:
        raise UsageError(
            "--grid shows pages and stores no rows", hint=f"remove the comment `-- name: {cell.names[-1]}`"
        )
    return True


def add_variable_hint(
    error: PipemagicError, line: str, cell: str | None, variables: Mapping[str, Any]
) -> PipemagicError:  # fmt: skip
    """Return the error; if a rejected value is the name of a variable, with the line that uses its value."""
    if not line.lstrip().startswith("-"):
        return error
    options, _ = arguments.leading_options(line, OPTIONS)
    return _line_variables(line, cell, variables).hint(error, options)


def _line_variables(line: str, cell: str | None, variables: Mapping[str, Any]) -> LineVariables:
    from pipemagic.notebook.line_variables import LineVariables

    return LineVariables(line, sql_usage(cell is not None), variables)


# -- checks


def _check_comments(first: str) -> None:
    """Raise UsageError for an option after the SQL on the line of the magic."""
    for token in sql.tokens(first):
        flag = token.text.split("=")[0].split()[0] if token.kind == "comment" else ""
        if flag in _FLAGS:
            raise UsageError(f"{flag} after the SQL is a comment", hint="write options before the SQL")


def _check_combinations(args: ParsedArguments) -> None:
    """Raise UsageError if an option would have no effect with the others."""
    flags = [flag for flag in _FLAGS if flag in args.switches or flag in args.values]
    for flag, required, placeholder in _REQUIRED:
        if flag in flags and required not in flags:
            raise UsageError(f"{flag} requires {required} {placeholder}")
    for flag, effect, useless in _CONFLICTS:
        conflicts = [other for other in flags if other in useless]
        if flag in flags and conflicts:
            raise UsageError(f"{flag} {effect}; {', '.join(conflicts)} would have no effect")
    files = [os.path.realpath(os.path.expanduser(args[flag])) for flag in ("--to-csv", "--to-parquet") if flag in flags]
    if len(set(files)) < len(files):
        raise UsageError("--to-csv and --to-parquet name the same file")
