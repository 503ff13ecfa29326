"""The context of the cursor in SQL: the text typed before it, its query, its clause, and the names that can follow.

The text before and the text after the cursor are tokenized separately, so that an open quote does not take in the rest
of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from pipemagic.explore.ddl import apply_ddl
from pipemagic.explore.hints.syntax_errors import unterminated
from pipemagic.explore.query import Query, TableReference, query_at
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import KEYWORDS
from pipemagic.explore.token_tree import COMPOUND, Group, Position, nest
from pipemagic.sql import Token, tokens, unquote

_BLANK = ("space", "comment")
_CLOSING = {'"': '"', "`": "`", "[": "]"}
_CASE_OF_CELL = frozenset(["select", "from", "where", "insert", "update", "delete", "create", "join", "with"])
_TABLE_NEXT = frozenset(["FROM", "JOIN", "INTO", "TABLE", "VIEW", "REFERENCES", "ANALYZE"])
_OPERANDS = ("number", "string", "blob", "param", "quoted")
_NOT_OPERANDS = KEYWORDS - {
    "NULL", "END", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "ISNULL", "NOTNULL",
}  # fmt: skip


@dataclass(frozen=True)
class CursorContext:
    """The position of the cursor in a cell, and the text typed there.

    ``tables`` has the tables of the database by lowercase name, with the changes of earlier statements of the cell.
    ``trigger`` is the table of the CREATE TRIGGER around the cursor, or ''. ``lower`` is True if the cell has lowercase
    keywords. ``fragment`` is the text before the cursor that a completion replaces, with its opening ``quote``, if any.
    ``closed`` is True if the closing quote follows the cursor, ``calls`` if ``(`` does.
    """

    cursor: Position
    tables: Mapping[str, Relation]
    trigger: str
    lower: bool
    fragment: str = ""
    closed: bool = False
    calls: bool = False

    @property
    def quote(self) -> str:
        """The opening quote before the cursor or ''."""
        return self.fragment[:1] if self.fragment[:1] in _CLOSING else ""

    @property
    def typed(self) -> str:
        """The fragment without quotes."""
        if not self.quote:
            return self.fragment
        return self.fragment[1:] if self.quote == "[" else self.fragment[1:].replace(self.quote * 2, self.quote)

    @cached_property
    def query(self) -> Query:
        """The innermost query around the cursor."""
        return query_at(self.cursor, self.tables)

    @property
    def owner(self) -> TableReference | None:
        """The table before the dot at the cursor, or None if it is unknown."""
        if not self.group.is_name(self.at - 2):
            return None
        name = self.group.name(self.at - 2)
        source = self.query.labelled(name)
        if source is None and name.lower() == "excluded" and self.group.word(self.at - 3) != ".":
            source = next(iter(self.query.nearest), None)
        if source is None:  # a table that is not in FROM yet
            name = self.trigger if name.lower() in ("new", "old") and self.trigger else name
            table = self.tables.get(name.lower())
            source = None if table is None else TableReference(table.name, table)
        return source

    @property
    def group(self) -> Group:
        """The parentheses around the cursor, or the statement."""
        return self.cursor.group

    @property
    def at(self) -> int:
        """The index of the item after the cursor in the group."""
        return self.cursor.at

    @property
    def previous(self) -> str:
        """The word or symbol before the cursor."""
        return self.group.word(self.at - 1)

    @property
    def before_group(self) -> str:
        """The word before the parentheses around the cursor, or ''."""
        parent = self.group.parent
        return "" if parent is None else parent.word(self.group.index - 1)

    @property
    def clause(self) -> str:
        """The keyword of the clause at the cursor, or '' if its parentheses have none."""
        group, places = self.group, range(self.at - 1, -1, -1)
        clause = next((word for at in places if (word := group.clause(at)) and group.word(at - 1) != "."), "")
        return "" if clause in COMPOUND else clause

    @property
    def at_start(self) -> bool:
        """True if a statement, or a query in parentheses, begins here."""
        if self.at == 0:
            return self.group.parent is None or self.before_group in ("", "AS", "IN", "EXISTS", "FROM", "JOIN", ",")
        words = self.group.words()[: self.at]
        return self.group.parent is None and words in (["EXPLAIN"], ["EXPLAIN", "QUERY", "PLAN"])

    @property
    def defines_table(self) -> bool:
        """True inside the parentheses of a CREATE TABLE."""
        top = self.group.parent
        if top is None or top.parent is not None or top.word(0) != "CREATE" or self.before_group in ("AS", ""):
            return False
        return "TABLE" in (top.word(1), top.word(2))

    @property
    def wants_table(self) -> bool:
        """True if the name of a table comes next."""
        previous, verb, word_before = self.previous, self.group.word(0) if self.at else "", self.group.word(self.at - 2)
        if self.group.parent is not None and self.group.parent.word(0) == "PRAGMA" and self.before_group:
            return True
        if previous in _TABLE_NEXT:
            return verb != "CREATE" or previous not in ("TABLE", "VIEW")
        if previous == "UPDATE" or (word_before == "OR" and verb == "UPDATE"):
            return word_before not in ("DO", "ON")
        if (previous, verb) in (("ON", "CREATE"), ("EXISTS", "DROP")) or (previous == "REINDEX" and self.at == 1):
            return True
        return previous == "," and self.clause in ("FROM", "JOIN")

    @property
    def wants_frame(self) -> bool:
        """True if the name of a table comes next that the statement reads."""
        if self.previous in ("FROM", "JOIN", ","):
            return self.wants_table and self.group.word(self.at - 2) != "DELETE"
        return self.previous == "IN"

    @property
    def after_operand(self) -> bool:
        """True if an operand is complete, so that an operator or a clause comes next."""
        item = self.group.items[self.at - 1] if self.at else None
        if not isinstance(item, Token):
            return item is not None
        if item.kind == "word":
            return self.group.word(self.at - 2) == "." or item.text.upper() not in _NOT_OPERANDS
        is_all_columns = item.text == "*" and self.group.word(self.at - 2) in ("SELECT", ",", ".", "DISTINCT")
        return item.kind in _OPERANDS or is_all_columns


def context_at(text: str, at: int, tables: Iterable[Relation]) -> CursorContext | None:
    """Return the context of the cursor at an offset, for a completion; None inside a string or a comment."""
    ahead = list(tokens(text[:at]))
    last = ahead[-1] if ahead else Token("space", "", 0)
    if text[:at].endswith("/*") and last.text in ("*", "/*"):
        return None  # the comment begins after the next character
    if _is_inside(last):
        return None
    fragment = ""
    if last.kind in ("word", "param") or unterminated(last) or (last.kind == "op" and last.text in (":", "@", "$")):
        fragment = ahead.pop().text
    behind, closing = text[at:], _CLOSING.get(fragment[:1], "")
    rest = re.sub(rf"\A[\w$]*{re.escape(closing)}" if closing else r"\A[\w$]+", "", behind)
    is_closed, calls = bool(closing) and behind.startswith(closing), rest.lstrip(" \t").startswith("(")
    return replace(_context(text, ahead, rest, tables), fragment=fragment, closed=is_closed, calls=calls)


def name_at(text: str, at: int, tables: Iterable[Relation]) -> tuple[CursorContext, Token | None] | None:
    """Return the name or parameter at an offset or directly before it, and the context where it begins.

    The token is None where there is no name. The result is None inside a string or a comment.
    """
    touched = [token for token in tokens(text) if token.start <= at <= token.end]
    for token in touched:
        inside = token.start < at and (at < token.end or token.text.startswith("--"))
        if inside and token.kind in ("string", "blob", "comment"):
            return None
    name = next((token for token in touched if token.kind in ("word", "quoted", "param")), None)
    start = at if name is None else name.start
    return _context(text, list(tokens(text[:start])), text[start:], tables), name


def _context(text: str, ahead: list[Token], rest: str, tables: Iterable[Relation]) -> CursorContext:
    relations = list(tables)
    by_name = {table.name.lower(): table for table in relations if table.kind != "DataFrame"}
    changed: set[str] = set()
    ends = [token.start for token in ahead if token.kind == "semi"]
    for start, end in pairwise([0, *(end + 1 for end in ends)]):
        changed |= apply_ddl(text[start:end], by_name)
    ahead = [token for token in ahead if token.kind not in _BLANK]
    statement = [token for token in ahead if not ends or token.start > ends[-1]]
    after = [token for token in _until_semicolon(rest) if token.kind not in _BLANK]
    trigger = _trigger(ahead)
    if not trigger and (frames := [table for table in relations if table.kind == "DataFrame"]):
        by_name |= _frames_read(" ".join(token.text for token in [*statement, *after]), frames, changed)
    first = next((token.text for token in ahead if token.kind == "word" and token.text.lower() in _CASE_OF_CELL), "")
    return CursorContext(nest([*statement, *after], len(statement)), by_name, trigger, first.islower())


def _frames_read(statement: str, frames: Iterable[Relation], changed: Set[str]) -> dict[str, Relation]:
    """Return the frames that a statement can read, without the names that earlier ones change."""
    from pipemagic.session.frames import readable

    named = {frame.name.lower(): frame for frame in frames if frame.name.lower() not in changed}
    return {name: named[name] for name in readable(statement, named)}


def _until_semicolon(rest: str) -> list[Token]:
    parts: list[Token] = []
    for token in tokens(rest):
        if token.kind == "semi":
            break
        parts.append(token)
    return parts


def _is_inside(token: Token) -> bool:
    """Return True if nothing can be completed after the token: a number, or an open string or comment."""
    return token.kind == "number" or token.text.startswith("--") or unterminated(token) not in ("", "quoted name")


def _trigger(ahead: list[Token]) -> str:
    """Return the table of an unfinished CREATE TRIGGER at the end of the tokens, or ''."""
    words = [token.text.upper() if token.kind in ("word", "semi") else "" for token in ahead]
    start = next((at for at in range(len(words) - 1, -1, -1) if words[at] == "CREATE"), None)
    if start is None or "TRIGGER" not in words[start + 1 : start + 3] or "ON" not in words[start:]:
        return ""
    if ("END", ";") in pairwise(words[start:]):
        return ""
    at = words.index("ON", start) + 1
    at += 2 if at + 2 < len(ahead) and ahead[at + 1].text == "." else 0
    return unquote(ahead[at].text) if at < len(ahead) else ""
