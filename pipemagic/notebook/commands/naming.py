"""Columns and rules as the options of %pipedb name them.

Names stand with commas between them; one that holds a comma, a point or ``=`` stands in double quotes, as in SQL.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from pipemagic import sql
from pipemagic.notebook.arguments import Arguments, names

if TYPE_CHECKING:
    from pipemagic.explore.rules import Bound, Rule

_NAME = r'\s*(?:"(?:[^"]|"")*"|[^",.=][^,.=]*)\s*'
_NAMES = rf"(?:{_NAME}|\s*)(?:,(?:{_NAME}|\s*))*"  # `names` refuses the empty ones
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


def asked_rules(table: str, args: Arguments) -> list[Rule]:
    """Give the rules that the options of ``check`` ask for; UsageError for one that cannot be read."""
    from pipemagic.explore import rules

    return [
        *(rules.not_null(table, name) for words in args.all("--not-null") for name in names(words, "--not-null")),
        *(rules.unique(table, names(words, "--unique")) for words in args.all("--unique")),
        *(rules.within(table, *_range(words)) for words in args.all("--range")),
        *(rules.references(table, *_references(words)) for words in args.all("--references")),
        *([rules.foreign_keys(table)] if args.on("--foreign-keys") else []),
        *(rules.holds(table, words) for words in args.all("--rows")),
    ]


def _range(words: str) -> tuple[str, Bound, Bound]:
    match = re.fullmatch(rf"({_NAME})=(.*?)\.\.(.*)", words, re.DOTALL)
    if match is None:
        raise UsageError(f"--range {words} cannot be read; write --range age=0..120, --range 'price=0..'")
    return sql.unquote(match[1].strip()), _bound(match[2]), _bound(match[3])


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
    flag = "--references"
    return names(match[1], flag), sql.unquote(match[2].strip()), names(match[3], flag)
