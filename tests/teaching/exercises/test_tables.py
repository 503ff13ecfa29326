"""Tables of exercises that commit are restored exactly; data that have changed are named before anything else."""

from __future__ import annotations

import math

import msgspec
import pytest
from authored import BY_SPECIES, answer, make, state

from pipemagic.errors import SessionError, StatementError
from pipemagic.teaching.exercises.authoring import author
from pipemagic.teaching.exercises.checking import check_frame, check_state
from pipemagic.teaching.exercises.exercise import load, parse_cell
from pipemagic.teaching.exercises.tables import restore

AREA = "UPDATE islands SET area = area + 1 WHERE name = 'Dream'"


def commit(session, folder, solution, reference="", name="one"):
    """Define an exercise with a solution that commits; return it as students get it, with the data before."""
    text = f"-- solution: {solution}\n{reference or solution}"
    connection = session.connection()
    author(parse_cell(name, text), connection, folder, lambda: session.run(solution)).save(folder)
    exercise = load(name, folder)
    restore(exercise, connection)
    return exercise


def dump(session):
    """Return everything that is stored: the schema, and the rows of each table with their types."""
    schema = session.run("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")
    tables = [name for kind, name in zip(schema.type, schema.name, strict=True) if kind == "table"]
    return [schema.to_numpy().tolist()] + [
        (name, list(session.connection().database.execute(f'SELECT * FROM "{name}"').rows)) for name in tables
    ]


@pytest.mark.parametrize("any_session", ["in_process", "on_sqld", "on_seed"], indirect=True)
def test_a_wrong_committed_answer_is_no_dead_end(any_session, tmp_path):
    exercise, before = commit(any_session, tmp_path, AREA), dump(any_session)
    connection = any_session.connection()
    assert check_state(exercise, connection).messages == ()  # no answer yet
    any_session.run(f"{AREA}; {AREA}")
    wrong = check_state(exercise, connection)
    assert not wrong.passed
    assert wrong.messages[-1] == ("to try again, restore islands as before your answer: %check one --reset")
    any_session.run(AREA)  # the right answer, after a wrong one
    assert not check_state(exercise, connection).passed
    assert restore(exercise, connection) == "Restored islands (4 rows)"
    assert dump(any_session) == before
    assert check_state(exercise, connection).messages == ()
    any_session.run(AREA)
    assert check_state(exercise, connection).passed


@pytest.mark.parametrize(
    "wrong",
    [
        "DROP TABLE islands",
        "DELETE FROM islands",
        "ALTER TABLE islands ADD COLUMN visited TEXT",
        "DROP TABLE islands; CREATE VIEW islands AS SELECT 1 AS name",
        "CREATE INDEX by_area ON islands (area)",
    ],
)
def test_what_a_wrong_answer_can_do_to_a_table(session, tmp_path, wrong):
    exercise, before = commit(session, tmp_path, AREA), dump(session)
    session.run(wrong)
    restore(exercise, session.connection())
    assert dump(session) == before


def test_tables_that_the_answer_creates_are_dropped(session, tmp_path):
    solution = "CREATE TABLE large AS SELECT * FROM islands WHERE area > 100"
    exercise, before = commit(session, tmp_path, solution), dump(session)
    assert exercise.created == ("large",)
    assert [(table.name, table.definitions) for table in exercise.tables] == [("islands", ())]  # is only read
    session.run("CREATE TABLE large (name TEXT)")
    assert check_state(exercise, session.connection()).messages[-1].endswith("%check one --reset")
    assert restore(exercise, session.connection()) == "Dropped large"
    assert dump(session) == before
    session.run("CREATE VIEW large AS SELECT * FROM islands")
    assert restore(exercise, session.connection()) == "Dropped large"
    assert restore(exercise, session.connection()) == "Nothing was changed"


