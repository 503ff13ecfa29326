"""In the course, a wrong answer that was committed can be taken back, and the right one then passes."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from lesson import kernel

from pipemagic.teaching.exercises.release import Source, read

ROOT = Path(__file__).parents[3]
WRONG = {
    ("6-transactions", "rebook"): "%sql UPDATE rebooking SET free = free + 2 WHERE flight = 'AA443'",
    ("8-connections", "second_connection"): "%pipedb connect main --as other\n"
    "%sql INSERT INTO note (day, text) VALUES ('2014-08-12', 'a day later')\n%pipedb use temporary",
    ("7-loading-plots", "hot_days"): "%pipedb load weather --table hot",
    ("7-loading-plots", "recounted"): "%pipedb load recount --table rain_days --replace",
}


@pytest.mark.parametrize(("notebook", "name"), WRONG)
def test_a_wrong_answer_of_the_course_is_no_dead_end(notebook, name, tmp_path):
    teacher = ROOT / "solutions" / f"{notebook}.ipynb"
    definitions = {made.name: made for made in Source.find(read(teacher), teacher.parent).definitions}
    folder = shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    cells = nbformat.read(folder / f"{notebook}.ipynb", as_version=4).cells
    (at,) = [at for at, cell in enumerate(cells) if cell.source.startswith(f"%check {name}")]
    with kernel(folder, tmp_path) as student:
        for cell in cells[: at - 1]:
            if cell.cell_type == "code":
                student(cell.source)
        student(WRONG[notebook, name])
        wrong = student(f"%check {name}")
        assert "passed" not in wrong
        assert f"%check {name} --reset" in wrong
        assert "Run your answer again." in student(f"%check {name} --reset")
        student(definitions[name].solution)
        assert f"{name}: passed" in student(f"%check {name}")
