"""``pipemagic exercises``: release notebooks with exercises, and grade submissions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from pipemagic.cli import console
from pipemagic.cli.quickstart import check_installed
from pipemagic.teaching.classes.roster import Roster, read_roster
from pipemagic.teaching.exercises import gradebook, submissions
from pipemagic.teaching.exercises.grading import CELL_TIMEOUT, NOTHING, Grade, grade
from pipemagic.teaching.exercises.release import Grader, release_file
from pipemagic.text import format_size, list_names, plural

exercises = click.Group("exercises", help="Release notebooks with exercises, and grade submissions.")

_FILE = click.Path(dir_okay=False, path_type=Path)
_NOTEBOOK = click.Path(exists=True, dir_okay=False, path_type=Path)
_FILES = click.option(
    "--file",
    "files",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="A file, or a folder of files, that the notebook needs; repeatable.  [default: the files that its cells name]",
)


@exercises.command("release")
@click.argument("source", type=_FILE)
@click.argument("target", type=_FILE)
@click.option(
    "--for",
    "grader",
    type=click.Choice(["nbgrader", "otter"]),
    help="Write the notebook in the source format of this grader.",
)
@click.option("--solved", is_flag=True, help="Keep the solutions in the notebook.")
@_FILES
def release_command(source: Path, target: Path, grader: Grader | None, solved: bool, files: Sequence[Path]) -> None:
    """Write the students' notebook TARGET from the teacher's notebook SOURCE."""
    check_installed("nbformat", purpose="a release")
    made = release_file(source, target, grader, solved=solved, files=files)
    names = [definition.name for definition in made.definitions]
    console.print_line(f"Wrote {target} with {plural(len(names), 'exercise')}: {', '.join(names)}.")
    if made.files:
        size = format_size(sum(path.stat().st_size for path in made.files.values()))
        console.print_line(f"Copied {plural(len(made.files), 'file')} ({size}): {', '.join(made.files)}.")
    if made.left:
        console.print_note(
            f"Not copied, since no cell names them: {list_names(made.left)}. Use --file for what students need."
        )
    if missing := [definition.name for definition in made.definitions if not definition.task]:
        console.print_note(f"Students get no task for {', '.join(missing)}: add `-- task: ...` to these exercises.")


@exercises.command("grade")
@click.argument("notebooks", type=click.Path(exists=True, path_type=Path), nargs=-1, required=True, metavar="PATH...")
@click.option("--source", type=_NOTEBOOK, required=True, help="The teacher's notebook.")
@_FILES
@click.option("--roster", "students", type=_NOTEBOOK, metavar="FILE", help="The CSV file with the students.")
@click.option("--jobs", type=click.IntRange(1), help="Notebooks that run at a time.  [default: one per processor]")
@click.option("--csv", "table", type=_FILE, help="Also write points, percentages and reasons to this CSV file.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["moodle", "canvas"]),
    help="Write the CSV file for the import of grades of Moodle, or of Canvas; requires --roster.",
)
@click.option(
    "--feedback", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Also write a page for each student to this folder.",
)  # fmt: skip
@click.option(
    "--timeout", type=float, default=CELL_TIMEOUT, show_default=True, help="Time limit of each cell, in seconds."
)
def grade_command(
    notebooks: Sequence[Path], source: Path, files: Sequence[Path], students: Path | None, jobs: int | None,
    table: Path | None, format_: gradebook.Format | None, feedback: Path | None, timeout: float,
) -> None:  # fmt: skip
    """Run submitted notebooks and print the points of each exercise, and the reasons for lost points.

    PATH is a notebook, or a folder of notebooks. First the notebook with the solutions runs; it must get all points.
    """
    if format_ and not (students and table):
        raise click.UsageError("--format requires --roster and --csv.", click.get_current_context())
    check_installed("nbclient", "nbformat", "ipykernel", purpose="grading")
    roster = read_roster(students) if students else None
    if roster and format_ == "canvas":
        gradebook.canvas_csv([], roster._replace(students=[]), source.stem)  # raises the error before anything runs
    found = submissions.find_notebooks(notebooks)
    matches = submissions.match(found, roster) if roster else submissions.Matches({}, list(found))
    runs: dict[str, Path | None] = {name: found[name] for name in matches.unknown}
    for label, names in matches.of.items():
        runs.update({name if names[1:] else label: found[name] for name in names})
        if not names:
            runs[label] = None
    if table is not None:
        table.parent.mkdir(parents=True, exist_ok=True)
    with console.progress_bar("submissions") as progress:
        grades = grade(
            runs, source, files=files, timeout=timeout, jobs=jobs or 0, notify=console.print_note, progress=progress
        )
    grades = _by_student(grades, matches)
    _print(grades, matches, roster)
    if table is not None:
        if roster and format_ == "moodle":
            text = gradebook.moodle_csv(grades, roster)
        elif roster and format_ == "canvas":
            text = gradebook.canvas_csv(grades, roster, source.stem)
        else:
            text = f"\ufeff{gradebook.points_csv(grades, roster)}"  # spreadsheets detect UTF-8 by the mark
        table.write_text(text, "utf-8", newline="")
    if feedback is not None:
        pages = gradebook.write_feedback(grades, feedback, source.stem)
        console.print_note(f"Wrote {plural(len(pages), 'page')} to {feedback}.")


def _by_student(grades: Sequence[Grade], matches: submissions.Matches) -> list[Grade]:
    """Return the grades in the order of the roster, then those of no student; of several submissions the best."""
    found = gradebook.by_submission(grades)
    best = []
    for label, names in matches.of.items():
        marks = max((found[name] for name in names), key=gradebook.totals) if names[1:] else found[label]
        best += [msgspec.structs.replace(mark, submission=label) for mark in marks]
    return best + [mark for name in matches.unknown for mark in found[name]]


def _print(grades: Sequence[Grade], matches: submissions.Matches, roster: Roster | None) -> None:
    """Print the table to standard output, and what a teacher should know to standard error."""
    found = gradebook.by_submission(grades)
    first = next(iter(found.values()))
    columns = ["student" if roster else "submission", *(mark.exercise for mark in first), "total", "percent"]
    rows = []
    for name, marks in found.items():
        total, _, percent = gradebook.totals(marks)
        rows.append([name, *(f"{mark.points:g}" for mark in marks), f"{total:g}", f"{percent:g}%"])
    console.print_table(columns, rows)
    for name, marks in found.items():
        common = gradebook.common_reason(marks)
        if common and marks[1:]:
            lines = [f"0 points: {common}"] if common != NOTHING else []
        else:
            lost = [mark for mark in marks if mark.points < mark.of and mark.reasons != (NOTHING,)]
            lines = [f"{mark.exercise}: {mark.points:g} of {mark.of:g}: {mark.message}" for mark in lost]
        for line in lines:
            console.print_note(f"{name}: {line}")
    for name, reason in gradebook.unsolved(grades).items():
        console.print_note(f"No submission has a point in {name}. The most frequent reason: {reason}")
    if roster is None:
        return
    for note in roster.notes:
        console.print_note(note)
    for label, names in matches.of.items():
        if names[1:]:
            console.print_note(f"{label} has {len(names)} submissions, of which the best counts: {', '.join(names)}.")
    if missing := [label for label, names in matches.of.items() if not names]:
        console.print_note(f"{NOTHING.capitalize()}, so 0 points: {', '.join(missing)}.")
    if matches.unknown:
        console.print_note(f"These submissions match no student of {roster.file}: {', '.join(matches.unknown)}.")
