"""Checks of answers on real servers: what they score, what they leave behind, what they show."""

from __future__ import annotations

import pytest
from authored import BY_SPECIES, answer, make, state

from pipemagic.errors import SessionError, StatementError
from pipemagic.teaching.exercises import Exercise, points, results
from pipemagic.teaching.exercises.authoring import order_columns
from pipemagic.teaching.exercises.checking import Check, check_cell, check_frame, check_state, hidden_score, record
from pipemagic.teaching.exercises.grading import verified_points
from pipemagic.teaching.exercises.release import fingerprint
from pipemagic.teaching.exercises.running import EMPTY
from pipemagic.teaching.magics import Feedback, summary


@pytest.mark.parametrize("any_session", ["in_process", "on_sqld", "on_seed"], indirect=True)
def test_a_query(any_session, tmp_path):
    exercise = make(any_session, tmp_path, f"-- points: 2\n{BY_SPECIES}")
    right = answer(any_session, exercise, "SELECT count(*) AS N, species FROM penguins GROUP BY 2 ORDER BY 1")
    assert (right.passed, right.points, right.messages) == (True, 2, ())
    assert list(right.answer.columns) == ["N", "species"]
    wrong = answer(any_session, exercise, f"{BY_SPECIES} HAVING n > 1")
    assert not wrong.passed
    assert 0 < wrong.points < 2
    assert any("1 missing row" in line for line in wrong.messages)


@pytest.mark.parametrize("any_session", ["in_process", "on_sqld", "on_seed"], indirect=True)
def test_an_answer_without_rows_gets_the_reason(any_session, tmp_path):
    exercise = make(any_session, tmp_path, "SELECT id FROM penguins WHERE island = 'Dream'")
    reason = "no row of penguins has island = 'dream'; there is 'Dream'"
    assert answer(any_session, exercise, "SELECT id FROM penguins WHERE island = 'dream'").messages == (reason,)
    total = make(any_session, tmp_path, "SELECT count(*) AS n FROM penguins WHERE island IN ('Dream', 'Biscoe')")
    none = answer(any_session, total, "SELECT count(*) AS n FROM penguins WHERE island IN ('dream', 'biscoe')")
    assert none.messages[-1] == "no row of penguins has island IN ('dream', 'biscoe'); there is 'Dream'"
    few = make(any_session, tmp_path, "SELECT id FROM penguins WHERE island IN ('Dream', 'Biscoe')")
    some = answer(any_session, few, "SELECT id FROM penguins WHERE island IN ('dream', 'Biscoe')")
    assert some.messages[0] == f"1 missing row: {reason}"
    blind = make(any_session, tmp_path, "-- feedback: pass or fail\nSELECT id FROM penguins WHERE island = 'Dream'")
    assert answer(any_session, blind, "SELECT id FROM penguins WHERE island = 'dream'").messages[-1] == reason
    changes = make(any_session, tmp_path, "DELETE FROM penguins WHERE island = 'Dream'")
    nothing = answer(any_session, changes, "DELETE FROM penguins WHERE island = 'dream'")
    assert nothing.notes == (f"The DELETE changes no row: {reason}.",)


