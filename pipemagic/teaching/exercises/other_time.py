"""SQL as if it ran at another moment: in statements, and in the views, triggers and defaults that a database stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from pipemagic import sql
from pipemagic.explore.schema import Relation, same

_CLOCKS = {"CURRENT_DATE": "%Y-%m-%d", "CURRENT_TIME": "%H:%M:%S", "CURRENT_TIMESTAMP": "%Y-%m-%d %H:%M:%S"}
_FUNCTIONS = frozenset(["DATE", "TIME", "DATETIME", "JULIANDAY", "UNIXEPOCH", "STRFTIME", "TIMEDIFF"])
_NOW = ("'now'", '"now"')  # SQLite reads a name in quotes that is no column as a text
_DAY = 24 * 60 * 60
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
        elif token.text.lower() in _NOW and _FUNCTIONS.intersection(functions):
            replace(start, token.end, stamp)
        elif function in _FUNCTIONS and is_moment and token.text.lower() in _FRACTIONS:
            replace(start, start, f"{stamp}, ")  # unixepoch('subsec') is unixepoch('now', 'subsec')
    return "".join([*parts, text[end:]])


def has_today(rows: Iterable[Iterable[object]], now: datetime) -> bool:
    """Return True if a value is of today, so probably another one tomorrow: a text, or the result of unixepoch()."""
    today, seconds = f"{now:%Y-%m-%d}", now.timestamp()
    return any(
        value.startswith(today) if isinstance(value, str) else isinstance(value, int) and abs(value - seconds) < _DAY
        for row in rows
        for value in row
    )


def definitions_at(relations: Iterable[Relation], others: Sequence[Relation], moment: datetime) -> Iterator[str]:
    """Yield statements that replace views, triggers and tables that use the current time by ones with a fixed moment.

    ``others`` are all relations: tables with foreign keys to a replaced one are created again too, since dropping it
    changes their rows. The statements are for a transaction that is rolled back: a table is created again with its
    rows, and keys of AUTOINCREMENT that are no longer used may come again.
    """
    own = [each for each in relations if each.kind in ("table", "view") and not each.temporary]
    moved = [each for each in own if each.sql and at(each.sql, moment) != each.sql]
    for view in moved:
        if view.kind == "view":
            yield from (f"DROP VIEW main.{sql.quote(view.name)}", at(view.sql or "", moment))
            yield from (at(trigger.sql, moment) for trigger in view.triggers)
    tables = with_children([each for each in moved if each.kind == "table"], others)
    yield from _again(tables, moment)
    for relation in own:
        for trigger in relation.triggers:
            if relation not in [*moved, *tables] and at(trigger.sql, moment) != trigger.sql:
                yield from (f"DROP TRIGGER main.{sql.quote(trigger.name)}", at(trigger.sql, moment))


def with_children(relations: Iterable[Relation], others: Iterable[Relation]) -> list[Relation]:
    """Return relations, and behind them the others with foreign keys to them, directly or not."""
    found = [*relations]
    for parent in found:  # which grows
        for other in others:
            if other not in found and any(same(key.table, parent.name) for key in other.foreign_keys):
                found.append(other)
    return found


def _again(tables: Sequence[Relation], moment: datetime) -> Iterator[str]:
    """Yield the statements that create tables with their rows, indexes and triggers at a moment."""
    for table in tables:
        yield "PRAGMA defer_foreign_keys = ON"
        yield from (f"DROP TRIGGER main.{sql.quote(trigger.name)}" for trigger in table.triggers)
        yield f"CREATE TABLE {stored_as(table)} AS SELECT {_columns(table)} FROM main.{sql.quote(table.name)}"
    for table in reversed(tables):  # first those with foreign keys to others: a drop also deletes rows that refer to it
        yield f"DROP TABLE main.{sql.quote(table.name)}"
    for table in tables:
        columns = _columns(table)
        yield at(table.sql or "", moment)
        yield f"INSERT INTO main.{sql.quote(table.name)} ({columns}) SELECT {columns} FROM {stored_as(table)}"
        yield f"DROP TABLE {stored_as(table)}"
        yield from (index.sql for index in table.indexes if index.sql)
    for table in tables:
        yield from (at(trigger.sql, moment) for trigger in table.triggers)


def stored_as(table: Relation) -> str:
    """Return the quoted name of the copy that keeps the rows of a table while it is created again."""
    return sql.quote(f"{table.name} as stored")


def _columns(table: Relation) -> str:
    return ", ".join(sql.quote(each.name) for each in table.columns if not (each.hidden or each.generated))
