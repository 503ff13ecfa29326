"""%pipedb diagram, plot: pictures of a schema and of data."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from IPython.core.error import UsageError

from pipemagic import sql
from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.commands.server import ON
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.explore.diagrams import Detail, Diagram
    from pipemagic.explore.plotted import Rows, Summary
    from pipemagic.notebook.plot import Plot


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


def plot(context: Context, args: Arguments) -> Plot | None:
    """Summarise on the server and draw; give the plot, or write it to a file."""
    from pipemagic.explore import plots
    from pipemagic.notebook import plot as plotting

    kind, x, y, bins, group = args["KIND"], args["--x"], args.get("--y"), _count(args, "--bins"), args.get("--group")
    _refuse_options(kind, y, bins)
    rows = _rows(context, args)

    def ask(database: Database) -> Summary:
        match kind:
            case "histogram":
                return plots.histogram(database, rows, x, bins, group=group)
            case "box":
                return plots.box(database, rows, y or x, group=x if y else group)
            case "bar":
                return plots.bar(database, rows, x, y, bars=bins, group=group)
            case "line":
                return plots.line(database, rows, x, y, group=group)
        return plots.scatter(database, rows, x, y or "", group=group)

    summary = context.session.connection(args.get("--on")).once(ask)
    drawn, file = plotting.plot(summary), args.get("--to")
    for note in summary.notes:
        say(note)
    if file is None:
        return drawn
    drawn.save(file)
    say(f"Wrote {file}.")
    return None


def _refuse_options(kind: str, y: str | None, bins: int | None) -> None:
    """Raise UsageError for an option that would have no effect, and for one that is missing."""
    if kind == "histogram" and y is not None:
        raise UsageError("a histogram counts the rows of --x; plot line or scatter draws --y")
    if kind == "scatter" and y is None:
        raise UsageError("plot scatter needs --y, too")
    if bins is not None and kind not in ("histogram", "bar"):
        raise UsageError(f"--bins is for histograms, and for bar the number of bars; plot {kind} has none")


def _rows(context: Context, args: Arguments) -> str | Rows:
    """Give what is plotted: a table as it is, or a SELECT with its values."""
    from pipemagic.client.arguments import values_of
    from pipemagic.explore.plotted import Rows

    table, saved, where = args.get("TABLE"), args.get("--with"), args.get("--where")
    if (table is None) == (saved is None):
        raise UsageError("plot takes a TABLE, or --with NAME for a SELECT that was saved: one of them")
    if where is None and table is not None:
        return table
    source = f"main.{sql.quote(table)}" if table is not None else sql.quote(str(saved))
    condition = f" WHERE ({where}\n)" if where is not None else ""
    using = [saved] if saved is not None else []
    cell = context.session.read(f"SELECT * FROM {source}{condition}", context.variables, using=using)
    if len(cell.stmts) != 1:
        raise UsageError("--where is one condition, as after WHERE")
    (stmt,) = cell.stmts
    return Rows(stmt.sql or "", values_of(stmt), str(table or saved))


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
    Command(
        "plot",
        "Draw a column or two; the server computes the summary, and only that travels",
        plot,
        (
            Positional("KIND", "what to draw", choices=("histogram", "box", "bar", "line", "scatter")),
            Positional("TABLE", "a table or view", optional=True),
        ),
        (
            Option("--x", "the column from left to right", "COLUMN", required=True),
            Option("--y", "the column upwards; bar sums it, line takes its mean", "COLUMN"),
            Option("--group", "draw the values of this column apart", "COLUMN"),
            Option("--bins", "how many intervals, or bars", "N"),
            Option(
                "--where",
                "only the rows for which this holds; :name takes the value of a variable",
                "CONDITION",
                code=True,
            ),
            Option("--to", "write the picture to this file: .png, .svg or .pdf", "FILE"),
            Option("--with", "plot this SELECT, saved with %%sql --save, in the place of a table", "NAME"),
            ON,
        ),
    ),
)
