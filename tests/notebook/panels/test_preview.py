"""The tables of a database and their first rows, in the panel of databases."""

from __future__ import annotations

from waiting import until

HOSTILE = """sel'ect "<b>" 😀"""
QUOTED = '"' + HOSTILE.replace('"', '""') + '"'


def filled(session) -> None:
    session.run(
        f"""CREATE TABLE t(a INTEGER, "b c" TEXT, d BLOB);
        INSERT INTO t VALUES (9007199254740993, 'x', x'00ff'), (NULL, '', zeroblob(1000)), (1, '{"long " * 100}', NULL);
        CREATE TABLE {QUOTED}(a); CREATE VIEW seen AS SELECT a FROM t"""
    )


def test_tables_with_their_rows(page, session):
    filled(session)
    panel = page("databases")
    panel.click("Details of main")
    panel.wait("3 rows")
    assert [one.words for one in panel.find("li")] == ["seenview", f"{HOSTILE}0 rows", "t3 rows"]
    panel.click("First rows of t")
    until(lambda: panel.find("td"))
    until(lambda: "9007199254740993" in panel.words)
    table = next(one for one in panel.find("table") if one.attributes["aria-label"] == "First rows of t")
    cells = [node.words for node in table.walk() if node.tag in ("th", "td")]
    long = ("long " * 100)[:200] + "..."
    assert cells == ["a", "b c", "d", "9007199254740993", "x", "x'00ff'", "NULL", "", "x'000000000000000000000000...'",
                     "1", long, "NULL"]  # fmt: skip
    panel.click(f"First rows of {HOSTILE}")
    panel.wait("It has no rows.")
    panel.click(f"First rows of {HOSTILE}")
    assert "It has no rows." not in panel.words


def test_a_database_without_a_connection_is_read_with_a_token_that_reads_only(page, session):
    filled(session)
    session.close("main")
    panel = page("databases")
    panel.click("Details of main")
    panel.wait("3 rows")
    panel.click("First rows of seen")
    until(lambda: "9007199254740993" in panel.words)
    assert session.connections == {}


def test_what_is_not_committed_is_neither_seen_nor_disturbed(page, session):
    filled(session)
    session.run("BEGIN IMMEDIATE; DELETE FROM t")
    panel = page("databases")
    panel.click("Details of main")
    panel.wait("3 rows")
    assert session.run("SELECT count(*) AS n FROM t; ROLLBACK")["n"].tolist() == [0]


def test_a_broken_view_takes_nothing_from_the_others(page, session):
    filled(session)
    session.run("CREATE VIEW broken AS SELECT * FROM gone")
    panel = page("databases")
    panel.click("Details of main")
    panel.wait("3 rows")
    panel.click("First rows of broken")
    panel.wait("no such table: main.gone")
    panel.click("First rows of t")
    until(lambda: "9007199254740993" in panel.words)
    assert "no such table" not in panel.words


def test_explore_shows_the_table_in_its_tab(page, session):
    filled(session)
    panel = page("all")
    panel.click("Databases")
    panel.click("Details of main")
    panel.wait("3 rows")
    panel.click("First rows of t")
    until(lambda: panel.can("Explore t"))
    panel.click("Explore t")
    panel.wait("t in main")


def test_a_text_that_is_not_utf8(page, session):
    session.run("CREATE TABLE odd(t); INSERT INTO odd VALUES (CAST(x'ff61' AS TEXT)), (x'ff61'), (9e999)")
    panel = page("databases")
    panel.click("Details of main")
    panel.wait("3 rows")
    panel.click("First rows of odd")
    until(lambda: [one.words for one in panel.find("td")][-3:] == ["x'ff61' (text, not UTF-8)", "x'ff61'", "inf"])
