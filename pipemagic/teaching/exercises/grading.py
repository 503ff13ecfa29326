"""Grade submissions: run students' notebooks and collect the points of their exercises."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from pipemagic import launcher
from pipemagic.errors import ConnectError, PipemagicError, SessionError, StatementError
from pipemagic.session.tokens import DATABASE_URL
from pipemagic.teaching.exercises.checking import Check, hidden_score, results
from pipemagic.teaching.exercises.exercise import Definition
from pipemagic.teaching.exercises.files import copy_files
from pipemagic.teaching.exercises.release import Source, fingerprint, read, release
from pipemagic.teaching.exercises.rerun import hidden_score_of_cells
from pipemagic.text import list_names, shorten

if TYPE_CHECKING:
    from nbclient import NotebookClient
    from pandas import DataFrame

CELL_TIMEOUT = 60  # seconds

HIDDEN = "HIDDEN_CHECK"
"""The code of the error for an answer that is wrong on the hidden data."""

NOT_CHECKED = "not checked"
NOTHING = "nothing handed in"
_NOT_REPORTED = "the check did not report its points"

_CHECK = re.compile(r"^[ \t]*%%?check[ \t]+([\w-]+)", re.MULTILINE)
_TEMPORARY = re.compile(r"^[ \t]*%pipedb[ \t]+connect\b.*\s--temporary\b", re.MULTILINE)
_CARD = re.compile(r"^([ \t]*%pipedb[ \t]+connect\b)(.*\s--code[ \t=].*)$", re.MULTILINE)
"""The line of a card of a class: its code has been used in the lesson."""
_REPORT = "from pipemagic.teaching.exercises.grading import report\nreport(*{!r})"
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_LONGEST_REASON = 200  # characters of the error of a cell


class Table(msgspec.Struct, frozen=True):
    """The first rows that differ: the line above them, the lines of their header, and their values as text."""

    heading: str
    header: list[list[str]]
    rows: list[list[str]]


class Grade(msgspec.Struct, frozen=True):
    """The points of an exercise in a submission, and the reasons for lost points.

    ``hidden`` is None if no hidden check was run. ``difference``, ``notes`` and ``hints`` are what the student saw.
    """

    submission: str
    exercise: str
    points: float
    of: float
    hidden: bool | None = None
    reasons: tuple[str, ...] = ()
    difference: Table | None = None
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The first lines of the reasons."""
        return "; ".join(reason.partition("\n")[0] for reason in self.reasons)


# -- in the kernel of a submission


def verified_points(name: str, file: str, *, reference: str = "", data: str = "", after: str = "") -> float:
    """Return the points of the best answer to an exercise; raise SessionError if none count.

    The answers must have been checked with the teacher's file, which has the fingerprint ``file``. If ``data`` are
    statements that make the hidden data, an answer counts with its lower score: right answers that are wrong there do
    not count. An answer in other cells runs again, from the cell behind ``after`` on: see `answers_in`.
    """
    return _verified(name, file, reference, data, after)[0]


def _verified(name: str, file: str, reference: str, data: str, after: str = "") -> tuple[float, Check, str]:
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
        if data:
            score = _hidden_score(check, reference, data, after)
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


def _hidden_score(check: Check, reference: str, data: str, after: str) -> float:
    """Return the score of an answer on the hidden data; raise SessionError if these do not fit the tables."""
    try:
        score = hidden_score(check, reference=reference, data=data)
        return hidden_score_of_cells(check, reference=reference, data=data, after=after) if score is None else score
    except StatementError as error:
        raise SessionError(
            f"the hidden check fails on the tables as this notebook leaves them: {error.message}"
        ) from None


def report(path: str, name: str, of: float, file: str, reference: str, data: str, after: str) -> None:
    """Write the grade of the best answer to an exercise to a file."""
    try:
        points, check, note = _verified(name, file, reference, data, after)
        reasons = (*check.messages, *filter(None, [note]))
        hidden = True if data and check.points else None
        hints = () if check.passed else results[name].hints
        grade = Grade("", name, points, of, hidden, reasons, _table(check), check.notes, hints)
    except PipemagicError as error:  # of the answer or of the reference
        grade = Grade("", name, 0, of, False if error.code == HIDDEN else None, (error.message,))
    Path(path).write_bytes(msgspec.json.encode(grade))


def _table(check: Check) -> Table | None:
    frame = check.difference
    if frame is None:
        return None
    rows = [["NULL" if value is None else str(value) for value in row] for row in frame.itertuples(index=False)]
    return Table(check.heading, [list(map(str, line)) for line in zip(*frame.columns, strict=True)], rows)


