"""The panel of databases."""

from __future__ import annotations

import os
import time

import ipywidgets
import pytest
from panel_page import PanelPage
from waiting import until

from pipemagic.errors import NotFound
from pipemagic.management_api.models import DatabaseInfo
from pipemagic.notebook.panels.databases import sizes
from pipemagic.notebook.panels.databases.listing import SHOWN
from pipemagic.notebook.panels.databases.model import DatabasesModel
from pipemagic.notebook.panels.databases.view import DatabasesView
from pipemagic.notebook.panels.ground.widget import Panel
from pipemagic.notebook.panels.holdings import holdings_of
from pipemagic.session import Session


def created(panel: PanelPage, name: str) -> None:
    """Create a database in the panel and wait until it is listed."""
    panel.type("Database name", name)
    panel.submit("Create database")
    panel.wait(f"Database {name} is in group default.")
    until(lambda: panel.can(f"Connect to {name}"))


def test_from_a_name_to_a_cell(page, session):
    panel = page("databases")
    panel.type("Database name", "main")
    assert panel.error_of("Database name") == "main exists already"
    panel.type("Database name", "flights")
    assert panel.error_of("Database name") == ""
    panel.submit("Create database")
    panel.wait("Database flights is in group default.")
    assert "%pipedb create-database flights --group default" in panel.words
    made = session.platform.databases().items[0]
    assert made.url in panel.words
    panel.click("Connect to the new database flights")
    panel.wait("Connected to flights (embedded service). %%sql cells use it now.")
    assert "flights is the current connection: %%sql cells use it now." in panel.words
    assert "%pipedb connect flights" in panel.words
    assert session.current == "flights"
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    assert panel.text == "Databases\n  Name     Group\n  flights  default  current\n  main     default  connected"
    assert "http" not in panel.html  # its port is another after each start


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("Flights", "a database's name has only lower-case letters, digits and hyphens, not F"),
        ("two words", "a database's name has only lower-case letters, digits and hyphens, not spaces"),
        ("-x", "a database's name has no hyphen first or last"),
        (
            "a" * 58,
            "a database's name has at most 57 characters here, which leaves room for -local in a host name; "
            "this one has 58",
        ),
    ],
)
def test_a_bad_name_is_told_while_typing_and_refused_on_enter(page, name, wrong):
    panel = page("databases")
    assert "Lower-case letters, digits and hyphens, at most 57: -local comes after it." in panel.words
    panel.type("Database name", name)
    assert panel.error_of("Database name") == wrong
    panel.submit("Create database")
    panel.wait(wrong)
    panel.type("Database name", "a" * 57)
    assert panel.error_of("Database name") == ""
    created(panel, "a" * 57)


def test_without_a_group_one_is_made_first(page, session):
    session.platform.delete_group("default")
    panel = page("databases")
    assert "There is no group yet." in panel.words
    assert "No databases yet." in panel.text
    panel.choose("Location", "fra")
    panel.submit("Create group default")
    panel.wait("Group default is in fra.")
    assert "%pipedb create-group default --location fra" in panel.words
    until(lambda: panel.find("button", "Create database"))
    created(panel, "first")


def test_use_and_close(page, session):
    session.platform.create_database("other", "default")
    session.connect("other", name="my copy")
    panel = page("databases")
    assert "current as my copy" in panel.words
    assert panel.text.splitlines()[2:] == ["  main   default  connected", "  other  default  current as my copy"]
    panel.click("Use main for %%sql cells")
    panel.wait("Using main. %%sql cells use it now.")
    assert "%pipedb use main" in panel.words
    session.run("BEGIN IMMEDIATE")
    panel.click("Close the connection main")
    panel.wait("Closed main, which rolled its transaction back. %%sql cells have no connection now.")
    panel.click("Close the connection my copy")
    panel.wait("Closed my copy.")
    assert '%pipedb close "my copy"' in panel.words
    assert session.connections == {}


def test_delete_asks_for_the_name_and_closes_the_connection(page, session):
    session.platform.create_database("old", "default")
    session.connect("old")
    panel = page("databases")
    panel.click("Details of old")
    panel.click("Delete old ...")
    assert (
        "old and all that is in it will be gone for good, for everybody. The connection old is closed." in panel.words
    )
    panel.type("Type old to delete", "olt")
    panel.submit("Delete")
    panel.wait("nothing was deleted: what was typed is not old")
    panel.escape("delete old")
    assert not panel.find("button", "Delete")
    panel.click("Delete old ...")
    panel.type("Type old to delete", "old")
    panel.submit("Delete")
    panel.wait("Database old is deleted.\nClosed old. %%sql cells have no connection now.")
    assert "%pipedb delete-database old --confirm" in panel.words
    until(lambda: "Details of old" not in [one.attributes.get("aria-label") for one in panel.find("button")])
    assert list(session.connections) == ["main"]


def test_two_panels_and_cells_agree(page, session):
    one, two = page("databases"), page("databases")
    created(one, "shared")
    until(lambda: two.can("Connect to shared"))
    session.connect("shared")
    until(lambda: one.can("Close the connection shared"))
    session.platform.delete_database("shared")
    until(lambda: "Details of shared" not in [node.attributes.get("aria-label") for node in two.find("button")])


def test_a_name_that_leads_elsewhere_is_not_taken_for_the_database(page, session):
    session.platform.create_database("other", "default")
    session.connect("main", name="other")
    panel = page("databases")
    panel.click("Connect to other")
    panel.wait("the connection other leads to another database (embedded service)")
    assert "%pipedb close other makes the name free" in panel.words


