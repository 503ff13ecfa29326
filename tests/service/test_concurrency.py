"""Tests that need real time and threads: interrupts, disconnects, the queue of writers, locks."""

from __future__ import annotations

import math
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from asgi_calls import Disconnect
from service_calls import CLOSE, GET_AUTOCOMMIT, caller_of, execute
from waiting import AT_ONCE, PATIENCE, until

from pipemagic.service.limits import Limits
from pipemagic.service.service import Service
from pipemagic.service.sqlite.write_lock import WriteLock

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


class Ahead:
    """The real clock, which a test can advance, to wait for a part of a time limit only."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return time.monotonic() + self.seconds


@pytest.fixture
def ahead():
    return Ahead()


@pytest.fixture
def live(tmp_path, ahead):
    """A service with a real clock and its sweeper."""
    service = Service(tmp_path / "data", limits=Limits(writer_wait=5.0), clock=ahead)
    service.catalog.create_group("local", "default", "ams")
    service.start()
    yield service
    service.close()


@pytest.fixture
def live_db(live):
    db = caller_of(live, "flights")
    db.run("CREATE TABLE t(a)")
    return db


@contextmanager
def put_forward(live, ahead):
    """Advance the clock by 4 s as soon as a request runs within its transaction."""

    def wait():
        streams = live.engine.streams._streams
        until(lambda: any(one._running and one.window_ends < math.inf for one in list(streams.values())))
        ahead.seconds += 4

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(wait)
        yield
        done.result()


def test_a_statement_that_runs_past_the_time_limit_is_interrupted_and_rolled_back(live_db, live, ahead):
    began = ahead()
    with put_forward(live, ahead):
        answer = live_db.post(
            execute("BEGIN IMMEDIATE"),
            execute("INSERT INTO t VALUES (1)"),
            execute(ENDLESS),
            execute("INSERT INTO t VALUES (2)"),
            GET_AUTOCOMMIT,
        )
    took = ahead() - began
    assert answer.codes == ["ok", "ok", "TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", "ok"]
    assert answer.response(4)["is_autocommit"] is True
    assert 4.9 < took < 5 + AT_ONCE
    assert live_db.post(execute("SELECT count(*) FROM t"), CLOSE, baton=answer.baton).rows() == [["0"]]


def test_an_interrupted_insert_ends_in_a_timeout_too(live_db, live, ahead):
    filling = ENDLESS.replace("max(i)", "i")
    with put_forward(live, ahead):
        answer = live_db.post(execute("BEGIN"), execute(f"INSERT INTO t {filling}"), execute("COMMIT"), CLOSE)
    assert answer.codes == ["ok", "TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", "ok"]
    assert live_db.run("SELECT count(*) FROM t").rows() == [["0"]]


def test_a_client_that_disconnects_stops_its_statement_and_loses_its_transaction(live_db, live):
    baton = live_db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    connection = Disconnect()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(live_db.post, execute(ENDLESS), baton=baton, connection=connection)
        stream = next(iter(live.engine.streams._streams.values()))
        until(lambda: stream._running)
        began = time.monotonic()
        connection.set()
        running.result(AT_ONCE)
    assert time.monotonic() - began < AT_ONCE
    assert len(live.engine.streams) == 0
    assert live_db.run("INSERT INTO t VALUES (2)", "SELECT a FROM t").rows(1) == [["2"]]


def test_a_waiting_client_that_disconnects_leaves_the_queue(live_db, live):
    holder = live_db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"))
    connection = Disconnect()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(live_db.post, execute("INSERT INTO t VALUES (2)"), CLOSE, connection=connection)
        queue = live.engine.databases.open(live.catalog.database("local", "flights")).write_lock
        until(queue.waiters)
        connection.set()
        waiting.result(AT_ONCE)
    assert not queue.waiters()
    live_db.post(execute("COMMIT"), CLOSE, baton=holder.baton)
    assert live_db.run("SELECT a FROM t").rows() == [["1"]]


def test_writers_wait_for_each_other_without_an_error_in_order_of_arrival(live_db, live):
    holder = live_db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (0)"))
    queue = live.engine.databases.open(live.catalog.database("local", "flights")).write_lock
    with ThreadPoolExecutor(5) as pool:
        waiting = []
        for number in range(1, 6):
            waiting.append(pool.submit(live_db.run, f"INSERT INTO t VALUES ({number})"))
            until(lambda number=number: len(queue._waiting) >= number)
        assert live_db.run("SELECT count(*) FROM t").rows() == [["0"]]  # readers never wait
        live_db.post(execute("COMMIT"), CLOSE, baton=holder.baton)
        assert all(one.result(PATIENCE).codes == ["ok", "ok"] for one in waiting)
    assert live_db.run("SELECT a FROM t ORDER BY rowid").rows() == [[str(number)] for number in range(6)]


def test_a_writer_behind_an_overdue_transaction_gets_the_lock_when_that_is_rolled_back(live_db, ahead):
    began = ahead()
    live_db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"))
    ahead.seconds += 4
    answer = live_db.run("INSERT INTO t VALUES (2)", "SELECT a FROM t")
    assert answer.codes == ["ok", "ok", "ok"]
    assert answer.rows(1) == [["2"]]
    assert 5 <= ahead() - began < 5 + AT_ONCE


def test_a_writer_that_waits_too_long_gets_busy_with_the_age_of_the_lock(tmp_path):
    service = Service(tmp_path / "data", limits=Limits(writer_wait=0.3))
    service.catalog.create_group("local", "default", "ams")
    service.start()
    db = caller_of(service, "flights")
    db.run("CREATE TABLE t(a)")
    holder = db.post(execute("BEGIN IMMEDIATE"))
    answer = db.post(execute("BEGIN IMMEDIATE"), GET_AUTOCOMMIT, CLOSE)
    assert answer.codes[0] == "SQLITE_BUSY"
    assert re.search(r"another stream has been writing for \d+\.\d s", answer.error()["message"])
    assert answer.response(1)["is_autocommit"] is True
    db.post(CLOSE, baton=holder.baton)
    assert db.run("INSERT INTO t VALUES (1)").codes == ["ok", "ok"]
    service.close()


def test_a_transaction_that_waits_for_the_lock_past_its_time_limit_times_out(live_db, ahead):
    deferred = live_db.post(execute("BEGIN"))
    ahead.seconds += 4
    live_db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"))
    answer = live_db.post(execute("INSERT INTO t VALUES (2)"), execute("COMMIT"), CLOSE, baton=deferred.baton)
    assert answer.codes == ["TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", "ok"]


def test_a_baton_that_is_sent_twice_at_the_same_time_runs_once(live_db, live):
    baton = live_db.post(execute("SELECT 1")).baton
    connection = Disconnect()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(live_db.post, execute(ENDLESS), baton=baton, connection=connection)
        stream = next(iter(live.engine.streams._streams.values()))
        until(lambda: stream._running)
        second = live_db.post(execute("SELECT 2"), baton=baton)
        assert second.body == "Received a baton that has already been used"
        connection.set()
        running.result(AT_ONCE)


def test_closing_the_service_interrupts_running_statements(tmp_path):
    service = Service(tmp_path / "data")
    service.catalog.create_group("local", "default", "ams")
    service.start()
    db = caller_of(service, "flights")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(db.run, ENDLESS)
        until(lambda: any(stream._running for stream in service.engine.streams._streams.values()))
        began = time.monotonic()
        service.engine.streams.end_all()
        assert running.result(AT_ONCE).status == 503
    assert time.monotonic() - began < AT_ONCE
    service.close()


def test_the_next_writer_gets_the_lock_when_an_expired_one_releases_it():
    lock = WriteLock(time.monotonic)
    holder, expired, successor = (lock.acquire(math.inf) for _ in range(3))
    expired.finish()
    lock.release(holder)
    assert not successor.done
    lock.release(expired)
    assert successor.granted
    assert successor.done
    lock.release(successor)
    assert lock.holder_age() == 0.0


def test_one_thread_at_a_time_has_the_write_lock():
    lock, inside, most = WriteLock(time.monotonic), [], []
    guard = threading.Lock()

    def writer() -> None:
        for _ in range(200):
            waiter = lock.acquire(time.monotonic() + 30)
            assert waiter.wait(30)
            assert waiter.granted
            with guard:
                inside.append(1)
                most.append(len(inside))
            with guard:
                inside.pop()
            lock.release(waiter)

    threads = [threading.Thread(target=writer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(most) == 800
    assert max(most) == 1
