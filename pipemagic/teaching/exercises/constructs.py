"""Required and forbidden constructs of SQL, found in the tokens of statements.

The names are those of `CONSTRUCTS`, in upper or lower case, and ``NAME()`` for a call of a function. Strings, comments
and quoted names never count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from pipemagic.errors import SessionError
from pipemagic.explore.token_tree import QUERY, Group, nest
from pipemagic.sql import Token, split
from pipemagic.suggestions import did_you_mean

_CLAUSES = "WHERE|GROUP|ORDER|HAVING|LIMIT|UNION|EXCEPT|INTERSECT|WINDOW|SET|RETURNING"
_WINDOW = r"OVER (?!FROM\b|,|$)"
_KINDS = {"quoted": '""', "string": "''", "number": "0", "blob": "''", "param": "?"}

_PLAIN = (
    "WHERE, GROUP BY, HAVING, LIMIT, OFFSET, CROSS JOIN, UNION, UNION ALL, INTERSECT, EXCEPT, IN, LIKE, BETWEEN, CASE, "
    "RETURNING, ON CONFLICT, PRIMARY KEY, UNIQUE, CHECK, ON, USING, NATURAL, SAVEPOINT, "
    "PARTITION BY, FILTER, INSERT, UPDATE, DELETE"
)
CONSTRUCTS = {name: rf"\b{name}\b" for name in _PLAIN.split(", ")} | {
    "ORDER BY": r"\b(?:SELECT|VALUES|DELETE|UPDATE)\b.* ORDER BY\b",
    "DISTINCT": r"(?<!\bIS )(?<!\bIS NOT )\bDISTINCT\b",
    "JOIN": rf"\bJOIN\b|(?<!DISTINCT )\bFROM (?:(?!{_CLAUSES})\S+ )*?,",
    "count(*)": r"^\*$",
    "LEFT JOIN": r"\bLEFT (?:OUTER )?JOIN\b",
    "EXISTS": r"(?<!\bIF )(?<!\bIF NOT )\bEXISTS\b",
    "SELECT *": r"(?:\b(?:SELECT|ALL|DISTINCT)|[,.]) \*",
    "window function": rf"\) {_WINDOW}",
    "aggregate function": (
        r"\b(?:(?:COUNT|SUM|TOTAL|AVG|MEDIAN|GROUP_CONCAT|STRING_AGG|JSON_GROUP_ARRAY|JSON_GROUP_OBJECT) \(,?\)"
        rf"|(?:MIN|MAX) \(\))(?! (?:FILTER \(\) )?{_WINDOW})"
    ),
    "common table expression": r"\bWITH (?:RECURSIVE )?\S+ (?:\(,?\) )?AS\b",
    "recursive common table expression": r"\bWITH RECURSIVE\b",
    "subquery": r"(?<!\bAS )(?<!\bMATERIALIZED )\(SELECT\)",
    "literal rows": r"^(?!.*\b(?:INSERT|REPLACE)\b).*\bVALUES\b",
    "index": r"^CREATE (?:UNIQUE )?INDEX\b",
    "view": r"^CREATE (?:TEMP |TEMPORARY )?VIEW\b",
    "trigger": r"^CREATE (?:TEMP |TEMPORARY )?TRIGGER\b",
    "foreign key": r"\bREFERENCES\b",
}  # fmt: skip
"""For each construct a pattern of the words at one level of parentheses.

Names in lower case are nouns of messages. JOIN is also a list of tables after FROM.
"""

_CTE = "common table expression"
_ALIASES = {"WITH": _CTE, "CTE": _CTE, "RECURSIVE": f"recursive {_CTE}", "VALUES": "literal rows"}
_BY_LOWER = {name.lower(): name for name in CONSTRUCTS} | {alias.lower(): name for alias, name in _ALIASES.items()}
_CALL = re.compile(r"(\w+) ?\(\)")


def check_names(names: Iterable[str]) -> None:
    """Raise SessionError for the first name that is not a construct."""
    constructs = [*CONSTRUCTS, *_ALIASES]
    for name in map(str.strip, names):
        if name.lower() not in _BY_LOWER and not _CALL.fullmatch(name):
            hint = (
                f"{did_you_mean(name, constructs)}\nthe constructs are {', '.join(constructs)} and FUNCTION()".strip()
            )
            raise SessionError(f"unknown construct {name!r}", hint=hint)


def violations(sql: str, requires: Iterable[str], forbids: Iterable[str]) -> list[str]:
    """Return a message for each required construct that is absent and each forbidden one that is used."""
    return [
        *(f"must use {_noun(name)}" for name in requires if not uses(sql, name)),
        *(f"must not use {_noun(name)}" for name in forbids if uses(sql, name)),
    ]


def uses(sql: str, name: str) -> bool:
    """Return True if a statement of the script uses a construct."""
    call = _CALL.fullmatch(name.strip())
    pattern = rf"\b{call[1].upper()} \(" if call else CONSTRUCTS[_BY_LOWER[name.strip().lower()]]
    return any(re.search(pattern, level) for level in _levels(sql))


def _noun(name: str) -> str:
    """Return the name of a construct as it follows a verb."""
    noun = _BY_LOWER.get(name.strip().lower(), name.strip())
    article = "an" if noun[0] in "aeiou" else "a"
    return f"{article} {noun}" if noun.islower() and noun[-1] not in "s)" else noun


@lru_cache(maxsize=16)
def _levels(sql: str) -> tuple[str, ...]:
    """Return the words at each level of parentheses of each statement."""
    groups = [nest(statement.tokens).top for statement in split(sql)]
    for group in groups:
        groups += [item for item in group.items if isinstance(item, Group)]
    return tuple(" ".join(map(_word, group.items)) for group in groups)


def _word(item: Token | Group) -> str:
    """Return a word in capitals; a sign for other tokens; SELECT or a comma for the contents of parentheses."""
    if isinstance(item, Group):
        return "(SELECT)" if item.word(0) in QUERY else "(,)" if "," in item.words() else "()"
    return item.word or _KINDS.get(item.kind, item.text)
