"""Check answers: run SQL in a transaction that is rolled back, and compare its results with those of the reference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipemagic.errors import PipemagicError, SessionError, StatementError, TransactionLost
from pipemagic.hrana.stream import Tx
from pipemagic.session.cell import Cell, parse_cell
from pipemagic.teaching.exercises.comparison import Comparison, Rules, compare
from pipemagic.teaching.exercises.constructs import violations
from pipemagic.teaching.exercises.digest import digest, outline
from pipemagic.teaching.exercises.exercise import Exercise, Probe, unpack
from pipemagic.teaching.exercises.running import EMPTY, results_of
from pipemagic.teaching.exercises.state import lines_of
from pipemagic.teaching.exercises.tables import changed_data, is_at_start

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.result import Result
    from pipemagic.session.connection import Connection
    from pipemagic.teaching.exercises.running import Ran

DEFAULTS = Rules()

ONLY_READS = "the answer changes nothing: it only reads"

WITHOUT_CONSTRUCT = 0.5
"""The factor for an answer that lacks a required construct, or contains a forbidden one."""


@dataclass(frozen=True)
class Check:
    """The result of a check.

    ``score`` is from 0 to 1. ``answer`` is its last result or frame, ``difference`` the first differing rows, and
    ``heading`` the line above them.
    ``failures`` counts the failed checks of the exercise so far, this one included. ``cell`` and ``connection`` are the
    answer and where it was run. ``attempts`` are those with points so far, the best first, if this is the best.
    ``notes`` are those of %%sql on the answer, ``history`` the cells up to the check of an answer in other cells.
    """

    exercise: Exercise
    score: float
    messages: tuple[str, ...] = ()
    difference: DataFrame | None = None
    answer: Result | DataFrame | None = None
    failures: int = 0
    cell: Cell | None = None
    connection: Connection | None = None
    attempts: tuple[Check, ...] = ()
    history: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    heading: str = ""

    @property
    def passed(self) -> bool:
        """True if the answer is right."""
        return self.score == 1

    @property
    def points(self) -> float:
        """The points of the answer, with two decimals; only a right answer has all."""
        of = self.exercise.points
        return of if self.passed else max(0, min(round(self.score * of, 2), round(of - 0.01, 2)))

    @property
    def quarters(self) -> float:
        """The points that students see, rounded down to quarters: how near a wrong answer is, not its exact score."""
        return math.floor(self.score * 4 + 1e-9) / 4 * self.exercise.points

    @property
    def hints(self) -> tuple[str, ...]:
        """The hints to show: one more after each failed check."""
        return self.exercise.hints[: self.failures]


results: dict[str, Check] = {}
"""The best check of each exercise in this process, by name, of equal ones the last; graders read it."""


def record(check: Check) -> Check:
    """Add a check to the results; return it with the number of failures. Those of a changed exercise start again."""
    before = results.get(check.exercise.name)
    if before and before.exercise != check.exercise:
        before = None
    failures = (before.failures if before else 0) + (not check.passed and bool(check.messages))
    check = replace(check, failures=failures)
    attempts = before.attempts if before else ()
    if check.points:
        mine = replace(check, answer=None)  # which may be large
        others = [other for other in attempts if _sent(other) != _sent(mine)]
        attempts = tuple(sorted([mine, *others], key=_worth, reverse=True))
    best = check if before is None or _worth(check) >= _worth(before) else before
    results[check.exercise.name] = replace(best, failures=failures, attempts=attempts)
    return check


def _sent(check: Check) -> tuple[object, ...]:
    """Return what an attempt sent, or the cells that have run."""
    return (check.cell.text, check.cell.stmts) if check.cell else check.history


def _worth(check: Check) -> tuple[float, bool]:
    """Return what the best of several attempts is chosen by; a wrong answer is better than none."""
    return check.score, bool(check.messages)


# -- answers


def check_cell(
    exercise: Exercise,
    cell: Cell,
    connection: Connection,
    notes_on: Callable[[Ran], Sequence[str]] = lambda _: (),
    explained: Callable[[PipemagicError], PipemagicError] = lambda error: error,
) -> Check:
    """Check SQL: run it in a transaction that is rolled back, and compare its result or the state after it.

    ``notes_on`` returns the notes on an answer that ran, ``explained`` an error with more hints.
    """
    if not cell.statements:
        return Check(exercise, 0)
    problem = _problem(exercise, cell, connection)
    if problem:
        return Check(exercise, 0, (problem,), cell=cell, connection=connection)
    try:
        actual, ran = results_of(connection, "", cell, exercise.probes)
    except StatementError as error:
        lines = (*changed_data(exercise, connection), str(explained(error)))
        return Check(
            exercise, 0, lines, cell=cell, connection=connection, notes=_unseen(exercise, connection, cell.text)
        )
    except TransactionLost:
        return Check(exercise, 0, ("the answer took longer than the server allows",), cell=cell, connection=connection)
    check = _compared(exercise, actual, "" if ran.mixed else cell.text, ran.reason or ran.unmatched)
    if ran.mixed and not check.passed:
        check = replace(check, messages=(ran.mixed, *check.messages))
    last = cell.statements[-1]
    if ran.reason and last.is_query and not check.passed and not any(ran.reason in line for line in check.messages):
        check = replace(check, messages=(*check.messages, ran.reason))
    if exercise.probes[0].sql and not check.passed and all(statement.only_reads for statement in cell.statements):
        check = replace(check, messages=(ONLY_READS, *check.messages))
    if broken := _broken(exercise, cell):
        check = replace(check, score=check.score * WITHOUT_CONSTRUCT, messages=(*broken, *check.messages))
    check = _with_changed_data(check, connection)
    changes_none = [f"The {last.verb} changes no row: {ran.reason}."] if ran.reason and last.changes_rows else []
    own = [] if check.passed else [*changes_none, *_unseen(exercise, connection, cell.text)]
    notes = [note for note in notes_on(ran) if not _says(note, [*check.messages, *own])] + own
    return replace(check, answer=ran.result, cell=cell, connection=connection, notes=tuple(notes))


def _with_changed_data(check: Check, connection: Connection) -> Check:
    """Return a check with lines on data that are not those of the exercise, before what may follow from these."""
    return (
        check if check.passed else replace(check, messages=(*changed_data(check.exercise, connection), *check.messages))
    )


def _unseen(exercise: Exercise, connection: Connection, text: str = "") -> tuple[str, ...]:
    """Return a note on what cells of %%sql see and a check, which has its own stream, does not.

    Temporary tables are those that the answer, ``text``, or the exercise names.
    """
    if connection.transaction is Tx.OPEN:
        return ("The check does not see the changes of your open transaction: run COMMIT or ROLLBACK first.",)
    if connection.sees_more:
        used = "\n".join([text, *(probe.sql for probe in exercise.probes)])
        named = [name for name in connection.temporary_tables if re.search(rf"(?i)\b{re.escape(name)}\b", used)]
        return (f"The check does not see your temporary tables: {', '.join(named)}.",) if named else ()
    return ()


def _says(note: str, lines: Sequence[str]) -> bool:
    """Return True if one of the lines contains a note."""
    return any(note.removeprefix("Note: ").rstrip(".") in line for line in lines)


def _broken(exercise: Exercise, cell: Cell) -> list[str]:
    """Return messages on missing and on forbidden constructs."""
    answer = cell.text if exercise.probes[0].sql else cell.statements[-1].text
    forbidden = [line for statement in cell.statements for line in violations(statement.text, (), exercise.forbids)]
    return [*forbidden, *violations(answer, exercise.requires, ())]


def check_state(exercise: Exercise, connection: Connection) -> Check:
    """Check the state of the database as it is, which other cells have changed and committed.

    The state before an answer, or one with the same score if the exercise contains no tables, counts as no answer.
    """
    if not all(probe.sql for probe in exercise.probes):
        instead = f"%check {exercise.name} {exercise.variable}" if exercise.variable else f"%%check {exercise.name}"
        what = (
            "the rows that an answer returns as well"
            if exercise.probes[0].sql
            else "a result, not the state of the database"
        )
        raise SessionError(f"{exercise.name} checks {what}", hint=instead)
    actual, _ = results_of(connection, "", EMPTY, exercise.probes)
    notes = _unseen(exercise, connection)
    if is_at_start(exercise, connection) if exercise.commits else _scores_as_before(exercise, actual):
        return Check(exercise, 0, notes=notes)  # the differing rows would be the answer
    check = replace(_with_changed_data(_compared(exercise, actual, ""), connection), connection=connection)
    check = check if check.passed else replace(check, notes=notes)
    if exercise.commits and not check.passed:
        names = ", ".join([*(table.name for table in exercise.tables if table.definitions), *exercise.created])
        again = f"to try again, restore {names} as before your answer: %check {exercise.name} --reset"
        check = replace(check, messages=(*check.messages, again))
    return check


def _scores_as_before(exercise: Exercise, actual: Sequence[DataFrame | str]) -> bool:
    """Return True if a state has the same score as before an answer."""
    return 0 < exercise.baseline == score_of(compare_all(exercise.probes, actual)) < 1


def check_frame(exercise: Exercise, frame: object, connection: Connection | None = None) -> Check:
    """Check a DataFrame, which was made from the tables of a connection; None is no answer."""
    from pandas import DataFrame

    if len(exercise.probes) != 1 or exercise.probes[0].sql:
        hint = f"write the SQL below %%check {exercise.name}"
        raise SessionError(f"{exercise.name} checks the state of the database, not a DataFrame", hint=hint)
    if frame is None:
        return Check(exercise, 0)
    if not isinstance(frame, DataFrame):
        return Check(exercise, 0, (f"expected a DataFrame, got {type(frame).__name__}",))
    check = replace(_compared(exercise, [frame], ""), answer=frame, connection=connection)
    return check if connection is None else _with_changed_data(check, connection)


def hidden_score(check: Check, *, reference: str, data: str) -> float | None:
    """Return the score of an answer on other data, from 0 to 1; None without an answer below %%check.

    ``data`` are statements that change the data. They, the answer and the reference run in transactions that are rolled
    back.
    """
    if check.connection is None or check.cell is None:
        return None
    exercise = check.exercise
    expected, _ = results_of(check.connection, data, parse_cell(reference), exercise.probes)
    try:
        actual, _ = results_of(check.connection, data, check.cell, exercise.probes)
    except (StatementError, TransactionLost):
        return 0
    score = score_on(exercise, expected, actual)
    return score * WITHOUT_CONSTRUCT if _broken(exercise, check.cell) else score


def score_on(exercise: Exercise, expected: Sequence[DataFrame | str], actual: Sequence[object]) -> float:
    """Return the score of results on other data, from 0 to 1; a value that is no frame has none."""
    rules = [probe.rules for probe in exercise.probes]
    return _total(exercise, [_score(*parts) for parts in zip(expected, actual, rules, strict=True)])


def _problem(exercise: Exercise, cell: Cell, connection: Connection) -> str:
    """Return why an answer is not run; '' if it is."""
    if any(
        (statement.opens_transaction and statement.keyword == "BEGIN") or statement.commits or statement.rolls_back
        for statement in cell.statements
    ):
        return "BEGIN, COMMIT and ROLLBACK are not allowed here: the answer runs in a transaction that is rolled back"
    if exercise.variable:
        return f"the answer is a DataFrame: run %check {exercise.name} {exercise.variable}"
    if connection.transaction is Tx.OPEN and not all(statement.only_reads for statement in cell.statements):
        return "your transaction is open and would block the answer: run COMMIT or ROLLBACK first"
    return ""


def _compared(exercise: Exercise, actual: Sequence[DataFrame | str], text: str, reason: str = "") -> Check:
    """Compare the results of all probes."""
    compared = compare_all(exercise.probes, actual, text, reason)
    expected = [unpack(probe.expected) if probe.expected else None for probe in exercise.probes]
    found = [comparison.messages for comparison in compared]
    lines = lines_of(exercise.probes, list(zip(expected, actual, found, strict=True)))
    score = _total(exercise, [comparison.score for comparison in compared])
    with_rows = (pair for pair in zip(exercise.probes, compared, strict=True) if pair[0].kind in ("", "rows"))
    probe, first = next((pair for pair in with_rows if pair[1].difference is not None), (Probe(), Comparison(0)))
    heading = first.heading
    if heading and probe.label:
        heading = f"{probe.label}: {heading[0].lower()}{heading[1:]}"
    return Check(exercise, score, tuple(lines), first.difference, heading=heading)


def score_of(compared: Sequence[Comparison]) -> float:
    """Return the mean of the scores."""
    return sum(comparison.score for comparison in compared) / len(compared)


def compare_all(
    probes: Sequence[Probe], actual: Sequence[DataFrame | str], text: str = "", reason: str = ""
) -> list[Comparison]:
    """Compare the result of each probe; ``text`` is the answer, ``reason`` why it finds no row or not all."""
    return [_compare(probe, result, text, reason) for probe, result in zip(probes, actual, strict=True)]


def same(expected: DataFrame | str, actual: DataFrame | str) -> bool:
    """Return True if two results are equal; errors are not."""
    return _score(expected, actual, DEFAULTS) == 1


def _score(expected: DataFrame | str, actual: object, rules: Rules) -> float:
    from pandas import DataFrame

    if isinstance(expected, str) or not isinstance(actual, DataFrame):
        return 0
    return compare(expected, actual, rules).score


def _total(exercise: Exercise, scores: Sequence[float]) -> float:
    """Return the score of an answer: that of its rows, of the state after it, or the mean of both.

    The state before an answer gets no points.
    """
    own = [score for probe, score in zip(exercise.probes, scores, strict=True) if not probe.sql]
    state = [score for probe, score in zip(exercise.probes, scores, strict=True) if probe.sql]
    parts = [*own, *([_above(exercise.baseline, sum(state) / len(state))] if state else [])]
    return sum(parts) / len(parts)


def _above(baseline: float, score: float) -> float:
    """Return the part of the way from the score before an answer to 1."""
    return score if score == 1 or baseline == 1 else max(0, (score - baseline) / (1 - baseline))


def _compare(probe: Probe, actual: DataFrame | str, text: str, reason: str) -> Comparison:
    """Compare one result; a text is the error of a query on the state."""
    text, reason = ("", "") if probe.sql else (text, reason)  # the state has rows of other statements
    if isinstance(actual, str):
        return Comparison(0, (actual,), None)
    if probe.expected:
        return compare(unpack(probe.expected), actual, probe.rules, text, reason)
    if digest(actual, probe.rules, bytes.fromhex(probe.salt), probe.columns) == probe.digest:
        return Comparison(1, (), None)
    if probe.kind in ("", "rows"):
        return Comparison(0, tuple(outline(actual, probe)))
    kind = "tables, views and triggers" if probe.kind == "objects" else probe.kind
    return Comparison(0, (f"the {kind} are not correct",))
