"""%pipedb diagram, plot: pictures of a schema and of data."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from IPython.core.error import UsageError

from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.commands.server import ON
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pipemagic.explore.diagrams import Detail, Diagram


def diagram(context: Context, args: Arguments) -> Diagram | None:
    """Draw the schema; give the drawing, or write it to a file."""
    from pipemagic.explore.diagrams import diagram as draw
    from pipemagic.explore.schema import read_schema

    file = args.get("--to")
    if file is not None and not file.lower().endswith(".svg"):
        raise UsageError(f"--to writes SVG: {file} should end with .svg")
    schema = context.session.connection(args.get("--on")).once(read_schema)
    detail = cast("Detail | None", args.get("--columns"))
    drawn = draw(schema, args.all("TABLE"), columns=detail, limit=_count(args, "--limit"))
    if file is None:
        return drawn
    drawn.write(file)
    say(f"Wrote {file}.")
    return None


def _count(args: Arguments, flag: str) -> int | None:
    given = args.get(flag)
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or not int(given):
        raise UsageError(f"{flag} is a whole number above 0, not {given!r}")
    return int(given)


COMMANDS: tuple[Command, ...] = (
    Command(
        "diagram",
        "Draw tables, columns and foreign keys",
        diagram,
        (Positional("TABLE", "only these tables and their neighbours", optional=True, repeated=True),),
        (
            Option("--columns", "which columns to show", "WHICH", choices=("all", "keys", "none")),
            Option("--limit", "show at most so many tables, the most linked ones", "N"),
            Option("--to", "write the picture to this file", "FILE.svg"),
            ON,
        ),
    ),
)