@pytest.mark.parametrize("any_session", ["in_process", "on_sqld"], indirect=True)
def test_all_that_a_table_can_have(any_session, tmp_path):
    any_session.run("""
CREATE TABLE parent (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE COLLATE NOCASE, x ANY,
  twice AS (length(name) * 2), CHECK (length(name) < 99));
CREATE TABLE child (parent INTEGER REFERENCES parent (id) ON DELETE CASCADE, note TEXT);
CREATE TABLE pair (a TEXT, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE TABLE log (text TEXT);
CREATE INDEX by_x ON parent (x DESC) WHERE x IS NOT NULL;
CREATE TRIGGER logged AFTER INSERT ON parent BEGIN INSERT INTO log VALUES (new.name); END;
INSERT INTO parent (id, name, x) VALUES (1, 'it''s', x'00ff'), (2, NULL, 9223372036854775807), (3, 'é', 9e999),
  (4, '', -9e999), (5, 'f', 3.0), (6, 'g', 0.1), (9, 'h', NULL);
DELETE FROM parent WHERE id = 9;
INSERT INTO child VALUES (1, 'a'), (1, 'b'), (6, 'c');
INSERT INTO pair VALUES ('a', 1), ('a', 2)""")
    exercise = commit(any_session, tmp_path, "UPDATE parent SET name = 'x' WHERE id = 2; DELETE FROM pair WHERE b = 2")
    before = dump(any_session)
    assert dict(before[1:])["sqlite_sequence"] == [("parent", 9)]
    (infinite,) = [row for row in dict(before[1:])["parent"] if row[0] == 3]
    assert infinite[2] in (math.inf, None)  # sqld returns infinities as null
    any_session.run("DELETE FROM pair; UPDATE parent SET name = NULL, x = 1")
    any_session.run("INSERT INTO parent (name) VALUES ('new')")
    any_session.run("DROP INDEX by_x; DROP TRIGGER logged")
    assert restore(exercise, any_session.connection()) == (
        "Restored parent (6 rows), child (3 rows), pair (2 rows) and log (7 rows)"
    )
    assert dump(any_session) == before
    any_session.run("INSERT INTO child VALUES (6, 'foreign keys are checked again')")
    with pytest.raises(StatementError, match="FOREIGN KEY"):
        any_session.run("INSERT INTO child VALUES (77, '')")


@pytest.mark.parametrize("any_session", ["in_process", "on_sqld"], indirect=True)
def test_tables_that_change_with_those_of_the_answer_are_restored(any_session, tmp_path):
    any_session.run(
        "CREATE TABLE keeper (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO keeper VALUES (1, 'Ada'), (2, 'Bo');"
        "CREATE TABLE shift (keeper INTEGER REFERENCES keeper ON DELETE CASCADE);"
        "INSERT INTO shift VALUES (1), (1), (2);"
        "CREATE TABLE gone (name TEXT); CREATE TABLE other (id INTEGER REFERENCES keeper);"
        "CREATE TRIGGER go AFTER DELETE ON keeper BEGIN INSERT INTO gone VALUES (old.name); END"
    )
    before = dump(any_session)
    exercise = commit(any_session, tmp_path, "UPDATE keeper SET name = 'Cy' WHERE id = 2")
    assert [table.name for table in exercise.tables if table.definitions] == ["keeper", "shift", "gone"]
    any_session.run("PRAGMA foreign_keys = ON; DELETE FROM keeper WHERE id > 0")
    assert any_session.run("SELECT count(*) AS n FROM gone").n[0] == 2
    assert any_session.run("SELECT count(*) AS n FROM shift").n[0] == 0
    restore(exercise, any_session.connection())
    assert dump(any_session) == before


