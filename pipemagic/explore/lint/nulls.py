"""Comparisons with NULL, which are never true."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import written
from pipemagic.explore.query import QUERY, Group, Query, queries_of


def null_comparisons(context: Context) -> Iterator[str]:
    """Yield each ``= NULL`` and ``<> NULL`` of a statement."""
    return chain.from_iterable(map(_null_comparisons, context.queries))


def _null_comparisons(query: Query) -> Iterator[str]:
    """Yield each ``= NULL`` and ``<> NULL``: neither is ever true."""
    clause, part = "", query.part
    for index, word in enumerate(part.words()):
        clause = part.clause(index) or clause
        if word in ("=", "==", "<>", "!="):
            assigns = clause == "SET" and part.word(index - 2) in ("SET", ",")
            if (part.word(index + 1) == "NULL" and not assigns) or part.word(index - 1) == "NULL":
                instead = "IS NULL" if word in ("=", "==") else "IS NOT NULL"
                yield f"{word} NULL is never true: write {instead}"


def null_lists(context: Context) -> Iterator[str]:
    """Yield each NOT IN whose list has a NULL, or whose subquery can have one if the statement found no rows."""
    if "NOT" not in context.text.upper():
        return
    for query in context.queries:
        part, words = query.part, query.part.words()
        for index, word in enumerate(words):
            listed = part.group(index + 1)
            if word != "IN" or words[index - 1 : index] != ["NOT"]:
                continue
            if listed is None:
                yield from _null_parameters(context, part.slice(index + 1, index + 2))
            elif listed.word(0) in ("SELECT", "WITH"):
                yield from _nullable_subquery(context, query, index, listed)
            else:
                yield from _null_elements(context, listed)


def _null_elements(context: Context, listed: Group) -> Iterator[str]:
    for element in listed.split():
        if element.word(0) == "NULL" and len(element.items) == 1:
            yield "NOT IN with a NULL in its list is never true: leave the NULL out"
        else:
            yield from _null_parameters(context, element)


def _null_parameters(context: Context, operand: Group) -> Iterator[str]:
    """Yield a note if a parameter is None, or a list with a None."""
    name = written(operand)
    if name[:1] in (":", "@", "$") and None in context.values_of(name):
        yield f"{name} has a None, which is NULL, and NOT IN with a NULL in its list is never true: leave it out"


def _nullable_subquery(context: Context, query: Query, index: int, listed: Group) -> Iterator[str]:
    """Yield a note if a subquery can return NULL, and a query, whose rows must meet the condition, found none.

    An INSERT or DELETE of all rows that are missing elsewhere usually finds none.
    """
    is_empty = context.statement.is_query and context.finds_rows is False
    if not is_empty or query.outer is not None or not _must_hold(query, index):
        return
    selects = queries_of(listed, query.tables, query)
    for select in selects:
        column = _nullable_column(select)
        if column:
            reason = f"NOT IN is never true if its subquery has a NULL, and {column} can be NULL"
            yield f"{reason}: write WHERE {column} IS NOT NULL in it"
            return


def _must_hold(query: Query, index: int) -> bool:
    words = query.part.words()
    return "WHERE" in words[:index] and {"OR", "CASE", "UNION"}.isdisjoint(words)


def _nullable_column(select: Query) -> str:
    """Return the only column of a subquery if it is one that may be NULL, and no condition is on it; otherwise ''."""
    if len(select.select_list) != 1 or len(select.all_sources) != 1 or select.part.word(0) not in QUERY:
        return ""
    expression, _ = select.select_list[0]
    place = select.column(expression, len(expression.items) - 1) if len(expression.items) in (1, 3) else None
    table = place[0].table if place is not None else None
    if place is None or table is None or table.kind != "table" or table.parsed or place[0] not in select.sources:
        return ""
    column = next(column for column in table.columns if column.name.lower() == place[1])
    is_key = column.key > 0 or (column.name,) in table.unique_keys
    where = {name.lower() for name in _names(select.clause("WHERE"))}
    return "" if is_key or not column.nullable or place[1] in where else written(expression)


def _names(group: Group) -> Iterator[str]:
    """Yield all names in an expression."""
    for index, item in enumerate(group.items):
        if isinstance(item, Group):
            yield from _names(item)
        elif group.is_name(index):
            yield group.name(index)
