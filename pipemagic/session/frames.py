"""Frames of the notebook as tables of a statement: which names they are, and the WITH that contains their rows.

A name is a frame where a statement only reads it, and only if the database has no table of that name, which the server
is asked before the cell is sent. The rows are arguments in the form of a load (`pipemagic.frames.encoder`), with the
same values; a common table expression reads them. It has no declared types, so those of a load are added to the
columns of the result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pipemagic.client.arguments import ROWS_OF
from pipemagic.client.batch_runner import result_of
from pipemagic.client.stream import Dialect
from pipemagic.errors import LoadError, SessionError, StatementError
from pipemagic.explore.comparisons import queries_in
from pipemagic.explore.query import Computed, Derived, Query, queries_of
from pipemagic.explore.schema import Relation
from pipemagic.explore.token_tree import Group, nest
from pipemagic.frames.any_frame import as_pandas, fixes_of, is_frame
from pipemagic.hrana.messages import Entry, Execute, NamedArg, Request, Stmt, StmtResult
from pipemagic.hrana.values import SqlValue, encode
from pipemagic.session import date_parameters
from pipemagic.session.cell import Cell, FramePolicy, RunOptions, Scope
from pipemagic.session.source_map import Edit, place_of_with
from pipemagic.sql import HIGHEST_PARAMETER, ParsedStatement, normalize, parse, quote, significant
from pipemagic.text import plural

if TYPE_CHECKING:
    import pandas as pd

    from pipemagic.client.address import Endpoint
    from pipemagic.frames.from_pandas import FrameColumn

READS = re.compile(r"\b(?:FROM|JOIN|IN)\b", re.IGNORECASE)
"""Matches every statement that reads a table."""

MB = 1_000_000

LARGEST = 64 * MB
"""The most bytes of arguments with rows of frames in a cell."""

LARGEST_IN_TRANSACTION = 8 * MB
"""The same in a transaction that is open before the cell, and has a time limit."""

_WON = "{0} is a table of the database; the variable {0} was not used."
_WORDS = re.compile(r"[^\W\d]\w*")
_FIRST = 1_000
"""Rows in the first part of a frame, before the size of the rows is known."""

_CASTS = {"INTEGER": "INTEGER", "BOOLEAN": "INTEGER", "REAL": "REAL", "TEXT": "TEXT"} | dict.fromkeys(
    ("DATE", "DATETIME", "TIMESTAMP"), "TEXT"
)
"""The types that give a column its affinity; others have none."""


class FrameRows(NamedTuple):
    """The rows of a frame under its name in the notebook, as columns for SQLite."""

    name: str
    columns: Sequence[FrameColumn]
    total: int

    @property
    def relation(self) -> Relation:
        """The table that a load would create."""
        return Relation.of(self.name, [(column.name, column.declared) for column in self.columns])


@dataclass
class FrameState:
    """What a connection knows: the tables that it has noted, and whether the server reads records exactly."""

    noted: set[str] = field(default_factory=set)
    takes_records: bool | None = None


# -- which names


def with_frames(cell: Cell, variables: Mapping[str, object], policy: FramePolicy) -> Cell:
    """Return a cell with the frames among the variables that its statements read; nothing is sent yet."""
    frames: list[Mapping[str, object]] = []
    changed: set[str] = set()
    for at, statement in enumerate(cell.statements):
        frames.append(_read_by(cell.sent(at), variables, changed))
        changed |= _changed_by(statement)
        if statement.keyword in ("ROLLBACK", "ATTACH", "DETACH"):  # it may bring any table back
            variables = {}
    return replace(cell, frames=tuple(frames), frame_policy=policy) if any(frames) else cell


def _read_by(text: str, variables: Mapping[str, object], changed: set[str]) -> Mapping[str, object]:
    if not READS.search(text):
        return {}
    words = {name for name in _WORDS.findall(text) if name in variables and name[0] != "_"}
    frames = {name: variables[name] for name in words if is_frame(variables[name]) and normalize(name) not in changed}
    return {name: frames[name] for name in tables_read(text) if name in frames} if frames else {}


def _changed_by(statement: ParsedStatement) -> set[str]:
    """Return the names, normalized, of the objects that DDL creates, drops or renames, and perhaps other names."""
    if not statement.changes_schema:
        return set()
    names = [token for token in statement.tokens[:12] if token.kind in ("word", "quoted")]
    end = next((at for at, token in enumerate(names) if token.word == "AS"), len(names))
    return {normalize(token.text) for token in names[:end]}


def tables_read(text: str) -> list[str]:
    """Return the names of tables that a statement only reads, as written, without its common table expressions.

    Those with a schema and table functions are left out, and the table that it changes. A view or a trigger reads
    its tables later.
    """
    statement, changed = _query_in(text)
    names = [
        table.name
        for query in queries_in(statement, {})
        for table in (*query.all_sources, *query.tables_after_in)
        if not (table.is_qualified or table.has_arguments or table.name.lower() in query.common)
    ]
    return [name for name in dict.fromkeys(names) if name and normalize(quote(name)) != changed]


def readable(text: str, names: Iterable[str]) -> set[str]:
    """Return the names of frames that a statement, perhaps an unfinished one, can read."""
    statement, changed = _query_in(text)
    return {name for name in names if statement and normalize(quote(name)) != changed}


def _query_in(text: str) -> tuple[str, str]:
    """Return the part of a statement that reads tables when it runs, or '', and the changed table, normalized."""
    place = place_of_with(text)
    if place is None or "VIEW" in [token.word for token in parse(text).head[1:3]]:
        return "", ""
    statement = parse(text[place[0] :])
    changed = statement.changed_table
    return statement.text, normalize(parse(changed).tokens[-1].text) if changed else ""


def without_tables(
    cell: Cell, send: Callable[[Sequence[Request]], list[Entry]], state: FrameState
) -> tuple[Cell, list[str]]:
    """Ask the server which names are tables; return the cell with the other frames, converted, and notes on the tables.

    Raise LoadError for a frame that a load refuses, and SessionError for one that is certainly too large.
    """
    frames = {name: value for frames in cell.frames for name, value in frames.items()}
    reading = [tables_read(cell.sent(at)) for at, read in enumerate(cell.frames) if read]
    others = [name for name in dict.fromkeys(chain.from_iterable(reading)) if name not in frames]
    questions: list[Request] = [Execute(Stmt(f"SELECT 1 FROM {quote(name)} LIMIT 0")) for name in frames]
    entries = send([*questions, *date_parameters.requests_for(others)])
    tables = [name for name, entry in zip(frames, entries, strict=False) if not _is_missing(name, entry)]
    notes = [_WON.format(name) for name in tables if name not in state.noted]
    state.noted.update(tables)
    rows = {name: _rows(name, value, cell) for name, value in frames.items() if name not in tables}
    other_tables = date_parameters.tables_of(others, entries[len(questions) :])
    scopes: list[Scope | None] = []
    for at, read in enumerate(cell.frames):
        relations = {name.lower(): rows[name].relation for name in read if name in rows}
        scopes.append(Scope(cell.sent(at), other_tables | relations) if relations else None)
    left = tuple({name: rows[name] for name in read if name in rows} for read in cell.frames)
    return replace(cell, frames=left if any(left) else (), scopes=tuple(scopes)), notes


def _is_missing(name: str, entry: Entry) -> bool:
    try:
        result_of(entry)
    except StatementError as error:
        return error.message.partition("\n")[0].endswith(f"no such table: {name}")
    return False


def with_hint(error: StatementError, cell: Cell, endpoint: Endpoint) -> StatementError:
    """Return the error of a statement, with the option that sends a frame if its name is that of a missing table."""
    for name in cell.frames[error.index] if cell.frames else ():
        if error.message.partition("\n")[0].endswith(f"no such table: {name}"):
            hint = f"%%sql --frames sends the rows of {name} to {endpoint.named_host}"
            return error.replace(hint="\n".join(filter(None, [error.hint, hint])))
    return error


def must_be_fetched(cell: Cell, options: RunOptions, dialect: Dialect) -> bool:
    """Return True for a query with frames: with a cursor it is sent once, also if its result is large."""
    return (
        len(cell.stmts) == 1 and any(cell.scopes) and cell.statements[0].is_query
        and not options.atomic and dialect is Dialect.V3
    )  # fmt: skip


# -- their rows


def _rows(name: str, value: object, cell: Cell) -> FrameRows:
    from pipemagic.frames.from_pandas import check_problems, from_frame

    with _hints_on_options(name, cell), fixes_of(value, name):
        frame = as_pandas(value, name)
        if _least_size(frame) > LARGEST:
            raise _too_large(name, len(frame), cell)
        columns = from_frame(frame, name)
        check_problems(columns)
    return FrameRows(name, columns, len(frame))


@contextmanager
def _hints_on_options(name: str, cell: Cell) -> Iterator[None]:
    """Complete a hint that names options of a load."""
    try:
        yield
    except LoadError as error:
        if "--types" not in error.hint:
            raise
        raise error.replace(hint=f"{cell.frame_policy.load_line(name)} with an option:\n{error.hint}") from None


def _least_size(frame: pd.DataFrame) -> int:
    """Return the least bytes of the arguments for a frame, without reading each value of a large one."""
    memory = int(frame.memory_usage(index=False, deep=frame.size < MB // 10).sum())
    return max(frame.size, (memory - 120 * frame.size) // 4)  # a character takes up to 4 bytes in memory


def _too_large(name: str, rows: int, cell: Cell, *, in_transaction: bool = False) -> SessionError:
    size, where = (LARGEST_IN_TRANSACTION, " in an open transaction") if in_transaction else (LARGEST, "")
    return SessionError(
        f"{name} is too large to send with the statement{where}: its {plural(rows, 'row')} take more than "
        f"{size // MB} MB",
        hint=("COMMIT first, or " if in_transaction else "") + f"load it{' before BEGIN' if in_transaction else ''}:\n"
        f"{cell.frame_policy.load_line(name)}",
    )


class _CommonTable(NamedTuple):
    """The definition of a frame in a WITH, and its arguments with their size in bytes."""

    sql: str
    args: list[NamedArg]
    size: int


def with_rows(
    cell: Cell, takes_records: Callable[[], bool], *, in_transaction: bool = False, empty: bool = False
) -> tuple[Cell, list[str]]:
    """Return the cell with the rows of its frames as arguments, and a line on each frame.

    ``in_transaction`` is True if one was open before the cell. With ``empty`` the frames have no rows, for a plan.
    Raise SessionError for rows that are too large.
    """
    frames: dict[str, FrameRows] = {}
    for read in cell.frames:
        frames.update(read)  # type: ignore[arg-type]
    counts = Counter(name for read in cell.frames for name in read)
    left = LARGEST_IN_TRANSACTION if in_transaction else LARGEST
    tables: dict[str, _CommonTable] = {}
    for name, rows in frames.items():
        if empty or not rows.total:
            tables[name] = _CommonTable(_definition(rows, [_nothing(rows.columns)]), [], 0)
            continue
        prefix = f"{ROWS_OF}{name}_"
        while any(prefix in stmt.sql for stmt in cell.stmts if stmt.sql):
            prefix += "_"
        table = _in_records(rows, prefix, left // counts[name]) if takes_records() else _in_values(rows, prefix)
        left -= 0 if table is None else counts[name] * table.size
        if table is None or left < 0:
            raise _too_large(name, rows.total, cell, in_transaction=in_transaction)
        tables[name] = table
    stmts, source_maps = list(cell.stmts), list(cell.all_source_maps)
    for at, read in enumerate(cell.frames):
        if read:
            definitions = [tables[name] for name in read]
            source_maps[at] = source_maps[at].edited([_edit(source_maps[at].text, definitions)])
            args = [*(stmts[at].named_args or ()), *chain.from_iterable(table.args for table in definitions)]
            stmts[at] = msgspec.structs.replace(stmts[at], sql=source_maps[at].text, named_args=args or None)
    lines = [] if empty else [f"{name}: {plural(rows.total, 'row')} sent" for name, rows in frames.items()]
    return replace(cell, stmts=tuple(stmts), source_maps=tuple(source_maps), frames=()), lines


def _edit(text: str, tables: Sequence[_CommonTable]) -> Edit:
    place = place_of_with(text)
    assert place is not None  # otherwise the statement reads no frame
    start, offset = place
    before, after = ("", ", ") if start < offset else ("WITH ", " ")
    return Edit(offset, offset, f"{before}{', '.join(table.sql for table in tables)}{after}")


def _definition(rows: FrameRows, selects: Sequence[str]) -> str:
    """Return the definition of a frame; an engine computes a table that is not materialized for each use."""
    names = ", ".join(quote(column.name) for column in rows.columns)
    selects = selects if len(selects) == 1 else [f"SELECT * FROM ({select})" for select in selects]
    return f"{quote(rows.name)} ({names}) AS MATERIALIZED ({' UNION ALL '.join(selects)})"


def _nothing(columns: Sequence[FrameColumn]) -> str:
    return f"SELECT {', '.join(_with_affinity('NULL', column) for column in columns)} WHERE false"


def _with_affinity(expression: str, column: FrameColumn) -> str:
    """Return an expression with the affinity of a column of its declared type, so that it is compared as one.

    Dates are texts and are compared as such.
    """
    type_ = _CASTS.get(column.declared)
    return f"CAST({expression} AS {type_})" if type_ else f"+{expression}"


def _in_records(rows: FrameRows, prefix: str, room: int) -> _CommonTable | None:
    """Return a frame as records, in as many parts as an argument requires; None if they take more than ``room``."""
    from pipemagic.client.bulk.batches import LIMIT
    from pipemagic.frames.encoder import Records

    selects: list[str] = []
    args: list[NamedArg] = []
    start, count, size = 0, _FIRST, 0
    while start < rows.total:
        stop = min(start + count, rows.total)
        names = f"{prefix}{len(selects) + 1}_"
        records = Records(stop - start, names)
        expressions = [
            _with_affinity(records.add(column.values.cut(start, stop)), column) for column in rows.columns
        ]  # fmt: skip
        if size + records.size > room:
            return None
        fitting = (stop - start) * LIMIT // max(records.size, 1)
        if records.size > LIMIT and stop > start + 1:
            count = max(1, fitting * 9 // 10)
            continue
        selects.append(records.query(expressions))
        args += _named(names, records.args)
        start, count, size = stop, max(1, fitting * 9 // 10), size + records.size
    return _CommonTable(_definition(rows, selects), args, size)


def _in_values(rows: FrameRows, prefix: str) -> _CommonTable | None:
    """Return a frame with an argument for each value; None if it has too many."""
    from pipemagic.frames.encoder import as_decimal

    if rows.total * len(rows.columns) > HIGHEST_PARAMETER:
        return None
    lists: list[str] = []
    args: list[SqlValue] = []
    for row in zip(*(column.values.items() for column in rows.columns), strict=True):
        cells = []
        for value, column in zip(row, rows.columns, strict=True):
            args.append(as_decimal(value) if isinstance(value, float) else value)
            cell = f"{prefix}{len(args)}"
            cells.append(_with_affinity(f"CAST({cell} AS REAL)" if isinstance(value, float) else cell, column))
        lists.append(f"({', '.join(cells)})")
    return _CommonTable(_definition(rows, [f"VALUES {', '.join(lists)}"]), _named(prefix, args), 0)


def _named(prefix: str, args: Sequence[SqlValue]) -> list[NamedArg]:
    return [NamedArg(f"{prefix}{number}", encode(value)) for number, value in enumerate(args, start=1)]


# -- the types of results


def with_types(cell: Cell, results: Sequence[StmtResult]) -> list[StmtResult]:
    """Return the results with the declared types that their columns would have if the frames were loaded."""
    scopes = cell.scopes or (None,) * len(results)
    return [
        result if scope is None or not statement.is_query else _typed(result, scope)
        for statement, scope, result in zip(cell.statements, scopes, results, strict=False)
    ]


def _typed(result: StmtResult, scope: Scope) -> StmtResult:
    tokens = [token for token in significant(scope.text) if token.kind != "semi"]
    columns = _columns(queries_of(nest(tokens).top, scope.tables)[0])
    if [name or (col.name or "").lower() for (name, _), col in zip(columns, result.cols, strict=False)] != [
        (col.name or "").lower() for col in result.cols
    ] or len(columns) != len(result.cols):
        return result
    cols = [
        msgspec.structs.replace(col, decltype=col.decltype or type_ or None)
        for col, (_, type_) in zip(result.cols, columns, strict=True)
    ]
    return msgspec.structs.replace(result, cols=cols)


def _columns(query: Query) -> list[tuple[str, str]]:
    """Return the columns of a query in SQLite: the name in lower case, '' if unknown, and the declared type or ''."""
    columns: list[tuple[str, str]] = []
    for item, alias in query.select_list:
        if item.word(len(item.items) - 1) == "*":
            columns += _columns_of_star(query, item)
        else:
            type_ = query.declared(item)
            columns.append((alias.lower(), "" if type_ is None or isinstance(type_, Computed) else type_))
    return columns


def _columns_of_star(query: Query, item: Group) -> Iterator[tuple[str, str]]:
    label = item.name(0).lower() if len(item.items) == 3 else ""
    words = query.part.words()
    joined = {
        group.name(at).lower()
        for place, word_ in enumerate(words) if word_ == "USING" and (group := query.part.group(place + 1)) is not None
        for at in range(0, len(group.items), 2) if group.is_name(at)
    }  # fmt: skip
    seen: set[str] = set()
    for source in query.all_sources:
        if label not in ("", source.label.lower()):
            continue
        columns = [(name.lower(), "" if isinstance(type_, Computed) else type_) for name, type_ in source.columns]
        if isinstance(source.table, Derived) and source.table.queries:
            inner = _columns(source.table.queries[0])
            columns = columns if len(columns) == len(inner) else inner
        for name, type_ in columns:
            if label or name not in seen or not (name in joined or "NATURAL" in words):
                yield name, type_
        seen.update(name for name, _ in columns)
