"""Pages of filtered rows, with the errors and notes that a cell with the same SELECT has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

from pipemagic.errors import StatementError
from pipemagic.explore import conditions, page_query
from pipemagic.explore.page_query import Page, PageQuery, args_of, as_sent, identifier, rows_sql, source_sql
from pipemagic.explore.schema import Relation
from pipemagic.explore.schema_reader import read_schema
from pipemagic.notebook.notes import FOUND_IN, notes_on
from pipemagic.session.cell import parse_cell
from pipemagic.session.results import Outcome
from pipemagic.session.schema_cache import SchemaCache
from pipemagic.session.typed_sql import check_statement, condition_cell

if TYPE_CHECKING:
    from pipemagic.client.database import Database


def read_page(database: Database, query: PageQuery, relation: Relation | None) -> tuple[Page, Sequence[str]]:
    """Read a page, and the columns of its table if ``relation`` is None; return it with the notes on its condition.

    Raise the StatementError of a cell for a condition that the server refuses, with its position in the condition.
    """
    try:
        if query.where and not conditions.is_balanced(query.where):  # in parentheses it would be another condition
            _explain(database, query, relation)
            conditions.check(query.where)
        if relation is None:
            page = page_query.refresh_page(database, query)
        else:
            page = page_query.read_page(database, query, relation)
    except StatementError:
        if query.where:
            _explain(database, query, relation)
        raise
    return page, _notes(database, page)


def _explain(database: Database, query: PageQuery, relation: Relation | None) -> None:
    """Raise the error of a cell with the condition of a query behind WHERE; none if the server reads that cell."""
    rows = identifier(query.table) if relation is None else source_sql(as_sent(relation))
    cell = condition_cell(query.where, rows, _values(relation))
    check_statement(database, cell, SchemaCache.of_schema(read_schema(database)))


def _notes(database: Database, page: Page) -> Sequence[str]:
    """Return the notes on the statement of a filtered page, unless notes are switched off."""
    query, relation = page.query, as_sent(page.relation)
    if not (query.where and FOUND_IN.search(query.where) and _wants_notes()):
        return ()
    cell = parse_cell(rows_sql(query, relation), _values(relation))
    outcome = Outcome(cell.statements[0], page.result)
    return tuple(notes_on(cell, SchemaCache.of_schema(read_schema(database)), {}, [outcome]))


def _values(relation: Relation | None) -> Mapping[str, Any]:
    """Return the values of the parameters of a SELECT by their names without the colon."""
    return {} if relation is None else {name[1:]: value for name, value in args_of(relation).items()}


def _wants_notes() -> bool:
    shell = get_ipython()
    magics = None if shell is None else shell.magics_manager.registry.get("PipeMagics")
    return magics is None or bool(magics.settings.notes)
