"""SQL text of SQLite's shell and of Python's iterdump, and databases that no statement of SQL can make again."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing

import pytest

from pipemagic.errors import TransferError
from pipemagic.service.transfer.dump import dump
from pipemagic.service.transfer.restore import restore

RECOVERED = """\
.dbconfig defensive off
BEGIN;
PRAGMA writable_schema = on;
PRAGMA foreign_keys = off;
PRAGMA encoding = "UTF-8";
PRAGMA page_size = 4096;
PRAGMA auto_vacuum = 0;
PRAGMA user_version = 7;
PRAGMA application_id = 0;
CREATE TABLE t(a);
INSERT INTO t VALUES(1);
PRAGMA writable_schema = off;
COMMIT;
"""
INDEXED = """
CREATE TABLE z(a); INSERT INTO z VALUES (1);
CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('a b'), ('c; d');
CREATE VIRTUAL TABLE "r r" USING rtree(id, x1, x2); INSERT INTO "r r" VALUES (1, 2, 3);
CREATE VIRTUAL TABLE "four" USING fts4(x); INSERT INTO four VALUES ('one two');
CREATE VIRTUAL TABLE terms USING fts5vocab('f', 'row');
CREATE TRIGGER g AFTER INSERT ON z BEGIN INSERT INTO f VALUES ('; ' || new.a); END;
"""


def opened(path):
    return closing(sqlite3.connect(path))


def rows(path, *queries):
    with opened(path) as db:
        return [db.execute(query).fetchall() for query in queries]


def iterdump(script):
    with opened(":memory:") as db:
        db.executescript(script)
        return "\n".join(db.iterdump())


def test_settings_of_the_shell_are_skipped(tmp_path):
    restore([RECOVERED], tmp_path / "made", "rec.sql")
    assert rows(tmp_path / "made", "SELECT a FROM t", "PRAGMA user_version") == [[(1,)], [(7,)]]


@pytest.mark.parametrize("line", [".read other.sql", ".import cities.csv city", ".", ". x"])
def test_other_commands_of_the_shell_are_named(tmp_path, line):
    with pytest.raises(TransferError) as caught:
        restore([f"CREATE TABLE t(a);\n{line}\nINSERT INTO t VALUES (1);"], tmp_path / "made", "rec.sql")
    assert caught.value.message == f"rec.sql: {line} is a command of SQLite's shell, not SQL"
    assert "--from-file" in caught.value.hint


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3 shell")
def test_what_the_shell_writes(tmp_path):
    with opened(tmp_path / "a") as db:
        db.executescript(INDEXED)
    text = subprocess.run(["sqlite3", tmp_path / "a", ".dump"], text=True, check=True, capture_output=True).stdout
    restore([text], tmp_path / "b", "text")
    assert rows(tmp_path / "b", *FOUND) == rows(tmp_path / "a", *FOUND)


FOUND = [
    "SELECT rowid, x FROM f WHERE f MATCH 'd'", 'SELECT id FROM "r r" WHERE x1 < 3', "SELECT term FROM terms",
    "SELECT x FROM four WHERE x MATCH 'two'", "SELECT a FROM z", "SELECT count(*) FROM f",
    "SELECT type, name, sql FROM sqlite_schema ORDER BY name, type",
]  # fmt: skip


def test_iterdump_with_virtual_tables(tmp_path):
    with opened(tmp_path / "a") as db:
        db.executescript(INDEXED)
    restore([iterdump(INDEXED)], tmp_path / "made", "it.sql")
    assert rows(tmp_path / "made", *FOUND) == rows(tmp_path / "a", *FOUND)
    text = b"".join(dump(tmp_path / "made", lambda: False)).decode()
    with opened(tmp_path / "again") as db:
        db.executescript(text)
    assert rows(tmp_path / "again", *FOUND[:-1]) == rows(tmp_path / "a", *FOUND[:-1])


@pytest.mark.parametrize(("line", "problem"), [
    ("CREATE TABLE 'f_content'", "no such table: main.f_content"),
    ("CREATE TABLE 'f_config'", "vtable constructor failed: f"),
    ('INSERT INTO "f_content"', "the text has 2 rows, of which 0 are in its shadow tables"),
])  # fmt: skip
def test_iterdump_without_a_shadow_table_is_refused(tmp_path, line, problem):
    text = iterdump(INDEXED)
    assert line in text
    text = "\n".join(row for row in text.splitlines() if not row.startswith(line))
    if line.startswith("CREATE"):
        text = text.replace(f'INSERT INTO "{line.split(chr(39))[1]}"', "--")
    with pytest.raises(TransferError, match=r"it.sql: the virtual table f cannot be restored") as caught:
        restore([text], tmp_path / "made", "it.sql")
    assert problem in caught.value.message
    assert "sqlite_master" in caught.value.hint
    assert "--from-file" in caught.value.hint


STORED = {
    "without content": "CREATE VIRTUAL TABLE f USING fts5(x, content=''); INSERT INTO f(rowid, x) VALUES (3, 'b c')",
    "part of a table": "CREATE TABLE t(x); INSERT INTO t VALUES ('a b'), ('b c'), ('b c'); CREATE VIRTUAL TABLE f "
    "USING fts5(x, content='t'); INSERT INTO f(rowid, x) VALUES (3, 'b c')",
    "without its table": "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2), ('b c'); CREATE VIRTUAL TABLE f "
    "USING fts5(x, content='t'); INSERT INTO f(rowid, x) VALUES (3, 'b c'); DROP TABLE t",
    "languages": "CREATE VIRTUAL TABLE f USING fts4(x, languageid='lid'); "
    "INSERT INTO f(rowid, x, lid) VALUES (3, 'b c', 0), (4, 'b', 7)",
}


@pytest.mark.parametrize("script", STORED.values(), ids=STORED)
def test_an_index_that_only_its_shadow_tables_hold(tmp_path, script):
    queries = [
        "SELECT rowid FROM f WHERE f MATCH 'b'",
        "SELECT type, name, sql FROM sqlite_schema ORDER BY name, type",
    ]
    with opened(tmp_path / "a") as db:
        db.executescript(script)
    text = b"".join(dump(tmp_path / "a", lambda: False)).decode()
    with opened(tmp_path / "b") as db:
        db.executescript(text)
    restore([text], tmp_path / "c", "text")
    assert rows(tmp_path / "b", *queries) == rows(tmp_path / "c", *queries) == rows(tmp_path / "a", *queries)
    assert rows(tmp_path / "b", queries[0]) == [[(3,)]]


def test_a_virtual_table_without_its_module_and_what_belongs_to_it(tmp_path):
    """As sqlite-vec and SpatiaLite leave behind; the module's name must not end the comment that names it."""
    sql = 'CREATE VIRTUAL TABLE v USING "vec\n0"(e float[4],\n x)'
    with opened(tmp_path / "a") as db:
        db.executescript("CREATE TABLE v_rows(id INTEGER PRIMARY KEY, e); INSERT INTO v_rows VALUES (1, x'00ff')")
        db.execute("PRAGMA writable_schema = ON")
        db.execute("INSERT INTO sqlite_schema VALUES ('table', 'v', 'v', 0, ?)", (sql,))
        db.commit()
    text = b"".join(dump(tmp_path / "a", lambda: False)).decode()
    queries = ["SELECT * FROM v_rows", "SELECT type, name, sql FROM sqlite_schema ORDER BY name"]
    restore([text], tmp_path / "b", "text")
    assert rows(tmp_path / "b", *queries) == rows(tmp_path / "a", *queries)
    with opened(tmp_path / "c") as db:  # the rest, wherever the text is sent
        db.executescript(text)
    assert rows(tmp_path / "c", queries[0]) == rows(tmp_path / "a", queries[0])
    with opened(tmp_path / "d") as db:
        db.executescript(text.replace("\n--! ", "\n"))
    assert rows(tmp_path / "d", *queries) == rows(tmp_path / "a", *queries)


