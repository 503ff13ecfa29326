"""Cursors (section 11), and the stateless requests that older packages send (clients.md)."""

import gzip
import json

import by_columns as columns
import pytest
from contract_wire import CLOSE, execute, not_, ok, python, stmt

MANY = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) SELECT n, 'row ' || n AS t FROM c"


class Cursor:
    """The lines of a complete response."""

    def __init__(self, answer):
        assert answer.status == 200, answer.http.text
        self.content_type = answer.content_type
        head, *entries = [json.loads(line) for line in answer.http.text.splitlines()]
        self.ttl = head.pop("stream_ttl_ms", None)
        assert set(head) == {"baton", "base_url"}
        assert head["base_url"] is None
        self.baton, self.entries = head["baton"], entries
        # sqld adds an entry that the specification does not have; another test covers it.
        self.known = [entry for entry in entries if entry["type"] != "replication_index"]

    @property
    def kinds(self):
        return [entry["type"] for entry in self.known]

    @property
    def rows(self):
        return [[python(cell) for cell in entry["row"]] for entry in self.known if entry["type"] == "row"]

    def only(self, kind):
        return [entry for entry in self.known if entry["type"] == kind]


def steps_of(*steps):
    made = []
    for step in steps:
        text, condition = step if isinstance(step, tuple) else (step, None)
        made.append({"stmt": stmt(text), **({"condition": condition} if condition else {})})
    return made


def post(db, *steps, baton=None, token=None, **headers):
    body = {"baton": baton, "batch": {"steps": steps_of(*steps)}}
    return db.send("POST", "/v3/cursor", headers=db.headers(token, **headers), content=json.dumps(body).encode())


def read(db, *steps, baton=None):
    return Cursor(post(db, *steps, baton=baton))


def test_a_cursor_is_lines_of_text(empty):
    cursor = read(empty, "SELECT 1 AS one", "SELECT NULL WHERE 0")
    assert cursor.content_type == "text/plain"
    assert cursor.kinds == ["step_begin", "row", "step_end", "step_begin", "step_end"]
    assert cursor.known[0] == {"type": "step_begin", "step": 0, "cols": [{"name": "one", "decltype": None}]}
    assert cursor.rows == [[1]]
    assert cursor.known[3]["step"] == 1


def test_a_cursor_has_only_the_entries_of_the_specification(empty):
    assert [entry["type"] for entry in read(empty, "SELECT 1").entries] == ["step_begin", "row", "step_end"]


def test_the_end_of_a_step_has_the_number_of_changed_rows(db):
    cursor = read(db, "CREATE TABLE t(a)", "INSERT INTO t VALUES (1), (2)", "UPDATE t SET a = 3", "SELECT * FROM t")
    assert [entry["affected_row_count"] for entry in cursor.only("step_end")] == [0, 2, 2, 0]
    assert all(set(entry) == {"type", "affected_row_count", "last_insert_rowid"} for entry in cursor.only("step_end"))


def test_the_last_rowid_of_a_step_is_a_string(db):
    cursor = read(db, "CREATE TABLE t(a)", "INSERT INTO t VALUES (1), (2)", "SELECT * FROM t")
    assert [entry["last_insert_rowid"] for entry in cursor.only("step_end")] == [None, "2", None]


def test_the_first_line_has_the_time_that_the_stream_lives(db):
    assert read(db, "SELECT 1").ttl == 10_000


def test_conditions_control_steps_and_skipped_steps_have_no_entry(db):
    cursor = read(
        db, "SELECT * FROM nope", ("SELECT 1", ok(0)), ("SELECT 2", not_(ok(0))),
        ("SELECT 3", {"type": "is_autocommit"}), ("SELECT 4", not_({"type": "is_autocommit"})),
    )  # fmt: skip
    assert cursor.rows == [[2], [3]]
    assert sorted({entry["step"] for entry in cursor.known if "step" in entry}) == [0, 2, 3]
    (failed,) = cursor.only("step_error")
    assert (failed["step"], set(failed["error"])) == (0, {"message", "code"})


