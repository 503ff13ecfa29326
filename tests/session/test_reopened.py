"""What is lost with a reopened connection: row counts say so, and temporary tables keep the connection open."""

from __future__ import annotations

import pytest

from pipemagic.errors import StatementError
from pipemagic.session import keep_alive
from pipemagic.session.cell import RunOptions
from pipemagic.session.connection_state import ConnectionSettings, TemporaryTables
from pipemagic.sql import split

ID = "last_insert_rowid() is 0 again"
REOPENED = "The connection was reopened after the INSERT INTO a, so last_insert_rowid() is 0 again"
REMEDY = "run both in one cell, or add RETURNING id to the INSERT."


@pytest.fixture
def filled(timed):
    """A session that inserted two rows."""
    timed.run("CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT); INSERT INTO a (x) VALUES ('p'), ('q')")
    return timed


# -- last_insert_rowid(), changes(), total_changes()


def test_the_cell_after_a_reopening_says_that_the_id_is_gone(filled, clock):
    clock.advance(12)
    result = filled.run_cell("INSERT INTO a (x) SELECT 'child of ' || last_insert_rowid()")
    assert result.notes == (f"{REOPENED}: {REMEDY}",)
    assert filled.run("SELECT x FROM a WHERE id = 3")["x"].tolist() == ["child of 0"]
    assert filled.run_cell("SELECT last_insert_rowid() AS id, changes() AS n").notes == ()  # an INSERT ran here


def test_it_is_said_in_each_cell_until_an_insert_runs(filled, clock):
    clock.advance(12)
    assert filled.run_cell("SELECT 1").notes == ()
    for _ in range(2):
        assert filled.run_cell("SELECT last_insert_rowid() AS id").notes == (f"{REOPENED}: {REMEDY}",)
    filled.run("UPDATE a SET x = 'r' WHERE id = 1")
    assert filled.run_cell("SELECT changes() AS n").notes == ()
    assert len(filled.run_cell("SELECT last_insert_rowid() AS id").notes) == 1
    filled.run("INSERT INTO a SELECT 9, 'none' WHERE false")  # inserts nothing, so the id stays 0
    assert len(filled.run_cell("SELECT last_insert_rowid() AS id").notes) == 1


def test_a_row_that_is_only_updated_sets_no_id(filled, clock):
    clock.advance(12)
    filled.run("INSERT INTO a (id, x) VALUES (1, 'r') ON CONFLICT DO UPDATE SET x = excluded.x")
    result = filled.run_cell("SELECT last_insert_rowid() AS id, changes() AS n")
    assert result.notes == (f"{REOPENED}: {REMEDY}",)
    assert result.frame.values.tolist() == [[0, 1]]


def test_an_insert_with_returning_needs_no_advice_on_it(filled, clock):
    filled.run("INSERT INTO a (x) VALUES ('r') RETURNING id")
    clock.advance(12)
    assert filled.run_cell("SELECT last_insert_rowid()").notes == (f"{REOPENED}: run both in one cell.",)


RIGHT_CODE = [
    "INSERT INTO a (x) VALUES ('r'); SELECT last_insert_rowid() AS id",
    "WITH new(x) AS (VALUES ('r')) INSERT INTO a (x) SELECT x FROM new; SELECT changes(), last_insert_rowid()",
    "SELECT 'last_insert_rowid()' AS text -- changes()",
    "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE a SET x = changes() WHERE id = last_insert_rowid(); END",
    "CREATE VIEW v AS SELECT last_insert_rowid() AS id",
    "EXPLAIN SELECT last_insert_rowid()",
    "CREATE TABLE changes (x); INSERT INTO changes (x) VALUES (1)",
    "DELETE FROM a WHERE id = 1; SELECT changes(), total_changes()",
]


@pytest.mark.parametrize("cell", RIGHT_CODE)
def test_right_code_gets_no_line(filled, clock, cell):
    clock.advance(12)
    assert filled.run_cell(cell).notes == ()


def test_nothing_is_said_on_the_first_connection_and_without_an_earlier_change(timed, clock):
    assert timed.run_cell("SELECT last_insert_rowid(), changes(), total_changes()").notes == ()
    clock.advance(12)
    assert timed.run_cell("SELECT last_insert_rowid(), changes(), total_changes()").notes == ()


