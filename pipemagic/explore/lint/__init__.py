"""Notes on SQL that SQLite runs although other databases reject it or return something else.

A note needs proof in the text and in the known tables, and usual correct code gets none. The time is bounded: each text
is read a fixed number of times, and long ones are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from pipemagic.explore.lint.aggregates import bare_columns
from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.divisions import integer_divisions, zero_divisions
from pipemagic.explore.lint.moments import stored_moments
from pipemagic.explore.lint.nulls import null_comparisons
from pipemagic.explore.lint.strings import double_quoted
from pipemagic.explore.lint.text_values import text_comparisons
from pipemagic.explore.query import all_queries, nest
from pipemagic.explore.schema import Relation
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import parse, significant

LONGEST = 10_000
"""Characters of a statement that is read."""

RULES: tuple[Callable[[Context], Iterator[str]], ...] = (
    double_quoted,
    null_comparisons,
    bare_columns,
    zero_divisions,
    integer_divisions,
    text_comparisons,
    stored_moments,
)
"""Each yields a note for every construct that it finds; the first one is shown."""


def lint(text: str, args: Mapping[str, SqlValue], tables: Mapping[str, Relation]) -> list[str]:
    """Return a note for each construct of a statement.

    ``args`` are the values of its parameters by ``:name``, ``tables`` the known tables by their names in lower case.
    """
    if len(text) > LONGEST:
        return []
    statement = parse(text)
    if not (statement.is_query or statement.changes_rows):
        return []
    found = [token for token in significant(text) if token.kind != "semi"]
    context = Context(statement, list(all_queries(nest(found, cases=True).top, tables)), args, tables)
    return [note for rule in RULES for note in islice(rule(context), 1)]