def test_details_of_one(page, session):
    panel = page("databases")
    panel.click("Details of main")
    until(lambda: "No tables yet: a %%sql cell with CREATE TABLE, or %pipedb load, makes one." in panel.words)
    assert [node.words for node in panel.find("h3")] == ["main"]
    assert time.strftime("%Y-") in panel.words
    panel.escape("details of main")
    assert not panel.find("h3")


def test_sizes_are_asked_beside_everything_else(page, session):
    session.run("CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(500000))")
    panel = page("databases")
    until(lambda: "507.9 kB" in panel.words or "kB" in panel.words)
    assert "kB" not in panel.text


@pytest.mark.parametrize(
    ("size", "words"),
    [(None, ""), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (5 * 10**12, "5.0 TB"),
     (5 * 10**16, "50000.0 TB")],
)  # fmt: skip
def test_sizes_in_words(size, words):
    assert sizes.words(size) == words


def many(session: Session, count: int) -> DatabasesView:
    """A view on more databases than a test would make."""
    holdings = holdings_of(session)
    holdings.refresh()
    holdings.wait(10)
    holdings.databases = [
        DatabaseInfo(f"{'x' * 50}-{number:03}", "default", "h", "http://h.example", created=1.0)
        for number in range(count)
    ]
    return DatabasesView(DatabasesModel(holdings))


def test_of_too_many_databases_the_connected_ones_are_shown(session):
    session.platform.create_database("zoo", "default")
    session.connect("zoo")
    view = many(session, SHOWN)
    holdings = holdings_of(session)
    with holdings.hold_trait_notifications():
        holdings.databases = [*holdings.databases, DatabaseInfo("zoo", "default", "h", "http://h.example", created=1.0)]
    panel = PanelPage(Panel(view))
    panel.wait_for("Close the connection zoo")
    assert "1 more is not shown: the filter finds it." in panel.words
    ipywidgets.Widget.close_all()


def test_a_hundred_databases_are_filtered_and_drawn_quickly(session):
    panel = PanelPage(Panel(many(session, 120)))
    assert len(panel.find("button", "Copy")) == 0
    assert len([one for one in panel.find("button") if one.words == "Details"]) == SHOWN
    assert "20 more are not shown: the filter finds them." in panel.words
    panel.type("Filter by name or group", "-11")
    assert "10 of 120" in panel.words
    panel.type("Filter by name or group", "nothing")
    assert "No name or group holds that." in panel.words
    panel.type("Filter by name or group", "")
    times = []
    for _ in range(5):
        start = time.thread_time()  # whatever else runs on this machine
        panel.panel.view.draw().wire()
        times.append(time.thread_time() - start)
    assert min(times) < 0.1  # some 10 ms here
    ipywidgets.Widget.close_all()


class Late:
    """Answers 404 for a while, as hosted services do after a database was made."""

    def __init__(self, session: Session, refusals: int) -> None:
        self.connect, self.left = session.connect, refusals

    def __call__(self, name: str, **options: object):
        if self.left:
            self.left -= 1
            raise NotFound("database not found", status=404)
        return self.connect(name, **options)


def late(session: Session, monkeypatch, refusals: int) -> PanelPage:
    holdings = holdings_of(session)
    holdings.refresh()
    holdings.wait(10)
    panel = PanelPage(Panel(DatabasesView(DatabasesModel(holdings, pauses=[0.01, 0.01]))))
    created(panel, "new")
    monkeypatch.setattr(session, "connect", Late(session, refusals))
    return panel


def test_a_new_database_that_does_not_answer_yet_is_tried_again(session, monkeypatch):
    panel = late(session, monkeypatch, 2)
    panel.click("Connect to new")
    panel.wait("Connected to new (embedded service).")
    ipywidgets.Widget.close_all()


def test_but_not_for_ever(session, monkeypatch):
    panel = late(session, monkeypatch, 3)
    panel.click("Connect to new")
    panel.wait("database not found")
    assert "NOT_FOUND: " in panel.words
    ipywidgets.Widget.close_all()


def test_the_magics_that_are_shown_do_the_same(shell, data):
    shell("%pipedb connect")
    holdings = holdings_of(shell.ip.magics_manager.registry["PipeMagics"].session)
    holdings.refresh()
    holdings.wait(10)
    model, lines = DatabasesModel(holdings), []
    model.tokens.look("main")
    for subject, act in (
        (model, lambda: model.create("flights", "default")),
        (model, lambda: model.connect("flights")),
        (model.tokens, lambda: model.tokens.create("1w2d", read_only=True)),
        (model.tokens, lambda: model.tokens.invalidate("main", "main")),
        (model, lambda: model.use("main")),
        (model, lambda: model.close("flights")),
        (model, lambda: model.delete("flights", "flights")),
    ):
        act()
        assert subject.wait(30)
        assert subject.error == ""
        lines.append(subject.line)
    model.tokens.put_away()
    said = [shell(line).lines[0] for line in lines]
    del os.environ["MAIN_TOKEN"]
    assert said == [
        "Database flights is in group default.",
        "Connected to flights (embedded service).",
        "A read-only token for main for 1w2d is in the variable MAIN_TOKEN.",
        "All tokens of main are invalid.",
        "Using main.",
        "Closed flights.",
        "Deleted database flights.",
    ]
