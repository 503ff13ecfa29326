"""The magics that the Groups and Organization panels show have the same effect."""

from __future__ import annotations

import pytest
from waiting import until


@pytest.fixture
def session(shell, data, closing):
    """The session of a shell that is connected to a new embedded service."""
    shell("%pipedb connect")
    yield shell.ip.magics_manager.registry["PipeMagics"].session
    closing()


def line_of(panel, start):
    """Return the magic on the page that begins with these words."""
    until(lambda: f"%pipedb {start}" in panel.words, f"no line {start} on\n{panel.words}")
    return next(line for line in panel.words.splitlines() if line.startswith(f"%pipedb {start}"))


def test_magics_of_groups(shell, session, page):
    panel, platform = page("groups"), session.platform
    panel.type("Group name", "edge")
    panel.choose("Primary location", "fra")
    panel.submit("Create group")
    panel.wait("Group edge is in fra.")
    create = line_of(panel, "create-group")
    until(lambda: panel.can("Add a location to edge"))
    panel.click("Add a location to edge")
    panel.choose("New location", "nrt")
    panel.submit("Add location")
    panel.wait("Group edge is in fra, nrt. It has no databases yet.")
    add = line_of(panel, "add-location")
    until(lambda: panel.can("Remove nrt from edge"))
    panel.click("Remove nrt from edge")
    panel.submit("Remove nrt")
    panel.wait("Group edge is no longer in nrt; it is in fra.")
    remove = line_of(panel, "remove-location")
    panel.click("Delete group edge")
    panel.type("Type edge to delete the group", "edge")
    panel.submit("Delete group")
    panel.wait("Deleted group edge.")
    delete = line_of(panel, "delete-group")

    def places():
        return {one.name: one.locations for one in platform.groups().items if one.name != "default"}

    found = []
    for line in (create, add, remove, delete):
        shell(line)
        found.append(places())
    assert found == [{"edge": ("fra",)}, {"edge": ("fra", "nrt")}, {"edge": ("fra",)}, {}]


def test_magics_of_the_organization(shell, session, page):
    session.platform._ask(lambda api: api.create_organization("Data Club"))
    panel = page("organization")
    panel.wait("data-club (Data Club)")
    panel.click("Switch overages on")
    panel.wait("Overages of organization local are on.")
    on = line_of(panel, "overages")
    panel.wait_for("Switch overages off")
    panel.submit("Switch")
    panel.wait("Organization data-club (embedded service).")
    switch = line_of(panel, "organization")
    shell("%pipedb organization local")
    session.platform.set_overages(on=False)
    shell(on)
    assert session.platform.settings().overages is True
    shell(switch)
    assert session.platform.organization == "data-club"
    usage = line_of(panel, "usage")
    assert "rows_read" in str(shell(usage).value).replace(" ", "_")
