"""Panels without a browser, on the real embedded service."""

from __future__ import annotations

import threading

import ipywidgets
import pytest
from hosted_api import HostedApi
from panel_page import PanelPage
from served import serve
from waiting import PATIENCE

from pipemagic import local
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session


def close_panels():
    """Close all panels, and wait for what they asked: it would open connections that nobody closes any more."""
    ipywidgets.Widget.close_all()
    for thread in threading.enumerate():
        if thread.name.startswith("pipemagic: "):
            thread.join(PATIENCE)


@pytest.fixture
def closing():
    """Give what closes all panels, for sessions that a test makes itself."""
    return close_panels


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session that is connected to a fresh embedded service."""
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    session = Session(environ={})
    session.connect()
    yield session
    close_panels()
    session.shut_down()
    local.stop()


@pytest.fixture
def page(session):
    """Open a panel by its name, or all in tabs."""
    return lambda name="all": PanelPage(open_panel(session, name))


@pytest.fixture(scope="session")
def behind(tmp_path_factory):
    """The service that the databases are in."""
    with serve(tmp_path_factory.mktemp("behind")) as served:
        yield served


@pytest.fixture
def hosted(behind):
    """Start a hosted service with an organization, and a session that knows it; gives both."""
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
