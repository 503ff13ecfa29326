"""The limit of values holds for arguments and for what SQL builds; what a file already holds can be used."""

from __future__ import annotations

import sqlite3
from base64 import b64encode
from contextlib import closing
from json import dumps

import apsw
import pytest
from service_calls import CLOSE, Caller, caller_of, execute, new_service

from pipemagic.service.limits import MB, Limits
from pipemagic.service.sqlite import sandbox, value_limit
from pipemagic.service.sqlite.value_limit import LARGEST, may_build
from pipemagic.service.transfer.dump import dump
from pipemagic.service.transfer.restore import restore

LIMIT = MB
TEXT, BLOB = "ä" * LIMIT, bytes(3 * LIMIT)
"""Twice and three times as large as the limit."""


def make_file(path):
    """Write a database with large values, as a program without the limit does."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
            CREATE TABLE t(id INTEGER PRIMARY KEY, a, note, spare); CREATE VIEW v AS SELECT * FROM t;
            CREATE TABLE people(first, last); INSERT INTO people VALUES ('Ada', 'Lovelace');
            CREATE VIEW names AS SELECT first || ' ' || last AS name FROM people;
            CREATE TABLE doubled(a, twice AS (hex(a)));
            CREATE TABLE log(a); CREATE TABLE source(a);
            CREATE TRIGGER copies AFTER INSERT ON source BEGIN INSERT INTO log SELECT hex(a) FROM t; END;
        """)
        db.executemany("INSERT INTO t VALUES (?, ?, 'x', 1)", [(1, TEXT), (2, BLOB)])
        db.execute("INSERT INTO doubled VALUES (?)", (BLOB,))
        db.commit()
    return path


@pytest.fixture
def service(tmp_path):
    """With the database ``large``, whose file has larger values than the limit, and an empty one."""
    with new_service(tmp_path, limits=Limits(value=LIMIT)) as service:
        record = service.catalog.create_database("local", "large", "default")
        service.engine.databases.place(record.id, make_file(tmp_path / "file"))
        yield service


@pytest.fixture
def db(service):
    return caller_of(service, "large")


def large_rows(db: Caller, table: str = "t") -> list:
    """Return what a table has: the sizes of its texts and blobs."""
    answer = db.run(f"SELECT octet_length(a), typeof(a), note FROM {table} ORDER BY a")
    assert answer.codes == ["ok", "ok"], answer.body
    return answer.rows()


BOTH = [[str(2 * LIMIT), "text", "x"], [str(3 * LIMIT), "blob", "x"]]


def test_larger_values_of_a_file_are_read(db):
    assert db.run("SELECT a FROM t ORDER BY id").rows() == [[TEXT], [b64encode(BLOB).decode().rstrip("=")]]
    assert db.read("SELECT a FROM t WHERE id = 1").rows() == [[TEXT]]
    assert large_rows(db) == large_rows(db, "v") == BOTH


@pytest.mark.parametrize(("sql", "expected"), [
    ("SELECT length(a), octet_length(a) FROM t WHERE id = 1", [[str(LIMIT), str(2 * LIMIT)]]),
    ("SELECT substr(a, 10, 2), typeof(a) FROM v WHERE id = 1", [["ää", "text"]]),
    ("SELECT id FROM t WHERE a LIKE '%ää%'", [["1"]]),
    ("SELECT id FROM t WHERE instr(a, x'0000') = 1", [["2"]]),
    ("SELECT id FROM t ORDER BY a DESC", [["2"], ["1"]]),
    ("SELECT count(DISTINCT a), max(id) FROM t", [["2", "2"]]),
    ("WITH m AS MATERIALIZED (SELECT a FROM t) SELECT count(*) FROM m", [["2"]]),
    ("SELECT id FROM t WHERE a = (SELECT a FROM t WHERE id = 2)", [["2"]]),
    ("SELECT octet_length(coalesce(a, 1)) FROM t UNION ALL SELECT octet_length(iif(1, a, 2)) FROM t ORDER BY 1",
     [[str(2 * LIMIT)]] * 2 + [[str(3 * LIMIT)]] * 2),
])  # fmt: skip
def test_expressions_over_larger_values(db, sql, expected):
    answer = db.run(sql)
    assert answer.codes == ["ok", "ok"], answer.body
    assert answer.rows() == expected


