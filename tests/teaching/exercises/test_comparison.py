"""Comparison of results: what is equal, the points for parts of a result, and the advice."""

from __future__ import annotations

import datetime
import math
import random
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipemagic.errors import LoadError
from pipemagic.teaching.exercises.comparison import Rules, compare
from pipemagic.teaching.exercises.digest import digest


def frame(**columns) -> pd.DataFrame:
    """Return a frame of SQL values."""
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


LATE = frame(carrier=["AA", "DL", "UA"], late=[3, 5, 8])


def messages(expected: pd.DataFrame, actual: pd.DataFrame, rules: Rules | None = None, sql: str = "") -> list[str]:
    result = compare(expected, actual, rules or Rules(), sql)
    assert result.passed == (not result.messages) == (result.score == 1)
    return list(result.messages)


# -- values


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (3, 3.0), (3.0, 3), (1, True), (0, False), (0.1 + 0.2, 0.3), (3, 2.9999999999), (1e300, 1e300 * (1 + 1e-9)),
        (math.inf, math.inf), (0.0, -0.0), (1e-17, 0), (2**60, 2**60), (None, math.nan), (None, pd.NaT), (None, pd.NA),
        (3, np.int64(3)), (0.5, np.float32(0.5)), ("a", np.str_("a")), (b"a", bytearray(b"a")),
        ("2013-01-02", datetime.date(2013, 1, 2)), ("2013-01-02 03:04:05", datetime.datetime(2013, 1, 2, 3, 4, 5)),
    ],
)  # fmt: skip
def test_these_values_are_equal(expected, actual):
    assert compare(frame(x=[expected]), frame(x=[actual])).passed


@pytest.mark.parametrize(
    ("expected", "actual", "message"),
    [
        (3, "3", "column x: expected number 3, got text '3'"),
        ("3", 3, "column x: expected text '3', got number 3"),
        (None, "", "column x: expected NULL, got text ''"),
        (None, 0, "column x: expected NULL, got number 0"),
        (0, None, "column x: expected number 0, got NULL"),
        ("a", None, "column x: expected text 'a', got NULL"),
        ("a", b"a", "column x: expected text 'a', got blob"),
        (b"a", "a", "column x: expected blob, got text 'a'"),
        (0.25, 0.0, "column x: expected number 0.25, got number 0.0"),
        (math.inf, 1e308, "column x: expected number inf, got number 1e+308"),
        (2**53 + 1, 2**53, "column x: expected number 9007199254740993, got number 9007199254740992"),
        (2.5, 2, "column x: integer division? 1 / 2 is 0, 1.0 / 2 is 0.5"),
        (12.5, 0.125, "column x: got a fraction, expected a percentage?"),
        (0.125, 12.5, "column x: got a percentage, expected a fraction?"),
        (7, -7, "column x: the sign is reversed"),
        (3.14159, 3.14, "column x: rounded too early, or to too few digits?"),
        (3.14, 3.14159, "column x: more digits than expected: round(..., 2)?"),
        ("Adelie", "ADELIE", "column x: upper and lower case differ"),
        ("Adelie", "Adelie ", "column x: leading or trailing spaces differ"),
    ],
)  # fmt: skip
def test_different_values_are_explained(expected, actual, message):
    assert messages(frame(x=[expected]), frame(x=[actual])) == ["1 of 1 row differs", message]


@pytest.mark.parametrize(
    ("expected", "actual", "sql", "message"),
    [
        (0, None, "SELECT sum(y) AS x FROM t", "column x: expected number 0, got NULL: does coalesce() help?"),
        (0.5, 0, "SELECT y / 2 AS x FROM t", "column x: integer division? 1 / 2 is 0, 1.0 / 2 is 0.5"),
        (2.5, 2, "SELECT y AS x FROM t", "column x: rounded too early, or to too few digits?"),
        (2.4, 2, "SELECT CAST(y AS INTEGER) AS x FROM t", "column x: rounded too early, or to too few digits?"),
    ],
)
def test_a_question_on_a_value_fits_the_statement(expected, actual, sql, message):
    assert messages(frame(x=[expected]), frame(x=[actual]), sql=sql) == ["1 of 1 row differs", message]


