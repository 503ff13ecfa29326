"""Jumps of the clocks: windows use the monotonic clock, tokens the wall clock, and no data is lost."""

from __future__ import annotations

import pytest
from promises import Promise
from service_calls import CLOSE, Clock, caller_of, execute

from pipemagic.service.service import Service

pytestmark = pytest.mark.promise(Promise.DURABILITY)

DAY = 86400.0


class Wall(Clock):
    def __init__(self):
        self.time = 1_700_000_000.0


@pytest.fixture
def clocks():
    return Clock(), Wall()


@pytest.fixture
def service(tmp_path, clocks):
    service = Service(tmp_path / "data", clock=clocks[0], now=clocks[1])
    service.catalog.create_group("local", "default", "ams")
    yield service
    service.close()


@pytest.mark.parametrize("jump", [-400 * DAY, 40000 * DAY])
def test_a_jump_of_the_wall_clock_ends_no_stream_and_no_transaction(service, clocks, jump):
    clock, wall = clocks
    db = caller_of(service, "db")
    db.run("CREATE TABLE t(a)")
    stream = db.post(execute("BEGIN"), execute("INSERT INTO t VALUES (1)"))
    wall.advance(jump)
    clock.advance(4.9)
    service.engine.sweep()
    wall.advance(-2 * jump)
    answer = db.post(execute("INSERT INTO t VALUES (2)"), execute("COMMIT"), CLOSE, baton=stream.baton)
    assert answer.codes == ["ok", "ok", "ok"]
    assert db.run("SELECT a FROM t").rows() == [["1"], ["2"]]


def test_the_windows_use_only_the_monotonic_clock(service, clocks):
    clock, wall = clocks
    db = caller_of(service, "db")
    stream = db.post(execute("SELECT 1"))
    wall.advance(-400 * DAY)
    clock.advance(10)
    assert db.post(execute("SELECT 1"), baton=stream.baton).body["code"] == "STREAM_EXPIRED"


@pytest.mark.promise(Promise.BOUNDARIES)
def test_a_token_is_checked_by_the_wall_clock_at_each_request(service, clocks):
    clock, wall = clocks
    db = caller_of(service, "db")
    record = service.catalog.database("local", "db")
    db.token = service.tokens.issue_database(record, read_only=False, expires_in=DAY, subject="ada")
    assert db.run("SELECT 1").codes == ["ok", "ok"]
    clock.advance(10 * DAY)  # does not change the date
    assert db.run("SELECT 1").codes == ["ok", "ok"]
    wall.advance(DAY + 1)
    assert db.post(execute("SELECT 1"), CLOSE).status == 401
    wall.advance(-2 * DAY)
    assert db.run("SELECT 1").codes == ["ok", "ok"]


def test_items_with_a_creation_time_in_the_future_are_listed_and_deleted(service, clocks):
    _, wall = clocks
    wall.advance(400 * DAY)
    caller_of(service, "late")
    wall.advance(-800 * DAY)
    caller_of(service, "early").run("CREATE TABLE t(a)")
    assert {database.name for database in service.catalog.databases("local")} == {"late", "early"}
    service.catalog.delete_database("local", "late")
    assert {database.name for database in service.catalog.databases("local")} == {"early"}


def test_commit_numbers_grow_after_jumps_of_the_wall_clock(tmp_path, clocks):
    clock, wall = clocks
    indexes = []
    for jump in (0, -900 * DAY, 1800 * DAY):
        wall.advance(jump)
        service = Service(tmp_path / "data", clock=clock, now=wall)
        if jump == 0:
            service.catalog.create_group("local", "default", "ams")
        answer = caller_of(service, "db").run("CREATE TABLE IF NOT EXISTS t(a)", "INSERT INTO t VALUES (1)")
        indexes.append(int(answer.response(1)["result"]["replication_index"]))
        service.close()
    assert indexes == sorted(set(indexes))
