"""Load DataFrames into tables, copy tables between databases, list saved SELECTs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from pipemagic import sql
from pipemagic.errors import SessionError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook.arguments import Arguments, Option, Positional, items, names, new_table, table
from pipemagic.notebook.commands.base import ON, Context, Group, frame_of
from pipemagic.notebook.display import say
from pipemagic.notebook.progress import show_progress
from pipemagic.text import plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.bulk.load import Load
    from pipemagic.client.bulk.load_plan import IfExists
    from pipemagic.client.database import Database
    from pipemagic.session import Connection

GROUP = Group("Data")

SHOWN_TYPES = 12
"""The most columns whose types are listed in one line."""

CREATE = Option("--create", "create the table, which must not exist; this is the default")
APPEND = Option("--append", "add the rows to the table")
_IF_EXISTS: dict[str | None, IfExists] = {"--append": "append", "--replace": "replace", "--upsert": "upsert"}


def _column_types(text: str, name: str) -> Mapping[str, str]:
    """Parse ``col=TYPE,...``; a comma in parentheses is part of the type."""
    found = {}
    for part in items(text, name):
        column, equals, declared = part.rpartition("=")
        if not equals or not column.strip() or not declared.strip():
            raise UsageError(f"{name} takes column=TYPE,..., not {part[:40]!r}")
        found[sql.unquote(column.strip())] = declared.strip()
    return found


@GROUP.command(
    Positional("FRAME", "the variable that contains the DataFrame"),
    Option("--table", "the table to write to", "TABLE", required=True),
    CREATE,
    APPEND,
    Option("--replace", "replace the rows of the table; its indexes, triggers and views are kept"),
    Option("--upsert", "update the rows with the same KEY, add the others", "KEY[,KEY]", type=names),
    Option("--verbose", "list the types of all columns"),
    Option(
        "--types", "types of columns of a new table: n=BIGINT,price=DECIMAL(10,2)", "col=TYPE,...", type=_column_types
    ),
    ON,
)
def load(context: Context) -> None:
    """Write a DataFrame into a table, all rows or none.

    %pipedb load frame --table flights
    %pipedb load frame --table flights --append
    %pipedb load frame --table flights --upsert id
    %pipedb load frame --table "my table" --replace --types "price=DECIMAL(10,2)"
    """
    args, table, if_exists = context.args, context.args["--table"], _if_exists(context.args)
    frame = _frame(context, args["FRAME"])
    connection = context.connection
    _check_no_transaction(connection, "load")

    def run(database: Database) -> Load:
        from pipemagic.client.bulk.load import prepare

        database.check_writable("load")
        keys, types = args.get("--upsert") or [], args.get("--types") or {}
        ready = prepare(database, frame, table, if_exists=if_exists, keys=keys, types=types)
        listed = ready.plan.types if args.on("--verbose") else ready.unexpected_types
        if listed and not context.settings.quiet:
            say(_types_line(listed, ready))
        with show_progress("rows sent", context.settings) as progress:
            ready.run(progress)
        return ready

    try:
        loaded = connection.once(run)
    finally:
        _report_written(connection)
    columns = plural(len(loaded.plan.names), "column")
    say(f"Loaded {plural(loaded.total, 'row')} and {columns} into {table}.")


@GROUP.command(
    Positional("TABLE", "the table or view to copy", type=table),
    Option("--to", "the connection to copy to", "NAME", required=True),
    Option("--as", "the name of the copy; by default that of the table", "NEW", type=new_table),
    CREATE,
    APPEND,
    Option("--replace", "replace the table; its triggers and views are kept"),
    ON,
)
def copy(context: Context) -> None:
    """Copy the committed rows of a table to another connection, all or none.

    %pipedb copy flights --to other
    """
    args, if_exists = context.args, _if_exists(context.args)
    source, target = context.connection, context.session.connection(args["--to"])
    _check_no_transaction(target, "copy")
    table, new = args["TABLE"], args.get("--as") or args["TABLE"]
    try:
        with show_progress("rows copied", context.settings) as progress:
            count = target.once(
                lambda there: source.once(lambda here: here.copy(table, there, new, if_exists, progress=progress))
            )
    finally:
        _report_written(target)
    say(f"Copied {plural(count, 'row')} into {new} on {target.name}.")


def _if_exists(args: Arguments) -> IfExists:
    return _IF_EXISTS.get(args.one_of("--create", "--append", "--replace", "--upsert"), "fail")


def _report_written(connection: Connection) -> None:
    """Notify panels of a written table, and read the schema again for completion: the table may be new."""
    connection.written.send(connection)
    connection.schema.refresh()


def _check_no_transaction(connection: Connection, command: str) -> None:
    """Raise SessionError if a transaction of the cells is open: the command would wait for its end."""
    if connection.transaction is Tx.OPEN:
        raise SessionError(
            f"a transaction is open on {connection.name}, and {command} would have to wait for its end",
            hint="COMMIT or ROLLBACK first",
        )


def _types_line(types: Sequence[tuple[str, str]], ready: Load) -> str:
    listed = [f"{name} {declared or '(no type)'}" for name, declared in types[:SHOWN_TYPES]]
    more = f", and {len(types) - SHOWN_TYPES} more" if len(types) > SHOWN_TYPES else ""
    kept = " (the table keeps its definition)" if ready.plan.keeps else ""
    return f"Types: {', '.join(listed)}{more}{kept}"


_READERS = {"csv": "read_csv", "json": "read_json", "parquet": "read_parquet", "xlsx": "read_excel"}
"""The functions of pandas that read a file, by its suffix."""


def _frame(context: Context, name: str) -> Any:
    """Return the frame in a variable, perhaps of an object: ``flights`` or ``data.flights``."""
    first, *attributes = name.split(".")
    reader = _READERS.get(attributes[-1].lower()) if attributes else None
    if reader and not hasattr(context.variables.get(first), attributes[-1]):
        read = f"frame = pandas.{reader}({name!r})"
        raise UsageError(f"{name} is not a variable; to load a file, run {read} and load frame")
    if first not in context.variables:
        near = difflib.get_close_matches(first, [key for key in context.variables if key[:1] != "_"], n=1)
        raise UsageError(f"no variable {first!r}{f', did you mean {near[0]}?' if near else ''}")
    found = context.variables[first]
    for attribute in attributes:
        if not hasattr(found, attribute):
            raise UsageError(f"{first} has no attribute {attribute}")
        found = getattr(found, attribute)
    if type(found).__name__ != "DataFrame":
        raise UsageError(f"{name} is not a DataFrame but a {type(found).__name__}")
    return found


@GROUP.command(
    Positional("NAME", "the SELECT to show", optional=True, completes="snippet"),
    Option("--delete", "delete this SELECT", "NAME", completes="snippet"),
)
def snippets(context: Context) -> DataFrame | None:
    """List the SELECTs saved with %%sql --save, or show one.

    %pipedb snippets
    %pipedb snippets late
    %pipedb snippets --delete late
    """
    saved, args = context.session.snippets, context.args
    match args.one_of("NAME", "--delete"):
        case "--delete":
            say(f"Deleted {saved.delete(args['--delete']).name}.")
        case "NAME":
            snippet = saved.get(args["NAME"])
            uses = f" --with {','.join(snippet.uses)}" if snippet.uses else ""
            say(f"%%sql --save {snippet.name}{uses}\n{snippet.text}")
        case _:
            rows = ((one.name, ", ".join(one.uses), " ".join(one.text.split())) for one in saved)
            return frame_of(rows, "snippet", "with", "sql")
    return None
