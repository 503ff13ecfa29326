"""The panel of databases follows what others do: cells that write, and whoever deletes a database."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest
from panel_page import PanelPage
from waiting import PATIENCE, until

from pipemagic.notebook.panels.databases.model import DatabasesModel
from pipemagic.notebook.panels.databases.pacing import Pacing
from pipemagic.notebook.panels.databases.preview import PreviewModel
from pipemagic.notebook.panels.databases.view import DatabasesView
from pipemagic.notebook.panels.ground.widget import Panel
from pipemagic.notebook.panels.holdings import holdings_of
from pipemagic.session import Session


@pytest.fixture
def opened(session):
    """Open the panel, looking again as soon as there is a reason."""

    def open_() -> PanelPage:
        holdings = holdings_of(session)
        holdings.refresh()
        assert holdings.wait(30)
        return PanelPage(Panel(DatabasesView(DatabasesModel(holdings, fresh=0.01))))

    return open_


@pytest.fixture
def somebody_else(session):
    """Another session on the same service, of which this one hears nothing."""
    with Session(environ={}) as other:
        other.connect()
        yield other


def rows_of(panel: PanelPage) -> list[list[str]]:
    tables = [one for one in panel.find("table") if one.attributes["aria-label"].startswith("First rows of")]
    return [[cell.words for cell in row.walk() if cell.tag == "td"] for one in tables for row in one.walk()
            if row.tag == "tr" and any(cell.tag == "td" for cell in row.walk())]  # fmt: skip


# -- after cells


def test_tables_rows_and_sizes_are_those_after_the_last_cell(opened, session):
    session.run("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    panel = opened()
    panel.click("Details of main")
    panel.wait("1 row")
    panel.click("First rows of t")
    until(lambda: rows_of(panel) == [["1"]])
    sizes = panel.panel.view.model.sizes
    until(lambda: sizes.sizes.get("main"))
    before = sizes.sizes["main"]
    blob = "zeroblob(6000000)"  # the embedded service counts what is in the file, so after a checkpoint
    session.run(f"INSERT INTO t VALUES (2); CREATE TABLE u (b); INSERT INTO u VALUES ({blob})")
    until(lambda: rows_of(panel) == [["1"], ["2"]])
    assert [one.words for one in panel.find("li")] == ["t2 rows", "u1 row"]
    until(lambda: sizes.sizes["main"] >= before + 5_000_000)
    session.run("DROP TABLE t")
    until(lambda: [one.words for one in panel.find("li")] == ["u1 row"])
    assert rows_of(panel) == []
    assert panel.alerts == []


def test_nothing_blinks_while_it_is_read_again(opened, session):
    session.run("CREATE TABLE t (a)")
    panel = opened()
    panel.click("Details of main")
    panel.wait("0 rows")
    panel.click("First rows of t")
    panel.wait("It has no rows.")
    seen: list[str] = []
    panel.panel.observe(lambda _: seen.append(panel.words), "tree")
    session.run("INSERT INTO t VALUES (1)")
    until(lambda: rows_of(panel) == [["1"]])
    assert not any("Reading" in words or "No tables yet" in words for words in seen)
    assert all("It has no rows." in words for words in seen[:-1])


def test_what_is_written_while_it_is_read_is_read_once_more_after_that(session):
    session.run("CREATE TABLE t (a)")
    opened, go_on = [], threading.Event()

    def open_(name):
        opened.append(name)
        assert go_on.wait(PATIENCE)
        return session.platform.open(name, read_only=True)

    model = PreviewModel(open_)
    model.look("main")
    until(lambda: opened)
    for _ in range(3):
        model.look_again()
        assert sum(one.name == "pipemagic: preview" for one in threading.enumerate()) == 1
    session.run("INSERT INTO t VALUES (1)")
    go_on.set()
    until(lambda: len(opened) == 2)
    until(lambda: not model._reading)
    assert [one.rows for one in model.tables] == [1]
    assert opened == ["main", "main"]
    model.leave()


def test_of_a_transaction_the_end_counts(opened, session):
    session.run("CREATE TABLE t (a)")
    panel = opened()
    model = panel.panel.view.model
    panel.click("Details of main")
    panel.wait("0 rows")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    assert not model._written
    session.run("COMMIT")
    panel.wait("1 row")


def test_what_another_database_holds_is_not_read(opened, session):
    session.platform.create_database("other", "default")
    panel = opened()
    panel.click("Details of other")
    panel.wait("No tables yet")
    preview = panel.panel.view.model.preview
    read = []
    preview.look_again = lambda: read.append(preview.database)
    session.run("CREATE TABLE t (a)", on="main")
    session.connect("other")
    session.run("CREATE TABLE t (a)", on="other")
    until(lambda: read)
    assert read == ["other"]


def test_a_panel_that_is_closed_asks_nothing(opened, session):
    panel = opened()
    model = panel.panel.view.model
    until(lambda: model.sizes.sizes)
    panel.panel.close()
    session.run("CREATE TABLE t (a)")
    assert not model._written


def test_many_reasons_are_one_look_and_looks_keep_their_distance():
    looked, calling = [], threading.Lock()

    def look() -> None:
        assert calling.acquire(blocking=False)
        looked.append(time.monotonic())
        calling.release()

    pacing = Pacing(look, pause=0.2)
    for number in range(1, 4):
        for _ in range(50):
            pacing.ask()
        until(lambda number=number: len(looked) >= number)
    assert all(after - before >= 0.2 for before, after in pairwise(looked))
    pacing.ask()
    pacing.stop()
    before = len(looked)
    pacing.ask()
    until(lambda: len(looked) > before)
    assert len(looked) == before + 1


# -- what somebody else deleted


def test_a_database_that_somebody_else_deleted_offers_nothing(opened, session, somebody_else):
    session.platform.create_database("old", "default")
    session.connect("old")
    panel = opened()
    panel.click("Details of old")
    panel.wait("No tables yet")
    panel.click("New token ...")
    panel.submit("Make token")
    panel.wait("The token is made.")
    until(lambda: panel.secrets)
    somebody_else.platform.delete_database("old")
    panel.click("Refresh")
    panel.wait("old is gone: it was deleted outside of this panel.")
    until(lambda: panel.secrets == {})
    [box] = [one for one in panel.find("section") if one.attributes.get("aria-label") == "Database old"]
    buttons = [one.attributes.get("aria-label", one.words) for one in box.walk() if one.tag == "button"]
    assert buttons == ["Close details", "Close the connection old, in details"]
    assert "The connection old leads nowhere now." in panel.words
    panel.click("Close the connection old, in details")
    panel.wait("Closed old. %%sql cells have no connection now.")
    assert "leads nowhere" not in panel.words
    panel.click("Close details")
    assert "old is gone" not in panel.words
    assert panel.alerts == []


def test_what_failed_since_it_is_gone_has_the_list_asked_again(opened, session, somebody_else):
    session.platform.create_database("old", "default")
    panel = opened()
    panel.click("Details of old")
    panel.wait("No tables yet")
    panel.click("Delete old ...")
    somebody_else.platform.delete_database("old")
    panel.type("Type old to delete", "old")
    panel.submit("Delete")
    panel.wait("old is gone: it was deleted outside of this panel.")
    assert "NOT_FOUND: " in panel.words
    assert not panel.find("button", "Details of old")


def test_a_cell_that_deletes_it_and_makes_it_anew(opened, session):
    session.platform.create_database("flights", "default")
    panel = opened()
    panel.click("Details of flights")
    panel.wait("No tables yet")
    session.platform.delete_database("flights")
    panel.wait("flights is gone: it was deleted outside of this panel.")
    session.platform.create_database("flights", "default")
    panel.wait("No tables yet")
    assert "flights is gone" not in panel.words
    panel.wait_for("Delete flights ...")


def test_what_was_created_here_and_is_gone_cannot_be_connected_to(opened, session, somebody_else, monkeypatch):
    panel = opened()
    panel.type("Database name", "new")
    panel.submit("Create database")
    panel.wait("Database new is in group default.")
    until(lambda: panel.can("Connect to new"))
    somebody_else.platform.delete_database("new")
    panel.click("Refresh")
    panel.wait("new is gone: it was deleted outside of this panel.")
    assert not panel.find("button", "Connect to the new database new")
    panel.click("Done")
    listed, list_ = threading.Event(), session.platform.databases
    monkeypatch.setattr(session.platform, "databases", lambda: listed.wait(30) and list_())
    panel.type("Database name", "new")
    panel.submit("Create database")
    until(lambda: panel.can("Connect to the new database new"))
    assert "new is gone" not in panel.words  # though it is not listed yet
    listed.set()
    until(lambda: panel.can("Connect to new"))


def test_a_database_that_this_panel_deletes_is_never_called_gone(opened, session, monkeypatch):
    session.platform.create_database("old", "default")
    panel = opened()
    delete = session.platform.delete_database

    def slowly(name: str) -> None:
        delete(name)
        until(lambda: not panel.find("button", "Details of old"))  # the list is faster than this work

    monkeypatch.setattr(session.platform, "delete_database", slowly)
    seen: list[str] = []
    panel.panel.observe(lambda _: seen.append(panel.words), "tree")
    panel.click("Details of old")
    panel.click("Delete old ...")
    panel.type("Type old to delete", "old")
    panel.submit("Delete")
    panel.wait("Database old is deleted.")
    until(lambda: not panel.find("button", "Details of old"))
    assert not any("old is gone" in words for words in seen)


def test_a_box_that_was_open_is_whole_again_when_its_panel_is_seen_again(opened, session):
    session.run("CREATE TABLE t (a)")
    panel = opened()
    panel.click("Details of main")
    panel.wait("0 rows")
    panel.panel._heard(panel.panel, {"seen": False}, [])
    panel.panel._heard(panel.panel, {"seen": True}, [])
    panel.wait("0 rows")
