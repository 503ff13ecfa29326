"""The service as a process: its start, how clients find it, and its end."""

from __future__ import annotations

import http.client
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from filelock import FileLock, Timeout
from waiting import pause

import pipemagic
from pipemagic import __version__
from pipemagic.errors import ServiceError
from pipemagic.service import listeners
from pipemagic.service import process as service_process
from pipemagic.service.settings import Settings

WAIT = 15.0
MAIN = Path(pipemagic.__file__).parent / "service" / "__main__.py"
FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

posix = pytest.mark.skipif(os.name != "posix", reason="signals and file modes are those of POSIX")


class Process:
    """A started service."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.popen = subprocess.Popen(
            [sys.executable, "-P", MAIN, "--data", folder, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.line = json.loads(self.popen.stdout.readline())
        self.url = self.line.get("url")

    @property
    def address(self):
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    @property
    def headers(self):
        return {"Authorization": f"Bearer {(self.folder / 'platform-token').read_text().strip()}"}

    def call(self, method, path, **options):
        return httpx.request(method, self.url + path, **{"headers": self.headers, "timeout": WAIT} | options)

    def lease(self):
        """Open a lease; return the connection that holds it, and its first line."""
        connection = socket.create_connection(self.address, timeout=WAIT)
        request = f"GET /pipemagic/lease HTTP/1.1\r\nHost: localhost\r\nAuthorization: {self.headers['Authorization']}"
        connection.sendall(request.encode() + b"\r\n\r\n")
        answer = b""
        while b"}\n" not in answer:
            answer += connection.recv(4096)
        return connection, answer

    def database(self):
        """Create a group and a database; return the headers for its SQL."""
        org = "/v1/organizations/local"
        assert self.call("POST", f"{org}/groups", json={"name": "edge", "location": "ams"}).status_code == 200
        assert self.call("POST", f"{org}/databases", json={"name": "db", "group": "edge"}).status_code == 200
        token = self.call("POST", f"{org}/databases/db/auth/tokens").json()["jwt"]
        return {"Authorization": f"Bearer {token}"}

    def ended(self):
        """Wait for the end."""
        assert self.popen.wait(WAIT) == 0


@contextmanager
def process(folder, *options):
    one = Process(folder, *options)
    try:
        yield one
    finally:
        one.popen.kill()
        one.popen.wait()
        one.popen.stdin.close()
        one.popen.stdout.close()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """A service that no test stops."""
    with process(tmp_path_factory.mktemp("lasting") / "data", "--idle-timeout", "600") as one:
        yield one


def execute(sql):
    return {"requests": [{"type": "execute", "stmt": {"sql": sql}}]}


def test_it_prints_its_address(lasting):
    assert lasting.line == {
        "url": lasting.url, "organization": "local", "pid": lasting.popen.pid, "idle_timeout": 600,
    }  # fmt: skip
    assert lasting.url.startswith("http://127.0.0.1:")
    assert json.loads((lasting.folder / "service.json").read_text()) == {
        **lasting.line, "port": lasting.address[1], "host": platform.node(), "version": __version__,
    }  # fmt: skip
    answer = httpx.get(f"{lasting.url}/version")
    assert answer.status_code == 200
    assert "server" not in answer.headers
    assert lasting.call("GET", "/v1/auth/validate").json() == {"exp": -1}


def test_the_log_has_events_and_no_secrets(tmp_path):
    with process(tmp_path / "data") as one:
        headers = one.database()
        httpx.get(f"{one.url}/v1/locations?authToken={headers['Authorization'][7:]}")
        httpx.get(f"{one.url}/{one.headers['Authorization'][7:]}", headers=headers)
        one.call("DELETE", "/v1/organizations/local/groups/edge")
        assert one.call("POST", "/pipemagic/stop").json() == {}
        one.ended()
        log = (one.folder / "service.log").read_text()
        for part in (__version__, one.url, "database local/db created", "group local/edge deleted", "stopping"):
            assert part in log
        assert one.headers["Authorization"][7:] not in log
        assert headers["Authorization"][7:] not in log


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_any_open_requests(tmp_path, number):
    """A lease, an idle connection, half a request, a running statement, an open transaction."""
    with process(tmp_path / "data") as one:
        headers = one.database()
        idle = http.client.HTTPConnection(*one.address, timeout=WAIT)
        idle.request("GET", "/health")
        idle.getresponse().read()
        half = socket.create_connection(one.address)
        half.sendall(b"POST /v2/pipeline HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf")
        lease, _ = one.lease()
        begun = httpx.post(f"{one.url}/v2/pipeline", headers=headers, json=execute("BEGIN IMMEDIATE"))
        assert begun.json()["baton"]
        busy = http.client.HTTPConnection(*one.address, timeout=WAIT)
        busy.request("POST", "/v2/pipeline", json.dumps(execute(FOREVER)), headers)
        waiting = http.client.HTTPConnection(*one.address, timeout=WAIT)
        waiting.request("POST", "/v2/pipeline", json.dumps(execute("BEGIN IMMEDIATE")), headers)
        pause(0.3)  # the client cannot detect that the statement has begun
        one.popen.send_signal(number)
        one.ended()
        assert lease.recv(1000) in (b"", b"0\r\n\r\n")
        assert not (one.folder / "service.json").exists()
        for connection in (idle, half, lease, busy, waiting):
            connection.close()


STUCK = """
import sys, threading
from pathlib import Path
from pipemagic.service import process, service, settings
service.Service.close = lambda self: threading.Event().wait()
process.run(settings.Settings(Path(sys.argv[1])), lambda about: print("ready", flush=True))
"""


@posix
def test_it_ends_even_if_something_is_stuck(tmp_path):
    package = str(Path(pipemagic.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, tmp_path / "data"], stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": package},
    ) as stuck:  # fmt: skip
        assert stuck.stdout.readline() == "ready\n"
        stuck.terminate()
        assert stuck.wait(WAIT) == 0
    assert "still busy after 1.8 s" in (tmp_path / "data" / "service.log").read_text()


def test_a_folder_has_one_service(lasting):
    with process(lasting.folder) as two:
        assert two.line["code"] == "FOLDER_IN_USE"
        assert lasting.url in two.line["error"]
        assert str(lasting.popen.pid) in two.line["error"]
        assert "pipemagic stop" in two.line["hint"]
        assert two.popen.wait(WAIT) == 1
        assert httpx.get(f"{lasting.url}/health").status_code == 200
        assert (lasting.folder / "service.json").exists()


@pytest.mark.parametrize("content", ["", "nonsense", "-1", "99999999"])
def test_a_port_file_may_have_any_content(tmp_path, content):
    (tmp_path / "port").write_text(content)
    assert listeners.last_port(tmp_path / "port") == 0


def test_a_given_port_that_is_not_free_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServiceError, match=f"cannot listen on port {port}") as caught:
            listeners.listen_locally(tmp_path / "port", port)
        assert "--port 0" in caught.value.hint


# -- leases


def test_a_service_that_is_about_to_end_accepts_no_lease(tmp_path):
    with process(tmp_path / "data", "--idle-timeout", "60") as one:
        with socket.create_connection(one.address, timeout=WAIT) as connection:
            assert one.call("POST", "/pipemagic/stop").status_code == 200
            assert not (one.folder / "service.json").exists()
            lease = f"GET /pipemagic/lease HTTP/1.1\r\nHost: localhost\r\nAuthorization: {one.headers['Authorization']}"
            with suppress(ConnectionError):  # it may have ended before that
                connection.sendall(lease.encode() + b"\r\n\r\n")
                assert connection.recv(100) == b""
        one.ended()


def test_leases_and_stop_need_the_platform_token(lasting):
    for method, path in [("GET", "/pipemagic/lease"), ("POST", "/pipemagic/stop")]:
        assert httpx.request(method, lasting.url + path).status_code == 401
        wrong = {"Authorization": "Bearer pmp_wrong"}
        assert httpx.request(method, lasting.url + path, headers=wrong).status_code == 401
        other_host = lasting.headers | {"Host": "db-local.localhost"}
        assert lasting.call(method, path, headers=other_host).status_code == 404
    assert lasting.call("GET", "/pipemagic/stop").status_code == 404


NONCE = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "query",
    ["", "?nonce=", f"?nonce={NONCE[1:]}", f"?nonce={NONCE}0", f"?nonce={NONCE.upper()}", f"?nonce={NONCE[1:]}%0a",
     f"?nonce={NONCE}&nonce={NONCE}", f"?nonce={'0' * 10_000}"],
)  # fmt: skip
def test_a_nonce_has_64_digits(lasting, query):
    assert lasting.call("GET", f"/pipemagic/proof{query}", headers={}).status_code == 400


def test_only_the_address_of_the_service_gives_a_proof(lasting):
    path = f"/pipemagic/proof?nonce={NONCE}"
    for method in ("POST", "HEAD", "PUT"):
        assert lasting.call(method, path, headers={}).status_code == 404
    assert lasting.call("GET", path, headers={"Host": "db-local.localhost"}).status_code == 404
    assert lasting.call("GET", path, headers={"Host": "evil.example.com"}).status_code == 421


# -- temporary


def test_a_temporary_service_that_is_stopped_exits_regularly(tmp_path):
    """Its starter, which keeps the pipe open, may stop it as well."""
    with process(tmp_path / "data", "--temporary") as one:
        assert one.call("POST", "/pipemagic/stop").status_code == 200
        one.ended()


def test_a_temporary_service_does_not_remove_the_folder_of_a_running_one(lasting):
    with process(lasting.folder, "--temporary") as two:
        assert two.line["code"] == "FOLDER_IN_USE"
        assert two.popen.wait(WAIT) == 1
    assert (lasting.folder / "service.json").exists()
    assert lasting.call("GET", "/v1/organizations").status_code == 200


def test_a_temporary_service_refuses_a_folder_with_data(tmp_path):
    """A temporary service removes its folder when it ends."""
    with process(tmp_path / "data", "--idle-timeout", "0.1") as one:
        one.ended()
    before = sorted(path.name for path in one.folder.iterdir())
    with process(tmp_path / "data", "--temporary") as two:
        assert "is not empty" in two.line["error"]
        assert "--data" in two.line["hint"]
        assert two.popen.wait(WAIT) == 1
    assert sorted(path.name for path in one.folder.iterdir()) == before


@posix
def test_a_temporary_folder_is_removed_before_another_service_can_lock_it(tmp_path, monkeypatch):
    locked = []

    def rmtree(folder, **options):
        with suppress(Timeout), FileLock(folder / "service.lock", timeout=0):
            locked.append(folder)
        remove(folder, **options)

    remove = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    with service_process._data_folder(Settings(tmp_path / "data", temporary=True)):
        pass
    assert (locked, list(tmp_path.iterdir())) == ([], [])


def test_a_folder_that_cannot_be_locked_is_refused(tmp_path):
    (tmp_path / "service.lock").mkdir()
    with process(tmp_path) as one:
        assert (one.line["code"], one.popen.wait(WAIT)) == ("DATA_FOLDER", 1)
        assert f"cannot use the data folder {tmp_path}" in one.line["error"]


@posix
def test_hundreds_of_streams_are_open_without_waiting_where_a_process_starts_with_1024_files(tmp_path):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip(f"the machine allows a process {hard} files at most")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        with process(tmp_path / "data") as one:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            headers = one.database()
            with httpx.Client(base_url=one.url, headers=headers, timeout=WAIT) as client:
                client.post("/v2/pipeline", json=execute("CREATE TABLE t(a)"))
                body = execute("SELECT count(*) FROM t")
                answers = [client.post("/v2/pipeline", json=body) for _ in range(600)]
            assert {answer.status_code for answer in answers} == {200}
            assert {answer.json()["results"][0]["type"] for answer in answers} == {"ok"}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
