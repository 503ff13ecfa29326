"""One statement: its text, its arguments, its result (sections 5, 6 and 12)."""

import sqlite3
from contextlib import closing

import pytest
from contract_wire import CLOSE, execute, named, value

ONE_STATEMENT = [
    "SELECT 1", "SELECT 1;", " \n SELECT 1 ; ", "-- a;\nSELECT 1 /* b; */ ; -- c", "SELECT 1;;;",
    "SELECT 1; -- the end", "/* ; */ SELECT 1",
]  # fmt: skip


@pytest.mark.parametrize("sql", ONE_STATEMENT)
def test_blanks_comments_and_a_semicolon_around_a_statement_are_accepted(empty, sql):
    assert empty.post(execute(sql), CLOSE).rows() == [[1]]


@pytest.mark.parametrize("sql", ["", " ", ";", "-- nothing", "/* nothing */;"])
def test_a_text_without_a_statement_is_an_error(empty, sql):
    assert empty.post(execute(sql), CLOSE).codes == ["SQL_NO_STATEMENT", "ok"]


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "CREATE TABLE t(a); DROP TABLE t", "SELECT 1; SELEC"])
def test_two_statements_are_refused(empty, sql):
    assert empty.post(execute(sql), CLOSE).codes == ["SQL_MANY_STATEMENTS", "ok"]
    assert empty.rows("SELECT name FROM sqlite_master") == []


def test_a_trigger_is_one_statement(db):
    db.run(
        "CREATE TABLE t(a)",
        "CREATE TABLE log(a)",
        "CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.a); INSERT INTO log VALUES (';'); END",
        "INSERT INTO t VALUES (7)",
    )
    assert db.rows("SELECT a FROM log") == [[7], [";"]]


@pytest.mark.parametrize(
    "stmt", [{}, {"args": []}, {"sql": "SELECT 1", "sql_id": 1}, {"sql": None, "sql_id": None}], ids=repr
)
def test_a_statement_has_either_a_text_or_an_id(empty, stmt):
    answer = empty.post({"type": "execute", "stmt": stmt})
    assert (answer.status, answer.content_type) == (400, "text/plain")


# Arguments.

POSITIONAL = [
    ("SELECT ?, ?", [1, "b"], [1, "b"]),
    ("SELECT ?2, ?1", [1, 2], [2, 1]),
    ("SELECT ?3", [1, 2, 3], [3]),
    ("SELECT ?, ?1, ?", [1, 2], [1, 1, 2]),
    ("SELECT 1", [], [1]),
    ("SELECT '?', ?", ["x"], ["?", "x"]),
]


@pytest.mark.parametrize(("sql", "args", "row"), POSITIONAL, ids=[sql for sql, _, _ in POSITIONAL])
def test_arguments_bind_by_position(empty, sql, args, row):
    assert empty.post(execute(sql, *args), CLOSE).rows() == [row]


NAMED = [
    ("SELECT :a, @b, $c", {"a": 1, "b": 2, "c": 3}, [1, 2, 3]),
    ("SELECT :a, @b, $c", {":a": 1, "@b": 2, "$c": 3}, [1, 2, 3]),
    ("SELECT :a, @a, $a", {"a": 1}, [1, 1, 1]),
    ("SELECT :a, @a", {":a": 1, "a": 2}, [1, 2]),
    ("SELECT :a, :a", {"a": 1}, [1, 1]),
    ("SELECT :é", {"é": 1}, [1]),
]


@pytest.mark.parametrize(("sql", "args", "row"), NAMED, ids=range(len(NAMED)))
def test_arguments_bind_by_name(empty, sql, args, row):
    assert empty.post(named(sql, **args), CLOSE).rows() == [row]


def test_the_last_of_two_arguments_with_the_same_name_is_used(empty):
    twice = [{"name": "a", "value": value(1)}, {"name": "a", "value": value(2)}]
    assert empty.post(execute("SELECT :a", named_args=twice), CLOSE).rows() == [[2]]


