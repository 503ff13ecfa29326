"""Additions of libSQL to SQLite's SQL, and the PRAGMAs that tools read."""

import math
import operator
import random
import re
import sqlite3
import struct
from contextlib import closing

import pytest
from contract_wire import CLOSE, batch, execute


def test_the_list_of_databases_has_one_row_without_a_path(db):
    answer = db.run("PRAGMA database_list")
    assert answer.rows() == [[0, "main", ""]]
    assert [col["name"] for col in answer.response(0)["result"]["cols"]] == ["seq", "name", "file"]
    assert db.rows("SELECT * FROM pragma_database_list") == [[0, "main", ""]]
    assert db.rows("pragma/* of what */main . database_list ; -- all of them") == [[0, "main", ""]]
    assert db.rows("SELECT t.schema FROM pragma_table_list AS t JOIN pragma_database_list AS d ON d.name = t.schema "
                   "WHERE t.name = 'sqlite_schema'") == [["main"]]  # fmt: skip


def test_the_list_of_databases_has_the_temporary_schema_of_a_stream(db):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TEMP TABLE t(a)")
        expected = [list(row) for row in connection.execute("PRAGMA database_list")]
    stream = db.stream()
    stream.run("SELECT * FROM temp.sqlite_schema", "CREATE TEMP TABLE t(a)")
    assert stream.run("PRAGMA database_list").rows() == expected == [[0, "main", ""], [1, "temp", ""]]
    assert db.rows("PRAGMA database_list") == [[0, "main", ""]]
    stream.run("SELECT 1")


PRAGMAS = ["mmap_size", "threads", "analysis_limit", "stats", "wal_autocheckpoint", "locking_mode", "encoding"]


@pytest.mark.parametrize("name", PRAGMAS)
def test_tools_may_read_a_pragma(empty, name):
    assert empty.post(execute(f"PRAGMA {name}"), CLOSE).codes == ["ok", "ok"]


def test_a_batch_begins_a_read_only_transaction(empty):
    """As npm's @libsql/client does to read."""
    answer = empty.post(batch("BEGIN TRANSACTION READONLY"), execute("SELECT 1"), CLOSE)
    assert answer.steps() == ["ok"]
    assert answer.rows(1) == [[1]]


@pytest.mark.parametrize("begin", ["BEGIN READONLY", "begin /* no writes */ readonly transaction;"])
def test_a_read_only_transaction(db, begin):
    db.run("CREATE TABLE t(a)")
    answer = db.post(
        execute(begin), execute("SELECT count(*) FROM t"), execute("INSERT INTO t VALUES (1)"),
        execute("SELECT count(*) FROM t"), execute("COMMIT"), execute("INSERT INTO t VALUES (2)"),
        execute("SELECT a FROM t"), CLOSE,
    )  # fmt: skip
    assert answer.codes == ["ok", "ok", "SQLITE_READONLY", "ok", "ok", "ok", "ok", "ok"]
    assert (answer.rows(1), answer.rows(3), answer.rows(6)) == ([[0]], [[0]], [[2]])


def test_begin_readonly_opens_no_transaction_in_a_transaction(db, fact):
    answer = db.post(execute("BEGIN"), execute("BEGIN READONLY"), CLOSE)
    assert answer.codes == ["ok", fact("the code of errors that SQLite calls generic"), "ok"]


CONSTRAINTS = [
    "ALTER TABLE t ALTER COLUMN a SET NOT NULL",
    "ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0)",
]


@pytest.mark.parametrize("sql", CONSTRAINTS)
def test_a_changed_constraint_returns_no_columns(db, sql):
    db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
    answer = db.post(
        {"type": "describe", "sql": sql}, execute(sql), execute("INSERT INTO t VALUES (NULL), (-1)"), CLOSE
    )
    assert answer.codes == ["ok", "ok", "SQLITE_CONSTRAINT", "ok"]
    assert answer.response(0)["result"]["cols"] == []
    assert answer.response(1)["result"]["cols"] == []


ALTERED = [
    ("b TEXT DEFAULT 'new'", "ALTER TABLE t ALTER COLUMN b TO b TEXT DEFAULT 'new'"),
    ('"b" integer NOT NULL', 'alter table `t` alter column "b" to "b" integer NOT NULL'),
    ("b", "ALTER TABLE main.t ALTER COLUMN b TO b"),
    ("b CHECK (b IN ('x', 'y'))", "ALTER TABLE t /* why */ ALTER COLUMN b TO b CHECK (b IN ('x', 'y'))"),
    ("b INT REFERENCES t(a)", "ALTER TABLE t ALTER COLUMN b TO b INT REFERENCES t(a)"),
]


