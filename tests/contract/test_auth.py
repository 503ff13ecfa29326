"""Tokens: their permissions, and the effect of a refusal on the stream (section 2)."""

import time

import jwt
import pytest
from contract_wire import CLOSE, execute
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

BODY = b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1"}},{"type":"close"}]}'


def tampered(db):
    head, claims, signature = db.token.split(".")
    return f"{head}.{claims}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


def unsigned(db):
    claims = {"id": db.name, "a": "rw", "sub": "ada"}
    return jwt.encode(claims, None, "none")


def symmetric(db):
    return jwt.encode({"id": db.name, "a": "rw", "sub": "ada"}, "x" * 32, "HS256")


def of_another_key(db):
    return jwt.encode({"id": db.name, "a": "rw", "sub": "ada"}, Ed25519PrivateKey.generate(), "EdDSA")


BAD_TOKENS = {
    "garbage": (lambda db: "garbage", "The JWT is invalid"),
    "three parts": (lambda db: "a.b.c", "The JWT is invalid"),
    "tampered": (tampered, "The JWT is invalid"),
    "unsigned": (unsigned, "The JWT is invalid"),
    "symmetric": (symmetric, "The JWT is invalid"),
    "another key": (of_another_key, "The JWT is invalid"),
    "bad right": (lambda db: db.mint(a="all"), "The JWT is invalid"),
    "bad expiry": (lambda db: db.mint(exp="soon"), "The JWT is invalid"),
    "expired": (lambda db: db.mint(exp=int(time.time()) - 100), "The JWT has expired"),
}


@pytest.mark.parametrize(("make", "cause"), BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_a_bad_token_is_401_with_its_cause(empty, make, cause):
    answer = empty.send_body(BODY, token=make(empty))
    assert answer.status == 401
    assert answer.content_type == "application/json"
    assert answer.body["error"].startswith(f"Unauthorized: `{cause}`")


HEADERS = {
    "missing": (None, "Expected authorization header but none given"),
    "no token": ("Bearer", "Auth string does not conform to '<scheme> <token>' form"),
    "basic": ("Basic YTpi", "scheme"),
}


@pytest.mark.parametrize(("header", "cause"), HEADERS.values(), ids=HEADERS)
def test_a_bad_header_is_401_with_its_cause(empty, header, cause):
    headers = {"authorization": header} if header is not None else {}
    answer = empty.send("POST", "/v2/pipeline", headers=headers, content=BODY)
    assert answer.status == 401
    assert cause.lower() in answer.body["error"].lower()
    assert answer.body["error"].startswith("Unauthorized: ")
    assert "www-authenticate" not in answer.http.headers


def test_a_refusal_has_message_and_code(empty):
    answer = empty.send("POST", "/v2/pipeline", content=BODY)
    assert answer.body["message"] == answer.body["error"]
    assert answer.body["code"] == "UNAUTHORIZED"


def test_the_token_is_checked_before_the_body(empty):
    assert empty.send("POST", "/v2/pipeline", content=b"{broken").status == 401


@pytest.mark.every_server
def test_a_token_that_has_not_expired_is_accepted(empty):
    assert empty.send_body(BODY, token=empty.mint(exp=int(time.time()) + 100)).status == 200


@pytest.mark.every_server
def test_a_token_of_another_database_is_404_and_reveals_nothing(db, other):
    answer = db.send_body(BODY, token=other.token)
    assert answer.status == 404
    assert "doesn't exist" in answer.body["error"]
    assert other.name not in answer.http.text


@pytest.mark.every_server
def test_a_token_is_invalid_after_its_database_was_recreated(server, db):
    assert db.send_body(BODY).status == 200
    server.recreate(db)
    assert db.send_body(BODY).status in (401, 404)


@pytest.mark.every_server
def test_a_recreated_database_is_empty(server, db):
    db.run("CREATE TABLE t(a)")
    stream = db.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    server.recreate(db)
    assert stream.send(execute("SELECT * FROM t")).status in (400, 401, 404)


ALLOWED_READ_ONLY = [
    "SELECT * FROM t", "VALUES (1)", "WITH x AS (SELECT 1) SELECT * FROM x", "EXPLAIN INSERT INTO t VALUES (1)",
    "EXPLAIN QUERY PLAN DELETE FROM t", "PRAGMA table_info(t)", "PRAGMA table_list", "PRAGMA index_list(t)",
    "SELECT * FROM pragma_table_info('t')", "BEGIN", "SAVEPOINT s",
]  # fmt: skip
FORBIDDEN_READ_ONLY = [
    "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t", "REPLACE INTO t VALUES (1)",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "INSERT INTO t VALUES (1) RETURNING a",
    "CREATE TABLE u(a)", "DROP TABLE t", "ALTER TABLE t RENAME TO u", "CREATE INDEX i ON t(a)", "REINDEX",
    "PRAGMA user_version = 3", "PRAGMA foreign_keys", "PRAGMA foreign_keys = OFF", "PRAGMA user_version",
]  # fmt: skip


@pytest.mark.parametrize("sql", ALLOWED_READ_ONLY)
def test_a_read_only_token_reads(db, sql):
    db.run("CREATE TABLE t(a)")
    assert db.post(execute(sql), CLOSE, token=db.mint(a="ro")).codes == ["ok", "ok"]


def test_a_read_only_token_ends_its_transactions(db):
    db.run("CREATE TABLE t(a)")
    for end in ("COMMIT", "ROLLBACK"):
        answer = db.post(execute("BEGIN"), execute("SELECT * FROM t"), execute(end), CLOSE, token=db.mint(a="ro"))
        assert set(answer.codes) == {"ok"}


def test_a_read_only_token_describes_a_write(db):
    db.run("CREATE TABLE t(a)")
    answer = db.post({"type": "describe", "sql": "INSERT INTO t VALUES (?)"}, CLOSE, token=db.mint(a="ro"))
    assert answer.result()["is_readonly"] is False


@pytest.mark.parametrize("sql", FORBIDDEN_READ_ONLY)
def test_a_read_only_token_cannot_write(db, sql):
    db.run("CREATE TABLE t(a)", "CREATE INDEX known ON t(a)")
    before = db.rows("SELECT sql FROM sqlite_master")
    answer = db.post(execute(sql), CLOSE, token=db.mint(a="ro"))
    assert answer.status == 403
    assert answer.body["error"].startswith("Authorization forbidden: ")
    assert db.rows("SELECT count(*) FROM t") == [[0]]
    assert db.rows("SELECT sql FROM sqlite_master") == before


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "sequence", "sql": "SELECT 1; INSERT INTO t VALUES (1)"},
        {"type": "batch", "batch": {"steps": [{"stmt": {"sql": "INSERT INTO t VALUES (1)"}}]}},
    ],
    ids=["sequence", "batch"],
)
def test_a_read_only_token_cannot_write_by_other_requests(db, request_):
    db.run("CREATE TABLE t(a)")
    assert db.post(request_, CLOSE, token=db.mint(a="ro")).status == 403
    assert db.rows("SELECT count(*) FROM t") == [[0]]


