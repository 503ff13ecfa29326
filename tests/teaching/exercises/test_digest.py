"""Digests of results: the same for equal ones, others for different ones."""

from __future__ import annotations

import random

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipemagic.teaching.exercises.comparison import Rules, compare
from pipemagic.teaching.exercises.digest import digest

SALT = b"salt of an exercise"


def frame(**columns) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def are_same(one: pd.DataFrame, other: pd.DataFrame, rules: Rules | None = None, columns: tuple[str, ...] = ()) -> bool:
    rules = rules or Rules()
    return digest(one, rules, SALT, columns) == digest(other, rules, SALT, columns)


LATE = frame(carrier=["AA", "DL", "UA"], late=[3, 5, None])


@pytest.mark.parametrize(
    ("other", "rules"),
    [
        (LATE.iloc[::-1], Rules()),
        (LATE[["late", "carrier"]], Rules()),
        (LATE.set_axis(["Carrier", "LATE"], axis=1), Rules()),
        (LATE.set_axis(["b", "a"], axis=1), Rules(check_names=False)),
        (LATE.set_axis(["b", "a"], axis=1)[["a", "b"]], Rules(check_names=False)),
        (frame(carrier=["AA", "DL", "UA"], late=[3.0, 4.9999999999999, None]), Rules(ordered=True)),
        (pd.DataFrame({"carrier": ["AA", "DL", "UA"], "late": [3, 5, float("nan")]}), Rules(ordered=True)),
    ],
)  # fmt: skip
def test_the_digest_of_equal_results_is_the_same(other, rules):
    assert compare(LATE, other, rules).passed
    assert are_same(LATE, other, rules)


@pytest.mark.parametrize(
    ("other", "rules"),
    [
        (LATE.iloc[::-1], Rules(ordered=True)),
        (LATE[["late", "carrier"]], Rules(columns_in_order=True)),
        (LATE.set_axis(["carrier", "cnt"], axis=1), Rules()),
        (LATE.iloc[:2], Rules()),
        (pd.concat([LATE, LATE.iloc[:1]]), Rules()),
        (frame(carrier=["AA", "DL", "UA"], late=["3", 5, None]), Rules()),
        (frame(carrier=["AA", "DL", "UA"], late=[3, 5, ""]), Rules()),
        (frame(carrier=["AA", "DL", "UA"], late=[5, 3, None]), Rules()),
        (frame(carrier=["AA", "DL", b"UA"], late=[3, 5, None]), Rules()),
        (frame(carrier=["AA", "DL", "UA"], late=[3, 5.001, None]), Rules()),
    ],
)
def test_the_digest_of_different_results_differs(other, rules):
    assert not compare(LATE, other, rules).passed
    assert not are_same(LATE, other, rules)


def test_rows_with_equal_sort_keys_may_come_in_any_order():
    tied = frame(carrier=["AA", "DL", "UA"], late=[5, 5, 8])
    rules, swapped = Rules(ordered=True, order_by=(1,)), tied.iloc[[1, 0, 2]]
    assert are_same(tied, swapped, rules)
    assert are_same(tied, swapped[["late", "carrier"]], rules, ("carrier", "late"))
    assert not are_same(tied, swapped, Rules(ordered=True))
    assert not are_same(tied, tied.iloc[[2, 0, 1]], rules)


def test_the_digest_of_a_stored_file_stays_the_same():
    days = ["2013-01-01", "2013-01-01 10:00:00", b"x"]
    stored = (
        "8b817f70a66a4aa8f4b28b1626996927ec60d419b1826175809ce53954ea5dd4"
        "a3bd63867bc2c5c6ea89c889ebadc76b8f64d3b82366d46f8fc27145be58f147"
    )
    assert digest(frame(carrier=["AA", "DL", None], late=[3, 0.1, -7.25], day=days), Rules(), SALT) == stored


def test_the_salt_changes_the_digest():
    assert digest(LATE, Rules(), SALT) != digest(LATE, Rules(), b"another salt")
    assert len(digest(LATE, Rules(), SALT)) == 128


NUMBERS = st.one_of(
    st.integers(-(10**9), 10**9), st.floats(-1e15, 1e15), st.decimals(-1000, 1000, places=2).map(float),
    st.sampled_from([0.0, 0.5, 0.1, 1e6, 999_999.5, 1e-15, 100.0]),
)  # fmt: skip


@settings(max_examples=15)  # a digest is slow by design
@given(st.lists(NUMBERS, min_size=1, max_size=8), st.integers())
def test_the_last_bits_of_numbers_do_not_count(numbers, seed):
    source = random.Random(seed)
    moved = [value * (1 + source.uniform(-4, 4) * 1e-16) if isinstance(value, float) else value for value in numbers]
    source.shuffle(moved)
    assert are_same(frame(x=numbers), frame(x=moved))


@pytest.mark.parametrize("value", [0.5, 1 / 3, 2.5, 1e-9, 7.25e13, 1234.565, -8.1, 99.9999])
def test_a_number_beyond_the_tolerance_changes_the_digest(value):
    assert not are_same(frame(x=[value]), frame(x=[value * 1.00002]))
    assert not are_same(frame(x=[value]), frame(x=[-value]))