def alter(db, sql):
    answer = db.post({"type": "describe", "sql": sql}, execute(sql), CLOSE)
    assert answer.codes == ["ok", "ok", "ok"], answer.body
    assert (answer.response(0)["result"]["cols"], answer.response(1)["result"]["cols"]) == ([], [])


@pytest.mark.parametrize(("definition", "sql"), ALTERED)
def test_the_definition_of_a_column_is_changed(db, definition, sql):
    db.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b NUMERIC CHECK (b > 0), c)", "INSERT INTO t(b) VALUES (1)")
    alter(db, sql)
    assert db.rows("SELECT sql FROM sqlite_schema") == [[f"CREATE TABLE t(a INTEGER PRIMARY KEY, {definition}, c)"]]
    assert db.rows("SELECT * FROM t") == [[1, 1, None]]


def test_the_rest_of_the_definition_is_unchanged(db):
    text = (
        'CREATE TABLE t("a, b" TEXT, -- not b\n b %s -- b\n, [c d] ANY DEFAULT (max(1, 2)), UNIQUE (b, [c d])) STRICT'
    )
    db.run(text % "INT CHECK (b IN (1, 2))", "CREATE INDEX i ON t(b)", "INSERT INTO t(b) VALUES (1), (2)")
    alter(db, "ALTER TABLE t ALTER COLUMN B TO b REAL NOT NULL ; -- exact")
    assert db.rows("SELECT sql FROM sqlite_schema WHERE name = 't'") == [[(text % "REAL NOT NULL")]]
    assert db.rows("SELECT b FROM t INDEXED BY i WHERE b > 1") == [[2]]


def test_a_new_definition_applies_to_later_rows(db):
    db.run("CREATE TABLE t(a, b)", "INSERT INTO t VALUES (1, '5'), (2, NULL)")
    db.run("ALTER TABLE t ALTER COLUMN b TO b INTEGER NOT NULL DEFAULT 7")
    answer = db.post(
        execute("INSERT INTO t(a) VALUES (3)"), execute("INSERT INTO t VALUES (4, '8')"),
        execute("INSERT INTO t VALUES (5, NULL)"), execute("SELECT a, b, typeof(b) FROM t"), CLOSE,
    )  # fmt: skip
    assert answer.codes == ["ok", "ok", "SQLITE_CONSTRAINT", "ok", "ok"]
    assert answer.rows(3) == [[1, "5", "text"], [2, None, "null"], [3, 7, "integer"], [4, 8, "integer"]]


def test_an_index_uses_a_new_collation(db):
    db.run("CREATE TABLE t(a, b)", "INSERT INTO t VALUES (1, 'B'), (2, 'a'), (3, 'C')", "CREATE INDEX i ON t(b)")
    db.run("ALTER TABLE t ALTER COLUMN b TO b COLLATE NOCASE")
    assert db.rows("SELECT b FROM t INDEXED BY i ORDER BY b") == [["a"], ["B"], ["C"]]
    assert db.rows("SELECT a FROM t INDEXED BY i WHERE b = 'c'") == [[3]]
    assert db.rows("PRAGMA integrity_check") == [["ok"]]


def test_a_new_collation_that_breaks_a_unique_index_changes_nothing(db):
    db.run("CREATE TABLE t(b)", "INSERT INTO t VALUES ('a'), ('A')", "CREATE UNIQUE INDEX i ON t(b)")
    answer = db.post(execute("ALTER TABLE t ALTER COLUMN b TO b COLLATE NOCASE"), CLOSE)
    assert answer.codes == ["SQLITE_CONSTRAINT", "ok"]
    assert db.rows("SELECT sql FROM sqlite_schema WHERE name = 't'") == [["CREATE TABLE t(b)"]]
    db.run("INSERT INTO t VALUES ('b')")
    assert db.rows("SELECT count(*) FROM t") == [[3]]


