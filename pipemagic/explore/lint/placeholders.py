"""Placeholders in quotes, which are texts: ':year' and '{year}' do not bind the variable year."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from types import ModuleType

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import next_to
from pipemagic.explore.query import Group, Query
from pipemagic.explore.sqlite_reference import BEFORE_OPERAND
from pipemagic.sql import Token, unquote

_NAME = r"([^\W\d_]\w*)"
_BRACES = rf"\{{\{{\s*{_NAME}\s*\}}\}}|\{{\s*{_NAME}\s*\}}"
_WHOLE = re.compile(rf"[:@$]{_NAME}|{_BRACES}")
_INSIDE = re.compile(_BRACES)
_SIGNS = re.compile(r"[:@${]")

_BEFORE_PARTS = ("LIKE", "GLOB", "<", "<=", ">", ">=", "BETWEEN")
"""Operators before a text in which braces are a placeholder: '%{word}%', '{year}-01-01'; = may find a template."""

_OF_TEMPLATES = frozenset(["replace", "instr", "printf", "format", "like", "glob"])
"""Functions that may be called with the text of a placeholder."""


def quoted_placeholders(context: Context) -> Iterator[str]:
    """Yield each text that is a placeholder in quotes whose name is that of a variable."""
    for query in context.queries if context.variables and _SIGNS.search(context.text) else ():
        part = query.part
        for index, item in enumerate(part.items):
            if isinstance(item, Token) and item.kind == "string" and _is_value(part, index):
                instead = binding(context, query, index)
                if instead:
                    yield f"{item.text} is a string: {instead}"


def binding(context: Context, query: Query, index: int) -> str:
    """Return what to write instead of the quoted text at an index; '' if it contains no placeholder of a variable."""
    token = query.part.items[index]
    assert isinstance(token, Token)
    text = unquote(token.text) if token.kind == "quoted" else token.text[1:-1].replace("''", "'")
    whole = _WHOLE.fullmatch(text)
    matches = [whole] if whole else list(_INSIDE.finditer(text)) if _is_compared(query.part, index) else []
    names = list(dict.fromkeys(match[match.lastindex or 0] for match in matches))
    if not names or not all(_can_be_bound(context, name) for name in names):
        return ""
    bound = f"to bind the value of {' and '.join(names)}"
    if not whole:
        return f"write {_concatenation(text)} {bound}"
    value = context.variables[names[0]]
    if isinstance(value, str) and any(
        value.lower() == name.lower() for source in query.visible for name in source.names
    ):
        return f"write {{{names[0]}}} without the quotes to insert the name {value}"
    return f"write :{names[0]} without the quotes {bound}"


def _is_compared(part: Group, index: int) -> bool:
    """Return True for a pattern, a text that is ordered, and the first argument of date()."""
    if index == 0:
        return part.parent is not None and part.parent.word(part.index - 1) in ("DATE", "DATETIME")
    return part.word(index - 1) in _BEFORE_PARTS


def is_placeholder(text: str, variables: Container[str]) -> bool:
    """Return True for a text that contains the name of a variable as a placeholder."""
    whole = _WHOLE.fullmatch(text)
    matches = [whole] if whole else _INSIDE.finditer(text)
    return any(match[match.lastindex or 0] in variables for match in matches)


def _is_value(part: Group, index: int) -> bool:
    """Return True for a value: no alias, no path of a JSON value, and no argument of a function such as replace()."""
    before = next_to(part, index - 1)
    if before not in BEFORE_OPERAND or before in ("->", "->>", "AS", "ESCAPE", "FROM", "JOIN", "INTO"):
        return False
    parent, called = part.parent, part.index - 1
    if parent is None or not parent.is_name(called):
        return True
    name = parent.name(called).lower()
    return name not in _OF_TEMPLATES and not name.startswith("json")


def _can_be_bound(context: Context, name: str) -> bool:
    """Return True for the name of a variable with a value or a list that the statement does not use already."""
    if name not in context.variables or name in context.used:
        return False
    value = context.variables[name]
    return not (callable(value) or isinstance(value, ModuleType)) and getattr(value, "ndim", 1) < 2


def _concatenation(pattern: str) -> str:
    """Return a pattern with placeholders as texts and parameters that are joined: ``'%' || :word || '%'``."""
    pieces, end = [], 0
    for match in _INSIDE.finditer(pattern):
        pieces += [_literal(pattern[end : match.start()]), f":{match[match.lastindex or 0]}"]
        end = match.end()
    return " || ".join(piece for piece in [*pieces, _literal(pattern[end:])] if piece)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if text else ""
