"""Rules for the rows of a table: passing and failing rows, and messages."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from pipemagic.client.stream import Dialect
from pipemagic.errors import ParameterError, RulesError, StatementError, UnknownName
from pipemagic.explore.rule_checks import check_rules
from pipemagic.hrana.messages import Close, ErrorEntry, Execute, Stmt

HOSTILE = """sel'ect "<script>alert(1)</script> 😀 é"""
QUOTED = '"' + HOSTILE.replace('"', '""') + '"'


@pytest.fixture
def filled(database):
    for sql in (
        "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, area, UNIQUE (id, name))",
        "INSERT INTO city VALUES (1, 'Oslo', 5), (2, 'OSLO', 2.5), (3, NULL, 'x'), (4, 'Bonn', NULL), (5, NULL, -1)",
        "CREATE TABLE o (a TEXT PRIMARY KEY, city INT, name TEXT) WITHOUT ROWID",
        "INSERT INTO o VALUES ('p', 1, 'oslo'), ('q', 9, 'Oslo'), ('r', NULL, 'Rom')",
    ):
        database.execute(sql)
    return database


def failures(database, table, **rules):
    with pytest.raises(RulesError) as caught:
        check_rules(database, table, **rules)
    assert caught.value.code == "RULES"
    return caught.value.failures


@pytest.mark.parametrize("database", ["embedded", "on_sqld", "on_seed"], indirect=True)
def test_a_table_that_passes_all_rules(filled, count_requests):
    filled.dialect  # noqa: B018 - it is read once
    sent = count_requests(filled)
    done = check_rules(
        filled, "city", not_null=["id"], unique=["id", ("id", "name")], ranges={"id": (1, 5), "name": ("a", None)},
        references={"id": ("city", "id")}, foreign_keys=True, rows=["id > 0", "city.area IS NOT 'y' -- fine"],
    )  # fmt: skip
    assert str(done) == "city: 9 rules passed, 5 rows."
    assert len(sent) == 1 or filled.dialect is Dialect.SEED  # one statement for each request


def test_nulls(filled):
    (found,) = failures(filled, "city", not_null=["id", "name"])
    assert (found.rule, found.count, found.frame["id"].tolist()) == ("name is not null", 2, [3, 5])


def test_duplicate_values(filled):
    (found,) = failures(filled, "city", unique=["id", "name"])
    assert (found.rule, str(found)) == ("name is unique", "name is unique: 1 duplicate value")
    assert found.frame["times"].tolist() == [2]  # by the column's collation; NULLs are distinct
    (found,) = failures(filled, "o", unique=["a", ("city", "name"), "name"], not_null=["city"])
    assert found.rule == "city is not null"


def test_ranges(filled):
    (found,) = failures(filled, "city", ranges={"area": (0, 5)})
    assert found.rule == "area is in 0..5"
    assert found.frame["id"].tolist() == [3, 5]  # text fails a range of numbers, NULL passes
    (found,) = failures(filled, "city", ranges={"area": (0, None), "id": (None, 5)})
    assert found.count == 2
    (found,) = failures(filled, "city", ranges={"area": ("a", "z")})
    assert found.frame["id"].tolist() == [1, 2, 5]
    filled.execute("INSERT INTO city (id) VALUES (-9223372036854775807 - 1)")
    check_rules(filled, "city", ranges={"id": (-(2**63), 2**63 - 1)})
    assert len(failures(filled, "city", ranges={"id": (-(2**63) + 1, float("inf"))})) == 1


LOW = [
    "2013-01-31", "2013-01-31 00:00:00", "2013-01-31T00:00", dt.date(2013, 1, 31), dt.datetime(2013, 1, 31),
    pd.Timestamp("2013-01-31"), np.datetime64("2013-01-31T00:00:00"),
]  # fmt: skip


@pytest.fixture
def days(embedded):
    """Days and moments around one day, as texts; pandas compares them."""
    moments = ["2013-01-30 23:59:59", "2013-01-31 00:00:00", "2013-01-31 00:00:01", "2013-01-31 23:59:59.999999",
               "2013-02-01 00:00:00"]  # fmt: skip
    embedded.execute("CREATE TABLE t (day DATE, at DATETIME)")
    for at in moments:
        embedded.execute("INSERT INTO t VALUES (?, ?)", [at[:10], at])
    return embedded, pd.DataFrame(
        {"day": pd.to_datetime([at[:10] for at in moments]), "at": pd.to_datetime(moments, format="ISO8601")}
    )


