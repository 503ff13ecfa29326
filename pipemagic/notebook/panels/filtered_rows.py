"""Pages of filtered rows, with the errors and notes that a cell with the same SELECT has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from IPython.core.getipython import get_ipython

from pipemagic.errors import StatementError
from pipemagic.explore import conditions, page_query
from pipemagic.explore.page_query import Page, PageQuery, rows_sql
from pipemagic.explore.schema import Schema
from pipemagic.explore.schema_reader import read_schema
from pipemagic.notebook.notes import FOUND_IN, notes_on
from pipemagic.session.cell import parse_cell
from pipemagic.session.results import Outcome
from pipemagic.session.schema_cache import SchemaCache
from pipemagic.session.typed_sql import check_statement, condition_cell

if TYPE_CHECKING:
    from pipemagic.client.database import Database


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
    """Raise the error of a cell with the condition of a query behind WHERE; none if the server reads that cell."""
    cell = condition_cell(query.where, query.table)
    check_statement(database, cell, SchemaCache.of_schema(read_schema(database)))


def _notes(page: Page, schema: Schema) -> Sequence[str]:
    """Return the notes on the statement of a filtered page, unless notes are switched off."""
    query = page.query
    if not (query.where and FOUND_IN.search(query.where) and _wants_notes()):
        return ()
    text = rows_sql(query, page.relation)
    cell = parse_cell(text)
    outcome = Outcome(cell.statements[0], page.result)
    return tuple(notes_on(cell, SchemaCache.of_schema(schema), {}, [outcome]))


def _wants_notes() -> bool:
    shell = get_ipython()
    magics = None if shell is None else shell.magics_manager.registry.get("PipeMagics")
    return magics is None or bool(magics.settings.notes)
