"""The cause of a syntax error, if the text of the statement proves one.

A server reports where it stopped: at the end of the text, or at a word that does not fit. The cause is often before
that position: a quote or a parenthesis without its end. The rules read the text and the messages of all servers
("syntax error", "incomplete input", "unexpected end of input", ...); a rule that is not certain returns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from pipemagic.explore.sqlite_reference import BEFORE_OPERAND, KEYWORDS, quote_if_needed
from pipemagic.explore.token_tree import Group
from pipemagic.sql import Token, tokens

_SYNTAX = re.compile(r"syntax error|incomplete input|unexpected end of input|unrecognized token|non-terminated", re.I)
_AT_THE_END = re.compile(r"incomplete input|unexpected end of input", re.I)
_NEAR = re.compile(r'near "(.+)"', re.DOTALL)
_OPEN_TOKEN = re.compile(r"unrecognized token|non-terminated", re.I)
_QUOTES = {'"': '"', "`": "`"}


class LocatedMessage(NamedTuple):
    """An error message and its offset in characters, None if unknown.

    ``of_line`` is True for a message that begins with the number of the line.
    """

    message: str
    offset: int | None = None
    of_line: bool = False


def cause(message: str, text: str, offset: int | None) -> LocatedMessage | None:
    """Return the cause of a syntax error; ``message`` and ``offset`` (in characters) are those of the server."""
    if not _SYNTAX.search(message):
        return None
    parts = [token for token in tokens(text) if token.kind != "space"]
    at_end, last = ends_early(message), parts[-1] if parts else None
    if last is not None and (at_end or (_OPEN_TOKEN.search(message) and offset in (None, last.start))):
        what = unterminated(last)
        if what:
            return LocatedMessage(f"unterminated {what}", last.start, of_line=True)
    # One group of all tokens: the parentheses do not match.
    words = Group([token for token in parts if token.kind != "comment"])
    if at_end:
        left = _open(words, len(words.items))
        return _unclosed(left[-1]) if left else LocatedMessage(message, len(text) if last is None else last.end)
    index = _stopped_at(message, words, offset)
    if index is None:
        return None
    before = index - 1  # ORDER or GROUP without its BY: max(order)
    return _bracket(words, index) or _reserved(words, index) or (
        _reserved(words, before) if words.word(before) in _WITH_BY else None
    )  # fmt: skip


def _stopped_at(message: str, words: Group, offset: int | None) -> int | None:
    """Return the index of the word at which the server stopped; None if it is ambiguous."""
    match = _NEAR.search(message)
    alike = [
        index
        for index, token in enumerate(words.items)
        if isinstance(token, Token)
        and (token.start == offset if offset is not None else match is not None and token.text == match[1])
    ]
    if len(alike) > 1:
        alike = [index for index in alike if _reserved(words, index) is not None]
    return alike[0] if len(alike) == 1 else None


def unterminated_comment(text: str) -> int | None:
    """Return the offset of a comment without its end, which includes the rest of a text; None if there is none."""
    last = next(reversed(list(tokens(text))), None)
    return last.start if last is not None and unterminated(last) == "comment" else None


def ends_early(message: str) -> bool:
    """Return True if the server reports that the statement is incomplete."""
    return _AT_THE_END.search(message) is not None


def unterminated(token: Token) -> str:
    """Return the kind of a token without its end; '' if it has its end."""
    text = token.text
    if token.kind == "comment":
        return "comment" if text.startswith("/*") and (len(text) < 4 or not text.endswith("*/")) else ""
    what = {"string": "string literal", "blob": "blob literal", "quoted": "quoted name"}.get(token.kind, "")
    if text[:1] == "[":
        return "" if text.endswith("]") else what
    return what if text.count(_QUOTES.get(text[:1], "'")) % 2 else ""


# -- names that need quotes

_CORRECTABLE = re.compile(
    rf"{_SYNTAX.pattern}|unterminated (?:string|quoted)|expected = sign|bad variable name", re.IGNORECASE
)
_UNREADABLE = re.compile(rf"{_CORRECTABLE.pattern}|bad number|is a reserved word", re.IGNORECASE)
_NUMBER_AND_LETTERS = re.compile(r"(?!0[xX])\d+(?:[^\W\d]\w*)")


def is_unreadable(message: str) -> bool:
    """Return True if the server could not read the words of the statement, in the words of all servers."""
    return _UNREADABLE.search(message) is not None


def is_correctable(message: str) -> bool:
    """Return True if another text may be what was meant, unless the message says the cause already."""
    return _CORRECTABLE.search(message) is not None


def unquoted_name(text: str, place: int | None, names: Iterable[str]) -> str:
    """Return the longest of the names that is in the text without the quotes it needs; '' for none.

    The name begins with a word and includes the ``place`` of the error, if that is known; blanks in it may differ.
    """
    starts = {
        token.start for token in tokens(text) if token.kind not in ("string", "quoted", "blob", "comment", "space")
    }
    for name in sorted(set(names), key=len, reverse=True):
        words = name.split()
        if name != name.strip() or quote_if_needed(name) == name or name.upper() in KEYWORDS:
            continue
        pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
        for match in pattern.finditer(text):
            ends = re.match(r"\w", text[match.end() :]) is None or not re.match(r"\w", name[-1])
            if match.start() in starts and ends and (place is None or match.start() <= place <= match.end()):
                return name
    return ""


def begins_with_digit(text: str, place: int | None) -> str:
    """Return a hint for a name that begins with a digit at the place of an error; '' for anything else."""
    match = None if place is None else _NUMBER_AND_LETTERS.match(text, place + text.startswith(".", place))
    return f'if {match[0]} is a name, write it in quotes: "{match[0]}"' if match else ""


# -- parentheses, CASE and END

_WITH_BY = frozenset(["ORDER", "GROUP", "PARTITION"])


def _open(words: Group, end: int) -> list[Token]:
    """Return the parentheses and the CASEs before an index that have no end, outermost first."""
    left: list[Token] = []
    for index, token in enumerate(words.items[:end]):
        assert isinstance(token, Token)
        match words.word(index):
            case "(" | "CASE" if words.word(index - 1) != ".":
                left.append(token)
            case ")":
                while left and left.pop().text != "(":
                    pass
            case "END" if left and left[-1].text != "(":
                left.pop()
    return left


def _unclosed(token: Token) -> LocatedMessage:
    what = "unclosed parenthesis" if token.text == "(" else "CASE without END"
    return LocatedMessage(what, token.start, of_line=True)


def _bracket(words: Group, index: int) -> LocatedMessage | None:
    """Return the parenthesis or CASE that is the cause of an error at an index; None if it is not certain."""
    word, before, token = words.word(index), _open(words, index), words.items[index]
    if word == ")" and not before and isinstance(token, Token):
        return LocatedMessage("unmatched closing parenthesis", token.start, of_line=True)
    if not before or not _ends_operand(words, index - 1):
        return None
    begins = words.clause(index) and (word not in _WITH_BY or words.word(index + 1) == "BY")
    is_cause = before[-1].text != "(" if word == ")" else begins and before[-1] in _open(words, len(words.items))
    return _unclosed(before[-1]) if is_cause else None


def _ends_operand(words: Group, index: int) -> bool:
    """Return True if a name, a literal or a parenthesis ends at an index."""
    word, token = words.word(index), words.items[index] if index >= 0 else None
    if word in (")", "END", "NULL"):
        return True
    if word == "*":
        return words.word(index - 1) in ("SELECT", "DISTINCT", "ALL", ",", "(", ".")
    return isinstance(token, Token) and token.kind not in ("op", "semi") and word not in KEYWORDS


# -- reserved words

_STATEMENTS = frozenset(
    ["SELECT", "WITH", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "EXPLAIN"]
)
_OPERATORS = frozenset(
    ["AND", "OR", "NOT", "IN", "IS", "LIKE", "GLOB", "MATCH", "REGEXP", "BETWEEN", "ISNULL", "NOTNULL", "ESCAPE",
     "COLLATE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "DISTINCT", "ALL", "EXISTS", "CAST", "NULL", "OVER",
     "FILTER", "BY", "IF", "RAISE", "NOTHING", "CASCADE", "RESTRICT"]
)  # fmt: skip
"""Words of expressions and constraints: where one of them does not fit, something else is usually missing."""
_BEGIN_CLAUSES = frozenset(
    ["SELECT", "FROM", "WHERE", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "OUTER", "ON", "USING",
     "HAVING", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "VALUES", "SET", "RETURNING", "INTO", "WITH", "UPDATE",
     "DELETE", "INSERT", "CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "REFERENCES"]
)  # fmt: skip
"""Words that also begin a clause: they are read as a name only before a sign that cannot follow the clause."""
_BEFORE_TABLE = frozenset(["FROM", "JOIN", "INTO", "TABLE", "VIEW", "UPDATE", "EXISTS", "REFERENCES"])
_BEFORE_NAME = frozenset(["AS", "COLUMN", "TO", "ADD", "RENAME"])
_AFTER_ANY_NAME = frozenset([",", ")", ".", "=", "==", "<", ">", "<=", ">=", "<>", "!=", "||", "/", "%"])
_AFTER_OPERAND = _AFTER_ANY_NAME | frozenset(
    ["", ";", "AS", "ASC", "DESC", "IS", "IN", "LIKE", "GLOB", "BETWEEN", "COLLATE", "AND", "OR", "NOT", "FROM",
     "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "THEN", "ELSE", "END", "WHEN",
     "JOIN", "INNER", "LEFT", "CROSS", "ON", "USING", "SET", "VALUES", "RETURNING"]
)  # fmt: skip
_LITERALS = ("string", "blob", "quoted", "number", "param")
TYPES = frozenset(
    ["INTEGER", "INT", "BIGINT", "SMALLINT", "TINYINT", "TEXT", "VARCHAR", "CHAR", "REAL", "FLOAT", "DOUBLE", "BLOB",
     "NUMERIC", "DECIMAL", "BOOLEAN", "DATE", "DATETIME", "TIMESTAMP"]
)  # fmt: skip


def _reserved(words: Group, index: int) -> LocatedMessage | None:
    """Return the cause if a keyword is at an index where only a name can be."""
    token = words.items[index]
    if isinstance(token, Token) and token.word in KEYWORDS and _is_meant_as_name(words, index):
        name = f'"{token.text}"'
        return LocatedMessage(f"{name} is a reserved word; quote it: {name}", token.start)
    return None


def _is_meant_as_name(words: Group, index: int) -> bool:
    word, before, after = (words.word(index + step) for step in (0, -1, 1))
    if before == ".":
        return after in _AFTER_OPERAND or word not in _BEGIN_CLAUSES | _WITH_BY
    verb = words.word(0)
    if verb not in _STATEMENTS or word in _OPERATORS or (word == "DEFAULT" and verb in ("INSERT", "REPLACE", "UPDATE")):
        return False
    if before not in _BEFORE_TABLE | _BEFORE_NAME | BEFORE_OPERAND:
        return False
    if word in ("ORDER", "GROUP") and before in _BEFORE_TABLE | _BEFORE_NAME:
        return after != "BY"
    following = words.items[index + 1] if index + 1 < len(words.items) else None
    if after == "BY" or (isinstance(following, Token) and following.kind in _LITERALS):
        return False  # a name is followed by a sign or a keyword
    if verb == "ALTER" and before in ("TO", "COLUMN") and word != "TO":
        return after == "" or after in TYPES
    if word in _BEGIN_CLAUSES:
        return after in _AFTER_ANY_NAME or after == word
    if before in _BEFORE_TABLE | _BEFORE_NAME:
        return after in _AFTER_OPERAND or after == "(" or (before in ("COLUMN", "ADD") and after in TYPES)
    if verb == "CREATE":
        return after in _AFTER_ANY_NAME or after in TYPES
    return after in _AFTER_OPERAND
