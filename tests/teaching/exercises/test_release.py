"""The students' notebook: tasks and empty cells in the place of exercises, and nothing of the reference."""

from __future__ import annotations

import json
from textwrap import indent

import nbformat
import pytest
from course_notebooks import DATA, EGG, HEAVY, RINGED, SETUP, SPECIES, cells_of

from pipemagic.errors import SessionError
from pipemagic.teaching.exercises.exercise import Probe, frame_of, load, pack, parse_cell
from pipemagic.teaching.exercises.release import Source, fingerprint, read, release, release_file

FOLDER = '%config PipeMagic.exercises = "../exercises"'
FRAME = """\
%%exercise mean_mass --on birds
-- task: Store the mean mass as `mean` in the DataFrame `means`.
-- variable: means
SELECT avg(mass) AS mean FROM bird"""
SECRETS = ["ORDER BY mass", "GROUP BY", "'Eve'", "(7, 'Ada'", "--atomic", "avg(mass)"]


def notebook(*texts, **metadata):
    """A teacher's notebook with outputs, as it is after a run."""
    made = nbformat.v4.new_notebook(metadata=metadata)
    for number, text in enumerate(texts):
        made.cells.append(nbformat.v4.new_code_cell(text, id=f"source-{number}", execution_count=number))
        made.cells[-1].outputs.append(nbformat.v4.new_output("stream", text="ORDER BY mass"))
        made.cells[-1].metadata = {"tags": ["raises-exception"], "note": "GROUP BY"}
    return made


class AnyName(dict):
    """The fingerprints of all names."""

    def __missing__(self, name):
        return f"digest of {name}"


def released(*texts, **options):
    return release(notebook(*texts), AnyName(), **options)


@pytest.fixture
def teacher(tmp_path):
    """A teacher's notebook beside the folder of its exercises, with the files that a run writes."""

    def write(*exercises, folder="exercises", setting=FOLDER):
        source = notebook(f"{SETUP}\n{setting}", DATA, *exercises)
        path = tmp_path / "teacher" / "birds.ipynb"
        path.parent.mkdir()
        nbformat.write(source, path)
        for text in exercises:
            first, _, rest = text.partition("\n")
            probe = Probe(expected=pack(frame_of(["n"], [[1]])))
            parse_cell(first.split()[1], rest).exercise([probe]).save(tmp_path / folder)
        return path

    return write


def test_an_exercise_becomes_its_task_and_an_empty_check():
    assert cells_of(released("%load_ext pipemagic", HEAVY)) == [
        ("code", "%load_ext pipemagic"),
        (
            "markdown",
            "### Exercise: heavy (4 points)\n\n"
            "Which birds weigh more than 3.4 kg? Return `name` and `mass`, the heaviest first.",
        ),
        ("code", "%%check heavy\n-- Write your SQL here."),
    ]


def test_a_title_in_words_stands_above_the_task():
    titled = HEAVY.replace("-- task:", "-- title: Heavy birds\n-- task:", 1)
    assert cells_of(released(titled))[0][1].startswith("### Exercise: Heavy birds (4 points)\n\nWhich birds")


def test_cells_of_sql_are_sql_in_vs_code():
    cells = released("%load_ext pipemagic", "%%sql\nSELECT 1", HEAVY, RINGED)["cells"]
    languages = {
        cell["source"].split()[0]: cell["metadata"].get("vscode") for cell in cells if cell["cell_type"] == "code"
    }
    sql = {"languageId": "sql"}
    assert languages == {"%load_ext": None, "%%sql": sql, "%%check": sql, "#": None, "%check": None}


def test_an_exercise_in_other_cells_has_a_cell_for_them_and_a_check():
    assert cells_of(released(RINGED))[1:] == [("code", "# Write your cell here."), ("code", "%check ringed")]
    assert cells_of(released(FRAME))[1:] == [
        ("code", "# Write your cell here."), ("code", "%check mean_mass means --on birds"),
    ]  # fmt: skip


def test_the_notebook_has_no_outputs_no_metadata_and_no_solution():
    made = released(HEAVY, SPECIES, EGG, RINGED, FRAME, "%pipedb tables")
    text = json.dumps(made)
    assert [secret for secret in SECRETS if secret in text] == []
    assert made["cells"][-1] == {
        "cell_type": "code", "id": "source-5", "metadata": {"tags": ["raises-exception"]}, "source": "%pipedb tables",
        "outputs": [], "execution_count": None,
    }  # fmt: skip
    assert made["metadata"] == {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    }


def test_solved():
    made = cells_of(released(HEAVY, RINGED, FRAME, solved=True))
    assert [source for kind, source in made if kind == "code"] == [
        "%%check heavy\nSELECT name, mass FROM bird WHERE mass > 3400 ORDER BY mass DESC",
        "%%sql --atomic\nALTER TABLE bird ADD COLUMN ring INTEGER;\nUPDATE bird SET ring = 1 WHERE name = 'Ada'",
        "%check ringed",
        "%%sql -o means --on birds\nSELECT avg(mass) AS mean FROM bird",
        "%check mean_mass means --on birds",
    ]


@pytest.mark.parametrize("grader", [None, "nbgrader", "otter"])
def test_notebooks_are_valid_and_the_same_each_time(grader):
    made = released("# old", HEAVY, SPECIES, EGG, RINGED, FRAME, grader=grader)
    assert made == released("# old", HEAVY, SPECIES, EGG, RINGED, FRAME, grader=grader)
    nbformat.validate(nbformat.from_dict(made))
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])


