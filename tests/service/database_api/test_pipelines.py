"""Responses to pipelines: the sandbox, limits, stored texts, sizes."""

from __future__ import annotations

import json

import pytest
from asgi_calls import call
from service_calls import CLOSE, caller_of, execute

from pipemagic.service.limits import Limits
from pipemagic.service.service import Service


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("ATTACH 'other.sqlite' AS other", "ATTACH"),
        ("ATTACH '' AS other", "ATTACH"),
        ("DETACH main", "DETACH"),
        ("VACUUM INTO 'copy.sqlite'", "VACUUM INTO"),
        ("VACUUM main /* */ into ''", "VACUUM INTO"),
        ("SELECT load_extension('evil')", "load_extension"),
        ("PRAGMA writable_schema = ON", "writable_schema"),
        ("PRAGMA temp_store_directory = '/tmp'", "temp_store_directory"),
        ("PRAGMA data_store_directory = '/tmp'", "data_store_directory"),
        ("PRAGMA main.journal_mode = DELETE", "journal_mode"),
        ("PRAGMA synchronous = OFF", "synchronous"),
        ("PRAGMA locking_mode = EXCLUSIVE", "locking_mode"),
        ("PRAGMA wal_autocheckpoint = 0", "wal_autocheckpoint"),
        ("PRAGMA mmap_size = 1000000", "mmap_size"),
        ("PRAGMA cache_size = 1000000000", "cache_size"),
        ("PRAGMA cache_size = -1000000000", "cache_size"),
    ],
)
def test_sql_that_accesses_files_is_refused_before_it_runs(db, sql, says):
    answer = db.run(sql)
    assert answer.codes == ["SQLITE_AUTH", "ok"]
    assert says in answer.error()["message"]
    assert "/" not in answer.error()["message"].replace("VACUUM INTO", "")


@pytest.mark.parametrize(
    "sql",
    ["INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 0, '')", "UPDATE sqlite_schema SET sql = ''",
     "INSERT INTO sqlite_dbpage(pgno, data) VALUES (1, x'00')", "SELECT readfile('/etc/passwd')",
     "SELECT writefile('x', 'y')", "SELECT edit('x')"],
)  # fmt: skip
def test_the_schema_table_and_file_functions_are_not_available(db, sql):
    assert db.run("CREATE TABLE t(a)", sql).codes[1] != "ok"


@pytest.mark.parametrize(
    "sql",
    ["VACUUM", "ANALYZE", "REINDEX", "PRAGMA optimize", "PRAGMA user_version = 7", "PRAGMA foreign_keys = OFF",
     "PRAGMA integrity_check", "PRAGMA table_info(t)", "PRAGMA journal_mode", "PRAGMA cache_size = -2000",
     "CREATE TEMP TABLE u(a)", "CREATE VIRTUAL TABLE f USING fts5(x)", "SELECT json('{}'), pow(2, 3)",
     "EXPLAIN QUERY PLAN SELECT * FROM t", "EXPLAIN INSERT INTO t VALUES (?)", "SELECT * FROM pragma_table_info('t')"],
)  # fmt: skip
def test_everyday_statements_work(db, sql):
    assert db.run("CREATE TABLE t(a)", sql).codes == ["ok", "ok", "ok"]


def test_a_read_only_token_reads_and_opens_transactions_but_changes_nothing(db, make_caller):
    db.run("CREATE TABLE t(a)")
    reader = make_caller(read_only=True)
    allowed = ["BEGIN", "SELECT * FROM t", "COMMIT", "SAVEPOINT s", "RELEASE s", "EXPLAIN DELETE FROM t",
               "PRAGMA table_info(t)", "PRAGMA index_list(t)", "PRAGMA table_list"]  # fmt: skip
    assert set(reader.run(*allowed).codes) == {"ok"}
    for sql in ["INSERT INTO t VALUES (1)", "CREATE TABLE u(a)", "DELETE FROM t WHERE 0", "PRAGMA user_version = 1",
                "PRAGMA user_version", "PRAGMA foreign_keys = OFF", "BEGIN IMMEDIATE", "VACUUM", "PRAGMA optimize",
                "CREATE TEMP TABLE u(a)", "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x"]:  # fmt: skip
        assert reader.run(sql).status == 403, sql
    assert db.run("SELECT count(*) FROM t").rows() == [["0"]]


