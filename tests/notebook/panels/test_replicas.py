"""States of replicas as text, and concurrent requests about several databases."""

from __future__ import annotations

import pytest

from pipemagic.management_api.models import Instance
from pipemagic.notebook.panels.replicas import ReplicaSummary, describe


@pytest.mark.parametrize(
    ("state", "lag", "said"),
    [
        ("ok", 0.9, "caught up"),
        ("", None, "caught up"),
        ("ok", 1.24, "1.2 s behind"),
        ("lagging", None, "lagging"),
        ("copying", 0.0, "copying"),
        ("paused", 3.0, "paused"),
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
        (ReplicaSummary(5, 3, 2.5, ("behind", "copying")), "behind, copying (3 of 5 caught up), lag 2.5 s"),
        (ReplicaSummary(1, 0, None, ("not there yet",)), "not there yet"),
        (ReplicaSummary(2, 0, 60.0, ("paused",)), "paused (0 of 2 caught up), lag 60.0 s"),
    ],
)  # fmt: skip
def test_the_state_of_a_location_as_text(at, said):
    assert str(at) == said
