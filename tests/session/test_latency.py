"""How far away the locations in use are."""

from __future__ import annotations

import re

import pytest
from scripted_server import Answer, ScriptedServer

from pipemagic.management_api.models import Instance
from pipemagic.session.latency import TIMES, Latency, instances_in_use, latencies
from pipemagic.session.services import Embedded


class Script(ScriptedServer):
    """Answers each path with a status."""

    def __init__(self, **statuses):
        super().__init__()
        self.statuses = {f"/{path}": status for path, status in statuses.items()}
        self.asked = []

    def answer(self, call):
        self.asked.append((call.path, call.headers.get("authorization")))
        return Answer(self.statuses.get(call.path, 404))


@pytest.fixture
def script():
    opened = []

    def start(**statuses):
        opened.append(Script(**statuses))
        return opened[-1]

    yield start
    for server in opened:
        server.close()


def at(url, state="", lag=None):
    """An instance at an address."""
    return Instance("ams", url=url, state=state, lag=lag)


def ticking(*seconds):
    """A clock by which the round trips take so long."""
    times = [0.0]
    for duration in seconds:
        times += [times[-1] + duration, times[-1] + duration + 1]
    return iter(times).__next__


def test_the_median_of_five_round_trips_after_a_first_one(script):
    server = script(health=200)
    (found,) = latencies({"ams": at(server.url)}, ticking(0.04, 0.05, 0.9, 0.03, 0.06))
    assert (found.code, round(found.seconds, 6), str(found)) == ("ams", 0.05, "50 ms")
    assert server.asked == [("/health", None)] * (TIMES + 1)


def test_a_server_without_that_address_is_asked_for_another(script):
    server = script(v2=200)
    (found,) = latencies({"ams": at(server.url)})
    assert re.fullmatch(r"\d+(\.\d)? ms", str(found))
    assert [path for path, _ in server.asked] == ["/health"] + ["/v2"] * (TIMES + 1)


@pytest.mark.parametrize(
    ("statuses", "words"),
    [({"health": 503, "v2": 200}, "not ready: HTTP 503"), ({}, "not ready: HTTP 404"),
     ({"health": 401, "v2": 401}, "not ready: HTTP 401")],
)  # fmt: skip
def test_unhealthy_servers_are_not_measured(script, statuses, words):
    (found,) = latencies({"ams": at(script(**statuses).url)})
    assert (found.seconds, str(found)) == (None, words)


@pytest.mark.parametrize(
    ("state", "lag", "words"),
    [("lagging", 12.04, "50 ms, 12.0 s behind"), ("lagging", None, "50 ms, lagging"), ("lagging", 0.0, "50 ms")],
)
def test_a_replica_with_old_data_is_measured_and_said_to_be_behind(script, state, lag, words):
    server = script(health=503)
    (found,) = latencies({"ams": at(server.url, state, lag)}, ticking(*[0.05] * TIMES))
    assert str(found) == words
    assert server.asked == [("/health", None)] * (TIMES + 1)


@pytest.mark.parametrize("state", ["paused", "copying", "down"])
def test_an_instance_that_answers_nothing_is_not_asked(script, state):
    server = script(health=200)
    (found,) = latencies({"ams": at(server.url, state)})
    assert (found.seconds, str(found), server.asked) == (None, state, [])


def test_an_unreachable_location_has_an_error_and_the_others_are_measured(script):
    server = script(health=200)
    gone, there = latencies({"nrt": at("http://127.0.0.1:9"), "ams": at(server.url)})
    assert str(gone).startswith("unreachable: ")
    assert "127.0.0.1:9" in str(gone)
    assert there.seconds is not None


def test_small_times_have_a_decimal():
    assert str(Latency("ams", 0.00123)) == "1.2 ms"
    assert str(Latency("ams", 0.2336)) == "234 ms"


def test_one_instance_at_each_location(local_service):
    embedded = Embedded(local_service.folder)
    try:
        organization = embedded.organization
        before = set(instances_in_use(organization))
        organization.create_group("edge", "fra")
        organization.add_location("edge", "nrt")
        assert set(instances_in_use(organization)) == before  # no database is there
        organization.create_database("one", "edge")
        organization.create_database("two", "edge")
        organization.wait_for_location("edge", "nrt")  # an instance that is still copying is not measured
        found = instances_in_use(organization)
        assert set(found) - before == {"fra", "nrt"}
        assert re.match(r"http://fra-(one|two)-", found["fra"].url)
        measured = {latency.code: latency.seconds for latency in latencies(found)}
        assert set(measured) == set(found)
        assert None not in measured.values()
    finally:
        embedded.close()
