"""Display of values: shortened to one line in a page, or in full."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipemagic.explore.previews import decode_preview
from pipemagic.explore.schema import Column
from pipemagic.frames.columns import InvalidText
from pipemagic.hrana.values import SqlValue
from pipemagic.sql.type_affinity import affinity
from pipemagic.text import escape_controls, plural

TEXT_BYTES = 400
"""Maximum bytes of a text that are sent with a page: at least `CELL_LENGTH` characters."""

CELL_LENGTH = 80
"""Maximum characters of a text shown in a cell."""

FULL_LENGTH = 100_000
"""Maximum characters of a full value."""

BLOB_BYTES = 16
"""Maximum bytes of a blob that are sent."""

NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,4})?", re.IGNORECASE | re.ASCII)
BLOB = re.compile(r"x'((?:[0-9a-f]{2})*)'", re.IGNORECASE)


@dataclass(frozen=True)
class FullValue:
    """A long value: its text and a description of its size."""

    text: str
    size: str


@dataclass(frozen=True)
class TableCell:
    """A value on a page as one line of text; ``cut`` is True if it is truncated.

    ``full`` then holds the full value, or None if it was too long to be sent with the page. ``value`` is the value as
    it is copied, without quotes, '' for NULL; None if it was too long.
    """

    text: str
    kind: Literal["null", "number", "text", "blob"]
    value: str | None
    cut: bool = False
    full: FullValue | None = None


def row_cells(row: Sequence[SqlValue], columns: Sequence[Column]) -> tuple[TableCell, ...]:
    """Return the cells of a row as sent: `LETTER`, then type, value and size in bytes of each column."""
    parts = zip(row_values(row), row[3::3], columns, strict=True)
    return tuple(_cell(value, int(stored or 0), column) for value, stored, column in parts)


def row_values(row: Sequence[SqlValue]) -> list[SqlValue]:
    """Return the values of a row as sent, of which the long ones are truncated."""
    letter, *rest = row
    return [decode_preview(kind, value, letter, TEXT_BYTES) for kind, value in zip(rest[::3], rest[1::3], strict=True)]


def _cell(value: SqlValue, size: int, column: Column) -> TableCell:
    """Return the cell for a value of ``size`` bytes, which may have been truncated by the server."""
    match value:
        case None:
            return TableCell("NULL", "null", "")
        case InvalidText():
            cut, full = size > BLOB_BYTES, full_value(value) if size <= TEXT_BYTES else None
            return TableCell(_bytes(value, size, " of text, not UTF-8"), "blob", full.text if full else None, cut, full)
        case bytes():
            return TableCell(_bytes(value, size), "blob", f"x'{value.hex()}'" if size <= BLOB_BYTES else None)
        case str():
            return _text(value, column, cut=size > TEXT_BYTES)
        case float() if math.isinf(value):
            shown = "Inf" if value > 0 else "-Inf"
            return TableCell(shown, "number", shown)
    return TableCell(repr(value), "number", repr(value))


def _bytes(value: bytes, size: int, about: str = "") -> str:
    dots = "…" if size > BLOB_BYTES else ""
    return f"x'{value[:BLOB_BYTES].hex()}{dots}' ({plural(size, 'byte')}{about})"


def _text(value: str, column: Column, *, cut: bool) -> TableCell:
    """Return the cell for a text, quoted if it looks like NULL or a number or has surrounding whitespace."""
    if cut or len(value) > CELL_LENGTH:
        shown = escape_controls(value[:CELL_LENGTH]) + "…"
        return TableCell(shown, "text", None if cut else value, True, None if cut else full_value(value))
    is_ambiguous = affinity(column.type) != "TEXT" and (NUMBER.fullmatch(value) or BLOB.match(value))
    quotes = not value.strip() or value != value.strip() or value.upper() == "NULL" or value[0] == "'"
    shown = escape_controls(value)
    return TableCell(f"'{shown}'" if quotes or is_ambiguous else shown, "text", value)


def full_value(given: SqlValue, size: int | None = None) -> FullValue:
    """Return a full value; ``size`` is its length in characters or bytes if ``given`` is truncated."""
    if isinstance(given, InvalidText):
        shown = given[: FULL_LENGTH // 2]  # two hexadecimal digits per byte
        return FullValue(f"x'{shown.hex()}'", _size(size or len(given), len(shown), "byte") + " of text, not UTF-8")
    text = str(given)
    return FullValue(text[:FULL_LENGTH], _size(size or len(text), min(FULL_LENGTH, len(text)), "character"))


def _size(size: int, shown: int, thing: str) -> str:
    words = plural(size, thing)
    return f"{words}; the first {shown:,}" if shown < size else words
