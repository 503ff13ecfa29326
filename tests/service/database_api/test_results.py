"""Rows as JSON: each value in the form of the protocol, and few rows at a time while they are large."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.hrana.values import MAX_INTEGER, MIN_INTEGER
from pipemagic.service.database_api import results
from pipemagic.service.database_api.results import Budget, BufferedRows, TooLarge
from pipemagic.service.executor import UNVERIFIED
from pipemagic.service.limits import MemoryBudget

INTEGERS, FLOATS = st.integers(MIN_INTEGER, MAX_INTEGER), st.floats(allow_nan=False)
TEXTS, BLOBS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.binary(max_size=5)
ANY = st.one_of(st.none(), INTEGERS, FLOATS, TEXTS, BLOBS)


@given(st.tuples(ANY, ANY), st.booleans())
def test_a_row_is_json_of_its_values(row, signs):
    cells = json.loads(results.encode(results.to_wire(row, signs=signs)))
    types = {type(None): "null", int: "integer", float: "float", str: "text", bytes: "blob"}
    assert [cell["type"] for cell in cells] == [types[type(value)] for value in row]
    for cell, value in zip(cells, row, strict=True):
        if isinstance(value, float):
            assert cell["value"] == (None if math.isinf(value) else value)
            assert cell.get("sign") == (math.copysign(1, value) if math.isinf(value) and signs else None)
        elif isinstance(value, int | str):
            assert cell["value"] == str(value)


@pytest.mark.parametrize("by_columns", [False, True])
def test_no_more_rows_are_read_at_once_than_fit_the_limit(by_columns):
    """Rows become large after thousands of small ones, when many are read at a time."""
    read = []

    def rows() -> Iterator[results.SqlRow]:
        for number in range(20_000):
            read.append(number)
            yield (number,) if number < 6000 else ("x" * 1_000_000,)

    budget = Budget(4_000_000, MemoryBudget(2**30), UNVERIFIED)
    with pytest.raises(TooLarge):
        BufferedRows(budget, want_rows=True, by_columns=by_columns).take((), rows())
    assert len(read) < 6000 + 4 * results.STEP


def test_a_response_that_was_sent_takes_no_memory_any_more():
    """The thread of an abandoned statement may still convert its rows."""
    memory = MemoryBudget(2**30)
    budget = Budget(4_000_000, memory, UNVERIFIED)
    budget.spend(1_000_000)
    budget.release()
    with pytest.raises(TooLarge):
        budget.spend(1)
    budget.release()
    assert memory.take(UNVERIFIED, 2**29)


def test_rows_that_arrive_slowly_are_read_one_at_a_time():
    rows = iter([(1,), (2,)])
    assert [len(results.read(rows, seconds=1e-9)) for _ in range(3)] == [1, 1, 0]
