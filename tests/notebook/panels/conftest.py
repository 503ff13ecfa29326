"""Panels without a browser, on the real embedded service."""

from __future__ import annotations

import ipywidgets
import pytest
from hosted_api import HostedApi
from panel_page import PanelPage
from served import serve

from pipemagic import local
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session that is connected to a fresh embedded service."""
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    session = Session(environ={})
    session.connect()
    yield session
    session.shut_down()
    local.stop()


@pytest.fixture
def page(session):
    """Open a panel by its name, or all in tabs."""
    yield lambda name="all": PanelPage(open_panel(session, name))
    ipywidgets.Widget.close_all()


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
    ipywidgets.Widget.close_all()
    for api, session in opened:
        session.shut_down()
        api.close()
