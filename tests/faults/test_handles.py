"""Exhausted file handles: new connections get an error, existing ones work, and the service recovers."""

from __future__ import annotations

import socket
import sys

import httpx
import pytest
from promises import Promise
from served import serve
from waiting import until

pytestmark = [
    pytest.mark.promise(Promise.NO_CRASH),
    pytest.mark.skipif(sys.platform == "win32", reason="resource limits"),
]

HANDLES = 80


def few_handles():
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (HANDLES, HANDLES))


def is_served(db):
    """Return False for a connection beyond the limit: it gets 503, or far beyond it is closed without a response."""
    try:
        return db.post("SELECT 1").status_code == 200
    except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
        return False


def test_streams_beyond_the_handles_are_refused_and_the_others_continue(tmp_path):
    with serve(tmp_path / "data", "--port", "0", prepare=few_handles) as service, service.database("db") as db:
        db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
        batons = []
        while (answer := db.post("SELECT * FROM t", close=False)).status_code == 200 and len(batons) < HANDLES:
            batons.append(answer.json()["baton"])
        assert answer.status_code in (429, 503), answer.text
        assert "close the streams" in answer.json()["error"] or "file handles" in answer.json()["error"]
        assert len(batons) > 5
        for baton in batons:
            db.run("INSERT INTO t VALUES (2)", baton=baton)
        assert db.rows("SELECT count(*) FROM t") == [(str(1 + len(batons)),)]
        assert db.rows("PRAGMA integrity_check") == [("ok",)]


def test_connections_beyond_the_handles_are_refused_and_later_ones_are_served(tmp_path):
    with serve(tmp_path / "data", "--port", "0", prepare=few_handles) as service, service.database("db") as db:
        db.run("CREATE TABLE t(a)")
        connections = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(2 * HANDLES)]
        try:
            db.run("INSERT INTO t VALUES (1)")
        finally:
            for connection in connections:
                connection.close()
        with service.database("db") as again:
            until(lambda: is_served(again))  # until the service has closed the other connections
            assert again.rows("SELECT a FROM t") == [("1",)]
        assert service.process.poll() is None
