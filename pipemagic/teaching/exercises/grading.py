"""Grade submissions: run students' notebooks and collect the points of their exercises."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from pipemagic import launcher
from pipemagic.errors import PipemagicError, SessionError
from pipemagic.teaching.exercises.checking import Check, hidden_score, results
from pipemagic.teaching.exercises.release import Source, fingerprint, read

if TYPE_CHECKING:
    from pandas import DataFrame

CELL_TIMEOUT = 60  # seconds

HIDDEN = "HIDDEN_CHECK"
"""The code of the error for an answer that is wrong on the hidden data."""

NOT_CHECKED = "not checked"
_NOT_REPORTED = "the check did not report its points"

_CHECK = re.compile(r"^[ \t]*%%?check[ \t]+([\w-]+)", re.MULTILINE)
_REPORT = "from pipemagic.teaching.exercises.grading import report\nreport(*{!r})"
_TOO_LONG = {
    "ename": "CellTimeout",
    "evalue": "",
    "traceback": ["the cell exceeded its time limit and was interrupted"],
}


class Grade(msgspec.Struct, frozen=True):
    """The points of an exercise in a submission. ``hidden`` is None if no hidden check was run."""

    submission: str
    exercise: str
    points: float
    of: float
    hidden: bool | None = None
    message: str = ""


# -- in the kernel of a submission


def verified_points(name: str, file: str, *, reference: str = "", data: str = "") -> float:
    """Return the points of the best answer to an exercise; raise SessionError if none count.

    The answers must have been checked with the teacher's file, which has the fingerprint ``file``. If ``data`` are
    statements that make the hidden data, an answer counts with its lower score: right answers that are wrong there do
    not count.
    """
    return _verified(name, file, reference, data)[0]


def _verified(name: str, file: str, reference: str, data: str) -> tuple[float, Check, str]:
    """Return the points, the answer that has them, and a note on its points on the hidden data."""
    best = results.get(name)
    if best is None:
        raise SessionError(NOT_CHECKED)
    if fingerprint(best.exercise) != file:
        raise SessionError("checked with a file that differs from the teacher's")
    found: tuple[float, Check, str] | None = None
    wrong = ""
    for check in best.attempts:
        if found and found[0] >= check.points:  # no later one can have more
            break
        points, note = check.points, ""
        if data and check.cell:
            score = hidden_score(check, reference=reference, data=data) or 0
            if check.passed and score < 1:
                wrong = "correct on the visible data, wrong on the hidden data"
                continue
            points = min(points, replace(check, score=score).points)
            note = f"{points:g} of {check.exercise.points:g} on the hidden data" if points < check.points else ""
        if not found or points > found[0]:
            found = points, check, note
    if not found and wrong:
        raise SessionError(wrong, code=HIDDEN)
    return found or (0, best, "")


def report(path: str, name: str, of: float, file: str, reference: str, data: str) -> None:
    """Write the grade of the best answer to an exercise to a file."""
    try:
        points, check, note = _verified(name, file, reference, data)
        lines = [line.partition("\n")[0] for line in check.messages] or ["no answer"] * (not check.passed)
        hidden = True if data and check.cell and check.points else None
        grade = Grade("", name, points, of, hidden, "; ".join([*lines, note] if note else lines))
    except PipemagicError as error:  # of the answer or of the reference
        grade = Grade("", name, 0, of, False if error.code == HIDDEN else None, error.message)
    Path(path).write_bytes(msgspec.json.encode(grade))


# -- on the teacher's side


def grade(submission: Path, source: Path, *, name: str = "", timeout: float = CELL_TIMEOUT) -> list[Grade]:
    """Run a student's notebook with the teacher's files of the exercises; return a grade for each exercise.

    It runs in a copy of its folder, with a service of its own and ``timeout`` seconds for each cell. Cells that fail
    do not stop it. An exercise without a check has 0 points, even if the notebook cannot be read or run.
    """
    exercises, name = Source.find(read(source), source.parent), name or submission.stem
    if not exercises.definitions:
        raise SessionError(f"no %%exercise cells in {source.name}")
    files, definitions = exercises.fingerprints(), exercises.definitions
    calls = {
        definition.name: (definition.points, files[definition.name], definition.sql, definition.hidden)
        for definition in definitions
    }
    with TemporaryDirectory(prefix="pipemagic-grade-", ignore_cleanup_errors=True) as folder:
        by_name, problem = _run(submission, exercises.folder, Path(folder), calls, timeout)
        launcher.stop(Path(folder, "data"))
    grades = [
        by_name.get(definition.name) or Grade("", definition.name, 0, definition.points, message=problem)
        for definition in definitions
    ]
    return [msgspec.structs.replace(result, submission=name) for result in grades]


def _run(
    submission: Path, exercises: Path, folder: Path, calls: Mapping[str, tuple[Any, ...]], timeout: float
) -> tuple[dict[str, Grade], str]:
    """Run a copy of a submission; return the last grades by exercise, and the message for exercises without one."""
    grades: dict[str, Grade] = {}
    try:
        notebook = read(submission)
        ignored = shutil.ignore_patterns("*.ipynb", "exercises", ".*")
        shutil.copytree(submission.parent, folder / "work", ignore=ignored, ignore_dangling_symlinks=True)
        shutil.copytree(exercises, folder / "work" / "exercises")
        grades.update(_execute(notebook, folder, calls, timeout))
    except (PipemagicError, OSError, RuntimeError) as error:  # RuntimeError: the kernel has ended
        return grades, str(error).partition("\n")[0]
    return grades, NOT_CHECKED


def _execute(
    notebook: Any, folder: Path, calls: Mapping[str, tuple[Any, ...]], timeout: float
) -> Iterator[tuple[str, Grade]]:
    """Run the cells of a notebook, and after each cell with a check a cell that reports its grade; yield the grades.

    That cell is not in the kernel's history, where a later cell could read the reference. ``calls`` are the arguments
    of `report` that follow the name of each exercise.
    """
    import nbclient
    from nbformat.v4 import new_code_cell

    client = nbclient.NotebookClient(
        notebook, timeout=timeout, interrupt_on_timeout=True, error_on_timeout=_TOO_LONG,
        allow_errors=True, kernel_name="python3", resources={"metadata": {"path": str(folder / "work")}},
        record_timing=False,  # for a cell that ran too long, it calls datetime.utcnow(), which is deprecated
        extra_arguments=["--log-level=ERROR"],
    )  # fmt: skip
    variables = {"JUPYTER_PREFER_ENV_PATH": "1", launcher.FOLDER_VARIABLE: str(folder / "data")}
    reports = TemporaryDirectory(prefix="pipemagic-", ignore_cleanup_errors=True)
    with reports, client.setup_kernel(env={**os.environ, **variables}):
        for number, cell in enumerate(notebook.cells):
            client.execute_cell(cell, number)
            for name in calls.keys() & _CHECK.findall(cell.source):
                path = Path(reports.name, secrets.token_hex(16))
                call = _REPORT.format((str(path), name, *calls[name]))
                added = new_code_cell(call)  # type: ignore[no-untyped-call]
                client.execute_cell(added, number, store_history=False)
                yield name, _reported(path, name, calls[name][0])


def _reported(path: Path, name: str, of: float) -> Grade:
    """Return the grade in the file of a report, with points from 0 to ``of``."""
    try:
        grade = msgspec.json.decode(path.read_bytes(), type=Grade)
    except (OSError, ValueError):  # no file, or not a grade
        return Grade("", name, 0, of, message=_NOT_REPORTED)
    return msgspec.structs.replace(grade, exercise=name, points=min(max(grade.points, 0), of), of=of)


def summary(grades: Sequence[Grade]) -> DataFrame:
    """Return a row for each submission, with the points of each exercise and their total."""
    from pandas import DataFrame

    frame = DataFrame(list(map(msgspec.structs.asdict, grades)))
    points = frame.pivot_table("points", "submission", "exercise", sort=False).rename_axis(columns=None)
    return points.assign(total=points.sum(axis=1))
