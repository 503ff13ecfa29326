"""The cause of a syntax error, where the text of the statement proves it.

Servers say where they stopped reading: at the end of the text, or at a word that does not fit. The cause is often
before that place: a quote or a parenthesis without its end. All rules go by the text and by what each server says
("syntax error", "incomplete input", "unexpected end of input", ...); a rule that is not certain says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pipemagic.explore.words import BEFORE_OPERAND, KEYWORDS
from pipemagic.sql import Token, tokens

_SYNTAX = re.compile(r"syntax error|incomplete input|unexpected end of input|unrecognized token|non-terminated", re.I)
_AT_THE_END = re.compile(r"incomplete input|unexpected end of input", re.I)
_NEAR = re.compile(r'near "(.+)"', re.DOTALL)
_OPEN_TOKEN = re.compile(r"unrecognized token|non-terminated", re.I)


class LocatedMessage(NamedTuple):
    """What is wrong, and where: the offset in characters, None if it is not known.

    ``of_line`` is True for a message that begins with the number of the line.
    """

    message: str
    offset: int | None = None
    of_line: bool = False


def cause(message: str, text: str, offset: int | None) -> LocatedMessage | None:
    """Return the cause of a syntax error; ``message`` and ``offset`` (in characters) are what the server says."""
    if not _SYNTAX.search(message):
        return None
    words = [token for token in tokens(text) if token.kind != "space"]
    at_end = _AT_THE_END.search(message) is not None
    last = words[-1] if words else None
    if last is not None and (at_end or (_OPEN_TOKEN.search(message) and offset in (None, last.start))):
        what = _unterminated(last)
        if what:
            return LocatedMessage(f"unterminated {what}", last.start, of_line=True)
    words = [token for token in words if token.kind != "comment"]
    if at_end:
        left = _open(words)
        return _unclosed(left[-1]) if left else None
    number = _stopped_at(message, words, offset)
    if number is None:
        return None
    return _bracket(words, number) or _reserved(words, number) or _reserved_before(words, number)


def _stopped_at(message: str, words: Sequence[Token], offset: int | None) -> int | None:
    """Return the number of the word at which the server stopped reading; None if it cannot be told."""
    if offset is not None:
        return next((at for at, token in enumerate(words) if token.start == offset), None)
    match = _NEAR.search(message)
    alike = [at for at, token in enumerate(words) if match is not None and token.text == match[1]]
    if len(alike) > 1:
        alike = [at for at in alike if _reserved(words, at) is not None]
    return alike[0] if len(alike) == 1 else None


def unterminated_comment(text: str) -> int | None:
    """Return the offset of a comment that takes in the rest of a text, for it has no end; None if there is none."""
    last = None
    for last in tokens(text):  # noqa: B007 - the last one is looked at
        pass
    return last.start if last is not None and _unterminated(last) == "comment" else None


def ends_early(message: str) -> bool:
    """Return True if the server says that the statement is not complete."""
    return _AT_THE_END.search(message) is not None


def _unterminated(token: Token) -> str:
    """Return what a token without its end is; '' if it has its end."""
    text = token.text
    if token.kind == "comment":
        return "comment" if text.startswith("/*") and (len(text) < 4 or not text.endswith("*/")) else ""
    if token.kind == "quoted" and text[0] == "[":
        return "" if text.endswith("]") else "quoted name"
    if token.kind in ("string", "blob", "quoted"):
        quote = '"' if text[0] == '"' else "`" if text[0] == "`" else "'"
        what = {"string": "string literal", "blob": "blob literal", "quoted": "quoted name"}[token.kind]
        return what if text.count(quote) % 2 else ""
    return ""


# -- parentheses, CASE and END

_CLAUSES = frozenset(
    ["FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "JOIN", "INNER", "VALUES",
     "SET", "RETURNING", "WINDOW", "SELECT"]
)  # fmt: skip
_WITH_BY = frozenset(["ORDER", "GROUP", "PARTITION"])


def _word(words: Sequence[Token], number: int) -> str:
    """Return a word or sign in capitals; '' for what is quoted, a literal, or not there."""
    if not 0 <= number < len(words) or words[number].kind in ("quoted", "string", "blob"):
        return ""
    return words[number].text.upper()


def _open(words: Sequence[Token]) -> list[Token]:
    """Return the parentheses and the CASEs that have no end, outermost first."""
    left: list[Token] = []
    for number in range(len(words)):
        match _word(words, number):
            case "(" | "CASE" if _word(words, number - 1) != ".":
                left.append(words[number])
            case ")":
                while left and left.pop().text != "(":
                    pass
            case "END" if left and left[-1].text != "(":
                left.pop()
    return left


def _unclosed(token: Token) -> LocatedMessage:
    return LocatedMessage(
        "unclosed parenthesis" if token.text == "(" else "CASE without END", token.start, of_line=True
    )


def _bracket(words: Sequence[Token], number: int) -> LocatedMessage | None:
    """Return the parenthesis or CASE that is the cause of an error at a word; None if none is for certain."""
    word, before = _word(words, number), _open(words[:number])
    if word == ")":
        if not before:
            return LocatedMessage("unmatched closing parenthesis", words[number].start, of_line=True)
        return _unclosed(before[-1]) if before[-1].text != "(" and _ends_operand(words, number - 1) else None
    begins = word in _CLAUSES and (word not in _WITH_BY or _word(words, number + 1) == "BY")
    if begins and before and before[-1] in _open(words) and _ends_operand(words, number - 1):
        return _unclosed(before[-1])
    return None


def _ends_operand(words: Sequence[Token], number: int) -> bool:
    """Return True if a name, a literal or a parenthesis ends there."""
    if not 0 <= number < len(words):
        return False
    word = _word(words, number)
    if word in (")", "END", "NULL"):
        return True
    if word == "*":
        return _word(words, number - 1) in ("SELECT", "DISTINCT", "ALL", ",", "(", ".")
    return words[number].kind not in ("op", "semi") and word not in KEYWORDS


# -- reserved words

_STATEMENTS = frozenset(
    ["SELECT", "WITH", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "EXPLAIN"]
)
_OPERATORS = frozenset(
    ["AND", "OR", "NOT", "IN", "IS", "LIKE", "GLOB", "MATCH", "REGEXP", "BETWEEN", "ISNULL", "NOTNULL", "ESCAPE",
     "COLLATE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "DISTINCT", "ALL", "EXISTS", "CAST", "NULL", "OVER",
     "FILTER", "BY", "IF", "RAISE", "NOTHING", "CASCADE", "RESTRICT"]
)  # fmt: skip
"""Words of expressions and of constraints: where one of them does not fit, something else is missing as a rule."""
_BEGIN_CLAUSES = frozenset(
    ["SELECT", "FROM", "WHERE", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "OUTER", "ON", "USING",
     "HAVING", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "VALUES", "SET", "RETURNING", "INTO", "WITH", "UPDATE",
     "DELETE", "INSERT", "CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "REFERENCES"]
)  # fmt: skip
"""Words that also begin a clause: they are taken for a name only before a sign that cannot follow them there."""
_BEFORE_TABLE = frozenset(["FROM", "JOIN", "INTO", "TABLE", "VIEW", "UPDATE", "EXISTS", "REFERENCES"])
_BEFORE_NAME = frozenset(["AS", "COLUMN", "TO", "ADD", "RENAME"])
_AFTER_ANY_NAME = frozenset([",", ")", ".", "=", "==", "<", ">", "<=", ">=", "<>", "!=", "||", "/", "%"])
_AFTER_OPERAND = _AFTER_ANY_NAME | frozenset(
    ["", ";", "AS", "ASC", "DESC", "IS", "IN", "LIKE", "GLOB", "BETWEEN", "COLLATE", "AND", "OR", "NOT", "FROM",
     "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "THEN", "ELSE", "END", "WHEN",
     "JOIN", "INNER", "LEFT", "CROSS", "ON", "USING", "SET", "VALUES", "RETURNING"]
)  # fmt: skip
_TYPES = frozenset(
    ["INTEGER", "INT", "BIGINT", "SMALLINT", "TINYINT", "TEXT", "VARCHAR", "CHAR", "REAL", "FLOAT", "DOUBLE", "BLOB",
     "NUMERIC", "DECIMAL", "BOOLEAN", "DATE", "DATETIME", "TIMESTAMP"]
)  # fmt: skip


def _reserved(words: Sequence[Token], number: int) -> LocatedMessage | None:
    """Return the cause if the word at an error is a keyword that stands where only a name can be."""
    token = words[number]
    if token.kind == "word" and token.text.upper() in KEYWORDS and _is_meant_as_name(words, number):
        name = f'"{token.text}"'
        return LocatedMessage(f"{name} is a reserved word; quote it: {name}", token.start)
    return None


def _reserved_before(words: Sequence[Token], number: int) -> LocatedMessage | None:
    """Return the cause if the word before the error is ORDER or GROUP without its BY: `max(order)`."""
    return _reserved(words, number - 1) if _word(words, number - 1) in _WITH_BY else None


def _is_meant_as_name(words: Sequence[Token], number: int) -> bool:
    word, before, after = (_word(words, number + step) for step in (0, -1, 1))
    if before == ".":
        return after in _AFTER_OPERAND or word not in _BEGIN_CLAUSES | _WITH_BY
    verb = _word(words, 0)
    if verb not in _STATEMENTS or word in _OPERATORS or (word == "DEFAULT" and verb in ("INSERT", "REPLACE", "UPDATE")):
        return False
    if before not in _BEFORE_TABLE | _BEFORE_NAME | BEFORE_OPERAND:
        return False
    if word in ("ORDER", "GROUP") and before in _BEFORE_TABLE | _BEFORE_NAME:
        return after != "BY"
    if after == "BY" or _is_literal(words, number + 1):
        return False
    if verb == "ALTER" and before in ("TO", "COLUMN") and word != "TO":
        return after == "" or after in _TYPES
    if word in _BEGIN_CLAUSES:
        return after in _AFTER_ANY_NAME or after == word
    if before in _BEFORE_TABLE | _BEFORE_NAME:
        return after in _AFTER_OPERAND or after == "(" or (before in ("COLUMN", "ADD") and after in _TYPES)
    if verb == "CREATE":
        return after in _AFTER_ANY_NAME or after in _TYPES
    return after in _AFTER_OPERAND


def _is_literal(words: Sequence[Token], number: int) -> bool:
    """Return True if there is a literal, a parameter or a quoted name; none of them is a sign that follows a name."""
    return number < len(words) and words[number].kind in ("string", "blob", "quoted", "number", "param")
