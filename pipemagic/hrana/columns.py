"""Rows by columns: the format of large results for clients that request it.

A client requests it with the header `HEADER: VALUE`. The ``rows`` of a result may then be one `Columns` instead of a
list of rows, and a cursor may send a `RowsEntry` instead of ``row`` entries. An infinite float in a row has a ``sign``.
The rest of a response is unchanged; without the header the rows are, too. Numbers are little-endian with 64 bits; bytes
are base64 in JSON. Both sides need a few steps for a column of thousands of values, instead of some for every cell.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pipemagic.hrana.values import Value

HEADER, VALUE = "Pipemagic-Rows", "columns"

MOST_ROWS = 2**16
"""The most rows of a part: the size of a part with only NULLs cannot be checked otherwise."""


MOST_CELLS = 2**24
"""The most values of a response that is read as a whole, and of a part of a cursor.

One takes at least 8 bytes in memory, but may take almost none in a response."""

CELL = 8
"""Bytes that a value takes at least."""


class Nulls(msgspec.Struct, frozen=True, tag_field="type", tag="null"):
    """Only NULLs."""


class Integers(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="integer"):
    """Signed integers; 0 for NULL. ``missing`` has one byte for each value, 1 for NULL; None if none is."""

    values: bytes
    missing: bytes | None = None


class Floats(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="float"):
    """Doubles, including infinities; 0.0 for NULL."""

    values: bytes
    missing: bytes | None = None


class Texts(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="text"):
    """Concatenated texts in UTF-8, and the end of each (in bytes from the start); '' for NULL."""

    values: bytes
    ends: bytes
    missing: bytes | None = None


class Blobs(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="blob"):
    """Concatenated blobs, and the end of each; empty for NULL."""

    values: bytes
    ends: bytes
    missing: bytes | None = None


class Mixed(msgspec.Struct, frozen=True, tag_field="type", tag="mixed"):
    """Values of several types, as in rows."""

    values: list[Value]


Column: TypeAlias = Nulls | Integers | Floats | Texts | Blobs | Mixed


class Part(msgspec.Struct, frozen=True):
    """Consecutive rows: their number, and their values column by column."""

    size: int
    columns: list[Column]


class Columns(msgspec.Struct, frozen=True):
    """All rows of a result."""

    parts: list[Part]


class RowsEntry(msgspec.Struct, frozen=True, tag_field="type", tag="rows"):
    """An entry of a cursor: rows of the current step."""

    part: Part
