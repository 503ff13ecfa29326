"""The request types other than execute (section 7)."""

import pytest
from contract_wire import CLOSE, GET_AUTOCOMMIT, batch, execute

BOTH = pytest.mark.parametrize("version", [2, 3])


def sequence(sql):
    return {"type": "sequence", "sql": sql}


def describe(sql):
    return {"type": "describe", "sql": sql}


def store(number, sql):
    return {"type": "store_sql", "sql_id": number, "sql": sql}


# close


@BOTH
def test_close_alone_and_twice_is_accepted(empty, version):
    assert empty.post(CLOSE, version=version).codes == ["ok"]
    answer = empty.post(CLOSE, CLOSE, version=version)
    assert answer.codes == ["ok", "ok"]
    assert answer.baton is None


LATE = [execute("SELECT 1"), batch("SELECT 1"), sequence("SELECT 1"), describe("SELECT 1"), GET_AUTOCOMMIT]


@pytest.mark.parametrize("late", LATE, ids=lambda request: request["type"])
def test_a_close_that_is_not_last_is_400_for_the_whole_pipeline(empty, late):
    answer = empty.post(execute("SELECT 1"), CLOSE, late, CLOSE, version=3)
    assert (answer.status, answer.content_type) == (400, "text/plain")


def test_texts_may_be_stored_and_removed_behind_a_close(empty):
    answer = empty.post(CLOSE, store(1, "SELECT 1"), {"type": "close_sql", "sql_id": 1}, CLOSE)
    assert (answer.codes, answer.baton) == (["ok"] * 4, None)


def test_nothing_of_a_pipeline_runs_if_its_close_is_not_last(db):
    assert db.post(execute("CREATE TABLE t(a)"), CLOSE, execute("SELECT 1")).status == 400
    assert db.rows("SELECT name FROM sqlite_master") == []
    stream = db.stream()
    stream.run("BEGIN")
    assert db.post(CLOSE, execute("COMMIT"), baton=stream.baton).status == 400
    assert stream.autocommit is False


def test_close_rolls_back_what_is_open(db):
    db.run("CREATE TABLE t(a)")
    stream = db.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    assert stream.send(CLOSE).codes == ["ok"]
    assert db.rows("SELECT a FROM t") == []


# sequence


@BOTH
def test_a_sequence_runs_a_script(db, version):
    script = "CREATE TABLE t(a); INSERT INTO t VALUES (';'); -- done;\nBEGIN; INSERT INTO t VALUES (2); COMMIT"
    answer = db.post(sequence(script), CLOSE, version=version)
    assert answer.response() == {"type": "sequence"}
    assert db.rows("SELECT a FROM t") == [[";"], [2]]


@pytest.mark.parametrize("sql", ["", ";", "-- nothing"])
def test_an_empty_sequence_is_accepted(empty, sql):
    assert empty.post(sequence(sql), CLOSE).codes == ["ok", "ok"]


def test_a_sequence_stops_at_the_first_failure_and_keeps_what_was_applied(db):
    script = "CREATE TABLE t(a UNIQUE); INSERT INTO t VALUES (1); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)"
    answer = db.post(sequence(script), execute("SELECT a FROM t"), CLOSE)
    assert answer.codes == ["SQLITE_CONSTRAINT", "ok", "ok"]
    assert answer.rows(1) == [[1]]


def test_a_sequence_with_a_trigger(db):
    db.post(
        sequence(
            "CREATE TABLE t(a); CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t; SELECT 1; END; "
            "INSERT INTO t VALUES (1)"
        ),
        CLOSE,
    )
    assert db.rows("SELECT count(*) FROM t") == [[0]]


# describe


@BOTH
def test_describe_returns_parameters_and_columns(db, version):
    db.run("CREATE TABLE city(id INTEGER PRIMARY KEY, name VARCHAR(10))")
    answer = db.post(describe("INSERT INTO city(name) VALUES (@n) RETURNING id, name"), CLOSE, version=version)
    assert answer.result() == {
        "params": [{"name": "@n"}],
        "cols": [{"name": "id", "decltype": "INTEGER"}, {"name": "name", "decltype": "VARCHAR(10)"}],
        "is_explain": False,
        "is_readonly": False,
    }
    assert db.rows("SELECT count(*) FROM city") == [[0]]


PARAMS = [
    ("SELECT 1", []),
    ("SELECT ?, :a, @b, $c", [None, ":a", "@b", "$c"]),
    ("SELECT :a, :a", [":a"]),
    ("SELECT ?3", [None, None, "?3"]),
]


@pytest.mark.parametrize(("sql", "names"), PARAMS, ids=[sql for sql, _ in PARAMS])
def test_describe_names_the_parameters(empty, sql, names):
    assert [parameter["name"] for parameter in empty.post(describe(sql), CLOSE).result()["params"]] == names


KINDS = [
    ("SELECT 1", False, True),
    ("CREATE TABLE t(a)", False, False),
    ("EXPLAIN SELECT 1", True, True),
    ("EXPLAIN QUERY PLAN SELECT 1", True, True),
    ("BEGIN", False, True),
    ("PRAGMA user_version", False, True),
    ("PRAGMA user_version = 3", False, False),
]


