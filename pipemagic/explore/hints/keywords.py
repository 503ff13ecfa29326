"""Corrections of keywords: misspelt, missing, and too many."""

from __future__ import annotations

from collections.abc import Iterator

from pipemagic.explore.hints.broken_statement import BrokenStatement, Suggestion
from pipemagic.explore.hints.words import Span
from pipemagic.explore.sqlite_reference import FUNCTIONS, KEYWORDS, PHRASES

_BACK = 3  # words before the stop that may be misspelt: SQLite reads ODER of `FROM flights ODER BY day` as an alias
_MEANT = {phrase.replace(" ", ""): phrase for phrase in PHRASES} | {"ASCENDING": "ASC", "DESCENDING": "DESC"}
"""The keywords that are meant by words which are not like them."""

_OTHER_KEYWORDS = {("NO", "ON"), ("FOR", "FROM"), ("GROUPS", "GROUP")}
"""Words that are a keyword themselves, and the one that is meant where they do not fit."""

_SHORT = ("AS", "BY", "IN", "IS", "ON", "OR")
"""The keywords of two letters that a misspelt word can mean; DO, IF, NO, OF and TO rarely fit."""

CLOSE = 1
"""The distance of two words that differ by one letter too many or too few, by two letters in the other order."""


_JOINS = ("LEFT", "RIGHT", "FULL", "NATURAL")


def distance(word: str, keyword: str) -> int:
    """Return how far a misspelt word is from a keyword; `CLOSE` is the least, 3 means that they are not similar."""
    if len(keyword) == 2 and keyword not in _SHORT:
        return 3
    if word in KEYWORDS:
        return CLOSE if (word, keyword) in _OTHER_KEYWORDS else 3
    if _MEANT.get(word) == keyword or _is_close(word, keyword):
        return CLOSE
    if abs(len(word) - len(keyword)) > 1 or len(word) < 4:
        return 3
    return 2 if _is_similar(word, keyword) else 3


def misspelt_join(word: str) -> str:
    """Return the keyword of a join that a word misspells, without which it returns something else; '' for none."""
    return next((keyword for keyword in _JOINS if distance(word.upper(), keyword) == CLOSE), "")


def _is_close(word: str, keyword: str) -> bool:
    short, long = sorted([word, keyword], key=len)
    if len(long) - len(short) == 1:
        return len(short) > 2 and any(long[:at] + long[at + 1 :] == short for at in range(len(long)))
    return word != keyword and any(_swapped(word, at) == keyword for at in range(len(word) - 1))


def _is_similar(word: str, keyword: str) -> bool:
    """Return True if one letter differs, or in a longer word two neighbours of which one is misplaced."""
    if len(word) == len(keyword):
        differing = sum(letter != other for letter, other in zip(word, keyword, strict=True))
        return differing == 1 or (len(word) > 5 and sorted(word) == sorted(keyword) and differing < 4)
    return len(word) > 5 and any(_is_close(_swapped(word, at), keyword) for at in range(len(word) - 1))


def _swapped(word: str, at: int) -> str:
    return f"{word[:at]}{word[at + 1]}{word[at]}{word[at + 2 :]}"


