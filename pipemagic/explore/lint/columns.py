"""Columns with other values than in other databases: bare columns in a query with groups, types that number rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice

from pipemagic.explore.lint.context import ROWID, Context, is_known
from pipemagic.explore.lint.expressions import (
    comparable,
    end_of_call,
    grouping_terms,
    is_call,
    kind_of_call,
    places,
    without_parentheses,
    written,
)
from pipemagic.explore.query import Query
from pipemagic.explore.sqlite_reference import KEYWORDS, quote_if_needed
from pipemagic.explore.token_tree import Group, nest

# -- a bare column of a query with groups or an aggregate, which no GROUP BY determines


def bare_columns(context: Context) -> Iterator[str]:
    """Yield the first bare column of each query."""
    return chain.from_iterable(islice(_bare_columns(query), 1) for query in context.queries)


def _bare_columns(query: Query) -> Iterator[str]:
    """Yield each column of a query with groups that no GROUP BY determines: its value is that of any row."""
    if not query.select_list or len(query.sources) != 1 or not is_known(query.sources[0]):
        return  # one of several sources may have one row
    parts = [*(expression for expression, _ in query.select_list), query.clause("HAVING")]
    calls = [(group, at) for part in parts for group, at in places(part) if is_call(group, at)]
    kinds = [kind_of_call(group, at) for group, at in calls if group.word(end_of_call(group, at) - 2) != "OVER"]
    names = [group.name(at).lower() for group, at in calls if kind_of_call(group, at) == "aggregate"]
    if sum(name in ("min", "max") for name in names) == 1:  # the columns are those of its row
        return
    grouping, table = grouping_terms(query), query.sources[0].table
    if None in kinds or not (grouping or "aggregate" in kinds):  # an unknown function may be like min and max
        return
    if grouping and (table is None or table.parsed or table.kind != "table"):
        return  # a view or a subquery may have one row for each group
    compared, (alone, named) = _compared(query.clause("WHERE")), _grouped_columns(query, grouping)
    keys = [*((name,) for name in ROWID), *(table.unique_keys if table is not None else ())]
    if grouping and any(key and set(map(str.lower, key)) <= alone | compared for key in keys):
        return
    fixed = compared | named  # an expression over grouped columns is usually a part of GROUP BY
    row = "an arbitrary row of each group" if grouping else "an arbitrary row"
    for expression, _ in query.select_list:
        last = len(expression.items) - 1
        for group, at in places(expression):
            is_star = group is expression and at == last and group.word(at) == "*" and group.word(at - 1) in ("", ".")
            column = query.column(group, at)
            if is_star or (column is not None and column[0] in query.sources and column[1] not in fixed):
                name = "*" if is_star else quote_if_needed(group.name(at))
                yield f"{name} is neither aggregated nor grouped: it comes from {row}"


def _grouped_columns(query: Query, grouping: Sequence[Group]) -> tuple[set[str], set[str]]:
    """Return the columns that are terms of GROUP BY themselves, and all columns in its terms."""
    alone, named = set[str](), set[str]()
    selected: dict[str, list[Group]] = {}
    for number, (expression, alias) in enumerate(query.select_list, 1):
        for key in (str(number), alias.lower()):
            selected.setdefault(key, []).append(without_parentheses(expression))
    for term in grouping:
        for expression in (term, *selected.pop(comparable(term), ())):
            inside = {group.name(at).lower() for group, at in places(expression) if group.is_name(at)}
            named |= inside
            if len(expression.items) in (1, 3):
                alone |= inside
    return alone, named


def _compared(where: Group) -> set[str]:
    """Return the columns that a condition compares with a value: they may be the same in all rows."""
    return {
        group.name(at).lower()
        for group, index in places(where)
        if group.word(index) in ("=", "==", "IS", "IN")
        for at in (index - 1, index + 1)
        if group.is_name(at)
    }


# -- a comma that is missing between two columns: the second one is the alias of the first


def missing_commas(context: Context) -> Iterator[str]:
    """Yield each column with the name of another column as an alias without AS; ``o.id order_id`` names its table."""
    for query in context.queries:
        selected = query.clause("SELECT")
        items = selected.slice(int(selected.word(0) in ("DISTINCT", "ALL"))).split()
        for whole, (item, alias) in zip(items, query.select_list, strict=True):
            last = len(item.items) - 1
            is_bare = alias and last in (0, 2) and whole.word(last + 1) != "AS"
            column = query.column(item, last) if is_bare else None
            if column is None or column[1] == alias.lower():
                continue
            sources = query.sources if last == 0 else column[:1]
            if not any(alias.lower() in map(str.lower, source.names) for source in sources):
                continue
            name, other = written(item), quote_if_needed(alias)
            yield f"{name} {other} is the column {name} with the name {other}: write {name}, {other} for both"


# -- types of other databases that number the rows: for SQLite they are names of types, and the column stays NULL

_NUMBERING = frozenset(["AUTO_INCREMENT", "SERIAL", "BIGSERIAL", "SMALLSERIAL", "IDENTITY"])


def numbering_types(context: Context) -> Iterator[str]:
    """Yield each column with a type that numbers the rows in another database."""
    tokens = context.statement.tokens
    if context.statement.keyword != "CREATE" or _NUMBERING.isdisjoint(token.word for token in tokens):
        return
    top = nest((token for token in tokens if token.kind != "semi"), cases=True).top
    at = next((at for at, item in enumerate(top.items) if isinstance(item, Group)), len(top.items))
    columns = top.group(at)
    for column in columns.split() if columns is not None and _is_table(top.words()[:at]) else ():
        type_ = _type(column)
        if column.is_name(0) and not _NUMBERING.isdisjoint(type_.words()):
            name = written(column.slice(0, 1))
            yield f"SQLite does not number a column declared {written(type_)}: write {name} INTEGER PRIMARY KEY"


def _is_table(words: Sequence[str]) -> bool:
    """Return True for the words of CREATE TABLE before its list of columns."""
    return "TABLE" in words[1:3] and "AS" not in words


def _type(column: Group) -> Group:
    """Return the words of the type in the definition of a column."""
    words = column.words()
    end = next((at for at in range(1, len(words)) if words[at] in KEYWORDS), len(words))
    return column.slice(1, end)
