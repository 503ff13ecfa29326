"""Values as a page of a table shows them, and as people read one of them at leisure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipemagic.counts import plural
from pipemagic.explore.schema import Column
from pipemagic.explore.sending import NotText, received
from pipemagic.explore.values import one_line
from pipemagic.hrana.values import SqlValue
from pipemagic.sql.type_affinity import affinity

LONGEST = 400
"""Bytes of a text that are sent with a page; those of `SHOWN` characters are no more."""

SHOWN = 80
"""Characters of a text that a cell of the page shows."""

WHOLE = 100_000
"""Characters of one value that are shown when all of it is asked for."""

BYTES = 16
"""Bytes that are sent of a blob."""

NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,4})?", re.IGNORECASE | re.ASCII)
BLOB = re.compile(r"x'((?:[0-9a-f]{2})*)'", re.IGNORECASE)


@dataclass(frozen=True)
class Whole:
    """A value to be read at leisure: the text, and how long it is in words."""

    text: str
    size: str


@dataclass(frozen=True)
class Cell:
    """A value as a page shows it: ``words`` on one line; ``cut`` if that is not all of a text.

    ``whole`` is all of it then, unless it is so long that it was not sent.
    """

    words: str
    kind: Literal["null", "number", "text", "blob"]
    cut: bool = False
    whole: Whole | None = None


def cells(row: Sequence[SqlValue], columns: Sequence[Column]) -> tuple[Cell, ...]:
    """Give the cells of a row as it was sent: `LETTER`, then type, value and bytes of each column."""
    letter, *rest = row
    parts = zip(rest[::3], rest[1::3], rest[2::3], columns, strict=True)
    return tuple(
        _cell(received(kind, given, letter, LONGEST), int(stored or 0), column) for kind, given, stored, column in parts
    )


def _cell(value: SqlValue, size: int, column: Column) -> Cell:
    """Show a value of ``size`` bytes, of which a part may have come."""
    match value:
        case None:
            return Cell("NULL", "null")
        case NotText():
            cut = size > BYTES
            whole = whole_of(value) if cut and size <= LONGEST else None
            return Cell(_bytes(value, size, " of text, not UTF-8"), "blob", cut, whole)
        case bytes():
            return Cell(_bytes(value, size), "blob")
        case str():
            return _text(value, column, cut=size > LONGEST)
        case float() if math.isinf(value):
            return Cell("Inf" if value > 0 else "-Inf", "number")
    return Cell(repr(value), "number")


def _bytes(value: bytes, size: int, about: str = "") -> str:
    dots = "…" if size > BYTES else ""
    return f"x'{value[:BYTES].hex()}{dots}' ({plural(size, 'byte')}{about})"


def _text(value: str, column: Column, *, cut: bool) -> Cell:
    """Show a text so that it can be told from NULL, from a number, and from another with blanks at its ends."""
    if cut or len(value) > SHOWN:
        return Cell(one_line(value[:SHOWN]) + "…", "text", True, None if cut else whole_of(value))
    looks_otherwise = affinity(column.type) != "TEXT" and (NUMBER.fullmatch(value) or BLOB.match(value))
    quotes = not value.strip() or value != value.strip() or value.upper() == "NULL" or value[0] == "'"
    return Cell(f"'{one_line(value)}'" if quotes or looks_otherwise else one_line(value), "text")


def whole_of(given: SqlValue, size: int | None = None) -> Whole:
    """Give a text for reading; ``size`` is how many characters, or bytes, it has if this is only its beginning."""
    if isinstance(given, NotText):
        shown = given[: WHOLE // 2]  # two letters for each
        return Whole(f"x'{shown.hex()}'", _size(size or len(given), len(shown), "byte") + " of text, not UTF-8")
    text = str(given)
    return Whole(text[:WHOLE], _size(size or len(text), min(WHOLE, len(text)), "character"))


def _size(size: int, shown: int, thing: str) -> str:
    words = plural(size, thing)
    return f"{words}; the first {shown:,}" if shown < size else words
