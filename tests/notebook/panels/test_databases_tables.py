"""The tables of a database in its details: the table browser of Explore, without exports and profiles."""

from __future__ import annotations

import pytest
from waiting import until

HOSTILE = """sel'ect "<b>" 😀"""
QUOTED = '"' + HOSTILE.replace('"', '""') + '"'


@pytest.fixture
def details(page, session):
    """Open the details of a database with some tables."""
    session.run(
        f"""CREATE TABLE t(a INTEGER, "b c" TEXT, d BLOB);
        INSERT INTO t VALUES (9007199254740993, 'x', x'00ff'), (NULL, '', zeroblob(1000)), (1, 'y', NULL);
        CREATE TABLE {QUOTED}(a); CREATE VIEW seen AS SELECT a FROM t"""
    )

    def opened():
        panel = page("databases")
        panel.click("Details of main")
        panel.wait_for("Explore t")
        return panel

    return opened


def test_tables_and_rows(details):
    panel = details()
    assert [row[:2] for row in panel.rows("Tables of main")] == [["seen", "view"], [HOSTILE, "table"], ["t", "table"]]
    panel.click("Explore t")
    panel.wait("Rows 1 to 3 of 3")
    assert panel.rows("Rows of t")[0] == ["9007199254740993", "x", "x'00ff' (2 bytes)"]
    panel.click("Sort by a")
    until(lambda: panel.rows("Rows of t")[0][0] == "NULL")
    assert not {"Export ...", "Profile all columns", "Profile a"} & set(panel.buttons)
    assert "%%sql" not in panel.words
    panel.click("All tables")
    panel.click(f"Explore {HOSTILE}")
    panel.wait("The table is empty.")


def test_a_database_without_a_connection_is_read_with_a_token_that_reads_only(details, session):
    session.run("CREATE TABLE closed(a)")
    panel = details()
    session.close("main")
    panel.click("Explore seen")
    panel.wait("9007199254740993")
    assert session.connections == {}
