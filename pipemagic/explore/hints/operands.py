"""Corrections of operands: numbers with separators, BETWEEN, patterns without quotes, CASE, calls, NOT =."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipemagic.explore.hints.broken_statement import BrokenStatement, Suggestion
from pipemagic.explore.hints.keywords import is_name
from pipemagic.explore.hints.words import AGGREGATES

_SEPARATED = re.compile(r"(?<![\w.,'])\d{1,3}(?:([,. '_])\d{3})(?:\1\d{3})*(?![\w'])")
"""Matches a number with a sign between its thousands."""

_INSTEAD_OF_AND = (",", "TO", "-", "UNTIL", "OR", "BIS")
_PATTERN = re.compile(r"[\w%*?.-]*[%*?][\w%*?.-]*")


def numbers_joined(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest the numbers at the stop without their separators; the values of a list may be apart on purpose."""
    texts = [token for token in broken.tokens if token.kind in ("string", "quoted")]
    matches = [
        match
        for match in _SEPARATED.finditer(broken.text)
        if match[1] != " " or broken.around(broken.at) is None
        if not any(token.start < match.end() <= token.end for token in texts)
    ]
    for match in matches:
        if match.start() < broken.offset <= match.end():
            digits = re.sub(r"\D", "", match[0])
            hint = f"write {digits} instead of {match[0]}: numbers have no thousands separators"
            for changed in ([match], matches):
                text = broken.text
                for other in reversed(changed):
                    text = f"{text[: other.start()]}{re.sub(r'[^0-9]', '', other[0])}{text[other.end() :]}"
                yield Suggestion(hint, text, match.end())


def between_completed(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest AND between the two values of the last BETWEEN before the stop."""
    start = next((at for at in range(broken.at, -1, -1) if broken.word(at) == "BETWEEN"), None)
    if start is None or start + 1 >= len(broken):
        return
    closing = broken.closing(start + 1) if broken.word(start + 1) == "(" else None
    if closing == start + 5 and broken.word(start + 3) in _INSTEAD_OF_AND:
        written = f"{broken.written(start + 2, start + 2)} AND {broken.written(start + 4, start + 4)}"
        yield Suggestion(f"write BETWEEN {written}", broken.replace(start + 1, closing, written))
        return
    end = start + 1 + (broken.word(start + 1) == "-")
    sign = end + 1
    if closing is not None or sign > len(broken):
        return
    first = broken.written(start + 1, end)
    if broken.word(sign) in _INSTEAD_OF_AND and sign + 1 < len(broken):
        last = sign + 1 + (broken.word(sign + 1) == "-")
        if last < len(broken):
            hint = f"write BETWEEN {first} AND {broken.written(sign + 1, last)}"
            yield Suggestion(hint, broken.replace(sign, sign, "AND"))
    elif broken.at == sign and broken.word(sign) != "AND":
        hint = f"write AND and the largest value after BETWEEN {first}"
        yield Suggestion(hint, broken.insert(sign, "AND 1"))


def patterns_quoted(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest quotes around a pattern after LIKE or GLOB."""
    start = next((at for at in range(broken.at, -1, -1) if broken.word(at) in ("LIKE", "GLOB")), None)
    if start is None or start + 1 >= len(broken):
        return
    place = broken.tokens[start + 1].start
    match = _PATTERN.match(broken.text, place)
    if match is not None:
        hint = f"write {broken.word(start)} '{match[0]}'"
        yield Suggestion(hint, f"{broken.text[:place]}'{match[0]}'{broken.text[match.end() :]}")


def cases_completed(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest WHEN between CASE and its condition."""
    start = next((at for at in range(broken.at, -1, -1) if broken.word(at) == "CASE"), None)
    if start is not None and broken.word(broken.at) == "THEN":
        yield Suggestion("write CASE WHEN instead of CASE", broken.replace(start, start, "CASE WHEN"))


def aggregates_called(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest the parentheses of an aggregate before the stop, as in ``sum mass AS total``."""
    start = broken.at - 2
    if start >= 0 and broken.word(start).lower() in AGGREGATES and is_name(broken, start + 1):
        written = f"{broken.written(start, start)}({broken.written(start + 1, start + 1)})"
        yield Suggestion(f"write {written}", broken.replace(start, start + 1, written))


def negations_replaced(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest <> for NOT =."""
    if broken.word(broken.at - 1) == "NOT" and broken.word(broken.at) in ("=", "=="):
        written = broken.written(broken.at - 1, broken.at)
        yield Suggestion(f"write <> instead of {written}", broken.replace(broken.at - 1, broken.at, "<>"))
