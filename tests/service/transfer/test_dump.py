"""SQL text of databases: it restores the same database, as Python's own SQLite reads both."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.errors import TransferError
from pipemagic.service.transfer.dump import dump as dump_in_sandbox
from pipemagic.service.transfer.restore import restore


def dump(path):
    return dump_in_sandbox(path, lambda: False)


EVERYTHING = """
CREATE TABLE plain (a, b TEXT, c REAL, d INTEGER, e NUMERIC, f BLOB);
CREATE TABLE keyed (id INTEGER PRIMARY KEY, v TEXT DEFAULT 'it''s');
CREATE TABLE "od""d n;ame" ("select" TEXT, "two words" INT, rowid TEXT);
CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, v);
CREATE TABLE pairs (a TEXT, b INT, v, PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE TABLE strictly (a INTEGER, b ANY, c TEXT) STRICT;
CREATE TABLE made (a INT, twice INT AS (a * 2) STORED, text AS ('<' || a || '>') VIRTUAL);
CREATE TABLE parent (id INTEGER PRIMARY KEY); CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE descending (id INTEGER PRIMARY KEY DESC, v);
CREATE TABLE log (line TEXT);
CREATE TRIGGER noted AFTER INSERT ON plain BEGIN INSERT INTO log VALUES ('in; ' || new.a); SELECT 1; END;
CREATE VIEW seen AS SELECT a, b FROM plain -- with a comment at its end
;
CREATE TRIGGER through INSTEAD OF INSERT ON seen BEGIN INSERT INTO plain (a, b) VALUES (new.a, new.b); END;
CREATE UNIQUE INDEX part ON plain (b) WHERE b > 'x';
CREATE INDEX expr ON keyed (upper(v));
CREATE VIRTUAL TABLE words USING fts5(title, body);
CREATE VIRTUAL TABLE boxes USING rtree(id, x1, x2);
CREATE VIEW broken AS SELECT * FROM gone;
CREATE VIRTUAL TABLE pragma_table_xinfo USING fts5(name, hidden);
CREATE TABLE pragma_table_list (a); CREATE TABLE pragma_index_list (a, "K" TEXT, "ROWID");
"""

ROWS = [
    ("INSERT INTO plain VALUES (?,?,?,?,?,?)", [
        (None, "text", 1.5, 2**63 - 1, "12", b"\0\xff"),
        (-(2**63), "a\0b", float("inf"), float("-inf"), 1e300, b""),
        (0.1, "line\nbreak\r\n'; DROP TABLE plain; --", 5e-324, -0.0, 2**53 + 1, "text in a blob"),
        ("\U0001f600", "", 1.7976931348623157e308, "not a number", 9.3e18, 9007199254740993),
    ]),
    ("INSERT INTO plain (a) VALUES (CAST(? AS TEXT))", [(b"\xff\xfe",), (b"half \xed\xa0\x80",)]),
    ("INSERT INTO keyed VALUES (?,?)", [(-5, None), (7, "x"), (2**62, "y")]),
    ('INSERT INTO "od""d n;ame" VALUES (?,?,?)', [("a", 1, "not the rowid"), ("b", 2, None)]),
    ("INSERT INTO counted (v) VALUES (?)", [(1,), (2,), (3,)]),
    ("INSERT INTO pairs VALUES (?,?,?)", [("b", 1, None), ("a", 2, b"x")]),
    ("INSERT INTO strictly VALUES (?,?,?)", [(1, 2.0, "x"), (None, b"y", None)]),
    ("INSERT INTO made (a) VALUES (?)", [(3,), (None,)]),
    ("INSERT INTO child VALUES (?)", [(99,)]),  # no such parent: foreign keys were off
    ("INSERT INTO descending VALUES (?,?)", [(3, "c"), (1, "a")]),
    ("INSERT INTO words VALUES (?,?)", [("Lagos", "a city by the sea"), ("Lom", "a town")]),
    ("INSERT INTO boxes VALUES (?,?,?)", [(1, 0.0, 1.5), (2, -3.0, 4.0)]),
]  # fmt: skip


@pytest.fixture
def original(tmp_path):
    path = tmp_path / "original.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(EVERYTHING)
        for sql, rows in ROWS:
            db.executemany(sql, rows)
        db.execute("DELETE FROM counted WHERE id = 3")
        db.execute("DELETE FROM plain WHERE rowid = 2")  # rowids with a gap
        db.execute("ANALYZE")
        db.execute("PRAGMA user_version = 42")
        db.execute("PRAGMA application_id = -7")
        db.commit()
    return path


def contents(path):
    """Everything that SQL can see of a database, values with their exact types."""
    with closing(sqlite3.connect(path)) as db:
        db.text_factory = bytes
        schema = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
        found = {"schema": schema}
        for kind, name, _, sql in schema:
            if kind == b"table" and not name.startswith(b"sqlite_stat4"):
                quoted = '"' + name.decode().replace('"', '""') + '"'
                has_rowid = b"WITHOUT ROWID" not in sql.upper() and b"VIRTUAL" not in sql
                columns = "_rowid_, *" if has_rowid else "*"
                rows = db.execute(f"SELECT {columns} FROM {quoted}").fetchall()
                found[quoted] = sorted(repr(row) for row in rows)
        for pragma in ("user_version", "application_id", "integrity_check"):
            found[pragma] = db.execute(f"PRAGMA {pragma}").fetchall()
        return found


def without_statistics(found):
    """A SQLite without STAT4 neither writes nor keeps that table."""
    found["schema"] = [row for row in found["schema"] if not row[1].startswith(b"sqlite_stat4")]
    return found


def test_the_text_restores_the_same_database(original, tmp_path):
    text = b"".join(dump(original))
    expected = without_statistics(contents(original))

    by_python = tmp_path / "python.sqlite"
    with closing(sqlite3.connect(by_python)) as db:
        db.executescript(text.decode().replace("\n--! ", "\n"))
    assert without_statistics(contents(by_python)) == expected

    by_us = tmp_path / "ours.sqlite"
    restore(iter([text.decode()]), by_us, "the text")
    assert without_statistics(contents(by_us)) == expected
    with closing(sqlite3.connect(by_us)) as db:
        assert db.execute("SELECT title FROM words WHERE words MATCH 'sea'").fetchall() == [("Lagos",)]
        assert db.execute("SELECT id FROM boxes WHERE x1 < -1").fetchall() == [(2,)]
        assert db.execute("SELECT count(*) FROM log").fetchone() == (6,)  # no trigger ran again
        db.execute("INSERT INTO counted (v) VALUES (4)")
        assert db.execute("SELECT max(id) FROM counted").fetchone() == (4,)
    assert b"".join(dump(by_us)) == text  # and once more is the same


VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(), st.binary(),
    st.floats(allow_nan=False).map(lambda x: x * 2.0**-40),
)  # fmt: skip
AFFINITIES = ["", "TEXT", "REAL", "INTEGER", "NUMERIC", "BLOB"]


@given(rows=st.lists(st.tuples(*[VALUES] * len(AFFINITIES)), max_size=8))
def test_any_value_is_restored(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("values")
    columns = ", ".join(f"c{number} {affinity}" for number, affinity in enumerate(AFFINITIES))
    encodable = [row for row in rows if all(not isinstance(value, str) or _is_unicode(value) for value in row)]
    with closing(sqlite3.connect(folder / "a")) as db:
        db.execute(f"CREATE TABLE t ({columns})")
        db.executemany("INSERT INTO t VALUES (?,?,?,?,?,?)", encodable)
        db.commit()
    text = b"".join(dump(folder / "a")).decode()
    if sqlite3.sqlite_version_info >= (3, 43):  # older ones do not parse every float exactly
        with closing(sqlite3.connect(folder / "b")) as db:
            db.executescript(text)
        assert contents(folder / "b") == contents(folder / "a")
    restore([text[i : i + 7] for i in range(0, len(text), 7)], folder / "c", "the text")
    assert contents(folder / "c") == contents(folder / "a")


def _is_unicode(text):
    return text.encode("utf-8", "replace").decode() == text


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_other_encodings(encoding, tmp_path):
    with closing(sqlite3.connect(tmp_path / "a")) as db:
        db.executescript(f"PRAGMA encoding='{encoding}'; CREATE TABLE t (a); INSERT INTO t VALUES ('häß\U0001f600');")
        db.execute("INSERT INTO t VALUES (?)", ("a\0b",))
        db.executescript("CREATE TABLE n (a TEXT COLLATE NOCASE PRIMARY KEY, b COLLATE rtrim) WITHOUT ROWID")
        db.executescript("CREATE INDEX i ON n (b COLLATE nocase); INSERT INTO n VALUES ('B', 1), ('a', 2), ('C', 3)")
        db.commit()
    restore([b"".join(dump(tmp_path / "a")).decode()], tmp_path / "b", "the text")
    with closing(sqlite3.connect(tmp_path / "b")) as db:
        assert db.execute("SELECT a FROM n WHERE a >= 'A'").fetchall() == [("a",), ("B",), ("C",)]
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA encoding").fetchone() == (encoding,)
        assert db.execute("SELECT a FROM t").fetchall() == [("häß\U0001f600",), ("a\0b",)]


def test_a_comment_that_never_ends(tmp_path):
    with closing(sqlite3.connect(tmp_path / "a")) as db:
        db.execute("CREATE VIEW v AS SELECT 1 AS one /* not closed")
        db.execute("CREATE VIEW w AS SELECT 2 AS two")
    restore([b"".join(dump(tmp_path / "a")).decode()], tmp_path / "b", "the text")
    with closing(sqlite3.connect(tmp_path / "b")) as db:
        assert db.execute("SELECT * FROM v, w").fetchall() == [(1, 2)]


@pytest.mark.parametrize("sql", [
    "ATTACH '{other}' AS other", "CREATE TABLE t (a); VACUUM INTO '{other}'",
    "SELECT load_extension('{other}')", "PRAGMA temp_store_directory = '{other}'",
])  # fmt: skip
def test_text_reaches_no_other_file(sql, tmp_path):
    other = tmp_path / "other"
    with pytest.raises(TransferError):
        restore([sql.format(other=other)], tmp_path / "made", "the text")
    assert not other.exists()


def test_an_error_of_the_text_is_raised(tmp_path):
    with pytest.raises(TransferError, match=r"the text: statement 2: .*no such table: nope"):
        restore(["CREATE TABLE t (a); INSERT INTO no", "pe VALUES (1);"], tmp_path / "made", "the text")


def test_an_error_names_the_trigger_that_needs_a_missing_function(tmp_path):
    trigger = "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT ST_IsEmpty(new.a); END;"
    with pytest.raises(TransferError, match=r"statement 3: no such function: ST_IsEmpty, in trigger g on t"):
        restore([f"CREATE TABLE t (a); {trigger} INSERT INTO t VALUES (1);"], tmp_path / "made", "the text")


def test_an_unfinished_transaction_is_not_in_the_file(tmp_path):
    restore(["CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (1)"], tmp_path / "made", "the text")
    with closing(sqlite3.connect(tmp_path / "made")) as db:
        assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_dump_ends_when_it_is_cancelled(original):
    with closing(sqlite3.connect(original)) as db:
        db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
                   "INSERT INTO log SELECT hex(randomblob(50)) FROM n")  # fmt: skip
        db.commit()

    class Cancelled(Exception):
        pass

    def must_end():
        raise Cancelled

    with pytest.raises(Cancelled):
        list(dump_in_sandbox(original, must_end))


@pytest.mark.parametrize(
    "sql", ["'CREATE TABLE t(a)' || char(0) || ';' || char(10) || '.shell x'", "CAST('CREATE TABLE t(a)' AS BLOB)"]
)
def test_only_what_sqlite_reads_of_a_definition_is_in_the_text(tmp_path, sql):
    """As in a file that an earlier release accepted as an upload: the rest would run where the dump is restored."""
    with closing(sqlite3.connect(tmp_path / "a")) as db:
        db.executescript(f"CREATE TABLE t(a); PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = {sql}")
        db.commit()
    text = b"".join(dump(tmp_path / "a")).decode()
    assert "CREATE TABLE t(a);\n" in text
    assert ".shell" not in text
    assert "\0" not in text
