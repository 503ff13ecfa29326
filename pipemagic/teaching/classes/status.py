"""Read the progress of all students of a class from their databases."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipemagic.client.database import Database
from pipemagic.errors import PipemagicError
from pipemagic.teaching.classes.model import Class, Seat
from pipemagic.teaching.classes.progress import LONGEST_ERROR, PROGRESS_TABLE
from pipemagic.text import format_duration, plural

if TYPE_CHECKING:
    from pipemagic.teaching.classes.creation import Access

WORKERS = 8
"""Databases that are read at a time."""

TIMEOUT = 5.0
"""Timeout of each request in seconds."""

HEADERS = ("student", "connected", "last activity", "cells", "errors", "passed", "last error")
"""The headers of `table_of`."""

MOST = 10**6
"""The largest number of cells, errors or points."""

_QUERY = f"""\
WITH progress AS (SELECT id, CAST(strftime('%s', at) AS INTEGER) AS at, cells, errors,
  CAST(substr(error, 1, {LONGEST_ERROR}) AS TEXT) AS error, CAST(substr(exercise, 1, 100) AS TEXT) AS exercise,
  CAST(points AS REAL) AS points, CAST(of AS REAL) AS of FROM {PROGRESS_TABLE}),
possible AS (SELECT at FROM progress
  WHERE at BETWEEN CAST(strftime('%s', '2020-01-01') AS INTEGER) AND CAST(strftime('%s', 'now') AS INTEGER))
SELECT CASE WHEN EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{PROGRESS_TABLE}')
THEN (SELECT json_object(
  'connected', (SELECT min(at) FROM possible), 'last', (SELECT max(at) FROM possible),
  'cells', CAST(ifnull(min(max(total(cells), 0), {MOST}), 0) AS INTEGER),
  'errors', CAST(ifnull(min(max(total(errors), 0), {MOST}), 0) AS INTEGER),
  'error', (SELECT error FROM progress WHERE error <> '' ORDER BY id DESC LIMIT 1),
  'exercises', json((SELECT json_group_object(exercise, json_array(points, of)) FROM
    (SELECT exercise, min(max(max(points), 0), {MOST}) AS points, min(max(max(of), 0), {MOST}) AS of
     FROM progress WHERE exercise <> '' GROUP BY exercise LIMIT 200))))
FROM progress) END"""
"""NULL for a view in place of the table, which might never end. All values are cast and bounded, and times before 2020
or in the future ignored, since students can write anything into their table."""


@dataclass(frozen=True)
class Progress:
    """The progress of a student; ``student`` is told apart from others of the same name.

    ``connected`` and ``last`` are Unix times of the server, None if nothing was recorded. ``error`` is the message of
    the last error. ``exercises`` maps each exercise that was checked to the best points and the possible ones.
    ``problem`` is the reason why the database could not be read.
    """

    student: str
    database: str
    connected: int | None = None
    last: int | None = None
    cells: int = 0
    errors: int = 0
    error: str | None = None
    exercises: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    problem: str = ""

    @classmethod
    def of_json(cls, student: str, database: str, text: str) -> Progress:
        """Return the progress that a database reports."""
        values = json.loads(text)
        best = {name: (points or 0.0, of or 0.0) for name, (points, of) in values.pop("exercises").items()}
        return cls(student, database, exercises=best, **values)

    def passed(self, exercises: Collection[str]) -> int:
        """Return how many of the exercises have all points."""
        return sum(points >= of for name, (points, of) in self.exercises.items() if name in exercises)


def read_progress(class_: Class, open_seat: Callable[[Seat], Database]) -> list[Progress]:
    """Return the progress of each student, in the order of the seats; one request to each database.

    ``open_seat`` returns the database of a seat with a token that can read it; it is called in several threads.
    """
    names = class_.labels()
    with ThreadPoolExecutor(WORKERS, "pipemagic: class") as pool:
        return list(pool.map(lambda seat: _read(names[seat.key], seat, open_seat), class_.seats))


def with_own_token(access: Access) -> Callable[[Seat], Database]:
    """Return a function that opens a database with the student's token, or the teacher's once that has expired."""

    def open_seat(seat: Seat) -> Database:
        if seat.token and seat.expires > time.time() + TIMEOUT:
            return access.open(seat, seat.token)
        return access(seat)

    return open_seat


def _read(student: str, seat: Seat, open_seat: Callable[[Seat], Database]) -> Progress:
    if not seat.url:
        return Progress(student, seat.database, problem="not created yet")
    try:
        with open_seat(seat) as opened, opened.sibling(timeout=TIMEOUT) as database:
            [(text,)] = database.execute(_QUERY).rows
    except PipemagicError as failure:
        gone = f"no such table: {PROGRESS_TABLE}" in failure.message
        problem = f"the table {PROGRESS_TABLE} was deleted" if gone else failure.message.partition("\n")[0]
        return Progress(student, seat.database, problem=problem)
    if text is None:
        return Progress(student, seat.database, problem=f"{PROGRESS_TABLE} is not a table")
    return Progress.of_json(student, seat.database, str(text))


def exercises_of(rows: Sequence[Progress]) -> Collection[str]:
    """Return the exercises that more than one student has checked; those of all if fewer than three students have.

    A student can write invented names into the table.
    """
    counts = Counter(name for row in rows for name in row.exercises)
    least = 2 if sum(bool(row.exercises) for row in rows) > 2 else 1
    return {name for name, count in counts.items() if count >= least}


def summary(rows: Sequence[Progress]) -> str:
    """Return a line with numbers: ``183 of 200 connected, 41 passed all 8 exercises, 7 with errors``."""
    exercises = exercises_of(rows)
    count, passed = len(exercises), sum(row.passed(exercises) == len(exercises) for row in rows)
    problems = sum(bool(row.problem) for row in rows)
    parts = [
        f"{sum(row.connected is not None for row in rows)} of {len(rows)} connected",
        f"{passed} passed all {plural(count, 'exercise')}" if count else "",
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
