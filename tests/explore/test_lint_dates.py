"""Notes on dates and texts say what SQLite does, and the line to write returns what was meant."""

from __future__ import annotations

import re
import string

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.explore.lint import lint
from pipemagic.explore.lint.dates import readings
from pipemagic.explore.schema import Column, Relation
from pipemagic.notebook.notes import FOUND_IN

TABLE = """
CREATE TABLE flights (id INTEGER PRIMARY KEY, carrier TEXT, flight TEXT, seats INTEGER, day DATE, departed DATETIME);
INSERT INTO flights VALUES
    (1, 'AA', '11', 190, '2013-01-01', '2013-01-01 05:33:00'),
    (2, 'UA', '1545', 7, '2013-01-31', '2013-01-31 18:00:00'),
    (3, 'B6', '9', 3, '2013-12-31', '2013-12-31 00:00:00'),
    (4, 'AA', '100', 3, '2014-06-05', '2014-06-05 12:30:00');
"""
COLUMNS = (
    Column("id", "INTEGER", key=1), Column("carrier", "TEXT"), Column("flight", "TEXT"), Column("seats", "INTEGER"),
    Column("day", "DATE"), Column("departed", "DATETIME"),
)  # fmt: skip
FLIGHTS = {"flights": Relation("flights", columns=COLUMNS)}


@pytest.fixture(scope="module")
def database():
    connection = apsw.Connection(":memory:")
    connection.execute(TABLE)
    yield connection
    connection.close()


def ids(database, condition):
    return [row[0] for row in database.execute(f"SELECT id FROM flights WHERE {condition} ORDER BY id")]


CONDITIONS = {
    "departed = '2013-01-31'": ([], [2]),
    "departed <> '2013-01-31'": ([1, 2, 3, 4], [1, 3, 4]),
    "departed <= '2013-01-31'": ([1], [1, 2]),
    "'2013-01-31' >= departed": ([1], [1, 2]),
    "departed > '2013-01-31'": ([2, 3, 4], [3, 4]),
    "departed BETWEEN '2013-01-01' AND '2013-12-31'": ([1, 2], [1, 2, 3]),
    "departed IN ('2013-01-01', '2013-12-31')": ([], [1, 3]),
    "day = departed": ([], [1, 2, 3, 4]),
    "day = '2013-01-31 00:00:00'": ([], [2]),
    "day < '2013-01-31 00:00:00'": ([1, 2], [1]),
    "day BETWEEN '2013-01-31 00:00:00' AND '2013-12-31 23:59:59'": ([3], [2, 3]),
    "day = '2013'": ([], [1, 2, 3]),
    "day >= '2014'": ([1, 2, 3, 4], [4]),
    "day < '2014'": ([], [1, 2, 3]),
    "day BETWEEN '2012' AND '2013'": ([], [1, 2, 3]),
    "date(departed) <= '2013'": ([], [1, 2, 3]),
    "day = '2013-01'": ([], [1, 2]),
    "day > '2013-01'": ([1, 2, 3, 4], [3, 4]),
    "day = '31.1.2013'": ([], [2]),
    "day >= '2014/6/5'": ([], [4]),
    "day = '20130131'": ([], [2]),
    "day <= 'now'": ([1, 2, 3, 4], [1, 2, 3, 4]),
    "date(departed) = 2013": ([], [1, 2, 3]),
    "time(departed) >= 12": ([1, 2, 3, 4], [2, 4]),
    "day = 2013-01-31": ([], None),
    "flight > 1000": ([1, 2, 3], [2]),
    "strftime('%Y', day) = 2013": ([], [1, 2, 3]),
    "strftime('%m', day) > 6": ([1, 2, 3, 4], [3]),
    "strftime('%m', day) = '6'": ([], [4]),
    "strftime('%m', day) IN (6, 12)": ([], [3, 4]),
    "substr(day, 6, 2) = 6": ([], [4]),
    "length(carrier) >= '2'": ([], [1, 2, 3, 4]),
    "day > date('2014-06-06') - 7": ([1, 2, 3, 4], None),
}
"""Conditions, the rows that they find, and those that are found by what the note says is to be written."""


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS.items())
def test_what_is_to_be_written_finds_the_rows_that_were_meant(database, condition, expected):
    (note,) = lint(f"SELECT id FROM flights WHERE {condition}", {}, FLIGHTS)
    write = note.rpartition(": write ")[2].partition(" or ")[0].partition(" if each ")[0]
    assert write
    if " instead of " in write:
        new, old = write.split(" instead of ")
        write = condition.replace(old, new, 1)
    found, meant = expected
    assert ids(database, condition) == found
    if meant is not None:
        assert ids(database, write) == meant


