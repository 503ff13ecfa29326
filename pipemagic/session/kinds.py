"""What a statement of a cell does, told from its text: which verb, whether rows come back, whether it only reads."""

from __future__ import annotations

from pipemagic.client.heads import CHANGING, READING, bare_word, head
from pipemagic.session.text.woven import Edit
from pipemagic.sql import ParsedStatement, Token, tokens


def verb(statement: ParsedStatement) -> str:
    """Give the word that says what is done; of WITH the one after the common table expressions, '' if there is none."""
    return head(statement.text).verb if statement.keyword == "WITH" else statement.keyword


def writes_rows(statement: ParsedStatement) -> bool:
    """Tell whether it is an INSERT, REPLACE, UPDATE or DELETE: whether it says how many rows it changed."""
    return verb(statement) in CHANGING


def is_query(statement: ParsedStatement) -> bool:
    """Tell whether it is a SELECT or VALUES, with or without WITH."""
    return verb(statement) in READING


def only_reads(statement: ParsedStatement) -> bool:
    """Tell whether it cannot change anything, as far as its text tells; a PRAGMA may."""
    return verb(statement) in (*READING, "EXPLAIN")


def returns_rows(statement: ParsedStatement) -> bool | None:
    """Return True if the statement returns rows, even if there are none; None if it depends on more than the text."""
    what = verb(statement)
    if only_reads(statement):
        return True
    if what in CHANGING:
        return "RETURNING" in head(statement.text).outer_words()
    return None if what in ("PRAGMA", "") else False


def limited(text: str, rows: int) -> Edit | None:
    """Give the edit that has a query stop after ``rows`` rows, or earlier if it says so itself.

    Only a LIMIT is added or changed: names, declared types and order stay. None for a query that ends in VALUES, which
    takes no LIMIT and has no more rows than the user wrote.
    """
    outer = head(text).outer
    words = [bare_word(token) for token in outer]
    if next((word for word in reversed(words) if word in READING), "") != "SELECT":
        return None
    if "LIMIT" not in words:
        return Edit(len(text), len(text), f"\nLIMIT {rows}")
    clause = outer[len(words) - words[::-1].index("LIMIT") :]
    return _lowered(text, clause, rows) if clause else None


def _lowered(text: str, clause: tuple[Token, ...], rows: int) -> Edit:
    """Give the edit of what follows a LIMIT."""
    start = clause[0].start
    given, offset = _bare(text[start:]), ""
    for token in clause:
        before, after = text[start : token.start], text[token.start + len(token.text) :]
        if bare_word(token) == "OFFSET":
            given, offset = _bare(before), f" OFFSET {_bare(after)}"
            break
        if token.text == "," and token.kind == "op":  # LIMIT offset, rows
            given, offset = _bare(after), f" OFFSET {_bare(before)}"
            break
    fewer = f"CASE WHEN typeof({given}) = 'integer' AND ({given}) NOT BETWEEN 0 AND {rows} THEN {rows} ELSE {given} END"
    return Edit(start, len(text), f"{fewer}{offset}")


def _bare(text: str) -> str:
    """Give an expression without comments, which could swallow what is written after it."""
    return "".join(" " if token.kind == "comment" else token.text for token in tokens(text)).strip()
