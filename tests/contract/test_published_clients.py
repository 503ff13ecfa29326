"""Literal requests of published clients, and the parts of the responses that they read."""

import json

import pytest
from contract_wire import CLOSE, GET_AUTOCOMMIT, not_, ok, value

AUTOCOMMIT = {"type": "is_autocommit"}


@pytest.fixture
def table(db):
    db.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    return db


def cursor(db, *steps, baton=None, **headers):
    """Post steps to the cursor; return the first line and the entries of the specification."""
    body = json.dumps({"baton": baton, "batch": {"steps": steps}})
    answer = db.send("POST", "/v3/cursor", headers=db.headers(**headers), content=body.encode())
    assert answer.status == 200, answer.http.text
    head, *entries = map(json.loads, answer.http.text.splitlines())
    return head, [one for one in entries if one["type"] != "replication_index"]


def stmt(sql, *args, **fields):
    return {"sql": sql, "args": [value(one) for one in args], **fields}


def chained_steps(*stmts):
    """Return the batch of npm's @libsql/client."""
    steps = [{"stmt": {"sql": "BEGIN IMMEDIATE", "want_rows": False}}]
    steps += [{"stmt": one, "condition": ok(number)} for number, one in enumerate(stmts)]
    commit = len(steps)
    steps.append({"stmt": {"sql": "COMMIT", "want_rows": False}, "condition": ok(commit - 1)})
    steps.append({"stmt": {"sql": "ROLLBACK", "want_rows": False}, "condition": not_(ok(commit))})
    return {"type": "batch", "batch": {"steps": steps}}


# npm @libsql/client: version 2 only.


@pytest.mark.parametrize("good", [True, False])
def test_a_write_batch_of_stored_texts_that_are_never_closed(table, good):
    texts = ["INSERT INTO t(b) VALUES (?)", "SELECT count(*) AS n FROM t" if good else "SELECT * FROM nope"]
    stored = [{"type": "store_sql", "sql_id": number, "sql": text} for number, text in enumerate(texts)]
    by_id = [
        {"sql_id": 0, "args": [value("x")], "named_args": [], "want_rows": True},
        {"sql_id": 0, "args": [value("y")], "named_args": [], "want_rows": True},
        {"sql_id": 1, "args": [], "named_args": [], "want_rows": True},
    ]
    answer = table.post(*stored, chained_steps(*by_id), CLOSE)
    assert answer.codes == ["ok"] * 4
    expected = ["ok"] * 5 + ["skipped"] if good else ["ok", "ok", "ok", None, "skipped", "ok"]
    assert [got if wanted else None for got, wanted in zip(answer.steps(2), expected, strict=True)] == expected
    assert table.rows("SELECT count(*) FROM t") == [[2 if good else 0]]


def test_a_read_batch_begins_a_read_only_transaction(table):
    table.run("INSERT INTO t(b) VALUES (1)")
    begin = {"type": "batch", "batch": {"steps": [{"stmt": {"sql": "BEGIN TRANSACTION READONLY", "want_rows": False}}]}}
    answer = table.post(begin, {"type": "execute", "stmt": stmt("SELECT b FROM t")}, CLOSE)
    assert answer.codes == ["ok", "ok", "ok"]
    assert answer.steps() == ["ok"]
    assert answer.rows(1) == [[1]]


def test_an_interactive_transaction_begins_with_a_batch_and_continues_with_the_baton(table):
    begin = {"type": "batch", "batch": {"steps": [{"stmt": {"sql": "BEGIN IMMEDIATE", "want_rows": False}}]}}
    insert = stmt("INSERT INTO t(b) VALUES (?)", "kept")
    first = table.post({"type": "batch", "batch": {"steps": [*begin["batch"]["steps"], {"stmt": insert}]}})
    second = table.post({"type": "execute", "stmt": insert}, baton=first.baton)
    last = table.post({"type": "execute", "stmt": {"sql": "COMMIT", "want_rows": False}}, CLOSE, baton=second.baton)
    assert last.codes == ["ok", "ok"]
    assert last.baton is None
    assert table.rows("SELECT count(*) FROM t") == [[2]]