def test_a_cursor_omits_rows_that_are_not_wanted(db):
    db.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b)", "INSERT INTO t(b) VALUES (1), (2)")
    steps = [{"stmt": stmt("UPDATE t SET b = 3 RETURNING b", want_rows=False)}, {"stmt": stmt("SELECT b FROM t")}]
    body = json.dumps({"batch": {"steps": steps}}).encode()
    cursor = Cursor(db.send("POST", "/v3/cursor", headers=db.headers(), content=body))
    assert cursor.kinds == ["step_begin", "step_end", "step_begin", "row", "row", "step_end"]
    assert cursor.only("step_end")[0]["affected_row_count"] == 2


def test_a_row_that_fails_is_the_error_of_its_step(empty):
    text = f"SELECT CASE WHEN n < 3 THEN n ELSE abs(-9223372036854775808) END FROM ({MANY.format(5)})"
    cursor = read(empty, text, "SELECT 'after'")
    assert cursor.kinds[0] == "step_begin"
    assert cursor.only("step_error")[0]["step"] == 0
    assert "integer overflow" in cursor.only("step_error")[0]["error"]["message"]
    assert cursor.rows[-1] == ["after"]


def test_the_baton_of_the_first_line_continues_the_stream(db):
    first = db.post(execute("CREATE TABLE t(a)"), execute("BEGIN"))
    cursor = read(db, "INSERT INTO t VALUES (7)", baton=first.baton)
    answer = db.post(execute("SELECT a FROM t"), execute("ROLLBACK"), CLOSE, baton=cursor.baton)
    assert answer.rows() == [[7]]
    assert answer.codes == ["ok"] * 3
    assert post(db, "SELECT 1", baton=first.baton).status == 400


@pytest.mark.every_server
def test_many_rows_are_complete(empty):
    assert len(read(empty, MANY.format(15_000)).rows) == 15_000  # more than a megabyte


def test_a_syntax_error_is_an_entry_and_keeps_the_transaction_open(db):
    first = db.post(execute("CREATE TABLE t(a)"), execute("BEGIN"), execute("INSERT INTO t VALUES (1)"))
    cursor = read(db, "SELEC", baton=first.baton)
    assert cursor.only("step_error")[0]["error"]["code"] == "SQL_PARSE_ERROR"
    assert db.post(execute("COMMIT"), execute("SELECT a FROM t"), CLOSE, baton=cursor.baton).rows(1) == [[1]]


def test_text_that_is_not_utf8_is_an_entry(db):
    cursor = read(db, "SELECT CAST(x'ff' AS TEXT)", "SELECT 'after'")
    assert len(cursor.only("step_error")) == 1
    assert cursor.rows == [["after"]]


def test_a_read_only_token_gets_403_and_nothing_is_sent(db):
    db.run("CREATE TABLE t(a)")
    answer = post(db, "INSERT INTO t VALUES (1)", token=db.mint(a="ro"))
    assert answer.status == 403
    assert db.rows("SELECT count(*) FROM t") == [[0]]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"batch":{}}', b'{"batch":{"steps":[{"stmt":{"sql":1}}]}}'])
def test_a_malformed_cursor_is_400(empty, body):
    assert empty.send("POST", "/v3/cursor", headers=empty.headers(), content=body).status == 400


def test_a_cursor_needs_a_token(empty):
    assert empty.send("POST", "/v3/cursor", content=b"{}").status == 401


# Compression.


def compressed(db, path, body):
    """Send a request with and without gzip; return the raw headers of both and the text."""
    content = json.dumps(body).encode()
    packed = db.send("POST", path, headers=db.headers(**{"accept-encoding": "gzip"}), content=content)
    plain = db.send("POST", path, headers=db.headers(**{"accept-encoding": "identity"}), content=content)
    return packed.http.headers.get("content-encoding"), plain.http.headers.get("content-encoding"), packed.http.text


@pytest.mark.every_server
def test_a_large_response_is_compressed_on_request(empty):
    body = {"requests": [execute(MANY.format(1000)), CLOSE]}
    packed, plain, text = compressed(empty, "/v2/pipeline", body)
    assert (packed, plain) == ("gzip", None)
    assert len(json.loads(text)["results"][0]["response"]["result"]["rows"]) == 1000
    packed, plain, text = compressed(empty, "/v3/cursor", {"batch": {"steps": steps_of(MANY.format(5000))}})
    assert (packed, plain) == ("gzip", None)
    assert text.count('"row ') == 5000


def test_a_small_response_is_not_compressed(empty):
    assert compressed(empty, "/v2/pipeline", {"requests": [execute("SELECT 1"), CLOSE]})[0] is None


