"""More connections than there are file handles."""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack

import pytest
from probes import HOST, Account
from served import Database, serve
from waiting import pause

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the limit is one of Unix")

HANDLES, CONNECTIONS = 256, 600
LOG = 64 * 1024
"""Bytes that may be logged meanwhile."""
SECONDS = 4.0


def few_handles() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (HANDLES, HANDLES))


def logged(folder) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.log*"))


def test_a_service_without_file_handles_serves_its_clients_and_logs_little(tmp_path):
    with (
        serve(tmp_path / "data", "--port", "0", "--allow-signup", prepare=few_handles) as service,
        ExitStack() as stack,
    ):
        token = Account.sign_up(service, "alice").database("quiet")
        client = stack.enter_context(Database(service.url, token))
        client.run("CREATE TABLE t(a)")
        before = logged(service.folder)
        with ExitStack() as crowd:
            for _ in range(CONNECTIONS):
                connection = crowd.enter_context(socket.socket())
                connection.setblocking(False)
                connection.connect_ex((HOST, service.port))
            for _ in range(20):
                pause(SECONDS / 20)
                assert client.rows("SELECT 1") == [("1",)]
            client.run("INSERT INTO t VALUES (1)")
        written = logged(service.folder) - before
        print(f"\n{CONNECTIONS} connections, {HANDLES} handles: {written:,} bytes of log in {SECONDS:g} s")
        assert written < LOG
        with Database(service.url, token) as newcomer:
            assert newcomer.rows("SELECT count(*) FROM t") == [("1",)]
