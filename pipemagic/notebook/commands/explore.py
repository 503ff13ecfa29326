"""Show tables and columns, profiles, checks, differences, plots and diagrams.

Each command sends requests of its own, so it sees committed data only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pipemagic import sql
from pipemagic.errors import RulesError, StatementError, UnknownName, UsageError
from pipemagic.notebook.arguments import Option, Positional, at_least, names, table
from pipemagic.notebook.commands.base import ON, CommandContext, CommandGroup
from pipemagic.notebook.display import Plot, say
from pipemagic.notebook.results import show_frame

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database
    from pipemagic.explore.conditions import Condition
    from pipemagic.explore.diagrams import Diagram
    from pipemagic.explore.diff_result import Diff
    from pipemagic.explore.listing import Script
    from pipemagic.explore.plot_query import Rows, Summary
    from pipemagic.explore.profile_result import Profile
    from pipemagic.explore.rules import RangeBound, Rule
    from pipemagic.hrana.values import SqlValue
    from pipemagic.session import Connection
    from pipemagic.session.cell import Cell

T = TypeVar("T")

GROUP = CommandGroup("Exploring")
TABLE = Positional("TABLE", 'the table or view, in quotes if its name contains spaces: "my table"', type=table)

_NAME = r'\s*(?:"(?:[^"]|"")*"|[^",.=][^,.=]*)\s*'
_NAMES = rf"(?:{_NAME}|\s*)(?:,(?:{_NAME}|\s*))*"  # `names` refuses the empty ones
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


def _request(context: CommandContext, function: Callable[[Database], T]) -> T:
    with _explain_uncommitted(context.connection, context.args.get("TABLE")):
        return context.connection.with_database(function)


@contextmanager
def _explain_uncommitted(connection: Connection, *relations: str | None) -> Iterator[None]:
    """Add a hint to the error for a table that only the connection of the cells can see."""
    try:
        yield
    except UnknownName as error:
        if error.relation in relations and connection.schema.is_private(error.relation):
            raise error.replace(hint="the table is temporary or not committed yet; query it with %%sql") from None
        raise


@contextmanager
def _errors_of_cells(*cells: tuple[Connection, Cell | None]) -> Iterator[None]:
    """Raise the error of the first of these cells that its server refuses, if a statement with their SQL fails."""
    try:
        yield
    except (StatementError, UnknownName):
        for connection, cell in cells:
            if cell is not None:
                connection.check(cell)
        raise


def _with_values(connection: Connection, cell: Cell) -> tuple[str, Mapping[str, SqlValue]]:
    """Return the statement of a cell with the values of its parameters."""
    from pipemagic.client.arguments import values_of

    (stmt,) = connection.with_dates(cell, committed=True).stmts
    return stmt.sql or "", values_of(stmt)


def _condition_cell(context: CommandContext, text: str, table: str, using: Sequence[str] = ()) -> Cell:
    """Return the cell that selects the rows of a table that meet a condition. Raise the errors of a condition."""
    from pipemagic.explore import conditions
    from pipemagic.explore.page_query import identifier
    from pipemagic.session.typed_sql import condition_cell

    conditions.check_form(text, parameters=True)
    cell = condition_cell(text, identifier(table), context.variables, using=using, snippets=context.session.snippets)
    if not conditions.is_balanced(text):  # in a generated statement it could be another condition
        context.connection.check(cell)
        conditions.check(text, parameters=True)
    return cell


def _condition(context: CommandContext, cell: Cell) -> Condition:
    """Return the condition of a cell on a table, with the values of its parameters."""
    from pipemagic.explore.conditions import Condition
    from pipemagic.explore.page_query import identifier
    from pipemagic.session.typed_sql import start_of

    sent, values = _with_values(context.connection, cell)
    return Condition(sent.removeprefix(start_of(identifier(context.args["TABLE"]))), values)


@GROUP.command(
    Positional("PATTERN", "part of a name, or a pattern with * and ? that matches the whole name", optional=True),
    Option("--rows", "count the rows of each table; the server reads every table in full"),
    ON,
)
def tables(context: CommandContext) -> DataFrame:
    """List the tables and views.

    %pipedb tables
    %pipedb tables fl* --rows
    """
    from pipemagic.explore import listing

    pattern, rows = context.args.get("PATTERN") or "", context.args.on("--rows")
    return _request(context, lambda database: listing.tables(database, pattern, rows=rows))


@GROUP.command(TABLE, ON)
def columns(context: CommandContext) -> DataFrame:
    """List the columns of a table or view.

    %pipedb columns flights
    %pipedb columns "my table"
    """
    from pipemagic.explore import listing

    return _request(context, lambda database: listing.columns(database, context.args["TABLE"]))


@GROUP.command(replace(TABLE, optional=True), ON)
def schema(context: CommandContext) -> Script:
    """Show the CREATE statements of a table, or of the whole database.

    %pipedb schema flights
    %pipedb schema
    """
    from pipemagic.explore import listing

    return _request(context, lambda database: listing.ddl(database, context.args.get("TABLE")))


@GROUP.command(
    TABLE,
    Option("--columns", "only these columns, separated by commas", "A,B", type=names),
    Option(
        "--where",
        "only rows that meet this condition; :name is the value of a variable",
        "SQL",
        code=True,
        own_braces=True,
    ),
    ON,
)
def profile(context: CommandContext) -> Profile:
    """Summarize columns: counts, NULLs, quartiles, frequent values.

    %pipedb profile flights
    %pipedb profile flights --columns origin,air_time
    %pipedb profile flights --where "delay > 15 AND origin = 'JFK'"
    """
    from pipemagic.explore.profile import profile

    table, columns, where = context.args["TABLE"], context.args.get("--columns"), context.args.get("--where") or ""
    relation = context.connection.schema.of(table)
    if not where:
        return _request(context, lambda database: profile(database, table, columns, known=relation))
    cell = _condition_cell(context, where, table)
    bound = _condition(context, cell)

    def run(database: Database) -> Profile:
        return profile(database, table, columns, known=relation, where=bound.sql, params=bound.args)

    with _errors_of_cells((context.connection, cell)):
        return replace(_request(context, run), where=where)  # as it was written


def _range(text: str, name: str) -> tuple[str, RangeBound, RangeBound]:
    match = re.fullmatch(rf"({_NAME})=(.*?)\.\.(.*)", text, re.DOTALL)
    if match is None:
        raise UsageError(f"invalid {name} {text}", hint=f"write {name} age=0..120 or {name} 'price=0..'")
    return sql.unquote(match[1].strip()), _bound(match[2]), _bound(match[3])


def _bound(text: str) -> RangeBound:
    """Parse a bound: a number if it looks like one, else text; None if it is empty."""
    text = text.strip()
    if not text or not _NUMBER.fullmatch(text):
        return text or None
    try:
        return int(text)
    except ValueError:
        return float(text)


def _references(text: str, name: str) -> tuple[list[str], str, list[str]]:
    match = re.fullmatch(rf"({_NAMES})=(?:main\.)?({_NAME})\.({_NAMES})", text)
    if match is None:
        raise UsageError(f"invalid {name} {text}", hint=f"write {name} city=cities.id")
    return names(match[1], name), sql.unquote(match[2].strip()), names(match[3], name)


@GROUP.command(
    TABLE,
    Option("--not-null", "these columns contain no NULL", "A,B", many=True, type=names),
    Option("--unique", "no two rows have the same values in these columns", "A,B", many=True, type=names),
    Option(
        "--range", "the values are between LOW and HIGH; either can be omitted", "COLUMN=LOW..HIGH", many=True,
        type=_range,
    ),
    Option("--references", "the values exist in another table", "A,B=TABLE.C,D", many=True, type=_references),
    Option("--foreign-keys", "the declared foreign keys of the table are valid"),
    Option(
        "--rows", "each row meets this condition; :name is the value of a variable", "SQL", many=True, code=True,
        own_braces=True,
    ),
    ON,
)  # fmt: skip
def rules(context: CommandContext) -> None:
    """Check the rows of a table against rules.

    %pipedb rules flights --not-null origin,dest --unique id
    %pipedb rules flights --range month=1..12 --references carrier=airlines.carrier --foreign-keys
    """
    from pipemagic.explore.rule_checks import check

    table = context.args["TABLE"]
    cells = [_condition_cell(context, text, table) for text in context.args.all("--rows")]
    requested = _rules(context, cells)
    if not requested:
        raise UsageError(
            "no rules to check", hint="add --not-null, --unique, --range, --references, --foreign-keys or --rows"
        )
    try:
        with _errors_of_cells(*((context.connection, cell) for cell in cells)):
            result = _request(context, lambda database: check(database, table, requested))
        say(str(result))
    except RulesError as error:
        _show_failures(error)
        raise


def _rules(context: CommandContext, cells: Sequence[Cell]) -> list[Rule]:
    """Return the rules given as options; ``cells`` are those of ``--rows``."""
    from pipemagic.explore import rules

    args, table = context.args, context.args["TABLE"]

    def holds(cell: Cell) -> Rule:
        condition = _condition(context, cell)
        return rules.expression(table, condition.sql, condition.args, cell.text)

    return [
        *(rules.not_null(table, name) for columns in args.all("--not-null") for name in columns),
        *(rules.unique(table, columns) for columns in args.all("--unique")),
        *(rules.in_range(table, *bounds) for bounds in args.all("--range")),
        *(rules.references(table, *reference) for reference in args.all("--references")),
        *([rules.foreign_keys(table)] if args.on("--foreign-keys") else []),
        *(holds(cell) for cell in cells),
    ]


def _show_failures(error: RulesError) -> None:
    from pipemagic.notebook.timed_frames import with_times

    for failure in error.failures:
        say(f"{failure}{'' if failure.count == len(failure.frame) else f'; the first {len(failure.frame)}'}")
        show_frame(with_times(failure.frame, failure.timed))


@GROUP.command(
    Positional(
        "A", "a table, a view, or a SELECT in quotes, with :name for variables", completes="table", own_braces=True
    ),
    Positional(
        "B",
        "a table, a view or a SELECT to compare with A; by default A on the --to connection",
        optional=True,
        completes="table",
        own_braces=True,
    ),
    ON,
    Option("--to", "the connection of B", "NAME", completes="connection"),
    Option("--key", "the columns that identify a row; by default the common primary key", "A,B", type=names),
    Option(
        "--limit",
        "the maximum number of rows to show for each kind of difference; by default 10",
        "N",
        type=at_least(0),
    ),
)
def diff(context: CommandContext) -> Diff:
    """Compare two tables, views or SELECTs: columns, types, rows.

    %pipedb diff flights flights_of_july --key id
    %pipedb diff flights --to copy_of_it
    """
    from pipemagic.explore.diff import diff

    args, first = context.args, context.connection
    second = context.session.connection(args["--to"]) if args.get("--to") else first
    if args.get("B") is None and first is second:
        raise UsageError("nothing to compare with", hint="add B, or --to with another connection")
    limit, key = 10 if args.get("--limit") is None else args["--limit"], args.get("--key")
    places, sides = (first.name, second.name), (args["A"], args.get("B"))
    of_a, of_b = _select_cell(context, first, sides[0]), _select_cell(context, second, sides[1])
    a, params = _query(first, sides[0], of_a)
    b, more = (None, {}) if sides[1] is None else _renamed(*_query(second, sides[1], of_b), params)

    def compare(database: Database, other: Database | None) -> Diff:
        return diff(database, a, b, other=other, key=key, limit=limit, places=places, params={**params, **more})

    uncommitted = _explain_uncommitted(first, *sides), _explain_uncommitted(second, *sides)
    with uncommitted[0], uncommitted[1], _errors_of_cells((first, of_a), (second, of_b)):
        if first is second:
            return first.with_database(lambda database: compare(database, None))
        return first.with_database(lambda database: second.with_database(lambda other: compare(database, other)))


def _select_cell(context: CommandContext, connection: Connection, text: str | None) -> Cell | None:
    """Return the cell of a SELECT; None for the name of a table, and for several statements, which `diff` refuses."""
    from pipemagic.explore.conditions import is_balanced
    from pipemagic.explore.diff_sql import is_query

    if text is None or not is_query(text):
        return None
    cell = context.session.read(text, context.variables)
    if len(cell.stmts) != 1:
        return None
    if not is_balanced(cell.statements[0].text):  # in the statement of a comparison it could be another SELECT
        connection.check(cell)
    return cell


def _query(connection: Connection, text: str, cell: Cell | None) -> tuple[str, Mapping[str, SqlValue]]:
    """Return the name of a table without quotes, or the SELECT of a cell with the values of its parameters."""
    from pipemagic.explore.diff_sql import is_query

    if cell is not None:
        return _with_values(connection, cell)
    return (text if is_query(text) else table(text, "TABLE")), {}  # `diff` raises the error for several statements


def _renamed(
    text: str, values: Mapping[str, SqlValue], others: Mapping[str, SqlValue]
) -> tuple[str, Mapping[str, SqlValue]]:
    """Rename the parameters of a SELECT that have another value in ``others``, such as a date with its time."""
    new = {}
    for name in values:
        new[name] = name
        while others.get(new[name], values[name]) != values[name] or (new[name] != name and new[name] in values):
            new[name] += "_"
    tokens = sql.tokens(text)
    renamed = "".join(new.get(token.text, token.text) if token.kind == "param" else token.text for token in tokens)
    return renamed, {new[name]: value for name, value in values.items()}


@GROUP.command(
    Positional(
        "TABLE", "only these tables, and the tables linked to them by foreign keys", optional=True, many=True,
        type=table,
    ),
    Option("--columns", "the columns to show", "WHICH", choices=("all", "keys", "none")),
    Option(
        "--limit", "the maximum number of tables; those with the most foreign keys are shown", "N", type=at_least(1)
    ),
    Option("--to", "write the diagram to this file: .svg, or .mmd for Mermaid", "FILE"),
    ON,
)  # fmt: skip
def diagram(context: CommandContext) -> Diagram | None:
    """Draw tables, columns and foreign keys.

    %pipedb diagram
    %pipedb diagram flights --columns keys --to schema.svg
    """
    from pipemagic.explore.diagrams import diagram as draw
    from pipemagic.explore.schema_reader import read_schema

    args, file = context.args, context.args.get("--to")
    if file is not None and not file.lower().endswith((".svg", ".mmd")):
        raise UsageError(f"--to must end with .svg or .mmd, not {file!r}")
    schema = context.connection.with_database(read_schema)
    drawn = draw(schema, args.all("TABLE"), columns=args.get("--columns"), limit=args.get("--limit"))
    if file is None:
        return drawn
    drawn.write(file)
    say(f"Wrote {file}.")
    return None


@GROUP.command(
    Positional("KIND", "what to draw", choices=("histogram", "box", "bar", "line", "scatter")),
    Positional("TABLE", "a table or view", optional=True, type=table),
    Option("--x", "the column of the horizontal axis", "COLUMN", required=True),
    Option("--y", "the column of the vertical axis", "COLUMN"),
    Option(
        "--agg",
        "what is drawn of --y for each x; by default the sum for bars, and the mean for a line",
        "HOW",
        choices=("mean", "sum", "count", "median", "min", "max"),
    ),
    Option("--group", "draw each value of this column separately", "COLUMN"),
    Option("--bins", "the number of intervals or bars", "N", type=at_least(1)),
    Option(
        "--where",
        "only rows that meet this condition; :name is the value of a variable",
        "CONDITION",
        code=True,
        own_braces=True,
    ),
    Option("--to", "write the picture to this file: .png, .svg or .pdf", "FILE"),
    Option("--with", "plot this SELECT, saved with %%sql --save, instead of a table", "NAME"),
    ON,
)
def plot(context: CommandContext) -> Plot | None:
    """Draw one or two columns from a summary that the server computes.

    %pipedb plot histogram flights --x air_time
    %pipedb plot bar flights --x carrier
    """
    from pipemagic.explore import drawing, plots

    args = context.args
    kind, x, y, bins, group = args["KIND"], args["--x"], args.get("--y"), args.get("--bins"), args.get("--group")
    agg = args.get("--agg")
    _check_plot_options(kind, y, bins, agg)
    cell, rows = _plotted_rows(context)

    def summarize(database: Database) -> Summary:
        match kind:
            case "histogram":
                return plots.histogram(database, rows, x, bins, group=group)
            case "box":
                return plots.box(database, rows, y or x, group=x if y else group)
            case "bar":
                return plots.bar(database, rows, x, y, agg=agg, bars=bins, group=group)
            case "line":
                return plots.line(database, rows, x, y, agg=agg, group=group)
        return plots.scatter(database, rows, x, y or "", group=group)

    with _errors_of_cells((context.connection, cell)):
        summary = context.connection.with_database(summarize)
    axes, file = drawing.draw(summary), args.get("--to")
    drawn = Plot(axes, drawing.is_shown(axes))
    for note in summary.notes:
        say(note)
    if file is None:
        return drawn
    drawn.save(file)
    say(f"Wrote {file}.")
    return None


def _check_plot_options(kind: str, y: str | None, bins: int | None, agg: str | None) -> None:
    """Raise UsageError for an option that would have no effect, and for one that is missing."""
    if kind == "histogram" and y is not None:
        raise UsageError("a histogram counts the rows of --x", hint="use plot line or scatter for --y")
    if kind == "scatter" and y is None:
        raise UsageError("plot scatter requires --y")
    if agg is not None and kind not in ("bar", "line"):
        raise UsageError(f"--agg is for plot bar and plot line; plot {kind} draws the values of the rows")
    if agg not in (None, "count") and y is None:
        raise UsageError(f"--agg {agg} requires --y")
    if bins is not None and kind not in ("histogram", "bar"):
        raise UsageError(f"--bins is the number of intervals of a histogram, or of bars; plot {kind} has none")


def _plotted_rows(context: CommandContext) -> tuple[Cell | None, str | Rows]:
    """Return the rows to plot: the name of a table, or a SELECT with its values and its cell."""
    from pipemagic.explore.plot_query import Rows

    args = context.args
    if args.one_of("TABLE", "--with") is None:
        raise UsageError("plot requires a TABLE, or --with NAME for a saved SELECT")
    table: str | None = args.get("TABLE")
    saved, where = args.get("--with"), args.get("--where")
    if where is None and table is not None:
        return None, table
    using = [saved] if saved is not None else []
    if where is None:
        cell = context.session.read(f"SELECT * FROM {sql.quote(saved)}", context.variables, using=using)
    else:
        cell = _condition_cell(context, where, table or saved, using)
    return cell, Rows(*_with_values(context.connection, cell), str(table or saved))
