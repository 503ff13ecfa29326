"""The requests of executemany.

SQLite takes some 30 us for a statement that a batch runs for one row, and a transaction has a time limit. So the rows
of ``INSERT INTO t VALUES (?, ?)`` are sent as records, which one statement reads (`pipemagic.frames.encoder`). Any
other statement runs once for each of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

from pipemagic.client.arguments import statement as with_arguments
from pipemagic.dbapi.parameters import Parameters, binder
from pipemagic.errors import ProtocolError
from pipemagic.frames.scalars import to_sql
from pipemagic.hrana.messages import Stmt
from pipemagic.hrana.values import Blob, SqlValue, Text, Value
from pipemagic.session.cell import Cell
from pipemagic.sql import ParsedStatement, parse

if TYPE_CHECKING:
    from pipemagic.client.bulk.batches import RowBatch
    from pipemagic.frames.columns import ColumnChunk

MOST = 10_000
"""The most rows of a request."""

MOST_BYTES = 2_000_000
"""About the most bytes of the arguments of a request of more than one statement."""

FEWEST = 200
"""The fewest rows that are sent as records: for fewer, the question whether the server reads them would take longer."""

_SET, _BACK, _RELEASE = (Stmt(f"{verb} pipemagic_rows") for verb in ("SAVEPOINT", "ROLLBACK TO", "RELEASE"))

UNDO = Cell("", (parse(_BACK.sql or ""), parse(_RELEASE.sql or "")), (_BACK, _RELEASE))
"""What removes the rows that were kept in the savepoint of `ManyRequest.enclosed`, and the savepoint."""

_PLAIN = ({int}, {float}, {str}, {bytes})
"""The types of values that need no check before they become a column."""


class ManyRequest(NamedTuple):
    """The statements of one request, one for each row; or a single one that inserts all ``rows``."""

    stmts: Sequence[Stmt]
    rows: Sequence[Parameters] = ()

    def cell(self, statement: ParsedStatement) -> Cell:
        """Return its statements, each of which is the same for the user."""
        return Cell(statement.text, (statement,) * len(self.stmts), tuple(self.stmts))

    def enclosed(self, statement: ParsedStatement) -> Cell:
        """Return the same in a savepoint: without it ``ON CONFLICT FAIL`` would keep some rows."""
        statements = (parse(_SET.sql or ""), statement, parse(_RELEASE.sql or ""))
        return Cell(statement.text, statements, (_SET, *self.stmts, _RELEASE))

    def one_by_one(self, statement: ParsedStatement) -> Cell:
        """Return a statement for each of the rows."""
        return ManyRequest(list(map(binder(statement, want_rows=False), self.rows))).cell(statement)


def requests(
    statement: ParsedStatement, parameters: Iterable[Parameters], takes_records: Callable[[], bool]
) -> Iterator[ManyRequest]:
    """Yield the requests that run a statement with each of some parameters, in order.

    ``takes_records`` returns True if the server's SQLite reads records. Raise the errors of `binder`.
    """
    bind, insert = binder(statement, want_rows=False), row_insert(statement)
    rows = iter(parameters)
    while some := list(islice(rows, MOST)):
        columns = insert.columns(some) if insert and len(some) >= FEWEST and takes_records() else None
        if insert is None or columns is None:
            yield from _by_size(list(map(bind, some)))
            continue
        for batch in insert.batches(columns, len(some)):
            rows_of_batch = some[batch.start : batch.stop]
            if batch.too_large:
                yield from _by_size(list(map(bind, rows_of_batch)))
            else:
                yield ManyRequest([with_arguments(batch.sql, batch.args)], rows_of_batch)


def _by_size(stmts: Iterable[Stmt]) -> Iterator[ManyRequest]:
    """Yield requests of some size for the statements of rows."""
    waiting: list[Stmt] = []
    size = 0
    for stmt in stmts:
        waiting.append(stmt)
        size += sum(map(_size, stmt.args or [argument.value for argument in stmt.named_args or ()]))
        if size >= MOST_BYTES:
            yield ManyRequest(waiting)
            waiting, size = [], 0
    if waiting:
        yield ManyRequest(waiting)


class RowInsert(NamedTuple):
    """An INSERT of one row of parameters: the text before VALUES, the parameters, and the text after the row."""

    into: str
    parameters: tuple[str, ...]
    after: str

    def columns(self, rows: Sequence[Parameters]) -> list[ColumnChunk] | None:
        """Return the values of rows by columns; None if a row does not match, or has a value that cannot be stored."""
        from pipemagic.frames.columns import chunk_of_items

        try:
            return [chunk_of_items(_plain(values)) for values in self._by_column(rows)]
        except (LookupError, ValueError, OverflowError, ProtocolError):
            return None

    def batches(self, columns: Sequence[ColumnChunk], count: int) -> Iterator[RowBatch]:
        """Yield the statements that insert these rows."""
        from pipemagic.client.bulk.batches import Batches

        return Batches(self.into, self.parameters, self.after, first=count).of(columns, count)

    def _by_column(self, rows: Sequence[Parameters]) -> Sequence[Sequence[Any]]:
        types, names = set(map(type, rows)), set(self.parameters)
        if "?" not in names and all(issubclass(kind, Mapping) for kind in types):
            return [[row[name[1:]] for row in rows] for name in self.parameters]  # type: ignore[call-overload]
        in_order = names == {"?"} and all(issubclass(kind, tuple | list) for kind in types)
        columns = list(zip(*rows, strict=True)) if in_order else []
        if len(columns) != len(self.parameters):
            raise ValueError("the rows do not match")
        return columns


def row_insert(statement: ParsedStatement) -> RowInsert | None:
    """Return the parts of an INSERT or REPLACE of one row, whose values are its only parameters; otherwise None."""
    if statement.keyword not in ("INSERT", "REPLACE") or "SELECT" in statement.outer_words:
        return None
    text, words = statement.text, statement.tokens
    start = next((token.start for token in statement.outer_tokens if token.word == "VALUES"), len(text))
    begin = next((at for at, token in enumerate(words) if token.start > start), len(words))
    end = next((at for at in range(begin, len(words)) if words[at].text == ")"), begin)
    row, after = words[begin : end + 1], words[end + 1 :]
    names = tuple(token.text for token in row[1::2])
    is_row = bool(names) and "".join(token.text for token in row) == f"({','.join(names)})"
    # Each is ``?``, or has a name of its own.
    in_order = statement.parameters == tuple(None if name == "?" else name for name in names)
    if not is_row or not in_order or any(name[0] == "?" and name != "?" for name in names):
        return None
    if any(token.kind == "param" for token in after) or (after and after[0].text == ","):
        return None
    return RowInsert(text[:start].rstrip(" "), names, text[words[end].end :].strip(" "))


def _plain(values: Sequence[Any]) -> Sequence[SqlValue]:
    """Return values as SQLite stores them; raise ProtocolError for one that it cannot store."""
    types = set(map(type, values)) - {NoneType}
    return values if types in _PLAIN else [to_sql(value) for value in values]


def _size(value: Value) -> int:
    match value:
        case Text(text):
            return len(text)
        case Blob(data):
            return len(data)
    return 8