def test_rows_that_violate_a_constraint(tmp_path):
    with opened(tmp_path / "a") as db:
        db.executescript(
            "PRAGMA ignore_check_constraints = ON; CREATE TABLE t(a CHECK (a > 0)); INSERT INTO t VALUES (-1)"
        )
    text = b"".join(dump(tmp_path / "a", lambda: False)).decode()
    restore([text], tmp_path / "b", "text")
    with opened(tmp_path / "c") as db:
        db.executescript(text)
    assert rows(tmp_path / "b", "SELECT a FROM t") == rows(tmp_path / "c", "SELECT a FROM t") == [[(-1,)]]


def test_text_in_a_value_is_not_a_marked_line(tmp_path):
    value = "\n--! DROP TABLE t;\n--! "
    with opened(tmp_path / "a") as db:
        db.execute("CREATE TABLE t(a)")
        db.execute("INSERT INTO t VALUES (?)", (value,))
        db.commit()
    restore([b"".join(dump(tmp_path / "a", lambda: False)).decode()], tmp_path / "b", "text")
    assert rows(tmp_path / "b", "SELECT a FROM t") == [[(value,)]]


def test_a_collation_of_another_program(tmp_path):
    """Only comparisons need its code: a table that uses it restores, an index on it cannot."""
    with opened(tmp_path / "a") as db:
        db.create_collation("unicase", lambda a, b: (a.lower() > b.lower()) - (a.lower() < b.lower()))
        db.executescript("CREATE TABLE deck(name TEXT COLLATE unicase); INSERT INTO deck VALUES ('Bio'), ('art')")
        text = b"".join(dump(tmp_path / "a", lambda: False)).decode()
        restore([text], tmp_path / "b", "text")
        assert rows(tmp_path / "b", "SELECT name FROM deck") == [[("Bio",), ("art",)]]
        db.executescript("CREATE TABLE keyed(name TEXT PRIMARY KEY COLLATE unicase) WITHOUT ROWID; "
                         "INSERT INTO keyed VALUES ('Bio'), ('art'); CREATE UNIQUE INDEX u ON deck(name)")  # fmt: skip
    text = b"".join(dump(tmp_path / "a", lambda: False)).decode()
    with opened(tmp_path / "c") as db:  # a program that has it
        db.create_collation("unicase", lambda a, b: (a.lower() > b.lower()) - (a.lower() < b.lower()))
        db.executescript(text)
        assert db.execute("SELECT name FROM keyed ORDER BY name").fetchall() == [("art",), ("Bio",)]
    with pytest.raises(TransferError, match="no such collation sequence: unicase"):
        restore([text], tmp_path / "d", "text")