@pytest.mark.parametrize(
    ("reference", "wrong"),
    [
        ("UPDATE penguins SET mass = 4000 WHERE mass IS NULL", "UPDATE penguins SET mass = 4000"),
        ("INSERT INTO islands VALUES ('Petermann', 2)", "INSERT INTO islands (name) VALUES ('Petermann')"),
        ("DELETE FROM penguins WHERE island = 'Dream'", "DELETE FROM penguins WHERE island <> 'Dream'"),
        (
            "CREATE TABLE nests (id INTEGER PRIMARY KEY, penguin INTEGER NOT NULL)",
            "CREATE TABLE nests (id INTEGER PRIMARY KEY, penguin TEXT)",
        ),
        ("CREATE VIEW big AS SELECT * FROM penguins WHERE mass > 4000", "CREATE VIEW big AS SELECT * FROM penguins"),
        ("CREATE UNIQUE INDEX by_name ON islands (name)", "CREATE INDEX by_name ON islands (name)"),
        ("CREATE INDEX by_mass ON penguins (island, mass)", "CREATE INDEX by_mass ON penguins (mass, island)"),
        ("DROP TABLE islands", "DELETE FROM islands"),
        ("ALTER TABLE islands ADD COLUMN visited TEXT", "ALTER TABLE islands ADD COLUMN visitors TEXT"),
    ],
)
def test_the_state_after_statements(any_session, tmp_path, reference, wrong):
    before = state(any_session)
    exercise = make(any_session, tmp_path, reference)
    right = answer(any_session, exercise, reference.replace("by_", "the_"))
    assert right.passed, right.messages
    found = answer(any_session, exercise, wrong)
    assert not found.passed
    assert found.messages
    assert state(any_session) == before  # everything was rolled back


RETURNS = "INSERT INTO islands (name, area) SELECT 'Petermann', 2 ORDER BY 1 RETURNING name"


