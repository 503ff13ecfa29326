"""A service with two databases of one organization, in process."""

from __future__ import annotations

import pytest
from service_calls import Clock, caller_of

from pipemagic.service.core import Service


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def service(tmp_path, clock):
    service = Service(tmp_path / "data", clock=clock)
    service.catalog.create_group("local", "default", "ams")
    yield service
    service.close()


@pytest.fixture
def db(service):
    db = caller_of(service, "db")
    db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES ('mine')")
    return db


@pytest.fixture
def other(service):
    return caller_of(service, "other")
