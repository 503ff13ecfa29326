"""States of replicas as text, and concurrent requests about several databases."""

from __future__ import annotations

import threading

import pytest
from waiting import until

from pipemagic.errors import ServerError
from pipemagic.management_api.models import Instance
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.notebook.panels.replicas import REQUESTS, NewLocation, ReplicaSummary, _summary, ask_each, describe


@pytest.mark.parametrize(
    ("state", "lag", "said"),
    [
        ("ok", 0.0, "caught up"),
        ("ok", 0.9, "caught up"),
        ("ok", None, "caught up"),
        ("", None, "caught up"),
        ("ok", 1.24, "1.2 s behind"),
        ("lagging", 7.0, "7.0 s behind"),
        ("lagging", None, "lagging"),
        ("copying", 0.0, "copying"),
        ("paused", 3.0, "paused"),
        ("down", None, "down"),
    ],
)
def test_the_state_of_an_instance_as_text(state, lag, said):
    assert describe(Instance("nrt", "replica", "", state, lag)) == said


def test_an_instance_that_is_not_listed_is_not_there_yet():
    assert describe(None) == "not there yet"


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (ReplicaSummary(5, 5, 0.0), "caught up, lag 0.0 s"),
        (ReplicaSummary(5, 5), "caught up"),
        (ReplicaSummary(5, 3, 2.5, ("behind", "copying")), "behind, copying (3 of 5 caught up), lag 2.5 s"),
        (ReplicaSummary(1, 0, None, ("not there yet",)), "not there yet"),
        (ReplicaSummary(2, 0, 60.0, ("paused",)), "paused (0 of 2 caught up), lag 60.0 s"),
    ],
)  # fmt: skip
def test_the_state_of_a_location_as_text(at, said):
    assert str(at) == said


def test_databases_that_are_behind_are_one_state():
    listed = [[Instance("nrt", "replica", "", "lagging", lag)] for lag in (2.0, 3.5, 0.1)]
    assert str(_summary("nrt", listed)) == "behind (1 of 3 caught up), lag 3.5 s"


def test_some_requests_run_at_the_same_time_and_errors_are_returned():
    together, error = threading.Barrier(REQUESTS), ServerError("no", status=500)

    def ask(name):
        together.wait(10)
        if name == "b":
            raise error
        return name.upper()

    limit = threading.BoundedSemaphore(REQUESTS)
    assert ask_each(limit, "abcd", ask, threading.Event()) == {"a": "A", "b": error, "c": "C", "d": "D"}


def test_no_requests_are_sent_after_a_stop():
    stop = threading.Event()

    def ask(_name):
        stop.set()
        return 1

    names = [str(one) for one in range(100)]
    assert len(ask_each(threading.BoundedSemaphore(REQUESTS), names, ask, stop)) <= REQUESTS


def test_a_bug_is_shown(session):
    state = state_of(session)
    state.refresh()
    until(lambda: state.known)
    new = NewLocation(state, "default", "nrt")
    session.platform.instances = lambda _name: 1 / 0
    new.add()
    until(lambda: new.task.error)
    assert (new.task.error.code, new.task.error.message) == ("BUG", "ZeroDivisionError: division by zero")
