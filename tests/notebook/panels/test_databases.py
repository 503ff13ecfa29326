"""The Databases panel."""

from __future__ import annotations

import os
import threading
import time

import pytest
from msgspec import structs
from panel_page import PanelPage
from waiting import PATIENCE, until

from pipemagic.errors import NotFound
from pipemagic.notebook.panels import base, databases
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session


def create(panel: PanelPage, name: str) -> None:
    """Create a database in the panel and wait until it is listed."""
    panel.type("Database name", name)
    panel.submit("Create database")
    panel.wait(f"Database {name} is in group default.")
    panel.wait_for(f"Details of {name}")


def test_from_a_name_to_a_cell(page, session):
    panel = page("databases")
    panel.type("Database name", "main")
    assert panel.error_of("Database name") == "main already exists"
    panel.type("Database name", "flights")
    assert panel.error_of("Database name") == ""
    panel.submit("Create database")
    panel.wait("Database flights is in group default.")
    assert panel.field("Database name").value == ""
    assert "%pipedb create-database flights --group default" in panel.words
    assert session.platform.databases().items[0].url in panel.words
    panel.click("Connect to flights")
    panel.wait("Connected to flights (embedded service).\n%pipedb connect flights\n%%sql cells use flights.")
    assert session.current == "flights"
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    assert panel.text == "Databases\n  Name     Group\n  flights  default  current\n  main     default  connected"
    assert "http" not in panel.html  # the port differs after each start


def test_the_card_of_a_created_database_offers_to_connect_unless_it_is_connected(page, session):
    panel = page("databases")
    create(panel, "flights")
    connect = panel.panel.created_connect
    panel.press(connect)
    panel.wait("Connected to flights")
    assert connect not in panel.widgets
    session.use("main")
    panel.wait_for("Use flights for %%sql cells")
    assert connect not in panel.widgets
    session.close("flights")
    until(lambda: connect in panel.widgets)
    panel.click("Done")
    assert not panel.can("Done")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("Flights", "a database's name has only lower-case letters, digits and hyphens, not F"),
        (
            "a" * 58,
            "a database's name has at most 57 characters here, which leaves room for -local in a host name; "
            "this one has 58",
        ),
    ],
)
def test_a_bad_name_is_refused_while_it_is_typed_and_on_enter(page, name, wrong):
    panel = page("databases")
    assert "lower-case letters, digits, hyphens; at most 57" in panel.words
    panel.type("Database name", name)
    assert panel.error_of("Database name") == wrong
    panel.submit("Create database")
    assert panel.alerts == [wrong]
    panel.type("Database name", "a" * 57)
    assert panel.error_of("Database name") == ""


def test_without_a_group_one_is_created_first(page, session):
    session.platform.delete_group("default")
    panel = page("databases")
    assert "No group exists yet." in panel.words
    assert "No databases yet." in panel.text
    assert not panel.can("Create database")
    panel.choose("Location", "fra")
    panel.submit("Create group default")
    panel.wait("Group default is in fra.")
    assert "%pipedb create-group default --location fra" in panel.words
    panel.wait_for("Create database")
    create(panel, "first")


def test_use_and_close(page, session):
    session.platform.create_database("other", "default")
    session.connect("other", name="my copy")
    panel = page("databases")
    assert "current as my copy" in panel.words
    assert panel.text.splitlines()[2:] == ["  main   default  connected", "  other  default  current as my copy"]
    panel.click("Use main for %%sql cells")
    panel.wait("Using main.")
    assert "%pipedb use main" in panel.words
    session.run("BEGIN IMMEDIATE")
    panel.click("Close the connection main")
    panel.wait(
        "Closed main. Its open transaction was rolled back.\n%pipedb close main\n%%sql cells have no connection."
    )
    panel.click("Close the connection my copy")
    panel.wait("Closed my copy.")
    assert '%pipedb close "my copy"' in panel.words
    assert session.connections == {}


def test_the_note_about_the_current_connection_is_updated(page, session):
    session.platform.create_database("sales", "default")
    panel = page("databases")
    panel.click("Connect to sales")
    panel.wait("Connected to sales")
    panel.wait("%%sql cells use sales.")
    session.use("main")
    panel.wait("%%sql cells use main.")
    assert "cells use sales" not in panel.words
    session.close("main")
    panel.wait("%%sql cells have no connection.")
    session.use("sales")
    panel.wait("%%sql cells use sales.")


def test_deleting_requires_the_name_and_closes_the_connection(page, session):
    session.platform.create_database("old", "default")
    session.connect("old")
    panel = page("databases")
    panel.click("Details of old")
    panel.click("Delete database ...")
    warning = "This permanently deletes old and all its data, for all users. It also closes the connection old."
    assert warning in panel.words
    panel.type("Type old to delete", "olt")
    panel.submit("Delete database")
    panel.wait("nothing was deleted: the typed name is not old")
    panel.escape()
    assert not panel.can("Delete database")
    assert panel.alerts == []
    panel.click("Delete database ...")
    panel.type("Type old to delete", "old")
    panel.submit("Delete database")
    panel.wait(
        "Deleted database old.\nClosed old, whose database was deleted.\n"
        "%pipedb delete-database old --confirm\n%%sql cells have no connection."
    )
    until(lambda: not panel.can("Details of old"))
    assert list(session.connections) == ["main"]


