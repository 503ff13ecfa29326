"""The panels on hosted services: both variants where the documentation disagrees, and errors."""

from __future__ import annotations

import pytest
from hosted_api import STARTER, Shapes
from panel_page import PanelPage
from scripted_server import as_json

from pipemagic.notebook.panels.opening import open_panel

SHAPES = {
    "as documented": Shapes(),
    "as the client package reads it": Shapes(organizations="bare", sums="usage", deleted="object", taken=400),
    "as the command-line tool reads it": Shapes(locations="two levels", sums="usage", taken=422),
    "regions": Shapes(locations="regions", storage="storage", more_locations=as_json(STARTER, 402)),
}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_from_a_group_to_a_cell(hosted, shapes):
    _, session = hosted(shapes)
    code = next(iter(shapes.places))
    session.platform.create_group("edge", code)
    panel = PanelPage(open_panel(session, "databases"))
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("Database flights is in group edge.")
    panel.wait_for("Connect to flights")
    panel.click("Connect to flights")
    panel.wait("Connected to flights")
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    panel.type("Database name", "flights")
    assert panel.error_of("Database name") == "flights already exists"