def test_rows_without_a_match_are_lost_by_where_only_if_there_is_one():
    expected, actual = frame(x=["a", "b"], n=[1, 0]), frame(x=["a"], n=[1])
    joined = "SELECT x, count(y) AS n FROM t LEFT JOIN u USING (x)"
    assert "does a condition in WHERE" in messages(expected, actual, sql=f"{joined} WHERE y > 0 GROUP BY x")[0]
    assert messages(expected, actual, sql=f"{joined} GROUP BY x") == ["1 missing row"]
    having = f"{joined} GROUP BY x HAVING n > 0"
    assert messages(expected, actual, sql=having) == ["1 missing row: is a condition too strict?"]


@pytest.mark.parametrize(
    ("expected", "actual"),
    [(1_000_000, 1_000_001), (1_000_000, 1_000_001.0), (2**60, 2**60 + 1), (1, 2), (0.5, 0.50001),
     (math.inf, -math.inf), (math.inf, 1.5), ("a", "b"), (b"a", b"b"), (1e-9, 2e-9), (0, None)],
)  # fmt: skip
def test_these_values_differ(expected, actual):
    assert not compare(frame(x=[expected]), frame(x=[actual])).passed


def test_the_tolerance_is_relative_and_set_by_the_rules():
    prices = frame(price=[100.5, 2000.25])
    near = frame(price=[2001.0, 100.4])
    assert not compare(prices, near).passed
    assert compare(prices, near, Rules(tolerance=0.01)).passed
    assert not compare(prices, frame(price=[100.5, 2000.2500001]), Rules(tolerance=0)).passed


@pytest.mark.parametrize(
    "text",
    ["2013-01-01", "2013-01-01 00:00:00", "2013-01-01T10:00", "2013-01-01 10:00:00.000000", "2013-01-01 10:00:00.5"],
)
def test_dates_and_times_of_a_frame_equal_their_texts(text):
    moments = pd.DataFrame({"x": pd.to_datetime(pd.Series([text, None]))})
    expected = frame(x=[text, None])
    assert compare(expected, moments).passed
    assert not compare(expected, moments + pd.Timedelta(days=1)).passed
    assert digest(expected, Rules(), b"salt") == digest(moments, Rules(), b"salt")


def test_a_wrong_date_of_a_frame_is_shown_without_a_time():
    moments = pd.DataFrame({"x": pd.to_datetime(["2013-01-02"])})
    assert messages(frame(x=["2013-01-01"]), moments)[1] == (
        "column x: expected text '2013-01-01', got text '2013-01-02'"
    )


def test_texts_of_a_moment_differ_in_the_results_of_sql():
    assert not compare(frame(x=["2013-01-01"]), frame(x=["2013-01-01 00:00:00"])).passed


def test_values_that_sql_cannot_store_are_refused():
    with pytest.raises(LoadError, match="column x"):
        compare(frame(x=[1]), pd.DataFrame({"x": [pd.Timedelta(1)]}))


SCALARS = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3), st.text(max_size=3), st.binary(max_size=3),
    st.floats(-1e300, 1e300), st.sampled_from([0.1, 0.2, 0.25, 1e6, 1e6 + 0.5]),
)  # fmt: skip
TABLES = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[SCALARS] * width), min_size=1, max_size=12))


def table(rows) -> pd.DataFrame:
    return frame(**{f"c{at}": list(column) for at, column in enumerate(zip(*rows, strict=True))})


def jitter(value, draw):
    """Return a float that differs in its last bits, as after a sum in another order."""
    return value * (1 + draw * 1e-14) if isinstance(value, float) else value


@settings(max_examples=50)
@given(rows=TABLES, seed=st.integers())
def test_permuted_rows_and_columns_with_jitter_are_equal(rows, seed):
    source = random.Random(seed)
    moved = [tuple(jitter(value, source.uniform(-1, 1)) for value in row) for row in rows]
    source.shuffle(moved)
    names = source.sample([f"c{at}" for at in range(len(rows[0]))], len(rows[0]))
    assert messages(table(rows), table(moved)[names]) == []


def is_other(one, other) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return not math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-3)
    return type(one) is not type(other) or one != other


@settings(max_examples=50)
@given(rows=TABLES, data=st.data())
def test_a_changed_value_is_found(rows, data):
    row, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, len(rows[0]) - 1))
    value = data.draw(SCALARS)
    assume(is_other(rows[row][column], value))
    changed = [list(values) for values in rows]
    changed[row][column] = value
    result = compare(table(rows), table(changed))
    assert result.score < 1
    assert result.difference is not None


