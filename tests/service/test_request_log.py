"""The access log and the metrics of a service as a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from metrics_page import read_families, read_samples
from waiting import until

import pipemagic
from pipemagic.errors import ServiceError
from pipemagic.service.logs import AccessLog, logging_to

WAIT = 15.0
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(pipemagic.__file__).parents[1])}
LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (?P<client>\S+) (?P<method>\S+) (?P<host>\S+) (?P<path>\S+)"
    r" (?P<status>\d{3}) (?P<bytes>\d+) (?P<ms>\d+\.\d)\n"
)

posix = pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")


class Served:
    """A running ``pipemagic serve``."""

    def __init__(self, process, folder):
        self.process, self.folder = process, folder
        self.line = json.loads(process.stdout.readline())
        self.url = self.line["url"]
        token = (folder / "platform-token").read_text().strip()
        self.platform = {"Authorization": f"Bearer {token}"}

    def call(self, method, path, **options):
        return httpx.request(method, self.url + path, **{"headers": self.platform, "timeout": WAIT} | options)

    def database(self):
        org = "/v1/organizations/local"
        self.call("POST", f"{org}/groups", json={"name": "edge", "location": "ams"})
        self.call("POST", f"{org}/databases", json={"name": "db", "group": "edge"})
        return {"Authorization": f"Bearer {self.call('POST', f'{org}/databases/db/auth/tokens').json()['jwt']}"}

    def metrics(self):
        """Return the values of the page by name and labels."""
        return read_samples(self.metrics_page())

    def metrics_page(self):
        answer = self.call("GET", "/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return answer.text


@contextmanager
def serving(folder, *options):
    process = subprocess.Popen(
        [sys.executable, "-m", "pipemagic", "serve", "--port", "0", "--allow-signup", "--data", folder, *options],
        env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield Served(process, folder)
    finally:
        process.terminate()
        process.communicate(timeout=WAIT)


def execute(sql):
    return {"requests": [{"type": "execute", "stmt": {"sql": sql}}]}


def lines(path, count):
    """Wait for a number of lines and return them: a line is written when its response was sent."""
    end = time.monotonic() + WAIT
    while True:
        found = path.read_text().splitlines(keepends=True) if path.exists() else []
        if len(found) >= count:
            return found
        assert time.monotonic() < end, found


# -- the access log


def test_the_access_log_has_a_line_for_each_request_and_no_secrets(tmp_path):
    log = tmp_path / "access.log"
    with serving(tmp_path / "data", "--access-log", log) as served:
        token = served.database()
        jwt, platform = token["Authorization"][7:], served.platform["Authorization"][7:]
        served.call("POST", "/v3/pipeline", headers=token, json=execute("SELECT 'a secret'"))
        served.call("GET", f"/v1/locations?authToken={jwt}", headers={})
        served.call("GET", f"/{platform}/{jwt}", headers={})
        served.call("GET", "/a%20b%0Ac%1b[31m", headers={"Host": "evil.example"})
        written = lines(log, 7)
        assert log.stat().st_mode & 0o077 == 0
    parsed = [LINE.fullmatch(line) for line in written]
    assert all(parsed), written
    shown = [(line["method"], line["host"], line["path"], line["status"]) for line in parsed]
    host = served.url.removeprefix("http://")
    assert shown[3:] == [
        ("POST", host, "/v3/pipeline", "200"),
        ("GET", host, "/v1/locations", "401"),
        ("GET", host, "/[token]/[token]", "404"),
        ("GET", "evil.example", "/a%20b%0Ac%1B%5B31m", "421"),
    ]
    assert int(parsed[3]["bytes"]) > 100
    text = "".join(written)
    assert "secret" not in text
    assert jwt not in text
    assert platform not in text


def test_the_access_log_can_be_standard_output(tmp_path):
    with serving(tmp_path / "data", "--access-log", "-") as served:
        served.call("GET", "/health", headers={})
        assert " GET " in served.process.stdout.readline()


@posix
def test_the_access_log_is_opened_again_on_a_signal(tmp_path):
    log, rotated = tmp_path / "access.log", tmp_path / "access.log.1"
    with serving(tmp_path / "data", "--access-log", log) as served:
        served.call("GET", "/health", headers={})
        lines(log, 1)
        log.rename(rotated)
        os.kill(served.line["pid"], signal.SIGUSR1)
        until(log.exists)
        served.call("GET", "/version", headers={})
        assert "/version" in lines(log, 1)[0]
        assert len(rotated.read_text().splitlines()) == 1


def test_an_access_log_that_cannot_be_written_is_reported_at_the_start(tmp_path):
    with pytest.raises(ServiceError, match=r"access log .* cannot be written"):
        AccessLog(tmp_path / "no" / "such" / "folder" / "access.log")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_requests_succeed_while_the_access_log_cannot_be_written(tmp_path):
    scope = {"client": None, "method": "GET", "path": "/", "headers": []}
    with closing(AccessLog(Path("/dev/full"))) as log, logging_to(tmp_path / "service.log"):
        for _ in range(3):
            log.write(scope, 200, 0, 0.001)
    (line,) = (tmp_path / "service.log").read_text().splitlines()
    assert line.endswith("the access log cannot be written, lines are lost: [Errno 28] No space left on device")


# -- metrics


def test_metrics_have_the_finished_and_the_open_requests(tmp_path):
    with serving(tmp_path / "data") as served:
        token = served.database()
        for _ in range(3):
            closed = {"requests": [*execute("SELECT 1")["requests"], {"type": "close"}]}
            served.call("POST", "/v3/pipeline", headers=token, json=closed)
        served.call("POST", "/v2/pipeline", headers=token, json=execute("BEGIN IMMEDIATE"))
        served.call("GET", "/nothing/here", headers={})
        seen = served.metrics()
        label = [("method", "POST"), ("route", "/v3/pipeline"), ("status", "200")]
        assert seen["pipemagic_http_requests_total", *label] == 3
        assert seen["pipemagic_http_request_duration_seconds_count", ("route", "/v3/pipeline")] == 3
        top = [("le", "+Inf"), ("route", "/v3/pipeline")]
        assert seen["pipemagic_http_request_duration_seconds_bucket", *top] == 3
        assert 0 < seen["pipemagic_http_request_duration_seconds_sum", ("route", "/v3/pipeline")] < WAIT
        assert seen["pipemagic_http_requests_total", ("method", "GET"), ("route", "other"), ("status", "404")] == 1
        assert seen["pipemagic_streams_open",] == seen["pipemagic_transactions_open",] == 1
        assert seen["pipemagic_databases_in_use",] == 1
        assert seen["pipemagic_writers_waiting",] == 0
        assert seen["pipemagic_http_requests_in_flight",] == 1  # this one
        assert seen["pipemagic_http_received_bytes_total",] > 100
        assert seen["pipemagic_http_sent_bytes_total",] > 100
        assert 0 < seen["pipemagic_sqlite_memory_bytes",] < seen["pipemagic_sqlite_memory_limit_bytes",]
        assert seen["pipemagic_data_free_bytes",] > 0
        if sys.platform == "linux":
            assert 0 < seen["process_start_time_seconds",] <= time.time() + 1
            assert seen["process_cpu_seconds_total",] > 0
            assert seen["process_resident_memory_bytes",] > 10_000_000
            assert seen["process_open_fds",] > 5


def test_metrics_have_the_lag_of_replicas(tmp_path):
    with serving(tmp_path / "data") as served:
        token = served.database()
        served.call("POST", "/v2/pipeline", headers=token, json=execute("CREATE TABLE t (a)"))
        place = "/v1/organizations/local/groups/edge/locations/fra"
        served.call("POST", place)
        served.call("GET", f"{place}/wait")
        seen = served.metrics()
        assert seen["pipemagic_replicas", ("location", "fra"), ("state", "ok")] == 1
        assert 0 <= seen["pipemagic_replica_lag_seconds", ("location", "fra")] < WAIT
        served.call("POST", f"{place}/pause")
        assert served.metrics()["pipemagic_replicas", ("location", "fra"), ("state", "paused")] == 1


FAMILIES = {
    "pipemagic_build_info": ("gauge", {"version", "sqlite"}),
    "pipemagic_http_requests_total": ("counter", {"method", "route", "status"}),
    "pipemagic_http_request_duration_seconds": ("histogram", {"route", "le"}),
    "pipemagic_http_received_bytes_total": ("counter", set()),
    "pipemagic_http_sent_bytes_total": ("counter", set()),
    "pipemagic_http_requests_in_flight": ("gauge", set()),
    "pipemagic_http_connections": ("gauge", set()),
    "pipemagic_streams_open": ("gauge", set()),
    "pipemagic_streams_limit": ("gauge", set()),
    "pipemagic_transactions_open": ("gauge", set()),
    "pipemagic_writers_waiting": ("gauge", set()),
    "pipemagic_databases_in_use": ("gauge", set()),
    "pipemagic_replicas": ("gauge", {"location", "state"}),
    "pipemagic_replica_lag_seconds": ("gauge", {"location"}),
    "pipemagic_leases": ("gauge", set()),
    "pipemagic_sqlite_memory_bytes": ("gauge", set()),
    "pipemagic_sqlite_memory_limit_bytes": ("gauge", set()),
    "pipemagic_data_free_bytes": ("gauge", set()),
}
"""A change would break dashboards and alerts."""

PROCESS = {
    "process_start_time_seconds": ("gauge", set()), "process_cpu_seconds_total": ("counter", set()),
    "process_resident_memory_bytes": ("gauge", set()), "process_open_fds": ("gauge", set()),
}  # fmt: skip


def test_the_names_types_and_labels_of_metrics_are_stable(tmp_path):
    with serving(tmp_path / "data") as served:
        token = served.database()
        served.call("POST", "/v1/organizations/local/groups/edge/locations/fra")
        served.call("POST", "/v2/pipeline", headers=token, json=execute("CREATE TABLE t (a)"))
        families = read_families(served.metrics_page())
    process = {name: families.pop(name) for name in list(families) if name.startswith("process_")}
    assert families == FAMILIES
    if sys.platform == "linux":
        assert process.items() >= PROCESS.items()


def test_metrics_need_the_token_of_the_account_that_owns_the_service(tmp_path):
    with serving(tmp_path / "data") as served:
        token = served.database()
        for headers in ({}, {"Authorization": "Bearer pmp_wrong"}, token):
            assert served.call("GET", "/metrics", headers=headers).status_code == 401
        account = {"username": "ada", "password": "a long enough password"}
        other = served.call("POST", "/v1/auth/signup", json=account, headers={}).json()["token"]
        for method, path in [("GET", "/metrics"), ("GET", "/pipemagic/lease"), ("POST", "/pipemagic/stop")]:
            refused = served.call(method, path, headers={"Authorization": f"Bearer {other}"})
            assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
        elsewhere = served.platform | {"Host": "db-local.localhost"}
        assert served.call("GET", "/metrics", headers=elsewhere).status_code == 404
        assert served.call("POST", "/metrics").status_code == 404
