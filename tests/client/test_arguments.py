from __future__ import annotations

import enum
import math

import numpy as np
import pandas as pd
import pytest

from pipemagic.client.arguments import statement, wire
from pipemagic.errors import ParameterError
from pipemagic.hrana.messages import NamedArg, Stmt, encode
from pipemagic.hrana.values import Blob, Integer, Text


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\0é😀", Text("a\0é😀")),
        (b"", Blob("")),
        (np.uint64(2**63 - 1), Integer("9223372036854775807")),
        (np.datetime64("2024-01-31"), Text("2024-01-31")),
        (np.datetime64("2024-01-31T12"), Text("2024-01-31 12:00:00")),
        (np.datetime64("2024-01-31T12:30:00.5"), Text("2024-01-31 12:30:00.500000")),
        (Colour.RED, Text("red")),
    ],
)
def test_values_beyond_those_of_cells(value, expected) -> None:
    assert wire(value) == expected


@pytest.mark.parametrize("value", [1.5, np.float32(0.1), np.float64(1 / 3), -0.0, 5e-324, 1.7976931348623157e308])
def test_floats_are_written_so_that_they_read_back(value) -> None:
    text = encode(wire(value)).decode().partition('"value":')[2].rstrip("}")
    assert float(text) == float(value)
    assert math.copysign(1, float(text)) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.uint64(2**63), "does not fit in 64 bits"),
        (pd.Timedelta("1s"), "no timedelta type"),
        ([1], "type list to SQL"),
        (np.datetime64("10000-01-01"), "outside the years 1 to 9999"),
        (np.datetime64("-0001-01-01"), "outside the years 1 to 9999"),
        (np.array([1]), "type ndarray to SQL"),
    ],
)
def test_values_that_sql_cannot_hold(value, message) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        statement("SELECT :when", {"when": value})
    assert "parameter when" in str(caught.value)


def test_statements() -> None:
    assert statement("SELECT 1") == statement("SELECT 1", []) == statement("SELECT 1", {}) == Stmt("SELECT 1")
    assert statement("SELECT ?", (1,)) == Stmt("SELECT ?", args=[Integer("1")])
    assert statement("SELECT :a", {"a": 1}) == Stmt("SELECT :a", named_args=[NamedArg("a", Integer("1"))])


@pytest.mark.parametrize("args", ["x", b"x", 5, {1, 2}, np.array([1])])
def test_arguments_come_in_a_list_or_a_dict(args) -> None:
    with pytest.raises(ParameterError, match="a list, a tuple or a dict"):
        statement("SELECT ?", args)


def test_scalars_of_arrow() -> None:
    pa = pytest.importorskip("pyarrow")  # `.ci/run` runs the tests of the client without it, too
    assert wire(pa.scalar(1, pa.timestamp("ns"))) == Text("1970-01-01 00:00:00.000000001")
    assert wire(pa.scalar(None, pa.date32())) == wire(None)
    for value, unit, zone in ((-(10**18), "s", "UTC"), (10**17, "ms", None)):
        with pytest.raises(ParameterError, match="outside the years 1 to 9999"):
            wire(pa.scalar(value, pa.timestamp(unit, zone)))