def test_a_reset_waits_for_no_open_transaction(session, tmp_path):
    exercise = commit(session, tmp_path, AREA)
    session.run(f"BEGIN; {AREA}")
    with pytest.raises(SessionError, match="your transaction is open") as caught:
        restore(exercise, session.connection())
    assert caught.value.hint == "run COMMIT or ROLLBACK first"


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        (
            BY_SPECIES, "one has no tables to restore: its answer is a query",
            "change the SQL below %%check one, and run its cell again",
        ),
        (
            f"-- variable: counted\n{BY_SPECIES}", "one has no tables to restore: its answer is the variable counted",
            "assign counted again, then run %check one counted",
        ),
        (
            "DELETE FROM penguins WHERE id = 1", "the file of one contains no tables to restore",
            "%%check one undoes the statements below it; to undo others, run the cells from the top",
        ),
    ],
    ids=["query", "variable", "state"],
)  # fmt: skip
def test_an_exercise_that_commits_nothing_says_what_to_do_instead_of_a_reset(session, tmp_path, text, error, hint):
    before = state(session)
    with pytest.raises(SessionError) as caught:
        restore(make(session, tmp_path, text), session.connection())
    assert (caught.value.message, caught.value.hint) == (error, hint)
    assert state(session) == before


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("DELETE FROM penguins WHERE id > 4", "penguins has 4 rows, the exercise was made with 6"),
        ("DROP TABLE penguins", "the table penguins is missing"),
        (
            "ALTER TABLE penguins DROP COLUMN mass",
            "penguins has the columns id, species, island, the exercise was made with id, species, island, mass",
        ),
        (
            "UPDATE penguins SET mass = mass + 1",
            "penguins has other values than those with which the exercise was made",
        ),
    ],
)
@pytest.mark.parametrize("text", ["SELECT species FROM penguins", "SELECT nothing FROM penguins"])
def test_data_that_have_changed_are_named_first(session, tmp_path, text, change, line):
    session.run("CREATE VIEW heavy AS SELECT * FROM penguins WHERE id > 0")
    exercise = make(session, tmp_path, "SELECT species, count(*) AS n FROM heavy GROUP BY species")
    assert "run the cells from the top" not in str(answer(session, exercise, text).messages)
    session.run("INSERT INTO islands VALUES ('Petermann', 2)")  # which the exercise does not read
    assert "run the cells from the top" not in str(answer(session, exercise, text).messages)
    session.run(change)
    assert answer(session, exercise, text).messages[0] == f"{line}: run the cells from the top"


def test_a_right_answer_is_right_on_data_that_have_changed(session, tmp_path):
    exercise = make(session, tmp_path, BY_SPECIES)
    session.run("UPDATE penguins SET mass = 7")
    assert answer(session, exercise, BY_SPECIES).messages == ()


def test_rows_in_another_order_and_times_of_today_are_no_change(session, tmp_path):
    session.run("CREATE TABLE visit (at TEXT, n INTEGER); INSERT INTO visit VALUES (datetime('now'), 1)")
    exercise = make(session, tmp_path, "SELECT n FROM visit, islands")
    session.run("CREATE TABLE copied AS SELECT * FROM islands ORDER BY name DESC; DELETE FROM islands")
    session.run("INSERT INTO islands SELECT * FROM copied; UPDATE visit SET at = '2001-01-01'")
    assert "run the cells" not in str(answer(session, exercise, "SELECT 7 AS n").messages)


def test_the_data_of_a_frame_and_of_a_state(session, tmp_path):
    frame = make(session, tmp_path, f"-- variable: counts\n{BY_SPECIES}")
    session.run("DELETE FROM penguins WHERE id = 1")
    wrong = check_frame(frame, session.run(BY_SPECIES), session.connection())
    assert wrong.messages[0] == "penguins has 5 rows, the exercise was made with 6: run the cells from the top"
    exercise = commit(session, tmp_path, "CREATE TABLE large AS SELECT * FROM islands WHERE area > 1", name="two")
    session.run("DELETE FROM islands WHERE area > 2000; CREATE TABLE large AS SELECT * FROM islands WHERE area > 1")
    wrong = check_state(exercise, session.connection())
    assert wrong.messages[0] == "islands has 3 rows, the exercise was made with 4: run the cells from the top"
    assert wrong.messages[-1].endswith("%check two --reset")


def test_a_file_without_tables_still_works(session, tmp_path):
    exercise = msgspec.structs.replace(commit(session, tmp_path, AREA), tables=(), created=())
    assert check_state(exercise, session.connection()).messages == ()
    session.run("UPDATE islands SET area = 9 WHERE name = 'Dream'")
    assert "--reset" not in str(check_state(exercise, session.connection()).messages)


def test_a_table_with_too_many_rows_is_not_stored(session, tmp_path):
    many = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20001) SELECT i FROM c"
    session.run(f"CREATE TABLE many AS {many}")
    text = "-- solution: any\n-- state: SELECT count(*) AS n FROM many\nDELETE FROM many WHERE i = 7"
    made = author(
        parse_cell("one", text), session.connection(), tmp_path, lambda: session.run("DELETE FROM many WHERE i = 7")
    )
    assert not made.commits
    assert [(table.rows, table.digest, table.content) for table in made.tables] == [(20_001, "", "")]
