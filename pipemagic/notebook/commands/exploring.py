"""%pipedb tables, columns, schema, profile, check, diff: in requests of their own, so they see what is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from IPython.core.error import UsageError

from pipemagic.errors import CheckError, UnknownName
from pipemagic.notebook.arguments import Arguments, Option, Positional, names
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.commands.naming import asked_rules, condition, query
from pipemagic.notebook.commands.server import ON
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database
    from pipemagic.explore.diff import Diff
    from pipemagic.explore.profile import Profile
    from pipemagic.explore.script import Script
    from pipemagic.session import Connection

T = TypeVar("T")

TABLE = Positional("TABLE", 'the table or view, in quotes if its name has blanks: "my table"')


def _ask(context: Context, args: Arguments, question: Callable[[Database], T]) -> T:
    connection = context.session.connection(args.get("--on"))
    with _told_of_what_is_unseen(connection, args.get("TABLE")):
        return connection.once(question)


@contextmanager
def _told_of_what_is_unseen(connection: Connection, *given: str | None) -> Iterator[None]:
    """Say of a table that is not found why: that only the connection of the cells has it."""
    try:
        yield
    except UnknownName as error:
        unseen = next((name for name in given if name is not None and connection.schema.unseen(name)), None)
        if unseen is not None and repr(unseen) in error.message:
            hint = "it is temporary or not committed, so only cells see it: look at it with %%sql"
            raise error.replace(hint=hint) from None
        raise


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

    connection, table = context.session.connection(args.get("--on")), args["TABLE"]
    columns, known = _names(args, "--columns"), connection.schema.of(table)
    where = args.get("--where") or ""
    bound = condition(context, where) if where else None

    def ask(database: Database) -> Profile:
        if bound is None:
            return profile(database, table, columns, known=known)
        return profile(database, table, columns, known=known, where=bound.sql, params=bound.args)

    with _told_of_what_is_unseen(connection, table):
        return replace(connection.once(ask), where=where)  # as it was written


def check(context: Context, args: Arguments) -> None:
    """Say that a table keeps the rules; CheckError, with the rows that break them shown before, if it does not."""
    from pipemagic.explore.check import check_rules

    connection, rules = context.session.connection(args.get("--on")), asked_rules(context, args["TABLE"], args)
    if not rules:
        raise UsageError("say what to check: --not-null, --unique, --range, --references, --foreign-keys, --rows")
    try:
        with _told_of_what_is_unseen(connection, args["TABLE"]):
            say(str(connection.once(lambda database: check_rules(database, args["TABLE"], rules))))
    except CheckError as error:
        _show_failures(error)
        raise


def _show_failures(error: CheckError) -> None:
    from IPython.display import display

    for failure in error.failures:
        say(f"{failure}{'' if failure.count == len(failure.frame) else f'; the first {len(failure.frame)}'}")
        display(failure.frame)  # type: ignore[no-untyped-call]


def diff(context: Context, args: Arguments) -> Diff:
    """Give what differs between two tables or queries, of one connection or of two."""
    from pipemagic.explore.diff import diff

    one = context.session.connection(args.get("--on"))
    two = context.session.connection(args["--to"]) if args.get("--to") else one
    if args.get("B") is None and one is two:
        raise UsageError("say what to compare with: B, or --to another connection")
    limit, key = _limit(args.get("--limit")), _names(args, "--key")
    places, words = (one.name, two.name), (args["A"], args.get("B"))
    a, params = query(context, words[0])
    b, more = (None, {}) if words[1] is None else query(context, words[1])

    def ask(database: Database, other: Database | None) -> Diff:
        return diff(database, a, b, other=other, key=key, limit=limit, places=places, params={**params, **more})

    with _told_of_what_is_unseen(one, *words), _told_of_what_is_unseen(two, *words):
        if one is two:
            return one.once(lambda database: ask(database, None))
        return one.once(lambda database: two.once(lambda other: ask(database, other)))


def _names(args: Arguments, flag: str) -> list[str] | None:
    return names(args[flag], flag) if args.get(flag) is not None else None


def _limit(words: str | None) -> int:
    if words is None:
        return 10
    if not words.isdecimal():
        raise UsageError(f"--limit is a number of rows, not {words}")
    return int(words)


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
        (
            Option("--columns", "look only at these columns, with commas between them", "A,B"),
            Option(
                "--where",
                "look only at rows for which this holds; :name takes the value of a variable",
                "SQL",
                code=True,
            ),
            ON,
        ),
    ),
    Command(
        "check",
        "Stop with an error unless a table keeps the rules",
        check,
        (TABLE,),
        (
            Option("--not-null", "no NULL in these columns", "A,B", many=True),
            Option("--unique", "no two rows have the same values in these columns together", "A,B", many=True),
            Option("--range", "values within bounds, one of which may be left out", "COLUMN=LOW..HIGH", many=True),
            Option("--references", "values that are in another table", "A,B=TABLE.C,D", many=True),
            Option("--foreign-keys", "the foreign keys that the table declares find their rows"),
            Option("--rows", "holds for each row; :name takes the value of a variable", "SQL", many=True, code=True),
            ON,
        ),
    ),
    Command(
        "diff",
        "Show what differs between two tables, views or SELECTs: columns, types, rows",
        diff,
        (
            Positional("A", "a table, a view, or a SELECT in quotes, with :name for variables", completes="table"),
            Positional("B", "what to compare with; by default the same, with --to", optional=True, completes="table"),
        ),
        (
            ON,
            Option("--to", "the connection that B is of", "NAME", completes="connection"),
            Option("--key", "match rows by these columns; by default by the primary key that both have", "A,B"),
            Option("--limit", "how many rows of each kind to show, by default 10", "N"),
        ),
    ),
)
