"""The panel of databases."""

from __future__ import annotations

from waiting import until


def test_from_a_name_to_a_cell(page, session):
    panel = page("databases")
    panel.type("Database name", "main")
    assert panel.error_of("Database name") == "main exists already"
    panel.type("Database name", "flights")
    assert panel.error_of("Database name") == ""
    panel.submit("Create database")
    panel.wait("Database flights is in group default.")
    assert "%pipedb create-database flights --group default" in panel.words
    until(lambda: panel.can("Connect to flights"))
    panel.click("Connect to flights")
    panel.wait("Connected to flights (embedded service).")
    assert session.current == "flights"
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    assert panel.text == "Databases\n  Name     Group\n  flights  default  current\n  main     default  connected"