UNBOUND = [
    ("SELECT ?", [], {}),
    ("SELECT ?, ?", [1], {}),
    ("SELECT ?", [1, 2], {}),
    ("SELECT 1", [1], {}),
    ("SELECT ?3", [1], {}),
    ("SELECT :a", [1], {}),
    ("SELECT :a", [], {}),
    ("SELECT :a", [], {"b": 1}),
    ("SELECT :a", [], {"@a": 1}),
    ("SELECT :a", [], {"a": 1, "b": 1}),
    ("SELECT ?1", [], {"?1": 1}),
    ("SELECT ?1", [], {"1": 1}),
]


@pytest.mark.parametrize(("sql", "args", "names"), UNBOUND, ids=range(len(UNBOUND)))
def test_missing_and_surplus_arguments_are_an_error(empty, sql, args, names):
    request = named(sql, **names) if names else execute(sql, *args)
    assert empty.post(request, CLOSE).codes == ["ARGS_INVALID", "ok"]


def test_positional_and_named_arguments_do_not_mix(empty):
    request = execute("SELECT ?, :a", 1, named_args=[{"name": "a", "value": value(2)}])
    assert empty.post(request, CLOSE).codes == ["ARGS_BOTH_POSITIONAL_AND_NAMED", "ok"]


@pytest.mark.parametrize(
    ("sql", "args"),
    [
        ("SELECT * FROM nope WHERE a = ?", []), ("SELECT * FROM nope", [1]), ("SELECT nope + :a", [1]),
        ("SELEC ?", []), ("INSERT INTO nope VALUES (?, ?)", [1]),
    ],
)  # fmt: skip
def test_an_error_of_the_statement_comes_before_one_of_its_arguments(empty, sql, args):
    error = empty.post(execute(sql, *args), CLOSE).error()
    assert error["code"] != "ARGS_INVALID"
    assert "no" in error["message"] or "SELEC" in error["message"]


@pytest.mark.parametrize("sql", ["SELECT #0", "SELECT #1 + ?"])
def test_a_register_is_no_parameter(empty, sql):
    answer = empty.post(execute(sql), CLOSE)
    assert 'near "#' in answer.error()["message"]
    assert "syntax error" in answer.error()["message"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 -- one", "SELECT 1 /* one */, 2 /* two */ ; -- three", "SELECT 1 + 1 /* a */ -- b\n  ;",
        "-- before\nSELECT 1 -- one\n-- two", "VALUES (1) -- one", "SELECT 1 AS a -- one", "SELECT 1 ; -- one",
        "SELECT 1 --", "SELECT (SELECT 1 -- one\n) -- two",
        "WITH t AS (SELECT 1) SELECT 2 -- x",
    ],
)  # fmt: skip
def test_a_comment_is_in_the_name_of_a_column_as_in_sqlite(empty, sql):
    with closing(sqlite3.connect(":memory:")) as connection:
        names = [column[0] for column in connection.execute(sql).description]
    answer = empty.run(sql)
    assert [column["name"] for column in answer.response(0)["result"]["cols"]] == names
    described = empty.post({"type": "describe", "sql": sql}, CLOSE)
    assert [column["name"] for column in described.response(0)["result"]["cols"]] == names


def test_an_explained_statement_may_leave_parameters_unbound(empty):
    assert empty.post(execute("EXPLAIN QUERY PLAN SELECT ?, :a"), CLOSE).codes == ["ok", "ok"]


# Results.


def test_a_result_has_all_its_keys(empty):
    result = empty.post(execute("SELECT 6*7 AS answer"), CLOSE).result()
    assert result["cols"] == [{"name": "answer", "decltype": None}]
    assert result["rows"] == [[{"type": "integer", "value": "42"}]]
    assert result["affected_row_count"] == 0
    assert result["last_insert_rowid"] is None
    assert {"replication_index", "rows_read", "rows_written", "query_duration_ms"} <= result.keys()


def test_columns_keep_their_order_their_names_and_their_declared_types(db):
    db.run('CREATE TABLE t(id INTEGER PRIMARY KEY, name VARCHAR(10), "two words" my type, plain)')
    cols = db.run('SELECT *, 1+1, id AS id, id + 1 AS "", name AS "é" FROM t').result()["cols"]
    assert [(col["name"], col["decltype"]) for col in cols] == [
        ("id", "INTEGER"), ("name", "VARCHAR(10)"), ("two words", "my type"), ("plain", None), ("1+1", None),
        ("id", "INTEGER"), ("", None), ("é", "VARCHAR(10)"),
    ]  # fmt: skip


