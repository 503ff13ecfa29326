"""The course: the students' notebooks are those of the teacher, and the solutions get all points."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipemagic.teaching.exercises.release import Source, release

ROOT = Path(__file__).parents[1]
COURSE = ROOT / "notebooks"
TEACHER = sorted((ROOT / "solutions").glob("*.ipynb"), key=lambda path: int(path.stem.partition("-")[0]))
STEMS = [path.stem for path in TEACHER]


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def cells(notebook):
    return [
        (cell["cell_type"], "".join(cell["source"]), cell["metadata"].get("tags", [])) for cell in notebook["cells"]
    ]


@pytest.fixture(params=TEACHER, ids=STEMS)
def teacher(request):
    return request.param


def test_there_are_ten_notebooks_in_the_order_of_the_contents():
    assert [stem.partition("-")[0] for stem in STEMS] == [str(number) for number in range(1, 11)]
    contents = (COURSE / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((\d[\w-]*)\.ipynb\)", contents)
    assert list(dict.fromkeys(links)) == STEMS


def test_the_students_notebook_is_released_from_the_teachers(teacher):
    notebook = read(teacher)
    fingerprints = Source.find(notebook, teacher.parent).fingerprints()
    assert cells(read(COURSE / teacher.name)) == cells(release(notebook, fingerprints)), "python .ci/build_course.py"
    assert len(fingerprints) >= 3


def minutes(notebook):
    """Return the time of a slow reader: 130 words of prose in a minute, 1 for a cell of code, 4 for an exercise."""
    found = [("".join(cell["source"]), cell["cell_type"]) for cell in notebook["cells"]]
    words = [word for text, kind in found if kind == "markdown" for word in text.split() if re.search(r"\w", word)]
    code = [text for text, kind in found if kind == "code"]
    exercises = sum(bool(re.match(r"%%?check \w", text)) for text in code)
    return len(words) / 130 + len(code) - exercises + 4 * exercises


def test_a_notebook_has_35_to_45_cells_for_45_minutes(teacher):
    notebook = read(COURSE / teacher.name)
    assert 35 <= len(notebook["cells"]) <= 45
    assert round(minutes(notebook)) <= 46


LEARNED_LATER = re.compile(r"\b(subprocess|threading|Thread|atexit|asyncio|lambda|os\.environ|__import__)\b")


def test_a_notebook_uses_python_that_a_beginner_knows(teacher):
    for cell in read(COURSE / teacher.name)["cells"]:
        assert cell["cell_type"] != "code" or not LEARNED_LATER.search("".join(cell["source"]))


def test_a_notebook_begins_with_a_question(teacher):
    cells = read(COURSE / teacher.name)["cells"]
    beginning = "".join(cells[0]["source"])
    assert "?" in beginning
    assert "this notebook you learn" not in beginning.lower()
    assert cells[-1]["source"] in (["%check"], "%check")


def test_exercises_have_titles_in_words(teacher):
    definitions = Source.find(read(teacher), teacher.parent).definitions
    assert [definition.name for definition in definitions if " " not in definition.title] == []


def test_no_exercise_has_the_name_or_the_title_of_another():
    found = [definition for path in TEACHER for definition in Source.find(read(path), path.parent).definitions]
    names, titles = {definition.name for definition in found}, {definition.title for definition in found}
    assert len(found) == len(names) == len(titles)
    assert {file.stem for file in (COURSE / "exercises").iterdir()} == names


def test_no_solution_is_in_the_students_notebook(teacher):
    text = json.dumps(read(COURSE / teacher.name)) + "".join(
        (COURSE / "exercises" / f"{definition.name}.json").read_text("utf-8")
        for definition in Source.find(read(teacher), teacher.parent).definitions
    )
    for definition in Source.find(read(teacher), teacher.parent).definitions:
        assert json.dumps(definition.sql)[1:-1] not in text
        assert not definition.solution or json.dumps(definition.solution)[1:-1] not in text
        assert not definition.hidden or json.dumps(definition.hidden)[1:-1] not in text


def test_no_exercise_is_passed_without_an_answer(teacher):
    """The saved outputs are those of the released notebook, as nbval checks."""
    checks = [
        cell
        for cell in read(COURSE / teacher.name)["cells"]
        if "".join(cell["source"]).startswith(("%%check", "%check "))
    ]
    texts = ["".join(output["data"]["text/plain"]) for cell in checks for output in cell["outputs"] if "data" in output]
    assert len(texts) >= len(checks) >= 3
    assert not [text for text in texts if ": passed, " in text]


def test_the_solutions_get_all_points(teacher):
    """A cell with %%exercise checks its solution; the saved outputs are those of a run, as nbval checks."""
    notebook = read(teacher)
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    texts = ["".join(output["data"].get("text/plain", "")) for output in outputs if "data" in output]
    exercises = Source.find(notebook, teacher.parent).definitions
    assert len(exercises) >= 3
    passed = [f"{exercise.name}: passed, {exercise.points:g} of {exercise.points:g} point" for exercise in exercises]
    assert [text for text in passed if text not in {shown.removesuffix("s") for shown in texts}] == []
