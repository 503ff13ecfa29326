"""Services in process and as a process; each test names the promise that it keeps."""

from __future__ import annotations

import pytest
from promises import pytest_generate_tests
from served import serve
from service_calls import caller_of

__all__ = ["pytest_generate_tests"]


@pytest.fixture
def db(service):
    db = caller_of(service, "db")
    db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES ('mine')")
    return db


@pytest.fixture
def other(service):
    return caller_of(service, "other")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A process with the database ``db``."""
    with serve(tmp_path_factory.mktemp("served") / "data", "--port", "0") as service:
        service.create("db")
        yield service


@pytest.fixture(scope="module")
def token(served):
    return served.token("db")


@pytest.fixture
def still_responds(served):
    yield
    assert served.process.poll() is None
    with served.database("db") as db:
        assert db.rows("SELECT 1") == [("1",)]