@pytest.mark.parametrize(("statements", "expected"), [
    (["UPDATE t SET note = 'y'"], [[*row[:2], "y"] for row in BOTH]),
    (["DELETE FROM t WHERE id = 1"], BOTH[1:]),
    (["INSERT INTO t(a, note) SELECT a, note FROM t WHERE id = 1"], [BOTH[0], *BOTH]),
    (["CREATE TABLE c AS SELECT * FROM t", "DELETE FROM t", "INSERT INTO t SELECT * FROM c"], BOTH),
    (["VACUUM"], BOTH),
    (["ALTER TABLE t DROP COLUMN spare"], BOTH),
    (["CREATE INDEX i ON t(a)", "REINDEX", "ANALYZE", "PRAGMA integrity_check"], BOTH),
    (["BEGIN", "UPDATE t SET note = 'y'", "UPDATE t SET note = 'x'", "COMMIT"], BOTH),
])  # fmt: skip
def test_larger_values_are_written_again(db, statements, expected):
    answer = db.run(*statements)
    assert answer.codes == ["ok"] * (len(statements) + 1), answer.body
    assert large_rows(db) == expected


BUILT = [
    f"SELECT zeroblob({LIMIT + 1})",
    "SELECT length(hex(a)) FROM t",
    "SELECT length(a || a) FROM t",
    f"SELECT length(printf('%*c', {LIMIT + 1}, 'x'))",
    "SELECT length(group_concat(a)) FROM t",
    "SELECT length(replace(a, 'ä', 'bbb')) FROM t",
    "SELECT length(twice) FROM doubled",  # a generated column
    "INSERT INTO source VALUES (1)",  # a trigger
    "UPDATE t SET a = quote(a)",
]


@pytest.mark.parametrize("sql", BUILT)
def test_what_sql_builds_is_limited_in_a_file_with_larger_values_too(db, sql):
    answer = db.run(sql, "SELECT 1")
    assert answer.codes == ["SQLITE_TOOBIG", "ok", "ok"]
    assert f"at most {LIMIT:,} bytes" in answer.error()["message"]
    assert "--max-value" in answer.error()["message"]
    assert large_rows(db) == BOTH


def test_statements_that_build_small_values_work_beside_larger_ones(db):
    assert db.run("SELECT name FROM names").rows() == [["Ada Lovelace"]]
    assert db.run("SELECT id || '.' FROM t ORDER BY id").rows() == [["1."], ["2."]]


