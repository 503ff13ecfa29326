"""Decode results by columns (`pipemagic/hrana/columns.py`) without code of pipemagic; make parts with the service's."""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from pipemagic.hrana.columns import Part
from pipemagic.hrana.values import SqlValue
from pipemagic.service.database_api.results import part_to_json

HEADERS = {"pipemagic-rows": "columns"}

Cell = Callable[[dict[str, Any]], Any]


def rows_of(result: dict[str, Any], cell: Cell) -> list[list[Any]]:
    """Return the rows of a result in either form; ``cell`` decodes a value of a row."""
    rows = result["rows"]
    if isinstance(rows, list):
        return [[cell(value) for value in row] for row in rows]
    assert set(rows) == {"parts"}
    return [row for part in rows["parts"] for row in rows_of_part(part, cell)]


def rows_of_part(part: dict[str, Any], cell: Cell) -> list[list[Any]]:
    """Return the rows of one part."""
    assert set(part) == {"size", "columns"}
    columns = [_values(column, part["size"], cell) for column in part["columns"]]
    return [list(row) for row in zip(*columns, strict=True)]


def _values(column: dict[str, Any], size: int, cell: Cell) -> list[Any]:
    if column["type"] == "null":
        return [None] * size
    if column["type"] == "mixed":
        values = [cell(value) for value in column["values"]]
    else:
        missing = b64decode(column["missing"]) if "missing" in column else bytes(size)
        assert len(missing) == size
        values = [None if gone else value for gone, value in zip(missing, _present(column), strict=True)]
    assert len(values) == size
    return values


def _present(column: dict[str, Any]) -> list[Any]:
    data = b64decode(column["values"])
    match column["type"]:
        case "integer":
            return list(struct.unpack(f"<{len(data) // 8}q", data))
        case "float":
            return list(struct.unpack(f"<{len(data) // 8}d", data))
        case "text":
            return [part.decode() for part in _cut(data, b64decode(column["ends"]))]
        case "blob":
            return list(_cut(data, b64decode(column["ends"])))
    raise AssertionError(f"no column of an answer: {column!r}")


def _cut(data: bytes, ends: bytes) -> Iterator[bytes]:
    begin = 0
    for (end,) in struct.iter_unpack("<q", ends):
        yield data[begin:end]
        begin = end
    assert begin == len(data)


def to_part(rows: Sequence[tuple[SqlValue, ...]]) -> Part:
    """Return rows as the service sends them by columns; there must be at least one."""
    if not rows[0]:  # no result of the service has rows without columns
        return Part(len(rows), [])
    return msgspec.json.decode(b"".join(part_to_json(rows)), type=Part)