def test_a_result_without_rows_has_its_columns(db):
    db.run("CREATE TABLE t(a INTEGER, b)")
    result = db.run("SELECT a, b FROM t").result()
    assert [col["name"] for col in result["cols"]] == ["a", "b"]
    assert result["rows"] == []


def test_columns_follow_a_change_of_the_schema(db):
    db.run("CREATE TABLE t(a)")
    stream = db.stream()
    assert len(stream.run("SELECT * FROM t").result()["cols"]) == 1
    db.run("ALTER TABLE t ADD COLUMN b TEXT")
    for rows in ([], [[1, None]]):
        result = stream.run("SELECT * FROM t").result()
        assert [(col["name"], col["decltype"]) for col in result["cols"]] == [("a", None), ("b", "TEXT")]
        assert len(result["rows"]) == len(rows)
        db.run("INSERT INTO t(a) VALUES (1)")


COUNTS = [
    ("INSERT INTO t VALUES (1), (2), (3)", 3),
    ("UPDATE t SET a = a", 2),
    ("DELETE FROM t", 2),
    ("DELETE FROM t WHERE a = 99", 0),
    ("WITH x(a) AS (VALUES (1), (2)) INSERT INTO t SELECT a FROM x", 2),
    ("INSERT INTO t VALUES (7) RETURNING a", 1),
    ("REPLACE INTO t VALUES (5)", 1),
    ("INSERT OR IGNORE INTO k VALUES (1)", 0),
    ("SELECT * FROM t", 0),
    ("CREATE TABLE u AS SELECT * FROM t", 0),
    ("DROP TABLE t", 0),
    ("PRAGMA table_info(t)", 0),
]


@pytest.mark.parametrize(("sql", "count"), COUNTS, ids=[sql for sql, _ in COUNTS])
def test_affected_rows_are_those_of_the_statement_itself(db, sql, count):
    db.run("CREATE TABLE t(a)", "CREATE TABLE k(a PRIMARY KEY)", "INSERT INTO k VALUES (1)")
    stream = db.stream()
    stream.run("INSERT INTO t VALUES (1), (2)")
    assert stream.run(sql).result()["affected_row_count"] == count


def test_changes_of_triggers_and_of_earlier_statements_do_not_count(db):
    db.run(
        "CREATE TABLE t(a)",
        "CREATE TABLE log(a)",
        "CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log VALUES (1), (2); END",
    )
    answer = db.run("INSERT INTO t VALUES (1)", "SELECT 1", "CREATE TABLE u(a)")
    assert [answer.result(number)["affected_row_count"] for number in range(3)] == [1, 0, 0]


def test_the_last_rowid_is_decimal_text_after_an_insert(db):
    answer = db.run(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b)",
        "INSERT INTO t(b) VALUES ('x'), ('y')",
        "SELECT 1",
        "UPDATE t SET b = 'z'",
        "INSERT INTO t(a) VALUES (9223372036854775807)",
        "REPLACE INTO t(a) VALUES (7)",
    )
    rowids = [answer.result(number)["last_insert_rowid"] for number in range(6)]
    assert rowids == [None, "2", None, None, "9223372036854775807", "7"]


