"""Notes on SQL that SQLite runs although other databases reject it or return something else.

A note needs proof in the text and in the known tables, and usual correct code gets none. The time is bounded: each text
is read a fixed number of times, and long ones are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

from pipemagic.explore.lint.characters import letters_beyond_ascii, lookalike_characters
from pipemagic.explore.lint.columns import bare_columns, missing_commas, numbering_types
from pipemagic.explore.lint.comparisons import date_comparisons, text_comparisons
from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.conversions import casts, text_arithmetic, text_sums
from pipemagic.explore.lint.dates import date_functions, stored_moments, unquoted_dates
from pipemagic.explore.lint.divisions import integer_divisions, zero_divisions
from pipemagic.explore.lint.truth_values import (
    chained_comparisons,
    constant_conditions,
    joined_assignments,
    null_comparisons,
    null_lists,
    text_bits,
)
from pipemagic.explore.lint.words import (
    batch_ends,
    double_quoted,
    double_quoted_placeholders,
    misspelt_joins,
    quoted_placeholders,
    separated_numbers,
)
from pipemagic.explore.query import all_queries, queries_of
from pipemagic.explore.schema import Relation
from pipemagic.explore.token_tree import QUERY, nest
from pipemagic.hrana.messages import StmtResult
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import ParsedStatement, Token, parse

LONGEST = 10_000
"""Characters of a statement that is read."""

_MOST = 20  # notes of a rule on a statement
_NAMED = 200  # tokens of a CREATE up to its SELECT: the names of columns of a view

RULES: tuple[Callable[[Context], Iterator[str]], ...] = (
    lookalike_characters,
    quoted_placeholders,
    double_quoted,
    double_quoted_placeholders,
    null_comparisons,
    chained_comparisons,
    text_bits,
    separated_numbers,
    missing_commas,
    bare_columns,
    zero_divisions,
    integer_divisions,
    unquoted_dates,
    casts,
    date_functions,
    date_comparisons,
    text_comparisons,
    text_arithmetic,
    text_sums,
    null_lists,
    constant_conditions,
    joined_assignments,
    stored_moments,
    misspelt_joins,
    batch_ends,
    numbering_types,
    letters_beyond_ascii,
)
"""Each yields a note for every construct that it finds."""

_ALL = frozenset([lookalike_characters, quoted_placeholders, double_quoted_placeholders, integer_divisions])
"""Rules whose notes have a cause each; of another rule, the first note is shown, which explains the others."""


def lint(
    text: str,
    args: Mapping[str, SqlValue],
    tables: Mapping[str, Relation],
    *,
    result: StmtResult | None = None,
    dates: Collection[str] = (),
    variables: Mapping[str, object] | None = None,
) -> list[str]:
    """Return a note for each construct of a statement.

    ``args`` are the values of its parameters by ``:name``, ``tables`` the known tables by their names in lower case,
    ``result`` what the statement returned, ``dates`` the parameters that are sent as dates to DATE columns, and
    ``variables`` those that its parameters could be bound to.
    """
    if len(text) > LONGEST:
        return []
    statement = parse(text)
    if not (statement.is_query or statement.changes_rows or statement.keyword in ("CREATE", "ALTER")):
        return []
    queries = list(all_queries(nest(_query_tokens(statement), cases=True).top, tables))
    context = Context(statement, queries, args, tables, result, dates, variables or {})
    notes = (note for rule in RULES for note in islice(rule(context), _MOST if rule in _ALL else 1))
    return list(dict.fromkeys(notes))


def tables_of_with(text: str, tables: Mapping[str, Relation]) -> Mapping[str, Relation]:
    """Return the tables that the WITH of a statement defines, by their names in lower case."""
    cursor = nest((token for token in parse(text).tokens if token.kind != "semi"), cases=True)
    return queries_of(cursor.top, tables)[0].common


def _query_tokens(statement: ParsedStatement) -> Sequence[Token]:
    """Return the tokens of a query or change, or of the SELECT that a CREATE contains; empty for another CREATE."""
    tokens = [token for token in statement.tokens if token.kind != "semi"]
    if statement.keyword not in ("CREATE", "ALTER"):
        return tokens
    words = [token.word for token in tokens[:_NAMED]]
    is_select = {"TABLE", "VIEW"} & {*words[1:3]} and "AS" in words
    start = words.index("AS") + 1 if is_select else len(tokens)
    return tokens[start:] if tokens[start : start + 1] and tokens[start].word in QUERY else []
