"""SQL that users type for a generated statement, such as a condition for ``--where``, with the errors of a cell.

A generated statement has more around the typed text, such as parentheses, which must not be in a message. So if it
fails, the typed text is sent again as EXPLAIN of the statement that a cell would have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipemagic.client.arguments import values_of
from pipemagic.client.transaction import TransactionContent
from pipemagic.errors import StatementError
from pipemagic.session.cell import Cell
from pipemagic.session.messages import FailedStatement, statement_error
from pipemagic.session.parameters import Variables, bind
from pipemagic.session.snippets import Snippets
from pipemagic.session.source_map import Segment, SourceMap, SourceText
from pipemagic.sql import parse

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.session.schema_cache import SchemaCache

_EXPLAIN = "EXPLAIN "


def condition_cell(
    text: str,
    rows: str,
    values: Variables | None = None,
    *,
    using: Sequence[str] = (),
    snippets: Snippets | None = None,
) -> Cell:
    """Return the cell that selects the rows that meet a condition; messages show the condition alone.

    ``rows`` is the name of the table, or a SELECT in parentheses. ``using`` are the ``snippets`` that it may read from.
    Raise the errors of `parse_cell` for parameters and snippets.
    """
    start, typed = start_of(rows), SourceText(text)
    written = SourceMap((Segment(start, typed, 0, copied=False), Segment(text, typed, 0)))
    statement = replace(parse(written.text), start=-len(start))
    (unbound,) = (snippets or Snippets()).put_in_front([written], using)
    source_map, stmt, dates = bind(unbound, values)
    return Cell(
        text, (statement,), (stmt,), source_maps=(source_map,), names=("",), dates=(dates,) if dates else (),
        snippets=snippets,
    )  # fmt: skip


def start_of(rows: str) -> str:
    """Return what `condition_cell` writes before a condition."""
    return f"SELECT * FROM {rows} WHERE "


def check_statement(
    database: Database, cell: Cell, schema: SchemaCache, others: Mapping[str, SchemaCache] | None = None
) -> None:
    """Raise the error of the only statement of a cell that the server refuses, with its position in the typed text.

    It does not run. ``schema`` and ``others``, the schemas of other connections by name, are for hints.
    """
    stmt, source_map = cell.stmts[0], cell.source_maps[0] if cell.source_maps else None
    try:
        database.execute(f"{_EXPLAIN}{stmt.sql}", values_of(stmt) or None)
    except StatementError as error:
        offset = None if error.offset is None else error.offset - len(_EXPLAIN)
        failed = error.replace(sql=cell.sent(0), offset=offset, index=0)
        described = statement_error(FailedStatement(cell, failed, 0, TransactionContent(), schema, others or {}), [])
        start = "" if source_map is None or source_map.segments[0].copied else source_map.segments[0].text
        if described.offset is None or described.offset >= len(start.encode()):  # else it is not in the typed text
            raise described from None
