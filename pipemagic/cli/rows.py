"""Rows of a result as text: a table for people, CSV and JSON for programs."""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pipemagic.sql import display_width
from pipemagic.terminals import visible

Columns = Sequence[str]
Rows = Sequence[Sequence[Any]]


def table(columns: Columns, rows: Rows) -> Iterator[str]:
    """Return the lines of an aligned table; numbers to the right, NULL as NULL."""
    cells = [list(map(shown, row)) for row in rows]
    titles = list(map(visible, columns))
    widths = [max(map(display_width, column)) for column in zip(titles, *cells, strict=True)]
    to_right = [_is_numeric(column) for column in zip(*rows, strict=True)] or [False] * len(titles)
    yield _line(titles, widths, to_right)
    yield "  ".join("-" * width for width in widths)
    for row in cells:
        yield _line(row, widths, to_right)


def csv(columns: Columns, rows: Rows) -> Iterator[str]:
    """Return the lines of CSV (RFC 4180) with a header: NULL is empty, an empty text is ``""``."""
    yield ",".join(_csv_cell(name) for name in columns)
    for row in rows:
        yield ",".join(map(_csv_cell, row))


def json_lines(columns: Columns, rows: Rows) -> Iterator[str]:
    """Return the lines of a JSON array of objects; blobs as ``{"base64": ...}``, infinity as text."""
    keys = _distinct(columns)
    lines = [json.dumps(dict(zip(keys, map(_json_cell, row), strict=True)), ensure_ascii=False) for row in rows]
    if not lines:
        yield "[]"
    for number, line in enumerate(lines):
        yield ("[" if not number else " ") + line + ("]" if number == len(lines) - 1 else ",")


MODES: dict[str, Callable[[Columns, Rows], Iterable[str]]] = {"table": table, "csv": csv, "json": json_lines}


def shown(value: Any) -> str:
    """Write a value on one line of a terminal, which it cannot disturb."""
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"x'{value.hex()}'"
        case "NULL":
            return "'NULL'"  # the text
        case str():
            return visible(value)
    return str(value)


def _line(cells: Sequence[str], widths: Sequence[int], to_right: Sequence[bool]) -> str:
    padded = []
    for cell, width, right in zip(cells, widths, to_right, strict=True):
        blanks = " " * (width - display_width(cell))
        padded.append(blanks + cell if right else cell + blanks)
    return "  ".join(padded).rstrip()


def _is_numeric(column: Iterable[Any]) -> bool:
    values = [value for value in column if value is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def _csv_cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bytes():
            return value.hex()
        case str() if not value or re.search(r'[",\r\n]', value):
            return '"' + value.replace('"', '""') + '"'
    return str(value)


def _json_cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode("ascii")}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _distinct(names: Sequence[str]) -> list[str]:
    """Return a different key for each column: an object has each key once."""
    keys: list[str] = []
    for name in names:
        key, number = name, 1
        while key in keys:
            key, number = f"{name}:{number}", number + 1
        keys.append(key)
    return keys