def test_cells_without_ids_get_the_same_ones_each_time():
    old = {"cell_type": "markdown", "metadata": {}, "source": ["# Birds\n", "and eggs"]}
    made = release({"cells": [old], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}, {})
    assert made["cells"] == [{"cell_type": "markdown", "id": "cell-1", "metadata": {}, "source": "# Birds\nand eggs"}]


def test_the_setting_of_the_folder_and_cells_for_teachers_are_dropped():
    source = notebook(f"%load_ext pipemagic\n{FOLDER}", FOLDER, "# my notes", "")
    source.cells[2].metadata.tags = ["teacher"]
    assert cells_of(release(source, {})) == [("code", "%load_ext pipemagic"), ("code", "")]


@pytest.mark.parametrize("text", [f"\n \n{HEAVY}", f"\n{indent(HEAVY, '  ')}"])
def test_blank_lines_and_indentation_before_an_exercise(text):
    assert released(text) == released(HEAVY)


@pytest.mark.parametrize("text", [f"# heavy\n{HEAVY}", indent(HEAVY, "# "), f">>> {HEAVY}"])
def test_an_exercise_that_does_not_begin_its_cell_is_not_released(text):
    with pytest.raises(
        SessionError, match=r"cannot read the exercise in the cell that begins with: .*\nHint: begin the cell with"
    ):
        released(text)


def test_a_name_that_is_defined_twice(tmp_path):
    with pytest.raises(SessionError, match="egg is defined twice"):
        Source.find(notebook(EGG, HEAVY, EGG), tmp_path)


def test_a_released_file_has_the_files_of_its_exercises_beside_it(teacher, tmp_path):
    source, target = teacher(HEAVY, EGG), tmp_path / "class" / "birds.ipynb"
    assert [made.name for made in release_file(source, target).definitions] == ["heavy", "egg"]
    assert cells_of(read(target))[0] == ("code", "%load_ext pipemagic\n%pipedb connect --temporary")
    assert (target.parent / "exercises" / "egg.json").read_bytes() == (tmp_path / "exercises" / "egg.json").read_bytes()
    first = target.read_bytes()
    release_file(source, tmp_path / "birds.ipynb")  # beside the folder of the files
    release_file(source, target)
    assert target.read_bytes() == first == (tmp_path / "birds.ipynb").read_bytes()


def test_data_files_travel_to_a_folder_inside_the_sources_too(teacher, tmp_path):
    source = teacher(EGG, folder="teacher/exercises", setting="open('data/egg.csv'), open('exercises/egg.json')")
    (source.parent / "data").mkdir()
    for name in ("data/egg.csv", "data/other.csv", "solutions.sql", "roster.csv"):
        (source.parent / name).write_text(name)
    target = source.parent / "class" / "birds.ipynb"
    for _ in range(2):
        made = release_file(source, target)
        assert list(made.files) == ["data/egg.csv"]
        assert {"solutions.sql", "roster.csv"} <= set(made.left)
        files = {path.relative_to(target.parent).as_posix() for path in target.parent.rglob("*.*")}
        assert files == {"birds.ipynb", "data/egg.csv", "exercises/egg.json"}
    release_file(source, source.parent / "students.ipynb")
    assert (source.parent / "data" / "egg.csv").read_text() == "data/egg.csv"
    release_file(source, tmp_path / "other" / "birds.ipynb", files=[source.parent / "data"])
    assert {path.name for path in (tmp_path / "other" / "data").iterdir()} == {"egg.csv", "other.csv"}


def test_a_notebook_for_otter_lists_its_files():
    made = released(EGG, grader="otter", files=["data/my: birds.csv"])
    assert 'files:\n  - "data/my: birds.csv"' in made["cells"][0]["source"]


def test_a_source_without_the_setting_has_the_files_beside_it(teacher, tmp_path):
    source = teacher(EGG, folder="teacher/exercises", setting="")
    release_file(source, tmp_path / "class" / "birds.ipynb")
    assert (tmp_path / "class" / "exercises" / "egg.json").exists()


def test_a_missing_or_an_old_file_of_an_exercise(teacher, tmp_path):
    source = teacher(EGG)
    parse_cell("egg", "-- points: 3\nSELECT 1").exercise([]).save(tmp_path / "exercises")
    with pytest.raises(SessionError, match="the file of egg is older than its cell\nHint: run the teacher's notebook"):
        release_file(source, tmp_path / "birds.ipynb")
    (tmp_path / "exercises" / "egg.json").unlink()
    with pytest.raises(SessionError, match="no such exercise: egg"):
        release_file(source, tmp_path / "birds.ipynb")
    assert not (tmp_path / "birds.ipynb").exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no JSON",
        "[]",
        "{}",
        '{"nbformat": 4}',
        '{"cells": 1, "nbformat": 4}',
        '{"cells": [{}], "nbformat": 4}',
        None,
    ],
)
def test_a_file_that_is_no_notebook(tmp_path, content):
    path = tmp_path / "birds.ipynb"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SessionError, match=r"cannot read birds\.ipynb: "):
        Source.find(read(path), tmp_path)


def test_a_fingerprint_differs_for_other_expected_results(teacher, tmp_path):
    teacher(EGG)
    first = load("egg", tmp_path / "exercises")
    parse_cell("egg", EGG.partition("\n")[2]).exercise([Probe(expected="x")]).save(tmp_path / "exercises")
    assert fingerprint(first) != fingerprint(load("egg", tmp_path / "exercises"))