def test_every_function_is_named_with_its_statement(filled, clock):
    filled.run("DELETE FROM a WHERE id = 1")
    clock.advance(12)
    result = filled.run_cell('SELECT 1; SELECT LAST_INSERT_ROWID ( ), "changes"(), total_changes()')
    assert result.notes == (
        f"{REOPENED} in statement 2: {REMEDY}",
        "The connection was reopened after the DELETE FROM a, so changes() is 0 again in statement 2: "
        "run both in one cell.",
        "The connection was reopened after the DELETE FROM a, so total_changes() is 0 again in statement 2: "
        "run both in one cell.",
    )


def test_a_failed_statement_names_it_with_the_error(filled, clock):
    filled.run("CREATE TABLE b (a INTEGER CHECK (a > 0))")
    clock.advance(12)
    with pytest.raises(StatementError, match="CHECK constraint failed") as failed:
        filled.run("INSERT INTO b VALUES (last_insert_rowid())")
    assert f"{REOPENED}: {REMEDY}" in failed.value.message


def test_atomic_cells_and_retries_say_it(filled, clock):
    clock.advance(12)
    assert len(filled.run_cell("SELECT last_insert_rowid()", options=RunOptions(atomic=True)).notes) == 1
    filled.run("BEGIN; INSERT INTO a (x) SELECT 'of ' || last_insert_rowid()")
    clock.advance(12)
    with pytest.raises(Exception, match="rolled the transaction back"):
        filled.run("COMMIT")
    assert any(ID in line for line in filled.connection().retry().notes)


def test_a_cell_that_is_only_explained_says_it_without_a_request(filled, clock):
    connection = filled.connection()
    cell = filled.read("SELECT last_insert_rowid()")
    assert connection.reset_counts(cell) == []
    clock.advance(12)
    line = f"The connection was closed after the INSERT INTO a, so {ID}: {REMEDY}"
    assert connection.reset_counts(cell) == [line]
    assert connection.reset_counts(filled.read("INSERT INTO a (x) VALUES (1); SELECT last_insert_rowid()")) == []


def test_a_setting_of_a_failed_atomic_cell_is_set_again(filled, clock):
    with pytest.raises(StatementError):
        filled.run_cell("PRAGMA recursive_triggers = ON; SELECT nope", options=RunOptions(atomic=True))
    assert filled.run("PRAGMA recursive_triggers").iloc[0, 0] == 1  # a rollback does not undo it
    clock.advance(12)
    assert filled.run("PRAGMA recursive_triggers").iloc[0, 0] == 1


# -- temporary tables


@pytest.fixture
def without_thread(monkeypatch):
    """The test looks in the place of the thread."""

    def touch(self):
        self._since, self.ended = self._clock(), ""

    monkeypatch.setattr(keep_alive.KeepAlive, "restart", touch)


@pytest.fixture
def temporary(timed, clock, without_thread):
    """A session with a temporary table, on the clock of the test."""
    timed.run("CREATE TEMP TABLE basket (item)")
    timed.connection().keep_alive_thread._clock = clock
    timed.run("INSERT INTO basket VALUES ('tea')")
    return timed