def small(tmp_path, clock, **limits):
    service = Service(tmp_path / "data", clock=clock, limits=Limits(**limits))
    service.catalog.create_group("local", "default", "ams")
    return caller_of(service, "flights")


def test_a_result_above_the_limit_is_an_error_of_its_request_alone(tmp_path, clock):
    db = small(tmp_path, clock, response=100_000)
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000) SELECT i FROM n"
    answer = db.run("SELECT 1", many, "SELECT 2")
    assert answer.codes == ["ok", "RESPONSE_TOO_LARGE", "ok", "ok"]
    assert "100,000 bytes" in answer.error(1)["message"]
    batch = {"type": "batch", "batch": {"steps": [{"stmt": {"sql": many}}, {"stmt": {"sql": "SELECT 3"}}]}}
    result = db.post(batch, CLOSE).response()["result"]
    assert result["step_errors"][0]["code"] == "RESPONSE_TOO_LARGE"
    assert result["step_results"][1]["rows"] == [[{"type": "integer", "value": "3"}]]
    unseen = db.post(execute(many, want_rows=False), CLOSE)
    assert unseen.codes == ["ok", "ok"]
    assert unseen.response()["result"]["rows"] == []
    db.service.close()


def test_values_statements_and_bodies_have_limits_with_clear_errors(tmp_path, clock):
    db = small(tmp_path, clock, value=1000, statement=2000, body=5000)
    assert db.run("SELECT length(zeroblob(999))").rows() == [["999"]]
    assert db.run("SELECT zeroblob(2000)").codes[0] == "SQLITE_TOOBIG"
    assert db.post(execute("SELECT ?", {"type": "text", "value": "x" * 1500}), CLOSE).codes[0] == "SQLITE_TOOBIG"
    assert db.run("SELECT 1 -- " + "x" * 10 + "\n" + " " * 10 + "+ 1" * 900).codes[0] == "SQLITE_TOOBIG"
    big = db.run("SELECT '" + "x" * 6000 + "'")
    assert big.status == 413
    assert "5,000 bytes" in big.body["error"]
    db.service.close()


def test_a_thousand_texts_and_more_can_be_stored_up_to_a_limit(tmp_path, clock):
    db = small(tmp_path, clock, stored_texts=1200)
    store = [{"type": "store_sql", "sql_id": number, "sql": f"SELECT {number}"} for number in range(1201)]
    answer = db.post(*store, {"type": "execute", "stmt": {"sql_id": 999}}, store[5], CLOSE)
    assert answer.codes[:1200] == ["ok"] * 1200
    assert answer.codes[1200] == "SQL_STORE_TOO_MANY"
    assert answer.rows(1201) == [["999"]]
    assert answer.error(1202)["message"] == "SQL text 5 already exists"
    db.service.close()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "Cannot deserialize"),
        (b"[]", "Cannot deserialize"),
        (b"{}", "Cannot deserialize"),
        (b'{"requests":[{"type":"nope"}]}', "Cannot deserialize"),
        (b'{"requests":[{"type":"execute"}]}', "Cannot deserialize"),
        (b'{"requests":[{"type":"execute","stmt":{}}]}', "Either `sql` or `sql_id`"),
        (b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1","sql_id":1}}]}', "Either `sql` or `sql_id`"),
        (b'{"requests":[{"type":"batch","batch":{"steps":[{"condition":{"type":"ok","step":0},"stmt":{"sql":"SELECT 1"}'
         b"}]}}]}", "Invalid reference to step"),
        (b'{"requests":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "Cannot deserialize"),
        (b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT ?","args":[{"type":"integer","value":5}]}}]}',
         "Cannot deserialize"),
    ],
)  # fmt: skip
def test_a_malformed_body_is_refused_before_anything_runs_and_the_stream_is_kept(db, body, says):
    baton = db.post(execute("CREATE TABLE t(a)")).baton
    if body.startswith(b'{"requests"'):
        body = b'{"baton":' + json.dumps(baton).encode() + b"," + body[1:]
    headers = {"host": "127.0.0.1", "authorization": f"Bearer {db.token}"}
    response = call(db.service, "POST", "/v3/pipeline", headers=headers, body=body)
    assert response.status == 400
    assert response.content_type == "text/plain"
    assert says in response.read().decode()
    assert db.post(execute("SELECT count(*) FROM t"), baton=baton).rows() == [["0"]]


