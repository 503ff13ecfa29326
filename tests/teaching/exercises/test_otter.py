"""A notebook is made by `otter assign`, solved, and graded by `otter run`."""

from __future__ import annotations

import json
import shutil
import zipfile

import nbformat
import pytest
from client_packages import CannotInstall
from course_notebooks import (
    ANSWERS,
    CELLS,
    LITERAL_CELLS,
    RINGED_ANSWER,
    WITH_CELLS,
    read_a_file,
    sources,
    tamper,
    write_answers,
    write_source,
)
from graders import install

from pipemagic.teaching.exercises.release import release_file

NO_CELLS = {"counted": (0, 1), "fed": (0, 1)}


@pytest.fixture(scope="module")
def otter(request, tmp_path_factory, require_real):
    try:
        return install("otter", request.config, tmp_path_factory.mktemp("otter"))
    except CannotInstall as error:
        require_real(f"otter-grader cannot be installed: {error}")
        raise


@pytest.fixture(scope="module")
def assigned(otter, tmp_path_factory):
    """The folder that `otter assign` writes; it runs the solutions, which must have all points."""
    folder = tmp_path_factory.mktemp("assigned")
    source = write_source(folder / "teacher", *WITH_CELLS)
    read_a_file(source)
    release_file(source, folder / "master" / "birds.ipynb", "otter")
    otter.run(folder, "otter", "assign", "master/birds.ipynb", "made")
    return folder / "made"


@pytest.fixture
def scores(otter, assigned, tmp_path):
    """Grade a submission; return the scores of its questions."""

    def grade(submission):
        (autograder,) = (assigned / "autograder").glob("*.zip")
        (tmp_path / "results").mkdir()  # otter does not make it
        otter.run(tmp_path, "otter", "run", "--no-logo", "-a", autograder, "-o", "results", submission)
        tests = json.loads((tmp_path / "results" / "results.json").read_text())["tests"]
        return {test["name"]: (test["score"], test["max_score"]) for test in tests if "score" in test}

    return grade


@pytest.fixture
def solve(assigned, tmp_path):
    """Write the answers of a student to a copy of the released folder; return the notebook."""

    def solve(name, ringed="", cells=None):
        shutil.copytree(assigned / "student", tmp_path / "student")
        notebook = tmp_path / "student" / "birds.ipynb"
        write_answers(assigned / "student" / "birds.ipynb", notebook, ANSWERS[name], ringed, cells or {})
        return notebook

    return solve


def test_the_students_folder_contains_no_solution(assigned):
    notebook = assigned / "student" / "birds.ipynb"
    text = notebook.read_text("utf-8")
    assert "%%check heavy\n-- Write your SQL here." in sources(notebook)
    assert 'grader.check("species")' in sources(notebook)
    for secret in ("ORDER BY mass", "GROUP BY", "'Eve'", "(7, 'Ada'", "--atomic", "SOLUTION", "verified_points"):
        assert secret not in text
    assert sorted(path.name for path in (assigned / "student" / "exercises").iterdir()) == [
        "counted.json", "egg.json", "fed.json", "heavy.json", "ringed.json", "species.json",
    ]  # fmt: skip
    assert (assigned / "student" / "data" / "notes.txt").read_text() == "notes"


def test_a_right_submission_has_all_points(solve, scores):
    found = scores(solve("right", RINGED_ANSWER, CELLS))
    assert found == {
        "heavy": (4, 4),
        "species": (2, 2),
        "egg": (1, 1),
        "ringed": (2, 2),
        "counted": (1, 1),
        "fed": (1, 1),
    }


def test_partly_right_hard_coded_and_failing_answers(solve, scores):
    """Values in the place of a query pass the visible check, in cells of their own, too."""
    # heavy has 3.2 points elsewhere, here rounded down to quarters; species fails on the hidden data.
    assert (
        scores(solve("mixed", cells=LITERAL_CELLS))
        == {"heavy": (3, 4), "species": (0, 2), "egg": (0, 1), "ringed": (0, 2)} | NO_CELLS
    )


def test_an_unsolved_notebook_has_no_points(solve, scores):
    assert scores(solve("unsolved")) == {"heavy": (0, 4), "species": (0, 2), "egg": (0, 1), "ringed": (0, 2)} | NO_CELLS


def test_a_submission_with_edited_files_has_no_points(solve, scores, tmp_path):
    notebook = solve("tampered")
    tamper(notebook)
    own = nbformat.read(notebook, as_version=4)
    own.metadata.otter.tests.heavy = own.metadata.otter.tests.heavy.replace("assert", "assert True or")
    nbformat.write(own, notebook)
    with zipfile.ZipFile(tmp_path / "submission.zip", "w") as archive:
        for path in notebook.parent.rglob("*.*"):
            archive.write(path, path.relative_to(notebook.parent))
    assert {score for score, _ in scores(tmp_path / "submission.zip").values()} == {0}
