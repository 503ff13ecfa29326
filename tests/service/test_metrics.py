"""The metrics: what they count, and their series."""

from __future__ import annotations

import pytest
from metrics_page import read_families, read_samples
from prometheus_client import REGISTRY, Counter, generate_latest

from pipemagic.service.metrics import Metrics, route_of

REQUESTS, DURATION = "pipemagic_http_requests_total", "pipemagic_http_request_duration_seconds"


def test_requests_are_counted_by_method_route_and_status():
    metrics = Metrics()
    for status, seconds in ((200, 0.002), (200, 0.004), (400, 0.002)):
        metrics.record("POST", "/v2/pipeline", status, seconds, 10, 100)
    metrics.record("GET", "/health", 200, 0.001, 0, 0)
    seen = read_samples(metrics.page())
    requests = {series[1:]: value for series, value in seen.items() if series[0] == REQUESTS}
    assert requests == {
        (("method", "POST"), ("route", "/v2/pipeline"), ("status", "200")): 2,
        (("method", "POST"), ("route", "/v2/pipeline"), ("status", "400")): 1,
        (("method", "GET"), ("route", "/health"), ("status", "200")): 1,
    }
    assert seen[f"{DURATION}_count", ("route", "/v2/pipeline")] == 3
    assert seen["pipemagic_http_received_bytes_total",] == 30
    assert seen["pipemagic_http_sent_bytes_total",] == 300


def test_unusual_requests_do_not_add_series():
    metrics = Metrics()
    for number in range(1000):
        metrics.record(f"ODD{number}", f"/v1/organizations/org{number}/databases", 404, 0.001, 0, 0)
        metrics.record("GET", f"/{number}", 404, 0.001, 0, 0)
    names = [name for name, *_ in read_samples(metrics.page())]
    assert names.count(REQUESTS) == names.count(f"{DURATION}_count") == 2


@pytest.mark.parametrize(("path", "route"), [
    ("/v2/pipeline", "/v2/pipeline"), ("/v1/execute", "/v1/execute"), ("/v1/locations", "/v1/*"),
    ("/pipemagic/lease", "/pipemagic/*"), ("/metrics", "/metrics"), ("/", "other"), ("", "other"),
])  # fmt: skip
def test_routes_are_few(path, route):
    assert route_of(path) == route


def test_created_series_are_omitted_here_and_kept_elsewhere():
    """Other code of the process may use the library: its default registry is unchanged."""
    elsewhere = Counter("of_other_code", "Of other code.")
    try:
        metrics = Metrics()
        metrics.record("GET", "/", 200, 0.001, 1, 1)
        assert b"_created" not in metrics.page()
        assert b"of_other_code" not in metrics.page()
        assert b"of_other_code_created" in generate_latest(REGISTRY)
        assert b"pipemagic" not in generate_latest(REGISTRY)
    finally:
        REGISTRY.unregister(elsewhere)


def test_free_space_that_cannot_be_determined_is_omitted(service, tmp_path):
    service.folder = tmp_path / "missing"
    page = Metrics(service).page()
    assert "pipemagic_data_free_bytes" not in read_families(page)
    assert "pipemagic_sqlite_memory_bytes" in read_families(page)
