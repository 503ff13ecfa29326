"""Quotas: counting, blocked statements, overages, and the durability of counts."""

from __future__ import annotations

import threading

import pytest
from account_calls import person
from service_calls import CLOSE, Clock, caller_of, execute, new_service

LOCAL = "/v1/organizations/local"
MANY = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT n FROM c, t"
JANUARY_31 = 1_769_903_999.0  # 2026-01-31T23:59:59Z


@pytest.fixture
def wall():
    """Unix time that tests set."""
    wall = Clock()
    wall.time = JANUARY_31 - 3600
    return wall


@pytest.fixture
def service(tmp_path, clock, wall):
    with new_service(tmp_path, clock=clock, now=wall) as service:
        yield service


@pytest.fixture
def filled(db):
    """Three rows: CREATE counts one row read, INSERT three read and written."""
    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1), (2), (3)")
    return db


def used(operator):
    usage = operator.ok("GET", f"{LOCAL}/usage")["organization"]["usage"]
    return usage["rows_read"], usage["rows_written"]


def blocked(operator):
    shown = operator.ok("GET", LOCAL)["organization"]
    return shown["blocked_reads"], shown["blocked_writes"]


def test_counted_rows(operator, filled):
    assert used(operator) == (4, 3)
    filled.run("SELECT a FROM t")
    assert used(operator) == (7, 3)
    filled.run("SELECT 1 WHERE 0")  # at least one
    assert used(operator) == (8, 3)
    filled.run("UPDATE t SET a = a + 1 WHERE a > 1 RETURNING a")  # two changed and two returned
    assert used(operator) == (12, 5)
    filled.run("BEGIN", "DELETE FROM t", "ROLLBACK")  # rows that are rolled back count, too
    assert used(operator) == (17, 8)
    filled.run("SELECT nonsense", "INSERT INTO nothing VALUES (1)")  # failed statements do not
    assert used(operator) == (17, 8)


def test_rows_written(operator, filled):
    operator.ok("PATCH", "/v1/quotas/local", {"rows_written": 4})
    assert blocked(operator) == (False, False)
    assert filled.run("INSERT INTO t VALUES (4)").codes == ["ok", "ok"]
    answer = filled.run("INSERT INTO t VALUES (5)", "DELETE FROM t", "SELECT count(*) FROM t")
    assert answer.codes == ["BLOCKED", "BLOCKED", "ok", "ok"]
    assert answer.error()["message"] == (
        "Operation was blocked: the organization local has written 4 rows this month (quota: 4); "
        "switch its overages on, or wait for the first of next month (UTC)"
    )
    assert answer.rows(2) == [["4"]]
    assert blocked(operator) == (False, True)


def test_rows_read(operator, filled):
    operator.ok("PATCH", "/v1/quotas/local", {"rows_read": 7})
    assert filled.run("SELECT a FROM t", "SELECT 1", "INSERT INTO t VALUES (1)").codes == [
        "ok", "BLOCKED", "BLOCKED", "ok",
    ]  # fmt: skip
    assert blocked(operator) == (True, True)


def test_overages_unblock_statements(operator, filled):
    operator.ok("PATCH", "/v1/quotas/local", {"rows_read": 1, "rows_written": 1})
    assert filled.run("SELECT 1").codes == ["BLOCKED", "ok"]
    operator.ok("PATCH", LOCAL, {"overages": True})
    assert blocked(operator) == (False, False)
    assert filled.run("INSERT INTO t VALUES (4)").codes == ["ok", "ok"]
    operator.ok("PATCH", LOCAL, {"overages": False})
    assert filled.run("SELECT 1").codes == ["BLOCKED", "ok"]


def test_an_open_transaction_can_commit_over_quota(operator, filled):
    operator.ok("PATCH", "/v1/quotas/local", {"rows_written": 4})
    baton = filled.post(execute("BEGIN"), execute("INSERT INTO t VALUES (4)")).baton
    answer = filled.post(execute("INSERT INTO t VALUES (5)"), execute("COMMIT"), CLOSE, baton=baton)
    assert answer.codes == ["BLOCKED", "ok", "ok"]
    assert filled.run("SELECT count(*) FROM t").rows() == [["4"]]


