"""Rows that are kept by columns as they come are the same frame as the whole result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from pipemagic import errors
from pipemagic.frames import columnar as module
from pipemagic.frames import to_frame
from pipemagic.frames.columnar import columnar
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import NULL, Blob, Float, Integer, Text

INTEGERS = st.integers(-(2**63), 2**63 - 1).map(lambda number: Integer(str(number)))
SMALL = st.sampled_from([Integer("0"), Integer("1")])
FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(Float) | st.just(Float(None))
DATES = st.sampled_from(["2024-01-31", "2024-02-30", "1999-12-31 12:30:00.25", "2024-01-31T10:00:00+02:00"]).map(Text)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(Text)
BLOBS = st.sampled_from([Blob(""), Blob("AP8"), Blob("AP8=")])
KINDS = (INTEGERS, SMALL, FLOATS, DATES, TEXTS, BLOBS, st.just(NULL))
TYPES = ["", "INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "BOOLEAN", "DATE", "DATETIME", "DECIMAL(5, 2)"]


@st.composite
def columns(draw):
    """A column whose parts may be of different kinds."""
    kinds = [draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2)) for _ in range(draw(st.integers(0, 4)))]
    parts = [draw(st.lists(st.one_of(*some), min_size=5, max_size=5)) for some in kinds]
    return [value for part in parts for value in part]


@given(
    values=st.lists(columns(), min_size=1, max_size=3),
    types=st.lists(st.sampled_from(TYPES), min_size=3, max_size=3),
    size=st.integers(1, 7),
    at_once=st.integers(1, 30),
)
def test_batches_and_a_whole_give_the_same_frame(values, types, size, at_once):
    rows = [list(row) for row in zip(*values, strict=False)]
    cols = [Col("same", kind) for kind, _ in zip(types, values, strict=False)]
    notes: list[list[str]] = [[], []]
    whole = to_frame(StmtResult(cols, rows), note=notes[0].append)
    before, module.CELLS_AT_ONCE = module.CELLS_AT_ONCE, at_once
    try:
        kept = columnar(cols, [rows[at : at + size] for at in range(0, len(rows), size)])
        parts = to_frame(StmtResult(cols, kept), note=notes[1].append)
    finally:
        module.CELLS_AT_ONCE = before
    assert_frame_equal(parts, whole, check_exact=True)
    assert notes[0] == notes[1]
    for at in range(len(cols)):  # None and NaN count as equal above
        column, expected = parts.iloc[:, at], whole.iloc[:, at]
        if column.dtype == object:
            assert list(map(repr, column)) == list(map(repr, expected))
            assert list(map(type, column)) == list(map(type, expected))
    assert len(kept) == len(rows)
    assert [[_canonical(value) for value in row] for row in kept] == [
        [_canonical(value) for value in row] for row in rows
    ]


def _canonical(value):
    return Blob(value.base64.rstrip("=")) if isinstance(value, Blob) else value


def test_rows_of_another_width_and_invalid_values():
    with pytest.raises(errors.ProtocolError, match="wrong number of values"):
        to_frame(StmtResult([Col("a")], columnar([Col("a")], [[[NULL, NULL]]])))
    with pytest.raises(errors.ProtocolError, match="does not fit in 64 bits"):
        to_frame(StmtResult([Col("a")], columnar([Col("a")], [[[Integer(str(2**63))]]])))


def test_no_rows():
    cols = [Col("a", "INTEGER"), Col("b", "TEXT")]
    assert_frame_equal(to_frame(StmtResult(cols, columnar(cols, []))), to_frame(StmtResult(cols, [])))


def test_slices():
    rows = [[Integer(str(number))] for number in range(10)]
    kept = columnar([Col("a")], [rows[:4], rows[4:]])
    assert (kept[3], list(kept[2:5]), kept[-1]) == (rows[3], rows[2:5], rows[-1])