# -- on the teacher's side


@dataclass
class Assignment:
    """What submissions are graded with: a teacher's notebook, its exercises and the files that it needs.

    A cell may run for ``timeout`` seconds. Methods may be called in several threads.
    """

    source: Path
    notebook: Any
    exercises: Source
    timeout: float = CELL_TIMEOUT
    kernels: set[NotebookClient] = field(default_factory=set)
    stopped: bool = False

    @classmethod
    def read(cls, source: Path, files: Sequence[Path] = (), timeout: float = CELL_TIMEOUT) -> Assignment:
        """Read a teacher's notebook; without ``files`` it needs those that its cells name."""
        notebook = read(source)
        exercises = Source.find(notebook, source.parent, files)
        if not exercises.definitions:
            raise SessionError(f"no %%exercise cells in {source.name}")
        return cls(source, notebook, exercises, timeout)

    def __post_init__(self) -> None:
        """Make what the runs compare with."""
        self.fingerprints = self.exercises.fingerprints()
        form = release(self.notebook, self.fingerprints)
        self.released = {_source(cell) for cell in form["cells"]}

    @property
    def shares_database(self) -> bool:
        """True if all runs use the database of PIPEMAGIC_URL, and none a temporary service."""
        return bool(os.environ.get(DATABASE_URL)) and not any(map(_TEMPORARY.search, self.released))

    @property
    def commits(self) -> list[str]:
        """The names of the exercises whose answers stay in the database."""
        return [made.name for made in self.exercises.definitions if made.solution and not made.variable]

    def verify(self) -> None:
        """Run the notebook with the solutions; raise SessionError if it does not get all points of each exercise."""
        import nbformat

        solved = nbformat.from_dict(release(self.notebook, self.fingerprints, solved=True))  # type: ignore[no-untyped-call]
        for mark in self._graded(lambda: solved, None, self.source.name):
            if mark.points < mark.of:
                left = f"; no cell names {list_names(list(self.exercises.left))}" if self.exercises.left else ""
                hint = (
                    f"files that a cell names, or that you name with --file, are beside each notebook that runs{left}"
                )
                if "no database is connected" in mark.message:
                    hint = f"the cell that connects is not released: set {DATABASE_URL} to a database for grading"
                elif self.shares_database and ConnectError.__name__ in mark.message:
                    hint = f"start the service of {DATABASE_URL}, or set {DATABASE_URL} to another database"
                raise SessionError(
                    f"with its solutions, {self.source.name} has {mark.points:g} of {mark.of:g} points in "
                    f"{mark.exercise}: {mark.message}",
                    hint=hint,
                )

    def grade(self, submission: Path, name: str = "") -> list[Grade]:
        """Run a student's notebook with the teacher's files; return a grade for each exercise.

        It runs in a copy of its folder, with a service of its own. Cells that fail do not stop it. An exercise without
        a check has 0 points, even if the notebook cannot be read or run.
        """
        return self._graded(lambda: read(submission), submission.parent, name or submission.stem)

    def missing(self, name: str) -> list[Grade]:
        """Return the grades of a student without a submission."""
        return [Grade(name, made.name, 0, made.points, reasons=(NOTHING,)) for made in self.exercises.definitions]

    def stop(self) -> None:
        """End the kernels of all runs."""
        self.stopped = True
        for client in list(self.kernels):
            with suppress(AttributeError, OSError):  # it is starting, or has ended
                client.km.provisioner.process.kill()  # type: ignore[union-attr]

    def _graded(self, notebook: Callable[[], Any], beside: Path | None, name: str) -> list[Grade]:
        by_name, problem = dict[str, Grade](), ""
        with TemporaryDirectory(prefix="pipemagic-grade-", ignore_cleanup_errors=True) as made:
            folder = Path(made)
            try:
                self._fill(folder / "work", beside)
                for mark in self._execute(notebook(), folder):
                    before = by_name.get(mark.exercise)
                    if before is None or mark.points >= before.points:  # the data of an earlier one may have changed
                        by_name[mark.exercise] = mark
            except (PipemagicError, OSError, RuntimeError) as error:  # RuntimeError: the kernel has ended
                problem = str(error).partition("\n")[0]
            launcher.stop(folder / "data")
        return [
            msgspec.structs.replace(by_name.get(made.name) or self._unchecked(made, problem), submission=name)
            for made in self.exercises.definitions
        ]

    def _unchecked(self, made: Definition, problem: str) -> Grade:
        problem = problem or f"not checked: no cell contains %check {made.name} or %%check {made.name}"
        return Grade("", made.name, 0, made.points, reasons=(problem,))

    def _fill(self, work: Path, beside: Path | None) -> None:
        """Make the folder in which a notebook runs: what is beside it, and the teacher's files, which win."""
        ignored = shutil.ignore_patterns("*.ipynb", "exercises", ".*")
        if beside:
            shutil.copytree(beside, work, ignore=ignored, ignore_dangling_symlinks=True)
        shutil.copytree(self.exercises.folder, work / "exercises")
        copy_files(self.exercises.files, work)

    def _execute(self, notebook: Any, folder: Path) -> Iterator[Grade]:
        """Run the cells of a notebook, and after each check a cell that reports its grade; yield the grades.

        That cell is not in the kernel's history, where a later cell could read the reference.
        """
        from nbclient import NotebookClient

        client = NotebookClient(
            notebook, timeout=self.timeout, interrupt_on_timeout=True, error_on_timeout=self._too_long(),
            allow_errors=True, kernel_name="python3", resources={"metadata": {"path": str(folder / "work")}},
            record_timing=False,  # for a cell that ran too long, it calls datetime.utcnow(), which is deprecated
            extra_arguments=["--log-level=ERROR"],
        )  # fmt: skip
        errors: dict[int, str] = {}
        client.on_cell_error = lambda cell, cell_index, execute_reply: errors.update(
            {cell_index: _error_of(cell, execute_reply["content"])}
        )
        variables = {"JUPYTER_PREFER_ENV_PATH": "1", launcher.FOLDER_VARIABLE: str(folder / "data")}
        run = _Cells(self.released)
        reports = TemporaryDirectory(prefix="pipemagic-", ignore_cleanup_errors=True)
        with reports, client.setup_kernel(env={**os.environ, **variables}):
            self.kernels.add(client)
            try:
                for number, cell in enumerate(notebook.cells):
                    if self.stopped:
                        return
                    cell.source = _CARD.sub(_without_code, "".join(cell.source))
                    client.execute_cell(cell, number)
                    names = _CHECK.findall(_source(cell)) if cell.cell_type == "code" else []
                    run.add(cell, errors.get(number, "") or _usage_error(cell), is_check=bool(names))
                    for made in self.exercises.definitions:
                        if made.name in names:
                            mark = self._report(client, number, made, Path(reports.name, secrets.token_hex(16)))
                            yield run.explain(mark, made)
                    if names:
                        run.next()
            finally:
                self.kernels.discard(client)

    def _report(self, client: NotebookClient, number: int, made: Definition, path: Path) -> Grade:
        """Run the cell that reports a grade; return the grade, with points from 0 to those of the exercise."""
        from nbformat.v4 import new_code_cell

        call = _REPORT.format((
            str(path), made.name, made.points, self.fingerprints[made.name], made.sql, made.hidden, made.after
        ))  # fmt: skip
        client.execute_cell(new_code_cell(call), number, store_history=False)  # type: ignore[no-untyped-call]
        try:
            mark = msgspec.json.decode(path.read_bytes(), type=Grade)
        except (OSError, ValueError):  # no file, or not a grade
            return Grade("", made.name, 0, made.points, reasons=(_NOT_REPORTED,))
        points = min(max(mark.points, 0), made.points)
        return msgspec.structs.replace(mark, exercise=made.name, points=points, of=made.points)

    def _too_long(self) -> dict[str, Any]:
        return {"ename": "TimeoutError", "evalue": f"interrupted after {self.timeout:g} s", "traceback": []}