def test_counts_start_from_zero_each_month(operator, filled, wall, clock, service):
    operator.ok("PATCH", "/v1/quotas/local", {"rows_written": 3})
    assert filled.run("INSERT INTO t VALUES (4)").codes == ["BLOCKED", "ok"]
    service.meter.flush()
    wall.time = JANUARY_31 + 1
    clock.advance(5)
    service.engine.sweep()
    assert filled.run("INSERT INTO t VALUES (4)").codes == ["ok", "ok"]
    assert used(operator) == (1, 1)
    path = f"{LOCAL}/databases/flights/usage"
    january = operator.ok("GET", path, None, {"from": "2026-01-01T00:00:00Z", "to": "2026-01-31T23:00:00+00:00"})
    assert january["total"]["rows_written"] == 3
    both = operator.ok("GET", path, None, {"from": "2026-01-01T00:00:00Z"})
    assert both["database"]["usage"]["rows_written"] == 4
    assert both["database"]["instances"][0]["usage"] == both["total"]


@pytest.mark.parametrize("moment", ["2026-01-01", "yesterday", "2026-01-01T00:00:00", "9999-99-99T00:00:00Z"])
def test_times_without_an_offset_are_refused(operator, filled, moment):
    path = f"{LOCAL}/databases/flights/usage"
    assert operator.refused("GET", path, None, {"from": moment}) == (
        400, '"from" must be a time such as 2026-01-31T00:00:00Z',
    )  # fmt: skip


def test_storage(operator, filled, clock, service):
    operator.ok("PATCH", "/v1/quotas/local", {"storage_bytes": "100kb"})
    filled.run("INSERT INTO t VALUES (zeroblob(5000000))")  # more than the WAL keeps
    clock.advance(5)
    service.engine.sweep()
    answer = filled.run("INSERT INTO t VALUES (1)", "DELETE FROM t WHERE length(a) > 100", "VACUUM")
    assert answer.codes == ["BLOCKED", "ok", "ok", "ok"]  # statements that free space may run
    assert "run VACUUM" in answer.error()["message"]
    assert blocked(operator) == (False, True)


def test_storage_counts_a_large_write_ahead_log(operator, filled, clock, service):
    """A cursor keeps it from shrinking: the file itself has one row of 1 MB."""
    operator.ok("PATCH", "/v1/quotas/local", {"storage_bytes": "16mb"})
    chunks = iter(filled.cursor(f"SELECT hex(zeroblob(100)) FROM ({MANY})").chunks)
    assert next(chunks)
    for _ in range(30):
        assert filled.run("UPDATE t SET a = randomblob(1000000) WHERE a = 1 OR length(a) > 1").codes == ["ok", "ok"]
    clock.advance(5)
    service.engine.sweep()
    (database,) = operator.ok("GET", f"{LOCAL}/databases")["databases"]
    size = operator.ok("GET", f"{LOCAL}/databases/{database['Name']}/usage")["total"]["storage_bytes"]
    assert size > 16 * 1024 * 1024
    assert filled.run("INSERT INTO t VALUES (1)").codes == ["BLOCKED", "ok"]
    assert b"".join(chunks)
    service.engine.sweep()  # truncates it, and measures in the next interval
    clock.advance(5)
    service.engine.sweep()
    assert filled.run("INSERT INTO t VALUES (1)").codes == ["ok", "ok"]


