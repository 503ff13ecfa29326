"""A moment that is stored in a column of another form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from pipemagic.explore.lint.context import Context
from pipemagic.explore.query import Group, Query
from pipemagic.explore.schema import Column
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, dates
from pipemagic.sql.type_affinity import is_date, is_day_type

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d.*", re.ASCII)


def stored_moments(context: Context) -> Iterator[str]:
    """Yield each parameter of a statement that is stored in a column of another form."""
    queries = context.queries if context.args else ()
    return chain.from_iterable(_stored_moments(query, context.args) for query in queries)


def _stored_moments(query: Query, args: Mapping[str, SqlValue]) -> Iterator[str]:
    """Yield each parameter with a time that is stored in a DATE column, or a day in a column of times."""
    for column, parameter in _stored(query):
        value, name, declared = args.get(parameter), quote_if_needed(column.name), column.type
        if not isinstance(value, str) or not is_date(declared):
            continue
        if is_day_type(declared) and _MOMENT.fullmatch(value):
            yield f"{name} is declared {declared} and {parameter} has a time ({value}): write date({parameter})"
        elif not is_day_type(declared) and dates.is_day(value):
            yield f"{name} is declared {declared} and {parameter} has no time ({value}): write datetime({parameter})"


def _stored(query: Query) -> Iterator[tuple[Column, str]]:
    """Yield the columns that INSERT and UPDATE fill with a parameter itself, and the parameter."""
    part, table = query.part, query.sources[0].table if query.sources else None
    if table is None:
        return
    by_name = {column.name.lower(): column for column in table.columns}
    for name, value in chain(_assigned(part), _inserted(part, [column.name for column in table.visible])):
        item = value.items[0] if len(value.items) == 1 else None
        if name.lower() in by_name and isinstance(item, Token) and item.kind == "param":
            yield by_name[name.lower()], item.text


def _assigned(part: Group) -> Iterator[tuple[str, Group]]:
    """Yield the names and values of ``SET name = value, ...``."""
    words = part.words()
    for start in (at + 1 for at, word in enumerate(words) if word == "SET"):
        end = next((at for at in range(start, len(words)) if part.clause(at)), len(words))
        for item in part.slice(start, end).split():
            if item.is_name(0) and item.word(1) == "=":
                yield item.name(0), item.slice(2)


def _inserted(part: Group, names: Sequence[str]) -> Iterator[tuple[str, Group]]:
    """Yield the names and values of ``INTO table (name, ...) VALUES (value, ...), ...``; ``names`` are all columns."""
    words = part.words()
    if "INTO" not in words or "VALUES" not in words:
        return
    start = words.index("VALUES")
    listed = next((part.group(at) for at in range(words.index("INTO"), start) if part.group(at) is not None), None)
    if listed is not None:
        names = [item.name(0) if item.is_name(0) else "" for item in listed.split()]
    for at in range(start + 1, len(words)):
        row = part.group(at)
        if row is None and words[at] != ",":
            return
        yield from zip(names, row.split() if row is not None else (), strict=False)
