"""The access log and the metrics of a service as a process."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import httpx
import pytest
from metrics_page import read_families, read_samples
from served import serve

from pipemagic.service.logs import AccessLog, logging_to

WAIT = 15.0
LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (?P<client>\S+) (?P<method>\S+) (?P<host>\S+) (?P<path>\S+)"
    r" (?P<status>\d{3}) (?P<bytes>\d+) (?P<ms>\d+\.\d)\n"
)

posix = pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")


def serving(folder, *options):
    """Run a service with sign-up."""
    return serve(folder, "--port", "0", "--allow-signup", *map(str, options))


def call(served, method, path, headers=None, **options):
    """Send a request, by default with the token of the operator."""
    headers = {"Authorization": f"Bearer {served.platform_token}"} if headers is None else headers
    return httpx.request(method, served.url + path, headers=headers, timeout=WAIT, **options)


def database(served):
    """Create a database; return the headers for its SQL."""
    served.create("db", "edge")
    return {"Authorization": f"Bearer {served.token('db')}"}


def execute(sql):
    return {"requests": [{"type": "execute", "stmt": {"sql": sql}}]}


# -- the access log


def test_the_access_log_has_a_line_for_each_request_and_no_secrets(tmp_path):
    with serving(tmp_path / "data", "--access-log") as served:
        token = database(served)
        jwt, platform = token["Authorization"][7:], served.platform_token
        call(served, "POST", "/v3/pipeline", headers=token, json=execute("SELECT 'a secret'"))
        call(served, "GET", f"/v1/locations?authToken={jwt}", headers={})
        call(served, "GET", f"/{platform}/{jwt}", headers={})
        call(served, "GET", "/a%20b%0Ac%1b[31m", headers={"Host": "evil.example"})
        written = [served.process.stdout.readline().decode() for _ in range(9)]
    parsed = [LINE.fullmatch(line) for line in written]
    assert all(parsed), written
    shown = [(line["method"], line["host"], line["path"], line["status"]) for line in parsed]
    host = served.url.removeprefix("http://")
    assert shown[5:] == [
        ("POST", host, "/v3/pipeline", "200"),
        ("GET", host, "/v1/locations", "401"),
        ("GET", host, "/[token]/[token]", "404"),
        ("GET", "evil.example", "/a%20b%0Ac%1B%5B31m", "421"),
    ]
    assert int(parsed[5]["bytes"]) > 100
    text = "".join(written)
    assert "secret" not in text
    assert jwt not in text
    assert platform not in text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_requests_succeed_while_the_access_log_cannot_be_written(tmp_path):
    scope = {"client": None, "method": "GET", "path": "/", "headers": []}
    with open("/dev/full", "wb", buffering=0) as full, logging_to(tmp_path / "service.log"):
        for _ in range(3):
            AccessLog(full).write(scope, 200, 0, 0.001)
    (line,) = (tmp_path / "service.log").read_text().splitlines()
    assert line.endswith("the access log cannot be written, lines are lost: [Errno 28] No space left on device")


# -- metrics


def test_metrics_have_the_finished_and_the_open_requests(tmp_path):
    with serving(tmp_path / "data") as served:
        token = database(served)
        for _ in range(3):
            closed = {"requests": [*execute("SELECT 1")["requests"], {"type": "close"}]}
            call(served, "POST", "/v3/pipeline", headers=token, json=closed)
        call(served, "POST", "/v2/pipeline", headers=token, json=execute("BEGIN IMMEDIATE"))
        call(served, "GET", "/nothing/here", headers={})
        seen = read_samples(served.metrics())
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
        token = database(served)
        call(served, "POST", "/v2/pipeline", headers=token, json=execute("CREATE TABLE t (a)"))
        place = "/v1/organizations/local/groups/edge/locations/fra"
        call(served, "POST", place)
        call(served, "GET", f"{place}/wait")
        seen = read_samples(served.metrics())
        assert seen["pipemagic_replicas", ("location", "fra"), ("state", "ok")] == 1
        assert 0 <= seen["pipemagic_replica_lag_seconds", ("location", "fra")] < WAIT
        call(served, "POST", f"{place}/pause")
        assert read_samples(served.metrics())["pipemagic_replicas", ("location", "fra"), ("state", "paused")] == 1


FAMILIES = {
    "pipemagic_statements_stopped_total": ("counter", set()),
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
    "pipemagic_statements_abandoned_total": ("counter", set()),
    "pipemagic_statements_abandoned_running": ("gauge", set()),
}
"""A change would break dashboards and alerts."""

PROCESS = {
    "process_start_time_seconds": ("gauge", set()), "process_cpu_seconds_total": ("counter", set()),
    "process_resident_memory_bytes": ("gauge", set()), "process_open_fds": ("gauge", set()),
}  # fmt: skip


def test_the_names_types_and_labels_of_metrics_are_stable(tmp_path):
    with serving(tmp_path / "data") as served:
        token = database(served)
        call(served, "POST", "/v1/organizations/local/groups/edge/locations/fra")
        call(served, "POST", "/v2/pipeline", headers=token, json=execute("CREATE TABLE t (a)"))
        page = call(served, "GET", "/metrics")
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = read_families(page.text)
    process = {name: families.pop(name) for name in list(families) if name.startswith("process_")}
    assert families == FAMILIES
    if sys.platform == "linux":
        assert process.items() >= PROCESS.items()


def test_metrics_need_the_token_of_the_account_that_owns_the_service(tmp_path):
    with serving(tmp_path / "data") as served:
        token = database(served)
        for headers in ({}, {"Authorization": "Bearer pmp_wrong"}, token):
            assert call(served, "GET", "/metrics", headers=headers).status_code == 401
        account = {"username": "ada", "password": "a long enough password"}
        other = call(served, "POST", "/v1/auth/signup", json=account, headers={}).json()["token"]
        for method, path in [("GET", "/metrics"), ("GET", "/pipemagic/lease"), ("POST", "/pipemagic/stop")]:
            refused = call(served, method, path, headers={"Authorization": f"Bearer {other}"})
            assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
        bound = call(served, "POST", "/v1/auth/api-tokens/bound", json={"organization": "local"}).json()["token"]
        for method, path in [("GET", "/metrics"), ("GET", "/pipemagic/lease"), ("POST", "/pipemagic/stop")]:
            assert call(served, method, path, headers={"Authorization": f"Bearer {bound}"}).status_code == 403
        elsewhere = {"Authorization": f"Bearer {served.platform_token}", "Host": "db-local.localhost"}
        assert call(served, "GET", "/metrics", headers=elsewhere).status_code == 404
        assert call(served, "POST", "/metrics").status_code == 404
