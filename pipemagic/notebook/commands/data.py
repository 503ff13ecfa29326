"""%pipedb tables, schema, load: in requests of their own, so they see what is committed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, cast

from IPython.core.error import UsageError

from pipemagic import sql
from pipemagic.errors import SessionError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.commands.server import ON
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database, IfExists

TABLES = """
    SELECT name AS "table", type FROM sqlite_master
    WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""


def tables(context: Context, args: Arguments) -> DataFrame:
    """Give the tables and views as a DataFrame."""
    return context.session.connection(args.get("--on")).once(lambda database: database.query(TABLES))


def schema(context: Context, args: Arguments) -> DataFrame:
    """Give the columns of a table as a DataFrame."""
    return context.session.connection(args.get("--on")).once(lambda database: _columns(database, args["TABLE"]))


def _columns(database: Database, table: str) -> DataFrame:
    from pandas import DataFrame

    try:
        found = database.execute(f"PRAGMA table_xinfo({sql.quote(table)})")
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not found.rows:
        raise _no_table(database, table)
    rows = []
    for row in found.rows:
        column = dict(zip(found.columns, row, strict=True))
        rows.append((
            column["name"], column["type"], not column["notnull"], column["dflt_value"], bool(column["pk"]),
            bool(column.get("hidden")),
        ))  # fmt: skip
    frame = DataFrame(rows, columns=["column", "type", "nullable", "default", "primary key", "generated"])
    return frame if frame["generated"].any() else frame.drop(columns="generated")


def _no_table(database: Database, table: str) -> SessionError:
    names = [str(name) for name, _ in database.execute(TABLES).rows]
    near = difflib.get_close_matches(table, names, n=1)
    hint = f"did you mean {near[0]}?" if near else "%pipedb tables lists what there is"
    return SessionError(f"there is no table {table!r}", hint=hint)


def load(context: Context, args: Arguments) -> None:
    """Write a DataFrame of the notebook into a table."""
    frame = _frame(context, args["FRAME"])
    connection = context.session.connection(args.get("--on"))
    if connection.transaction is Tx.OPEN:
        raise SessionError(
            f"a transaction is open on {connection.name}, and load would have to wait for its end",
            hint="COMMIT or ROLLBACK first",
        )
    table, if_exists = args["--table"], cast("IfExists", args.get("--if-exists") or "fail")
    count = connection.once(lambda database: database.load(frame, table, if_exists))
    say(f"Loaded {count} row{'' if count == 1 else 's'} into {table}.")


def _frame(context: Context, name: str) -> Any:
    """Find the frame by the name of its variable; attributes may follow: ``flights`` or ``data.flights``."""
    first, *attributes = name.split(".")
    if first not in context.variables:
        near = difflib.get_close_matches(first, [key for key in context.variables if key[:1] != "_"], n=1)
        raise UsageError(f"there is no variable {first!r}{f', did you mean {near[0]}?' if near else ''}")
    found = context.variables[first]
    for attribute in attributes:
        if not hasattr(found, attribute):
            raise UsageError(f"{first} has no {attribute}")
        found = getattr(found, attribute)
    if type(found).__name__ != "DataFrame":
        raise UsageError(f"{name} is not a DataFrame but a {type(found).__name__}")
    return found


COMMANDS: tuple[Command, ...] = (
    Command("tables", "List the tables and views", tables, options=(ON,)),
    Command(
        "schema",
        "Show the columns of a table",
        schema,
        (Positional("TABLE", 'the table\'s name, in quotes if it has blanks: "my table"'),),
        (ON,),
    ),
    Command(
        "load",
        "Write a DataFrame into a table, all rows or none",
        load,
        (Positional("FRAME", "the variable that holds the DataFrame"),),
        (
            Option("--table", "the table to write into", "TABLE", required=True),
            Option(
                "--if-exists", "what to do if there is the table: fail (the default), append or replace",
                "ACTION", choices=("fail", "append", "replace"),
            ),
            ON,
        ),
    ),
)  # fmt: skip
