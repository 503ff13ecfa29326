"""Words that SQLite reads as something else: quoted placeholders, names in double quotes, aliases by accident."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from itertools import pairwise
from types import ModuleType

from pipemagic.explore.hints.keywords import misspelt_join
from pipemagic.explore.lint.context import ROWID, Context, is_known
from pipemagic.explore.lint.expressions import SHOWN, next_to
from pipemagic.explore.query import Query
from pipemagic.explore.sqlite_reference import BEFORE_OPERAND, KEYWORDS
from pipemagic.explore.token_tree import QUERY, Group
from pipemagic.sql import Token, normalize, quote, unquote
from pipemagic.suggestions import looks_like, unseen_difference
from pipemagic.text import shorten

# -- placeholders in quotes, which are texts: ':year' and '{year}' do not bind the variable year

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
    """Yield each quoted placeholder with the name of a variable."""
    for query in context.queries if context.variables and _SIGNS.search(context.text) else ():
        part = query.part
        for index, item in enumerate(part.items):
            if isinstance(item, Token) and item.kind == "string" and _is_value(part, index):
                instead = _binding(context, query, index)
                if instead:
                    yield f"{item.text} is a string: {instead}"


def _binding(context: Context, query: Query, index: int) -> str:
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


# -- names in double quotes that are no columns, which SQLite reads as strings


def double_quoted(context: Context) -> Iterator[str]:
    """Yield the names in double quotes that the statement does not define: SQLite reads them as strings."""
    for query, index, token in _undefined(context):
        if not _binding(context, query, index):
            yield f"{_read_as_string(token)}: {_instead(context, unquote(token.text))}"


def double_quoted_placeholders(context: Context) -> Iterator[str]:
    """Yield the placeholders of variables in double quotes: SQLite reads them as strings."""
    for query, index, token in _undefined(context):
        if instead := _binding(context, query, index):
            yield f"{_read_as_string(token)}: {instead}"


def _read_as_string(token: Token) -> str:
    string, shown = "'" + unquote(token.text).replace("'", "''") + "'", token.text
    return f"{shorten(shown, SHOWN)} is not a column; SQLite reads it as the string {shorten(string, SHOWN)}"


def _instead(context: Context, name: str) -> str:
    columns = (column for query in context.queries for source in query.sources for column in source.names)
    other = looks_like(name, columns)
    return f"write {quote(other)};{unseen_difference(name, other)}" if other else "use single quotes"


def _undefined(context: Context) -> Iterator[tuple[Query, int, Token]]:
    """Yield the names in double quotes that the statement does not define, and their places."""
    if '"' not in context.text:
        return
    queries = context.queries
    sources = [source for query in queries for source in query.sources]
    if not all(map(is_known, sources)):
        return
    defined, quoted = {*ROWID, *context.tables}, list[tuple[Query, int, Token]]()
    for source in sources:
        defined |= {source.label.lower(), *map(str.lower, source.names)}
        if source.table is not None:
            defined |= {column.name.lower() for column in source.table.columns}
    for query in queries:
        for name, table in query.common.items() if query.part.word(0) in QUERY else ():
            defined |= {name, *(column.lower() for column, _ in table.typed)}
        for index, token in enumerate(query.part.items):
            if isinstance(token, Token) and query.part.is_name(index):
                before, after = (next_to(query.part, index + step) for step in (-1, 1))
                if before not in BEFORE_OPERAND or after in (".", ")"):
                    defined.add(normalize(token.text))
                elif token.text.startswith('"'):
                    quoted.append((query, index, token))
    has_subquery = sum(query.part.word(0) in QUERY for query in queries) > 1
    for query, index, token in quoted:
        name = unquote(token.text)
        # A column of a subquery may have any name.
        is_simple = re.fullmatch(r"[\w ]*", name) is not None and not name.lower().startswith("column")
        if name.lower() not in defined and (is_simple or not has_subquery):
            yield query, index, token


# -- words that SQLite reads as an alias: a misspelt LEFT before JOIN, and the GO of SQL Server at the end


def misspelt_joins(context: Context) -> Iterator[str]:
    """Yield each alias before JOIN that nothing uses and that is a misspelt keyword."""
    tokens = context.statement.tokens
    if not any(token.word == "JOIN" for token in tokens):
        return
    used = {token.word for token, after in pairwise(tokens) if after.text == "."}
    for query in context.queries:
        for at, word in enumerate(query.part.words()):
            alias = _alias(query.part, at - 1) if word == "JOIN" else None
            meant = misspelt_join(alias.text) if alias else ""
            if alias and meant and alias.word not in used:
                yield f"SQLite reads {alias.text} as an alias, so this is an inner join: write {meant} JOIN"


def batch_ends(context: Context) -> Iterator[str]:
    """Yield the GO on the last line of a query."""
    part = context.queries[-1].part if context.queries else Group()
    last = _alias(part, len(part.items) - 1)
    if last is None or last.word != "GO" or not context.statement.is_query:
        return
    _, line_break, indent = context.text[: last.start].rpartition("\n")
    if line_break and not indent.strip():
        yield f"SQLite reads {last.text} as an alias: remove it"


def _alias(part: Group, at: int) -> Token | None:
    """Return the word at an index if it is an alias without AS; None for any other one."""
    item, before = part.items[at] if at > 0 else None, part.word(at - 1)
    is_word = isinstance(item, Token) and item.kind == "word" and item.word not in KEYWORDS
    return item if isinstance(item, Token) and is_word and before not in KEYWORDS | {".", ","} else None


# -- numbers with a thousands separator, which are two numbers

_ZEROS = re.compile(r"0\d\d")
_SHORT = re.compile(r"\d{1,3}")


def separated_numbers(context: Context) -> Iterator[str]:
    """Yield each ``1,000``: two numbers, and the second one begins with a zero."""
    tokens = context.statement.tokens
    for first, comma, last in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_apart = comma.text != "," or first.end != comma.start or comma.end != last.start
        if not is_apart and _SHORT.fullmatch(first.text) and _ZEROS.fullmatch(last.text):
            number = f"{first.text},{last.text}"
            yield f"{number} is two numbers, {first.text} and {int(last.text)}: write {first.text}{last.text}"
