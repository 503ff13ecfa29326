"""Read the progress of all students of a class from their databases, and sum it up for each exercise."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from math import floor
from statistics import fmean
from typing import TYPE_CHECKING

from pipemagic.client.database import Database
from pipemagic.errors import PipemagicError, StatementError
from pipemagic.teaching.classes.answers import LONGEST_ANSWER, LONGEST_REASON, Answer, WrongAnswer, frequent
from pipemagic.teaching.classes.model import Class, Seat
from pipemagic.teaching.classes.progress import ANSWERS_TABLE, LONGEST_ERROR, PROGRESS_TABLE
from pipemagic.text import format_duration, plural

if TYPE_CHECKING:
    from pipemagic.teaching.classes.creation import Access

WORKERS = 8
"""Databases that are read at a time."""

TIMEOUT = 5.0
"""Timeout of each request in seconds."""

HEADERS = ("student", "connected", "last activity", "cells", "errors", "passed", "last error")
"""The headers of `table_of`."""

EXERCISE_HEADERS = ("exercise", "tried", "passed", "attempts", "points")
"""The headers of `exercise_table`."""

ANSWER_HEADERS = ("exercise", "students", "wrong answer", "reason")
"""The headers of `answer_table`."""

MOST = 10**6
"""The largest number of cells, errors, attempts or points."""

_ANSWERS = f"""\
(SELECT json_group_object(exercise, json_array(answer, reason)) FROM
    (SELECT exercise, max(checks.id), CAST(substr(answer, 1, {LONGEST_ANSWER}) AS TEXT) AS answer,
       CAST(substr(ifnull(reason, ''), 1, {LONGEST_REASON}) AS TEXT) AS reason
     FROM checks JOIN {ANSWERS_TABLE} USING (id)
     WHERE answer <> '' AND exercise NOT IN (SELECT exercise FROM passes) GROUP BY exercise LIMIT 200))"""
"""The last wrong answer to each exercise that was not passed yet."""

_QUERY = """\
WITH progress AS (SELECT id, CAST(strftime('%s', at) AS INTEGER) AS at, cells, errors,
  CAST(substr(error, 1, {longest_error}) AS TEXT) AS error, CAST(substr(exercise, 1, 100) AS TEXT) AS exercise,
  CAST(points AS REAL) AS points, CAST(of AS REAL) AS of FROM {progress}),
checks AS (SELECT id, exercise, ifnull(points, 0) AS points, ifnull(of, 0) AS of FROM progress WHERE exercise <> ''),
passes AS (SELECT exercise, min(id) AS id FROM checks WHERE points >= of GROUP BY exercise),
possible AS (SELECT at FROM progress
  WHERE at BETWEEN CAST(strftime('%s', '2020-01-01') AS INTEGER) AND CAST(strftime('%s', 'now') AS INTEGER))
