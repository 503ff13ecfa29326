"""Rows by columns: how the service writes large results for a client that asks for it.

A request with the header `HEADER: VALUE` says that the client reads this. The ``rows`` of a result may then be one
`Columns` in place of the list of rows, and a cursor may send `Rows` entries in place of ``row`` entries. A float of a
row that is infinite has a ``sign``. Everything else of a response is as always; without the
header, so are the rows. Numbers are little-endian and of 64 bits; bytes stand in JSON as base64. It costs both sides a
few steps for a column of thousands of values in place of some for every cell.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pipemagic.hrana.values import Value

HEADER, VALUE = "Pipemagic-Rows", "columns"

MOST_ROWS = 2**16
"""Rows of a part at most: where all is NULL only its size says how many they are, which nobody should take on trust."""


class Nulls(msgspec.Struct, frozen=True, tag_field="type", tag="null"):
    """Nothing but NULL."""


class Integers(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="integer"):
    """Signed integers; 0 for NULL. ``missing`` has one byte for each value, 1 for NULL; None if none is."""

    values: bytes
    missing: bytes | None = None


class Floats(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="float"):
    """Doubles, infinities as they are; 0.0 for NULL."""

    values: bytes
    missing: bytes | None = None


class Texts(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="text"):
    """Texts one after another in UTF-8, and where each ends (in bytes from the beginning); '' for NULL."""

    values: bytes
    ends: bytes
    missing: bytes | None = None


class Blobs(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="blob"):
    """Blobs one after another, and where each ends; empty for NULL."""

    values: bytes
    ends: bytes
    missing: bytes | None = None


class Mixed(msgspec.Struct, frozen=True, tag_field="type", tag="mixed"):
    """Values of several kinds, as they stand in rows."""

    values: list[Value]


Column: TypeAlias = Nulls | Integers | Floats | Texts | Blobs | Mixed


class Part(msgspec.Struct, frozen=True):
    """Some rows that follow each other: how many, and their values column by column."""

    size: int
    columns: list[Column]


class Columns(msgspec.Struct, frozen=True):
    """All rows of a result."""

    parts: list[Part]


class Rows(msgspec.Struct, frozen=True, tag_field="type", tag="rows"):
    """An entry of a cursor: some rows of the step that began last."""

    part: Part
