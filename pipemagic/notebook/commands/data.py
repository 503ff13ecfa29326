"""%pipedb load."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, cast

from IPython.core.error import UsageError

from pipemagic.errors import SessionError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.commands.server import ON
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pipemagic.client.database import IfExists


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
