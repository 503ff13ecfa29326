"""A service over a temporary folder; nothing sweeps unless the test does."""

from __future__ import annotations

import pytest
from service_calls import Clock, caller_of

from pipemagic.service.core import Service


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def service(tmp_path, clock):
    service = Service(tmp_path / "data", clock=clock)
    service.catalog.create_group("local", "default", "ams")
    yield service
    service.close()


@pytest.fixture
def make_caller(service):
    return lambda name="flights", **options: caller_of(service, name, **options)


@pytest.fixture
def db(make_caller):
    return make_caller()
