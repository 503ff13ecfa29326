"""Wrong answers of a class: how one is recorded, and which are frequent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pipemagic import sql
from pipemagic.explore.sqlite_reference import KEYWORDS
from pipemagic.text import has_secret, mask_passwords, shorten

if TYPE_CHECKING:
    from pipemagic.teaching.exercises import Check

LONGEST_ANSWER = 1000
"""The most characters of an answer that are recorded."""

LONGEST_REASON = 200
"""The most characters of a reason that are recorded."""

LEAST = 3
"""The least number of students that have the same wrong answer when it is shown."""

MOST = 3
"""The most wrong answers to an exercise that are shown."""

_LITERAL = re.compile(r"(?<!\w)[xX]?'(?:[^']|'')*(?:'|\Z)|((?:[<>=]|\b(?:BETWEEN|AND|LIKE)\b)\s*)[-+]?\d[\w.]*")
"""A literal in a reason: text, which may have been shortened, or a number of a condition."""
_LITERALS = ("string", "blob", "number", "param")
_OPENING, _CLOSING = ("(", "."), (")", ",", ".", ";")


class Answer(NamedTuple):
    """A wrong answer as it is recorded: SQL and the first reason of the feedback, both without literals."""

    sql: str
    reason: str


@dataclass(frozen=True)
class WrongAnswer:
    """A wrong answer that several students have now; ``reason`` is '' if they got different ones."""

    sql: str
    students: int
    reason: str


def wrong_answer(check: Check) -> Answer | None:
    """Return what is recorded of the outcome of a check; None for a right answer, and for one that is not SQL."""
    if check.passed or check.cell is None or not check.cell.statements:
        return None
    text = pattern("; ".join(statement.text for statement in check.cell.statements))
    reason = check.messages[0].partition("\n")[0] if check.messages else ""
    reason = _LITERAL.sub(r"\1?", mask_passwords(reason))
    if has_secret(text):
        return None
    return Answer(text, "" if has_secret(reason) else shorten(reason, LONGEST_REASON))


def pattern(text: str) -> str:
    """Return SQL as it is compared with other answers: ``select name from bird where mass_g > ?``.

    Literals and parameters are replaced. Letter case, white space and comments do not count.
    """
    words = ""
    for token in sql.significant(text[: 10 * LONGEST_ANSWER]):
        written = "?" if token.kind in _LITERALS else token.text.lower()
        calls = token.text == "(" and not _is_keyword_or_mark(words)
        words += written if not words or words.endswith(_OPENING) or written in _CLOSING or calls else f" {written}"
    return shorten(words.rstrip("; "), LONGEST_ANSWER)


def _is_keyword_or_mark(words: str) -> bool:
    """Return True if a text ends with what no function is called: a keyword such as IN, or an operator."""
    last = words.rpartition(" ")[2].rpartition("(")[2]
    return last.upper() in KEYWORDS - _CALLED or not (last[-1:].isalnum() or last[-1:] in '_$"`]')


_CALLED = frozenset({"REPLACE", "GLOB", "LIKE"})
"""Keywords that are also names of functions."""


def frequent(answers: Sequence[Answer]) -> list[WrongAnswer]:
    """Return the most frequent answers, without those of fewer than `LEAST` students; each student has one."""
    counts = Counter(answer.sql for answer in answers)
    texts = sorted((text for text, count in counts.items() if count >= LEAST), key=lambda text: (-counts[text], text))
    return [WrongAnswer(text, counts[text], _reason(text, answers)) for text in texts[:MOST]]


def _reason(text: str, answers: Sequence[Answer]) -> str:
    """Return the reason that most students with an answer got; '' for one of fewer than `LEAST` students."""
    reasons = Counter(answer.reason for answer in answers if answer.sql == text)
    reason, count = max(reasons.items(), key=lambda item: (item[1], item[0]))
    return reason if count >= LEAST else ""
