"""Notes below a cell: on SQL that SQLite runs silently (see `explore.lint`), and on columns of one name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from pipemagic.sql import Token, unquote
from pipemagic.svg import FAINT
from pipemagic.text import escape_controls, join_words, literal_html, shorten

if TYPE_CHECKING:
    from pipemagic.explore.query import Query
    from pipemagic.explore.schema import Relation
    from pipemagic.explore.token_tree import Group
    from pipemagic.notebook.results import Results
    from pipemagic.session import CellResult
    from pipemagic.session.cell import Cell
    from pipemagic.session.results import Outcome
    from pipemagic.session.schema_cache import SchemaCache

_MAX_STATEMENTS = 50  # of a cell are examined
_MAX_CHARACTERS = 20_000
_MAX_NAMES = 3  # of columns, in a note
FOUND_IN = re.compile(
    r"""["'({/%<>=+:@$|&-]|null|between|join|group|\bgo\b|\*(?!\s*(?:from\b|[,;]|\Z))|[^\x00-\x7f]|\d,0\d\d"""
    r"""|(?<=\w)(?<!select)(?<!distinct)(?<! as)\s+(?!from\b|as\b)[a-z_]\w*\s*(?:,|\bfrom\b)""",
    re.IGNORECASE,
)
"""Matches every text that can cause a note (:@${ begin parameters); other texts are not parsed."""


@dataclass(frozen=True, repr=False)
class Notes:
    """Grey lines in a notebook, plain lines elsewhere."""

    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(escape_controls(line) for line in self.lines)

    def _repr_html_(self) -> str:
        body = "<br>".join(escape(escape_controls(line)) for line in self.lines)
        return literal_html(f'<div class="pipemagic-notes" style="color: {FAINT}; font-size: 90%">{body}</div>')


def notes_on(
    cell: Cell, schema: SchemaCache, variables: Mapping[str, object], outcomes: Sequence[Outcome] = ()
) -> Iterator[str]:
    """Yield a line for each construct in the cell that `pipemagic.explore.lint` finds.

    ``variables`` are those that its parameters could be bound to. ``outcomes`` are those of its statements: what they
    returned can show that a note would be wrong.
    """
    left = _MAX_CHARACTERS
    for number, statement in enumerate(cell.statements[:_MAX_STATEMENTS]):
        left -= len(statement.text)
        if left < 0:
            return
        if not FOUND_IN.search(statement.text):
            continue
        from pipemagic.client.arguments import values_of
        from pipemagic.explore.lint import lint, tables_of_with

        tables = {relation.name.lower(): relation for relation in schema.tables}
        sent = cell.stmts[number].sql or ""
        if sent is not statement.text and sent[:4].upper() == "WITH" and len(sent) <= _MAX_CHARACTERS:
            tables |= tables_of_with(sent, tables)  # saved SELECTs are not in the statement as it is written
        if number < len(outcomes) and (scope := outcomes[number].scope) is not None:
            tables |= scope.tables
        where = f" on statement {cell.before + number + 1}" if cell.total > 1 else ""
        result = outcomes[number].result if number < len(outcomes) else None
        dates = cell.dates[number] if cell.dates else ()
        args = values_of(cell.stmts[number])
        for line in lint(statement.text, args, tables, result=result, dates=dates, variables=variables):
            yield f"Note{where}: {line}."


# -- results with several columns of one name: what the name then is in Python, and what to write instead


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
            columns = join_words([f"{counts[name]} columns are named {_shown(name)}" for name in names[:_MAX_NAMES]])
            yield f"Note{where}: {columns}, so {effect}: {_remedy(outcome, names[:_MAX_NAMES], schema)}."


def _effect(names: Sequence[str], variable: str, results: Results, *, written: bool) -> str:
    """Return the effect of the names in Python or in a file, or '' if the conversion already adds a note."""
    if written and not variable and results.files:
        names_shown = join_words([_shown(name) for name in names[:_MAX_NAMES]])
        file = escape_controls(results.files.get("csv", ""))
        return f"{file} has several columns named {names_shown}" if file else ""
    access = [_access(variable or "df", name, results.type) for name in names[:_MAX_NAMES]]
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


def _remedy(outcome: Outcome, names: Sequence[str], schema: SchemaCache) -> str:
    tables = {relation.name.lower(): relation for relation in schema.tables}
    query = _query(outcome.statement.tokens, tables)
    listed = [_renamed(item) for name in names for item in _listed(query, name)[-1:]]
    if listed and len(listed) == len(names):
        return f"write {join_words(listed)}"
    sources = [_of_source(query, name) for name in names]
    if all(sources):
        return f"list the columns instead of *, with {join_words(sources)}"
    return "give each column a different name with AS"


def _query(tokens: Sequence[Token], tables: Mapping[str, Relation]) -> Query:
    from pipemagic.explore.query import queries_of
    from pipemagic.explore.token_tree import nest

    return queries_of(nest(token for token in tokens if token.kind != "semi").top, tables)[0]


def _listed(query: Query, name: str) -> list[Group]:
    """Return the qualified columns with this name in the SELECT list: `p.year`, without an alias."""
    return [
        item
        for item, alias in query.select_list
        if not alias and len(item.items) == 3 and item.word(1) == "." and item.is_name(2)
        if item.is_name(0) and item.name(2).lower() == name.lower()
    ]


def _renamed(item: Group) -> str:
    from pipemagic.explore.sqlite_reference import quote_if_needed

    first, point, last = (token.text for token in item.items if isinstance(token, Token))
    return f"{first}{point}{last} AS {quote_if_needed(f'{unquote(first)}_{unquote(last)}')}"


def _of_source(query: Query, name: str) -> str:
    """Return the column of the last table that has this name, for a query with `*`."""
    if not any(item.word(len(item.items) - 1) == "*" for item, _ in query.select_list):
        return ""
    labels = [source.label for source in query.sources if name.lower() in (column.lower() for column in source.names)]
    if len(labels) < 2:
        return ""
    from pipemagic.explore.sqlite_reference import quote_if_needed

    column = f"{quote_if_needed(labels[-1])}.{quote_if_needed(name)}"
    return f"{column} AS {quote_if_needed(f'{labels[-1]}_{name}')}"