def test_two_panels_and_cells_agree(page, session):
    one, two = page("databases"), page("databases")
    create(one, "shared")
    two.wait_for("Connect to shared")
    session.connect("shared")
    one.wait_for("Close the connection shared")
    session.platform.delete_database("shared")
    until(lambda: not two.can("Details of shared"))


def test_a_new_panel_does_not_show_an_old_empty_list(page, session, monkeypatch):
    session.platform.delete_database("main")
    assert "No databases yet." in page("databases").words
    list_databases, go_on = session.platform.databases, threading.Event()
    monkeypatch.setattr(session.platform, "databases", lambda: go_on.wait(PATIENCE) and list_databases())
    list_databases.__self__.create_database("flights", "default")
    monkeypatch.setattr(base, "PATIENCE", 0.01)
    panel = page("databases")
    assert "Loading ..." in panel.words
    assert "No databases yet." not in panel.words + panel.text
    go_on.set()
    panel.wait_for("Details of flights")


def test_a_connection_of_the_same_name_to_another_database_is_not_used(page, session):
    session.platform.create_database("other", "default")
    session.connect("main", name="other")
    panel = page("databases")
    panel.click("Connect to other")
    panel.wait("the connection other belongs to another database (embedded service)")
    assert "%pipedb close other makes the name free" in panel.words


def test_details_are_above_the_list(page):
    panel = page("databases")
    panel.click("Details of main")
    widgets = panel.widgets
    assert widgets.index(panel.panel.details) < widgets.index(panel.table("Databases"))
    assert panel.rows("Details")[0][0] == "default"
    assert panel.rows("Details")[0][2].startswith(time.strftime("%Y-"))
    panel.escape(panel.panel.details)
    assert panel.panel.details not in panel.widgets
    panel.click("Details of main")
    panel.click("Details of main")
    assert panel.panel.details not in panel.widgets


def test_sizes_are_read_in_the_background(page, session):
    session.run("CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(500000))")
    panel = page("databases")
    until(lambda: "kB" in panel.rows("Databases")[0][1])
    assert "kB" not in panel.text  # it changes from run to run


def test_many_databases_are_shown_in_pages(page, session):
    panel, state = page("databases"), page("databases").panel.state
    state.task.wait(PATIENCE)
    one = state.databases[0]
    state.databases = [structs.replace(one, name=f"{'x' * 50}-{number:03}") for number in range(1000)]
    panel.panel.changed()
    assert len(panel.rows("Databases")) == 1000
    assert panel.table("Databases").page_size == 100


class Late:
    """Responds with 404 for a while, as hosted services do after a database was created."""

    def __init__(self, session: Session, refusals: int) -> None:
        self.connect, self.left = session.connect, refusals

    def __call__(self, name: str, **options: object):
        if self.left:
            self.left -= 1
            raise NotFound("database not found", status=404)
        return self.connect(name, **options)


@pytest.mark.parametrize(
    ("refusals", "words"), [(2, "Connected to new (embedded service)."), (3, "database not found")]
)
def test_connecting_to_a_new_database_is_retried_for_some_time(page, session, monkeypatch, refusals, words):
    monkeypatch.setattr(databases, "PAUSES", (0.01, 0.01))
    panel = page("databases")
    create(panel, "new")
    monkeypatch.setattr(session, "connect", Late(session, refusals))
    panel.press(panel.panel.created_connect)
    panel.wait(words)
    assert bool(panel.alerts) == (refusals == 3)


def test_the_magics_on_the_page_have_the_same_effect(shell, data, closing):
    shell("%pipedb connect")
    panel = open_panel(shell.ip.magics_manager.registry["PipeMagics"].session, "databases")
    PanelPage(panel)
    panel.choose("main")
    tokens, lines = panel.details.tokens, []

    def create():
        panel.name.widget.value = "flights"
        panel.create_database()

    def create_token():
        tokens.expires.widget.value, tokens.duration.widget.value, tokens.read_only.value = "custom", "1w2d", True
        tokens.create_token()

    for task, act in (
        (panel.action, create),
        (panel.action, lambda: panel.connect_database("flights")),
        (tokens.action, create_token),
        (tokens.action, lambda: tokens.invalidate_all("main", "main")),
        (panel.action, lambda: panel.use("main")),
        (panel.action, lambda: panel.close_connection("flights")),
        (panel.action, lambda: panel.delete_database("flights", "flights")),
    ):
        act()
        assert task.wait(PATIENCE)
        assert task.error is None
        lines.append(task.line)
    said = [shell(line).lines[0] for line in lines]
    del os.environ["MAIN_TOKEN"]
    closing()
    assert said == [
        "Database flights is in group default.",
        "Connected to flights (embedded service).",
        "Stored a read-only token for main for 1w2d in the variable MAIN_TOKEN.",
        "All tokens of main are invalid.",
        "Using main.",
        "Closed flights.",
        "Deleted database flights.",
    ]