@settings(max_examples=50)
@given(rows=TABLES, row=st.integers(0, 11))
def test_a_row_too_many_or_too_few_is_found(rows, row):
    row %= len(rows)
    assert messages(table(rows), table([*rows, rows[row]]))[0].startswith("1 extra row")
    if len(rows) > 1:
        assert messages(table(rows), table(rows[:row] + rows[row + 1 :]))[0].startswith("1 missing row")


# -- columns


def test_names_ignore_case_and_any_order_of_columns():
    assert messages(LATE, frame(LATE=[5, 3, 8], Carrier=["DL", "AA", "UA"])) == []


@pytest.mark.parametrize(
    ("actual", "message", "score"),
    [
        (frame(carrier=["AA", "DL", "UA"], cnt=[3, 5, 8]),
         ["column cnt has the values of late: rename it with AS late"], 0.9),
        (frame(carrier=["AA", "DL", "UA"]), ["column late is missing"], 0.5),
        (LATE.assign(extra=1), ["column extra is unexpected"], 0.93),
        (frame(carrier=["AA", "DL", "UA"], cnt=[3, 5, 9]),
         ["column cnt is in the position of late: rename it with AS late", "1 of 3 rows differs",
          "column late: expected number 8, got number 9"], 0.63),
        (frame(carrier=["AA", "DL", "UA"], year=[2013] * 3),
         ["column year instead of late", "3 of 3 rows differ"], 0.1),
        (frame(), ["column carrier is missing", "column late is missing"], 0.0),
    ],
)  # fmt: skip
def test_missing_extra_and_renamed_columns(actual, message, score):
    result = compare(LATE, actual)
    assert (list(result.messages), result.score) == (message, score)


def test_five_columns_are_named():
    many = LATE.join(pd.DataFrame(1, LATE.index, [f"c{at}" for at in range(100)]))
    assert messages(LATE, many) == [*(f"column c{at} is unexpected" for at in range(5)), "and 95 more"]
    assert messages(many, LATE) == [*(f"column c{at} is missing" for at in range(5)), "and 95 more"]


def test_the_order_of_columns_counts_only_by_rule():
    swapped = LATE[["late", "carrier"]]
    assert messages(LATE, swapped) == []
    result = compare(LATE, swapped, Rules(columns_in_order=True))
    assert (list(result.messages), result.score) == (["the order of the columns differs from carrier, late"], 0.9)


def test_names_count_only_by_rule():
    other = LATE.set_axis(["a", "b"], axis=1)
    assert messages(LATE, other, Rules(check_names=False)) == []
    assert messages(LATE, other[["b", "a"]], Rules(check_names=False)) == []
    assert messages(LATE, other[["b", "a"]], Rules(check_names=False, columns_in_order=True)) != []
    assert messages(LATE, LATE[["late"]], Rules(check_names=False)) == ["1 column instead of 2"]


def test_a_named_index_of_a_frame_is_a_column():
    assert messages(LATE, LATE.set_index("carrier").astype("int64")) == []


def test_columns_without_rows_or_a_name():
    nameless = pd.DataFrame({"": pd.Series([], dtype=object)})
    assert messages(nameless, nameless) == []


def test_columns_with_the_same_name():
    twice = pd.DataFrame([[1, "a"], [2, "b"]], columns=["x", "x"], dtype=object)
    assert messages(twice, twice) == []
    assert len(messages(twice, frame(x=[1, 2]))) == 1


# -- rows and their order


def test_rows_are_a_multiset():
    assert messages(LATE, LATE.iloc[::-1]) == []
    assert compare(frame(x=[1, 1, 2]), frame(x=[1, 2, 2])).score == 0.73


def test_points_are_rounded_down():
    many = frame(x=list(range(10_000)))
    result = compare(many, frame(x=[*range(9_999), -1]))
    assert (result.score, result.passed) == (0.99, False)


ORDERED = "SELECT carrier, late FROM t ORDER BY late"


@pytest.mark.parametrize(
    ("actual", "sql", "message"),
    [
        (LATE.iloc[::-1], ORDERED, "the rows are right, but their order is reversed: is ASC or DESC wrong?"),
        (
            LATE.iloc[[1, 0, 2]],
            ORDERED,
            "the rows are right, but their order is wrong: which columns are they sorted by?",
        ),
        (LATE.iloc[[1, 0, 2]], "SELECT 1", "the rows are right, but their order is wrong: is ORDER BY missing?"),
    ],
)
def test_the_order_of_rows_counts_by_rule(actual, sql, message):
    result = compare(LATE, actual, Rules(ordered=True, order_by=(1,)), sql)
    assert (list(result.messages), result.score) == ([message], 0.8)