@pytest.mark.parametrize("any_session", ["in_process", "on_sqld", "on_seed"], indirect=True)
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("INSERT INTO islands VALUES ('Petermann', 2) RETURNING name", ""),
        ("INSERT INTO islands VALUES ('Petermann', 2); SELECT name FROM islands WHERE area = 2 AND name > 'P'", ""),
        ("INSERT INTO islands VALUES ('Petermann', 2)", "no statement returns rows: add RETURNING"),
        ("INSERT INTO islands VALUES ('Petermann', 2) RETURNING *", "column area is unexpected"),
        ("INSERT INTO islands VALUES ('Petermann', 2) RETURNING area", "column area instead of name"),
        ("INSERT INTO islands VALUES ('Petermann', 2) RETURNING area AS name", "1 of 1 row differs"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("header", ["", "-- state: SELECT name, area FROM islands\n", "-- feedback: pass or fail\n"])
def test_rows_that_a_change_returns_are_compared_as_well(any_session, tmp_path, header, text, line):
    exercise = make(any_session, tmp_path, f"{header}{RETURNS}")
    check = answer(any_session, exercise, text)
    assert check.passed is not bool(line)
    if "fail" not in header or "column" in line:
        assert check.messages[:1] == ((f"result: {line}",) if line else ())
    assert bool(check.messages) is bool(line)
    assert check.score == 1 if not line else 0.5 <= check.score < 1  # half of the points are for the table
    other = "INSERT INTO islands VALUES ('Petermann', 3) RETURNING name"
    assert any("islands: " in found for found in answer(any_session, exercise, other).messages)


def test_hidden_data_compare_rows_that_a_change_returns(session, tmp_path):
    text = "UPDATE islands SET area = 0 WHERE area < 100 RETURNING name"
    data = "INSERT INTO islands VALUES ('Petermann', 2)"
    exercise = make(session, tmp_path, f"-- hidden: {data}\n{text}")
    for end, score in [("name", 1), ("(CASE name WHEN 'Dream' THEN 'Dream' ELSE 'Torgersen' END) AS name", 0.5)]:
        results.clear()
        check = answer(session, exercise, text.replace("RETURNING name", f"RETURNING {end}"))
        assert check.passed
        found = hidden_score(check, reference=text, data=data)
        assert found == 1 if score == 1 else 0.5 <= found < 1
        graded = {"reference": text, "data": data}
        if score == 1:
            assert verified_points("one", fingerprint(exercise), **graded) == 1
            continue
        with pytest.raises(SessionError, match="correct on the visible data, wrong on the hidden data"):
            verified_points("one", fingerprint(exercise), **graded)


def test_a_change_in_another_cell_returns_nothing_to_compare(session, tmp_path):
    with pytest.raises(SessionError, match="one checks the rows that an answer returns as well"):
        check_state(make(session, tmp_path, RETURNS), session.connection())
    exercise = make(session, tmp_path, f"-- solution: %sql {RETURNS}\n{RETURNS}")
    session.run(RETURNS.partition(" RETURNING")[0])
    assert check_state(exercise, session.connection()).passed


def test_a_reference_that_returns_rows_and_changes_none_is_refused(session, tmp_path):
    with pytest.raises(SessionError, match="the reference solution changes nothing"):
        make(session, tmp_path, "DELETE FROM islands WHERE area < 0 RETURNING name")


def test_queries_on_the_state(session, tmp_path):
    exercise = make(
        session,
        tmp_path,
        "-- state: SELECT total(mass) AS mass FROM penguins\n-- state: SELECT count(*) AS n FROM penguins\n"
        "UPDATE penguins SET mass = mass + 1",
    )
    assert [probe.label for probe in exercise.probes] == ["mass of penguins", "n of penguins"]
    assert answer(session, exercise, "UPDATE penguins SET mass = 1 + mass WHERE mass > 0").passed
    wrong = answer(session, exercise, "UPDATE penguins SET mass = mass + 2")
    assert wrong.messages
    assert all(line.startswith("mass of penguins: ") for line in wrong.messages)


def test_an_answer_that_changes_nothing_gets_no_points(session, tmp_path):
    """Most rows of the state are right before the answer."""
    exercise = make(session, tmp_path, "-- points: 5\nUPDATE penguins SET mass = 3900 WHERE mass IS NULL OR id = 1")
    assert answer(session, exercise, "SELECT 1").points == 0
    assert 2 < answer(session, exercise, "UPDATE penguins SET mass = 3900 WHERE mass IS NULL").points < 3
    assert answer(session, exercise, "DELETE FROM penguins").points == 0
    table = make(session, tmp_path, "CREATE TABLE nests (id INTEGER, place TEXT)", "two")
    assert answer(session, table, "SELECT 1").points == 0


@pytest.mark.parametrize(
    ("reference", "answer_"),
    [
        ("UPDATE penguins SET mass = 1 WHERE id = 1", "CREATE TEMP TABLE penguins AS SELECT * FROM main.penguins"),
        ("UPDATE penguins SET mass = 1 WHERE id = 1", "UPDATE penguins SET mass = 1 WHERE id = 1; DROP TABLE islands"),
        (
            "DELETE FROM penguins WHERE id = 1",
            "CREATE TABLE p AS SELECT * FROM penguins WHERE id > 1; DROP TABLE penguins;"
            "ALTER TABLE p RENAME TO penguins",
        ),
        ("DELETE FROM penguins WHERE id = 1", "ALTER TABLE penguins RENAME TO p; CREATE VIEW penguins AS SELECT 1"),
        ("CREATE TABLE n (a INTEGER DEFAULT 3)", "CREATE TABLE n (a INTEGER)"),
        ("CREATE TABLE n (a TEXT UNIQUE)", "CREATE TABLE n (a TEXT)"),
        ("CREATE TABLE n (a TEXT REFERENCES islands(name))", "CREATE TABLE n (a TEXT)"),
        ("CREATE INDEX i ON islands (area)", "CREATE INDEX i ON islands (area) WHERE area > 1"),
        ("CREATE INDEX i ON islands (area DESC)", "CREATE INDEX i ON islands (area)"),
        ("ALTER TABLE islands ADD COLUMN twice AS (area * 2)", "ALTER TABLE islands ADD COLUMN twice INTEGER"),
    ],
)
def test_a_state_that_only_looks_right(session, tmp_path, reference, answer_):
    exercise = make(session, tmp_path, reference)
    assert answer(session, exercise, reference).passed
    assert not answer(session, exercise, answer_).passed


@pytest.mark.parametrize(
    ("reference", "answer_"),
    [
        ("CREATE TABLE nests (id INTEGER, place VARCHAR(20))", "CREATE TABLE NESTS (ID integer, Place varchar (20))"),
        ("CREATE TABLE n (a INTEGER); INSERT INTO n VALUES (1)", "CREATE TABLE n (a INTEGER); INSERT INTO n SELECT 1"),
    ],
)
def test_a_state_that_is_written_in_another_way(session, tmp_path, reference, answer_):
    assert answer(session, make(session, tmp_path, reference), answer_).passed


def test_a_write_does_not_wait_for_an_open_transaction(session, tmp_path):
    exercise = make(session, tmp_path, "DELETE FROM islands WHERE area = 1")
    session.run("BEGIN IMMEDIATE; DELETE FROM penguins")
    check = answer(session, exercise, "DELETE FROM islands WHERE area = 1")
    assert check.messages == ("your transaction is open and would block the answer: run COMMIT or ROLLBACK first",)
    session.run("ROLLBACK")
    assert answer(session, exercise, "DELETE FROM islands WHERE area = 1").passed


def test_no_points_are_not_less_than_none(session, tmp_path):
    assert answer(session, make(session, tmp_path, f"-- points: 0\n{BY_SPECIES}"), "SELECT 1 AS a").points == 0


def test_large_results_are_refused(session, tmp_path):
    many = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 30000) "
    with pytest.raises(SessionError, match="the result has 30,000 rows; the limit is 20,000"):
        make(session, tmp_path, f"{many}SELECT i FROM c")
    with pytest.raises(SessionError, match="islands has 30,004 rows; the limit is 20,000") as caught:
        make(session, tmp_path, f"{many}INSERT INTO islands (area) SELECT i FROM c")
    assert "-- state: SELECT" in caught.value.hint


