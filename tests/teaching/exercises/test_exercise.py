"""The cell of a teacher, and the file that students get."""

from __future__ import annotations

import json

import pytest

from pipemagic.errors import SessionError
from pipemagic.teaching.exercises.exercise import Exercise, Probe, frame_of, load, pack, parse_cell, unpack

CELL = """
-- task: How many penguins of each species weigh more than 4 kg?
--   Return `species` and `n`.
-- points: 2.5
-- hint: mass is in grams.
-- hint: GROUP BY species
--   groups the rows.
-- requires: GROUP BY, WHERE
-- requires: count()
-- forbids: LIMIT
-- columns: in order
-- names: ignored
-- tolerance: 0.01
-- feedback: pass or fail
-- hidden: DELETE FROM penguins WHERE id = 4
-- hidden: INSERT INTO penguins VALUES (7, 'Gentoo', NULL, 6000)
-- This comment belongs to the SQL.
SELECT species, count(*) AS n FROM penguins WHERE mass > 4000 GROUP BY species
"""


def test_a_cell_with_every_key():
    made = parse_cell("heavy", CELL)
    assert made.task == "How many penguins of each species weigh more than 4 kg? Return `species` and `n`."
    assert made.points == 2.5
    assert made.hint == ("mass is in grams.", "GROUP BY species groups the rows.")
    assert (made.requires, made.forbids) == (("GROUP BY", "WHERE", "count()"), ("LIMIT",))
    assert (made.columns, made.names, made.feedback, made.tolerance) == ("in order", "ignored", "pass or fail", 0.01)
    assert made.hidden == ("DELETE FROM penguins WHERE id = 4;\nINSERT INTO penguins VALUES (7, 'Gentoo', NULL, 6000)")
    assert made.sql.startswith("-- This comment belongs to the SQL.\nSELECT species")
    assert made.is_query


def test_defaults():
    made = parse_cell("all", "SELECT * FROM penguins")
    assert (made.points, made.columns, made.names, made.feedback) == (1, "any order", "checked", "full")
    assert made.sql == "SELECT * FROM penguins"


def test_keys_in_capitals_and_after_blank_comments():
    made = parse_cell("one", "-- Points: 2\n--\n\n-- hidden: DELETE FROM penguins\n-- A comment.\nSELECT 1")
    assert (made.points, made.hidden, made.sql) == (2, "DELETE FROM penguins", "-- A comment.\nSELECT 1")


def test_a_solution_keeps_its_lines():
    made = parse_cell(
        "load", "-- solution: %%sql --atomic\n--   DELETE FROM penguins;\n-- state: SELECT 1\nDELETE FROM penguins"
    )
    assert made.solution == "%%sql --atomic\nDELETE FROM penguins;"
    assert made.state == ("SELECT 1",)
    assert not made.is_query


@pytest.mark.parametrize(
    ("name", "cell", "message", "hint"),
    [
        ("2nd", "SELECT 1", "'2nd' is not a valid name: use a letter, then letters, digits, _ and -", "the keys are"),
        ("../x", "SELECT 1", "'../x' is not a valid name", "the keys are"),
        ("one", "-- points: 1", "one has no reference SQL below its header", "the keys are"),
        ("one", "-- point: 1\nSELECT 1", "unknown key 'point'", "did you mean points?"),
        ("one", "-- points: many\nSELECT 1", "points: Expected `float`, got `str`", "the keys are"),
        ("one", "-- points: nan\nSELECT 1", "points: Expected `float` >= 0.0", "the keys are"),
        ("one", "-- points: -1\nSELECT 1", "points: Expected `float` >= 0.0", "the keys are"),
        ("one", "-- points: 1\n-- points: 2\nSELECT 1", "duplicate key 'points'", "the keys are"),
        ("one", "-- columns: sorted\nSELECT 1", "columns: Invalid enum value 'sorted'", "keys"),
        ("one", "-- feedback: none\nSELECT 1", "feedback: Invalid enum value 'none'", "keys"),
    ],
)
def test_a_cell_that_is_not_valid(name, cell, message, hint):
    with pytest.raises(SessionError) as caught:
        parse_cell(name, cell)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_an_unknown_construct_is_refused():
    with pytest.raises(SessionError, match="windows function"):
        parse_cell("one", "-- requires: windows function\nSELECT 1")


def test_a_file_is_read_as_it_was_written(tmp_path):
    made = parse_cell("heavy", CELL).exercise([Probe(expected=pack(frame_of(["species", "n"], [("Gentoo", 2)])))])
    path = made.save(tmp_path / "exercises")
    assert path == tmp_path / "exercises" / "heavy.json"
    assert load("heavy", path.parent) == made
    assert json.loads(path.read_text("utf-8"))["name"] == "heavy"
    assert "SELECT" not in path.read_text("utf-8")
    assert "DELETE" not in path.read_text("utf-8")


def test_the_same_exercise_is_not_written_again(tmp_path):
    path = Exercise(name="one").save(tmp_path)
    before = path.stat().st_mtime_ns, path.stat().st_ino
    Exercise(name="one").save(tmp_path)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    Exercise(name="one", points=3).save(tmp_path)
    assert load("one", tmp_path).points == 3
    assert [file.name for file in tmp_path.iterdir()] == ["one.json"]


def test_a_missing_or_damaged_file(tmp_path):
    Exercise(name="heavy").save(tmp_path)
    with pytest.raises(SessionError, match="no such exercise: haevy") as caught:
        load("haevy", tmp_path)
    assert caught.value.hint == "did you mean heavy?"
    with pytest.raises(SessionError, match="no such exercise: x") as caught:
        load("x", tmp_path / "nowhere")
    assert f"{tmp_path / 'nowhere' / 'x.json'} is missing: run the %%exercise cell that writes it" in caught.value.hint
    with pytest.raises(SessionError, match=r"no such exercise: \.\./heavy"):
        load("../heavy", tmp_path / "inside")
    (tmp_path / "heavy.json").write_text('{"name": 3')
    with pytest.raises(SessionError, match="is not a valid exercise file"):
        load("heavy", tmp_path)


def test_packed_values_keep_their_types_and_are_not_legible():
    rows = [(1, 2**63 - 1, 0.1, "Gentoo", b"\x00\xff", None)]
    packed = pack(frame_of(list("abcdef"), rows))
    assert "Gentoo" not in packed
    frame = unpack(packed)
    assert list(frame.columns) == list("abcdef")
    assert [tuple(row) for row in frame.itertuples(index=False)] == rows
    assert [type(value) for value in frame.iloc[0]] == [int, int, float, str, bytes, type(None)]
    assert list(unpack(pack(frame_of(["a"], []))).columns) == ["a"]