EXPRESSIONS = {
    "CAST(departed AS DATE)": (2013, "2013-01-01"),
    "CAST(departed AS TIMESTAMP)": (2013, "2013-01-01 05:33:00"),
    "CAST(departed AS TIME)": (2013, "05:33:00"),
    "CAST(carrier AS STRING)": (0, "AA"),
    "day + 1": (2014, "2013-01-02"),
    "departed - 1": (2012, "2012-12-31 05:33:00"),
    "day + seats": (2203, "2013-07-10"),
    "day - seats": (1823, "2012-06-25"),
    "date(day, '+1 month') + 2": (2015, "2013-02-03"),
    "'2013-12-30' - day": (0, 363.0),
    "date('2013-12-30') - day": (0, 363.0),
    "julianday('2013-01-02') - day": (2456294.5 - 2013, 1.0),
    "carrier + flight": (11, "AA11"),
    "carrier + '-' + flight": (11, "AA-11"),
    "strftime(day, '%Y')": (None, "2013"),
    "date(1700000000)": (None, "2023-11-14"),
}


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS.items())
def test_what_is_to_be_written_returns_the_value_that_was_meant(database, expression, expected):
    (note,) = lint(f"SELECT {expression} FROM flights WHERE id = 1", {}, FLIGHTS)
    write = note.rpartition(": write ")[2].partition(" for ")[0]
    if " instead of " in write:
        new, old = write.split(" instead of ")
        before, _, after = expression.rpartition(old)
        write = before + new + after
    value = database.execute(f"SELECT {expression} FROM flights WHERE id = 1").fetchall()
    assert value == [(expected[0],)]
    assert database.execute(f"SELECT {write} FROM flights WHERE id = 1").fetchall() == [(expected[1],)]


def test_means_of_dates(database):
    (note,) = lint("SELECT avg(day) FROM flights WHERE id < 3", {}, FLIGHTS)
    write = note.rpartition(": write ")[2]
    assert database.execute(f"SELECT {write} FROM flights WHERE id < 3").fetchall() == [("2013-01-16",)]
    assert database.execute("SELECT avg(day) FROM flights WHERE id < 3").fetchall() == [(2013.0,)]


# -- functions of dates


def is_null(database, call):
    return database.execute(f"SELECT {call}").fetchall() == [(None,)]


@pytest.mark.parametrize("letter", [*string.ascii_letters, "%", "-d", "1"])
def test_a_note_on_each_letter_that_strftime_does_not_have(database, letter):
    call = f"strftime('%{letter}', '2024-01-05')"
    notes = lint(f"SELECT {call}", {}, {})
    assert bool(notes) == is_null(database, call)
    assert all(f"strftime has no %{letter}, so {call} is NULL" in note for note in notes)


UNITS = ["second", "minutes", "hour", "day", "days", "week", "weeks", "months", "quarter", "year", "decade", "d", "hr"]
AMOUNTS = (["", "+", "-", "+ "], ["1", "1.5", ".5", "x"], ["", " "], UNITS)
MODIFIERS = st.one_of(
    st.builds("{}{}{}{}".format, *map(st.sampled_from, AMOUNTS)),
    st.sampled_from(
        ["start of month", "Start of Year", "start of day", "start of week", "weekday 1", "weekday 7", "localtime",
         "utc", "auto", "subsec", "ceiling", "floor", "+01:30", "10:00:00.5", "+0001-02-03", "-0001-02-03 04:05", "",
         "1", "now", "yesterday", "weekday Monday"]
    ),
)  # fmt: skip


