"""Dates without quotes, which are subtractions and divisions: 2024-01-31 is 1992."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from itertools import pairwise

from pipemagic.explore.lint.context import Context
from pipemagic.explore.query import Group
from pipemagic.sql import Token


def unquoted_dates(context: Context) -> Iterator[str]:
    """Yield each date that is written without quotes."""
    if "-" in context.text or "/" in context.text:
        for query in context.queries:
            yield from _unquoted_dates(query.part)


def _unquoted_dates(part: Group) -> Iterator[str]:
    index = 0
    while index < len(part.items):
        date, size = _date_at(part, index)
        index += size
        if date:
            yield date


def _date_at(part: Group, index: int) -> tuple[str, int]:
    """Return the note on a date at an index, and its number of tokens; '' and 1 if there is none."""
    tokens = [item for item in part.items[index : index + 5] if isinstance(item, Token)]
    texts = [token.text for token in tokens]
    if not texts or len(texts[0]) not in (2, 4) or not texts[0].isdecimal() or part.word(index - 1) in ("-", "/", "*"):
        return "", 1
    for size in (5, 3):
        adjacent = all(a.end == b.start for a, b in pairwise(tokens[:size]))
        if len(texts) >= size and adjacent and (days := _readings(texts[:size])):
            shown, value = "".join(texts[:size]), _value(texts[:size])
            write = " or ".join(f"'{day}'" for day in days)
            is_dates = f"{shown} without quotes is {value}"
            return f"{is_dates}: write {write}", size
    return "", 1


def _readings(texts: list[str]) -> list[str]:
    """Return the dates or the month that numbers with signs between them can mean."""
    numbers, signs = texts[::2], set(texts[1::2])
    if len(signs) != 1 or not signs <= {"-", "/"} or not all(number.isdecimal() for number in numbers):
        return []
    sizes = [len(number) for number in numbers]
    if sizes == [4, 2] and signs == {"-"} and numbers[1][0] == "0" and numbers[1] != "00":
        return [f"{numbers[0]}-{numbers[1]}"]  # 2024-12 is a subtraction
    if sizes == [4, 2, 2]:
        orders = [numbers]
    elif sizes == [2, 2, 4]:
        orders = [[numbers[2], numbers[0], numbers[1]], [numbers[2], numbers[1], numbers[0]]]
    else:
        return []
    return list(dict.fromkeys(day for order in orders if (day := _day(*map(int, order)))))


def _day(year: int, month: int, day: int) -> str:
    try:
        return datetime.date(year, month, day).isoformat() if year >= 1000 else ""
    except ValueError:
        return ""


def _value(texts: list[str]) -> int:
    """Return the number that SQLite computes."""
    first, *others = map(int, texts[::2])
    for number in others:
        first = first - number if texts[1] == "-" else first // number
    return first
