"""What each command of %pipedb prints and returns, with the lines of README and the notebook."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest

from pipemagic.errors import AlreadyExists, ServerError, SessionError, UsageError


@pytest.fixture
def embedded(shell, local_service):
    shell("%pipedb connect")
    return shell


# -- the organization


def test_connect_without_a_target_creates_a_database_once(shell, local_service):
    for _ in range(2):
        assert shell("%pipedb connect").stable_lines == [
            "Connected to main (embedded service).",
            "Address: http://main-local.localhost:PORT",
        ]
    assert shell("%sql SELECT 1 AS a").value["a"].tolist() == [1]


def test_create_a_group_and_a_database(embedded):
    assert embedded("%pipedb organization").lines == ["Using organization local (embedded service)."]
    assert "ams" in embedded("%pipedb locations").value["location"].tolist()
    for flag in ("", " --if-not-exists"):
        assert embedded(f"%pipedb create-group edge --location ams{flag}").lines == ["Group edge is in ams."]
    for flag in ("", " --if-not-exists"):
        assert embedded(f"%pipedb add-location edge nrt{flag}").lines == ["Group edge is in ams, nrt."]
    for flag in ("", " --if-not-exists"):
        line = "Database flights is in group edge."
        assert embedded(f"%pipedb create-database flights --group edge{flag}").lines == [line]
    assert embedded("%pipedb groups").value.to_dict("list") == {
        "group": ["default", "edge"], "primary": ["ams", "ams"], "locations": ["ams", "ams, nrt"],
        "status": ["ok", "ok"], "protected": [False, False],
    }  # fmt: skip
    assert embedded("%pipedb databases").value.to_dict("list") == {
        "database": ["flights", "main"], "group": ["edge", "default"], "status": ["ok", "ok"],
        "protected": [False, False],
    }  # fmt: skip
    assert embedded("%pipedb connect flights").lines[0] == "Connected to flights (embedded service)."
    assert embedded("%pipedb overages on").lines == ["Overages are on for organization local."]
    assert embedded("%pipedb overages off").lines == ["Overages are off for organization local."]


def test_if_not_exists_reports_a_file_that_was_not_loaded(embedded, tmp_path):
    file = tmp_path / "a file.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE t (a)")
    line = f"%pipedb create-database flights --group default --from-file '{file}'"
    assert embedded(f"{line} --if-not-exists").lines == ["Database flights is in group default."]
    assert embedded(f"{line} --if-not-exists").lines == [
        "Database flights is in group default.", f"The database already existed; {file} was not loaded."
    ]  # fmt: skip
    assert isinstance(embedded.fails(line).error, AlreadyExists)


DUMP = """PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE child (id INTEGER PRIMARY KEY AUTOINCREMENT, p INTEGER REFERENCES parent(id));
INSERT INTO child VALUES (1, 10);
CREATE TABLE parent (id INTEGER PRIMARY KEY);
INSERT INTO parent VALUES (10);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES ('child', 1);
COMMIT;
"""
"""What SQLite's shell writes."""


def test_a_dump_makes_a_database(embedded, tmp_path):
    file = tmp_path / "a dump.sql"
    file.write_text(DUMP)
    line = f"%pipedb create-database family --group default --from-dump '{file}'"
    assert embedded(line).lines == ["Database family is in group default."]
    assert embedded(f"{line} --if-not-exists").lines[1:] == [f"The database already existed; {file} was not loaded."]
    embedded("%pipedb connect family")
    assert embedded("%sql SELECT child.id, p, seq FROM child, sqlite_sequence").value.values.tolist() == [[1, 10, 1]]
    assert "--from-file and --from-dump" in str(embedded.fails(f"{line} --from-file x").error)


def test_a_dump_that_cannot_be_restored_makes_no_database(embedded, tmp_path):
    start = "%pipedb create-database family --group default --from-dump"
    (tmp_path / "bad.sql").write_text("CREATE TABLE x (a);\nINSERT INTO x VALUES (1, 2);")
    assert "statement 2: table x has 1 columns but 2 values" in embedded.fails(f"{start} '{tmp_path / 'bad.sql'}'").out
    assert f"cannot read {tmp_path / 'no.sql'}: No such file" in embedded.fails(f"{start} '{tmp_path / 'no.sql'}'").out
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("CREATE TABLE t (a)")
    assert embedded.fails(f"{start} '{tmp_path / 'a.db'}'").error.hint == "use --from-file"
    assert embedded("%pipedb databases").value["database"].tolist() == ["main"]


def test_the_delete_of_a_dump_names_the_line_that_makes_a_database(embedded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "family.sql").write_text(DUMP)
    embedded("%pipedb connect")
    first = "add --confirm after %%sql or %sql to run the dump here, or create a database from it:\n"
    line = "%pipedb create-database family --from-dump family.sql"
    assert embedded.fails("%sql --file family.sql").error.hint == first + line
    assert embedded.fails(f"%%sql\n{DUMP}").error.hint == first + line.replace("family.sql", "FILE").replace(
        "family", "NAME"
    )
    embedded(line)
    plain = "add --confirm after %%sql or %sql to run it anyway, or add a WHERE"
    assert embedded.fails("%sql DELETE FROM sqlite_sequence").error.hint == plain
    cell = "%%sql\nCREATE TABLE a (b); INSERT INTO a VALUES (1); DELETE FROM a"
    assert embedded.fails(cell).error.hint == plain