@pytest.mark.parametrize(("sql", "explain", "readonly"), KINDS, ids=[sql for sql, _, _ in KINDS])
def test_describe_returns_the_kind_of_a_statement(empty, sql, explain, readonly):
    result = empty.post(describe(sql), CLOSE).result()
    assert (result["is_explain"], result["is_readonly"]) == (explain, readonly)


@pytest.mark.parametrize("pragma", ["user_version", "foreign_keys"])
def test_describe_changes_no_setting(db, pragma):
    answer = db.post(
        execute(f"PRAGMA {pragma}"), describe(f"PRAGMA {pragma} = 0"), describe(f"PRAGMA {pragma} = 5"),
        describe(f"PRAGMA {pragma} = 0"), execute(f"PRAGMA {pragma}"), CLOSE,
    )  # fmt: skip
    assert answer.rows(0) == answer.rows(4)


def test_describe_covers_only_the_first_statement(empty):
    assert [
        column["name"] for column in empty.post(describe("SELECT 1 AS a; SELECT 2 AS b"), CLOSE).result()["cols"]
    ] == ["a"]


def test_describe_of_nothing_is_empty(empty):
    result = empty.post(describe(""), CLOSE).result()
    assert (result["params"], result["cols"]) == ([], [])


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT * FROM nope", "SELECT nope"])
def test_describe_fails_as_the_statement_would(empty, sql):
    answer = empty.post(describe(sql), CLOSE)
    assert [entry["type"] for entry in answer.results] == ["error", "ok"]


# store_sql, close_sql


@BOTH
def test_a_stored_text_can_be_used_by_every_request(db, version):
    answer = db.post(
        store(0, "CREATE TABLE IF NOT EXISTS t(a)"), store(7, "SELECT ? AS x"),
        {"type": "sequence", "sql_id": 0},
        {"type": "execute", "stmt": {"sql_id": 7, "args": [{"type": "integer", "value": "5"}]}},
        {"type": "describe", "sql_id": 7},
        batch({"stmt": {"sql_id": 0}}),
        CLOSE, version=version,
    )  # fmt: skip
    assert set(answer.codes) == {"ok"}
    assert answer.rows(3) == [[5]]
    assert [column["name"] for column in answer.result(4)["cols"]] == ["x"]
    assert [answer.response(number)["type"] for number in (0, 1)] == ["store_sql", "store_sql"]


def test_stored_texts_are_kept_until_the_stream_closes(db):
    stream = db.stream()
    stream.send(store(1, "SELECT 1"))
    assert stream.send({"type": "execute", "stmt": {"sql_id": 1}}).rows() == [[1]]
    answer = stream.send({"type": "close_sql", "sql_id": 1}, {"type": "close_sql", "sql_id": 99}, store(1, "SELECT 2"))
    assert answer.codes == ["ok", "ok", "ok"]
    assert stream.send({"type": "execute", "stmt": {"sql_id": 1}}).rows() == [[2]]


def test_a_stored_text_is_not_parsed(empty):
    assert empty.post(store(1, "SELEC"), CLOSE).codes == ["ok", "ok"]


def test_an_unknown_id_is_an_error_of_its_request(db):
    answer = db.post({"type": "execute", "stmt": {"sql_id": 9}}, execute("SELECT 1"), CLOSE)
    assert answer.error()["message"] == "SQL text 9 not found"
    assert answer.rows(1) == [[1]]


def test_an_id_in_use_is_an_error_of_its_request(db):
    answer = db.post(store(1, "SELECT 1"), store(1, "SELECT 2"), {"type": "execute", "stmt": {"sql_id": 1}}, CLOSE)
    assert answer.error(1)["message"] == "SQL text 1 already exists"
    assert answer.rows(2) == [[1]]


def test_a_thousand_texts_can_be_stored(empty):
    # One of the published clients stores each distinct text of a batch, up to this many.
    texts = [store(number, f"SELECT {number}") for number in range(1000)]
    answer = empty.post(*texts, {"type": "execute", "stmt": {"sql_id": 999}}, CLOSE)
    assert answer.rows(1000) == [[999]]


# get_autocommit


def test_get_autocommit_follows_the_transaction(db):
    answer = db.post(
        GET_AUTOCOMMIT, execute("BEGIN"), GET_AUTOCOMMIT, execute("COMMIT"), GET_AUTOCOMMIT,
        execute("SAVEPOINT s"), GET_AUTOCOMMIT, execute("RELEASE s"), GET_AUTOCOMMIT, CLOSE, version=3,
    )  # fmt: skip
    states = [
        result["response"]["is_autocommit"]
        for result in answer.results
        if result["response"]["type"] == "get_autocommit"
    ]
    assert states == [True, False, True, False, True]


@pytest.mark.parametrize(
    "request_", [GET_AUTOCOMMIT, batch(("SELECT 1", {"type": "is_autocommit"}))], ids=["request", "condition"]
)
def test_version_2_has_no_get_autocommit(db, request_):
    answer = db.post(execute("CREATE TABLE t(a)"), request_)
    assert (answer.status, answer.content_type) == (400, "text/plain")
    assert "hrana3" in answer.body
    assert db.rows("SELECT name FROM sqlite_master") == []


def test_a_version_2_stream_continues_in_version_3(db):
    stream = db.stream()
    stream.run("BEGIN")
    assert stream.autocommit is False
    assert stream.rows("SELECT 1") == [[1]]