def test_a_403_discards_the_stream(db):
    db.run("CREATE TABLE t(a)")
    reader = db.mint(a="ro")
    baton = db.post(execute("BEGIN"), execute("SELECT * FROM t"), token=reader).baton
    assert db.post(execute("INSERT INTO t VALUES (2)"), baton=baton, token=reader).status == 403
    answer = db.post(execute("SELECT 1"), baton=baton, token=reader)
    assert (answer.status, answer.body) == (400, "Received an invalid baton")
    assert db.rows("SELECT a FROM t") == []


def test_a_401_keeps_the_stream_open(db):
    stream = db.stream()
    stream.run("BEGIN")
    assert stream.send(execute("SELECT 1"), token="garbage").status == 401
    assert stream.autocommit is False


@pytest.mark.every_server
def test_the_token_is_checked_with_a_baton_too(db, other):
    stream = db.stream()
    stream.run("SELECT 1")
    assert stream.send(execute("SELECT 1"), token=other.token).status == 404
    assert stream.rows("SELECT 2") == [[2]]


def test_a_renewed_token_continues_the_stream(db):
    stream = db.stream()
    stream.run("BEGIN")
    assert stream.send(execute("SELECT 1"), token=db.mint(iat=int(time.time()) + 1)).status == 200
    assert stream.autocommit is False


def test_a_baton_is_invalid_with_the_token_of_another_subject(db):
    stream = db.stream()
    stream.run("SELECT 1")
    answer = stream.send(execute("SELECT 1"), token=db.mint(sub="eve"))
    assert (answer.status, answer.body) == (400, "Received an invalid baton")
    assert stream.rows("SELECT 2") == [[2]]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_baton_is_invalid_with_a_token_of_other_rights(db, end):
    db.run("CREATE TABLE t(a)")
    stream = db.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    answer = stream.send(execute(end), token=db.mint(a="ro"))
    assert (answer.status, answer.body) == (400, "Received an invalid baton")
    assert db.rows("SELECT a FROM t") == []
    assert stream.rows("SELECT a FROM t") == [[1]]


@pytest.mark.every_server
def test_a_baton_is_invalid_at_another_database(db, other):
    db.run("CREATE TABLE t(a)")
    stream = db.stream()
    stream.run("SELECT 1")
    answer = other.post(execute("SELECT * FROM t"), baton=stream.baton)
    assert (answer.status, answer.body) == (400, "Received an invalid baton")
    assert stream.rows("SELECT 2") == [[2]]
