"""References with a result that SQL leaves open are refused, with what to type; definite ones are not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from authored import BY_SPECIES, make, state

from pipemagic.errors import SessionError
from pipemagic.teaching.exercises.authoring import author
from pipemagic.teaching.exercises.exercise import parse_cell

STORED = """
CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT, at TEXT DEFAULT CURRENT_TIMESTAMP,
                    length AS (length(text)));
CREATE UNIQUE INDEX by_text ON notes (text);
CREATE TRIGGER touched AFTER UPDATE OF text ON notes BEGIN
  UPDATE notes SET at = datetime() WHERE id = new.id;
END;
INSERT INTO notes (text, at) VALUES ('old', '2024-01-01 00:00:00');
CREATE TABLE audit (at TEXT, what TEXT);
CREATE TABLE audited (id INTEGER PRIMARY KEY, note REFERENCES notes (id) ON DELETE CASCADE);
INSERT INTO audited VALUES (1, 1);
CREATE TRIGGER inserted AFTER INSERT ON audited BEGIN
  INSERT INTO audit VALUES (strftime('%s'), 'inserted');
END;
CREATE VIEW ages AS SELECT id, CAST(julianday('now') - julianday(at) AS INTEGER) AS days FROM notes;
CREATE VIEW over_ages AS SELECT days FROM ages;
"""

LOG = """
CREATE TABLE log (day TEXT, kind TEXT, PRIMARY KEY (day, kind)) WITHOUT ROWID;
INSERT INTO log VALUES ('2024-01-01', 'a'), ('2024-01-02', 'b');
CREATE TABLE "log.day" (number INTEGER)
"""


@pytest.mark.parametrize(
    ("reference", "message", "hint"),
    [
        (
            "SELECT name, area FROM islands ORDER BY area > 100 LIMIT 1",
            "rows are equal in ORDER BY at the LIMIT: ('Torgersen', 1) and ('Dream', 2)",
            "type ORDER BY area > 100, name",
        ),
        (
            "SELECT species, mass FROM penguins WHERE mass > 0 ORDER BY mass > 4000 LIMIT 2",
            "rows are equal in ORDER BY at the LIMIT: ",
            "type ORDER BY mass > 4000, id",
        ),
        (
            "WITH p AS (SELECT * FROM penguins) SELECT id FROM p ORDER BY species DESC LIMIT 1 OFFSET 1",
            "rows are equal in ORDER BY at the LIMIT: (5) and (4)",
            "type ORDER BY species DESC, id",
        ),
        ("SELECT name FROM islands LIMIT 2", "LIMIT without ORDER BY: which rows come is arbitrary", "add ORDER BY"),
        (
            "SELECT name FROM islands ORDER BY area > 100",
            "the order of rows is arbitrary: they are equal in ORDER BY",
            "type ORDER BY area > 100, name, or return the columns of ORDER BY",
        ),
        (
            "SELECT species, island FROM penguins GROUP BY species",
            "the result depends on the order in which rows are stored: in another order, 1 of 3 rows differs",
            "neither in GROUP BY nor in an aggregate function",
        ),
        (
            "SELECT name, island FROM (SELECT name, row_number() OVER (ORDER BY area > 100) AS island FROM islands)",
            "the result depends on the order in which rows are stored",
            "rank() instead of row_number()",
        ),
        (
            "SELECT id FROM penguins WHERE id IN (SELECT id FROM penguins ORDER BY species LIMIT 1)",
            "the result depends on the order in which rows are stored",
            "LIMIT needs an ORDER BY in which no two rows are equal",
        ),
        (
            "SELECT group_concat(name) AS names FROM islands",
            "the result depends on the order in which rows are stored",
            "group_concat(x ORDER BY x)",
        ),
        (
            "SELECT island, species, max(id > 0) AS a FROM penguins GROUP BY island",
            "the result depends on the order in which rows are stored",
            "that of any row with the maximum",
        ),
        ("SELECT random() AS n FROM islands", "returns another result each time it runs", "leave out random()"),
        (
            "DELETE FROM penguins WHERE id IN (SELECT id FROM penguins ORDER BY species LIMIT 1)",
            "penguins: the result depends on the order in which rows are stored",
            "LIMIT needs an ORDER BY",
        ),
        ("SELECT random() AS n", "returns another result each time it runs", "leave out random()"),
        ("SELECT name FROM islands ORDER BY random() LIMIT 1", "returns another result", "leave out random()"),
        ("SELECT random() > 0 AS heads", "returns another result", "leave out random()"),
        ("SELECT area FROM islands WHERE area < 3 ORDER BY random() LIMIT 1", "returns another result", "random()"),
        (
            "-- hidden: UPDATE islands SET area = random() % 2\nSELECT area FROM islands",
            "on the hidden data, the reference returns another result",
            "leave out random()",
        ),
        ("INSERT INTO islands VALUES ('Booth', random() % 2)", "returns another result", "leave out random()"),
        ("SELECT date('now') AS today", "depends on the time at which the reference runs", "a fixed date"),
        ("SELECT date() AS today", "depends on the time at which the reference runs", "a fixed date"),
        ("SELECT CURRENT_TIMESTAMP AS today", "depends on the time at which the reference runs", "a fixed date"),
        (
            "SELECT CAST(strftime('%Y', 'now') AS INTEGER) - 2000 AS years",
            "depends on the time at which the reference runs",
            "a fixed date",
        ),
        ("SELECT CURRENT_TIME AS clock", "depends on the time at which the reference runs", "a fixed date"),
        ("SELECT strftime('%H', 'now') < '12' AS morning", "depends on the time", "a fixed date"),
        ("SELECT strftime('%w', 'now') IN ('0', '6') AS weekend", "depends on the time", "a fixed date"),
        ("SELECT strftime('%m', 'now') = '05' AS may", "depends on the time", "a fixed date"),
        ('SELECT date("now") AS today', "depends on the time at which the reference runs", "a fixed date"),
        ("SELECT strftime('%Y') - 2000 AS years", "depends on the time at which the reference runs", "a fixed date"),
        (
            "INSERT INTO islands VALUES (date('now'), 3)",
            "depends on the time at which the reference runs",
            "leave the column out of `-- state:`",
        ),
    ],
)
def test_an_arbitrary_reference_is_refused(session, tmp_path, reference, message, hint):
    before = state(session)
    with pytest.raises(SessionError) as caught:
        make(session, tmp_path / "exercises", reference)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert not (tmp_path / "exercises").exists()
    assert state(session) == before


@pytest.mark.parametrize(
    "reference",
    [
        "SELECT name FROM islands ORDER BY area DESC LIMIT 2",
        "SELECT name FROM islands ORDER BY area LIMIT 2 OFFSET 1",
        "SELECT name FROM islands LIMIT 10",
        "SELECT species FROM penguins ORDER BY species LIMIT 2",
        "SELECT species, island FROM penguins ORDER BY species",
        "SELECT species, max(mass) AS mass, island FROM penguins WHERE mass > 0 GROUP BY species",
        "SELECT species, min(species) AS same, count(*) AS n FROM penguins GROUP BY species",
        "SELECT species, avg(mass) AS mean FROM penguins GROUP BY species ORDER BY mean DESC",
        "SELECT id, rank() OVER (ORDER BY species) AS place FROM penguins",
        "SELECT group_concat(name) AS names FROM islands WHERE area = 1",
        "SELECT rowid, name FROM islands",
        "SELECT day FROM log WHERE day < date('now')",
        "SELECT day FROM log WHERE kind <> 'now'",
        "SELECT count(*) AS n FROM log WHERE day < CURRENT_DATE",
        "INSERT INTO log VALUES ('2024-01-02', 'b') ON CONFLICT (day, kind) DO UPDATE SET kind = 'c'",
        "INSERT INTO penguins (species) VALUES ('Emperor') RETURNING id",
        'INSERT INTO "log.day" VALUES (1)',
        "CREATE TABLE heavy AS SELECT * FROM penguins WHERE mass > 4000",
        "CREATE TABLE n (a TEXT DEFAULT CURRENT_TIMESTAMP)",
        "UPDATE islands SET area = area + 1 WHERE name = (SELECT name FROM islands ORDER BY area LIMIT 1)",
        "SELECT 1 AS one",
        "SELECT count(*) AS n FROM islands WHERE random() IS NOT NULL",
        "-- state: SELECT name FROM islands\nINSERT INTO islands VALUES ('Booth', random())",
    ],
)
def test_a_definite_reference_is_not(session, tmp_path, reference):
    session.run(LOG)
    make(session, tmp_path, reference)


@pytest.mark.parametrize("any_session", ["in_process", "on_sqld", "on_seed"], indirect=True)
def test_on_each_server(any_session, tmp_path):
    make(any_session, tmp_path, BY_SPECIES)
    with pytest.raises(SessionError, match="rows are equal in ORDER BY at the LIMIT"):
        make(any_session, tmp_path, "SELECT id, species FROM penguins ORDER BY species LIMIT 1")


def test_rows_that_are_equal_on_the_hidden_data_only(session, tmp_path):
    reference = "SELECT name, area FROM islands ORDER BY area LIMIT 1"
    make(session, tmp_path, reference)
    hidden = "INSERT INTO islands VALUES ('Petermann', 0), ('Rasmussen', 0)"
    with pytest.raises(SessionError, match="on the hidden data, rows are equal in ORDER BY at the LIMIT"):
        make(session, tmp_path, f"-- hidden: {hidden}\n{reference}")


def test_the_view_that_a_reference_reads(session, tmp_path):
    session.run("CREATE VIEW small AS SELECT * FROM islands WHERE area < 1000")
    with pytest.raises(SessionError, match="rows are equal in ORDER BY at the LIMIT") as caught:
        make(session, tmp_path, "SELECT name FROM small ORDER BY area > 100 LIMIT 1")
    assert caught.value.hint == "type ORDER BY area > 100, name"


@pytest.mark.parametrize(
    ("view", "is_arbitrary"),
    [
        ("CREATE VIEW some AS SELECT name FROM islands ORDER BY area > 100 LIMIT 1", True),
        ("CREATE VIEW some AS SELECT name FROM first; CREATE VIEW first AS SELECT name FROM islands LIMIT 1", True),
        ("CREATE VIEW some (name) AS SELECT group_concat(name) FROM islands", True),
        ("CREATE VIEW some AS SELECT name FROM islands ORDER BY area LIMIT 1", False),
        ("CREATE VIEW some AS SELECT rowid, name FROM islands", False),
    ],
)
def test_the_order_of_rows_inside_of_a_view(any_session, tmp_path, view, is_arbitrary):
    any_session.run(view)
    if not is_arbitrary:
        make(any_session, tmp_path, "SELECT * FROM some")
        return
    with pytest.raises(SessionError, match="depends on the order in which rows are stored"):
        make(any_session, tmp_path, "SELECT * FROM some")


def test_a_table_to_which_others_refer(any_session, tmp_path):
    """Copies of tables do not change rows of others, and views do not prevent them."""
    any_session.run("""
        CREATE TABLE colony (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE nest (colony REFERENCES colony (id) ON DELETE CASCADE, eggs INTEGER);
        CREATE TABLE ship (colony REFERENCES colony (id));
        CREATE VIEW colonies AS SELECT name FROM colony;
        INSERT INTO colony VALUES (1, 'North'), (2, 'South');
        INSERT INTO nest VALUES (1, 2), (2, 2);
        INSERT INTO ship VALUES (1);
    """)
    query = "SELECT name FROM colony JOIN nest ON colony = id ORDER BY eggs"
    with pytest.raises(SessionError, match="rows are equal in ORDER BY at the LIMIT"):
        make(any_session, tmp_path, f"{query} LIMIT 1")
    make(any_session, tmp_path, f"{query}, name LIMIT 1")


def test_a_view_or_trigger_with_random_numbers(session, tmp_path):
    session.run("CREATE VIEW coins AS SELECT name, random() > 0 AS heads FROM islands WHERE area = 1")
    session.run(
        "CREATE TRIGGER area AFTER INSERT ON islands BEGIN "
        "UPDATE islands SET area = random() > 0 WHERE name = new.name; END"
    )
    for reference in ["SELECT heads FROM coins", "INSERT INTO islands VALUES ('Booth', 2)"]:
        with pytest.raises(SessionError, match="returns another result each time it runs"):
            make(session, tmp_path, reference)


def test_a_term_of_state_that_is_arbitrary(session, tmp_path):
    with pytest.raises(SessionError, match="rows of islands: LIMIT without ORDER BY"):
        make(session, tmp_path, "-- state: SELECT area FROM islands LIMIT 1\nUPDATE islands SET area = area + 7")


@pytest.mark.parametrize("any_session", ["in_process", "on_sqld", "on_seed"], indirect=True)
@pytest.mark.parametrize(
    "reference",
    [
        "-- state: SELECT name, date('now') AS day FROM islands\nINSERT INTO islands VALUES ('Booth', 3)",
        "CREATE TABLE visits (at TEXT DEFAULT CURRENT_TIMESTAMP, id); INSERT INTO visits (id) VALUES (1)",
        "CREATE TABLE visits (at TEXT DEFAULT (date()), id); INSERT INTO visits (id) VALUES (1)",
        "INSERT INTO notes (text) VALUES ('new')",
        "UPDATE notes SET text = 'new' WHERE id = 1",
        "-- state: SELECT * FROM audit\nINSERT INTO audited VALUES (3, 1)",
        "INSERT INTO notes (text) SELECT 'copied ' || id FROM audited",
        "SELECT days FROM ages",
        "SELECT a.id, days FROM audited AS a JOIN ages ON ages.id = note",
        "SELECT max(days) AS days FROM over_ages",
    ],
)
def test_the_time_in_what_the_database_stores(any_session, tmp_path, reference):
    any_session.run(STORED)
    with pytest.raises(SessionError, match="depends on the time at which the reference runs"):
        make(any_session, tmp_path, reference)


@pytest.mark.parametrize("any_session", ["in_process", "on_sqld", "on_seed"], indirect=True)
@pytest.mark.parametrize(
    "reference",
    [
        "CREATE TABLE visits (at TEXT DEFAULT CURRENT_TIMESTAMP, id)",
        "CREATE TABLE visits (at TEXT DEFAULT (datetime('now')), id)",
        "-- state: SELECT dflt_value FROM pragma_table_info('visits')\nCREATE TABLE visits (at DEFAULT CURRENT_DATE)",
        "-- state: SELECT id, text FROM notes\nINSERT INTO notes (text) VALUES ('new')",
        "INSERT INTO notes (text, at) VALUES ('new', '2024-01-31')",
        "INSERT INTO islands VALUES ('now', 3)",
        "SELECT at, text FROM notes",
        "SELECT dflt_value FROM pragma_table_info('notes') WHERE name = 'at'",
        "SELECT sql FROM sqlite_schema WHERE name = 'ages'",
        "SELECT id FROM ages WHERE days > 0",
        "-- state: SELECT a.id, n.text FROM audited AS a JOIN notes AS n ON n.id = note\n"
        "INSERT INTO audited VALUES (3, 1)",
    ],
)
def test_the_time_that_a_result_does_not_contain(any_session, tmp_path, reference):
    any_session.run(STORED)
    make(any_session, tmp_path, reference)


def test_the_time_at_which_a_solution_ran(session, tmp_path):
    session.run(STORED)

    def defined(columns):
        text = f"-- solution: %sql INSERT INTO notes (text) VALUES ('new')\nSELECT {columns} FROM notes"
        session.run("DELETE FROM notes WHERE text = 'new'")
        author(
            parse_cell("one", text), session.connection(), tmp_path,
            lambda: session.run("INSERT INTO notes (text) VALUES ('new')"),
        )  # fmt: skip

    with pytest.raises(SessionError, match="depends on the time at which the reference runs"):
        defined("text, at")
    defined("text")
    session.run("CREATE TABLE visits (id INTEGER PRIMARY KEY, second INTEGER DEFAULT (unixepoch()))")
    text = "-- solution: %sql INSERT INTO visits DEFAULT VALUES\nSELECT second FROM visits"
    with pytest.raises(SessionError, match="depends on the time at which the reference runs"):
        author(
            parse_cell("two", text), session.connection(), tmp_path,
            lambda: session.run("INSERT INTO visits DEFAULT VALUES"),
        )  # fmt: skip


def test_the_time_at_which_an_earlier_cell_ran(session, tmp_path):
    session.run(STORED + "INSERT INTO notes (text) VALUES ('of today')")
    with pytest.raises(SessionError, match="depends on the time at which the reference runs"):
        make(session, tmp_path, "SELECT text, at FROM notes")
    make(session, tmp_path, "SELECT text FROM notes")
    session.run("DELETE FROM notes WHERE text = 'of today'")
    make(session, tmp_path, f"INSERT INTO notes (text, at) VALUES ('fixed', '{datetime.now(UTC):%Y-%m-%d}')")


def test_the_time_on_hidden_data(session, tmp_path):
    session.run(STORED)
    hidden = "-- hidden: INSERT INTO notes (text) VALUES ('new')"
    with pytest.raises(SessionError, match="on the hidden data, the result depends on the time"):
        make(session, tmp_path, f"{hidden}\nSELECT text, at FROM notes")
    make(session, tmp_path, f"{hidden}\nSELECT text FROM notes")


def test_the_time_in_triggers_of_rows_that_a_foreign_key_deletes(any_session, tmp_path):
    any_session.run(STORED)
    any_session.run(
        "CREATE TABLE removed (which INTEGER, at TEXT);"
        "CREATE TRIGGER removes AFTER DELETE ON audited BEGIN INSERT INTO removed VALUES (old.id, date()); END"
    )
    delete = "DELETE FROM notes WHERE id = 1"
    with pytest.raises(SessionError, match="depends on the time at which the reference runs"):
        make(any_session, tmp_path, f"-- state: SELECT at FROM removed\n{delete}")
    make(any_session, tmp_path, f"-- state: SELECT which FROM removed\n{delete}")


def test_tables_that_refer_to_each_other_and_use_the_time(any_session, tmp_path):
    any_session.run("""
        CREATE TABLE a (id INTEGER PRIMARY KEY, b REFERENCES b (id) ON DELETE CASCADE, at TEXT DEFAULT CURRENT_DATE);
        CREATE TABLE b (id INTEGER PRIMARY KEY, a REFERENCES a (id) ON DELETE SET NULL);
        INSERT INTO b (id) VALUES (1), (2); INSERT INTO a VALUES (1, 1, 'x'), (2, 2, 'y'); UPDATE b SET a = 1
    """)
    insert = "INSERT INTO a (b) SELECT b.id FROM a JOIN b ON b.a = a.id"
    with pytest.raises(SessionError, match="depends on the time at which the reference runs"):
        make(any_session, tmp_path, insert)
    make(any_session, tmp_path, f"-- state: SELECT a.id, b FROM a JOIN b ON b.id = a.b\n{insert}")


@pytest.mark.parametrize("any_session", ["on_sqld"], indirect=True)
def test_a_new_uuid_of_sqld(any_session, tmp_path):
    with pytest.raises(SessionError, match="returns another result each time it runs"):
        make(any_session, tmp_path, "SELECT gen_random_uuid() AS id")
