"""Panels without a browser, on the real embedded service."""

from __future__ import annotations

import ipywidgets
import pytest
from panel_page import PanelPage

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
