"""Rows as JSON: each value in the form of the protocol, and few rows at a time while they are large."""

from __future__ import annotations

import json
import math
import struct
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import apsw
import pytest
from by_columns import to_part
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.hrana.columns import Blobs, Floats, Integers, Mixed, Nulls, Texts
from pipemagic.hrana.values import MAX_INTEGER, MIN_INTEGER
from pipemagic.service.database_api import results
from pipemagic.service.database_api.results import Budget, BufferedRows, TooLarge
from pipemagic.service.executor import UNVERIFIED, Waiter
from pipemagic.service.limits import MB
from pipemagic.service.memory import MemoryBudget, Reservation

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
    assert len(read) <= 6000 + 6


def test_the_memory_of_a_response_that_was_sent_is_returned_when_the_thread_that_fills_it_has_left():
    """The thread of an abandoned statement still converts its rows."""
    memory, thread_left = MemoryBudget(2**30), Waiter(math.inf)
    budget = Budget(4_000_000, memory, UNVERIFIED)
    budget.reservation.release_after(thread_left)
    budget.reservation.release()
    budget.spend(1_000_000)
    assert memory.taken >= 1_000_000
    thread_left.finish()
    assert memory.taken == 0


def test_two_threads_change_a_reservation():
    both = threading.Barrier(2)

    class Interrupted(MemoryBudget):
        def add(self, tenant, size):
            with suppress(threading.BrokenBarrierError):
                both.wait(0.1)  # for the other thread, which can get here only if it is not excluded
            return super().add(tenant, size)

    memory = Interrupted(2**30)
    reservation = Reservation(memory, UNVERIFIED)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(reservation.resize, [20, 300]))
    assert memory.taken == reservation.size


def test_rows_that_arrive_slowly_are_read_one_at_a_time():
    rows = iter([(1,), (2,)])
    assert [len(results.read(rows, seconds=1e-9)[0]) for _ in range(3)] == [1, 1, 0]


VALUES = [None, 7, -1.5, math.inf, "a\x01é😀", b"\0\xff", "\0" * 2_000_000 + "é😀" * 300_000, bytes(2_500_001)]


@pytest.mark.parametrize("signs", [False, True])
def test_rows_in_pieces_are_the_same_json(signs):
    rows = [tuple(VALUES), tuple(reversed(VALUES))]
    whole = results.encode([results.to_wire(row, signs=signs) for row in rows])
    pieces = list(results.large_rows_to_json(rows, signs=signs))
    assert b"[" + b"".join(pieces) + b"]" == whole
    assert max(map(len, pieces)) < 1_500_000


def test_a_part_in_pieces_is_the_same_json():
    columns = [(1, None), (1.5, math.inf), ("a", "é"), (b"x", None), (None, None), (1, "mixed")]
    part = to_part(list(zip(*columns, strict=True)))
    assert part.size == 2
    assert [type(column) for column in part.columns] == [Integers, Floats, Texts, Blobs, Nulls, Mixed]
    assert part.columns[2] == Texts("aé".encode(), struct.pack("<2q", 1, 3))


@pytest.mark.parametrize("by_columns", [False, True])
def test_a_row_that_cannot_fit_is_not_converted(by_columns):
    """Twenty values of 4 MB take 80 MB more if they are converted, and it is known before that they do not fit."""
    row = tuple(str(number) * 4_000_000 for number in range(10)) * 2
    budget = Budget(2**30, MemoryBudget(100 * MB), UNVERIFIED)
    sink = BufferedRows(budget, want_rows=True, by_columns=by_columns)
    with closing(apsw.Connection(":memory:")) as sqlite:
        sqlite.execute("CREATE TABLE t(a)").fetchall()  # SQLite's memory grows with a large row

        def rows() -> Iterator[results.SqlRow]:
            sqlite.execute("INSERT INTO t VALUES (zeroblob(8000000))").fetchall()
            yield row

        tracemalloc.start()
        try:
            with pytest.raises(TooLarge):
                sink.take((), rows())
            assert tracemalloc.get_traced_memory()[1] < 10 * MB
        finally:
            tracemalloc.stop()
    budget.reservation.release()


def test_rows_that_are_converted_have_memory_of_the_budget():
    memory = MemoryBudget(64 * MB)
    budget = Budget(16 * MB, memory, "a")
    taken = []

    def rows() -> Iterator[results.SqlRow]:
        for _ in range(6):
            taken.append(memory.taken)
            yield ("x" * (results.PIECE + 1),)

    BufferedRows(budget, want_rows=True).take((), rows())
    assert taken[0] == 0
    assert taken[2] >= (1 + results.COPIES) * results.PIECE  # while the next rows are read, too
    assert taken[5] - taken[4] >= results.PIECE
    assert 6 * results.PIECE <= memory.taken <= 6 * results.PIECE + 2 * results.MEMORY_STEP
    budget.reservation.release()
    assert memory.taken == 0