@pytest.mark.parametrize("bound", LOW, ids=repr)
@pytest.mark.parametrize("column", ["day", "at"])
def test_a_lower_bound_at_midnight_is_the_beginning_of_that_day(days, bound, column):
    database, frame = days
    (found,) = failures(database, "t", ranges={column: (bound, None)})
    assert found.count == (frame[column] < pd.Timestamp(bound)).sum() == 1


@pytest.mark.parametrize("bound", ["2013-01-31", dt.date(2013, 1, 31), np.datetime64("2013-01-31")], ids=repr)
@pytest.mark.parametrize("column", ["day", "at"])
def test_an_upper_bound_that_is_a_day_includes_the_whole_day(days, bound, column):
    database, frame = days
    (found,) = failures(database, "t", ranges={column: (None, bound)})
    assert found.rule == f"{column} is in ..2013-01-31"
    assert found.count == (frame[column].dt.normalize() > pd.Timestamp(bound)).sum() == 1
    check_rules(database, "t", ranges={column: ("2013-01-30", "9999-12-31")})


@pytest.mark.parametrize(
    "bound", ["2013-01-31 00:00:00", dt.datetime(2013, 1, 31), pd.Timestamp("2013-01-31")], ids=repr
)
def test_an_upper_bound_at_midnight_ends_there_and_is_a_day_for_days(days, bound):
    database, frame = days
    for column in ("day", "at"):
        (found,) = failures(database, "t", ranges={column: (None, bound)})
        assert found.rule == f"{column} is in ..2013-01-31 00:00:00"
        assert found.count == (frame[column] > pd.Timestamp(bound)).sum()


def test_a_decimal_is_a_number(filled):
    (found,) = failures(filled, "city", ranges={"area": (Decimal("2.50"), Decimal(5))})
    assert found.frame["id"].tolist() == [3, 5]


def test_bounds_with_a_time_of_day(days):
    database, frame = days
    low, high = dt.datetime(2013, 1, 31, 0, 0, 1), pd.Timestamp("2013-01-31 23:59:59.999999")
    (found,) = failures(database, "t", ranges={"at": (low, high)})
    assert found.rule == "at is in 2013-01-31 00:00:01..2013-01-31 23:59:59.999999"
    assert found.count == (~frame["at"].between(low, high)).sum() == 3


@pytest.mark.parametrize(
    "bounds",
    [
        (None, None),
        (pd.NaT, None),
        (b"x", None),
        (dt.timedelta(1), None),
        (dt.date(2013, 1, 1), 5),
        (1, "a"),
        (float("nan"), None),
        (2**63, None),
        ("\0", None),
    ],
    ids=repr,
)
def test_invalid_ranges(embedded, bounds):
    with pytest.raises(ParameterError):
        check_rules(embedded, "city", ranges={"id": bounds})


def test_references(filled):
    (found,) = failures(filled, "o", references={"city": ("city", "id")})
    assert (found.rule, found.count) == ("city is in city (id)", 1)
    assert found.frame["a"].tolist() == ["q"]
    # The other column's collation is used, as for a foreign key.
    (found,) = failures(filled, "o", references={"name": ("city", "name")})
    assert found.frame["a"].tolist() == ["r"]
    (found,) = failures(filled, "o", references={("city", "name"): ("city", ("id", "name"))})
    assert found.frame["a"].tolist() == ["q"]
    with pytest.raises(ParameterError, match="the same number of columns on both sides"):
        check_rules(filled, "o", references={"name": ("city", ("id", "name"))})


def test_expressions(filled):
    (found,) = failures(filled, "city", rows=["area > 0 -- or so", "id > 0"])
    assert found.frame["id"].tolist() == [5]
    assert found.rule == "area > 0 -- or so"
    with pytest.raises(StatementError):
        check_rules(filled, "city", rows=["area >"])


@pytest.mark.parametrize("words", ["", "a; DROP TABLE city", "1) OR (1", "(a", "  "])
def test_invalid_expressions(embedded, words):
    with pytest.raises(ParameterError, match=r"the condition|a condition is one SQL expression"):
        check_rules(embedded, "city", rows=[words])


