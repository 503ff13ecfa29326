"""The panel Explore: tables by pages, sorted and filtered by the server."""

from __future__ import annotations

import pytest


@pytest.fixture
def flights(session):
    session.run("CREATE TABLE flights(id INTEGER PRIMARY KEY, origin TEXT, delay REAL, tail)")
    session.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 130) INSERT INTO flights "
        "SELECT i, CASE i % 3 WHEN 0 THEN 'JFK' WHEN 1 THEN 'LGA' ELSE 'EWR' END, iif(i % 10 = 0, NULL, i * 1.5), "
        "CASE i WHEN 1 THEN 'NULL' WHEN 2 THEN '' WHEN 3 THEN x'00ff' WHEN 4 THEN '7' ELSE i END FROM n"
    )


def cells(panel, label="Rows of flights"):
    """The words of the body of a table, without those of its buttons."""
    (table,) = panel.find("table", label)
    body = next(node for node in table.walk() if node.tag == "tbody")
    return [
        [" ".join(c for c in cell.children if isinstance(c, str)).strip() for cell in row.children[1:]]
        for row in body.children
    ]


def opened(page, table="flights"):
    panel = page("explore")
    panel.click(f"Explore {table}")
    panel.wait(f"{table} in main")
    return panel


@pytest.mark.usefixtures("flights")
def test_a_table_by_pages(page):
    panel = opened(page)
    panel.wait("Rows 1 to 25")
    panel.wait(" of 130")
    assert cells(panel)[:4] == [
        ["1", "LGA", "1.5", "'NULL'"],
        ["2", "EWR", "3.0", "''"],
        ["3", "JFK", "4.5", "x'00ff' (2 bytes)"],
        ["4", "LGA", "6.0", "'7'"],
    ]
    assert cells(panel)[9] == ["10", "LGA", "NULL", "10"]
    assert "%%sql\nSELECT * FROM flights\nORDER BY rowid\nLIMIT 25" in panel.words
    panel.click("Last")
    panel.wait("Rows 126 to 130")
    assert not panel.can("Next")
    panel.click("Previous")
    panel.wait("Rows 101 to 125")
    panel.choose("Rows on a page", "100")
    panel.wait("LIMIT 100 OFFSET 100")
    panel.type("Go to row", "51")
    panel.submit("Go")
    panel.wait("Rows 51 to 130")