REFUSED = [
    ("ALTER TABLE t ALTER COLUMN b TO c TEXT", "RENAME"),
    ("ALTER TABLE t ALTER COLUMN a TO a TEXT", "PRIMARY KEY"),
    ("ALTER TABLE t ALTER COLUMN a TO a INT PRIMARY KEY", "PRIMARY KEY"),
    ("ALTER TABLE t ALTER COLUMN b TO b PRIMARY KEY", "(?i)primary key"),
    ("ALTER TABLE t ALTER COLUMN u TO u TEXT", "UNIQUE"),
    ("ALTER TABLE t ALTER COLUMN b TO b UNIQUE", "UNIQUE"),
    ("ALTER TABLE t ALTER COLUMN b TO b AS (a)", "(?i)generated"),
    ("ALTER TABLE t ALTER COLUMN g TO g TEXT", "(?i)generated"),
    ("ALTER TABLE t ALTER COLUMN x TO x TEXT", 'no such column: "x"'),
    ("ALTER TABLE missing ALTER COLUMN x TO x TEXT", "no such table: missing"),
    ("ALTER TABLE v ALTER COLUMN a TO a TEXT", 'columns of view "v"'),
    ("ALTER TABLE sqlite_schema ALTER COLUMN sql TO sql TEXT", "may not be altered"),
    ("ALTER TABLE t ALTER COLUMN b TO b TEXT, e TEXT", "syntax error"),
    ("ALTER TABLE t ALTER COLUMN b TO b TEXT) STRICT", "syntax error"),
    ("ALTER TABLE t ALTER b TO b TEXT", "syntax error"),
]


@pytest.mark.parametrize(("sql", "message"), REFUSED)
def test_columns_that_cannot_be_altered(db, sql, message):
    db.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b, u UNIQUE, g AS (a + 1))", "CREATE VIEW v AS SELECT * FROM t")
    answer = db.post(execute(sql), execute("SELECT sql FROM sqlite_schema WHERE name = 't'"), CLOSE)
    assert answer.codes[1:] == ["ok", "ok"]
    assert re.search(message, answer.body["results"][0]["error"]["message"])
    assert answer.rows(1) == [["CREATE TABLE t(a INTEGER PRIMARY KEY, b, u UNIQUE, g AS (a + 1))"]]


def test_the_key_of_a_table_without_rowid_keeps_its_collation(db):
    db.run("CREATE TABLE t(a TEXT PRIMARY KEY, b) WITHOUT ROWID", "INSERT INTO t VALUES ('B', 1), ('a', 2)")
    answer = db.post(execute("ALTER TABLE t ALTER COLUMN a TO a TEXT PRIMARY KEY COLLATE NOCASE"), CLOSE)
    assert "PRIMARY KEY cannot be altered" in answer.error()["message"]
    db.run("ALTER TABLE t ALTER COLUMN a TO a TEXT NOT NULL PRIMARY KEY")
    assert db.rows("SELECT a FROM t ORDER BY a") == [["B"], ["a"]]
    assert db.rows("PRAGMA integrity_check") == [["ok"]]


def test_a_generated_column_that_is_stored_keeps_its_expression(db):
    db.run("CREATE TABLE t(a, v AS (a + 1), s AS (a + 1) STORED)", "INSERT INTO t VALUES (1)")
    alter(db, "ALTER TABLE t ALTER COLUMN v TO v AS (a + 2)")
    answer = db.post(execute("ALTER TABLE t ALTER COLUMN s TO s AS (a + 2) STORED"), CLOSE)
    assert "generated" in answer.error()["message"]
    assert db.rows("SELECT * FROM t") == [[1, 3, 2]]


def test_a_new_definition_is_rolled_back_with_its_transaction(db):
    db.run("CREATE TABLE t(b)")
    answer = db.post(
        execute("BEGIN"), execute("ALTER TABLE t ALTER COLUMN b TO b INTEGER"),
        execute("INSERT INTO t VALUES ('1') RETURNING typeof(b)"), execute("ROLLBACK"),
        execute("INSERT INTO t VALUES ('1') RETURNING typeof(b)"), CLOSE,
    )  # fmt: skip
    assert answer.codes == ["ok"] * 6
    assert (answer.rows(2), answer.rows(4)) == ([["integer"]], [["text"]])


def test_open_streams_see_a_new_definition(db):
    db.run("CREATE TABLE t(b)")
    stream = db.post(execute("SELECT * FROM t"))
    db.run("ALTER TABLE t ALTER COLUMN b TO b INTEGER DEFAULT 3")
    answer = db.post(execute("INSERT INTO t DEFAULT VALUES"), execute("SELECT b FROM t"), CLOSE, baton=stream.baton)
    assert answer.rows(1) == [[3]]


def test_a_read_only_token_cannot_alter_a_column(db):
    db.run("CREATE TABLE t(b)")
    sql = "ALTER TABLE t ALTER COLUMN b TO b INTEGER"
    assert db.post(execute(sql), CLOSE, token=db.mint(a="ro")).status == 403
    assert db.rows("SELECT sql FROM sqlite_schema") == [["CREATE TABLE t(b)"]]