def test_pass_or_fail_with_an_order_and_columns_in_any_order(session, tmp_path):
    exercise = make(session, tmp_path, f"-- feedback: pass or fail\n{BY_SPECIES} ORDER BY n DESC, species")
    assert answer(session, exercise, "SELECT count(*) AS n, species FROM penguins GROUP BY 2 ORDER BY 1 DESC, 2").passed
    assert not answer(session, exercise, f"{BY_SPECIES} ORDER BY n, species").passed


def test_the_state_that_other_cells_committed(session, tmp_path):
    exercise = make(session, tmp_path, "-- solution: %%sql --atomic\nUPDATE penguins SET mass = 0 WHERE id = 1")
    unchanged = check_state(exercise, session.connection())
    assert (unchanged.points, unchanged.messages, unchanged.difference) == (0, (), None)  # no answer yet
    session.run("UPDATE penguins SET mass = 0 WHERE id = 2")
    assert check_state(exercise, session.connection()).messages
    session.run("UPDATE penguins SET mass = 3800 WHERE id = 2; UPDATE penguins SET mass = 0 WHERE id = 1")
    assert check_state(exercise, session.connection()).passed


def test_a_query_on_the_state_after_a_solution_that_has_run(session, tmp_path):
    session.run("DELETE FROM islands WHERE area > 1000")
    exercise = make(session, tmp_path, "-- solution: anything\nSELECT name FROM islands")
    assert check_state(exercise, session.connection()).passed
    session.run("DELETE FROM islands")
    assert not check_state(exercise, session.connection()).passed


def test_a_frame(session, tmp_path):
    exercise = make(session, tmp_path, f"-- variable: counts\n{BY_SPECIES}")
    assert check_frame(exercise, session.run(f"{BY_SPECIES} ORDER BY n")).passed
    assert not check_frame(exercise, session.run("SELECT species FROM penguins")).passed
    assert "%check one counts" in answer(session, exercise, BY_SPECIES).messages[0]


