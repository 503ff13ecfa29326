"""Texts of moments as datetime64: their unit, their values, and the first one that does not fit."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.frames import moments, to_frame
from pipemagic.frames.columns import chunk_of_items
from pipemagic.frames.moments import Misfit, have_times, parse_dates
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import encode

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ("", "Z", "+00:00", "-03:30", "+0200")

DAYS = st.dates(datetime(1600, 1, 1).date(), datetime(2400, 1, 1).date()).map(str)
TIMES = st.times().map(lambda time: time.isoformat("seconds"))
FRACTIONS = st.integers(1, 9).flatmap(lambda size: st.integers(0, 10**size - 1).map(lambda part: f".{part:0{size}}"))


@st.composite
def columns(draw: st.DrawFn) -> list[str | None]:
    """Texts of one or two forms with all offsets or none, or of a mixture; some are NULL or do not exist."""
    zones = draw(st.sampled_from([("",), ("+00:00",), ("Z",), ZONES[1:], ZONES]))
    separator = draw(st.sampled_from(" T"))
    zone, fraction = st.sampled_from(zones), FRACTIONS | st.just("")
    moment = st.builds("{}{}{}{}{}".format, DAYS, st.just(separator), TIMES, fraction, zone)
    form = draw(st.sampled_from([moment, moment, DAYS | moment]))
    return draw(st.lists(st.none() | form | st.sampled_from(["2024-02-30"] if len(zones) > 4 else [None]), max_size=8))


def nanoseconds(text: str) -> int:
    """Return the time since 1970, from the integers of Python."""
    head, fraction, zone = re.fullmatch(r"(.*?)(\.\d+)?(Z|[+-]\d\d:?\d\d)?", text[10:]).groups()
    moment = datetime.fromisoformat(text[:10] + (head or "") + (zone or "+00:00" if head else "")).replace(
        **({} if zone else {"tzinfo": UTC})
    )
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000 + int((fraction or ".0")[1:].ljust(9, "0"))


@given(columns())
def test_each_date_has_the_value_that_python_reads(texts) -> None:
    chunk = chunk_of_items(texts)
    if not chunk.kinds:
        return
    found = parse_dates(chunk)
    present = [text for text in texts if text is not None]
    zoned = {bool(re.search(r"(Z|[+-]\d\d:?\d\d)$", text[10:])) for text in present}
    digits = max(len(re.sub(r"^[^.]*\.?|[Z+-].*", "", text[10:])) for text in present)
    if "2024-02-30" in present or len(zoned) > 1:
        assert isinstance(found, Misfit)
        return
    expected = [nanoseconds(text) for text in present]
    if digits > 6 and not all(-(2**63) < value < 2**63 for value in expected):
        assert isinstance(found, Misfit)
        assert found.row == 1 + texts.index(next(text for text in present if abs(nanoseconds(text)) >= 2**63))
        return
    unit, size = ("ns", 1) if digits > 6 else ("us", 1000)
    assert str(found.dtype) == (f"datetime64[{unit}, UTC]" if zoned == {True} else f"datetime64[{unit}]")
    values = found.asi8 if zoned == {True} else found.view("int64")
    assert [value * size for text, value in zip(texts, values.tolist(), strict=True) if text is not None] == expected
    assert np.isnat(values.view("datetime64[us]")).tolist() == [text is None for text in texts]
    assert have_times(chunk) is any(len(text) > 10 for text in present)


@given(columns())
def test_dates_are_the_same_one_by_one(texts) -> None:
    chunk = chunk_of_items(texts)
    if not chunk.kinds:
        return
    fast = moments._parse_alike(chunk, np.array([text is not None for text in texts]))
    usual = moments._parse_each(texts)
    if fast is not None and not isinstance(usual, Misfit):
        assert fast.zoned is usual.zoned
        assert fast.values.tolist() == usual.values.tolist()
        assert (fast.rest is None) is (usual.rest is None)
        assert fast.rest is None or fast.rest.tolist() == usual.rest.tolist()
    else:
        assert fast is None


def test_fractions_of_different_length_are_read_as_arrays(monkeypatch) -> None:
    monkeypatch.setattr(moments, "_parse_each", None)
    texts = ["2024-01-31 05:17:00", "2024-01-31 05:17:00.500000", None, "2024-01-31 05:17:00.123456789"]
    found = parse_dates(chunk_of_items([f"{text}+00:00" if text else None for text in texts]))
    assert str(found.dtype) == "datetime64[ns, UTC]"
    assert [str(moment)[17:35] for moment in found] == ["00+00:00", "00.500000+00:00", "", "00.123456789+00:00"]
    assert parse_dates(chunk_of_items(texts[:3])).astype(str).tolist() == [
        "2024-01-31T05:17:00.000000", "2024-01-31T05:17:00.500000", "NaT",
    ]  # fmt: skip


def test_the_first_and_the_last_nanosecond() -> None:
    texts = ["1677-09-21 00:12:43.145224193", "2262-04-11 23:47:16.854775807"]
    assert parse_dates(chunk_of_items(texts)).view("int64").tolist() == [1 - 2**63, 2**63 - 1]
    for text in ("1677-09-21 00:12:43.145224192", "2262-04-11 23:47:16.854775808"):
        assert str(parse_dates(chunk_of_items([None, *texts, text]))).startswith("row 4 has '")


MISFITS = [
    (["2024-01-31", None, "05.01.2024"], "row 3 has '05.01.2024', which is not an ISO date"),
    (["2024-01-31", ""], "row 2 has an empty string"),
    (["2024-01-31\n"], r"row 1 has '2024-01-31\n', which is not an ISO date"),
    (["x" * 70], f"row 1 has '{'x' * 59}…', which is not an ISO date"),
    (["2024-02-30"], "row 1 has '2024-02-30', which is not a valid date or time"),
    (["2024-01-31 24:00"], "row 1 has '2024-01-31 24:00', which is not a valid date or time"),
    (["2016-12-31T23:59:60Z"], "row 1 has '2016-12-31T23:59:60Z', which is not a valid date or time"),
    (["2024-01-31 10:00:00.1234567890"],
     "row 1 has '2024-01-31 10:00:00.1234567890', which has more than nine decimals"),
    (["0000-01-01"], "row 1 has '0000-01-01', which is outside the years 1 to 9999 in UTC"),
    (["9999-12-31 23:00:00-02:00"],
     "row 1 has '9999-12-31 23:00:00-02:00', which is outside the years 1 to 9999 in UTC"),
    (["10000-01-01"], "row 1 has '10000-01-01', which is not an ISO date"),
    ([None, "2024-01-31 10:00:00.123456789", "3000-01-01"],
     "row 3 has '3000-01-01', but nanoseconds (row 2) are possible only from 1677 to 2262"),
    (["2024-01-31", "2024-01-31 10:00Z"], "row 2 has an offset ('2024-01-31 10:00Z'), but row 1 has none"),
    ([None, "2024-01-31 10:00:00.000Z", "2024-01-31 12:00:00"],
     "row 3 has no offset ('2024-01-31 12:00:00'), but row 2 has one"),
    (["2024-01-31", 1782900000000], "row 2 has the number 1782900000000"),
    ([2460341.5, "2024-01-31"], "row 1 has the number 2460341.5"),
    (["2024-01-31", b"2024"], "row 2 has bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "reason"), MISFITS)
@pytest.mark.parametrize("declared", ["DATE", "timestamp(6) with time zone"])
def test_a_column_of_dates_that_stays_text_is_noted_with_its_first_misfit(values, reason, declared) -> None:
    notes: list[str] = []
    frame = to_frame(StmtResult([Col("t", declared)], [[encode(value)] for value in values]), note=notes.append)
    assert frame["t"].dropna().tolist() == [value for value in values if value is not None]
    assert notes == [f"Column t is declared {declared} but was left as text: {reason}."]


@pytest.mark.parametrize("values", [[1782900000000, None], [2460341.5], [1, 2.5], [b"x"], [None], []])
def test_a_column_without_text_is_not_noted(values) -> None:
    notes: list[str] = []
    to_frame(StmtResult([Col("t", "DATETIME")], [[encode(value)] for value in values]), note=notes.append)
    assert notes == []