def test_a_query_only_stream_cannot_alter_a_column(db):
    db.run("CREATE TABLE t(b)")
    answer = db.post(
        execute("PRAGMA query_only = 1"), execute("ALTER TABLE t ALTER COLUMN b TO b INTEGER"),
        execute("PRAGMA query_only = 0"), execute("SELECT sql FROM sqlite_schema"), CLOSE,
    )  # fmt: skip
    assert answer.codes == ["ok", "SQLITE_READONLY", "ok", "ok", "ok"]
    assert answer.rows(3) == [["CREATE TABLE t(b)"]]


def test_a_regular_expression(db):
    assert db.rows("SELECT 'ORD' REGEXP '^[A-Z]{3}$', 'ord' REGEXP '^[A-Z]{3}$', regexpi('^[A-Z]{3}$', 'ord')") == [
        [1, 0, 1]
    ]
    db.run("CREATE TABLE t(code CHECK (code REGEXP '^[A-Z]{3}$'))")
    answer = db.post(execute("INSERT INTO t VALUES ('JFK')"), execute("INSERT INTO t VALUES ('jfk')"), CLOSE)
    assert answer.codes == ["ok", "SQLITE_CONSTRAINT", "ok"]


def test_a_standard_deviation_and_a_median(db):
    names = ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "median")
    values = "(VALUES (2), (4), (NULL), (9))"
    (row,) = db.rows(f"SELECT {', '.join(f'{name}(column1)' for name in names)} FROM {values}")
    assert row == pytest.approx([13**0.5, 13**0.5, (26 / 3) ** 0.5, 13.0, 13.0, 26 / 3, 4.0])


def test_a_sample_of_one_value_has_no_deviation(db):
    assert db.rows("SELECT stddev(1), variance(1), stddev_pop(1)") == [[None, None, 0.0]]


def test_percentiles_and_a_correlation(db):
    query = "SELECT percentile_cont(column1, 0.5), percentile_disc(column1, 0.5), corr(column1, 1 - column1) FROM"
    assert db.rows(f"{query} (VALUES (1), (2))") == [[1.5, 1.0, -1.0]]


def test_a_series_of_integers(db):
    assert db.rows("SELECT value FROM generate_series(1, 7, 3)") == [[1], [4], [7]]
    assert db.rows("SELECT value FROM generate_series(3, 1)") == []
    query = "SELECT n, value FROM (SELECT 1 AS n UNION ALL SELECT 2) JOIN generate_series(1, n) ORDER BY n, value"
    assert db.rows(query) == [[1, 1], [2, 1], [2, 2]]


def test_a_replacement_of_matches(db):
    assert db.rows(r"SELECT regexp_replace('2024-02-29', '(\d+)-(\d+)', '\2/\1')") == [["02/2024-29"]]


def test_the_start_of_a_month(db):
    assert db.rows("SELECT date_trunc('month', '2024-02-29 10:00:00')") == [["2024-02-01"]]


VECTORS = [
    ("vector32('[1, 2.5, -3e10]')", struct.pack("<3f", 1, 2.5, -3e10)), ("vector32('[]')", b""),
    ("vector('[0.1,-0.0,1e-40]')", struct.pack("<3f", 0.1, -0.0, 1e-40)), ("vector64('[]')", b"\2"),
    ("vector64('[0.1, 2,3]')", struct.pack("<3d", 0.1, 2, 3) + b"\2"), ("vector32(x'0000803f')", b"\0\0\x80\x3f"),
    ("vector64(vector32('[0.5,2]'))", struct.pack("<2d", 0.5, 2) + b"\2"), ("typeof(vector('[1]'))", "blob"),
    ("vector32(vector64('[0.1,2]'))", struct.pack("<2f", 0.1, 2)), ("vector_extract('[1,2]')", "[1,2]"),
    ("vector32('  [ +1 , .5, 1., 01 ]  ')", struct.pack("<4f", 1, 0.5, 1, 1)),
    ("vector_extract(vector32('[1,-2.5,0.1,1e-07]'))", "[1,-2.5,0.1,1e-07]"),
    ("vector_extract(vector64('[0.1,3]'))", "[0.1,3]"), ("vector_distance_cos('[0,0]', '[1,2]')", None),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "value"), VECTORS)
def test_a_vector_has_the_bytes_of_libsql(empty, expression, value):
    assert empty.rows(f"SELECT {expression}") == [[value]]