def test_a_migration_switches_foreign_keys_off_and_on_around_its_transaction(db):
    db.run("CREATE TABLE p(a PRIMARY KEY)", "CREATE TABLE c(a REFERENCES p)", "INSERT INTO p VALUES (1)",
           "INSERT INTO c VALUES (1)")  # fmt: skip
    off, on = ({"type": "execute", "stmt": {"sql": f"PRAGMA foreign_keys={state}"}} for state in ("off", "on"))
    answer = db.post(off, chained_steps(stmt("DELETE FROM p")), on, CLOSE)
    assert answer.steps(1) == ["ok", "ok", "ok", "skipped"]
    assert db.rows("SELECT count(*) FROM p") == [[0]]


# PyPI turso-serverless and npm @tursodatabase/serverless: version 3, a cursor for each statement.


def test_each_statement_is_a_cursor_followed_by_a_probe(table):
    def run(sql, baton=None):
        probe = {"stmt": {"sql": "SELECT 1", "want_rows": False}, "condition": AUTOCOMMIT}
        head, entries = cursor(table, {"stmt": stmt(sql)}, probe, baton=baton, connection="close")
        assert head.keys() >= {"baton", "base_url"}
        assert head["base_url"] is None
        return head["baton"], any(one.get("step") == 1 for one in entries)

    baton, autocommit = run("BEGIN")
    assert autocommit is False
    baton, autocommit = run("INSERT INTO t(b) VALUES (1)", baton)
    assert autocommit is False
    baton, autocommit = run("COMMIT", baton)
    assert autocommit is True
    answer = table.post({"type": "sequence", "sql": "INSERT INTO t(b) VALUES (2); BEGIN"}, GET_AUTOCOMMIT, baton=baton,
                        version=3)  # fmt: skip
    assert answer.response(1) == {"type": "get_autocommit", "is_autocommit": False}
    assert table.post(CLOSE, baton=answer.baton, version=3).codes == ["ok"]
    assert table.rows("SELECT count(*) FROM t") == [[2]]


# Rust clients.


def test_describe_then_a_cursor_or_a_batch_with_get_autocommit(table):
    described = table.post({"type": "describe", "sql": "INSERT INTO t(b) VALUES (?)", "sql_id": None}, version=3)
    assert described.result().keys() >= {"params", "cols", "is_explain", "is_readonly"}
    bound = {"args": [{"type": "float", "value": 1}], "named_args": [], "want_rows": True, "replication_index": None}
    step = {"condition": None, "stmt": {"sql": "INSERT INTO t(b) VALUES (?)", "sql_id": None, **bound}}
    written = table.post({"type": "batch", "batch": {"steps": [step], "replication_index": None}}, GET_AUTOCOMMIT,
                         baton=described.baton, version=3)  # fmt: skip
    assert written.steps() == ["ok"]
    assert written.response(1)["is_autocommit"] is True
    select = {"condition": None, "stmt": {"sql": "SELECT b FROM t", "sql_id": None, **bound, "args": []}}
    head, entries = cursor(table, select, baton=written.baton)
    assert [one["row"] for one in entries if one["type"] == "row"] == [[{"type": "float", "value": 1.0}]]
    assert table.post(CLOSE, baton=head["baton"], version=3).codes == ["ok"]


# All clients.


def test_every_optional_field_may_be_null(table):
    nothing = {"args": None, "named_args": None, "want_rows": None, "replication_index": None}
    select = {"sql": "SELECT 7", "sql_id": None, **nothing}
    step = {"condition": None, "stmt": select}
    plain = {"sql": "SELECT 7", "sql_id": None, "replication_index": None}
    answer = table.post(
        {"type": "execute", "stmt": select}, {"type": "batch", "batch": {"steps": [step], "replication_index": None}},
        {"type": "sequence", **plain}, {"type": "describe", **plain},
    )  # fmt: skip
    assert answer.codes == ["ok"] * 4
    assert (answer.rows(0), answer.steps(1)) == ([[7]], ["ok"])
    assert [one["type"] for one in cursor(table, step)[1]] == ["step_begin", "row", "step_end"]


def test_a_cursor_omits_rows_that_are_not_wanted(table):
    table.run("INSERT INTO t(b) VALUES (1), (2)")
    unwanted = {"stmt": stmt("UPDATE t SET b = 3 RETURNING b", want_rows=False)}
    _, entries = cursor(table, unwanted, {"stmt": stmt("SELECT b FROM t WHERE a = 1")})
    assert [one["type"] for one in entries] == ["step_begin", "step_end", "step_begin", "row", "step_end"]
    assert entries[1]["affected_row_count"] == 2
