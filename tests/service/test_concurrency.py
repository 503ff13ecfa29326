"""Tests that need real time and threads: interrupts, disconnects, the queue of writers, locks."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from asgi_calls import Disconnect
from service_calls import CLOSE, caller_of, execute
from waiting import PATIENCE, until

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


def test_an_interrupted_insert_ends_in_a_timeout_too(live_db, live, ahead):
    filling = ENDLESS.replace("max(i)", "i")
    with put_forward(live, ahead):
        answer = live_db.post(execute("BEGIN"), execute(f"INSERT INTO t {filling}"), execute("COMMIT"), CLOSE)
    assert answer.codes == ["ok", "TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", "ok"]
    assert live_db.run("SELECT count(*) FROM t").rows() == [["0"]]


def test_a_waiting_client_that_disconnects_leaves_the_queue(live_db, live):
    holder = live_db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"))
    connection = Disconnect()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(live_db.post, execute("INSERT INTO t VALUES (2)"), CLOSE, connection=connection)
        queue = live.engine.databases.open(live.catalog.database("local", "flights")).write_lock
        until(queue.waiters)
        connection.set()
        waiting.result(PATIENCE)
    assert not queue.waiters()
    live_db.post(execute("COMMIT"), CLOSE, baton=holder.baton)
    assert live_db.run("SELECT a FROM t").rows() == [["1"]]


def test_closing_the_service_interrupts_running_statements(tmp_path):
    service = Service(tmp_path / "data")
    service.catalog.create_group("local", "default", "ams")
    service.start()
    db = caller_of(service, "flights")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(db.run, ENDLESS)
        until(lambda: any(stream._running for stream in service.engine.streams._streams.values()))
        service.engine.streams.end_all()
        assert running.result(PATIENCE).status == 503
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
