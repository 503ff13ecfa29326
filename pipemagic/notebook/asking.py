"""What a %%sql cell asks for: its options, its SQL, and where its parameters find their values."""

from __future__ import annotations

import difflib
import keyword
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from pipemagic import sql
from pipemagic.notebook import arguments, combinations, files
from pipemagic.notebook.arguments import Arguments
from pipemagic.notebook.options import OPTIONS, sql_usage

if TYPE_CHECKING:
    from pipemagic.notebook.preferences import PipeMagic
    from pipemagic.session.cell import Cell
    from pipemagic.session.connection import RunOptions

_INTO = re.compile(r"\s*([^\W\d]\w*)\s*<<(?!<)")  # name << SELECT ...; no statement of SQL begins like this

_STARTS = re.compile(
    r"(ALTER|ANALYZE|ATTACH|BEGIN|COMMIT|CREATE|DELETE|DETACH|DROP|END|EXPLAIN|INSERT|PRAGMA|REINDEX|RELEASE"
    r"|REPLACE|ROLLBACK|SAVEPOINT|SELECT|UPDATE|VACUUM|VALUES|WITH)\Z",
    re.IGNORECASE,
)


def read(line: str, cell: str | None) -> tuple[Arguments, str]:
    """Take a magic apart: its options, and the SQL, with the line of the magic as line 1 of a cell."""
    usage = sql_usage(cell is not None)
    args, first = arguments.leading(line, OPTIONS, usage)
    if args.switches or args.values:
        combinations.check(args)
    if "--" in first:
        combinations.check_line(first)
    if cell is not None:
        _refuse_connection(first, usage)
    text = first if cell is None else f"{first}\n{cell}"
    if match := _INTO.match(text):
        if args.get("--out"):
            raise UsageError(f"--out {args['--out']} and {match[1]} << both name a variable\nusage: {usage}")
        args.values["--out"] = match[1]
        text = "\n" * match[0].count("\n") + text[match.end() :]
    variables(args)
    path = args.get("--file")
    if path is not None:
        if text.strip():
            raise UsageError(f"--file {path} and SQL in the cell: only one of them can run\nusage: {usage}")
        text = files.read(path)
    if "://" in text:
        _refuse_addresses(text)
    if not text.strip():
        raise UsageError(f"there is no SQL to run\nusage: {usage}" if path is None else f"{path} is empty")
    return args, text


def starts_statement(word: str) -> bool:
    """Return True if a statement of SQL can begin with the word."""
    return _STARTS.match(word) is not None


def _refuse_addresses(text: str) -> None:
    """Raise UsageError for an address outside of strings and comments: later errors would show its password."""
    texts = [token.text for token in sql.tokens(text)]
    if any(texts[at : at + 3] == [":", "/", "/"] for at in range(len(texts))):
        raise UsageError("the SQL contains an address\nwrite %pipedb connect ADDRESS first, without a password")


@dataclass(frozen=True)
class Question:
    """The SQL of a cell: its text, the name of that in messages, and where its parameters find their values.

    ``using`` are the saved SELECTs that it reads from. ``made`` is true if it holds values of this moment, which cannot
    be saved with it.
    """

    text: str
    source: str
    values: Mapping[str, Any]
    using: tuple[str, ...] = ()
    made: bool = False


def question(args: Arguments, text: str, local_ns: Mapping[str, Any] | None, user_ns: dict[str, Any]) -> Question:
    """Return the SQL of a cell, rendered if it is a template; UsageError for a list of names with a gap."""
    source, known = args.get("--file") or "", values(args, local_ns, user_ns)
    given = args.get("--with")
    using = () if given is None else tuple(arguments.names(given, "--with"))
    if not args.on("--jinja"):
        return Question(text, source, known, using)
    from pipemagic.session import templates

    rendered = templates.render(text, known, source=source)
    named = f"{source} as rendered" if source else templates.RENDERED
    return Question(rendered.text, named, ChainMap(rendered.bound, dict(known)), using, made=bool(rendered.bound))


def check_cell(cell: Cell, args: Arguments, preferences: PipeMagic) -> None:
    """ConfirmError if the cell changes or deletes all rows of a table and nobody said that this is meant.

    UsageError if two of its results would go into one variable.
    """
    from pipemagic.session.guards import check_where

    if names := variables(args):
        combinations.check_names(cell, names)
    if not (args.on("--confirm") or preferences.confirm):
        check_where(cell)


def variables(args: Arguments) -> list[str]:
    """Give the names of ``--out a,_,c``; UsageError for one that no variable can have."""
    names = arguments.items(args["--out"], "--out") if "--out" in args.values else []
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"{name!r} is not a name that a variable can have")
    twice = next((name for name in names if name != "_" and names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"--out names {twice} twice")
    return names


def _refuse_connection(first: str, usage: str) -> None:
    """Other magics take a connection there; as SQL it would only be a puzzling syntax error."""
    if re.fullmatch(r"\w[\w.-]*", first) and not _STARTS.match(first):
        raise UsageError(f"{first} is not SQL; is it a connection? then write --on {first}\nusage: {usage}")


def values(args: Arguments, local_ns: Mapping[str, Any] | None, user_ns: dict[str, Any]) -> Mapping[str, Any]:
    """Give where the parameters of the cell find their values."""
    inside = local_ns is not None and local_ns is not user_ns  # of a function
    variables = ChainMap(dict(local_ns or {}), user_ns) if inside else user_ns
    name = args.get("--params")
    if name is None:
        return variables
    if name.lstrip().startswith("{"):
        return _from_json(name)
    if name not in variables:
        near = difflib.get_close_matches(name, [key for key in variables if not key.startswith("_")], n=1)
        hint = f"did you mean {near[0]}?" if near else "values of their own are JSON: --params '{\"name\": 1}'"
        raise UsageError(f"--params: there is no variable {name}; {hint}")
    values = variables[name]
    if not isinstance(values, Mapping):
        raise UsageError(f"--params: {name} is not a dict but a {type(values).__name__}")
    return values


def _from_json(text: str) -> Mapping[str, Any]:
    import json

    def refuse(number: str) -> None:
        raise UsageError(f"--params: JSON has no {number}")

    try:
        found: Mapping[str, Any] = json.loads(text, parse_constant=refuse)
    except ValueError as error:
        raise UsageError(f"--params is not JSON: {error}; write '{{\"name\": value}}' in single quotes") from None
    return found


def run_options(args: Arguments, progress: Callable[[int], None]) -> RunOptions:
    """Return how the cell is to be run; ``progress`` is called with the number of rows received."""
    from pipemagic.session.connection import RunOptions

    names, limit, timeout = variables(args), args.get("--limit"), args.get("--timeout")
    return RunOptions(
        close=args.on("--close"),
        atomic=args.on("--atomic"),
        clock=args.on("--clock"),
        tables=len(names) if len(names) > 1 else None,
        limit=None if limit is None else _rows(limit),
        timeout=None if timeout is None else _seconds(timeout),
        progress=progress,
    )


def _rows(given: str) -> int:
    if not re.fullmatch(r"\d{1,12}", given, re.ASCII):
        raise UsageError(f"--limit takes a number of rows, not {given!r}")
    return int(given)


def _seconds(given: str) -> float:
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", given, re.ASCII) or not float(given):
        raise UsageError(f"--timeout takes a number of seconds, not {given!r}")
    return float(given)
