from __future__ import annotations

import datetime
import decimal
import enum
import math
import uuid

import numpy as np
import pandas as pd
import pytest

from pipemagic.client.arguments import statement, wire
from pipemagic.errors import ParameterError
from pipemagic.hrana.messages import NamedArg, Stmt, encode
from pipemagic.hrana.values import NULL, Blob, Integer, Text


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, NULL),
        (True, Integer("1")),
        (-(2**63), Integer("-9223372036854775808")),
        (math.nan, NULL),
        ("a\0é😀", Text("a\0é😀")),
        (b"", Blob("")),
        (bytearray(b"\0\xff"), Blob("AP8")),
        (memoryview(b"\0\xff"), Blob("AP8")),
        (np.int8(5), Integer("5")),
        (np.uint64(2**63 - 1), Integer("9223372036854775807")),
        (np.bool_(True), Integer("1")),
        (np.str_("x"), Text("x")),
        (np.bytes_(b"x"), Blob("eA")),
        (np.float64("nan"), NULL),
        (np.datetime64("2024-01-31T12:30:00"), Text("2024-01-31 12:30:00")),
        (np.datetime64("2024-01-31"), Text("2024-01-31")),
        (np.datetime64("2024-01"), Text("2024-01-01")),
        (np.datetime64("2024-01-31T12"), Text("2024-01-31 12:00:00")),
        (np.datetime64("2024-01-31T12:30:00.5"), Text("2024-01-31 12:30:00.500")),
        (np.datetime64("NaT", "us"), NULL),
        (pd.NA, NULL),
        (pd.NaT, NULL),
        (pd.Timestamp("2024-01-31 12:30:00.123456789"), Text("2024-01-31 12:30:00.123456789")),
        (pd.Timestamp("2024-01-31 12:30", tz="UTC"), Text("2024-01-31 12:30:00+00:00")),
        (datetime.datetime(2024, 1, 31, 12, 30), Text("2024-01-31 12:30:00")),
        (datetime.date(2024, 1, 31), Text("2024-01-31")),
        (datetime.time(12, 30), Text("12:30:00")),
        (decimal.Decimal("1.10"), Text("1.10")),
        (uuid.UUID(int=1), Text("00000000-0000-0000-0000-000000000001")),
        (Colour.RED, Text("red")),
    ],
)
def test_values(value, expected) -> None:
    assert wire(value) == expected


@pytest.mark.parametrize("value", [1.5, np.float32(0.1), np.float64(1 / 3), -0.0, 5e-324, 1.7976931348623157e308])
def test_floats_are_written_so_that_they_read_back(value) -> None:
    text = encode(wire(value)).decode().partition('"value":')[2].rstrip("}")
    assert float(text) == float(value)
    assert math.copysign(1, float(text)) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2**63, "does not fit 64 bits"),
        (np.uint64(2**63), "does not fit 64 bits"),
        (math.inf, "JSON cannot represent"),
        ("a\ud800", "not valid Unicode"),
        (datetime.timedelta(1), "no type for a length of time"),
        (pd.Timedelta("1s"), "no type for a length of time"),
        (np.timedelta64(1, "s"), "no type for a length of time"),
        ([1], "type list has no SQL form"),
        ({}, "type dict has no SQL form"),
        (np.datetime64("10000-01-01"), "outside the years 1 to 9999"),
        (np.datetime64("-0001-01-01"), "outside the years 1 to 9999"),
        (1j, "type complex has no SQL form"),
        (np.array([1]), "type ndarray has no SQL form"),
        (object(), "type object has no SQL form"),
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