def test_a_temporary_table_lives_for_an_hour_after_the_last_cell(temporary, clock):
    keeping = temporary.connection().keep_alive_thread
    for _ in range(3600 // 8 - 1):
        clock.advance(8)
        assert keeping.check()
    assert temporary.run("SELECT item FROM basket")["item"].tolist() == ["tea"]
    for _ in range(3600 // 8):
        clock.advance(8)
        looked = keeping.check()
    assert not looked
    assert keeping.ended == "the time has expired"
    clock.advance(12)
    assert temporary.run_cell("SELECT 1").notes == (
        "The connection was reopened (temporary tables are gone: basket). "
        "Create basket without TEMP, or create and use it in one cell.",
    )
    assert temporary.connection().keep_alive_thread.seconds is None


def test_it_ends_with_the_last_temporary_table(temporary):
    connection = temporary.connection()
    temporary.run("CREATE TEMP VIEW v AS SELECT * FROM basket; DROP TABLE basket")
    assert connection.keep_alive_thread.seconds is not None
    temporary.run("DROP VIEW v")
    assert connection.keep_alive_thread.seconds is None


def test_a_chosen_time_wins(timed, without_thread):
    connection = timed.connection()
    connection.keep_alive(60)
    timed.run("CREATE TEMP TABLE basket (item)")
    assert connection.keep_alive_thread.seconds == 60
    connection.keep_alive(None)
    timed.run("SELECT * FROM basket")
    assert connection.keep_alive_thread.seconds is None


def test_a_choice_replaces_the_hour(temporary):
    connection = temporary.connection()
    assert connection.keep_alive_thread.seconds == 3600
    connection.keep_alive(30)
    temporary.run("SELECT * FROM basket")
    assert connection.keep_alive_thread.seconds == 30


def test_a_table_that_was_rolled_back_keeps_nothing(timed, clock, without_thread):
    connection = timed.connection()
    timed.run("BEGIN; CREATE TEMP TABLE basket (item)")
    assert connection.has_temporary_tables
    timed.run("ROLLBACK")
    assert not connection.has_temporary_tables
    timed.run("CREATE TABLE n (i INTEGER PRIMARY KEY)")
    with pytest.raises(StatementError):
        timed.run("BEGIN; CREATE TEMP TABLE basket (item); INSERT INTO n VALUES (1), (1); COMMIT")
    assert not connection.has_temporary_tables
    with pytest.raises(StatementError):
        timed.run_cell("CREATE TEMP TABLE basket (item); SELECT nope", options=RunOptions(atomic=True))
    assert not connection.has_temporary_tables
    timed.run_cell("CREATE TEMP TABLE basket (item); SELECT 1", options=RunOptions(atomic=True))
    assert connection.has_temporary_tables
    assert timed.run("SELECT count(*) AS n FROM temp.sqlite_schema")["n"].tolist() == [1]


def test_another_current_connection_does_not_end_the_stream_of_temporary_tables(temporary):
    connection = temporary.connection()
    connection.close_if_idle()
    assert connection.stream is not None
    temporary.run("DROP TABLE basket")
    connection.close_if_idle()
    assert connection.stream is None


def test_a_closed_connection_keeps_nothing(temporary):
    keeping = temporary.connection().keep_alive_thread
    temporary.close()
    assert not keeping.check()
    assert keeping.ended == "there is no server-side connection"


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("CREATE TEMP TABLE IF NOT EXISTS temp.\"My Table\" (a)", ["My Table"]),
        ("CREATE TABLE temp.t (a); create temporary view v as select 1", ["t", "v"]),
        ("CREATE VIRTUAL TABLE temp.f USING fts5(a)", ["f"]),
        ("CREATE TABLE t (a); CREATE TABLE main.temp (a); CREATE TABLE temporary (a)", []),
        ("CREATE TEMP TABLE t (a); DROP TABLE IF EXISTS T", []),
        ("CREATE TEMP TABLE t (a); DROP TABLE main.t", ["t"]),
        ("CREATE TEMP TABLE t (a); ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME COLUMN a TO b; DROP TABLE u", []),
        ("CREATE TEMP TRIGGER r AFTER INSERT ON main.t BEGIN SELECT 1; END; DROP TABLE other", ["r"]),
        ("CREATE TEMP TABLE t (a); CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END; DROP TABLE t", []),
        ("BEGIN; CREATE TEMP TABLE t (a); COMMIT", ["t"]),
        ("CREATE TEMP TABLE t (a); BEGIN; DROP TABLE t; ROLLBACK", ["t"]),
        ("SAVEPOINT s; CREATE TEMP TABLE t (a); SAVEPOINT u; CREATE TEMP TABLE w (a); ROLLBACK TO u; RELEASE s", ["t"]),
    ],
)  # fmt: skip
def test_which_temporary_tables_exist(script, names):
    temporary = TemporaryTables()
    for statement in split(script):
        temporary.update(statement)
    temporary.restore_if_rolled_back(still_open=False)
    assert list(temporary.by_key.values()) == names


def test_the_line_names_a_few_tables():
    settings = ConnectionSettings()
    for statement in split("CREATE TEMP TABLE a (x); CREATE TEMP TABLE b (x); CREATE TEMP VIEW c AS SELECT 1; "
                           "CREATE TEMP TABLE d (x)"):  # fmt: skip
        settings.update(statement)
    assert settings.note() == (
        "The connection was reopened (temporary tables are gone: a, b, c and 1 more). "
        "Create them without TEMP, or create and use them in one cell."
    )
