"""A session that is connected to an empty embedded service, and its panels."""

from __future__ import annotations

import threading

import ipywidgets
import pytest
from ipywidgets.widgets.widget import _instances
from panel_page import PanelPage
from waiting import PATIENCE

from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session
from pipemagic.session.keep_alive import THREAD_NAME


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
