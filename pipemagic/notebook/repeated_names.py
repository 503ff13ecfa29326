"""Notes on results with several columns of one name: what the name then is in Python, and what to write instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pipemagic.explore.query import Group, Query, nest, queries_of
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.sql import Token, unquote
from pipemagic.text import escape_controls, join_words, shorten

if TYPE_CHECKING:
    from pipemagic.notebook.results import Results
    from pipemagic.session import CellResult, Outcome
    from pipemagic.session.schema_cache import SchemaCache

_SHOWN = 3


def notes_on_names(result: CellResult, results: Results, schema: SchemaCache) -> Iterator[str]:
    """Yield a note for each result of a cell in which columns have the same name."""
    variables = {id(outcome): name for name, outcome in results.stored(result).items()}
    for number, outcome in enumerate(result.outcomes, start=1):
        if outcome not in result.repeated:
            continue
        counts = Counter(col.name or "" for col in outcome.result.cols)
        names = [name for name, count in counts.items() if count > 1]
        is_returned = outcome is result.returned
        effect = _effect(names, variables.get(id(outcome), ""), results, written=is_returned)
        if effect:
            where = f" on statement {number}" if result.total > 1 else ""
            columns = join_words([f"{counts[name]} columns are named {_shown(name)}" for name in names[:_SHOWN]])
            yield f"Note{where}: {columns}, so {effect}: {_remedy(outcome, names[:_SHOWN], schema)}."


def _effect(names: Sequence[str], variable: str, results: Results, *, written: bool) -> str:
    """Return what the names are in Python or in a file; '' if a note of the conversion says it."""
    if written and not variable and results.files:
        names_shown = join_words([_shown(name) for name in names[:_SHOWN]])
        file = escape_controls(results.files.get("csv", ""))
        return f"{file} has the name {names_shown} more than once" if file else ""
    access = [_access(variable or "df", name, results.type) for name in names[:_SHOWN]]
    if results.type == "polars":
        return ""
    if results.type == "arrow":
        return f"{join_words(access)} raise{'s' if len(access) == 1 else ''} KeyError"
    return f"{access[0]} is a DataFrame" if len(access) == 1 else f"{join_words(access)} are DataFrames"


def _access(variable: str, name: str, kind: str) -> str:
    """Return the expression of a column."""
    import pandas as pd

    is_attribute = kind == "pandas" and name.isidentifier() and not hasattr(pd.DataFrame, name)
    return f"{variable}.{name}" if is_attribute else f"{variable}[{_shown(name)!r}]"


def _shown(name: str) -> str:
    return shorten(escape_controls(name), 40)


# -- what to write instead


def _remedy(outcome: Outcome, names: Sequence[str], schema: SchemaCache) -> str:
    tables = {relation.name.lower(): relation for relation in schema.tables}
    query = _query(outcome.statement.tokens, tables)
    listed = [_renamed(item) for name in names for item in _listed(query, name)[-1:]]
    if listed and len(listed) == len(names):
        return f"write {join_words(listed)}"
    sources = [_of_source(query, name) for name in names]
    if all(sources):
        return f"list the columns instead of *, with {join_words(sources)}"
    return "give each column a name of its own with AS"


def _query(tokens: Sequence[Token], tables: Mapping[str, Relation]) -> Query:
    return queries_of(nest(token for token in tokens if token.kind != "semi").top, tables)[0]


def _listed(query: Query, name: str) -> list[Group]:
    """Return the columns of other tables under this name in the SELECT list: `p.year`, without an alias."""
    return [
        item
        for item, alias in query.select_list
        if not alias and len(item.items) == 3 and item.word(1) == "." and item.is_name(2)
        if item.is_name(0) and item.name(2).lower() == name.lower()
    ]


def _renamed(item: Group) -> str:
    first, point, last = (token.text for token in item.items if isinstance(token, Token))
    return f"{first}{point}{last} AS {quote_if_needed(f'{unquote(first)}_{unquote(last)}')}"


def _of_source(query: Query, name: str) -> str:
    """Return the column of the last table that has this name, for a query with `*`."""
    if not any(item.word(len(item.items) - 1) == "*" for item, _ in query.select_list):
        return ""
    labels = [source.label for source in query.sources if name.lower() in (column.lower() for column in source.names)]
    if len(labels) < 2:
        return ""
    column = f"{quote_if_needed(labels[-1])}.{quote_if_needed(name)}"
    return f"{column} AS {quote_if_needed(f'{labels[-1]}_{name}')}"