def test_declared_foreign_keys(database):
    for sql in (
        "PRAGMA foreign_keys = OFF",
        "CREATE TABLE city (id INTEGER PRIMARY KEY)",
        "CREATE TABLE visit (a PRIMARY KEY, city REFERENCES city, b REFERENCES gone (x), c REFERENCES city (id))",
        "CREATE TABLE keyed (a TEXT PRIMARY KEY, city REFERENCES city) WITHOUT ROWID",
    ):
        database.execute(sql)
    assert check_rules(database, "visit", foreign_keys=True).rows == 0
    with database.open_stream() as stream:
        entries = stream.send([
            Execute(Stmt(sql))
            for sql in (
                "PRAGMA foreign_keys = OFF",
                "INSERT INTO visit VALUES ('<i>', 7, NULL, NULL), ('w', 8, 1, NULL)",
                "INSERT INTO keyed VALUES ('x', 7)",
            )
        ] + [Close()])  # fmt: skip
    assert not [entry for entry in entries if isinstance(entry, ErrorEntry)]
    found = failures(database, "visit", foreign_keys=True, not_null=["a"])
    assert {failure.rule: failure.count for failure in found} == {
        "city is in city (id)": 2, "b is in gone (missing table)": 1,
    }  # fmt: skip
    (keyed,) = failures(database, "keyed", foreign_keys=True)
    assert keyed.frame["a"].tolist() == ["x"]


def test_the_message_names_each_rule(filled):
    with pytest.raises(RulesError) as caught:
        check_rules(filled, "city", not_null=["name"], unique=["name", "id"], ranges={"area": (0, 9)})
    assert str(caught.value) == (
        "city: 3 of 4 rules failed, 5 rows\n"
        "  name is not null: 2 rows fail\n"
        "  name is unique: 1 duplicate value\n"
        "  area is in 0..9: 2 rows fail"
    )


def test_only_the_first_rows_are_sent(embedded):
    embedded.execute("CREATE TABLE t (a)")
    embedded.execute(f"INSERT INTO t SELECT NULL FROM json_each('{[0] * 1000}')")
    (found,) = failures(embedded, "t", not_null=["a"])
    assert (found.count, len(found.frame)) == (1000, 5)
    (found,) = failures(embedded, "t", not_null=["a"], limit=2)
    assert len(found.frame) == 2


def test_wrong_names(filled):
    # SQLite would read "nam" as a string, which is never NULL.
    with pytest.raises(UnknownName, match="table city has no column 'nam'\nHint: did you mean name"):
        check_rules(filled, "city", not_null=["nam"])
    with pytest.raises(UnknownName, match="table or view 'citi' does not exist\nHint: did you mean city"):
        check_rules(filled, "citi", not_null=["name"])
    with pytest.raises(UnknownName, match="table or view 'towns' does not exist"):
        check_rules(filled, "o", references={"city": ("towns", "id")})
    with pytest.raises(UnknownName, match="table city has no column 'idd'\nHint: did you mean id"):
        check_rules(filled, "o", references={"city": ("city", "idd")})
    with pytest.raises(UnknownName, match="table city has no column 'arae'\nHint: did you mean area"):
        check_rules(filled, "city", rows=["arae > 0"])
    with pytest.raises(ParameterError, match="cannot be a name"):
        check_rules(filled, "city", not_null=["\0"])
    with pytest.raises(ParameterError, match="nothing to check"):
        check_rules(filled, "city")


def test_views_and_hostile_names(database):
    database.execute(f"CREATE TABLE {QUOTED} ({QUOTED} TEXT, v)")
    database.execute(f"INSERT INTO {QUOTED} VALUES ('<b>', NULL), ('<b>', 1)")
    found = failures(
        database, HOSTILE, not_null=[HOSTILE, "v"], unique=[(HOSTILE, "v"), HOSTILE], references={"v": (HOSTILE, "v")},
        ranges={"v": (2, None)}, rows=[f"{QUOTED}.{QUOTED} = '<b>'"],
    )  # fmt: skip
    assert [failure.rule for failure in found] == ["v is not null", f"{HOSTILE} is unique", "v is in 2.."]
    assert found[1].frame.iloc[0].tolist() == ["<b>", 2]
    database.execute(f"CREATE VIEW w AS SELECT v FROM {QUOTED}")
    assert str(check_rules(database, "w", ranges={"v": (1, 1)})) == "w: 1 rule passed, 2 rows."
