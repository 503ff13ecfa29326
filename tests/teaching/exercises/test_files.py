"""The files that go with a notebook: those that its cells name, or that the teacher names, and no secrets."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from pipemagic.teaching.exercises.files import copy_files, given_files, left_files, named_files


@pytest.fixture
def folder(tmp_path):
    """A teacher's folder with data, modules and what students must not get."""
    folder = tmp_path / "teacher"
    for name in (
        "penguins.csv", "my birds.csv", "data/2013.csv", "data/2014.csv", "data/.hidden.csv", "solutions.sql",
        "roster.csv", "grades.csv", "sql-1-handouts.csv", "helpers.py", "deep.csv", "birds/__init__.py", "birds/owl.py",
        "birds/__pycache__/owl.pyc", "map.png", "birds.ipynb", "solved.ipynb", "exercises/egg.json", ".env", "out.csv",
        "submissions/ada/birds.ipynb", "submissions/ada/notes.txt",
    ):  # fmt: skip
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("open('deep.csv')" if name == "helpers.py" else name)
    return folder


def found(folder, *texts, kind="code"):
    return list(named_files([(kind, text) for text in texts], folder, without=(folder / "exercises").resolve()))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("pd.read_csv('penguins.csv')", ["penguins.csv"]),
        ('frame = pd.read_csv("./data/2013.csv")', ["data/2013.csv"]),
        ("pd.read_csv('my birds.csv')", ["my birds.csv"]),
        ("%pipedb load penguins.csv --table penguins", ["penguins.csv"]),
        ("%%sql --file solutions.sql", ["solutions.sql"]),
        ("pd.read_csv(f'data/{year}.csv')", ["data/2013.csv", "data/2014.csv"]),
        ("for path in Path('data').glob('*.csv'): pass", ["data/2013.csv", "data/2014.csv"]),
        ("DATA = Path('data')\npd.read_csv(DATA / '2014.csv')", ["data/2014.csv"]),
        ("import helpers, json", ["deep.csv", "helpers.py"]),
        ("from birds.owl import hoot", ["birds/__init__.py", "birds/owl.py"]),
        ("Path().glob('*.csv')", []),
        ("# see solutions.sql and 'roster.csv'\npd.read_csv('penguins.csv')  # not grades.csv", ["penguins.csv"]),
        ("-- data, penguins, roster and submissions", []),
        ("SELECT * FROM birds WHERE kind = 'submissions'", []),
        ("open('.env'), open('solved.ipynb'), open('exercises/egg.json'), open('../teacher/penguins.csv')", []),
        ("frame.to_csv('out.csv')", []),
        ("%%sql --to-csv out.csv\nSELECT 1", []),
        ("with open('out.csv', 'w') as file: pass", []),
        ("'" + "x" * 5000 + "'", []),
        ("'\0', '[', '**', '***', '/', '.', ''", []),
    ],
)
def test_the_files_that_code_names(folder, text, names):
    assert found(folder, text) == names


def test_the_files_to_which_markdown_links(folder):
    text = (
        "![The islands](map.png) as in [the data](data/2013.csv), not in solutions.sql or [here](https://x/roster.csv)"
    )
    assert found(folder, text, kind="markdown") == ["data/2013.csv", "map.png"]


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such permissions")
def test_a_file_that_only_its_owner_may_read_stays(folder):
    (folder / "sql-1-handouts.csv").chmod(0o600)
    text = "open('sql-1-handouts.csv'), open('penguins.csv')"
    assert found(folder, text) == ["penguins.csv"]
    for path in folder.glob("*.*"):
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)  # so are all files of this user
    assert found(folder, text) == ["penguins.csv", "sql-1-handouts.csv"]


def test_the_files_that_a_teacher_names(folder, tmp_path):
    (tmp_path / "elsewhere.csv").write_text("x")
    files = given_files(
        [folder / "data", folder / "submissions", folder / "roster.csv", tmp_path / "elsewhere.csv"], folder
    )
    assert list(files) == ["data/2013.csv", "data/2014.csv", "elsewhere.csv", "roster.csv", "submissions/ada/notes.txt"]


def test_what_stays_is_listed(folder):
    files = named_files([("code", "open('data/2013.csv')")], folder, without=(folder / "exercises").resolve())
    left = left_files(files, folder, without=(folder / "exercises").resolve())
    assert {"penguins.csv", "roster.csv", "submissions/"} <= set(left)
    assert not {"data/", "exercises/", ".env", "birds.ipynb"} & set(left)


def test_copies_replace_others_and_not_themselves(folder, tmp_path):
    files = given_files([folder / "data"], folder)
    target = tmp_path / "class"
    (target / "data").mkdir(parents=True)
    (target / "data" / "2013.csv").write_text("changed")
    (target / "data" / "2013.csv").chmod(0o400)
    os.symlink(folder / "penguins.csv", target / "data" / "2014.csv")
    copy_files(files, target)
    copy_files(files, target)
    copy_files(files, folder)
    assert {path.name: path.read_text() for path in (target / "data").iterdir()} == {
        "2013.csv": "data/2013.csv", "2014.csv": "data/2014.csv",
    }  # fmt: skip
    assert (folder / "penguins.csv").read_text() == "penguins.csv"
