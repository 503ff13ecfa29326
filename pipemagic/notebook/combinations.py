"""Options of %%sql that mean nothing together: an option without effect is an error, never passed over in silence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from pipemagic import sql
from pipemagic.notebook.arguments import Arguments
from pipemagic.notebook.options import OPTIONS, RESULTS, RUNNING

if TYPE_CHECKING:
    from pipemagic.session.cell import Cell

_FLAGS = {option.flag for option in OPTIONS}
_ASKING = ("--explain", "--dry-run")
_OF_INQUIRIES = (*_ASKING, "--on", "--out")
"""What --explain and --dry-run take beside the options that make the text."""


def check(args: Arguments) -> None:
    """UsageError for options of which one would have no effect."""
    asked = [flag for flag in _ASKING if args.on(flag)]
    if len(asked) > 1:
        raise UsageError("--explain and --dry-run: one of them at a time")
    how = _given(args, *(option.flag for option in (*RUNNING, *RESULTS)))
    if asked:
        _refuse(f"{asked[0]} runs nothing", [flag for flag in how if flag not in _OF_INQUIRIES])
        _refuse(f"{asked[0]} runs nothing", _given(args, "--save", "--no-execute"))
    if args.on("--no-execute"):
        if args.get("--save") is None:
            raise UsageError("--no-execute goes with --save NAME")
        values = [] if args.on("--jinja") else _given(args, "--params")
        _refuse("--no-execute runs nothing", [flag for flag in [*how, *values] if flag != "--quiet"])
    if args.on("--clock") and (ending := _given(args, "--close", "--atomic")):
        raise UsageError(f"{ending[0]} leaves no transaction open; --clock would have no effect")
    files = [str(Path(file).expanduser().resolve()) for file in map(args.get, ("--to-csv", "--to-parquet")) if file]
    if len(set(files)) < len(files):
        raise UsageError("--to-csv and --to-parquet name the same file")


def check_line(first: str) -> None:
    """UsageError for an option behind the SQL on the line of the magic: SQL takes it for a comment."""
    for token in sql.tokens(first):
        flag = token.text.split("=")[0].split()[0] if token.kind == "comment" else ""
        if flag in _FLAGS:
            raise UsageError(f"{flag} stands behind SQL, where it is a comment; options go before the SQL")


def check_names(cell: Cell, names: list[str]) -> None:
    """UsageError if ``--out`` and a ``-- name:`` comment name the same variable."""
    if taken := set(names) & set(cell.names):
        name = min(taken)
        raise UsageError(f"--out {name} and `-- name: {name}` name the same variable")


def _given(args: Arguments, *flags: str) -> list[str]:
    return [flag for flag in flags if args.on(flag) or args.get(flag) is not None]


def _refuse(why: str, flags: list[str]) -> None:
    if flags:
        raise UsageError(f"{why}; {', '.join(flags)} would have no effect")
