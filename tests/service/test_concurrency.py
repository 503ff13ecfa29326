"""The queue of writers: a client that disconnects leaves it, and one thread at a time has the lock."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgi_calls import Disconnect
from service_calls import CLOSE, caller_of, execute
from waiting import PATIENCE, until

from pipemagic.service.service import Service
from pipemagic.service.sqlite.database import WriteLock


@pytest.fixture
def live(tmp_path):
    """A service with a real clock and its sweeper."""
    service = Service(tmp_path / "data")
    service.catalog.create_group("local", "default", "ams")
    service.start()
    yield service
    service.close()


@pytest.fixture
def live_db(live):
    db = caller_of(live, "flights")
    db.run("CREATE TABLE t(a)")
    return db


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
