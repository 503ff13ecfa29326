"""The panels on a hosted service: both shapes where its documents disagree, and what it refuses."""

from __future__ import annotations

import ipywidgets
import pytest
from hosted_api import STARTER, HostedApi, Shapes
from panel_page import PanelPage
from scripted_server import as_json
from served import serve
from waiting import until

from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session

SHAPES = {
    "as documented": Shapes(),
    "as the client package reads it": Shapes(organizations="bare", sums="usage", deleted="object", taken=400),
    "as the command-line tool reads it": Shapes(locations="two levels", sums="usage", taken=422),
    "regions": Shapes(locations="regions", storage="storage", more_locations=as_json(STARTER, 402)),
}


@pytest.fixture(scope="module")
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
        environment = {"PIPEMAGIC_API_URL": api.url, "PIPEMAGIC_API_TOKEN": api.token}
        session = Session(environ=environment)
        opened.append((api, session))
        return api, session

    yield start
    ipywidgets.Widget.close_all()
    for api, session in opened:
        session.shut_down()
        api.close()


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_from_a_group_to_a_cell(hosted, shapes):
    _, session = hosted(shapes)
    code = next(iter(shapes.places))
    session.platform.create_group("edge", code)
    panel = PanelPage(open_panel(session, "databases"))
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("Database flights is in group edge.")
    until(lambda: panel.can("Connect to flights"))
    panel.click("Connect to flights")
    panel.wait("Connected to flights")
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    panel.type("Database name", "flights")
    assert panel.error_of("Database name") == "flights exists already"
