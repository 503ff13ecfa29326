"""Definitions of tables, indexes, views and triggers, as the column ``sql`` of ``sqlite_schema`` has them.

A server may return any text as a definition. Only one that was parsed may run, on whatever database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from pipemagic.sql.identifiers import folded, quote, unquote
from pipemagic.sql.statement import split
from pipemagic.sql.tokenizer import Token, tokens

_ObjectKind: TypeAlias = Literal["table", "index", "view", "trigger"]

_OPERATORS = frozenset({
    "(", ")", ",", ".", "+", "-", "*", "/", "%", "&", "|", "~", "<", ">", "=", "<=", ">=", "<>", "!=", "==", "<<", ">>",
    "||", "->", "->>",
})  # fmt: skip
_OPTIONS = frozenset({"WITHOUT", "ROWID", "STRICT", "RANDOM", ","})  # RANDOM ROWID is libSQL's
_EVENTS = frozenset({"BEFORE", "AFTER", "INSTEAD", "DELETE", "INSERT", "UPDATE"})


class Definition(NamedTuple):
    """The CREATE statement of an object.

    ``text`` has no blanks and comments around it. ``name`` is the token of the name, ``table`` that of the table of an
    index or a trigger, otherwise ``name``.
    """

    text: str
    kind: _ObjectKind
    name: Token
    table: Token

    def creates(self, kind: str, name: str, table: str) -> bool:
        """Return True if it creates the object of this kind and name, on this table."""
        wanted = (kind, folded(name), folded(table))
        return wanted == (self.kind, folded(unquote(self.name.text)), folded(unquote(self.table.text)))

    def renamed(self, name: str, table: str = "") -> str:
        """Return the statement for another name; ``table`` is the name of another table for an index."""
        text = _replaced(self.text, self.table, table) if table else self.text  # the later position first
        return _replaced(text, self.name, name)


def parse_definition(text: str) -> Definition | None:
    """Return the definition in a text; None unless it is one statement in the form of ``sqlite_schema``.

    That is CREATE TABLE with columns, CREATE [UNIQUE] INDEX, CREATE VIEW or CREATE TRIGGER. SQLite stores none of them
    with TEMP, IF NOT EXISTS or a schema before the name, whatever its user wrote.
    """
    statements = split(text)
    if len(statements) != 1 or "\0" in text or not _is_sound(statements[0].tokens):
        return None
    parts, inner = statements[0].outer_tokens, statements[0].tokens
    kind: _ObjectKind
    match list(map(_mark, parts)):
        case ["CREATE", "TABLE", _, "(", ")", *rest] if _OPTIONS.issuperset(rest):
            kind, at, on = "table", 2, 2
        case ["CREATE", "INDEX", _, "ON", _, "(", ")", *rest] if rest[:1] in ([], ["WHERE"]):
            kind, at, on = "index", 2, 4
        case ["CREATE", "UNIQUE", "INDEX", _, "ON", _, "(", ")", *rest] if rest[:1] in ([], ["WHERE"]):
            kind, at, on = "index", 3, 5
        case ["CREATE", "VIEW", _, *rest] if _begins_query(rest):
            kind, at, on = "view", 2, 2
        case ["CREATE", "TRIGGER", _, *_] if on := _table_of_trigger(inner):
            parts, kind, at = inner, "trigger", 2
        case _:
            return None
    name, table = parts[at], parts[on]
    are_names = {name.kind, table.kind} <= {"word", "quoted", "string"}
    return Definition(statements[0].text, kind, name, table) if are_names else None


def terminated(text: str) -> str:
    """Return a definition with a semicolon. It may end with a comment, which would contain one."""
    last = next((token for token in reversed(list(tokens(text))) if token.kind != "space"), None)
    if last is None or last.kind != "comment":
        return f"{text};"
    return f"{text}\n;" if last.text.startswith("--") else f"{text};" if last.is_finished else f"{text}*/;"


def _is_sound(parts: Iterable[Token]) -> bool:
    """Return True if SQLite reads each token as one, none is a parameter, and parentheses are balanced."""
    depth = 0
    for token in parts:
        if not token.is_finished or token.kind == "param" or (token.kind == "op" and token.text not in _OPERATORS):
            return False
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth < 0:
            return False
    return depth == 0


def _mark(token: Token) -> str:
    """Return a word in capitals, an operator as it is, '' for any other token."""
    return token.word if token.text.isascii() and token.word else token.text if token.kind in ("op", "semi") else ""


def _begins_query(marks: Sequence[str]) -> bool:
    rest = marks[2:] if marks[:2] == ["(", ")"] else marks  # the names of the columns
    return rest[:1] == ["AS"] and rest[1:2] in (["SELECT"], ["VALUES"], ["WITH"])


def _table_of_trigger(parts: Sequence[Token]) -> int:
    """Return the index of the table of a trigger; 0 if the statement does not end at its first END behind a ``;``."""
    marks = list(map(_mark, parts))
    if [at for at in range(1, len(marks)) if marks[at - 1 : at + 1] == [";", "END"]] != [len(marks) - 1]:
        return 0
    head = marks[: marks.index(";")]
    on = head.index("ON", 3) + 1 if "ON" in head[3:] else len(head)
    if "BEGIN" not in head[on + 1 :] or head[3] not in _EVENTS:
        return 0
    return on + 2 if marks[on + 1] == "." and folded(unquote(parts[on].text)) == "main" else on


def _replaced(text: str, token: Token, name: str) -> str:
    return text[: token.start] + quote(name) + text[token.end :]
