"""Which tables a query reads, from its tokens."""

from __future__ import annotations

from pipemagic import sql
from pipemagic.client.heads import head

_OPENS = ("FROM", "JOIN", "INTO", "UPDATE")
_CLOSES = frozenset({
    "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "SELECT", "SET", "VALUES",
    "RETURNING",
})  # fmt: skip


def tables(text: str) -> set[str]:
    """Give the names behind FROM and JOIN, without quotes and in small letters; not those with a schema."""
    words = [token for token in sql.tokens(text) if token.kind not in ("space", "comment")]
    found: set[str] = set()
    inside = [False]  # for each parenthesis that is open: whether what it holds is a list of tables
    awaited = False
    for number, token in enumerate(words):
        word = token.text.upper() if token.kind == "word" else ""
        if token.text == "(" and token.kind == "op":
            inside.append(awaited)  # FROM (a JOIN b)
        elif token.text == ")" and token.kind == "op":
            awaited = False
            if len(inside) > 1:
                inside.pop()
        elif word in _OPENS:
            inside[-1] = awaited = True
        elif word in _CLOSES:
            inside[-1] = awaited = False
        elif token.text == ",":
            awaited = inside[-1]
        elif token.kind in ("word", "quoted"):
            if awaited and [one.text for one in words[number + 1 : number + 2]] != ["."]:
                found.add(bare(token.text))
            awaited = False
    return found


def own_tables(text: str) -> set[str]:
    """Give the names that a statement's own WITH makes, as they are compared."""
    return {bare(name) for name in head(text).own}


def bare(name: str) -> str:
    """Give a name as it is compared: without its quotes, in small letters."""
    quote = name[:1]
    if quote in ('"', "`") and name[-1:] == quote and len(name) > 1:
        name = name[1:-1].replace(quote * 2, quote)
    elif quote == "[" and name.endswith("]"):
        name = name[1:-1]
    return name.lower()
