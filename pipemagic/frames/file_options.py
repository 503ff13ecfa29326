"""Parse the options of a file's reader: names of its parameters, each with a Python literal as its value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipemagic.errors import LoadError
from pipemagic.suggestions import did_you_mean

_OPTION = re.compile(r"([A-Za-z_]\w*)\s*=(.*)", re.DOTALL)
_ITEM = 60  # characters of an option in a message


@dataclass(frozen=True)
class ValueType:
    """The types of an option's value, and an example of one; a ``character`` is a text of one character."""

    types: tuple[type, ...]
    example: str
    character: bool = False

    def accepts(self, value: object) -> bool:
        """Return True if the option can have this value."""
        if isinstance(value, bool):
            return bool in self.types
        return isinstance(value, self.types) and (not self.character or (isinstance(value, str) and len(value) == 1))


class Reading(NamedTuple):
    """How the columns of a file got their types: `READING` in the ``attrs`` of its frame.

    ``decimal`` is the decimal mark that an option sets or that numbers have, '' for none; ``is_set`` is True if an
    option sets it. ``detected`` is True if no option sets the format of numbers. ``typed`` are the columns with types
    that the option dtype sets.
    """

    decimal: str
    is_set: bool
    detected: bool
    typed: Sequence[str]


READING = "reading"

FLAG, COUNT = ValueType((bool,), "True"), ValueType((int,), "2")
NAMES = ValueType((list, tuple), "['a', 'b']")
DTYPE = ValueType((str, dict), "{'zip': 'str'}")
HEADER = ValueType((int, type(None)), "0")
ROWS = ValueType((int, list, tuple), "2")
ENCODING = ValueType((str,), "'latin-1'")


def character(example: str) -> ValueType:
    """Return the kind of an option that is one character."""
    return ValueType((str,), repr(example), character=True)


def parse_options(words: Sequence[str], kinds: Mapping[str, ValueType], reader: str) -> dict[str, Any]:
    """Return the options of a reader, each with its value; raise LoadError for an unknown one, or another value."""
    options: dict[str, Any] = {}
    for name, text in _pairs(words):
        if name not in kinds:
            hint = did_you_mean(name, kinds) or f"the options are {', '.join(sorted(kinds))}"
            raise LoadError(f"{name} is not an option for {reader} files", hint=hint)
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise LoadError(
                f"the value of {name} must be a Python literal, not {text.strip()[:_ITEM] or 'empty'}",
                hint=f"write -- {name}={kinds[name].example}",
            ) from None
        if not kinds[name].accepts(value):
            raise LoadError(f"{name} cannot be {text.strip()[:_ITEM]}", hint=f"write -- {name}={kinds[name].example}")
        if isinstance(value, int) and value < 0:
            raise LoadError(f"{name} must not be negative")
        options[name] = _joined(name, options[name], value) if name in options else value
    return options


def _joined(name: str, first: object, second: object) -> object:
    """Return all values of an option that is specified again, as a note on the file says; raise LoadError for two."""
    match first, second:
        case dict(), dict() if all(first[key] == second[key] for key in first.keys() & second.keys()):
            return {**first, **second}
        case list() | tuple() | set(), list() | tuple() | set():
            return [*first, *second]
        case str(), list():
            return [first, *second]
    if first != second:
        raise LoadError(f"{name} is specified twice", hint=f"write {name}=... once, with all its values")
    return first


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values; a value may extend over several words, as in ``skiprows=[0, 1]``."""
    waiting: list[str] = []
    for word in words:
        match = (
            None if waiting and not _is_complete(waiting[1]) and not _OPTION.match(word) else _OPTION.fullmatch(word)
        )
        if match is not None:
            if waiting:
                yield waiting[0], waiting[1]
            waiting = [match[1], match[2]]
        elif waiting:
            waiting[1] += f" {word}"
        else:
            raise LoadError(f"{word[:_ITEM]} is not an option", hint="write options in the form -- sep=';' skiprows=2")
    if waiting:
        yield waiting[0], waiting[1]


def _is_complete(text: str) -> bool:
    try:
        ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
