"""Names of result columns: SQLite names an expression without alias by its text, which includes comments."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from pipemagic.sql.tokenizer import BLANK, Token, tokens


def without_comments(name: str, statement: str) -> str:
    """Return the name of a column without comments, if it is the text of an expression of the statement.

    A comment mark in a string, or in the name of a column or alias, is no comment.
    """
    if not ("--" in name or "/*" in name):
        return name
    expression = _expression(name, statement)
    return "".join(_texts(expression)) if expression else name


def _expression(name: str, statement: str) -> Sequence[Token]:
    """Return the tokens whose text is the name, which ends without blanks; none if no comment is among them."""
    parts = list(tokens(statement))
    starts = [token.start for token in parts]
    start = statement.find(name)
    while start >= 0:
        end = start + len(name)
        part = parts[bisect_left(starts, start) : bisect_left(starts, end)]
        is_whole = bool(part) and part[0].start == start and not statement[end : part[-1].end].strip()
        if is_whole and any(token.kind == "comment" for token in part):
            return part
        start = statement.find(name, end)
    return ()


def _texts(expression: Sequence[Token]) -> Iterator[str]:
    """Yield the texts of an expression; a comment and the blanks around it become one blank, or nothing."""
    blanks: list[Token] = []
    before = ""
    for token in expression:
        if token.kind in BLANK:
            blanks.append(token)
            continue
        yield _between(before, blanks, token.text)
        yield token.text
        before, blanks = token.text, []


def _between(before: str, blanks: Sequence[Token], after: str) -> str:
    if all(token.kind == "space" for token in blanks):
        return "".join(token.text for token in blanks)
    return "" if before in ("", "(") or after in (")", ",") else " "
