"""Pages of filtered rows, with the errors and notes that a cell with the same SELECT has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from IPython.core.getipython import get_ipython

from pipemagic.client.transaction import TransactionContent
from pipemagic.errors import StatementError
from pipemagic.explore import conditions, page_query
from pipemagic.explore.page_query import Page, PageQuery, identifier, rows_sql
from pipemagic.explore.schema import Schema
from pipemagic.explore.schema_reader import read_schema
from pipemagic.hrana.messages import Stmt
from pipemagic.notebook.notes import FOUND_IN, notes_on
from pipemagic.session.cell import Cell
from pipemagic.session.messages import FailedStatement, statement_error
from pipemagic.session.results import Outcome
from pipemagic.session.schema_cache import SchemaCache
from pipemagic.session.source_map import Segment, SourceMap, SourceText
from pipemagic.sql import parse

if TYPE_CHECKING:
    from pipemagic.client.database import Database

_EXPLAIN = "EXPLAIN "


def read_page(database: Database, query: PageQuery, schema: Schema | None) -> tuple[Schema, Page, Sequence[str]]:
    """Read a page, and the schema if it is None; return the schema, the page, and the notes on its statement.

    Raise the StatementError of a cell for a condition that the server refuses, with its position in the condition.
    """
    try:
        if query.where and not conditions.is_balanced(query.where):  # in parentheses it would be another condition
            _explain(database, query)
            conditions.check(query.where)
        if schema is None:
            schema, page = page_query.refresh_page(database, query)
        else:
            page = page_query.read_page(database, query, schema.relation(query.table))
    except StatementError:
        if query.where:
            _explain(database, query)
        raise
    return schema, page, _notes(page, schema)


def _explain(database: Database, query: PageQuery) -> None:
    """Raise the error of a cell with the condition of a query behind WHERE; none if the server reads that cell.

    The statement of a page has more around the condition, such as parentheses, which must not be in a message.
    """
    start = f"SELECT * FROM {identifier(query.table)} WHERE "
    try:
        database.execute(f"{_EXPLAIN}{start}{query.where}")
    except StatementError as error:
        typed = SourceText(query.where)
        generated = Segment(start, typed, 0, copied=False)
        cell = _cell(SourceMap((generated, Segment(query.where, typed, 0))), query.where)
        offset = None if error.offset is None else error.offset - len(_EXPLAIN)
        failed = error.replace(sql=cell.sent(0), offset=offset, index=0)
        schema = SchemaCache.of_schema(read_schema(database))
        raise statement_error(FailedStatement(cell, failed, 0, TransactionContent(), schema, {}), []) from None


def _notes(page: Page, schema: Schema) -> Sequence[str]:
    """Return the notes on the statement of a filtered page, unless notes are switched off."""
    query = page.query
    if not (query.where and FOUND_IN.search(query.where) and _wants_notes()):
        return ()
    text = rows_sql(query, page.relation)
    cell = _cell(SourceMap((Segment(text, SourceText(text), 0),)), text)
    outcome = Outcome(cell.statements[0], page.result)
    return tuple(notes_on(cell, SchemaCache.of_schema(schema), {}, [outcome]))


def _cell(source_map: SourceMap, text: str) -> Cell:
    """Return a cell of one statement without parameters; its ``text`` is that of messages."""
    sent = source_map.text
    return Cell(text, (parse(sent),), (Stmt(sent),), source_maps=(source_map,))


def _wants_notes() -> bool:
    shell = get_ipython()
    magics = None if shell is None else shell.magics_manager.registry.get("PipeMagics")
    return magics is None or bool(magics.settings.notes)
