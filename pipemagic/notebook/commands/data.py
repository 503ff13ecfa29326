"""Load frames and files into tables, copy tables between databases, list saved SELECTs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic import sql
from pipemagic.errors import LoadError, SessionError, UsageError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook.arguments import (
    Option,
    ParsedArguments,
    Positional,
    assign,
    items,
    names,
    new_table,
    split,
    table,
)
from pipemagic.notebook.commands.base import ON, CommandContext, CommandGroup, frame_of
from pipemagic.notebook.display import say
from pipemagic.notebook.line_variables import LineVariables
from pipemagic.notebook.load_source import FILE_FRAME, find_source, fixes_of_file, reader_options, refuse_expression
from pipemagic.notebook.progress import show_progress
from pipemagic.sql.type_affinity import affinity
from pipemagic.text import plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.bulk.load import Load
    from pipemagic.client.bulk.load_plan import IfExists, LoadPlan
    from pipemagic.client.database import Database
    from pipemagic.frames.left_as_text import LeftAsText
    from pipemagic.session import Connection

GROUP = CommandGroup("Data")

SHOWN_TYPES = 12
"""Maximum number of columns to list because their types do not follow from their dtypes."""

FILE_TYPES = 100
"""Maximum number of columns to list with their types for a file."""

APPEND = Option("--append", "append the rows to the table")
_IF_EXISTS: dict[str | None, IfExists] = {"--append": "append", "--replace": "replace", "--upsert": "upsert"}


def _column_types(text: str, name: str) -> Mapping[str, str]:
    """Parse ``col=TYPE,...``; a comma in parentheses is part of the type."""
    types = {}
    for part in items(text, name):
        column, equals, declared = part.rpartition("=")
        if not equals or not column.strip() or not declared.strip():
            raise UsageError(f"{name} must be column=TYPE,..., not {part[:40]!r}")
        types[sql.unquote(column.strip())] = declared.strip()
    return types


_FRAME = Positional(
    "FRAME",
    "the variable that contains the frame (pandas, Polars, Arrow, DuckDB, ...), or a file",
    completes="frame|data file",
)
_READER = Option(
    "--", "options for the pandas function that reads the file", "NAME=VALUE ...", type=reader_options,
    own_braces=True,
)  # fmt: skip
_LOAD_OPTIONS = (
    Option("--table", "the table to write to", "TABLE", type=new_table, required=True),
    APPEND,
    Option("--replace", "replace the rows of the table; keep its indexes, triggers and views"),
    Option("--upsert", "update rows with an existing KEY, insert the others", "KEY[,KEY]", type=names),
    Option("--types", "column types of a new table: n=BIGINT,price=DECIMAL(10,2)", "col=TYPE,...", type=_column_types),
    ON,
    _READER,
)


@GROUP.command(_FRAME, *_LOAD_OPTIONS, check=refuse_expression)
def load(context: CommandContext) -> None:
    """Write a frame or a file into a table, all rows or none.

    %pipedb load frame --table flights
    %pipedb load frame --table flights --append
    %pipedb load frame --table flights --upsert id
    %pipedb load frame --table "my table" --replace --types "price=DECIMAL(10,2)"
    %pipedb load flights.csv --table flights
    %pipedb load sales.csv --table sales -- sep=';' decimal=','
    """
    from pipemagic.frames.any_frame import fixes_of

    args, table, if_exists = context.args, context.args["--table"], _if_exists(context.args)
    line_with = partial(_line_with, context)
    source = find_source(args["FRAME"], context.variables, line_with)
    is_file = isinstance(source, Path)
    name = FILE_FRAME if is_file else args["FRAME"]
    if "--" in args.values and not is_file:
        raise UsageError(f"options after -- apply to files, but {name} is a variable")
    connection = context.connection
    _check_no_transaction(connection, "load")
    frame = _frame(source, args, _reader_options(context))
    left = _left_as_text(frame, source)

    def run(database: Database) -> Load:
        from pipemagic.client.bulk.load import prepare

        database.check_writable("load")
        keys, types = args.get("--upsert") or [], args.get("--types") or {}
        with _options_as_hint(left, source):
            ready = prepare(database, frame, table, if_exists=if_exists, keys=keys, types=types, name=name)
            _check_texts(left, ready.plan)
        with show_progress("rows sent", context.settings) as progress:
            ready.run(progress)
        return ready

    try:
        with fixes_of_file(source, line_with) if is_file else fixes_of(source, name):
            loaded = connection.with_database(run)
    finally:
        _report_written(connection)
    if not is_file and loaded.plan.table == name:
        connection.has_loaded(name, source)
    columns = plural(len(loaded.plan.names), "column")
    details = "" if context.settings.quiet else _details(loaded, is_file=is_file)
    say(f"Loaded {plural(loaded.total, 'row')} and {columns} into {loaded.plan.table}{details}.")
    if not context.settings.quiet:
        for columns_as_text in left:
            say(str(columns_as_text))
        for column, declared, row, text in loaded.plan.texts_among_numbers():
            misfit = f"row {row} has {text[:40]!r}, which is not a number"
            say(f"Column {column} is declared {declared} but has text: {misfit}.")


def _left_as_text(frame: DataFrame, source: object) -> Sequence[LeftAsText]:
    """Return the columns of a file that options of its reader would make numbers or dates."""
    if not isinstance(source, Path):
        return ()
    from pipemagic.frames.left_as_text import columns_left_as_text

    return tuple(columns_left_as_text(frame))


def _check_texts(left: Sequence[LeftAsText], plan: LoadPlan) -> None:
    """Raise LoadError for texts that options make numbers or dates, in a column that is declared as such.

    SQLite would store the texts, and sum(amount) of '1.234,50' is 1.234.
    """
    declared = dict(plan.types)
    for part in left:
        for name in part.columns:
            if affinity(declared.get(name, "")) not in ("", "TEXT", "BLOB"):
                where = f"{plan.table} declares it {declared[name]}" if plan.into or plan.keeps else declared[name]
                message = f"column {name}: {where}, but {part.reason}; nothing was changed"
                hint = f"load the file into a new table, and insert {part.expression}" if part.expression else ""
                raise LoadError(message, hint=hint, columns=[name], declared=declared[name])


@contextmanager
def _options_as_hint(left: Sequence[LeftAsText], source: object) -> Iterator[None]:
    """Name the options of the reader in the hint of a LoadError on a column of a file that they read."""
    try:
        yield
    except LoadError as error:
        parts = [part.options for part in left if part.options and not set(part.columns).isdisjoint(error.columns)]
        options = [" ".join(choice) for choice in product(*parts)] if parts else []
        has_dtype = isinstance(source, Path) and source.suffix.lower() != ".parquet"
        if has_dtype and affinity(error.declared) == "TEXT":  # 7 in a column of codes such as 0012
            options = options or [f"dtype={dict.fromkeys(error.columns, 'str')!r}"]
        if not options:
            raise
        lines = [f"-- {choice}" for choice in options]
        hint = f"add {lines[0]}" if len(lines) == 1 else "\n".join(["add one of these:", *lines])
        raise error.replace(hint=hint) from None


@GROUP.command(
    Positional("TABLE", "the table or view to copy", type=table),
    Option("--to", "the connection to copy to", "NAME", required=True),
    Option("--as", "the name of the copy; by default the name of the table", "NEW", type=new_table),
    APPEND,
    Option("--replace", "replace the table; keep its triggers and views"),
    ON,
)
def copy(context: CommandContext) -> None:
    """Copy the committed rows of a table to another connection, all or none.

    %pipedb copy flights --to other
    """
    args, if_exists = context.args, _if_exists(context.args)
    source, target = context.connection, context.session.connection(args["--to"])
    _check_no_transaction(target, "copy")
    table, new = args["TABLE"], args.get("--as") or args["TABLE"]
    try:
        with show_progress("rows copied", context.settings) as progress:
            count = target.with_database(
                lambda there: source.with_database(
                    lambda here: here.copy(table, there, new, if_exists, progress=progress)
                )
            )
    finally:
        _report_written(target)
    say(f"Copied {plural(count, 'row')} into {new} on {target.name}.")


def _if_exists(args: ParsedArguments) -> IfExists:
    return _IF_EXISTS.get(args.one_of("--append", "--replace", "--upsert"), "fail")


def _report_written(connection: Connection) -> None:
    """Notify panels of the write, and read the schema again for completion, because the table may be new."""
    connection.written.send(connection)
    connection.schema.refresh()


def _check_no_transaction(connection: Connection, command: str) -> None:
    """Raise SessionError if a transaction of the cells is open, because the command would wait for it to end."""
    if connection.transaction is Tx.OPEN:
        raise SessionError(
            f"cannot {command} while a transaction is open on {connection.name}",
            hint="run COMMIT or ROLLBACK first",
        )


_LABELS = {
    "": "",
    "stored": ", with the row labels as column index",
    "dropped": ", without the row labels",
}
"""The words for an index without a name in the message of a load."""


def _line_with(context: CommandContext, source: str) -> str:
    """Return the line of the command with another source."""
    line = context.line
    there = next(
        assignment.word for assignment in assign(split(line), [_FRAME], _LOAD_OPTIONS) if assignment.argument is _FRAME
    )
    return f"%pipedb load {line[: there.start].lstrip()}{source}{line[there.end :]}".rstrip()


def _reader_options(context: CommandContext) -> list[str]:
    """Return the options for the reader, with the values of variables: ``sep={mark}``."""
    options: list[str] = context.args.get("--") or []
    variables = LineVariables(context.line, "%pipedb load", context.variables)
    return [variables.literal(option, _READER) for option in options]


def _frame(source: object, args: ParsedArguments, options: Sequence[str]) -> DataFrame:
    if isinstance(source, Path):
        from pipemagic.frames.readers import read_file

        return read_file(source, options)
    from pipemagic.frames.any_frame import as_pandas

    return as_pandas(source, args["FRAME"])


def _details(loaded: Load, *, is_file: bool) -> str:
    """Return the column types to list after the name of the table, and a note if it keeps its declared types."""
    types, most = (loaded.plan.types, FILE_TYPES) if is_file else (loaded.unexpected_types, SHOWN_TYPES)
    listed = [f"{_shown_name(name)}: {declared or 'no type'}" for name, declared in types[:most]]
    if len(types) > most:
        listed.append(f"and {len(types) - most:,} more")
    note = ", which keeps its declared types because it has constraints" if loaded.plan.keeps else ""
    return (f" ({', '.join(listed)})" if listed else "") + note + _LABELS[loaded.labels]


def _shown_name(name: str) -> str:
    return sql.quote(name) if name != name.strip() or set(name) & set(",:()") else name


@GROUP.command(
    Positional("NAME", "the SELECT to show", optional=True, completes="snippet"),
    Option("--delete", "delete this SELECT", "NAME", completes="snippet"),
)
def snippets(context: CommandContext) -> DataFrame | None:
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
            rows = ((select.name, ", ".join(select.uses), " ".join(select.text.split())) for select in saved)
            return frame_of(rows, "snippet", "with", "sql")
    return None
