"""Notes on SQL that SQLite runs although other databases reject it or return something else.

A note needs proof in the text and in the known tables, and usual correct code gets none. The time is bounded: each text
is read a fixed number of times, and long ones are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice

from pipemagic.explore.lint.aggregates import bare_columns
from pipemagic.explore.lint.arithmetic import text_arithmetic, text_sums
from pipemagic.explore.lint.casts import casts
from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.date_comparisons import date_comparisons
from pipemagic.explore.lint.date_functions import date_functions
from pipemagic.explore.lint.date_literals import unquoted_dates
from pipemagic.explore.lint.divisions import integer_divisions, zero_divisions
from pipemagic.explore.lint.moments import stored_moments
from pipemagic.explore.lint.nulls import null_comparisons, null_lists
from pipemagic.explore.lint.strings import double_quoted
from pipemagic.explore.lint.text_values import text_comparisons
from pipemagic.explore.lint.truth import constant_conditions, joined_assignments
from pipemagic.explore.query import all_queries, nest
from pipemagic.explore.schema import Relation
from pipemagic.hrana.messages import StmtResult
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
)
"""Each yields a note for every construct that it finds; the first one is shown."""


def lint(
    text: str,
    args: Mapping[str, SqlValue],
    tables: Mapping[str, Relation],
    result: StmtResult | None = None,
    dates: Collection[str] = (),
) -> list[str]:
    """Return a note for each construct of a statement.

    ``args`` are the values of its parameters by ``:name``, ``tables`` the known tables by their names in lower case,
    ``result`` what the statement returned, ``dates`` the parameters that are sent as dates to DATE columns.
    """
    if len(text) > LONGEST:
        return []
    statement = parse(text)
    if not (statement.is_query or statement.changes_rows):
        return []
    found = [token for token in significant(text) if token.kind != "semi"]
    context = Context(statement, list(all_queries(nest(found, cases=True).top, tables)), args, tables, result, dates)
    return [note for rule in RULES for note in islice(rule(context), 1)]