@pytest.mark.parametrize("value", ["9223372036854775808", "", " 5", "5.0", "１", "1_0"])
def test_an_invalid_integer_is_an_error_of_its_statement(db, value):
    answer = db.post(execute("SELECT ?", {"type": "integer", "value": value}), CLOSE)
    assert answer.codes == ["ARGS_INVALID", "ok"]


def test_hosts_route_to_databases_and_foreign_ones_are_refused(db, service):
    for host, status in {
        "flights-local.localhost:8080": 200,
        "FLIGHTS-LOCAL.localhost": 200,
        "127.0.0.1:99": 200,
        "localhost": 200,
        "[::1]:8080": 200,
        "nope-local.localhost": 404,
        "evil.example": 421,
        "flights-local.localhost.evil.example": 421,
        "": 421,
    }.items():
        db.headers = {"host": host}
        assert db.run("SELECT 1").status == status, host


def test_a_database_address_has_no_management_api(service):
    assert call(service, "GET", "/v1/locations", headers={"host": "x-local.localhost"}).status == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/version", 200), ("HEAD", "/version", 200), ("GET", "/health", 200), ("GET", "/v2", 200),
     ("GET", "/v3", 200), ("GET", "/v3-protobuf", 404), ("GET", "/v2/", 404), ("POST", "/v2/pipeline/", 404),
     ("GET", "/v2/pipeline", 405), ("POST", "/version", 405), ("GET", "/v4", 404), ("POST", "/v2/pipeline", 401)],
)  # fmt: skip
def test_paths_without_a_token(service, method, path, status):
    response = call(service, method, path, headers={"host": "127.0.0.1"})
    assert response.status == status
    body = response.read()
    if path == "/version" and method == "GET":
        assert body.startswith(b"pipemagic ")
    if path == "/health" or status == 404:
        assert body == b""


def test_a_read_only_token_does_not_write_in_a_transaction_that_a_full_one_began(db, make_caller):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    assert make_caller(read_only=True).post(execute("INSERT INTO t VALUES (2)"), baton=baton).status == 400
    assert db.post(execute("SELECT count(*) FROM t"), CLOSE, baton=baton).rows() == [["1"]]


@pytest.mark.parametrize("sql", ["SELECT * FROM pragma_optimize(0x10002)", "SELECT optimize(f) FROM f"])
def test_a_select_that_would_write_is_refused(db, make_caller, sql):
    db.run("CREATE VIRTUAL TABLE f USING fts4(x)", "CREATE TABLE t(a)", "CREATE INDEX i ON t(a)")
    db.run("INSERT INTO f VALUES ('a')", "INSERT INTO f VALUES ('b')", "INSERT INTO t VALUES (1)")
    for caller in (make_caller(read_only=True), db):
        assert caller.run(sql).codes == ["SQLITE_AUTH", "ok"]
    answer = db.run(
        "SELECT count(*) FROM f_segdir", "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'"
    )
    assert (answer.rows(0), answer.rows(1)) == ([["2"]], [["0"]])


@pytest.mark.parametrize(
    "sql", ["\0", "\0SELECT 1", "SELECT 1 /*\0*/ + 1", "SELECT 1 \0 FROM nowhere", "SELECT 'a\0b'"]
)
def test_a_nul_in_sql_text_is_refused_and_does_not_truncate(db, sql):
    for request in (execute(sql), {"type": "describe", "sql": sql}, {"type": "sequence", "sql": f"SELECT 1; {sql}"}):
        answer = db.post(request, CLOSE)
        assert answer.codes == ["SQL_PARSE_ERROR", "ok"]
        assert "NUL" in answer.error()["message"]


def test_describing_or_explaining_a_setting_does_not_change_it(db):
    answer = db.post(
        {"type": "describe", "sql": "PRAGMA foreign_keys = OFF"},
        execute("EXPLAIN PRAGMA foreign_keys = OFF"),
        execute("PRAGMA foreign_keys"),
        CLOSE,
    )
    assert answer.codes == ["ok"] * 4
    assert answer.rows(2) == [["1"]]


