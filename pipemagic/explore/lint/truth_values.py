"""Conditions that are never or always true: comparisons with NULL, x = 'a' OR 'b', SET a = 1 AND b = 2."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import number_value, string_value, written
from pipemagic.explore.query import Query, queries_of
from pipemagic.explore.token_tree import QUERY, Group
from pipemagic.sql import Token

# -- comparisons with NULL, which are never true


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
            is_test = part.word(index - 2) in ("IS", "NOT")  # of x IS NULL = TRUE
            if (part.word(index + 1) == "NULL" and not assigns) or (part.word(index - 1) == "NULL" and not is_test):
                instead = "IS NULL" if word in ("=", "==") else "IS NOT NULL"
                yield f"{word} NULL is never true: write {instead}"


# -- comparisons of a comparison, and the bits of texts

_ORDERED = ("<", "<=", ">", ">=")
_ENDS = frozenset(
    ["AND", "OR", "NOT", ",", "WHEN", "THEN", "ELSE", "END", "ON", "WHERE", "HAVING", "SELECT", "SET", "BY", "FROM",
     "GROUP", "ORDER", "LIMIT", "AS", "=", "==", "<>", "!=", "IS", "IN", "LIKE", "BETWEEN", "DISTINCT"]
)  # fmt: skip


def chained_comparisons(context: Context) -> Iterator[str]:
    """Yield each ``3 < x < 5``: its first result, 0 or 1, is compared with the last value."""
    for query in context.queries:
        part, words = query.part, query.part.words()
        places = [at for at, word in enumerate(words) if word in _ORDERED]
        for first, second in pairwise(places):
            if first + 1 == second or not _ENDS.isdisjoint(words[first + 1 : second]):
                continue
            start = next((at for at in range(first, 0, -1) if words[at - 1] in _ENDS), 0)
            end = next((at for at in range(second, len(words)) if words[at] in _ENDS), len(words))
            left, middle = written(part.slice(start, first + 1)), written(part.slice(first + 1, second))
            right = written(part.slice(second, end))
            values = [part.slice(first + 1, second), part.slice(start, first)]  # the value to repeat is not a number
            both = written(next((value for value in values if number_value(value) is None), values[0]))
            whole, instead = written(part.slice(start, end)), f"{left} {middle} AND {both} {right}"
            yield f"{whole} compares 0 or 1, the result of its first comparison: write {instead}"


def text_bits(context: Context) -> Iterator[str]:
    """Yield each text beside | or &, which SQLite reads as a number."""
    for query in context.queries:
        part, words = query.part, query.part.words()
        for index in (at for at, word in enumerate(words) if at and word in ("|", "&")):
            texts = [string_value(part.slice(at, at + 1)) for at in (index - 1, index + 1)]
            if any(text is not None and not text[:1].isdigit() for text in texts):
                instead = "OR" if words[index] == "|" else "AND"
                yield f"{words[index]} combines the bits of numbers: write {instead} between conditions"


def null_list(listed: Group, *, is_negated: bool) -> str:
    """Return why IN, or NOT IN, is never true with a list that has a NULL; '' if it may be true."""
    has_null = [element.words() == ["NULL"] for element in listed.split()]
    if has_null and all(has_null):
        return f"{'NOT ' * is_negated}IN (NULL) is never true: write IS {'NOT ' * is_negated}NULL"
    return "NOT IN with a NULL in its list is never true: remove the NULL" if is_negated and any(has_null) else ""


def null_lists(context: Context) -> Iterator[str]:
    """Yield each IN with a NULL in its list, and NOT IN with a subquery that can have one if no rows were found."""
    if not {"NULL", "NOT"} & {token.word for token in context.statement.tokens}:
        return
    for query in context.queries:
        part, words = query.part, query.part.words()
        for index, word in enumerate(words):
            listed = part.group(index + 1)
            if word != "IN":
                continue
            if words[index - 1 : index] != ["NOT"]:
                if listed is not None and (why := null_list(listed, is_negated=_is_negated(words, index))):
                    yield why
            elif listed is None:
                yield from _null_parameters(context, part.slice(index + 1, index + 2))
            elif listed.word(0) in ("SELECT", "WITH"):
                yield from _nullable_subquery(context, query, index, listed)
            else:
                yield from _null_elements(context, listed)


def _is_negated(words: Sequence[str], index: int) -> bool:
    """Return True for NOT x IN (...), of which x is a column."""
    names = next((at for at in range(index - 1, -1, -1) if words[at] in _ENDS), -1)
    return names >= 0 and words[names] == "NOT" and words[names - 1 : names] != ["IS"]


def _null_elements(context: Context, listed: Group) -> Iterator[str]:
    if why := null_list(listed, is_negated=True):
        yield why
    for element in listed.split():
        yield from _null_parameters(context, element)


def _null_parameters(context: Context, operand: Group) -> Iterator[str]:
    """Yield a note if a parameter is None, or a list with a None."""
    name = written(operand)
    if name[:1] in (":", "@", "$") and None in context.values_of(name):
        yield f"{name} has a None, which is NULL, and NOT IN with a NULL in its list is never true: remove it"


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
            reason = f"NOT IN is never true if its subquery returns a NULL, and {column} can be NULL"
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
    if place is None or table is None or place[0] not in select.sources:
        return ""
    if table.kind != "DataFrame" and (table.kind != "table" or table.parsed):
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


# -- texts and numbers that stand where a condition is expected

_EQUAL = ("=", "==")
_COMPARED = (*_EQUAL, "<>", "!=", *_ORDERED, "LIKE", "IS", "IN")


def constant_conditions(context: Context) -> Iterator[str]:
    """Yield each OR whose right side is a text or a number beside a comparison with =."""
    if "OR" in context.text.upper():
        for query in context.queries:
            yield from _constant_conditions(query.part)


def _constant_conditions(part: Group) -> Iterator[str]:
    words = part.words()
    for index, word in enumerate(words):
        if word != "OR" or not _is_constant(part, index + 1):
            continue
        value = part.slice(index + 1, index + 2)
        if words[index - 2 : index - 1] and words[index - 2] in _EQUAL and _is_literal(part, index - 1):
            name = _name_before(part, index - 2)
            if name:
                values = ", ".join([written(part.slice(index - 1, index)), *_constants(part, index)])
                is_own = f"OR {written(value)} is a condition of its own, which is {_truth(value)} true"
                yield f"{is_own}: write {name} IN ({values})"
        elif index == 1 and part.parent is not None and part.parent.word(part.index - 1) == "IN":
            values = ", ".join([written(part.slice(0, 1)), *_constants(part, index)])
            if len(words) == 2 * len(values.split(", ")) - 1:
                yield f"{written(part)} is one condition, 0 or 1: write ({values})"


def _constants(part: Group, index: int) -> Iterator[str]:
    """Yield the constants of OR 'b' OR 'c' from an index on."""
    while part.word(index) == "OR" and _is_constant(part, index + 1):
        yield written(part.slice(index + 1, index + 2))
        index += 2


def _is_constant(part: Group, index: int) -> bool:
    """Return True for a text or a number other than 0 and 1 that no operator follows."""
    follows = part.word(index + 1)
    return _is_value(part, index) and (follows in ("", "OR", "AND") or bool(part.clause(index + 1)))


def _is_value(part: Group, index: int) -> bool:
    return _is_literal(part, index) and number_value(part.slice(index, index + 1)) not in (0, 1)


def _is_literal(part: Group, index: int) -> bool:
    item = part.items[index] if 0 <= index < len(part.items) else None
    return isinstance(item, Token) and item.kind in ("string", "number")


def _is_constant_value(part: Group, index: int) -> bool:
    """Return True for a literal or a parameter; another value and a condition behind AND may be meant."""
    item = part.items[index] if index < len(part.items) else None
    return isinstance(item, Token) and item.kind in ("string", "number", "param")


def _truth(value: Group) -> str:
    """Return how often a constant is true: a text counts as the number at its start."""
    text = string_value(value)
    digits = re.match(r"\s*[+-]?[\d.]*", text) if text is not None else None
    return "always" if digits is None or re.search("[1-9]", digits[0]) else "never"


def _name_before(part: Group, index: int) -> str:
    """Return the column that ends before an index; '' for any other expression."""
    start = index - 1
    while part.word(start - 1) == "." and part.is_name(start - 2):
        start -= 2
    return written(part.slice(start, index)) if start >= 0 and part.is_name(start) else ""


def joined_assignments(context: Context) -> Iterator[str]:
    """Yield each assignment of an UPDATE that continues with AND and another assignment or a condition."""
    if "SET" in context.text.upper():
        for query in context.queries:
            yield from _joined_assignments(query)


def _joined_assignments(query: Query) -> Iterator[str]:
    names = {name.lower() for source in query.sources for name in source.names}
    for item in query.clause("SET").split():
        assignments = _assignments(item)
        if len(assignments) > 1 and all(part.name(0).lower() in names for part in assignments):
            name, parts = assignments[0].name(0), ", ".join(map(written, filter(_assigns, assignments)))
            conditions = " AND ".join(written(part) for part in assignments if not _assigns(part))
            after = f", and {conditions} after WHERE" if query.clause("WHERE").items else f" WHERE {conditions}"
            instead = f"{parts}{after if conditions else ''}"
            yield f"AND makes one condition of it, so {name} becomes 0 or 1: write SET {instead}"


def _assignments(item: Group) -> list[Group]:
    """Return the parts of a = 1 AND b = 2 or a = 3 AND b > 2; an empty list for a condition that may be meant.

    Such conditions are a = b AND c = 2, and a = :flag AND b > 2.
    """
    words = item.words()
    cuts = [-1, *(at for at, word in enumerate(words) if word == "AND"), len(words)]
    parts = [item.slice(start + 1, end) for start, end in pairwise(cuts)]
    is_simple = len(parts[0].items) == 3 and _is_constant_value(parts[0], 2)
    others = _COMPARED if is_simple and _is_literal(parts[0], 2) else ("=",)
    return parts if is_simple and all(part.is_name(0) and part.word(1) in others for part in parts) else []


def _assigns(part: Group) -> bool:
    return part.word(1) == "="
