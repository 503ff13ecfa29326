"""Panels without a browser, with the real embedded service."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import ipywidgets
import pytest
from hosted_api import HostedApi
from ipywidgets.widgets.widget import _instances
from panel_page import PanelPage
from served import serve
from started_services import shared_service
from waiting import PATIENCE

from pipemagic.notebook.panels import replicas
from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session
from pipemagic.session.keep_alive import THREAD_NAME

__all__ = ["shared_service"]


def close_panels():
    """Close all panels and wait for their requests, which would open connections after the end of the session."""
    for widget in list(_instances.values()):
        if isinstance(widget, Panel):
            widget.close()
    ipywidgets.Widget.close_all()
    own = lambda thread: thread.name.startswith("pipemagic: ") and thread.name != THREAD_NAME  # noqa: E731
    while threads := list(filter(own, threading.enumerate())):  # the thread of that name ends with its session
        for thread in threads:  # one that ends may start another
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread.name!r} did not end"


@pytest.fixture(scope="session")
def closing():
    """Return a function that closes all panels, for sessions that a test creates."""
    return close_panels


@pytest.fixture(autouse=True)
def frequent_reads(monkeypatch):
    """Read the states of new replicas again after 0.05 s, not after 0.3 s."""
    monkeypatch.setattr(replicas, "FIRST", 0.05)


@pytest.fixture
def service_folder(shared_service):
    """The folder of an empty embedded service.

    A module whose tests create or change organizations imports `shared_service`, to have its own.
    """
    shared_service.ready()
    return shared_service.folder


@pytest.fixture
def session(service_folder, monkeypatch):
    """A session that is connected to an empty embedded service."""
    monkeypatch.setenv("PIPEMAGIC_DATA", str(service_folder))
    session = Session(environ={})
    session.connect()
    yield session
    close_panels()
    session.shut_down()


@pytest.fixture
def page(session):
    """Open a panel by its name, or all in tabs."""
    return lambda name="all": PanelPage(open_panel(session, name))


@pytest.fixture(scope="session")
def behind(tmp_path_factory):
    """The service of the databases."""
    with serve(tmp_path_factory.mktemp("behind")) as served:
        yield served


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
    for api, session in opened:
        session.shut_down()
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
