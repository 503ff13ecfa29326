"""A service in process with two databases of one organization."""

from __future__ import annotations

import pytest
from service_calls import caller_of


@pytest.fixture
def db(service):
    db = caller_of(service, "db")
    db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES ('mine')")
    return db


@pytest.fixture
def other(service):
    return caller_of(service, "other")
