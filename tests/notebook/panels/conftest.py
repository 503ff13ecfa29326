"""Panels without a browser, with the real embedded service."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from hosted_api import HostedApi
from panel_session import close_panels, page, service_folder, session
from started_services import shared_service

from pipemagic.notebook.panels import replicas
from pipemagic.session import Session

__all__ = ["page", "service_folder", "session", "shared_service"]


@pytest.fixture(scope="session")
def closing():
    """Return a function that closes all panels, for sessions that a test creates."""
    return close_panels


@pytest.fixture(autouse=True)
def frequent_reads(monkeypatch):
    """Read the states of new replicas again after 0.05 s, not after 0.3 s."""
    monkeypatch.setattr(replicas, "FIRST", 0.05)


@contextmanager
def hosting(behind):
    """Return a function that starts a hosted service with an organization and returns it and its session."""
    opened = []

    def start(shapes=None):
        api = HostedApi(behind, shapes)
        session = Session(environ=api.environment)
        opened.append((api, session))
        return api, session

    yield start
    close_panels()
    for api, opened_session in opened:
        opened_session.shut_down()
        api.close()


@pytest.fixture
def hosted(behind):
    """Start a hosted service with an organization; return it and a session that uses it."""
    with hosting(behind) as start:
        yield start


@pytest.fixture(scope="module")
def hosted_for_long(behind):
    """Start a hosted service for all tests of a module."""
    with hosting(behind) as start:
        yield start