@pytest.mark.every_server
def test_a_compressed_request_is_400(empty):
    content = gzip.compress(json.dumps({"requests": [CLOSE]}).encode())
    headers = empty.headers(**{"content-encoding": "gzip"})
    assert empty.send("POST", "/v2/pipeline", headers=headers, content=content).status == 400


# Columnar rows, which a server may send on request.


def reading_columns(db, path, body):
    answer = db.send(
        "POST", path, headers=db.headers(**{"Pipemagic-Rows": "columns"}), content=json.dumps(body).encode()
    )
    assert answer.status == 200, answer.http.text
    return answer


@pytest.mark.parametrize("rows", [0, 3, 2000])
def test_rows_by_columns_are_the_same_rows(empty, rows):
    text = f"SELECT *, n / 4.0, nullif(n, 3), CAST(t AS BLOB), iif(n % 2, n, t) FROM ({MANY.format(2000)}) LIMIT {rows}"
    wanted = empty.rows(text)
    assert len(wanted) == rows
    for path in ("/v2/pipeline", "/v3/pipeline"):
        answer = reading_columns(empty, path, {"requests": [execute(text), CLOSE]})
        assert columns.rows_of(answer.result(), python) == wanted
    answer = reading_columns(empty, "/v1/execute", {"stmt": {"sql": text}})
    assert columns.rows_of(answer.body["result"], python) == wanted
    found = []
    for entry in Cursor(reading_columns(empty, "/v3/cursor", {"batch": {"steps": steps_of(text)}})).known:
        if entry["type"] == "row":
            found.append([python(cell) for cell in entry["row"]])
        elif entry["type"] == "rows":
            found += columns.rows_of_part(entry["part"], python)
    assert found == wanted


# Without a stream.


def stateless(db, path, body, token=None):
    return db.send("POST", path, headers=db.headers(token), content=json.dumps(body).encode())


def test_a_stateless_statement_has_a_result(empty):
    answer = stateless(empty, "/v1/execute", {"stmt": stmt("SELECT ? AS a", 7)})
    assert (answer.status, answer.content_type, set(answer.body)) == (200, "application/json", {"result"})
    result = answer.body["result"]
    assert [[python(cell) for cell in row] for row in result["rows"]] == [[7]]
    assert result["cols"][0]["name"] == "a"
    assert (result["affected_row_count"], result["last_insert_rowid"]) == (0, None)


@pytest.mark.parametrize("text", ["SELEC", "SELECT nope", "SELECT 1; SELECT 2"])
def test_a_stateless_statement_that_fails_is_400_with_message_and_code(empty, text):
    answer = stateless(empty, "/v1/execute", {"stmt": {"sql": text}})
    assert (answer.status, answer.content_type) == (400, "application/json")
    assert answer.body["message"]
    assert answer.body["code"] in ("SQL_PARSE_ERROR", "SQL_INPUT_ERROR", "SQL_MANY_STATEMENTS")


def test_a_stateless_batch_has_results_and_errors_of_its_steps(db):
    answer = stateless(db, "/v1/batch", {"batch": {"steps": steps_of("SELECT 1", "SELECT nope", ("SELECT 2", ok(1)))}})
    result = answer.body["result"]
    assert [bool(step_result) for step_result in result["step_results"]] == [True, False, False]
    assert [step_error and step_error["code"] for step_error in result["step_errors"]] == [
        None,
        "SQL_INPUT_ERROR",
        None,
    ]


def test_stateless_requests_do_not_wait_for_a_transaction_of_each_other(db):
    stateless(db, "/v1/batch", {"batch": {"steps": steps_of("CREATE TABLE t(a)", "BEGIN IMMEDIATE")}})
    assert stateless(db, "/v1/execute", {"stmt": {"sql": "INSERT INTO t VALUES (1)"}}).status == 200


def test_stateless_requests_need_a_token_and_a_body(db):
    assert db.send("POST", "/v1/execute", content=b"{}").status == 401
    assert stateless(db, "/v1/execute", {"batch": {}}).status == 400
    assert stateless(db, "/v1/batch", {"stmt": {}}).status == 400
    assert stateless(db, "/v1/execute", {"stmt": {"sql": "CREATE TABLE u(a)"}}, db.mint(a="ro")).status == 403
