"""What a statement does, as far as its text tells: which verb, whether rows come back, whether it only reads."""

from __future__ import annotations

from collections.abc import Iterator

from pipemagic.sql import Statement, Token, tokens

_WRITES = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE"})
_READS = frozenset({"SELECT", "VALUES"})


def outermost(text: str) -> Iterator[Token]:
    """Give the tokens that stand in no parentheses, with the parentheses themselves; no blanks, no comments."""
    depth = 0
    for token in tokens(text):
        if token.text == ")" and token.kind == "op":
            depth = max(0, depth - 1)
        if depth == 0 and token.kind not in ("space", "comment"):
            yield token
        if token.text == "(" and token.kind == "op":
            depth += 1


def verb(statement: Statement) -> str:
    """Give the word that says what is done; of WITH the one after the common table expressions, '' if there is none."""
    if statement.keyword != "WITH":
        return statement.keyword
    after_parenthesis = False
    for token in outermost(statement.text):
        if after_parenthesis and token.kind == "word" and token.text.upper() != "AS":
            return token.text.upper()
        after_parenthesis = token.text == ")"
    return ""


def writes_rows(statement: Statement) -> bool:
    """Tell whether it is an INSERT, REPLACE, UPDATE or DELETE: whether it says how many rows it changed."""
    return verb(statement) in _WRITES


def only_reads(statement: Statement) -> bool:
    """Tell whether it is a query: SELECT or VALUES, with or without WITH."""
    return verb(statement) in _READS


def returns_rows(statement: Statement) -> bool | None:
    """Tell whether rows come back, be it none of them; None where the text does not tell."""
    what = verb(statement)
    if what in _READS or what == "EXPLAIN":
        return True
    if what in _WRITES:
        return any(token.kind == "word" and token.text.upper() == "RETURNING" for token in outermost(statement.text))
    return None if what in ("PRAGMA", "") else False


def limited(statement: Statement, rows: int) -> str:
    """Give the text of a query that stops after ``rows`` rows, or earlier if it says so itself.

    Only a LIMIT is added or changed: names, declared types and order stay. A query that ends in VALUES takes none; it
    has no more rows than the user wrote.
    """
    last_select, limit = "", None
    for token in outermost(statement.text):
        word = token.text.upper() if token.kind == "word" else ""
        if word in _READS:
            last_select = word
        elif word == "LIMIT":
            limit = token
    if last_select != "SELECT":
        return statement.text
    if limit is None:
        return f"{statement.text}\nLIMIT {rows}"
    start = limit.start + len(limit.text)
    given, rest = _limit_of(statement.text[start:])
    fewer = f"CASE WHEN typeof({given}) = 'integer' AND ({given}) NOT BETWEEN 0 AND {rows} THEN {rows} ELSE {given} END"
    return f"{statement.text[:start]} {fewer}{rest}"


def _limit_of(clause: str) -> tuple[str, str]:
    """Split what follows LIMIT: the number of rows, and the OFFSET as it is to be written after that."""
    for token in outermost(clause):
        if token.kind == "word" and token.text.upper() == "OFFSET":
            return _bare(clause[: token.start]), f" OFFSET{clause[token.start + len(token.text) :]}"
        if token.text == "," and token.kind == "op":  # LIMIT offset, rows
            return _bare(clause[token.start + 1 :]), f" OFFSET {clause[: token.start]}"
    return _bare(clause), ""


def _bare(text: str) -> str:
    """Give an expression without comments, which could swallow what is written after it."""
    return "".join(" " if token.kind == "comment" else token.text for token in tokens(text)).strip()
