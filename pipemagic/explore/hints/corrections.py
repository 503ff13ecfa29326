"""What was probably meant where a statement has a syntax error: a keyword, a comma, another order of clauses.

Each rule proposes changes of the text near the place at which SQLite stops. A change counts if SQLite then reads the
statement. If changes of one rule say different things, the cause is not certain, and no hint is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pipemagic.explore.hints import characters, keywords, operands, structure
from pipemagic.explore.hints.broken_statement import BrokenStatement, Grammar, Suggestion

LONGEST = 10_000
"""Characters of the longest statement that is corrected."""

_RULES: tuple[tuple[Callable[[BrokenStatement], Iterable[Suggestion]], ...], ...] = (
    (characters.lookalikes_replaced,),
    (characters.lookalikes_separating,),
    (characters.comments_removed,),
    (characters.operators_replaced, operands.negations_replaced),
    (operands.numbers_joined,),
    (operands.between_completed,),
    (operands.patterns_quoted,),
    (operands.cases_completed, operands.aggregates_called),
    (keywords.misspelt,),
    (structure.reordered,),
    (characters.quotes_mended,),
    (structure.separated, structure.columns_added),
    (keywords.too_many, structure.commas_removed),
    (structure.parentheses,),
    (keywords.missing_from,),
    (structure.commas_inserted, keywords.missing, keywords.badly_misspelt),
    (characters.text_quoted,),
    (structure.missing_operand,),
    (structure.missing_name,),
    (structure.missing_operator,),
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
    operands.numbers_joined,
    keywords.misspelt,
    structure.commas_inserted,
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
    broken = BrokenStatement(text, offset)
    if any(broken.word(index) in _FOREIGN for index in range(broken.at - _BACK, broken.at + _AHEAD + 1)):
        return ""
    if hint := structure.column_changed(broken):
        return hint
    for rules in _RULES:
        hints = {change.hint for rule in rules for change in rule(broken) if grammar.reads(change.text)}
        if hints:
            return _only(hints)
    for rule in _FIRST_OF_SEVERAL:
        hints = {change.hint for change in rule(broken) if _reads_further(grammar, broken, change)}
        if hints:
            return _only(hints)
    return ""


def _only(hints: set[str]) -> str:
    return hints.pop() if len(hints) == 1 else ""


def _reads_further(grammar: Grammar, broken: BrokenStatement, change: Suggestion) -> bool:
    offset = grammar.stop(change.text)
    longer = len(change.text) - len(broken.text)
    return offset is None or offset - longer > max(change.end, broken.offset)
