"""SQL as if it ran at another moment: in statements, and in the views, triggers and defaults that a database stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from pipemagic import sql
from pipemagic.explore.schema import Relation

_CLOCKS = {"CURRENT_DATE": "%Y-%m-%d", "CURRENT_TIME": "%H:%M:%S", "CURRENT_TIMESTAMP": "%Y-%m-%d %H:%M:%S"}
_FUNCTIONS = frozenset(["DATE", "TIME", "DATETIME", "JULIANDAY", "UNIXEPOCH", "STRFTIME", "TIMEDIFF"])
_FRACTIONS = ("'subsec'", "'subsecond'")


def at(text: str, moment: datetime) -> str:
    """Return SQL with a fixed moment in the place of the current time."""
    stamp = f"'{moment:%Y-%m-%d %H:%M:%S}'"
    parts: list[str] = []
    end = 0

    def replace(start: int, stop: int, new: str) -> None:
        nonlocal parts, end
        parts, end = [*parts, text[end:start], new], stop

    functions: list[str] = []  # those of the open parentheses
    tokens = sql.significant(text)
    for index, token in enumerate(tokens):
        start, function = token.start, functions[-1] if functions else ""
        arguments = [each.text.lower() for each in tokens[max(index - 3, 0) : index]]
        is_moment = arguments[-1:] == ["("] or (function == "STRFTIME" and arguments[:1] + arguments[2:] == ["(", ","])
        if token.word in _CLOCKS:
            replace(start, token.end, f"'{moment.strftime(_CLOCKS[token.word])}'")
        elif token.text == "(":
            functions.append(tokens[index - 1].word if index else "")
        elif token.text == ")" and functions:
            functions.pop()
            if function in _FUNCTIONS and arguments[-1] == "(" and function != "STRFTIME":
                replace(start, start, stamp)  # date() is date('now')
            elif function == "STRFTIME" and arguments[-2:-1] == ["("]:
                replace(start, start, f", {stamp}")  # strftime('%Y') is strftime('%Y', 'now')
        elif token.text.lower() == "'now'" and _FUNCTIONS.intersection(functions):
            replace(start, token.end, stamp)
        elif function in _FUNCTIONS and is_moment and token.text.lower() in _FRACTIONS:
            replace(start, start, f"{stamp}, ")  # unixepoch('subsec') is unixepoch('now', 'subsec')
    return "".join([*parts, text[end:]])


def has_today(rows: Iterable[Iterable[object]], now: datetime) -> bool:
    """Return True if a value is of today, so probably another one tomorrow."""
    today = f"{now:%Y-%m-%d}"
    return any(isinstance(value, str) and value.startswith(today) for row in rows for value in row)


def definitions_at(relations: Iterable[Relation], moment: datetime) -> Iterator[str]:
    """Yield statements that replace views, triggers and tables that use the current time by ones with a fixed moment.

    They are for a transaction that is rolled back: a table is created again with its rows, and keys of AUTOINCREMENT
    that are no longer used may come again.
    """
    for relation in relations:
        text = relation.sql or ""
        dependent = [each.sql for each in relation.indexes] + [each.sql for each in relation.triggers]
        if relation.kind not in ("table", "view") or relation.temporary:
            continue
        if at(text, moment) != text:
            yield from _again(relation, at(text, moment))
            yield from (at(each, moment) for each in dependent if each)
        else:
            for trigger in relation.triggers:
                if at(trigger.sql, moment) != trigger.sql:
                    yield f"DROP TRIGGER main.{sql.quote(trigger.name)}"
                    yield at(trigger.sql, moment)


def _again(relation: Relation, definition: str) -> Iterator[str]:
    """Yield the statements that create a view, or a table with its rows, by another definition."""
    name, stored = f"main.{sql.quote(relation.name)}", sql.quote(f"{relation.name} as stored")
    if relation.kind == "view":
        yield from (f"DROP VIEW {name}", definition)
        return
    columns = ", ".join(
        sql.quote(column.name) for column in relation.columns if not (column.hidden or column.generated)
    )
    yield from (
        "PRAGMA defer_foreign_keys = ON",
        f"CREATE TABLE {stored} AS SELECT {columns} FROM {name}",
        f"DROP TABLE {name}",
        definition,
        f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {stored}",
        f"DROP TABLE {stored}",
    )
