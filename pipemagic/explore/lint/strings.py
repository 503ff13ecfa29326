"""A name in double quotes that is not a column, which SQLite reads as a string."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipemagic.explore.lint.context import ROWID, Context, is_known
from pipemagic.explore.lint.expressions import SHOWN, next_to
from pipemagic.explore.lint.placeholders import binding
from pipemagic.explore.query import QUERY, Query
from pipemagic.explore.sqlite_reference import BEFORE_OPERAND
from pipemagic.sql import Token, normalize, quote, unquote
from pipemagic.text import looks_like, shorten, unseen_difference


def double_quoted(context: Context) -> Iterator[str]:
    """Yield the names in double quotes that the statement does not define: SQLite reads them as strings."""
    for query, index, token in _undefined(context):
        if not binding(context, query, index):
            yield f"{_read_as_string(token)}: {_instead(context, unquote(token.text))}"


def double_quoted_placeholders(context: Context) -> Iterator[str]:
    """Yield the placeholders of variables in double quotes: SQLite reads them as strings."""
    for query, index, token in _undefined(context):
        if instead := binding(context, query, index):
            yield f"{_read_as_string(token)}: {instead}"


def _read_as_string(token: Token) -> str:
    string, shown = "'" + unquote(token.text).replace("'", "''") + "'", token.text
    return f"{shorten(shown, SHOWN)} is not a column; SQLite reads it as the string {shorten(string, SHOWN)}"


def _instead(context: Context, name: str) -> str:
    columns = (column for query in context.queries for source in query.sources for column in source.names)
    other = looks_like(name, columns)
    return f"write {quote(other)};{unseen_difference(name, other)}" if other else "use single quotes"


def _undefined(context: Context) -> Iterator[tuple[Query, int, Token]]:
    """Yield the names in double quotes that the statement does not define, and their places."""
    if '"' not in context.text:
        return
    queries = context.queries
    sources = [source for query in queries for source in query.sources]
    if not all(map(is_known, sources)):
        return
    defined, quoted = {*ROWID, *context.tables}, list[tuple[Query, int, Token]]()
    for source in sources:
        defined |= {source.label.lower(), *map(str.lower, source.names)}
        if source.table is not None:
            defined |= {column.name.lower() for column in source.table.columns}
    for query in queries:
        for name, table in query.common.items() if query.part.word(0) in QUERY else ():
            defined |= {name, *(column.lower() for column, _ in table.typed)}
        for index, token in enumerate(query.part.items):
            if isinstance(token, Token) and query.part.is_name(index):
                before, after = (next_to(query.part, index + step) for step in (-1, 1))
                if before not in BEFORE_OPERAND or after in (".", ")"):
                    defined.add(normalize(token.text))
                elif token.text.startswith('"'):
                    quoted.append((query, index, token))
    has_subquery = sum(query.part.word(0) in QUERY for query in queries) > 1
    for query, index, token in quoted:
        name = unquote(token.text)
        # A column of a subquery may have any name.
        is_simple = re.fullmatch(r"[\w ]*", name) is not None and not name.lower().startswith("column")
        if name.lower() not in defined and (is_simple or not has_subquery):
            yield query, index, token