def test_create_existing_is_an_error_with_a_hint(embedded):
    embedded("%pipedb create-group edge --location ams")
    cell = embedded.fails("%pipedb create-group edge --location ams")
    assert isinstance(cell.error, AlreadyExists)
    assert cell.out.splitlines()[-1] == "Hint: choose another name, or use the existing one with --if-not-exists"
    cell = embedded.fails("%pipedb create-database d --group nope")
    assert isinstance(cell.error, ServerError)
    assert cell.out.endswith("group not found\nHint: %pipedb groups lists the existing ones\n")
    assert "%pipedb locations lists" in embedded.fails("%pipedb create-group g --location nowhere").out


# -- connections


def test_connections_use_close_stop(embedded):
    embedded("%pipedb create-database other --group default")
    assert embedded("%pipedb connect other --as second").lines[0] == "Connected to second (embedded service)."
    assert embedded("%pipedb connections").value.to_dict("list") == {
        "connection": ["main", "second"], "where": ["embedded service"] * 2, "current": [False, True],
    }  # fmt: skip
    assert embedded("%pipedb use main").lines == ["Using main."]
    embedded("%sql BEGIN")
    assert embedded("%pipedb close").lines == ["The open transaction was rolled back.", "Closed main."]
    assert isinstance(embedded.fails("%sql SELECT 1").error, SessionError)
    assert embedded("%pipedb close second").lines == ["Closed second."]
    assert embedded("%pipedb stop").lines == ["Stopped the embedded service."]
    assert embedded("%pipedb stop").lines == ["The embedded service is not running."]


# -- the server


def test_status(db):
    assert db("%pipedb status").lines[0].endswith("current): no server-side connection; no transaction")
    db("%sql BEGIN")
    line = db("%pipedb status").lines[0]
    assert re.search(
        r"current\): server-side connection, idle time: (10|9)\.\d of 10 s left; "
        r"transaction open, no statements so far, [45]\.\d of 5 s left$", line
    )  # fmt: skip
    db("%sql ROLLBACK")
    assert re.fullmatch(r"Server: (pipemagic|sqld) \S.*, healthy", db("%pipedb status").lines[1])


# -- data


def test_tables_and_schema_do_not_use_the_stream(db):
    db("%%sql\nBEGIN;\nCREATE TABLE uncommitted (a)")
    stream = db.ip.magics_manager.registry["PipeMagics"].session.connection().stream
    before = stream.baton
    assert db("%pipedb tables").value.empty
    assert stream.baton == before
    db("%sql ROLLBACK")


def test_load_errors(db):
    db("number = 1\nimport pandas\nframe = pandas.DataFrame({'a': [1]})")
    assert "USAGE: name 'fram' is not defined\nHint: did you mean frame?" in db.fails("%pipedb load fram --table t").out
    assert "USAGE: number is an int, not a DataFrame" in db.fails("%pipedb load number --table t").out
    assert "USAGE: frame has no attribute 'b'" in db.fails("%pipedb load frame.b --table t").out
    missing = db.fails("%pipedb load frame").out
    assert "--table TABLE is missing\nHint: write %pipedb load frame --table TABLE\n" in missing + "\n"
    file = db.fails("%pipedb load frame.csv --replace  -- sep=';' ").out
    assert file.splitlines()[-1] == "Hint: write %pipedb load frame.csv --replace --table TABLE -- sep=';'"
    assert (
        "--append and --replace cannot be used together"
        in db.fails("%pipedb load frame --table t --replace --append").out
    )
    assert "unknown option --if-exists" in db.fails("%pipedb load frame --table t --if-exists append").out
    db("%sql BEGIN")
    assert "a transaction is open on db" in db.fails("%pipedb load frame --table t").out
    db("%sql ROLLBACK")


# -- help and wrong lines


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("%pipedb conect", ["unknown command 'conect'", "did you mean connect?"]),
        ("%pipedb disconnect", ["unknown command 'disconnect'", "did you mean close?"]),
        ("%pipedb xyzzy", ["unknown command 'xyzzy'", "%pipedb help --all lists all commands, !pipemagic --help"]),
        ("%pipedb help xyzzy", ["no help for 'xyzzy'", "%pipedb help --all lists all commands, topics and pages"]),
        ("%pipedb help export", ["no help for 'export'", "%%sql --to-csv FILE"]),
        ("%pipedb load f --nosuch", ["unknown option --nosuch", "%pipedb help load lists the options"]),
        ("%%sql --nosuch\nSELECT 1", ["unknown option --nosuch", "%pipedb help sql lists the options"]),
        ("%%sql --connection x\nSELECT 1", ["unknown option --connection", "did you mean --on?"]),
        ("%pipedb delete-database x --confrim", ["unknown option --confrim", "%pipedb help delete-database lists"]),
    ],
)
def test_wrong_lines_are_usage_errors_of_two_lines(shell, line, lines):
    cell = shell.fails(line)
    assert isinstance(cell.error, UsageError)
    message, hint = cell.out.splitlines()
    assert message == f"USAGE: {lines[0]}"
    assert lines[1] in hint