SELECT CASE WHEN (SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ({tables})) = {count}
THEN (SELECT json_object(
  'connected', (SELECT min(at) FROM possible), 'last', (SELECT max(at) FROM possible),
  'cells', CAST(ifnull(min(max(total(cells), 0), {most}), 0) AS INTEGER),
  'errors', CAST(ifnull(min(max(total(errors), 0), {most}), 0) AS INTEGER),
  'error', (SELECT error FROM progress WHERE error <> '' ORDER BY id DESC LIMIT 1),
  'exercises', json((SELECT json_group_object(exercise, json_array(points, of, attempts)) FROM
    (SELECT exercise, min(max(max(points), 0), {most}) AS points, min(max(max(of), 0), {most}) AS of,
       min(sum(passes.id IS NULL OR checks.id <= passes.id), {most}) AS attempts
     FROM checks LEFT JOIN passes USING (exercise) GROUP BY exercise ORDER BY min(checks.id) LIMIT 200))),
  'answers', json({answers}))
FROM progress) END"""
"""NULL for a view in place of a table, which might never end. All values are cast and bounded, and times before 2020
or in the future ignored, since students can write anything into their table."""


@dataclass(frozen=True)
class Tries:
    """The best points of a student in an exercise, the possible ones, and the number of checks up to the first pass."""

    points: float
    of: float
    attempts: int

    @property
    def passed(self) -> bool:
        """True if the student has all points."""
        return self.points >= self.of


@dataclass(frozen=True)
class Progress:
    """The progress of a student; ``student`` is distinct from others of the same name.

    ``connected`` and ``last`` are Unix times of the server, None if nothing was recorded. ``error`` is the message of
    the last error. ``exercises`` has each exercise that was checked, in this order, ``answers`` the last wrong answer
    to each that was not passed. ``problem`` is the reason why the database could not be read.
    """

    student: str
    database: str
    connected: int | None = None
    last: int | None = None
    cells: int = 0
    errors: int = 0
    error: str | None = None
    exercises: Mapping[str, Tries] = field(default_factory=dict)
    problem: str = ""
    answers: Mapping[str, Answer] = field(default_factory=dict)

    @classmethod
    def of_json(cls, student: str, database: str, text: str) -> Progress:
        """Return the progress that a database reports."""
        values = json.loads(text)
        tries = {name: Tries(*numbers) for name, numbers in values.pop("exercises").items()}
        answers = {name: Answer(*texts) for name, texts in values.pop("answers").items()}
        return cls(student, database, exercises=tries, answers=answers, **values)

    def passed(self, exercises: Collection[str]) -> int:
        """Return how many of the exercises have all points."""
        return sum(tries.passed for name, tries in self.exercises.items() if name in exercises)


def read_progress(class_: Class, open_seat: Callable[[Seat], Database]) -> list[Progress]:
    """Return the progress of each student, in the order of the seats; one request to each database.

    ``open_seat`` returns the database of a seat with a token that can read it; it is called in several threads.
    """
    names = class_.labels()
    queries = (_query(answers=True), _query(answers=False)) if class_.record else (_query(answers=False),)

    def read(seat: Seat) -> Progress:
        return _read(names[seat.key], seat, open_seat, queries)

    with ThreadPoolExecutor(WORKERS, "pipemagic: class") as pool:
        return list(pool.map(read, class_.seats))


def _query(*, answers: bool) -> str:
    """Return the query on the progress of a student."""
    tables = [PROGRESS_TABLE, *[ANSWERS_TABLE] * answers]
    return _QUERY.format(
        progress=PROGRESS_TABLE, tables=", ".join(f"'{name}'" for name in tables), count=len(tables),
        longest_error=LONGEST_ERROR, most=MOST, answers=_ANSWERS if answers else "'{}'",
    )  # fmt: skip


def with_own_token(access: Access) -> Callable[[Seat], Database]:
    """Return a function that opens a database with the student's token, or the teacher's once that has expired."""

    def open_seat(seat: Seat) -> Database:
        if seat.token and seat.expires > time.time() + TIMEOUT:
            return access.open(seat, seat.token)
        return access(seat)

    return open_seat


def _read(student: str, seat: Seat, open_seat: Callable[[Seat], Database], queries: Sequence[str]) -> Progress:
    """Read with the first query, or with the next one if the student has deleted the table for wrong answers."""
    if not seat.url:
        return Progress(student, seat.database, problem="not created yet")
    try:
        with open_seat(seat) as opened, opened.sibling(timeout=TIMEOUT) as database:
            text = _first_answer(database, queries)
    except PipemagicError as failure:
        gone = f"no such table: {PROGRESS_TABLE}" in failure.message
        problem = f"the table {PROGRESS_TABLE} was deleted" if gone else failure.message.partition("\n")[0]
        return Progress(student, seat.database, problem=problem)
    if text is None:
        return Progress(student, seat.database, problem=f"{PROGRESS_TABLE} is not a table")
    return Progress.of_json(student, seat.database, str(text))


def _first_answer(database: Database, queries: Sequence[str]) -> object:
    for query in queries[:-1]:
        with suppress(StatementError):
            [(text,)] = database.execute(query).rows
            if text is not None:
                return text
    [(text,)] = database.execute(queries[-1]).rows
    return text


def exercises_of(rows: Sequence[Progress]) -> Collection[str]:
    """Return the exercises that more than one student has checked; those of all if fewer than three students have.

    A student can write invented names into the table.
    """
    counts = Counter(name for row in rows for name in row.exercises)
    least = 2 if sum(bool(row.exercises) for row in rows) > 2 else 1
    return {name for name, count in counts.items() if count >= least}


@dataclass(frozen=True)
class ExerciseProgress:
    """An exercise of a class: how many students tried and passed it, their mean attempts and points, wrong answers.

    ``attempts`` are checks up to the first pass. ``wrong`` are the most frequent of the last wrong answers of students
    who have not passed the exercise.
    """

    exercise: str
    tried: int
    passed: int
    attempts: float
    points: float
    of: float
    wrong: Sequence[WrongAnswer] = ()


def exercise_progress(rows: Sequence[Progress]) -> list[ExerciseProgress]:
    """Return the progress of a class in each exercise, in the order in which the students have checked them."""
    places: dict[str, list[int]] = {name: [] for name in exercises_of(rows)}
    for row in rows:
        for place, name in enumerate(name for name in row.exercises if name in places):
            places[name].append(place)
    return [_in_exercise(name, rows) for name in sorted(places, key=lambda name: (fmean(places[name]), name))]


def _in_exercise(name: str, rows: Sequence[Progress]) -> ExerciseProgress:
    tries = [row.exercises[name] for row in rows if name in row.exercises]
    [(of, _)] = Counter(student.of for student in tries).most_common(1)  # a student can write other points
    wrong = frequent([row.answers[name] for row in rows if name in row.answers])
    return ExerciseProgress(
        name, len(tries), sum(student.passed for student in tries), fmean(student.attempts for student in tries),
        fmean(min(student.points, of) for student in tries), of, wrong,
    )  # fmt: skip


def exercise_table(exercises: Sequence[ExerciseProgress]) -> list[tuple[str, ...]]:
    """Return the texts below `EXERCISE_HEADERS`; mean points are rounded down."""
    return [
        (
            row.exercise, str(row.tried), str(row.passed), f"{row.attempts:.1f}",
            f"{floor(row.points * 10) / 10:g} of {row.of:g}",
        )
        for row in exercises
    ]  # fmt: skip


def answer_table(exercises: Sequence[ExerciseProgress]) -> list[tuple[str, ...]]:
    """Return the texts below `ANSWER_HEADERS`."""
    return [(row.exercise, str(wrong.students), wrong.sql, wrong.reason) for row in exercises for wrong in row.wrong]


def summary(rows: Sequence[Progress]) -> str:
    """Return a line with numbers: ``183 of 200 connected, 41 passed all 8 exercises, 7 with errors``."""
    exercises = exercises_of(rows)
    count, passed = len(exercises), sum(row.passed(exercises) == len(exercises) for row in rows)
    problems = sum(bool(row.problem) for row in rows)
    parts = [
        f"{sum(row.connected is not None for row in rows)} of {len(rows)} connected",
        f"{passed} passed {'the exercise' if count == 1 else f'all {count} exercises'}" if count else "",
        f"{sum(bool(row.errors) for row in rows)} with errors",
        f"{plural(problems, 'database')} not readable" if problems else "",
    ]
    return ", ".join(filter(None, parts))


def table_of(rows: Sequence[Progress], now: float) -> list[tuple[str, ...]]:
    """Return the texts below `HEADERS`; ``now`` is the Unix time that "2 min ago" refers to."""
    exercises = exercises_of(rows)
    return [_texts(row, exercises, now) for row in rows]


def _texts(row: Progress, exercises: Collection[str], now: float) -> tuple[str, ...]:
    if row.problem:
        return (row.student, "", "", "", "", "", row.problem)
    start = "" if row.connected is None else time.strftime("%H:%M", time.localtime(row.connected))
    passed = f"{row.passed(exercises)} of {len(exercises)}" if exercises else ""
    return (row.student, start, since(row.last, now), str(row.cells), str(row.errors), passed, row.error or "")


def since(at: float | None, now: float) -> str:
    """Return how long ago a Unix time was: ``now``, ``20 s ago``, ``2 min ago``; '' for None."""
    if at is None:
        return ""
    seconds = now - at
    return "now" if seconds < 10 else f"{format_duration(seconds if seconds < 60 else seconds // 60 * 60)} ago"
