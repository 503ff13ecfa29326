"""DataFrames of the notebook as tables of a statement: which names they are, and the WITH that contains their rows.

A name is a frame where a statement only reads it, and only if the database has no table of that name, which the server
is asked before the cell is sent. The rows are arguments in the form of a load (`pipemagic.frames.encoder`), with the
same values; a common table expression reads them. It declares no types: those of a load are added to the result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from pipemagic.client.arguments import ROWS_OF
from pipemagic.errors import LoadError, PipemagicError, ServerError, SessionError, StatementError
from pipemagic.explore.comparisons import queries_in
from pipemagic.explore.query import Computed, Derived, Query, TableReference
from pipemagic.explore.schema import Relation
from pipemagic.explore.token_tree import QUERY, Group, bare
from pipemagic.frames.any_frame import as_pandas, fixes_of, is_frame
from pipemagic.hrana.messages import ENCODER, Entry, Error, ErrorEntry, Execute, NamedArg, Request, Stmt, StmtResult
from pipemagic.hrana.values import SqlValue, encode
from pipemagic.session import date_parameters
from pipemagic.session.cell import READS_TABLES, Cell, FramePolicy, Scope
from pipemagic.session.source_map import Edit, place_of_with
from pipemagic.sql import HIGHEST_PARAMETER, ParsedStatement, normalize, parse, quote
from pipemagic.text import join_words, plural, word

if TYPE_CHECKING:
    import pandas as pd

    from pipemagic.client.address import Endpoint
    from pipemagic.frames.from_pandas import FrameColumn

LARGEST = 64_000_000
"""The most bytes of the arguments of a cell that are rows of frames."""

LARGEST_IN_TRANSACTION = 8_000_000
"""The same in a transaction that is open before the cell, while its time limit runs."""

_REPEATED = re.compile(r":\d+\Z")
"""The end of a name that a subquery has for the second time."""

IS_RESULT = "is the result of an earlier statement, a variable after the cell"
"""A part of the hint for a statement that reads such a result as a table."""

_WORDS = re.compile(r"[^\W\d]\w*")
_WON = "{0} is a table of the database; the variable {0} was not used."
_FIRST = 1_000  # rows of the first part, before their size is known
_CASTS = {"INTEGER": "INTEGER", "BOOLEAN": "INTEGER", "REAL": "REAL", "TEXT": "TEXT"} | dict.fromkeys(
    ("DATE", "DATETIME", "TIMESTAMP"), "TEXT"
)
"""The type that gives a column the affinity of its declared type; columns of others have none. Dates are texts."""


Loaded: TypeAlias = Callable[[], object]
"""Returns the frame that was loaded into the table with the name of its variable, None if it is gone."""

_Definition: TypeAlias = tuple[str, Sequence[NamedArg], int]
"""The definition of a frame in a WITH, and its arguments with their size in bytes."""


class FrameRows(NamedTuple):
    """The rows of a frame, as columns for SQLite."""

    columns: Sequence[FrameColumn]
    total: int


# -- which names


def with_frames(cell: Cell, variables: Mapping[str, object], policy: FramePolicy) -> Cell:
    """Return a cell with the frames among the variables that its statements read; nothing is sent.

    A variable with the name of an earlier statement (``-- name: x``) holds the result of an earlier run.
    """
    frames: list[Mapping[str, object]] = []
    changed = set[str]()
    for at, statement in enumerate(cell.statements):
        frames.append(_read_by(cell.sent(at), variables, changed))
        changed |= _changed_by(statement) | {normalize(name) for name in cell.names[at : at + 1] if name}
        if statement.keyword in ("ROLLBACK", "ATTACH", "DETACH"):  # it may bring any table back
            variables = {}
    return replace(cell, frames=tuple(frames), frame_policy=policy) if any(frames) else cell


def _read_by(text: str, variables: Mapping[str, object], changed: set[str]) -> Mapping[str, object]:
    words = set(_WORDS.findall(text)) if READS_TABLES.search(text) else set()
    frames = {name for name in words if name[0] != "_" and name in variables and is_frame(variables[name])}
    names = [name for name in tables_read(text) if name in frames] if frames else []
    return {name: variables[name] for name in names if normalize(name) not in changed}


def _changed_by(statement: ParsedStatement) -> set[str]:
    """Return the names that DDL creates, drops or renames, normalized, and perhaps other names."""
    names = [token for token in statement.tokens[:12] if token.kind in ("word", "quoted")]
    end = next((at for at, token in enumerate(names) if token.word == "AS"), len(names))
    return {normalize(token.text) for token in names[:end]} if statement.changes_schema else set()


def tables_read(text: str) -> list[str]:
    """Return the names of the tables that a statement only reads, as written.

    Those with a schema, table functions and common table expressions are left out, and the table that it changes. A
    view or a trigger reads its tables later.
    """
    statement, changed = _query_in(text)
    names = {
        table.name: None
        for query in queries_in(statement, {})
        for table in (*query.all_sources, *query.tables_after_in)
        if not (table.is_qualified or table.has_arguments or table.name.lower() in query.common)
    }
    return [name for name in names if name and normalize(quote(name)) != changed]


def readable(text: str, names: Iterable[str]) -> set[str]:
    """Return the names of frames that a statement, perhaps an unfinished one, can read."""
    statement, changed = _query_in(text)
    return {name for name in names if statement and normalize(quote(name)) != changed}


def _query_in(text: str) -> tuple[str, str]:
    """Return the part of a statement that reads tables when it runs, or '', and the changed table, normalized."""
    place = place_of_with(text)
    if place is None or "VIEW" in [token.word for token in parse(text).head[1:3]]:
        return "", ""
    statement = parse(text[place.start :])
    changed = statement.changed_table
    return statement.text, normalize(parse(changed).tokens[-1].text) if changed else ""


def may_send(cell: Cell, endpoint: Endpoint) -> bool:
    """Return True if a cell reads frames, and their rows may be sent there."""
    policy = cell.frame_policy if any(cell.frames) else None
    return policy is not None and (policy.anywhere or (policy.automatic and endpoint.loopback))


def without_tables(
    cell: Cell, send: Callable[[Sequence[Request]], list[Entry]], known: set[str], noted: dict[str, Loaded | None]
) -> tuple[Cell, list[str]]:
    """Ask the server which names are tables; return the cell with the other frames, converted, and notes on the tables.

    ``known`` are names of tables for which the server is not asked again, ``noted`` those that need no note, each with
    the frame that was loaded into it. Raise LoadError for a frame that a load refuses, and SessionError for one that is
    certainly too large.
    """
    frames = {name: value for read in cell.frames for name, value in read.items()}
    names = [name for name in frames if name not in known]
    reading = chain.from_iterable(tables_read(cell.sent(at)) for at, read in enumerate(cell.frames) if read)
    readable_names = [*dict.fromkeys(reading)] if names else []  # also frames, which may be tables too
    questions: list[Request] = [Execute(Stmt(f"SELECT 1 FROM {quote(name)} LIMIT 0")) for name in names]
    entries = send([*questions, *date_parameters.requests_for(readable_names)]) if names else []
    answers = zip(names, entries, strict=False)
    known.update(name for name, entry in answers if not (isinstance(entry, ErrorEntry) and _misses(entry.error, name)))
    won = [
        name for name in frames if name in known and (loaded := noted.get(name, str)) and loaded() is not frames[name]
    ]
    noted.update(dict.fromkeys(won))
    rows = {name: _rows(name, value, cell) for name, value in frames.items() if name not in known}
    tables_by_name = date_parameters.tables_of(readable_names, entries[len(questions) :])
    for name, (columns, _) in rows.items():
        types = [(column.name, column.declared) for column in columns]
        tables_by_name[name.lower()] = Relation.of(name, types, "DataFrame")
    left = tuple({name: rows[name] for name in read if name in rows} for read in cell.frames)
    scopes = tuple(Scope(cell.sent(at), tables_by_name) if read else None for at, read in enumerate(left))
    return replace(cell, frames=left, scopes=scopes), [_WON.format(name) for name in won]


def _misses(error: Error | StatementError, name: str) -> bool:
    return error.message.partition("\n")[0].endswith(f"no such table: {name}")


# -- errors


def _load(cell: Cell, name: str) -> str:
    policy = cell.frame_policy
    return f"%pipedb load {name} --table {name}{f' --on {word(policy.on)}' if policy and policy.on else ''}"


def _too_large(cell: Cell, name: str, others: Iterable[str] = (), *, in_transaction: bool = False) -> SessionError:
    """Return the error for a frame, after ``others``, that is too large."""
    size, where = (LARGEST_IN_TRANSACTION, " in an open transaction") if in_transaction else (LARGEST, "")
    rows = f"the rows of {join_words([*others, name])}"
    message = f"{rows} take more than the {size // 1_000_000} MB that a cell sends{where}"
    what = f"COMMIT first, or load {name} before BEGIN" if in_transaction else f"load {name}"
    return SessionError(message, hint=f"{what}:\n{_load(cell, name)}")


def _too_many(cell: Cell, name: str, rows: FrameRows) -> SessionError:
    """Return the error for a frame with more values than a server without records takes."""
    many = f"{rows.total * len(rows.columns):,} values"
    message = f"{name} has {many}, and this server takes {HIGHEST_PARAMETER:,} in a statement"
    return SessionError(message, hint=f"load {name}:\n{_load(cell, name)}")


def with_hint(error: StatementError, cell: Cell, endpoint: Endpoint) -> StatementError:
    """Return the error of a statement; for a missing table with the option that sends the frame of that name.

    A table with the name of an earlier statement is missing because its rows are a variable after the cell.
    """
    for name in filter(None, cell.names[: max(error.index, 0)]):
        if _misses(error, name):
            return error.replace(hint=f"{name} {IS_RESULT}: read it in another cell")
    for name in cell.frames[error.index] if not cell.scopes and 0 <= error.index < len(cell.frames) else ():
        if _misses(error, name):
            hint = f"%%sql --frames sends the rows of {name} to {endpoint.named_host}"
            return error.replace(hint="\n".join(filter(None, [error.hint, hint])))
    return error


def refused(error: PipemagicError, cell: Cell) -> PipemagicError:
    """Return the error of a request; for one that is too large with the lines that load its frames."""
    if not (isinstance(error, ServerError) and error.status == 413 and any(cell.scopes)):
        return error
    names = dict.fromkeys(name for read in cell.frames for name in read)
    return error.replace(hint="\n".join(["load the rows first:", *(_load(cell, name) for name in names)]))


# -- the rows


def _rows(name: str, value: object, cell: Cell) -> FrameRows:
    """Convert a frame as a load does."""
    from pipemagic.frames.from_pandas import check_problems, from_frame

    try:
        with fixes_of(value, name):
            frame = as_pandas(value, name)
            if _least_size(frame) > LARGEST:
                raise _too_large(cell, name)
            columns = from_frame(frame, name)
            check_problems(columns)
    except LoadError as error:
        if "--types" not in error.hint:
            raise
        raise error.replace(hint=f"{_load(cell, name)} with an option:\n{error.hint}") from None
    return FrameRows(columns, len(frame))


def _least_size(frame: pd.DataFrame) -> int:
    """Return the least bytes of the arguments for a frame, without converting it."""
    memory = int(frame.memory_usage(index=False, deep=True).sum())
    return max(frame.size, (memory - 120 * frame.size) // 4)  # a character takes up to 4 bytes in memory


def with_rows(
    cell: Cell, records: Callable[[], bool], *, in_transaction: bool = False, empty: bool = False
) -> tuple[Cell, list[str]]:
    """Return the cell with the rows of its frames as arguments, and a line on each frame.

    ``records`` returns True if the server can read them. ``in_transaction`` is True if one was open before the cell.
    With ``empty`` the frames have no rows, for a plan. Raise SessionError for rows that are too large.
    """
    frames: dict[str, FrameRows] = dict(chain.from_iterable(read.items() for read in cell.frames))
    room = LARGEST_IN_TRANSACTION if in_transaction else LARGEST
    tables: dict[str, _Definition] = {}
    for name, rows in frames.items():
        uses = sum(name in read for read in cell.frames)
        prefix = f"{ROWS_OF}{name}_"
        while any(prefix in cell.sent(at) for at in range(len(cell.stmts))):
            prefix += "_"
        sent = rows._replace(total=0) if empty else rows
        if sent.total * len(sent.columns) > HIGHEST_PARAMETER and not records():
            raise _too_many(cell, name, sent)
        table = _common_table(name, sent, prefix, room // uses, records)
        if table is None:
            raise _too_large(cell, name, tables, in_transaction=in_transaction)
        tables[name], room = table, room - uses * table[-1]
    stmts, source_maps = list(cell.stmts), list(cell.all_source_maps)
    for at, read in enumerate(cell.frames):
        if read:
            place = place_of_with(source_maps[at].text)
            assert place is not None  # otherwise the statement reads no frame
            definitions = f"{place.before}{', '.join(tables[name][0] for name in read)}{place.after}"
            source_maps[at] = source_maps[at].edited([Edit(place.offset, place.offset, definitions)])
            args = [*(stmts[at].named_args or ()), *chain.from_iterable(tables[name][1] for name in read)]
            stmts[at] = msgspec.structs.replace(stmts[at], sql=source_maps[at].text, named_args=args or None)
    lines = [f"{name}: {plural(rows.total, 'row')} sent" for name, rows in frames.items() if not empty]
    return replace(cell, stmts=tuple(stmts), source_maps=tuple(source_maps)), lines


def _common_table(
    name: str, rows: FrameRows, prefix: str, room: int, records: Callable[[], bool]
) -> _Definition | None:
    """Return the definition of a frame, with as many parts as the size of an argument requires; None without room.

    An engine computes a table that is not materialized for each use.
    """
    from pipemagic.client.bulk.batches import GROWTH, LIMIT, as_arguments, as_records

    parts: list[str] = []
    args: list[NamedArg] = []
    start, size, write, count = 0, 0, as_records, _FIRST
    if rows.total and not records():
        write, count = as_arguments, rows.total
    while start < rows.total:
        stop = min(start + count, rows.total)
        names = f"{prefix}{len(parts) + 1}_"
        values = [column.values.cut(start, stop) for column in rows.columns]
        part, part_args, part_size = write(values, stop - start, names)
        fitting = max(1, (stop - start) * LIMIT * 9 // (10 * max(part_size, 1)))
        count = min(GROWTH * (stop - start), fitting)
        if part_size <= LIMIT or stop == start + 1:
            if size + part_size > room:  # a longer part has the width of its largest values in each row
                return None
            parts.append(part)
            compact = map(_compact, part_args) if write is as_records else part_args
            args += [NamedArg(f"{names}{at}", encode(arg)) for at, arg in enumerate(compact, start=1)]
            start, size = stop, size + part_size
    numbers = range(1, len(rows.columns) + 1)
    parts = parts or [f"SELECT {', '.join(f'NULL AS column{number}' for number in numbers)} WHERE false"]
    types = [_CASTS.get(column.declared, "") for column in rows.columns]
    columns = [f"CAST(column{at} AS {type_})" if type_ else f"+column{at}" for at, type_ in enumerate(types, start=1)]
    selects = " UNION ALL ".join(f"SELECT {', '.join(columns)} FROM ({part})" for part in parts)
    header = ", ".join(quote(column.name) for column in rows.columns)
    return f"{quote(name)} ({header}) AS MATERIALIZED ({selects})", args, size


def _compact(value: SqlValue) -> SqlValue:
    """Return an argument of records, which is read as bytes, in the form that a server decodes with less memory.

    Text that is not ASCII takes several times its size while it is decoded, base64 does not.
    """
    is_short = not isinstance(value, str) or (value.isascii() and len(ENCODER.encode(value)) * 3 <= len(value) * 4 + 6)
    return value if is_short else str(value).encode()


# -- the types of results


def with_types(cell: Cell, results: Sequence[StmtResult]) -> list[StmtResult]:
    """Return the results with the declared types that their columns would have if the frames were loaded."""
    pairs = zip(results, cell.scopes, strict=False)
    return [result if scope is None else _typed(result, scope) for result, scope in pairs]


def _typed(result: StmtResult, scope: Scope) -> StmtResult:
    is_query = parse(scope.text).is_query  # of a compound, the first term has the types
    columns = _columns(queries_in(scope.text, scope.tables)[0]) if is_query else []
    pairs = list(zip(result.cols, columns, strict=False))
    names = ((_REPEATED.sub("", col.name or "").lower(), _REPEATED.sub("", name)) for col, (name, _) in pairs)
    if len(columns) != len(result.cols) or any(name not in ("", returned) for returned, name in names):
        return result
    # The server knows only the affinity of a column in a recursion.
    cols = [msgspec.structs.replace(col, decltype=type_ or col.decltype) for col, (_, type_) in pairs]
    return msgspec.structs.replace(result, cols=cols)


def _columns(query: Query) -> list[tuple[str, str]]:
    """Return the columns of a query: the name in lower case, '' if it is not known, and the type, '' without one."""
    columns: list[tuple[str, str]] = [] if query.select_list else [*query.columns]
    for item, alias in query.select_list:
        last = len(item.items) - 1
        if item.word(last) == "*" and last == 0:
            columns += _joined(query, query.part)
        elif item.word(last) == "*":
            sources = [source for source in query.all_sources if source.label.lower() == item.name(0).lower()]
            columns += chain.from_iterable(map(_columns_of, sources))
        else:
            column, type_ = bare(item), query.declared(item) if item.word(last - 1) != "COLLATE" else ""
            is_column = len(column.items) == 1 or (len(column.items) == 3 and column.word(1) == ".")
            name = alias or (column.name(-1) if is_column and column.is_name(len(column.items) - 1) else "")
            columns.append((name.lower(), _declared(type_ or "")))
    return columns


def _declared(type_: str) -> str:
    return "" if isinstance(type_, Computed) else type_


def _joined(query: Query, part: Group) -> list[tuple[str, str]]:
    """Return the columns of * over the tables after FROM, without those that USING and NATURAL would repeat."""
    columns: list[tuple[str, str]] = []
    first = next((at for at in range(len(part.items)) if part.clause(at) == "FROM"), len(part.items))
    ends = (at for at in range(first + 1, len(part.items)) if part.clause(at) not in ("", "JOIN", "ON", "USING"))
    tables = part.slice(first, next(ends, None))
    cuts = [0, *(at for at, word_ in enumerate(tables.words()) if word_ in ("JOIN", ",")), len(tables.items)]
    is_natural = False
    for start, end in pairwise(cuts):
        table = Group([tables.items[0], *tables.items[start + 1 : end]])
        inner, words = table.group(1), table.words()
        if inner is not None and inner.word(0) not in QUERY:
            added = _joined(query, Group([tables.items[0], *inner.items]))
        else:
            added = [column for source in query.sources_in(table) for column in _columns_of(source)]
        using = table.group(words.index("USING") + 1) if "USING" in words else None
        repeated = {name for name, _ in columns} if is_natural else set[str]()
        repeated |= {using.name(at).lower() for at in range(len(using.items)) if using.is_name(at)} if using else set()
        columns += [column for column in added if column[0] not in repeated]
        is_natural = "NATURAL" in words
    return columns


def _columns_of(source: TableReference) -> list[tuple[str, str]]:
    columns = [(name.lower(), _declared(type_)) for name, type_ in source.columns]
    queries = source.table.queries if isinstance(source.table, Derived) else ()
    if not queries:
        return columns
    terms = zip(_columns(queries[0]), _columns(queries[-1]), strict=False)
    inner = [(name, type_) for (name, _), (_, type_) in terms]
    columns = columns if len(columns) == len(inner) else inner  # its relation has only columns with names
    counts = Counter[str]()
    for at, (name, type_) in enumerate(columns):
        columns[at] = (f"{name}:{counts[name]}" if name and counts[name] else name, type_)
        counts[name] += 1
    return columns