def test_a_check_of_another_kind_is_an_error(session, tmp_path):
    query, change = (
        make(session, tmp_path, BY_SPECIES, "query"),
        make(session, tmp_path, "DELETE FROM islands", "change"),
    )
    with pytest.raises(SessionError, match="query checks a result, not the state") as caught:
        check_state(query, session.connection())
    assert caught.value.hint == "%%check query"
    with pytest.raises(SessionError, match="change checks the state of the database, not a DataFrame"):
        check_frame(change, session.run(BY_SPECIES))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BEGIN; SELECT 1", "BEGIN, COMMIT and ROLLBACK are not allowed here"),
        ("COMMIT", "BEGIN, COMMIT and ROLLBACK are not allowed here"),
        ("SELECT 1; ROLLBACK; DELETE FROM penguins", "BEGIN, COMMIT and ROLLBACK are not allowed here"),
        ("UPDATE penguins SET mass = 1", "no statement returns rows: the answer must end with a SELECT"),
        ("SELECT speces FROM penguins", "no such column: speces"),
        ("SELECT 1; SELECT nothing FROM penguins", "nothing was changed; statement 2 of 2 failed here"),
        ("SELECT species FROM", "incomplete"),
        ("SELEC species FROM penguins", "syntax error"),
        ("WITH x AS (SELECT 1 AS a)", "incomplete"),
    ],
)
def test_an_answer_that_fails_is_feedback_not_an_error(session, tmp_path, text, message):
    exercise, before = make(session, tmp_path, BY_SPECIES), state(session)
    check = answer(session, exercise, text)
    assert (check.points, check.passed) == (0, False)
    assert message in check.messages[0]
    assert state(session) == before


def test_savepoints_are_possible(session, tmp_path):
    exercise = make(session, tmp_path, BY_SPECIES)
    assert answer(session, exercise, f"SAVEPOINT a; DELETE FROM penguins; ROLLBACK TO a; {BY_SPECIES}").passed


def test_an_empty_answer_costs_no_hint(session, tmp_path):
    exercise = make(session, tmp_path, f"-- hint: count\n-- hint: group\n{BY_SPECIES}")
    for text, hints in [("SELECT 1 AS a", 1), ("SELECT 2 AS a", 2), ("SELECT 3 AS a", 2)]:
        assert len(answer(session, exercise, text).hints) == hints
    assert record(check_cell(exercise, EMPTY, session.connection())).failures == 3


def test_the_best_attempt_counts_and_feedback_is_on_the_last(session, tmp_path):
    exercise = make(session, tmp_path, f"-- points: 2\n{BY_SPECIES}")
    assert answer(session, exercise, BY_SPECIES).points == 2
    worse = answer(session, exercise, "SELECT species, 1 AS n FROM penguins GROUP BY 1")
    assert 0 < worse.points < 2
    assert record(check_cell(exercise, EMPTY, session.connection())).messages == ()
    assert (points("one"), results["one"].passed, results["one"].failures) == (2, True, 1)
    assert [attempt.points for attempt in results["one"].attempts] == [2, worse.points]


def test_the_last_of_equal_attempts_and_an_answer_before_none(session, tmp_path):
    exercise = make(session, tmp_path, BY_SPECIES)
    answer(session, exercise, "SELECT nope")
    answer(session, exercise, "SELECT never")
    record(check_cell(exercise, EMPTY, session.connection()))
    assert results["one"].messages[0].startswith("no such column: never")


def test_attempts_of_a_changed_exercise_do_not_count(session, tmp_path):
    exercise = make(session, tmp_path, f"-- hint: count\n{BY_SPECIES}")
    answer(session, exercise, BY_SPECIES)
    changed = make(session, tmp_path, "-- hint: count\nSELECT count(*) AS n FROM penguins")
    assert answer(session, changed, BY_SPECIES).hints == ("count",)
    assert points("one") < 1


def test_constructs(session, tmp_path):
    exercise = make(session, tmp_path, f"-- points: 2\n-- requires: GROUP BY\n-- forbids: subquery\n{BY_SPECIES}")
    window = answer(
        session, exercise, "SELECT DISTINCT species, count(*) OVER (PARTITION BY species) AS n FROM penguins"
    )
    assert (window.points, window.messages) == (1, ("must use GROUP BY",))
    nested = answer(session, exercise, "SELECT species, count(*) AS n FROM (SELECT * FROM penguins) GROUP BY species")
    assert (nested.points, nested.messages) == (1, ("must not use a subquery",))
    other = answer(session, exercise, f"SELECT 1 GROUP BY 1; SELECT DISTINCT{window.cell.text[15:]}")
    assert (other.points, other.messages) == (1, ("must use GROUP BY",))