def misspelt(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest the keywords that are close to a word at the stop, or shortly before it."""
    yield from _similar(broken, CLOSE)


def badly_misspelt(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest keywords that are less similar."""
    yield from _similar(broken, CLOSE + 1)


def _similar(broken: BrokenStatement, wanted: int) -> Iterator[Suggestion]:
    for index in range(max(0, broken.at - _BACK), min(broken.at + 1, len(broken.tokens))):
        token = broken.tokens[index]
        for keyword in (*KEYWORDS, *_MEANT.values()) if token.kind == "word" else ():
            if distance(token.word, keyword) == wanted:
                yield Suggestion(f"did you mean {keyword}?", broken.replace(index, index, keyword), token.end)


# -- missing keywords

_MISSING = ("INTO", "TABLE", "INDEX", "VALUES", "SET", "THEN", "AS", "JOIN")
_FOLLOW = ("SELECT", "WITH", "IF", "CASE", "CAST", "NULL", "NOT", "EXISTS")
"""The keywords that may follow one that is missing."""
COMPARISONS = frozenset(["=", "==", "<", ">", "<=", ">=", "<>", "!=", "IS", "IN", "LIKE", "GLOB", "BETWEEN", "NOT"])
_AFTER_NOT = ("BETWEEN", "IN")
_WITH_BY = ("ORDER", "GROUP", "PARTITION", "INDEXED")
_CONDITIONS = ("WHERE", "HAVING", "ON")


def missing_from(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest FROM: without it, SQLite takes the table for a column, and a comma could also be meant."""
    at = broken.at if is_name(broken, broken.at) else broken.at - 1  # SQLite reads it as an alias
    if at > 0 and is_name(broken, at) and (broken.word(at + 1) != "(" or _is_table_function(broken.word(at))):
        yield Suggestion(f"write FROM before {broken.shown(at)}", broken.insert(at, "FROM"))


def _is_table_function(word: str) -> bool:
    function = FUNCTIONS.get(word.lower())
    return word.startswith("PRAGMA_") or (function is not None and function.kind == "table function")


def missing(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest a keyword before the stop, or before the word in front of it that SQLite reads as an alias."""
    at = broken.at
    for index in (at - 1, at, broken.parenthesis().start - 1):
        if 0 < index < len(broken.tokens) and (broken.word(index) not in KEYWORDS or broken.word(index) in _FOLLOW):
            for keyword in _missing_at(broken, index):
                yield Suggestion(f"write {keyword} before {broken.shown(index)}", broken.insert(index, keyword))
    if at < len(broken.tokens) and compares(broken, at) and last_clause(broken, at) != "SET":
        yield Suggestion(f"write AND or OR before {broken.shown(at)}", broken.insert(at, "AND"))


def _missing_at(broken: BrokenStatement, index: int) -> Iterator[str]:
    """Yield the keywords that may be missing before the token at an index."""
    words = [broken.word(place) for place in range(index)]
    yield from (word for word in _MISSING if word != "JOIN" or broken.word(index) != "(")
    if words[-1] in _WITH_BY and broken.word(index) != "BY":
        yield "BY"
    if "BETWEEN" in words[-4:] and "AND" not in words[-4:]:
        yield "AND"
    if compares(broken, index):
        yield from {"JOIN": ["ON"], "FROM": ["WHERE"], "SET": ["WHERE"]}.get(last_clause(broken, index), [])


def last_clause(broken: BrokenStatement, index: int) -> str:
    """Return the keyword of the clause before an index that decides which word may be missing."""
    outer = [broken.word(place) for place in broken.outer(Span(broken.parenthesis().start, index))]
    return next((word for word in reversed(outer) if word in ("JOIN", "FROM", "SET", *_CONDITIONS)), "")


def is_after_comparison(broken: BrokenStatement, index: int) -> bool:
    """Return True if the operand that ends before an index is the second one of a comparison."""
    first = index - 3 if broken.word(index - 2) == "." else index - 1
    return broken.word(first - 1) in COMPARISONS


def is_name(broken: BrokenStatement, index: int) -> bool:
    """Return True if a name is at an index that is no keyword."""
    return broken.kind(index) == "quoted" or (broken.kind(index) == "word" and broken.word(index) not in KEYWORDS)


def compares(broken: BrokenStatement, at: int) -> bool:
    """Return True if a comparison begins at an index: of a name, table.name, a call; in parentheses; NOT, EXISTS."""
    if broken.word(at) == "(":
        return any(broken.word(index) in COMPARISONS for index in range(at, broken.end_of(at)))
    after = at + 3 if broken.word(at + 1) == "." else at + 1
    if broken.word(after) == "(":
        after = broken.end_of(after)
    return broken.word(after) in COMPARISONS or broken.word(at) in ("NOT", "EXISTS")


# -- keywords that are too many


def too_many(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest removing a keyword that stands twice, or where other databases allow it."""
    at = broken.at
    word, before = broken.word(at), broken.word(at - 1)
    if not word:
        return
    operator = at - 2 if before == "NOT" else at - 1
    twice = next((index for index in (at, at - 1) if broken.word(index) == broken.word(index - 1)), 0)
    if twice > 0 and broken.word(twice) in KEYWORDS:
        yield Suggestion(f"write {broken.word(twice)} once", broken.remove(twice))
    elif word in ("AND", "OR", "TABLE") and (before in KEYWORDS or before == "("):
        yield Suggestion(f"remove {word} after {before}", broken.remove(at))
    elif before in ("VALUES", "AS") and word in ("SELECT", "WITH", "VALUES"):
        yield Suggestion(f"remove {before} before {word}", broken.remove(at - 1))
    elif word == "*" and before == "DELETE":
        yield Suggestion("remove * after DELETE", broken.remove(at))
    elif broken.word(operator) == "IS" and word in _AFTER_NOT:
        yield Suggestion(f"remove IS before {broken.written(operator + 1, at)}", broken.remove(operator))
    elif word in _CONDITIONS and last_clause(broken, at) == word:
        yield Suggestion(f"write AND instead of the second {word}", broken.replace(at, at, "AND"))
