"""Panels without a browser, on the real embedded service."""

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
    own = lambda one: one.name.startswith("pipemagic: ") and one.name != THREAD_NAME  # noqa: E731
    while threads := list(filter(own, threading.enumerate())):  # the thread of that name ends with its session
        for thread in threads:  # one that ends may start another
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread.name!r} did not end"


@pytest.fixture(scope="session")
def closing():
    """Give what closes all panels, for sessions that a test makes itself."""
    return close_panels


@pytest.fixture
def service_folder(shared_service):
    """The folder of an embedded service with nothing in it.

    A module whose tests make organizations, or change one, imports `shared_service`, and so has its own.
    """
    shared_service.ready()
    return shared_service.folder


@pytest.fixture
def session(service_folder, monkeypatch):
    """A session that is connected to an embedded service with nothing in it."""
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
    """The service that the databases are in."""
    with serve(tmp_path_factory.mktemp("behind")) as served:
        yield served


@contextmanager
def hosting(behind):
    """Give what starts a hosted service with an organization, and a session that knows it; it gives both."""
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
    """Start a hosted service with an organization, and a session that knows it; gives both."""
    with hosting(behind) as start:
        yield start


@pytest.fixture(scope="module")
def hosted_for_long(behind):
    """Start a hosted service for all tests of a module."""
    with hosting(behind) as start:
        yield start
