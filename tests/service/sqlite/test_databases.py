"""The databases in use: opening one delays no other, and deletions and uploads work meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from service_calls import new_service

from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.databases import Databases
from pipemagic.service.sqlite.pool import Closed

WAIT = 10
"""Seconds until a call that should return counts as blocked."""


class SlowOpening:
    """Databases of which ``slow`` opens when the test allows it."""

    def __init__(self, service):
        self.catalog = service.catalog
        self.opening, self.go_on = threading.Event(), threading.Event()
        self.databases = Databases(
            service.folder / "databases", service.catalog, service.limits, lambda: 0.0, self._replicate
        )
        self.records = {
            name: service.catalog.create_database(service.catalog.home.slug, name, "default")
            for name in ("slow", "quick")
        }

    def _replicate(self, database, record):
        if record.name == "slow":
            self.opening.set()
            assert self.go_on.wait(WAIT)

    def open(self, name):
        return self.databases.open(self.records[name])


@pytest.fixture
def slow(tmp_path):
    with new_service(tmp_path) as service:
        slow = SlowOpening(service)
        yield slow
        slow.go_on.set()
        slow.databases.close()


@pytest.fixture
def pool(slow):
    with ThreadPoolExecutor(4) as pool:
        yield pool
        slow.go_on.set()


def test_the_sweeper_and_other_databases_do_not_wait_for_an_opening(slow, pool):
    opening = pool.submit(slow.open, "slow")
    assert slow.opening.wait(WAIT)
    assert pool.submit(slow.databases.in_use).result(WAIT) == []
    pool.submit(slow.databases.expire, 0.0).result(WAIT)
    assert pool.submit(slow.databases.next_deadline).result(WAIT) is None
    quick = pool.submit(slow.open, "quick").result(WAIT)
    assert slow.databases.in_use() == [quick]
    assert not opening.done()
    slow.go_on.set()
    opened = opening.result(WAIT)
    assert slow.databases.in_use() == [quick, opened]


def test_a_database_is_opened_once(slow, pool):
    openings = [pool.submit(slow.open, "slow") for _ in range(3)]
    assert slow.opening.wait(WAIT)
    slow.go_on.set()
    assert len({id(opening.result(WAIT)) for opening in openings}) == 1


def test_a_deletion_waits_for_the_opening_and_takes_the_database_out_of_use(slow, pool):
    opening = pool.submit(slow.open, "slow")
    assert slow.opening.wait(WAIT)
    record = slow.records["slow"]
    slow.catalog.delete_database(slow.catalog.home.slug, "slow")
    deletion = pool.submit(slow.databases.pop, record.id)
    slow.go_on.set()
    opened, popped = opening.result(WAIT), deletion.result(WAIT)
    assert opened is popped
    popped.close()
    assert slow.databases.in_use() == []
    with pytest.raises(Refused, match="deleted"):
        slow.open("slow")


def test_a_database_whose_opening_ends_after_the_close_is_not_left_open(slow, pool):
    opening = pool.submit(slow.open, "slow")
    assert slow.opening.wait(WAIT)
    closing = pool.submit(slow.databases.close)
    while not slow.databases._closed:
        pass
    slow.go_on.set()
    closing.result(WAIT)
    with pytest.raises(Closed):
        opening.result(WAIT)
    assert slow.databases.in_use() == []