@given(MODIFIERS)
def test_a_note_on_each_modifier_that_sqlite_does_not_have(database, modifier):
    call = f"datetime('2024-01-05 10:00', '{modifier}')"
    notes = lint(f"SELECT {call}", {}, {})
    assert bool(notes) == is_null(database, call)
    for note in notes:
        write = re.search(": write ('[^']*')$", note)
        assert f"no modifier '{modifier}', so {call} is NULL" in note
        assert write is None or not is_null(database, f"datetime('2024-01-05 10:00', {write[1]})")


DATES = st.builds(
    "{}{}{}{}{}{}".format,
    *map(
        st.sampled_from,
        (
            ["2024", "24", "-2024", "12024", "Jan", "5", "31", ""],
            ["-", "/", ".", " ", ""],
            ["01", "1", "13", "05", "Feb"],
            ["-", "/", ".", ", "],
            ["05", "5", "30", "32", "2024", ""],
            [
                "",
                " ",
                " 10:30",
                "T10:30:00",
                " 10:30:00.5Z",
                " 10:30 +02:00",
                " 1:30",
                " 10:30 PM",
                " 10:30:60",
                "x",
                " UTC",
            ],
        ),
    ),
)


@given(
    st.one_of(
        DATES, st.sampled_from(["now", "NOW", "today", "10:30", "1:30", "2460000.5", "1e3", "20240105", "subsec"])
    )
)
def test_a_note_on_each_text_that_sqlite_does_not_read(database, text):
    call = f"julianday('{text}')"
    found = [note for note in lint(f"SELECT {call}", {}, {}) if f"{call} is NULL" in note]
    assert bool(found) == is_null(database, call)
    assert bool([note for note in lint("SELECT julianday(:given)", {":given": text}, {}) if "is NULL" in note]) == bool(
        found
    )
    for day in readings(text):
        assert not is_null(database, f"julianday('{day}')")


def test_dates_beyond_the_calendar_are_read_as_the_note_says(database):
    for text in ("2024-02-30", "2023-02-29", "2023-02-31", "2024-04-31"):
        (note,) = lint(f"SELECT date('{text}')", {}, {})
        (day,) = database.execute(f"SELECT date('{text}')").fetchall()[0]
        assert note == f"'{text}' does not exist, and SQLite reads it as {day}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/5/2024", ["2024-01-05", "2024-05-01"]), ("5/5/2024", ["2024-05-05"]), ("13/5/2024", ["2024-05-13"]),
        ("05.01.2024", ["2024-01-05"]), ("2024/1/5 10:30", ["2024-01-05 10:30"]), ("20240105", ["2024-01-05"]),
        ("January 5th, 2024", ["2024-01-05"]), ("5-Jan-2024", ["2024-01-05"]), ("5. Jan 2024", ["2024-01-05"]),
        ("31.2.2024", []), ("1.5", []), ("2024-01-05", []), ("10.0.0.1", []), ("1/5", []), ("99999999", []),
    ],
)  # fmt: skip
def test_what_dates_of_other_forms_can_mean(text, expected):
    assert readings(text) == expected


# -- all rules


WORDS = """
departed day flight carrier = < >= BETWEEN AND NOT IN ( ) '2013' '2013-01-01' '5' 2013 2024-01-01 - + || * , OR CASE
WHEN THEN END CAST AS DATE strftime date '%Y' sum DISTINCT SELECT FROM flights WHERE NULL :p UPDATE SET
"""
PIECES = st.sampled_from(WORDS.split())


@given(st.lists(PIECES, max_size=20))
def test_any_text_is_accepted_and_each_note_passes_the_gate(pieces):
    text = "SELECT id FROM flights WHERE " + " ".join(pieces)
    assert not lint(text, {":p": "2013-01-01"}, FLIGHTS) or FOUND_IN.search(text)


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SELECT * FROM flights LIMIT 5", "SELECT carrier, day FROM flights ORDER BY day"]
)
def test_cells_without_a_construct_are_not_parsed(text):
    assert FOUND_IN.search(text) is None
