"""%pipedb load and copy: a frame of the notebook, or a table of another database, becomes a table or rows of one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from pipemagic import sql
from pipemagic.counts import plural
from pipemagic.errors import SessionError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook.arguments import Arguments, Option, Positional, items, names
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.commands.server import ON
from pipemagic.notebook.display import say
from pipemagic.notebook.progress import shown

if TYPE_CHECKING:
    from pipemagic.client.bulk.load import Load
    from pipemagic.client.database import Database, IfExists
    from pipemagic.session import Connection

SHOWN_TYPES = 12
"""Columns whose types are named in the line about them."""

CREATE = Option("--create", "make the table, which must not be there (so it is without one of these four, too)")
APPEND = Option("--append", "add the rows to the table")
REPLACE = Option("--replace", "put the rows in the place of the table's; its indexes, triggers and views stay")
UPSERT = Option("--upsert", "change the rows with the same KEY, add the others", "KEY[,KEY]")


def load(context: Context, args: Arguments) -> None:
    """Write a DataFrame of the notebook into a table."""
    if_exists = wish(args, CREATE, APPEND, REPLACE, UPSERT)
    keys = names(args["--upsert"], "--upsert") if args.get("--upsert") is not None else []
    declared = _types(args["--types"]) if args.get("--types") is not None else {}
    frame = _frame(context, args["FRAME"])
    connection = context.session.connection(args.get("--on"))
    check_no_transaction(connection, "load")

    def run(database: Database) -> Load:
        from pipemagic.client.bulk.load import prepare

        database.check_writable("load")
        ready = prepare(database, frame, args["--table"], if_exists=if_exists, keys=keys, types=declared)
        types = ready.plan.types if args.on("--verbose") else ready.unexpected_types
        if types and not context.preferences.quiet:
            say(_types_line(types, ready))
        with shown("rows sent", context.preferences) as progress:
            ready.run(progress)
        return ready

    try:
        loaded = connection.once(run)
    finally:
        _report_written(connection)
    columns = plural(len(loaded.plan.names), "column")
    say(f"Loaded {plural(loaded.total, 'row')} and {columns} into {args['--table']}.")


def copy(context: Context, args: Arguments) -> None:
    """Copy a table to the database of another connection."""
    if_exists = wish(args, CREATE, APPEND, REPLACE)
    source, target = context.session.connection(args.get("--on")), context.session.connection(args["--to"])
    check_no_transaction(target, "copy")
    table, new = args["TABLE"], args.get("--as") or args["TABLE"]
    try:
        with shown("rows copied", context.preferences) as progress:
            count = target.once(
                lambda there: source.once(lambda here: here.copy(table, there, new, if_exists, progress=progress))
            )
    finally:
        _report_written(target)
    say(f"Copied {plural(count, 'row')} into {new} on {target.name}.")


def wish(args: Arguments, *options: Option) -> IfExists:
    """Give which of the options was chosen, the first by default; UsageError for two of them."""
    given = [one.flag for one in options if args.on(one.flag) or args.get(one.flag) is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} do not go together")
    wishes: dict[str, IfExists] = {"--append": "append", "--replace": "replace", "--upsert": "upsert"}
    return wishes.get(given[0], "fail") if given else "fail"


def _report_written(connection: Connection) -> None:
    """Report a written table to panels, and read the schema again for completion: it may be a new one."""
    connection.written.send(connection)
    connection.schema.refresh()


def check_no_transaction(connection: Connection, what: str) -> None:
    """Refuse to write beside a transaction of the cells, which would have to wait for its end."""
    if connection.transaction is Tx.OPEN:
        raise SessionError(
            f"a transaction is open on {connection.name}, and {what} would have to wait for its end",
            hint="COMMIT or ROLLBACK first",
        )


def _types(text: str) -> Mapping[str, str]:
    """Read ``col=TYPE,...``; a comma in parentheses belongs to the type."""
    found = {}
    for part in items(text, "--types"):
        name, equals, declared = part.rpartition("=")
        if not equals or not name.strip() or not declared.strip():
            raise UsageError(f"--types takes column=TYPE,..., not {part[:40]!r}")
        found[sql.unquote(name.strip())] = declared.strip()
    return found


def _types_line(types: Sequence[tuple[str, str]], ready: Load) -> str:
    listed = [f"{name} {declared or '(no type)'}" for name, declared in types[:SHOWN_TYPES]]
    more = f", and {len(types) - SHOWN_TYPES} more" if len(types) > SHOWN_TYPES else ""
    kept = " (the table keeps its definition)" if ready.plan.keeps else ""
    return f"Types: {', '.join(listed)}{more}{kept}"


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
            CREATE,
            APPEND,
            REPLACE,
            UPSERT,
            Option("--verbose", "list the types of all columns"),
            Option("--types", "declare these columns of a new table so: n=BIGINT,price=DECIMAL(10,2)", "col=TYPE,..."),
            ON,
        ),
    ),
    Command(
        "copy",
        "Copy a table to another connection, all rows or none, as what is committed",
        copy,
        (Positional("TABLE", "the table, or the view, to copy"),),
        (
            Option("--to", "the connection to copy it to", "NAME", required=True),
            Option("--as", "what to call it there; the same by default", "NEW"),
            CREATE,
            APPEND,
            Option("--replace", "put the copy in the place of the table; triggers and views on that stay"),
            ON,
        ),
    ),
)