def test_rows_with_equal_sort_keys_may_come_in_any_order():
    tied = frame(carrier=["AA", "DL", "UA"], late=[5, 5, 8])
    swapped = tied.iloc[[1, 0, 2]]
    assert messages(tied, swapped, Rules(ordered=True, order_by=(1,))) == []
    assert messages(tied, swapped[["late", "carrier"]], Rules(ordered=True, order_by=(1,))) == []
    assert messages(tied, swapped, Rules(ordered=True)) != []
    assert messages(tied, tied.iloc[[2, 0, 1]], Rules(ordered=True, order_by=(1,))) != []


def test_the_first_differing_rows_are_side_by_side():
    result = compare(LATE, frame(carrier=["UA", "DL", "AA"], late=[8, 6, "3"]))
    assert [*result.difference] == [("", "row"), ("expected", "carrier"), ("expected", "late"), ("your result", "late")]
    assert result.difference.to_numpy().tolist() == [[2, "DL", 5, 6], [3, "AA", 3, "3"]]


def test_missing_and_extra_rows_have_blanks_on_one_side():
    missing = compare(LATE, LATE.iloc[:2]).difference
    assert [*missing] == [("", "row"), ("expected", "carrier"), ("expected", "late")]
    assert missing.to_numpy().tolist() == [["missing", "UA", 8]]
    assert compare(LATE.iloc[:2], LATE).difference.to_numpy().tolist() == [[3, "", "", "UA", 8]]


def test_five_rows_are_shown():
    assert len(compare(frame(x=list(range(50))), frame(x=["a"] * 40)).difference) == 5


def test_large_values_are_shortened():
    shown = compare(frame(x=["a" * 10**6, b"ab"]), frame(x=[bytes(10**6), "b" * 10**6])).difference
    texts = {"a" * 199 + "…", "<2 bytes>", "<1,000,000 bytes>", "b" * 199 + "…"}
    assert set(shown.to_numpy()[:, 1:].ravel()) == texts


def test_rows_that_look_repeated_without_a_column():
    twice = frame(carrier=["AA", "AA"], late=[3, 5])
    sql = "SELECT carrier FROM t"
    whole = compare(twice, frame(carrier=["AA"] * 3, late=[3, 5, 5]), sql=sql)
    part = compare(twice, frame(carrier=["AA"] * 3), sql=sql)
    assert whole.messages[0] == "1 extra row: is DISTINCT or GROUP BY missing?"
    assert part.messages == ("column late is missing", "1 extra row: is a condition missing or too wide?")


def test_the_number_of_rows_has_no_question_without_a_statement():
    assert messages(LATE, LATE.iloc[:2]) == ["1 missing row"]
    assert compare(LATE, LATE.iloc[:2], sql="SELECT 1").messages == ("1 missing row",)  # it has no condition
    where = "SELECT * FROM t WHERE x"
    assert compare(LATE, LATE.iloc[:2], sql=where).messages == ("1 missing row: is a condition too strict?",)


COUNT = re.compile(r"([\d,]+) (?:of [\d,]+ )?(?:missing |extra )?(?:row|position)s?\b")


@settings(max_examples=100)
@given(expected=st.lists(st.tuples(*[st.integers(0, 2)] * 2), min_size=1, max_size=12), data=st.data())
def test_the_counts_agree_with_the_rows_shown(expected, data):
    actual = data.draw(st.lists(st.tuples(*[st.integers(0, 2)] * 2), min_size=1, max_size=12))
    result = compare(table(expected), table(actual))
    if result.passed:
        return
    counts = [int(count) for count in COUNT.findall(result.messages[0])]
    rows = result.difference.to_numpy().tolist()
    blank_left = [row for row in rows if row[1] == "" and row[2] == ""]
    assert len(rows) == min(5, sum(counts))
    of = re.findall(r"The first (\d+) of (\d+) rows", result.heading)
    assert of == ([(str(len(rows)), str(sum(counts)))] if sum(counts) > 5 else [])
    assert ("missing row" in result.messages[0]) == any(row[0] == "missing" for row in rows)
    assert ("extra row" in result.messages[0]) == bool(blank_left)


