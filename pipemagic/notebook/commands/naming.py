"""Columns and rules as the options of %pipedb name them.

Names stand with commas between them; one that holds a comma, a point or ``=`` stands in double quotes, as in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from pipemagic import sql
from pipemagic.notebook.arguments import Arguments, names

if TYPE_CHECKING:
    from pipemagic.explore.conditions import Condition
    from pipemagic.explore.rules import Bound, Rule
    from pipemagic.hrana.values import SqlValue
    from pipemagic.notebook.commands.base import Context

_NAME = r'\s*(?:"(?:[^"]|"")*"|[^",.=][^,.=]*)\s*'
_NAMES = rf"(?:{_NAME}|\s*)(?:,(?:{_NAME}|\s*))*"  # `names` refuses the empty ones
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


def condition(context: Context, text: str) -> Condition:
    """Return a condition as it is sent; its parameters have the values of the notebook's variables, as in a cell."""
    from pipemagic.client.arguments import values_of
    from pipemagic.explore import conditions

    conditions.check(text, parameters=True)
    before, after = "SELECT 1 WHERE (", "\n)"
    (stmt,) = context.session.read(f"{before}{text}{after}", context.variables).stmts
    bound = (stmt.sql or "")[len(before) : -len(after)]
    return conditions.Condition(bound, values_of(stmt))


def query(context: Context, words: str) -> tuple[str, Mapping[str, SqlValue]]:
    """Return a table's name as it is, or a SELECT with the values of its parameters, as in a cell."""
    from pipemagic.client.arguments import values_of
    from pipemagic.explore.sources import is_query

    if not is_query(words):
        return words, {}
    stmts = context.session.read(words, context.variables).stmts
    if len(stmts) != 1:
        return words, {}  # which is refused where it is read
    return stmts[0].sql or "", values_of(stmts[0])


def asked_rules(context: Context, table: str, args: Arguments) -> list[Rule]:
    """Give the rules that the options of ``check`` ask for; UsageError for one that cannot be read."""
    from pipemagic.explore import rules

    def holds(text: str) -> Rule:
        rules.holds(table, text)  # which refuses what is not one expression
        found = condition(context, text)
        return rules.holds(table, found.sql, found.args, text)

    return [
        *(rules.not_null(table, name) for words in args.all("--not-null") for name in names(words, "--not-null")),
        *(rules.unique(table, names(words, "--unique")) for words in args.all("--unique")),
        *(rules.within(table, *_range(words)) for words in args.all("--range")),
        *(rules.references(table, *_references(words)) for words in args.all("--references")),
        *([rules.foreign_keys(table)] if args.on("--foreign-keys") else []),
        *(holds(words) for words in args.all("--rows")),
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
