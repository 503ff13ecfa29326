"""Columns and rules as the options of %pipedb name them.

Names stand with commas between them; one that holds a comma, a point or ``=`` stands in double quotes, as in SQL.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from pipemagic.notebook.arguments import Arguments

if TYPE_CHECKING:
    from pipemagic.explore.rules import Bound, Rule

_NAME = r'\s*(?:"(?:[^"]|"")*"|[^",.=][^,.=]*)\s*'
_NAMES = rf"{_NAME}(?:,{_NAME})*"
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


def names_of(words: str | None) -> list[str]:
    """Read names with commas between them."""
    return [_plain(found) for found in re.findall(r'\s*"(?:[^"]|"")*"\s*(?=,|$)|[^,]+', words or "") if found.strip()]


def _plain(name: str) -> str:
    name = name.strip()
    quoted = len(name) > 1 and name[0] == name[-1] == '"'
    return name[1:-1].replace('""', '"') if quoted else name


def asked_rules(table: str, args: Arguments) -> list[Rule]:
    """Give the rules that the options of ``check`` ask for; UsageError for one that cannot be read."""
    from pipemagic.explore import rules

    return [
        *(rules.not_null(table, name) for words in args.all("--not-null") for name in names_of(words)),
        *(rules.unique(table, names_of(words)) for words in args.all("--unique")),
        *(rules.within(table, *_range(words)) for words in args.all("--range")),
        *(rules.references(table, *_references(words)) for words in args.all("--references")),
        *([rules.foreign_keys(table)] if args.on("--foreign-keys") else []),
        *(rules.holds(table, words) for words in args.all("--rows")),
    ]


def _range(words: str) -> tuple[str, Bound, Bound]:
    match = re.fullmatch(rf"({_NAME})=(.*?)\.\.(.*)", words, re.DOTALL)
    if match is None:
        raise UsageError(f"--range {words} cannot be read; write --range age=0..120, --range 'price=0..'")
    return _plain(match[1]), _bound(match[2]), _bound(match[3])


def _bound(word: str) -> Bound:
    """Read a bound: a number if it looks like one, else text; None if it is left out."""
    word = word.strip()
    if not word:
        return None
    if not _NUMBER.fullmatch(word):
        return word
    try:
        return int(word)
    except ValueError:
        return float(word)


def _references(words: str) -> tuple[list[str], str, list[str]]:
    match = re.fullmatch(rf"({_NAMES})=({_NAME})\.({_NAMES})", words)
    if match is None:
        raise UsageError(f"--references {words} cannot be read; write --references city=cities.id")
    return names_of(match[1]), _plain(match[2]), names_of(match[3])