@pytest.mark.parametrize("kind", ["vector32", "vector64"])
@pytest.mark.parametrize("length", [1, 3, 1536])
def test_distances_of_vectors(db, kind, length):
    generator = random.Random(length)
    one, other = ([generator.uniform(-5, 5) for _ in range(length)] for _ in range(2))
    cosine = 1 - sum(map(operator.mul, one, other)) / math.hypot(*one) / math.hypot(*other)
    db.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v F32_BLOB(3))")
    insert = f"INSERT INTO t(v) VALUES ({kind}(?)), ({kind}(?))"
    assert db.post(execute(insert, str(one), str(other)), CLOSE).codes == ["ok", "ok"]
    query = "SELECT vector_distance_cos(a.v, b.v), vector_distance_l2(a.v, b.v) FROM t AS a, t AS b ORDER BY a.id, b.id"
    expected = [[0, 0], [cosine, math.dist(one, other)], [cosine, math.dist(one, other)], [0, 0]]
    assert db.rows(query) == [pytest.approx(row, rel=1e-4, abs=1e-5) for row in expected]


@pytest.mark.parametrize(
    "expression",
    ["vector32('1,2')", "vector32('[1,')", "vector32('[1,]')", "vector32('[NaN]')", "vector32('[Infinity]')",
     "vector32('[0x10]')", "vector32('[1]x')", "vector32(NULL)", "vector32(5)", "vector_extract(NULL)",
     "vector32(x'000080')", "vector_distance_cos('[1]', '[1,2]')", "vector_distance_l2('[1]', vector64('[1]'))",
     "vector_distance_l2(NULL, '[1]')", f"vector32('[{'1,' * 65_536}1]')"],
)  # fmt: skip
def test_what_is_no_vector_is_an_error(empty, expression):
    assert empty.post(execute(f"SELECT {expression}"), CLOSE).results[0]["type"] == "error"


def test_two_numbers_are_not_joined_to_one(empty):
    assert empty.post(execute("SELECT vector32('[1 2]')"), CLOSE).results[0]["type"] == "error"


def test_a_number_that_is_too_large_is_an_error(empty):
    assert empty.post(execute("SELECT vector32('[1e39]')"), CLOSE).results[0]["type"] == "error"


def test_a_vector_as_text_has_all_digits(empty):
    assert empty.rows("SELECT vector_extract(vector32('[98765.43, 0.12345678]'))") == [["[98765.43,0.12345678]"]]


SOUNDEX = {
    "Robert": "R163", "Rupert": "R163", "Ashcraft": "A261", "ashcroft": "A261", "Tymczak": "T522", "Pfister": "P236",
    "Honeyman": "H555", "Jackson": "J250", "BH": "B000", "aaa": "A000", "o'hara": "O600", "Lloyd": "L300",
    "Czarkowska": "C622", "a1b2c3": "A120", "": "",
}  # fmt: skip


@pytest.mark.parametrize("name", SOUNDEX)
def test_the_sound_of_a_name(empty, name):
    assert empty.post(execute("SELECT soundex(?), soundex(NULL)", name), CLOSE).rows() == [[SOUNDEX[name], None]]


LONGEST = "x" * 49_998


@pytest.mark.parametrize(("sql", "arguments"), [
    ("SELECT a LIKE ?, a GLOB ?, like(?, a) FROM t", [f"%{LONGEST}%", f"*{LONGEST}*", f"%{LONGEST}_"]),
    (f"SELECT a LIKE '%{LONGEST}%', a GLOB '*{LONGEST}*', like('%{LONGEST}_', a) FROM t", []),
    ("SELECT a LIKE '%' || ? || '%', a GLOB '*' || ? || '*', like('%' || ? || '_', a) FROM t", [LONGEST] * 3),
    ("SELECT a LIKE ?, a GLOB ?, a LIKE ? FROM t", ["%" + "ä" * 24_999, "*" + "ä" * 24_999, "%" + "x" * 300 + "b"]),
])  # fmt: skip
def test_a_pattern_of_50000_bytes(db, sql, arguments):
    db.run("CREATE TABLE t(a)")
    values = f"a{LONGEST}b", "ä" * 30_000, LONGEST, None
    assert set(db.post(*(execute("INSERT INTO t VALUES (?)", value) for value in values), CLOSE).codes) == {"ok"}
    with closing(sqlite3.connect(":memory:")) as reference:
        reference.execute("CREATE TABLE t(a)")
        reference.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
        expected = [list(row) for row in reference.execute(sql, arguments)]
    answer = db.post(execute(sql, *arguments), CLOSE)
    assert answer.codes == ["ok", "ok"], answer.body
    assert answer.rows() == expected


@pytest.mark.parametrize("comparison", ["LIKE", "GLOB"])
def test_a_longer_pattern_is_an_error(empty, comparison):
    answer = empty.post(execute(f"SELECT 'a' {comparison} ?", "x" * 50_001), CLOSE)
    assert "pattern too complex" in answer.error()["message"]