class _Cells:
    """The cells of a notebook that have run; those of the teacher have one of the texts ``released``."""

    def __init__(self, released: Container[str]) -> None:
        self._released = released
        self._number = 0
        self._first = self._recent = self._own = ""
        self._answered = False

    def add(self, cell: Any, error: str, *, is_check: bool) -> None:
        """Add a cell with its error, '' for none; cells are counted as the kernel does."""
        source = _source(cell)
        if cell.cell_type != "code" or not source.strip():
            return
        self._number += 1
        failed = f"cell {self._number} failed: {error}" if error else ""
        self._answered = self._answered or source not in self._released
        if is_check:
            self._own = failed
        else:
            self._first, self._recent = self._first or failed, self._recent or failed

    def next(self) -> None:
        """Begin the cells of the next answer."""
        self._recent, self._answered = "", False

    def explain(self, mark: Grade, made: Definition) -> Grade:
        """Add to the reasons of a grade the first failed cell before the answer, and that of the answer."""
        if mark.points == mark.of:
            return mark
        reasons, own = list(mark.reasons), made.solution or made.variable
        if (own and not mark.points and not self._answered) or not (reasons or own):
            reasons = ["no answer"]
        elif not reasons and not self._recent:
            reasons = [f"there is no DataFrame {made.variable}" if made.variable else "the state is as before"]
        elif reasons == [NOT_CHECKED] and self._own:
            reasons = []
        failures = dict.fromkeys(filter(None, [self._first, self._recent, self._own]))
        return msgspec.structs.replace(mark, reasons=(*failures, *reasons))


