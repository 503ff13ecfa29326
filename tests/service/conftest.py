"""A service over a temporary folder, which is swept only by the test."""

from __future__ import annotations

import pytest
from service_calls import WALL_START, Clock, caller_of


@pytest.fixture
def wall():
    """Return a clock that is both that of the service and its Unix time."""
    wall = Clock()
    wall.time = WALL_START
    return wall


@pytest.fixture
def make_caller(service):
    return lambda name="flights", **options: caller_of(service, name, **options)


@pytest.fixture
def db(make_caller):
    return make_caller()