def test_a_truncated_result_ends_its_statement_and_releases_the_write_lock(tmp_path, clock):
    db = small(tmp_path, clock, response=10_000)
    db.run("CREATE TABLE t(a)")
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) INSERT INTO t SELECT i FROM n"
    cut = db.post(execute(f"{many} RETURNING a"))
    assert cut.codes == ["RESPONSE_TOO_LARGE"]
    assert "stays applied" in cut.error()["message"]
    unreadable = db.post(execute("INSERT INTO t VALUES (CAST(x'ff' AS TEXT)) RETURNING a"))
    assert unreadable.codes == ["SQLITE_MISMATCH"]
    assert db.run("INSERT INTO t VALUES (0)", "SELECT count(*) FROM t").rows(1) == [["5002"]]
    db.service.close()


def test_a_truncated_result_whose_change_is_refused_at_its_end_reports_it(tmp_path, clock):
    db = small(tmp_path, clock, response=10_000)
    db.run("CREATE TABLE p(a PRIMARY KEY)", "CREATE TABLE c(a REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) INSERT INTO c SELECT i FROM n"
    answer = db.run(f"{many} RETURNING a", "SELECT count(*) FROM c")
    assert answer.codes[:2] == ["SQLITE_CONSTRAINT", "ok"]
    assert answer.rows(1) == [["0"]]
    db.service.close()


def test_after_a_full_response_only_the_end_of_the_transaction_runs(tmp_path, clock):
    db = small(tmp_path, clock, response=10_000)
    db.run("CREATE TABLE t(a)")
    fill = [execute("SELECT zeroblob(7000)"), *[execute("SELECT 1")] * 10]
    answer = db.post(execute("BEGIN"), *fill, execute("INSERT INTO t VALUES (1)"), execute("COMMIT"), CLOSE)
    assert answer.codes[0:2] == ["ok", "ok"]
    assert answer.codes[-3:] == ["RESPONSE_TOO_LARGE", "ok", "ok"]
    assert answer.error(-3)["message"]
    assert db.run("SELECT count(*) FROM t").rows() == [["0"]]
    once = db.post(execute("SELECT zeroblob(9000)"), execute("SELECT 1"), CLOSE)
    assert once.codes == ["RESPONSE_TOO_LARGE", "ok", "ok"]  # dropped rows take no memory


def test_column_names_errors_and_descriptions_count_towards_the_limit(tmp_path, clock):
    db = small(tmp_path, clock, response=100_000)
    stored = {1: 'SELECT 1 AS "' + "x" * 20_000 + '"', 2: "SELECT " + "y" * 20_000}
    store = [{"type": "store_sql", "sql_id": number, "sql": text} for number, text in stored.items()]
    for request in (
        {"type": "execute", "stmt": {"sql_id": 1}},
        {"type": "execute", "stmt": {"sql_id": 2}},
        {"type": "describe", "sql_id": 1},
        {"type": "batch", "batch": {"steps": [{"stmt": {"sql_id": 2}}] * 50}},
    ):
        answer = db.post(*store, *[request] * 100, CLOSE)
        assert len(json.dumps(answer.body)) < 100_000 + 50 * 100 * 150
        assert len(answer.codes) == 103
    db.service.close()


def test_a_sequence_may_have_any_number_of_statements(tmp_path, clock):
    db = small(tmp_path, clock, response=10_000)
    script = "CREATE TABLE t(a);" + "INSERT INTO t VALUES (1);" * 1000
    assert db.post({"type": "sequence", "sql": script}, CLOSE).codes == ["ok", "ok"]
    assert db.run("SELECT count(*) FROM t").rows() == [["1000"]]
    failing = db.post({"type": "sequence", "sql": "SELECT 'é'; -- é\n SELECT nope"}, CLOSE)
    assert failing.error()["message"] == "SQL input error: no such column: nope (at offset 27)"
    db.service.close()


def test_large_values_are_not_collected_before_the_limit_is_checked(tmp_path, clock):
    db = small(tmp_path, clock, response=1_000_000)
    photographs = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT zeroblob(500000) FROM n"
    assert db.run(photographs).codes[0] == "RESPONSE_TOO_LARGE"  # of endless rows, after 16
    db.service.close()
