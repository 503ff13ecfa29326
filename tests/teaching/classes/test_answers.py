"""Wrong answers as they are recorded and grouped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.session.cell import parse_cell
from pipemagic.teaching.classes.answers import LONGEST_ANSWER, Answer, WrongAnswer, frequent, pattern, wrong_answer
from pipemagic.teaching.exercises import Check
from pipemagic.teaching.exercises.exercise import Exercise
from pipemagic.teaching.exercises.running import EMPTY

PATTERNS = {
    "SELECT  Name\nFROM bird -- all\nWHERE g>5 AND name = 'Ada';": "select name from bird where g > ? and name = ?",
    "/* x */ select COUNT ( * ), max(sum (a))": "select count(*), max(sum(a))",
    "select a from t where b in ('x','it''s') and (c or d)": "select a from t where b in (?, ?) and (c or d)",
    "select replace(a, 'x', \"Dream\"), a||b, t . c": 'select replace(a, ?, "dream"), a || b, t.c',
    "select x'00ff', 1.5e3, 0x1F, ?1, :name, $x": "select ?, ?, ?, ?, ?, ?",
    "insert into t(a,b) values (1,2); select 1": "insert into t(a, b) values (?, ?); select ?",
    "with x(a) as (select 1) select a from x": "with x(a) as (select ?) select a from x",
    "select 'my password": "select ?",
    "  ;": "",
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PATTERNS.items(), ids=PATTERNS.values())
def test_literals_letter_case_and_white_space_do_not_count(text, expected):
    assert pattern(text) == expected
    assert pattern(expected) == expected


@given(st.text(max_size=200), st.text(max_size=20))
def test_no_text_literal_is_recorded(before, secret):
    quoted = "'" + secret.replace("'", "''") + "'"
    assert pattern(f"select {quoted}, a from t where b = {quoted}") == "select ?, a from t where b = ?"
    assert len(pattern(before * 100)) <= LONGEST_ANSWER


def check(text, *messages, score=0.0):
    return Check(Exercise(name="one"), score, messages, cell=parse_cell(text) if text else EMPTY)


TOKEN = "eyJhbGciOiJFZERTQSJ9.eyJpZCI6IngifQ.abcdefghijklmnop"


def test_what_is_recorded_of_a_check():
    assert wrong_answer(check("SELECT 1", "2 rows differ\nmore", "x")) == ("select ?", "2 rows differ")
    assert wrong_answer(check("SELECT 1", score=1.0)) is None
    assert wrong_answer(check("", "no")) is None
    assert wrong_answer(Check(Exercise(name="one"), 0, ("expected a DataFrame, got int",))) is None
    assert wrong_answer(check("SELECT 1", f"no such column: {TOKEN}")) == ("select ?", "")
    assert wrong_answer(check(f'SELECT "{TOKEN}"', "wrong")) is None
    assert wrong_answer(check("SELECT 1", "see http://ada:secret@x.org/")) == ("select ?", "see http://***@x.org/")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("no row of bird has name = 'it''s me': the values are 'Bo' and 'Cy'",
         "no row of bird has name = ?: the values are ? and ?"),
        ("no row has a > -5.5 AND b BETWEEN 3 AND 1e3: the largest is 2",
         "no row has a > ? AND b BETWEEN ? AND ?: the largest is 2"),
        ("no row has a = x'00ff'; there is 'long te…", "no row has a = ?; there is ?"),
        ("the student's 2 rows of 3 differ; near \"x\": syntax error",
         "the student's 2 rows of 3 differ; near \"x\": syntax error"),
    ],
)  # fmt: skip
def test_reasons_have_no_literals(reason, expected):
    recorded = wrong_answer(check("SELECT 1", reason))
    assert recorded is not None
    assert recorded.reason == expected


def test_only_answers_and_reasons_of_three_students_are_shown():
    answers = [Answer("a", "x")] * 3 + [Answer("b", "x"), Answer("b", "x"), Answer("b", "y")] + [Answer("c", "z")] * 2
    assert frequent(answers) == [WrongAnswer("a", 3, "x"), WrongAnswer("b", 3, "")]
    many = [Answer(name, "") for name in "dddddeeeeffffgggg"]
    assert [(row.sql, row.students) for row in frequent(many)] == [("d", 5), ("e", 4), ("f", 4)]