@pytest.mark.parametrize("name", ["large", "small"])
def test_an_argument_beyond_the_limit_is_refused(service, name):
    """The statement is prepared and cached by the first run."""
    db = caller_of(service, name)
    sql = "SELECT octet_length(?)"
    fits, too_large = ({"type": "text", "value": "ä" * (LIMIT // 2) + extra} for extra in ("", "x"))
    blob = {"type": "blob", "base64": b64encode(bytes(LIMIT + 1)).decode()}
    answer = db.post(execute(sql, fits), execute(sql, too_large), execute(sql, blob), execute(sql, fits), CLOSE)
    assert answer.codes == ["ok", "SQLITE_TOOBIG", "SQLITE_TOOBIG", "ok", "ok"]
    assert answer.rows() == answer.rows(3) == [[str(LIMIT)]]
    assert f"at most {LIMIT:,} bytes" in answer.error(1)["message"]


def test_a_value_of_exactly_the_limit(service):
    db = caller_of(service, "small")
    db.run("CREATE TABLE t(a)")
    answer = db.run(f"SELECT length(zeroblob({LIMIT}))", f"INSERT INTO t VALUES (zeroblob({LIMIT - 100}))")
    assert answer.codes == ["ok"] * 3


def test_a_view_that_is_changed_is_judged_again(db):
    """A statement is judged by the program that SQLite makes of it, not only by its text."""
    reads, builds = "CREATE VIEW w AS SELECT a FROM t WHERE id = 1", "CREATE VIEW w AS SELECT a || '' AS a FROM t"
    query = "SELECT length(a) FROM w"
    answer = db.run(reads, query, "DROP VIEW w", builds, query, "DROP VIEW w", reads, query)
    assert answer.codes == ["ok", "ok", "ok", "ok", "SQLITE_TOOBIG", "ok", "ok", "ok", "ok"]


def test_larger_values_that_are_only_in_the_wal(tmp_path):
    """Another program has the file open, so that nothing moves its pages out of the WAL."""
    with new_service(tmp_path, limits=Limits(value=LIMIT)) as service:
        record = service.catalog.create_database("local", "large", "default")
        file = tmp_path / "file"
        with closing(sqlite3.connect(file)) as empty:
            empty.execute("PRAGMA journal_mode = WAL")
        service.engine.databases.place(record.id, file)
        path = tmp_path / "data" / "databases" / record.id
        (moved,) = [found for found in path.iterdir() if found.suffix == ".sqlite"]
        with closing(sqlite3.connect(moved)) as other:
            other.execute("PRAGMA wal_autocheckpoint = 0")
            other.execute("CREATE TABLE t(id, a)")
            other.execute("INSERT INTO t VALUES (1, ?)", (TEXT,))
            other.commit()
            assert moved.stat().st_size < LIMIT
            assert caller_of(service, "large").run("SELECT a FROM t").rows() == [[TEXT]]


def test_a_dump_has_larger_values_and_restores(db, service, tmp_path):
    path = service.engine.databases.in_use()[0].path if large_rows(db) else None
    with closing(sqlite3.connect(path)) as original:
        original.execute("INSERT INTO t(a) VALUES (?)", ("it's\0" + TEXT,))
        original.commit()
        expected = original.execute("SELECT id, a, note FROM t").fetchall()
    chunks = list(dump(path, lambda: False))
    assert max(map(len, chunks)) < LIMIT
    restore([b"".join(chunks).decode()], tmp_path / "restored", "dump")
    with closing(sqlite3.connect(tmp_path / "restored")) as restored:
        assert restored.execute("SELECT id, a, note FROM t").fetchall() == expected


@pytest.mark.parametrize(("sql", "expected"), [
    ("SELECT count(*), max(a), substr(a, 1) FROM t WHERE a LIKE ?", False),
    ("SELECT a FROM t UNION SELECT a FROM t ORDER BY 1", False),
    ("SELECT row_number() OVER (ORDER BY a), lag(a) OVER () FROM t", False),
    ("SELECT value FROM t, json_each(t.a)", False),
    ("INSERT INTO t(a) VALUES (?) RETURNING a", False),
    ("SELECT concat(a, a) FROM t", True),
    ("SELECT json_group_array(a) FROM t", True),
    ("SELECT snippet(f, 0, '<', '>', '', 5) FROM f WHERE f MATCH 'a'", True),
    ("SELECT new_function_of_sqlite(a) FROM t", True),  # an error, which SQLite reports
    ("SELECT name FROM names", True),
    ("INSERT INTO source VALUES (1)", True),
    ("VACUUM", False),
])  # fmt: skip
def test_what_may_build(tmp_path, sql, expected):
    with closing(apsw.Connection(str(make_file(tmp_path / "file")))) as connection:
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, LARGEST)
        connection.execute("CREATE VIRTUAL TABLE f USING fts5(a)")
        assert may_build(connection, sql.split()[0], sql, sql.count("?")) is expected


def test_several_paths_build_a_larger_value(db):
    document = dumps([0] * (LIMIT // 4))
    several = execute("SELECT json_extract(?, '$', '$', '$')", {"type": "text", "value": document})
    assert db.post(several, CLOSE).codes[0] == "SQLITE_TOOBIG"


def test_blobs_in_the_text_of_a_statement(db):
    assert db.run("SELECT octet_length(a) FROM t WHERE a > x'c3ff' OR id = 2").rows() == [[str(3 * LIMIT)]]
    assert db.run("SELECT hex(a), x'c3ff' FROM t").codes[0] == "SQLITE_TOOBIG"


def test_a_text_that_is_explained_need_not_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "LONGEST_STATEMENT", 1000)
    with new_service(tmp_path, limits=Limits(value=LIMIT)) as service:
        record = service.catalog.create_database("local", "large", "default")
        service.engine.databases.place(record.id, make_file(tmp_path / "file"))
        text = f"SELECT count(*) FROM t WHERE '{'x' * 1000}"[:999] + "'"
        assert caller_of(service, "large").run(text).codes[0] == "ok"


VIEW = "SELECT octet_length(x) FROM changing"


def change_view(body: str) -> list[dict]:
    return [execute("DROP VIEW IF EXISTS changing"), execute(f"CREATE VIEW changing AS SELECT {body} AS x FROM t")]


READS, BUILDS = "a", "hex(a)"


@pytest.mark.parametrize("before", [READS, BUILDS])
def test_what_was_decided_for_a_text_follows_the_schema(db, before):
    after, expected = (BUILDS, "SQLITE_TOOBIG") if before == READS else (READS, "ok")
    other = db.post(*change_view(before), execute(VIEW))
    first = other.codes[-1]
    assert first == ("ok" if before == READS else "SQLITE_TOOBIG")
    changing = db.post(execute("BEGIN"), *change_view(after), execute(VIEW))
    assert changing.codes[-1] == expected
    other = db.post(execute(VIEW), baton=other.baton)
    assert other.codes == [first], "the change is not visible yet"
    db.post(execute("COMMIT"), CLOSE, baton=changing.baton)
    other = db.post(execute(VIEW), baton=other.baton)
    assert other.codes == [expected]
    undone = db.post(execute("BEGIN"), *change_view(before), execute(VIEW), execute("ROLLBACK"), execute(VIEW), CLOSE)
    assert undone.codes[-4:] == [first, "ok", expected, "ok"]
    assert db.post(execute(VIEW), CLOSE, baton=other.baton).codes[0] == expected


def test_a_text_is_explained_once(db, monkeypatch):
    texts = []

    def count(connection, keyword, text, parameters):
        texts.append(text)
        return may_build(connection, keyword, text, parameters)

    monkeypatch.setattr(value_limit, "may_build", count)
    query = execute("SELECT id FROM t WHERE id = ?", {"type": "integer", "value": "1"})
    assert db.post(*[query] * 20, CLOSE).codes == ["ok"] * 21
    assert texts == ["SELECT id FROM t WHERE id = ?"]


def test_changes_are_those_of_the_statement_before(db):
    answer = db.post(
        execute("INSERT INTO people VALUES ('Grace', 'Hopper'), ('Alan', 'Turing')"),
        execute("UPDATE people SET last = changes() WHERE first = 'Ada' RETURNING last"),
        execute("SELECT changes()"),
        execute("INSERT INTO people SELECT 1, 2 WHERE 0"),
        execute("SELECT changes()"),
        execute("UPDATE people SET first = 1"),
        execute("UPDATE nothing SET first = 1"),
        execute("SELECT changes()"),
        execute("SELECT changes()"),
        CLOSE,
    )
    assert [answer.rows(number) for number in (1, 2, 4, 7, 8)] == [[["2"]], [["1"]], [["0"]], [["3"]], [["3"]]]
