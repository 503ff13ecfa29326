"""Rows as JSON: those that are written column by column are, byte by byte, those that are written one by one."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from pipemagic.hrana.values import MAX_INTEGER, MIN_INTEGER
from pipemagic.service.embedded import rows as written

INTEGERS, FLOATS = st.integers(MIN_INTEGER, MAX_INTEGER), st.floats(allow_nan=False)
TEXTS, BLOBS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.binary(max_size=5)
ANY = st.one_of(st.none(), INTEGERS, FLOATS, TEXTS, BLOBS)
COLUMN = st.sampled_from([st.none(), INTEGERS, FLOATS, TEXTS, BLOBS, st.none() | TEXTS, st.none() | INTEGERS, ANY])
SIZE = written.MANY + 1

TABLES = st.lists(COLUMN, min_size=1, max_size=4).flatmap(
    lambda columns: st.lists(st.tuples(*columns), min_size=SIZE, max_size=SIZE)
)


@given(TABLES)
def test_many_rows_are_written_as_each_of_them(table):
    assert written.LISTED.write(table) == b",".join(written.LISTED.write([row]) for row in table)
    assert written.entries_of(table) == b"".join(written.entries_of([row]) for row in table)


@given(st.tuples(ANY, ANY))
def test_a_row_is_json_of_its_values(row):
    (line,) = written.entries_of([row]).splitlines()
    entry = json.loads(line)
    assert entry == {"type": "row", "row": json.loads(written.LISTED.write([row]))}
    types = {type(None): "null", int: "integer", float: "float", str: "text", bytes: "blob"}
    assert [cell["type"] for cell in entry["row"]] == [types[type(value)] for value in row]
    for cell, value in zip(entry["row"], row, strict=True):
        if isinstance(value, float):
            assert cell["value"] == (None if math.isinf(value) else value)
        elif isinstance(value, int | str):
            assert cell["value"] == str(value)
