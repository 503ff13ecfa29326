"""Letters beyond ASCII, whose case LIKE, lower() and upper() do not change: É is not é."""

from __future__ import annotations

from collections.abc import Iterator

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import is_call, text_of
from pipemagic.explore.query import Query

_ELSEWHERE = "only in an embedded service that was started with PIPEMAGIC_UNICODE=1"


def letters_beyond_ascii(context: Context) -> Iterator[str]:
    """Yield the LIKE and the lower() or upper() that is compared with such a letter, if no rows were found."""
    if context.finds_rows is not False:
        return
    for query in context.queries:
        for text in _patterns(query, context):
            if letter := _letter(text):
                yield f"LIKE ignores the case of ASCII letters, and that of {letter} {_ELSEWHERE}"
    for comparison in context.comparisons:
        name = comparison.other.name(0).lower() if is_call(comparison.other, 0) else ""
        letter = _letter(text_of(comparison.operand, context.args))
        if letter and name in ("lower", "upper") and len(comparison.other.items) == 2:
            yield f"{name}() changes ASCII letters, and {letter} {_ELSEWHERE}"


def _patterns(query: Query, context: Context) -> Iterator[str | None]:
    """Yield the pattern of each LIKE that is a string or a parameter."""
    for index, word in enumerate(query.part.words()):
        if word == "LIKE":
            yield text_of(query.part.slice(index + 1, index + 2), context.args)


def _letter(text: str | None) -> str:
    """Return the first letter beyond ASCII that has another case; '' if there is none."""
    return next((letter for letter in text or "" if not letter.isascii() and letter.lower() != letter.upper()), "")
