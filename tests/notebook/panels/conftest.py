"""Panels without a browser, on the real embedded service."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import ipywidgets
import pytest
from hosted_api import HostedApi
from panel_page import PanelPage
from served import serve
from waiting import PATIENCE

from pipemagic import local
from pipemagic.client.management import Management
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session
from pipemagic.session.keeping import KEEPING


def close_panels():
    """Close all panels, and wait for what they asked: it would open connections that nobody closes any more."""
    ipywidgets.Widget.close_all()
    while threads := [one for one in threading.enumerate() if one.name.startswith("pipemagic: ")]:
        if all(one.name == KEEPING for one in threads):  # that one ends with its session
            break
        for thread in threads:  # one that ends may start another
            if thread.name != KEEPING:
                thread.join(PATIENCE)
                assert not thread.is_alive(), f"{thread.name!r} did not end"


@pytest.fixture(scope="session")
def closing():
    """Give what closes all panels, for sessions that a test makes itself."""
    return close_panels


class Shared:
    """The folder of one embedded service for many tests, which goes on between them."""

    def __init__(self, folder):
        self.folder = folder
        self._lease = None

    @contextmanager
    def management(self):
        """Manage the organization local; a service that a test has ended starts again."""
        before, self._lease = self._lease, local.ensure(self.folder)
        if before is not None:
            before.close()
        service = self._lease.service
        with Management(service.url, service.platform_token(), organization="local") as management:
            yield management

    def close(self):
        if self._lease is not None:
            self._lease.close()
        local.stop(self.folder)


def delete_all(management):
    """Delete all groups, with their databases."""
    for group in management.groups():
        management.delete_group(group.name)


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """An embedded service for many tests, of groups and databases."""
    shared = Shared(tmp_path_factory.mktemp("shared"))
    yield shared
    shared.close()


@pytest.fixture
def service_folder(shared):
    """The folder of an embedded service with nothing in it. Tests of more than groups and databases have their own."""
    yield shared.folder
    with shared.management() as management:
        delete_all(management)
        assert [(one.slug, one.overages) for one in management.organizations()] == [("local", False)]


@pytest.fixture(scope="module")
def shared_in_module(tmp_path_factory):
    """An embedded service for the tests of a module, also of what belongs to whole organizations."""
    shared = Shared(tmp_path_factory.mktemp("shared-in-module"))
    yield shared
    shared.close()


@pytest.fixture
def own_service_folder(shared_in_module):
    """The folder of that one, with nothing in the organization local; other tests have made other organizations."""
    yield shared_in_module.folder
    with shared_in_module.management() as management:
        delete_all(management)
        management.update_organization(overages=False)
        management._call("PATCH", "/v1/quotas/local", {"rows_read": 0, "rows_written": 0})


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