def _without_code(line: re.Match[str]) -> str:
    """Return the line of a card without address and code, so that it connects to the database of the run."""
    options = re.sub(r"\s--code(?:=|\s+)\S+", "", line[2])
    return line[1] + re.sub(r"^\s+(?!-)\S+", "", options)


def _source(cell: Mapping[str, Any]) -> str:
    return "".join(cell["source"]).strip()


def _error_of(cell: Any, reply: Mapping[str, Any]) -> str:
    """Return the error of a cell in a line; '' if the cell is meant to fail."""
    if "raises-exception" in cell.metadata.get("tags", []):
        return ""
    first = _COLOURS.sub("", str(reply.get("evalue", ""))).strip().partition("\n")[0]
    return shorten(f"{reply.get('ename', 'error')}: {first}".removesuffix(": "), _LONGEST_REASON)


def _usage_error(cell: Any) -> str:
    """Return IPython's message on an unknown magic, which is no error of the cell."""
    texts = [output.text for output in cell.get("outputs", ()) if output.get("name") == "stderr"]
    first = next((line for text in texts for line in text.splitlines() if line.startswith("UsageError: ")), "")
    return shorten(first, _LONGEST_REASON)


def grade(
    submissions: Mapping[str, Path | None], source: Path, *, files: Sequence[Path] = (), timeout: float = CELL_TIMEOUT,
    jobs: int = 0, notify: Callable[[str], None] = lambda _: None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Grade]:  # fmt: skip
    """Grade submissions by their names; return a grade for each exercise of each of them, in order.

    First the teacher's notebook ``source`` runs with its solutions; raise SessionError if it does not get all points.
    ``files`` are needed beside each notebook, by default those that the cells of ``source`` name. None is no
    submission, which has 0 points. ``timeout`` is the time limit of each cell, in seconds. ``jobs`` notebooks run at a
    time, by default one for each processor, and one if all use the database of PIPEMAGIC_URL. ``notify`` gets notes,
    ``progress`` how many notebooks have run, and of how many.
    """
    assignment = Assignment.read(source, files, timeout)
    shared = assignment.shares_database
    if shared and jobs > 1:
        raise SessionError(
            f"cannot run {jobs} notebooks at a time, since all of them use the database of {DATABASE_URL}",
            hint=f"unset {DATABASE_URL}, or run one at a time",
        )
    if shared and assignment.commits:
        notify(
            f"The solutions were not run: all notebooks use the database of {DATABASE_URL}, and the answers to "
            f"{list_names(assignment.commits)} change it. A later submission finds what an earlier one has changed."
        )
    else:
        assignment.verify()
    grades = {name: assignment.missing(name) for name in submissions}
    with ThreadPoolExecutor(jobs or (1 if shared else os.cpu_count() or 1)) as pool:
        runs = {
            pool.submit(_in_thread, assignment.grade, path, name): name for name, path in submissions.items() if path
        }
        try:
            for count, run in enumerate(as_completed(runs), 1):
                grades[runs[run]] = run.result()
                progress(count, len(runs))
        except BaseException:  # such as Ctrl-C
            pool.shutdown(wait=False, cancel_futures=True)
            assignment.stop()
            raise
    return [mark for name in submissions for mark in grades[name]]


def _in_thread(run: Callable[[Path, str], list[Grade]], path: Path, name: str) -> list[Grade]:
    """Run a notebook in a thread, and close the event loop that nbclient has made for it."""
    from jupyter_core.utils import ensure_event_loop

    try:
        return run(path, name)
    finally:
        ensure_event_loop().close()


def summary(grades: Sequence[Grade]) -> DataFrame:
    """Return a row for each submission: the points of each exercise, their total, and the percentage of all points."""
    from pandas import DataFrame

    frame = DataFrame([(mark.submission, mark.exercise, mark.points, mark.of) for mark in grades])
    frame.columns = ["submission", "exercise", "points", "of"]
    points, of = (
        frame.pivot_table(column, "submission", "exercise", sort=False).rename_axis(columns=None)
        for column in ("points", "of")
    )
    total = points.sum(axis=1)
    return points.assign(total=total, percent=(100 * total / of.sum(axis=1)).fillna(0).round(1))
