"""Responses to pipelines: limits, stored texts, sizes."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import contextmanager

import pytest
from asgi_calls import runtime
from service_calls import CLOSE, caller_of, execute

from pipemagic.service.limits import Limits
from pipemagic.service.memory import Reservation
from pipemagic.service.service import Service


def small(tmp_path, clock, **limits):
    service = Service(tmp_path / "data", clock=clock, limits=Limits(**limits))
    service.catalog.create_group("local", "default", "ams")
    return caller_of(service, "flights")


@contextmanager
def closing_reservations(*reservations):
    try:
        yield reservations
    finally:
        for reservation in reservations:
            reservation.release()


def store(sql_id, sql):
    return {"type": "store_sql", "sql_id": sql_id, "sql": sql}


def test_a_thousand_texts_and_more_can_be_stored(db):
    answer = db.post(
        *[store(number, f"SELECT {number}") for number in range(1200)],
        {"type": "execute", "stmt": {"sql_id": 999}}, store(5, "SELECT 1"), CLOSE,
    )  # fmt: skip
    assert answer.codes[:1200] == ["ok"] * 1200
    assert answer.rows(1200) == [["999"]]
    assert answer.error(1201)["message"] == "SQL text 5 already exists"


def test_stored_texts_count_as_memory_of_their_database_until_they_are_closed(db, make_caller):
    memory, text = runtime().memory, "SELECT 1 -- " + "a" * 1_000_000 + "😀"
    before = memory.taken
    taken = []
    streams = []
    for _ in range(2):
        answer = db.post(store(1, text), store(2, text))
        assert answer.codes == ["ok", "ok"]
        streams.append(answer.baton)
        taken.append(memory.taken - before)
    assert 2 * 4_000_000 < taken[0] < 2 * 5_100_000  # four bytes a character, and one more in UTF-8
    assert taken[1] == 2 * taken[0]
    assert db.post({"type": "close_sql", "sql_id": 1}, {"type": "close_sql", "sql_id": 7}, baton=streams[0]).codes
    assert memory.taken - before == 3 * taken[0] // 2
    db.post(CLOSE, baton=streams[1])
    assert memory.taken - before == taken[0] // 2
    db.service.engine.streams.end_all()
    assert memory.taken == before


def test_a_text_without_room_is_refused_and_others_can_be_stored(db):
    (record,) = db.service.catalog.databases("local")
    memory = runtime().memory
    with closing_reservations(Reservation(memory, "another database"), Reservation(memory, record.id)) as (other, own):
        assert other.resize(memory.largest)
        assert own.resize(memory.largest // 2 - 20_000)
        answer = db.post(store(1, "SELECT 1" + " " * 40_000), store(2, "SELECT 2"), CLOSE)
        assert answer.codes == ["SQL_STORE_TOO_LARGE", "ok", "ok"]


def test_the_statements_of_a_long_script_are_not_all_in_memory(db):
    tracemalloc.start()
    try:
        assert db.post({"type": "sequence", "sql": "SELECT 1;" * 5_000}, CLOSE).codes == ["ok", "ok"]
        assert tracemalloc.get_traced_memory()[1] < 3_000_000  # all of them have 7 MB
    finally:
        tracemalloc.stop()


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