def test_default_quotas_apply_to_organizations_without_their_own(operator, filled, service):
    operator.ok("PATCH", "/v1/quotas", {"rows_written": 3})
    assert filled.run("INSERT INTO t VALUES (4)").codes == ["BLOCKED", "ok"]
    assert operator.ok("PATCH", "/v1/quotas/local", {"rows_written": 100}) == {
        "quotas": {"rows_read": 0, "rows_written": 100, "storage_bytes": 0},
    }  # fmt: skip
    assert filled.run("INSERT INTO t VALUES (4)").codes == ["ok", "ok"]
    assert operator.ok("GET", f"{LOCAL}/plans")["plans"][0]["quotas"]["rowsWritten"] == 100
    person(service, "ada")
    assert operator.ok("GET", "/v1/quotas") == {
        "default": {"rows_read": 0, "rows_written": 3, "storage_bytes": 0},
        "organizations": {
            "ada": {"quotas": None, "usage": {"rows_read": 0, "rows_written": 0}},
            "local": {
                "quotas": {"rows_read": 0, "rows_written": 100, "storage_bytes": 0},
                "usage": {"rows_read": 5, "rows_written": 4},
            },
        },
    }  # fmt: skip
    operator.ok("DELETE", "/v1/quotas/local")
    assert filled.run("INSERT INTO t VALUES (5)").codes == ["BLOCKED", "ok"]
    assert operator.refused("PATCH", "/v1/quotas", {"rows_read": -1})[0] == 400
    assert operator.refused("PATCH", "/v1/quotas/nope", {"rows_read": 1}) == (404, "organization not found")


def test_the_usage_of_deleted_databases_still_counts(operator, filled, make_caller):
    operator.ok("PATCH", "/v1/quotas/local", {"rows_written": 3})
    operator.ok("DELETE", f"{LOCAL}/databases/flights")
    assert make_caller("flights").run("CREATE TABLE t (a)").codes == ["BLOCKED", "ok"]
    assert used(operator) == (4, 3)


def test_quotas_are_per_organization(operator, filled, service):
    ada = person(service, "ada")
    operator.ok("PATCH", "/v1/quotas/local", {"rows_written": 1})
    ada.ok("POST", "/v1/groups", {"name": "g", "location": "ams"})
    ada.ok("POST", "/v1/databases", {"name": "own", "group": "g"})
    token = ada.ok("POST", "/v1/databases/own/auth/tokens")["jwt"]
    filled.token = token
    assert filled.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)").codes == ["ok"] * 3


def test_counts_are_written_every_five_seconds_and_at_the_end(tmp_path, wall):
    clock = Clock()
    with new_service(tmp_path, clock=clock, now=wall) as service:
        service.engine.sweep()
        caller_of(service, "flights").run("SELECT 1")
        clock.advance(4.9)
        service.engine.sweep()
        assert service.catalog.usage.of_organization("local", "2026-01") == (0, 0)
        clock.advance(0.1)
        service.engine.sweep()
        assert service.catalog.usage.of_organization("local", "2026-01") == (1, 0)
        caller_of(service, "flights").run("SELECT 2")
    from pipemagic.service.service import Service

    again = Service(tmp_path / "data", clock=clock, now=wall)
    assert again.catalog.usage.of_organization("local", "2026-01") == (2, 0)
    again.close()


def test_counts_are_kept_if_the_catalog_cannot_be_written(service, operator, filled, monkeypatch, caplog):
    import apsw

    def full(*_):
        raise apsw.FullError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(service.catalog.usage, "add", full)
        service.meter.flush()
        filled.run("SELECT 1")
        service.meter.flush()
    assert "the usage cannot be written to the catalog: disk full" in caplog.text
    assert used(operator) == (5, 3)


def test_no_count_is_lost_between_threads_and_flushes(service, operator, db):
    record = service.catalog.database("local", "flights")
    operator.ok("PATCH", "/v1/quotas/local", {"rows_read": 60_000})
    together = threading.Barrier(7)

    def count():
        together.wait()
        for _ in range(5000):
            service.meter.block(record)
            service.meter.count(record, 2, 1)

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    together.wait()
    for _ in range(20):
        service.meter.flush()
        operator.ok("PATCH", LOCAL, {"overages": False})  # allowances are created meanwhile
    for thread in threads:
        thread.join()
    assert blocked(operator) == (True, True)
    assert used(operator) == (60_000, 30_000)
