"""SQLite's keywords and functions, and the quoting of names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from pipemagic.sql import FIRST_LETTER, LETTER
from pipemagic.text import escape_controls

_WORD = re.compile(rf"{FIRST_LETTER}{LETTER}*\Z")


class Function(NamedTuple):
    """A built-in function. ``kind`` is 'aggregate', 'window', 'function' or 'table function'."""

    signature: str
    description: str
    kind: str

    @property
    def takes_arguments(self) -> bool:
        """True unless it is called with empty parentheses."""
        return not self.signature.endswith("()")


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _functions() -> Iterator[tuple[str, Function]]:
    kind = ""
    for line in _read("sqlite_functions.txt").splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
        elif line and not line.startswith("#"):
            signature, _, description = line.partition(" | ")
            yield signature.partition("(")[0], Function(signature, description, kind)


_KEYWORDS = tomllib.loads(_read("sqlite_keywords.toml"))  # which explains each of these lists

KEYWORDS = frozenset(_KEYWORDS["keywords"])
UNRESERVED = frozenset(_KEYWORDS["unreserved"])
PHRASES: list[str] = _KEYWORDS["phrases"]
STARTS: list[str] = _KEYWORDS["starts"]
EXPRESSION: list[str] = _KEYWORDS["expression"]
COLUMN_DEFINITION: list[str] = _KEYWORDS["column_definition"]
ALTER_TABLE: list[str] = _KEYWORDS["alter_table"]
PRAGMAS: list[str] = _KEYWORDS["pragmas"]
NEXT: dict[str, list[str]] = _KEYWORDS["next"]
AFTER: dict[str, list[str]] = _KEYWORDS["after"]
BEFORE_EXPRESSION = frozenset(_KEYWORDS["before_expression"])
BEFORE_OPERAND = BEFORE_EXPRESSION | frozenset(_KEYWORDS["before_operand"])

FUNCTIONS = dict(_functions())
"""The built-in functions by their names in lower case."""


def quote_if_needed(name: str) -> str:
    """Return a name as SQL: in double quotes unless it is an identifier that is no reserved keyword."""
    if _WORD.match(name) and (name.upper() not in KEYWORDS or name.upper() in UNRESERVED):
        return name
    return quoted(name, '"')


def quoted(name: str, mark: str) -> str:
    """Return a name between quotation marks that open with ``mark``; unlike `sql.quote` of any name."""
    return f"[{name}]" if mark == "[" else f"{mark}{name.replace(mark, mark * 2)}{mark}"


def is_displayable(name: str) -> bool:
    """Return True if the name is not empty and has no control characters and marks of text direction."""
    return bool(name) and escape_controls(name) == name
