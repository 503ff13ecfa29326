"""The Databases panel follows changes elsewhere: writes of cells, and databases deleted by other sessions."""

from __future__ import annotations

import pytest
from panel_page import PanelPage
from waiting import PATIENCE, until

from pipemagic.notebook.panels.databases import DatabasesPanel
from pipemagic.session import Session


@pytest.fixture
def panel(page, session, monkeypatch) -> PanelPage:
    """The panel, with a short delay after writes of cells, and the databases main and old."""
    monkeypatch.setattr(DatabasesPanel, "interval", 0.01)
    session.organization.create_database("old", "default")
    panel = page("databases")
    panel.wait_for("Details of old")
    return panel


@pytest.fixture
def other_session(session):
    """Another session on the same service, whose changes send no signal to this one."""
    with Session(environ={}) as other:
        other.connect()
        yield other


@pytest.fixture
def outdated(panel, monkeypatch) -> list[str]:
    """The databases whose tables must be read again."""
    found: list[str] = []
    monkeypatch.setattr(panel.panel.details.browser.model, "outdate", lambda: found.append(panel.panel.chosen))
    return found


# -- after cells


def test_sizes_are_those_after_the_last_cell(panel, session):
    sizes = lambda: panel.panel.sizes.get("main", 0)  # noqa: E731
    before = until(sizes)
    # The embedded service returns the size of the file, after a checkpoint.
    session.run("CREATE TABLE u (b); INSERT INTO u VALUES (zeroblob(6000000))")
    until(lambda: sizes() >= before + 5_000_000)
    until(lambda: " MB" in panel.rows("Databases")[0][1])
    assert panel.alerts == []


def test_sizes_are_read_at_the_end_of_a_transaction(panel, outdated, session):
    panel.click("Details of main")
    session.run("CREATE TABLE t (a)")
    assert outdated.pop() == "main"
    until(lambda: not panel.panel._written)
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    assert not panel.panel._written
    assert outdated == []
    session.run("COMMIT")
    assert outdated == ["main"]


def test_many_writes_are_followed_by_one_read(page, session, monkeypatch):
    monkeypatch.setattr(DatabasesPanel, "interval", PATIENCE)
    panel, read = page("databases").panel, []
    monkeypatch.setattr(panel, "read_sizes", lambda: read.append(panel._written))
    session.run("CREATE TABLE t (a)")
    for _ in range(5):
        session.run("INSERT INTO t VALUES (1)")
    panel.tick()
    panel.tick()
    assert read == [False]  # a write during a read is followed by another read


# -- deletions by another session


def test_a_database_that_was_deleted_elsewhere_offers_nothing(panel, session, other_session):
    session.connect("old")
    panel.click("Details of old")
    panel.click("New token ...")
    panel.submit("Create token")
    until(lambda: panel.secrets)
    other_session.organization.delete_database("old")
    panel.click("Refresh")
    panel.wait("old was deleted elsewhere.")
    until(lambda: panel.secrets == [])
    assert panel.buttons_in(panel.panel.details) == ["Close details", "Close the connection old"]
    panel.panel.details.facts.click("close", "old")
    panel.wait("Closed old.")
    assert panel.buttons_in(panel.panel.details) == ["Close details"]
    panel.click("Close details")
    assert "deleted elsewhere" not in panel.words
    assert panel.alerts == []


def test_a_failure_because_of_a_deletion_elsewhere_refreshes_the_list(panel, other_session):
    panel.click("Details of old")
    panel.click("Delete database ...")
    other_session.organization.delete_database("old")
    panel.type("Type old to delete", "old")
    panel.submit("Delete database")
    panel.wait("old was deleted elsewhere.")
    assert "NOT_FOUND: " in panel.words
    assert not panel.can("Details of old")


def test_a_cell_deletes_a_database_and_creates_it_again(panel, session):
    panel.click("Details of old")
    session.organization.delete_database("old")
    panel.wait("old was deleted elsewhere.")
    session.organization.create_database("old", "default")
    panel.wait_for("Delete database ...")
    assert "deleted elsewhere" not in panel.words


def test_after_a_refused_deletion_the_form_is_still_there(panel, session, monkeypatch):
    def refuse(_name: str) -> None:
        raise PermissionError("not now")

    monkeypatch.setattr(session.organization, "delete_database", refuse)
    panel.click("Details of old")
    panel.click("Delete database ...")
    panel.type("Type old to delete", "old")
    panel.submit("Delete database")
    panel.wait("not now")
    assert panel.field("Type old to delete").value == "old"
