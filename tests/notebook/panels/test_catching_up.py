"""A new location as a model: what replicas say, and asking about several databases at a time."""

from __future__ import annotations

import threading

import pytest
from waiting import until

from pipemagic.errors import ServerError
from pipemagic.management_api.models import Instance
from pipemagic.notebook.panels.groups.asking import AT_ONCE, Asking
from pipemagic.notebook.panels.groups.catching_up import CatchingUp, state_of
from pipemagic.notebook.panels.groups.replica_states import AtLocation, _at
from pipemagic.notebook.panels.holdings import holdings_of


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
def test_how_an_instance_is_in_words(state, lag, said):
    assert state_of(Instance("nrt", "replica", "", state, lag)) == said


def test_an_instance_that_is_not_listed_is_not_there_yet():
    assert state_of(None) == "not there yet"


@pytest.mark.parametrize(
    ("at", "said", "moves"),
    [
        (AtLocation(5, 5, 0.0), "caught up, lag 0.0 s", False),
        (AtLocation(5, 5), "caught up", False),
        (AtLocation(5, 3, 2.5, ("behind", "copying")), "behind, copying (3 of 5 caught up), lag 2.5 s", True),
        (AtLocation(1, 0, None, ("not there yet",)), "not there yet", True),
        (AtLocation(2, 0, 60.0, ("paused",)), "paused (0 of 2 caught up), lag 60.0 s", False),
    ],
)  # fmt: skip
def test_how_a_location_is_in_words(at, said, moves):
    assert (str(at), at.moves) == (said, moves)


def test_databases_that_are_behind_are_one_state():
    told = [[Instance("nrt", "replica", "", "lagging", lag)] for lag in (2.0, 3.5, 0.1)]
    assert str(_at("nrt", told)) == "behind (1 of 3 caught up), lag 3.5 s"


def test_some_are_asked_at_the_same_time_and_an_error_is_an_answer():
    here, met = threading.Barrier(AT_ONCE), ServerError("no", status=500)

    def ask(name):
        here.wait(10)
        if name == "b":
            raise met
        return name.upper()

    assert Asking(None).each("abcd", ask, threading.Event()) == {"a": "A", "b": met, "c": "C", "d": "D"}


def test_after_a_stop_nothing_more_is_asked():
    stop = threading.Event()

    def ask(_name):
        stop.set()
        return 1

    assert len(Asking(None).each([str(one) for one in range(100)], ask, stop)) <= AT_ONCE


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # for the log
def test_a_bug_is_seen(session):
    model = CatchingUp(holdings_of(session), "default", "nrt")
    session.platform.instances = lambda _name: 1 / 0
    model.begin()
    until(lambda: model.error)
    assert (model.code, model.error) == ("BUG", "ZeroDivisionError: division by zero")
