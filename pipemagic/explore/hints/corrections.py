"""What was probably meant where a statement has a syntax error: a keyword, a comma, another order of clauses.

Each rule proposes changes of the text near the place at which SQLite stops. A change counts if SQLite then reads the
statement. If changes of one rule say different things, the cause is not certain, and no hint is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pipemagic.explore.hints import alterations, characters, clauses, keywords, lists
from pipemagic.explore.hints.grammar import Grammar
from pipemagic.explore.hints.stopped import Change, Stopped

LONGEST = 10_000
"""Characters of the longest statement that is corrected."""

_RULES: tuple[tuple[Callable[[Stopped], Iterable[Change]], ...], ...] = (
    (characters.lookalikes_replaced,),
    (characters.lookalikes_separating,),
    (characters.comments_removed,),
    (characters.operators_replaced,),
    (keywords.misspelt,),
    (clauses.reordered,),
    (characters.quotes_mended,),
    (clauses.separated, alterations.columns_added),
    (keywords.too_many, lists.commas_removed),
    (lists.parentheses,),
    (keywords.missing_from,),
    (lists.commas_inserted, keywords.missing, keywords.badly_misspelt),
    (characters.text_quoted,),
    (clauses.missing_operand,),
    (clauses.missing_name,),
    (clauses.missing_operator,),
)
"""The rules, the most specific first; those of a line exclude each other."""

_FOREIGN = frozenset(
    ["ANALYZE", "CHARSET", "ENGINE", "EXCLUDE", "FETCH", "ILIKE", "INCLUDE", "INTERVAL", "LATERAL", "PIVOT", "QUALIFY",
     "RLIKE", "SIMILAR", "STRAIGHT_JOIN", "TABLESAMPLE", "TOP", "UNPIVOT"]
)  # fmt: skip
"""Words of other databases: what is meant by them is not misspelt, and no comma is missing beside them."""
_BACK, _AHEAD = 3, 1  # words before and behind the stop that may be of another database

_FIRST_OF_SEVERAL = (
    characters.lookalikes_replaced,
    characters.operators_replaced,
    keywords.misspelt,
    lists.commas_inserted,
)
"""Rules whose changes also count if SQLite then stops at a later error."""


def correction(text: str) -> str:
    """Return a hint on what to write instead of a statement that has a syntax error; '' if that is not certain.

    A text that SQLite reads has no hint: another server may refuse it for other reasons.
    """
    if len(text) > LONGEST or "\0" in text:
        return ""
    grammar = Grammar()
    offset = grammar.stop(text)
    if offset is None:
        return ""
    stopped = Stopped(text, offset)
    if any(stopped.word(index) in _FOREIGN for index in range(stopped.at - _BACK, stopped.at + _AHEAD + 1)):
        return ""
    if hint := alterations.column_changed(stopped):
        return hint
    for rules in _RULES:
        hints = {change.hint for rule in rules for change in rule(stopped) if grammar.reads(change.text)}
        if hints:
            return _only(hints)
    for rule in _FIRST_OF_SEVERAL:
        hints = {change.hint for change in rule(stopped) if _reads_further(grammar, stopped, change)}
        if hints:
            return _only(hints)
    return ""


def _only(hints: set[str]) -> str:
    return hints.pop() if len(hints) == 1 else ""


def _reads_further(grammar: Grammar, stopped: Stopped, change: Change) -> bool:
    offset = grammar.stop(change.text)
    longer = len(change.text) - len(stopped.text)
    return offset is None or offset - longer > max(change.end, stopped.offset)