@pytest.mark.parametrize(
    ("actual", "message", "heading"),
    [
        ([1, 2], "1 missing row", "The row that differs:"),
        ([1, 4, 5, 6], "2 missing rows and 3 extra rows", "The rows that differ:"),
        ([1, 2, 4], "1 of 3 rows differs", "The row that differs:"),
        ([4, 5, 6, 7, 8], "3 missing rows and 5 extra rows", "The first 5 of 8 rows that differ:"),
        ([1, 2, 3, *range(4, 11)], "7 extra rows", "The first 5 of 7 rows that differ:"),
    ],
)
def test_missing_and_extra_rows_are_counted_apart(actual, message, heading):
    result = compare(frame(x=[1, 2, 3]), frame(x=actual))
    assert (result.messages[0], result.heading) == (message, heading)


def test_pairs_of_rows_that_differ_are_counted_apart():
    result = compare(LATE, frame(carrier=["AA", "DL", "UA", "WN"], late=[3, 5, 9, 1]))
    assert result.messages == ("1 extra row and 1 row that differs",)  # the rows are shown
    assert result.difference.to_numpy().tolist() == [[3, "UA", 8, "UA", 9], [4, "", "", "WN", 1]]


BY_BOTH = frame(kind=["a", "a", "b"], place=["x", "y", "x"], n=[1, 2, 3])
BY_KIND = frame(kind=["a", "b"], n=[3, 3])


@pytest.mark.parametrize(
    ("expected", "actual", "sql", "message"),
    [
        (BY_KIND, BY_BOTH, "SELECT kind, place, count(*) AS n FROM t GROUP BY kind, place",
         "1 extra row and 1 row that differs: does place in GROUP BY make too many groups?"),
        (BY_KIND, BY_BOTH[["kind", "n"]], "SELECT kind, count(*) AS n FROM t GROUP BY 1, t.place",
         "1 extra row and 1 row that differs: does place in GROUP BY make too many groups?"),
        (BY_BOTH, frame(kind=["a", "b"], place=["x", "x"], n=[3, 3]),
         "SELECT kind, place, count(*) AS n FROM t GROUP BY kind",
         "1 missing row and 1 row that differs: is place missing in GROUP BY?"),
        (BY_BOTH, BY_KIND, "SELECT kind, count(*) AS n FROM t GROUP BY kind",
         "1 missing row and 1 row that differs: is a column missing in GROUP BY?"),
        (BY_KIND, frame(kind=["a", "b", "c"], n=[3, 3, 1]), "SELECT kind, count(*) AS n FROM t GROUP BY kind, id",
         "1 extra row: is a condition missing or too wide?"),  # id makes no other groups
        (BY_KIND, frame(kind=["a"], n=[3]), "SELECT kind, count(*) AS n FROM t WHERE x GROUP BY kind",
         "1 missing row: is a condition too strict?"),
    ],
)  # fmt: skip
def test_too_many_and_too_few_columns_in_group_by(expected, actual, sql, message):
    assert message in compare(expected, actual, sql=sql).messages


def test_without_any_rows():
    empty = frame(carrier=[], late=[])
    assert messages(empty, empty) == []
    assert messages(LATE, empty)[0].startswith("no rows")
    assert messages(empty, LATE) == ["3 extra rows"]


def test_a_large_result_in_another_order():
    size = 20_000
    flights = frame(
        number=list(range(size)), distance=[at * 0.37 if at % 9 else None for at in range(size)],
        carrier=[f"A{at % 16}" for at in range(size)], month=[at % 12 for at in range(size)],
        tail=[f"N{at % 4000}" for at in range(size)],
    )  # fmt: skip
    shuffled = flights.sample(frac=1, random_state=1)
    assert compare(flights, shuffled).passed


def test_nanoseconds_of_a_frame_are_the_same_in_another_form_of_text():
    text = "2024-01-31T10:30:00.123456789"
    moments = pd.DataFrame({"t": pd.to_datetime([text])})
    assert compare(pd.DataFrame({"t": [text]}, dtype=object), moments).passed
    assert not compare(pd.DataFrame({"t": [f"{text[:-1]}8"]}, dtype=object), moments).passed


@pytest.mark.parametrize(
    ("counted", "advice"),
    [
        ([4, 6, 9], "larger than expected: does count(*) count rows that it should not, such as rows with NULL?"),
        ([4.5, 6.5, 9.5], "larger than expected"),
    ],
)
def test_a_number_with_a_fraction_is_no_count(counted, advice):
    sql = "SELECT carrier, avg(delay) AS late FROM flights GROUP BY carrier HAVING count(*) > 1"
    assert f"column late: {advice}" in messages(LATE, LATE.assign(late=pd.Series(counted, dtype=object)), sql=sql)
