"""%pipedb tables, columns, schema, profile: in requests of their own, so they see what is committed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.commands.server import ON

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database
    from pipemagic.explore.profile import Profile
    from pipemagic.explore.script import Script

T = TypeVar("T")

_LISTED = re.compile(r'(?:\s*"(?:[^"]|"")*"\s*(?=,|$)|[^,])+')

TABLE = Positional("TABLE", 'the table or view, in quotes if its name has blanks: "my table"')


def _ask(context: Context, args: Arguments, question: Callable[[Database], T]) -> T:
    return context.session.connection(args.get("--on")).once(question)


def tables(context: Context, args: Arguments) -> DataFrame:
    """Give the tables and views as a DataFrame."""
    from pipemagic.explore import listing

    pattern, rows = args.get("PATTERN") or "", args.on("--rows")
    return _ask(context, args, lambda database: listing.tables(database, pattern, rows=rows))


def columns(context: Context, args: Arguments) -> DataFrame:
    """Give the columns of a table as a DataFrame."""
    from pipemagic.explore import listing

    return _ask(context, args, lambda database: listing.columns(database, args["TABLE"]))


def schema(context: Context, args: Arguments) -> Script:
    """Give the SQL that makes a table, or everything."""
    from pipemagic.explore.script import script

    return _ask(context, args, lambda database: script(database, args.get("TABLE")))


def profile(context: Context, args: Arguments) -> Profile:
    """Give what the columns of a table hold."""
    from pipemagic.explore.profile import profile

    columns = names_of(args.get("--columns"))
    return _ask(context, args, lambda database: profile(database, args["TABLE"], columns or None))


def names_of(words: str | None) -> list[str]:
    """Read names with commas between them; one that holds a comma or blanks at its ends stands in quotes."""
    return [name for name in map(_unquoted, _LISTED.findall(words or "")) if name]


def _unquoted(name: str) -> str:
    name = name.strip()
    return name[1:-1].replace('""', '"') if name[:1] == '"' == name[-1:] and len(name) > 1 else name


COMMANDS: tuple[Command, ...] = (
    Command(
        "tables",
        "List the tables and views",
        tables,
        (Positional("PATTERN", "a part of the name, or with * and ? the whole of it", optional=True),),
        (Option("--rows", "count the rows of each, for which the server walks through them"), ON),
    ),
    Command("columns", "List the columns of a table or view", columns, (TABLE,), (ON,)),
    Command(
        "schema",
        "Show the SQL that makes a table with its indexes and triggers, or everything",
        schema,
        (Positional("TABLE", TABLE.help, optional=True),),
        (ON,),
    ),
    Command(
        "profile",
        "Show what the columns of a table hold: counts, NULLs, quartiles, frequent values",
        profile,
        (TABLE,),
        (Option("--columns", "look only at these columns, with commas between them", "A,B"), ON),
    ),
)
