"""The Databases panel."""

from __future__ import annotations

import threading
import time

import pytest
from waiting import PATIENCE, until

from pipemagic.errors import PipemagicError
from pipemagic.notebook.panels import base


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
    assert session.organization.databases().items[0].url in panel.words
    panel.click("Connect to flights")
    address = session.organization.databases().items[0].url
    greeting = f"Connected to flights (embedded service).\nAddress: {address}"
    panel.wait(f"{greeting}\n%pipedb connect flights\n%%sql cells use flights.")
    assert session.current == "flights"
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    assert panel.text == "Databases\n  Name     Group\n  flights  default  current\n  main     default  connected"
    assert "http" not in panel.html  # the port differs after each start


def test_the_group_called_default_is_selected_first(page, session):
    session.organization.create_group("asia", "nrt")
    panel = page("databases")
    assert panel.field("Group").options == ("default", "asia")
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("Database flights is in group default.")


def test_without_a_group_one_is_created_first(page, session):
    session.organization.delete_group("default")
    panel = page("databases")
    assert "No group exists yet." in panel.words
    assert "No databases yet." in panel.text
    assert not panel.can("Create database")
    panel.choose("Location", "fra")
    panel.submit("Create group default")
    panel.wait("Group default is in fra.")
    assert "%pipedb create-group default --location fra" in panel.words
    panel.wait_for("Create database")
    panel.type("Database name", "first")
    panel.submit("Create database")
    panel.wait("Database first is in group default.")


def test_use_and_close(page, session):
    session.organization.create_database("other", "default")
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


def test_deleting_requires_the_name_and_closes_the_connection(page, session):
    session.organization.create_database("old", "default")
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
        "Deleted database old.\nClosed old: its database was deleted.\n"
        "%pipedb delete-database old --confirm\n%%sql cells have no connection."
    )
    until(lambda: not panel.can("Details of old"))
    assert list(session.connections) == ["main"]


def test_suspend_and_resume(page, session):
    panel = page("databases")
    panel.click("Details of main")
    assert panel.rows("Details")[0][-1] == "ok"
    assert not panel.can("Resume database")
    panel.click("Suspend database ...")
    assert "This ends all statements and open transactions on main, for all users" in panel.words
    panel.type("Type main to suspend", "mian")
    panel.submit("Suspend database")
    panel.wait("nothing was suspended: the typed name is not main")
    panel.type("Type main to suspend", "main")
    panel.submit("Suspend database")
    panel.wait("Suspended database main. Its statements were stopped, and new ones are refused until it is resumed.")
    assert "%pipedb suspend-database main --confirm" in panel.words
    until(lambda: panel.rows("Details")[0][-1] == "suspended")
    assert panel.text.splitlines()[-1] == "  main  default  current, suspended"
    assert not panel.can("Suspend database ...")
    with pytest.raises(PipemagicError, match="is suspended"):
        session.run("SELECT 1")
    panel.click("Resume database")
    panel.wait("Resumed database main.")
    assert "%pipedb resume-database main" in panel.words
    until(lambda: panel.rows("Details")[0][-1] == "ok")
    assert panel.text.splitlines()[-1] == "  main  default  current"
    assert panel.can("Suspend database ...")
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]


def test_protection_from_deletion(page, session):
    panel = page("databases")
    panel.click("Details of main")
    panel.click("Delete database ...")
    panel.wait_for("Protect from deletion")
    panel.click("Protect from deletion")
    panel.wait("%pipedb protect-database main")
    until(lambda: panel.panel.open_form is None)  # the form that deletes it was open
    assert not panel.can("Delete database ...")
    assert not panel.can("Protect from deletion")
    assert "protected" in panel.rows("Databases")[0][0]
    session.organization.protect("group", "default", on=True)
    panel.wait("Group default is protected from deletion.")
    panel.click("Allow deletion")
    panel.wait("Database main can be deleted again.")
    until(lambda: not panel.can("Allow deletion"))
    assert not panel.can("Delete database ...")
    session.organization.protect("group", "default", on=False)
    until(lambda: panel.can("Delete database ..."))


def test_a_new_panel_does_not_show_an_old_empty_list(page, session, monkeypatch):
    session.organization.delete_database("main")
    assert "No databases yet." in page("databases").words
    list_databases, go_on = session.organization.databases, threading.Event()
    monkeypatch.setattr(session.organization, "databases", lambda: go_on.wait(PATIENCE) and list_databases())
    list_databases.__self__.create_database("flights", "default")
    monkeypatch.setattr(base, "PATIENCE", 0.01)
    panel = page("databases")
    assert "Loading ..." in panel.words
    assert "No databases yet." not in panel.words + panel.text
    go_on.set()
    panel.wait_for("Details of flights")


def test_a_connection_of_the_same_name_to_another_database_is_not_used(page, session):
    session.organization.create_database("other", "default")
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


def test_the_first_temporary_database_is_connected_as_temporary(page, session):
    session.connect(temporary=True)
    panel = page("databases")
    assert panel.text == "Databases\n  Name  Group\n  main  default  current as temporary"
    session.connect()
    session.connect("main")
    assert sorted(session.connections) == ["main", "temporary"]


def test_a_branch(page, session):
    session.connect("main")
    session.run("CREATE TABLE t (a)")
    session.run("INSERT INTO t VALUES (1)")
    panel = page("databases")
    panel.choose("Branch of", "main")
    panel.type("As it was at", "noon")
    assert panel.error_of("As it was at") == "'noon' is not a time such as 2026-11-29 14:00"
    panel.type("As it was at", "")
    panel.type("Database name", "copy")
    panel.submit("Create database")
    panel.wait("copy has the content of main as of 20")
    assert "%pipedb create-database copy --group default --branch-of main" in panel.words
    panel.click("Details of copy")
    panel.wait("It was created as a copy of main as it was at 20")
    panel.type("Database name", "old")
    panel.type("As it was at", "2026-01-01 10:00")
    panel.submit("Create database")
    panel.wait("there is no backup of main from")
    session.connect("copy")
    assert session.run("SELECT a FROM t")["a"].tolist() == [1]