@pytest.mark.parametrize("text", [BY_SPECIES, "UPDATE penguins SET mass = 1 WHERE id = 1"])
def test_pass_or_fail_stores_a_salted_digest(session, tmp_path, text):
    text = f"-- feedback: pass or fail\n{text}"
    first = make(session, tmp_path, text)
    assert all(not probe.expected and len(probe.digest) == 128 for probe in first.probes)
    content = (tmp_path / "one.json").read_bytes()
    make(session, tmp_path, text)
    assert (tmp_path / "one.json").read_bytes() == content  # the salt is kept
    other = make(session, tmp_path, text, "two")
    assert first.probes[0].digest != other.probes[0].digest
    assert answer(session, first, text.split("\n")[1]).passed
    wrong = answer(session, first, "SELECT 1 AS a" if "SELECT" in text else "DELETE FROM penguins")
    assert (wrong.points, wrong.difference) == (0, None)
    assert wrong.messages


@pytest.mark.parametrize("any_session", ["on_sqld", "on_seed"], indirect=True)
def test_hidden_data_reveal_a_hard_coded_answer(any_session, tmp_path):
    data = "DELETE FROM penguins WHERE id = 1; INSERT INTO penguins VALUES (9, 'Emperor', NULL, 30000)"
    exercise, before = make(any_session, tmp_path, f"-- hidden: {data}\n{BY_SPECIES}"), state(any_session)
    none = check_cell(exercise, EMPTY, any_session.connection())
    assert hidden_score(none, reference=BY_SPECIES, data=data) is None
    hard_coded = "SELECT column1 AS species, column2 AS n FROM (VALUES ('Adelie', 3), ('Gentoo', 2), ('Chinstrap', 1))"
    found = answer(any_session, exercise, hard_coded)
    assert found.passed
    assert hidden_score(found, reference=BY_SPECIES, data=data) < 1
    found = answer(any_session, exercise, "SELECT species, sum(1) AS n FROM penguins GROUP BY 1")
    assert hidden_score(found, reference=BY_SPECIES, data=data) == 1
    found = answer(any_session, exercise, "SELECT nope")
    assert hidden_score(found, reference=BY_SPECIES, data=data) < 1
    assert state(any_session) == before


def test_hidden_data_that_change_no_result_are_refused(session, tmp_path):
    with pytest.raises(SessionError, match="the hidden statements do not change the result of the reference solution"):
        make(session, tmp_path, f"-- hidden: DELETE FROM islands\n{BY_SPECIES}")
    with pytest.raises(StatementError, match="no such table: nowhere"):
        make(session, tmp_path, f"-- hidden: DELETE FROM nowhere\n{BY_SPECIES}")


def test_a_reference_that_fails_or_changes_nothing(session, tmp_path):
    with pytest.raises(StatementError, match="no such column: speces"):
        make(session, tmp_path, "SELECT speces FROM penguins")
    for reference in ("PRAGMA foreign_keys = ON", "UPDATE penguins SET mass = 1 WHERE id = 77"):
        with pytest.raises(SessionError, match="the reference solution changes nothing"):
            make(session, tmp_path, reference)
    with pytest.raises(SessionError, match="rows of nests: no such table: nests"):
        make(session, tmp_path, "-- state: SELECT * FROM nests\nDELETE FROM islands")


def test_neither_the_reference_nor_the_probes_are_in_the_wire_view(session, tmp_path):
    session.wire.begin()
    exercise = make(session, tmp_path, "-- hidden: DELETE FROM islands\nUPDATE islands SET area = 7")
    found = answer(session, exercise, "UPDATE islands SET area = 7")
    hidden_score(found, reference="UPDATE islands SET area = 7", data="DELETE FROM islands WHERE area = 1")
    assert "area = 7" not in str(session.wire.last)


