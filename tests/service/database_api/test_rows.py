"""Rows as JSON: those that are written column by column are, byte by byte, those that are written one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.hrana.values import MAX_INTEGER, MIN_INTEGER
from pipemagic.service.database_api import rows as written
from pipemagic.service.database_api.results import Budget, BufferedRows, TooLarge

INTEGERS, FLOATS = st.integers(MIN_INTEGER, MAX_INTEGER), st.floats(allow_nan=False)
TEXTS, BLOBS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.binary(max_size=5)
ANY = st.one_of(st.none(), INTEGERS, FLOATS, TEXTS, BLOBS)
COLUMN = st.sampled_from([st.none(), INTEGERS, FLOATS, TEXTS, BLOBS, st.none() | TEXTS, st.none() | INTEGERS, ANY])
SIZE = written.MANY + 1

TABLES = st.lists(COLUMN, min_size=1, max_size=4).flatmap(
    lambda columns: st.lists(st.tuples(*columns), min_size=SIZE, max_size=SIZE)
)


@given(TABLES, st.booleans())
def test_many_rows_are_written_as_each_of_them(table, signs):
    form = written.LISTED_WITH_SIGNS if signs else written.LISTED
    assert form.write(table) == b",".join(form.write([row]) for row in table)
    assert written.entries_of(table, signs=signs) == b"".join(written.entries_of([row], signs=signs) for row in table)


@given(st.tuples(ANY, ANY), st.booleans())
def test_a_row_is_json_of_its_values(row, signs):
    (line,) = written.entries_of([row], signs=signs).splitlines()
    entry = json.loads(line)
    form = written.LISTED_WITH_SIGNS if signs else written.LISTED
    assert entry == {"type": "row", "row": json.loads(form.write([row]))}
    types = {type(None): "null", int: "integer", float: "float", str: "text", bytes: "blob"}
    assert [cell["type"] for cell in entry["row"]] == [types[type(value)] for value in row]
    for cell, value in zip(entry["row"], row, strict=True):
        if isinstance(value, float):
            assert cell["value"] == (None if math.isinf(value) else value)
            assert cell.get("sign") == (math.copysign(1, value) if math.isinf(value) and signs else None)
        elif isinstance(value, int | str):
            assert cell["value"] == str(value)


@pytest.mark.parametrize("by_columns", [False, True])
def test_no_more_rows_are_read_at_once_than_fit_the_limit(by_columns):
    """Rows become large behind thousands of small ones, after which many are read at once."""
    read = []

    def rows() -> Iterator[written.SqlRow]:
        for number in range(20_000):
            read.append(number)
            yield (number,) if number < 6000 else ("x" * 1_000_000,)

    sink = BufferedRows(Budget(4_000_000), want_rows=True, by_columns=by_columns)
    with pytest.raises(TooLarge):
        sink.take((), rows())
    assert len(read) < 6000 + 4 * written.STEP
