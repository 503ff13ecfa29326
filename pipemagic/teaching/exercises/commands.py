"""``pipemagic exercises``: release notebooks with exercises, and grade submissions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from pipemagic.cli import console
from pipemagic.cli.quickstart import check_installed
from pipemagic.teaching.exercises.grading import CELL_TIMEOUT, Grade, grade, summary
from pipemagic.teaching.exercises.release import Grader, Source, read, release_file
from pipemagic.text import plural

exercises = click.Group("exercises", help="Release notebooks with exercises, and grade submissions.")

_FILE = click.Path(dir_okay=False, path_type=Path)


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
def release_command(source: Path, target: Path, grader: Grader | None, solved: bool) -> None:
    """Write the students' notebook TARGET from the teacher's notebook SOURCE."""
    check_installed("nbformat", purpose="a release")
    names = release_file(source, target, grader, solved=solved)
    console.print_line(f"Wrote {target} with {plural(len(names), 'exercise')}: {', '.join(names)}.")
    definitions = Source.find(read(source), source.parent).definitions
    if missing := [definition.name for definition in definitions if not definition.task]:
        console.print_note(f"Students get no task for {', '.join(missing)}: add `-- task: ...` to these exercises.")


@exercises.command("grade")
@click.argument("submissions", type=_FILE, nargs=-1, required=True)
@click.option("--source", type=_FILE, required=True, help="The teacher's notebook.")
@click.option("--csv", "table", type=_FILE, help="Also write the points to this CSV file.")
@click.option(
    "--timeout", type=float, default=CELL_TIMEOUT, show_default=True, help="Time limit of each cell, in seconds."
)
def grade_command(submissions: Sequence[Path], source: Path, table: Path | None, timeout: float) -> None:
    """Run SUBMISSIONS and print the points of each exercise, and the reasons for lost points."""
    check_installed("nbclient", "nbformat", "ipykernel", purpose="grading")
    grades: list[Grade] = []
    for path, name in zip(submissions, _names(submissions), strict=True):
        grades += grade(path, source, name=name, timeout=timeout)
    frame = summary(grades).reset_index()
    rows = [[name, *(f"{value:g}" for value in values)] for name, *values in frame.itertuples(index=False)]
    console.print_table(list(frame.columns), rows)
    for mark in grades:
        if mark.points < mark.of:
            console.print_note(f"{mark.submission}: {mark.exercise}: {mark.points:g} of {mark.of:g}: {mark.message}")
    if table is not None:
        frame.to_csv(table, index=False)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the paths relative to their common folder, without .ipynb."""
    folder = os.path.commonpath([path.absolute().parent for path in paths])
    return [path.absolute().relative_to(folder).with_suffix("").as_posix() for path in paths]