def test_an_open_transaction_of_the_cells_is_left_alone(session, tmp_path):
    exercise = make(session, tmp_path, BY_SPECIES)
    session.run("BEGIN; DELETE FROM penguins WHERE id = 1")
    assert answer(session, exercise, BY_SPECIES).passed  # on the committed rows
    assert session.run("ROLLBACK; SELECT count(*) AS n FROM penguins").n[0] == 6


def test_order_counts_where_the_reference_has_it(session, tmp_path):
    ordered = make(session, tmp_path, f"{BY_SPECIES} ORDER BY n DESC")
    assert ordered.probes[0].rules.ordered
    assert answer(session, ordered, f"{BY_SPECIES} ORDER BY count(*) DESC").passed
    assert not answer(session, ordered, f"{BY_SPECIES} ORDER BY n").passed
    ties = make(session, tmp_path, "SELECT id, species FROM penguins ORDER BY species")
    assert answer(session, ties, "SELECT id, species FROM penguins ORDER BY species, id DESC").passed
    assert not answer(session, ties, "SELECT id, species FROM penguins ORDER BY id DESC").passed


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a, b FROM t", ()),
        ("SELECT a, b FROM t ORDER BY b DESC, a", (1, 0)),
        ("SELECT a, b FROM t ORDER BY 2 LIMIT 3", (1,)),
        ("SELECT a, b FROM t ORDER BY t.B NULLS LAST;", (1,)),
        ('SELECT a, b FROM t ORDER BY "b" ASC', (1,)),
        ("SELECT a, b FROM t ORDER BY b + 1", ()),
        ("SELECT a, b FROM t ORDER BY c", ()),
        ("SELECT a, count(*) AS b FROM t GROUP BY a ORDER BY count(*) DESC, a", (1, 0)),
        ("SELECT a, b FROM t ORDER BY a COLLATE NOCASE DESC", (0,)),
        ("SELECT a, b FROM t UNION SELECT 1, 2 ORDER BY 2", (1,)),
        ("SELECT a, b FROM t ORDER BY 3", ()),
        ("SELECT a, sum(b) OVER (ORDER BY a) AS b FROM t", ()),
        ("WITH x AS (SELECT 1 ORDER BY 1) SELECT a, b FROM x ORDER BY a", (0,)),
    ],
)
def test_the_columns_that_order_the_rows(query, expected):
    assert order_columns(query, ["a", "b"]) == expected


def test_points_of_the_best_answers(session, tmp_path):
    exercise = make(session, tmp_path, f"-- points: 3\n{BY_SPECIES}")
    assert points("one") == 0
    answer(session, exercise, "SELECT species FROM penguins")
    assert 0 < points("one") == results["one"].points < 3
    answer(session, exercise, BY_SPECIES)
    assert points("one") == 3


def test_a_wrong_answer_never_gets_all_points(session, tmp_path):
    rows = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000) SELECT i FROM c"
    exercise = make(session, tmp_path, rows)
    check = answer(
        session, exercise, rows.replace("SELECT i FROM c", "SELECT CASE i WHEN 7 THEN 8 ELSE i END AS i FROM c")
    )
    assert check.points == 0.99


@pytest.mark.parametrize(
    ("score", "of", "quarters", "head"),
    [
        (0.1, 2, 0, "one: not yet (2 points)"),
        (0.249, 10, 0, "one: not yet (10 points)"),
        (0.25, 1, 0.25, "one: 0.25 of 1 point"),
        (0.73, 10, 5, "one: 5 of 10 points"),
        (0.99, 2, 1.5, "one: 1.5 of 2 points"),
        (1, 2, 2, "one: passed, 2 of 2 points"),
        (1, 0, 0, "one: passed, 0 of 0 points"),
    ],
)
def test_points_are_shown_in_quarters_rounded_down(score, of, quarters, head):
    check = record(Check(Exercise(name="one", points=of), score, () if score == 1 else ("it differs",)))
    assert (check.quarters, Feedback(check).head) == (quarters, head)
    assert points("one") == check.points == pytest.approx(score * of)  # exact
    assert summary().points.tolist() == [quarters, quarters]
