"""Rows as SQLite gives them -> JSON, in the form that their reader takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from pipemagic.hrana import values
from pipemagic.hrana.cursors import Row
from pipemagic.hrana.values import NULL, Float, Integer, SqlValue, Text, Value

SqlRow: TypeAlias = tuple[SqlValue, ...]

encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines

_WIRE: dict[type, Callable[[Any], Value]] = {
    int: lambda number: Integer(str(number)),
    float: Float,
    str: Text,
    type(None): lambda _: NULL,
    bytes: values.encode,
}


class Form(NamedTuple):
    """How the rows of a result are written: what `write` gives for each piece, by commas, between two brackets."""

    begin: bytes
    write: Callable[[Sequence[SqlRow]], bytes]
    end: bytes

    def joined(self, pieces: Sequence[bytes]) -> msgspec.Raw:
        """Give all rows."""
        return msgspec.Raw(b"%b%b%b" % (self.begin, b",".join(pieces), self.end))


def to_wire(cells: Sequence[SqlValue]) -> list[Value]:
    """Give values as they stand on the wire."""
    wire = _WIRE
    return [wire[type(cell)](cell) for cell in cells]


def _listed(rows: Sequence[SqlRow]) -> bytes:
    return encode([to_wire(row) for row in rows])[1:-1]


LISTED = Form(b"[", _listed, b"]")
"""Rows as published clients read them."""


def entries_of(rows: Sequence[SqlRow]) -> bytes:
    """Give the entries of a cursor for rows, each in its line."""
    return _encode_lines([Row(to_wire(row)) for row in rows])
