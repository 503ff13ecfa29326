"""Times that `datetime` cannot express: a clock beyond the year 9999, and times in requests."""

from __future__ import annotations

import pytest
from account_calls import person
from service_calls import new_service

LOCAL = "/v1/organizations/local"
YEAR_11000 = 284_956_358_400.0


@pytest.fixture
def operator(tmp_path, clock):
    with new_service(tmp_path, clock=clock, now=lambda: YEAR_11000) as service:
        operator = person(service, "local")
        operator.ok("POST", f"{LOCAL}/databases", {"name": "flights", "group": "default"})
        yield operator


@pytest.mark.parametrize(
    "path",
    ["groups", "groups/default", "databases", "databases/flights", "usage", "databases/flights/usage", "plans"],
)
def test_a_clock_beyond_the_year_9999(operator, path):
    assert operator.status("GET", f"{LOCAL}/{path}") == 200


def test_times_beyond_the_year_9999_become_its_last_second(operator):
    assert operator.ok("GET", f"{LOCAL}/groups/default")["group"]["created_at"] == "9999-12-31T23:59:59Z"
    assert {token["created_at"] for token in operator.ok("GET", "/v1/auth/api-tokens")["tokens"]} == {"9999-12-31"}
    assert operator.service.meter.month == "9999-12"


@pytest.mark.parametrize(
    ("moment", "status"),
    [("9999-12-31T23:59:59-23:00", 200), ("0001-01-01T00:00:00+23:00", 200), ("10000-01-01T00:00:00Z", 400)],
)
def test_times_of_a_query(operator, moment, status):
    assert operator.call("GET", f"{LOCAL}/databases/flights/usage", None, {"from": moment})[0] == status
