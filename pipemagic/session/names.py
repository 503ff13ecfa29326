"""``-- name: x`` before a statement: the name under which its rows are kept."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from pipemagic.errors import SessionError
from pipemagic.sql import ParsedStatement, position, tokens

_NAME = re.compile(r"--\s*name\s*:(.*)", re.IGNORECASE)


def named(script: str, statements: Sequence[ParsedStatement]) -> tuple[str, ...]:
    """Give the name of each statement, '' for none.

    A name stands in a comment on a line of its own, directly before the statement. SessionError for one that stands
    elsewhere between statements, that no variable can have, or that is given twice.
    """
    found, end = [], 0
    for statement in statements:
        found.append(_name_in(script, end, statement.start))
        end = statement.start + len(statement.text)
    if left := _name_in(script, end, len(script)):
        raise SessionError(f"`-- name: {left}` stands after the last statement and names nothing", hint=_WHERE)
    given = [name for name in found if name]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise SessionError(f"two statements have the name {twice}", hint="give each result a name of its own")
    return tuple(found)


_WHERE = "write `-- name: x` on a line of its own, directly before the statement whose rows x is to hold"


def _name_in(script: str, start: int, end: int) -> str:
    """Read the text between two statements; gives the name in its comments."""
    name = ""
    for token in tokens(script[start:end]):
        if token.kind == "semi":
            if name:
                raise SessionError(f"`-- name: {name}` stands before an empty statement", hint=_WHERE)
        elif token.kind == "comment":
            match = _NAME.fullmatch(token.text.rstrip())
            if match and name:
                raise SessionError(f"`-- name: {name}` is followed by another name", hint=_WHERE)
            name = _checked(match[1].strip(), script, start + token.start) if match else name
    return name


def _checked(name: str, script: str, offset: int) -> str:
    line, column = position(script, offset)
    if script[offset - column : offset].strip():
        raise SessionError(f"line {line}: `-- name: {name}` stands behind other text", hint=_WHERE)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise SessionError(f"line {line}: {name!r} is not a name that a variable can have", hint=_WHERE)
    return name