def test_the_last_rowid_starts_at_zero_on_each_stream(db):
    db.run("CREATE TABLE t(a PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    answer = db.run("INSERT OR IGNORE INTO t VALUES (1)", "SELECT last_insert_rowid(), changes(), total_changes()")
    assert answer.result()["last_insert_rowid"] == "0"
    assert answer.rows(1) == [[0, 0, 0]]


def test_the_replication_index_is_text_that_grows_with_each_commit(db):
    db.run("CREATE TABLE t(a)")
    stream = db.stream()

    def index(sql):
        text = stream.run(sql).result()["replication_index"]
        assert isinstance(text, str)
        return int(text)

    start = index("SELECT 1")
    assert index("SELECT 1") == start
    first = index("INSERT INTO t VALUES (1)")
    assert first > start
    assert index("BEGIN") == first
    assert index("INSERT INTO t VALUES (2)") == first
    assert index("COMMIT") > first


def test_rows_that_are_not_wanted_are_omitted(db):
    db.run("CREATE TABLE t(a)")
    answer = db.post(execute("INSERT INTO t VALUES (1) RETURNING a", want_rows=False), CLOSE)
    assert answer.result()["rows"] == []
    assert answer.result()["affected_row_count"] == 1
    assert db.rows("SELECT a FROM t") == [[1]]


# Which SQL is accepted.

WORKS = [
    "CREATE TABLE t(a INTEGER) STRICT",
    "CREATE TABLE t(a PRIMARY KEY) WITHOUT ROWID",
    "CREATE VIEW v AS SELECT 1",
    "CREATE VIRTUAL TABLE f USING fts5(x)",
    "SELECT json_extract('{\"a\":1}', '$.a'), '{\"a\":1}' ->> 'a'",
    "SELECT sqrt(2), pow(2, 10)",
    "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 9) SELECT * FROM c",
    "SELECT row_number() OVER (ORDER BY 1)",
    "EXPLAIN SELECT 1",
    "EXPLAIN QUERY PLAN SELECT 1",
    "PRAGMA user_version",
    "PRAGMA user_version = 3",
    "PRAGMA foreign_keys",
    "SELECT * FROM pragma_table_info('t')",
    "REINDEX",
    "SELECT * FROM json_each('[1,2]')",
    "VALUES (1), (2)",
    "SELECT unixepoch('now') > 0",
    "SELECT sqlite_version()",
]


@pytest.mark.parametrize("sql", WORKS)
def test_sql_that_works(db, sql):
    assert db.post(execute(sql), CLOSE).codes == ["ok", "ok"]


VIEWS = [
    "SELECT highlight(f, 0, '<', '>'), snippet(f, 0, '', '', '', 3), bm25(f) FROM f WHERE f MATCH 'lagos'",
    "SELECT term FROM terms",
    "SELECT m.name, c.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c",
    "SELECT t.a, e.value FROM t, json_each(t.j) AS e WHERE t.a LIKE 'L%' AND t.a GLOB 'L*'",
    "SELECT random(), randomblob(1), datetime('now'), last_insert_rowid(), changes()",
]


@pytest.mark.parametrize("sql", VIEWS)
def test_a_view_may_do_what_its_statement_may(db, sql):
    db.run(
        "CREATE TABLE t(a TEXT CHECK (a LIKE 'L%'), j TEXT CHECK (json_valid(j)), first AS (j ->> 0) STORED)",
        "CREATE INDEX by_second ON t(lower(a), j ->> 1)",
        "CREATE VIRTUAL TABLE f USING fts5(body)",
        "CREATE VIRTUAL TABLE terms USING fts5vocab(f, row)",
        "CREATE TRIGGER noted AFTER INSERT ON t BEGIN INSERT INTO f SELECT new.a || value FROM json_each(new.j); END",
        "INSERT INTO t VALUES ('Lagos', '[\" by the sea\", 2]')",
        f"CREATE VIEW v AS {sql}",
    )
    assert db.rows("SELECT count(*) > 0 FROM v") == [[1]]


REACHES_OUT = [
    "ATTACH 'x.db' AS x",
    "ATTACH ':memory:' AS x",
    "SELECT load_extension('x')",
    "VACUUM INTO 'x.db'",
    "PRAGMA writable_schema = ON",
    "PRAGMA temp_store_directory = '/tmp'",
    "SELECT readfile('/etc/hostname')",
    "SELECT writefile('x', 'y')",
    "UPDATE sqlite_master SET sql = 'x'",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "SELECT fts3_tokenizer('x')",
    "DETACH main",
    "PRAGMA database_list; ATTACH 'x' AS y",
]


@pytest.mark.parametrize("sql", REACHES_OUT)
def test_access_outside_the_database_is_refused(db, sql):
    db.run("CREATE TABLE t(a)")
    answer = db.post(execute(sql), execute("SELECT count(*) FROM t"), CLOSE)
    assert answer.results[0]["type"] == "error"
    assert answer.rows(1) == [[0]]
