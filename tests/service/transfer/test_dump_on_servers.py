"""SQL text of a database with everything restores where a client sends it: SQLite, its shell, our service and sqld."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing

import httpx
import pytest
from service_http import ServiceTransport

from pipemagic.client.database import Database
from pipemagic.hrana.messages import Stmt
from pipemagic.service.transfer.dump import dump
from pipemagic.service.transfer.restore import restore
from pipemagic.sql import statements_of

MESSY = """
PRAGMA user_version = 42; PRAGMA application_id = 1196444487;
CREATE TABLE city (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, size REAL CHECK (size >= 0));
INSERT INTO city VALUES (3, 'Porto', 1.5), (7, CAST(x'5ae97a65' AS TEXT), -0.0), (9, 'a' || char(0) || 'b', 9e999);
CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO counted VALUES (5); DELETE FROM counted;
CREATE TABLE plain (a, "two words" INT, rowid TEXT); INSERT INTO plain VALUES (x'00ff', 2, 'r'), ('; it''s', NULL, '');
CREATE TABLE pairs (a TEXT, b, PRIMARY KEY (a, b)) WITHOUT ROWID; INSERT INTO pairs VALUES ('b', 1), ('a', 2.0);
CREATE TABLE made (a INT, twice INT AS (a * 2) STORED); INSERT INTO made(a) VALUES (4);
CREATE TABLE child (p REFERENCES city); INSERT INTO child VALUES (99);
CREATE VIRTUAL TABLE words USING fts5(title, body, prefix='2 3');
INSERT INTO words(rowid, title, body) VALUES (5, 'Lagos', 'by the sea'), (8, 'Lom', NULL);
INSERT INTO words(words, rank) VALUES ('automerge', 2);
CREATE VIRTUAL TABLE "older; one" USING fts4(x, tokenize=porter); INSERT INTO "older; one" VALUES ('walking');
CREATE VIRTUAL TABLE of_city USING fts5(name, content='city', content_rowid='id');
INSERT INTO of_city(of_city) VALUES ('rebuild');
CREATE VIRTUAL TABLE boxes USING rtree(id, x1, x2, +label); INSERT INTO boxes VALUES (4, 0.1, 1.5, 'small');
CREATE VIRTUAL TABLE terms USING fts5vocab('words', 'row');
CREATE VIEW large AS SELECT name FROM city WHERE size > 1;
CREATE INDEX by_name ON city (name) WHERE size > 0;
CREATE TABLE log (line);
CREATE TRIGGER noted AFTER INSERT ON city BEGIN INSERT INTO log VALUES ('; ' || new.id); SELECT 1; END;
ANALYZE;
"""
TABLES = ["city", "counted", "plain", "pairs", "made", "child", "words", "older; one", "boxes", "terms", "large", "log"]
QUERIES = {
    "user_version": "SELECT user_version FROM pragma_user_version",
    "counters": "SELECT name, seq FROM sqlite_sequence ORDER BY name",
    "full text": "SELECT rowid FROM words WHERE words MATCH 'sea'",
    "stems": "SELECT docid FROM \"older; one\" WHERE x MATCH 'walk'",
    "external": "SELECT rowid FROM of_city WHERE of_city MATCH 'porto'",
    "option": "SELECT v FROM words_config WHERE k = 'automerge'",
    "boxes": "SELECT id, label FROM boxes WHERE x1 < 0.2",
    "schema": "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite^_%' ESCAPE '^' "
    "AND name NOT LIKE 'libsql%' AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow') "
    "ORDER BY type, name",
}


def contents(run):
    """Return all values with their types and bytes, and what the indexes find; ``run`` returns the rows of a SELECT."""
    everything = {name: [tuple(row) for row in run(query)] for name, query in QUERIES.items()}
    for table in TABLES:
        names = [name for (name,) in run(f"SELECT name FROM pragma_table_info('{table}')")]
        if table in ("city", "child", "words", "older; one"):
            names.append("_rowid_")
        quoted = ['"' + name + '"' for name in names]
        values = [f"typeof({n}), iif(typeof({n}) = 'real', iif({n} = 9e999, 'inf', {n}), hex({n}))" for n in quoted]
        everything[table] = sorted(tuple(row) for row in run(f'SELECT {", ".join(values)} FROM "{table}"'))
    return everything


@pytest.fixture
def messy(tmp_path):
    path = tmp_path / "messy.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(MESSY)
    return path


@pytest.fixture
def text(messy):
    return b"".join(dump(messy, lambda: False)).decode()


@pytest.fixture
def expected(messy):
    with closing(sqlite3.connect(messy)) as db:
        return contents(db.execute)


def of_file(path):
    with closing(sqlite3.connect(path)) as db:
        return contents(db.execute), db.execute("PRAGMA application_id").fetchone()[0]


def of_server(database, text):
    """Send each statement in a request of its own; return what the server has then."""
    with database.open_stream() as stream:
        for statement in statements_of([text]):
            batch = stream.run([Stmt(statement)])
            assert batch.error is None, f"{batch.error}: {statement}"
    return contents(lambda query: database.execute(query).rows)


def test_sqlite_restores_it(text, expected, tmp_path):
    with closing(sqlite3.connect(tmp_path / "made")) as db:
        db.executescript(text)
    assert of_file(tmp_path / "made") == (expected, 0)


def test_sqlite_restores_all_of_it_without_the_marks(text, expected, tmp_path):
    with closing(sqlite3.connect(tmp_path / "made")) as db:
        db.executescript(text.replace("\n--! ", "\n"))
        assert db.execute("SELECT count(*) FROM sqlite_stat1").fetchone() > (0,)
    assert of_file(tmp_path / "made") == (expected, 1196444487)


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3 shell")
def test_the_shell_restores_it_even_in_defensive_mode(text, expected, tmp_path):
    made = tmp_path / "made"
    script = f".bail on\n.dbconfig defensive on\n{text}"
    subprocess.run(["sqlite3", made], input=script, text=True, check=True, capture_output=True)
    assert of_file(made) == (expected, 0)


def test_we_restore_it_with_the_marked_lines(text, expected, tmp_path):
    restore([text], tmp_path / "made", "the text")
    assert of_file(tmp_path / "made") == (expected, 1196444487)
    assert b"".join(dump(tmp_path / "made", lambda: False)).decode() == text


def test_the_service_restores_it(text, expected, courier):
    token = courier.caller("copy").token
    transport = httpx.Client(transport=ServiceTransport(courier.service))
    with Database("http://127.0.0.1", token, http=transport) as database:
        assert of_server(database, text) == expected


def test_sqld_restores_it(text, expected, sqld_database):
    with Database(sqld_database.url, sqld_database.token) as database:
        assert of_server(database, text) == expected
