"""Comparisons with NULL, which are never true."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pipemagic.explore.lint.context import Context
from pipemagic.explore.query import Query


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
