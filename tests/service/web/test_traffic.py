"""The access log and the page of metrics, of a service as a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from waiting import until

import pipemagic
from pipemagic.errors import ServiceError
from pipemagic.service.web.access_log import AccessLog
from pipemagic.service.web.exposition import Page
from pipemagic.service.web.traffic import BUCKETS, Durations, Traffic, route_of

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
        """Read the page; gives name and labels -> value."""
        answer = self.call("GET", "/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        families = text_string_to_metric_families(answer.text)
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in families for sample in family.samples
        }  # fmt: skip


@contextmanager
def serving(folder, *options):
    process = subprocess.Popen(
        [sys.executable, "-m", "pipemagic", "serve", "--port", "0", "--data", folder, *options],
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
    """Wait for so many lines and read them: a line is written when its answer has been sent."""
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


def test_the_access_log_goes_to_standard_output_if_told_so(tmp_path):
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


def test_an_access_log_that_cannot_be_written_is_told_at_the_start(tmp_path):
    with pytest.raises(ServiceError, match=r"access log .* cannot be written"):
        AccessLog(tmp_path / "no" / "such" / "folder" / "access.log")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_costs_lines_and_no_answers(caplog):
    scope = {"client": None, "method": "GET", "path": "/", "headers": []}
    with AccessLog(Path("/dev/full")) as log:
        for _ in range(3):
            log.write(scope, 200, 0, 0.001)
    assert [record.message for record in caplog.records if "lines are lost" in record.message] == [
        "the access log cannot be written, lines are lost: [Errno 28] No space left on device"
    ]


# -- metrics


def test_metrics_tell_what_went_through_and_what_is_open(tmp_path):
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
        assert abs(seen["process_start_time_seconds",] - time.time()) < 60
        if sys.platform == "linux":
            assert seen["process_resident_memory_bytes",] > 10_000_000
            assert seen["process_open_fds",] > 5


def test_metrics_tell_how_the_replicas_keep_up(tmp_path):
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


def test_odd_clients_do_not_make_more_series():
    traffic = Traffic()
    for number in range(1000):
        traffic.add(f"ODD{number}", f"/v1/organizations/org{number}/databases", 404, 0.001)
        traffic.add("GET", f"/{number}", 404, 0.001)
    assert len(traffic.requests) == 2
    assert set(traffic.durations) == {"/v1/*", "other"}


@pytest.mark.parametrize(("path", "route"), [
    ("/v2/pipeline", "/v2/pipeline"), ("/v1/execute", "/v1/execute"), ("/v1/locations", "/v1/*"),
    ("/pipemagic/lease", "/pipemagic/*"), ("/metrics", "/metrics"), ("/", "other"), ("", "other"),
])  # fmt: skip
def test_routes_are_few(path, route):
    assert route_of(path) == route


def test_a_histogram_is_one_of_prometheus():
    durations, page = Durations(), Page()
    for seconds in (0.0005, 0.001, 0.002, 99.0):
        durations.add(seconds)
    page.histogram("t", "Time.", BUCKETS, [({"route": 'a"\\\n'}, durations.counts, durations.total)])
    (family,) = text_string_to_metric_families(page.encode().decode())
    assert family.type == "histogram"
    counts = {sample.labels["le"]: sample.value for sample in family.samples if sample.name == "t_bucket"}
    assert (counts["0.001"], counts["0.0025"], counts["10"], counts["+Inf"]) == (2, 3, 3, 4)
    assert {sample.labels["route"] for sample in family.samples} == {'a"\\\n'}
    assert {sample.name: sample.value for sample in family.samples if "le" not in sample.labels} == {
        "t_sum": pytest.approx(99.0035), "t_count": 4,
    }  # fmt: skip
