"""Convert rows of SQLite to JSON, as published clients read it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from sys import getsizeof
from typing import Any, NamedTuple, TypeAlias

import msgspec

from pipemagic.hrana import values
from pipemagic.hrana.values import NULL, Float, Integer, SqlValue, Text, Value

SqlRow: TypeAlias = tuple[SqlValue, ...]

MANY = 16
"""Rows from which on they are written column by column."""

STEP = 8
"""Rows that are read between two checks of their size."""
SLOW, SLOW_CELL = 0.0001, 1e-7
"""Seconds that a step, and each of its cells, may take without being measured: large values take longer."""

encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines

_WIRE: dict[type, Callable[[Any], Value]] = {
    int: lambda number: Integer(str(number)),
    float: Float,  # JSON writes an infinity as null
    str: Text,
    type(None): lambda _: NULL,
    bytes: values.encode,
}
_WITH_SIGNS: dict[type, Callable[[Any], Value]] = {**_WIRE, float: values.encode_float}


def read(source: Iterator[SqlRow], many: int, size: int) -> list[SqlRow]:
    """Read up to ``many`` rows, but not much more than ``size`` bytes; measuring all of them would take too long."""
    rows: list[SqlRow] = []
    now = time.perf_counter()
    while size > 0 and (step := list(islice(source, min(STEP, many - len(rows))))):
        rows += step
        started, now = now, time.perf_counter()
        if now > started + SLOW + SLOW_CELL * len(step) * len(step[0]):
            size -= sum(map(getsizeof, chain.from_iterable(step)))
    return rows


class Form(NamedTuple):
    """The form of the rows of a result: what `write` returns for each piece, comma-separated, between two brackets."""

    begin: bytes
    write: Callable[[Sequence[SqlRow]], bytes]
    end: bytes


def to_wire(cells: Sequence[SqlValue], *, signs: bool) -> list[Value]:
    """Return values in their form on the wire; with ``signs``, infinities have one."""
    wire = _WITH_SIGNS if signs else _WIRE
    return [wire[type(cell)](cell) for cell in cells]


def entries_of(rows: Sequence[SqlRow], *, signs: bool) -> bytes:
    """Return the entries of a cursor for rows, one a line; with ``signs``, infinities have one."""
    return b"\n".join([*_written(rows, b'{"type":"row","row":[%b]}', signs=signs), b""])


LISTED = Form(b"[", lambda rows: b",".join(_written(rows, b"[%b]", signs=False)), b"]")
"""The rows of a result as a list."""

LISTED_WITH_SIGNS = Form(b"[", lambda rows: b",".join(_written(rows, b"[%b]", signs=True)), b"]")
"""The same for a client that reads the signs of infinities (see `hrana.columns`)."""


def _written(rows: Sequence[SqlRow], form: bytes, *, signs: bool) -> Iterable[bytes]:
    """Return the JSON of each row: its cells, comma-separated, within the form."""
    if len(rows) < MANY:
        return [form % encode(to_wire(row, signs=signs))[1:-1] for row in rows]
    cell_forms, columns = zip(*(_column(cells, signs=signs) for cells in zip(*rows, strict=True)), strict=True)
    row_form = form % b",".join(cell_forms)
    return map(row_form.__mod__, zip(*columns, strict=True))


def _column(cells: tuple[Any, ...], *, signs: bool) -> tuple[bytes, Sequence[bytes]]:
    """Return the form of a column's cells and the text of each; cells of one type need no object each."""
    kinds = set(map(type, cells))
    if kinds == {int}:
        return b'{"type":"integer","value":"%b"}', encode(cells)[1:-1].split(b",")
    if kinds == {float}:
        numbers = encode(cells)
        if not signs or b"null" not in numbers:  # which stands for an infinity
            return b'{"type":"float","value":%b}', numbers[1:-1].split(b",")
    if kinds == {str}:
        return b'{"type":"text","value":%b}', _encode_lines(cells).splitlines()
    return b"%b", _encode_lines(to_wire(cells, signs=signs)).splitlines()
