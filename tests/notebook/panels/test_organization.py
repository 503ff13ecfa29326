"""The panel of the organization, and how far its quotas are used."""

from __future__ import annotations

import pytest
from started_services import shared_service
from waiting import until

from pipemagic import launcher
from pipemagic.errors import StatementError
from pipemagic.notebook.panels.organization.quotas import bars, words

__all__ = ["shared_service"]


@pytest.fixture
def panel(page):
    """The panel, when it has its answers."""
    panel = page("organization")
    panel.wait("Used in this calendar month (UTC)")
    return panel


def test_which_organization_it_is_and_what_it_uses(panel):
    assert "local – a personal account, embedded service" in [one.words for one in panel.find("p")]
    assert "Plan: self-hosted." in panel.words
    lines = [one.words for one in panel.find("li")]
    assert "1 database, no limit" in lines
    assert "1 group, no limit" in lines
    assert any(one.endswith("rows written, no limit") for one in lines)


def test_the_saved_face_does_not_wait_for_figures(page):
    panel = page("organization")
    panel.panel.view.view.model.figures.asked = False
    assert panel.text == "Organization\nlocal – embedded service"


def test_overages_are_switched_with_words_for_both_ways(panel, session):
    assert panel.find("button", "Overages")[0].attributes["aria-checked"] == "false"
    assert "statements fail with the code BLOCKED until the next month begins (UTC)" in panel.words
    panel.click("Overages")
    panel.wait("Overages of organization local are on.")
    assert "%pipedb overages on" in panel.words
    until(lambda: panel.find("button", "Overages")[0].attributes["aria-checked"] == "true")
    assert session.platform.settings().overages is True
    assert "switching it off later does not cancel what is owed by then" in panel.words
    panel.click("Overages")
    panel.wait("Overages of organization local are off.")
    assert session.platform.settings().overages is False


def test_a_cell_that_switches_overages_is_seen(panel, session):
    session.platform.set_overages(on=True)
    until(lambda: panel.find("button", "Overages")[0].attributes["aria-checked"] == "true")


def test_a_quota_that_is_used_up_is_said_and_drawn(panel, session):
    session.run("CREATE TABLE a (b); INSERT INTO a VALUES (1), (2), (3)")
    session.platform._ask(lambda api: api._call("PATCH", "/v1/quotas/local", {"rows_written": 2}))
    panel.click("Refresh the organization")
    panel.wait("rows written (")
    until(lambda: "over the quota)" in panel.words)
    panel.wait("Writing is blocked: a quota of this month is used up")
    (meter,) = [one for one in panel.find("div") if one.attributes.get("role") == "meter"]
    assert meter.attributes["aria-label"] == "rows written"
    assert meter.attributes["class"] == "pm-bar pm-over"
    panel.click("Overages")
    until(lambda: "Writing is blocked" not in panel.words)


def test_switching_to_another_organization(panel, session, page):
    session.platform._ask(lambda api: api.create_organization("Data Club"))
    panel.click("Refresh the organization")
    panel.wait("data-club (Data Club)")
    groups = page("groups")
    panel.choose("Organization", "data-club")
    panel.submit("Switch")
    panel.wait("Organization data-club (embedded service). The connections stay as they are: main.")
    assert "%pipedb organization data-club" in panel.words
    until(lambda: "data-club – “Data Club”, a team, embedded service" in [one.words for one in panel.find("p")])
    groups.wait("No groups yet.")
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    assert "local" in panel.options("Organization")
    assert "data-club" not in panel.options("Organization")


def test_a_transaction_goes_on_in_another_organization(panel, session):
    session.platform._ask(lambda api: api.create_organization("Book Club"))
    session.connect("main", name="idle")
    session.run("CREATE TABLE t (a)")
    panel.click("Refresh the organization")
    panel.wait("book-club (Book Club)")
    panel.wait("Connections stay as they are, and so do transactions that are open in them")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    panel.choose("Organization", "book-club")
    panel.submit("Switch")
    panel.wait("The connections stay as they are: main, idle (transaction open).")
    assert session.connection().commit() == 1
    assert session.run("SELECT a FROM t", on="main")["a"].tolist() == [1]


def test_that_nothing_can_be_read_is_said(panel, session):
    said = "Reading and writing are blocked: a quota of this month is used up"
    session.run("CREATE TABLE a (b); INSERT INTO a VALUES (1); SELECT * FROM a")
    session.platform._ask(lambda api: api._call("PATCH", "/v1/quotas/local", {"rows_read": 1}))
    panel.click("Refresh the organization")
    panel.wait(said)
    assert any(said in one for one in panel.alerts)
    with pytest.raises(StatementError) as caught:
        session.run("SELECT * FROM a")
    assert caught.value.code == "BLOCKED"


def test_an_organization_that_is_not_there(panel, session):
    panel.panel.view.view.model.switch("nobody")
    panel.wait("there is no organization 'nobody'")
    assert session.platform.organization == "local"


def test_a_panel_survives_a_restarted_service(panel, session):
    launcher.stop()
    panel.click("Refresh the organization")
    until(lambda: not panel.panel.view.view.model.figures.busy)
    assert not panel.panel.view.view.model.figures.error
    panel.click("Overages")
    panel.wait("Overages of organization local are on.")


@pytest.mark.parametrize(
    ("name", "used", "limit", "said"),
    [
        ("rows_read", 0, 10**9, "0 of 1,000,000,000 rows read (0.0 %)"),
        ("rows_read", 12_345, 10**9, "12,345 of 1,000,000,000 rows read (<0.1 %)"),
        ("rows_read", 999_999_999, 10**9, "999,999,999 of 1,000,000,000 rows read (99.9 %)"),
        ("rows_read", 10**9, 10**9, "1,000,000,000 of 1,000,000,000 rows read (100.0 %, used up)"),
        ("rows_read", 10**15, 1, "1,000,000,000,000,000 of 1 row read (100,000,000,000,000,000.0 %, over the quota)"),
        ("rows_read", 12_345, 0, "12,345 rows read, no limit"),
        ("rows_written", 1, 0, "1 row written, no limit"),
        ("rows_written", 25, 20, "25 of 20 rows written (125.0 %, over the quota)"),
        ("storage_bytes", 4096, 9 * 10**9, "4.1 kB of 9.0 GB stored (<0.1 %)"),
        ("storage_bytes", 999_999_999, 10**12, "1.0 GB of 1.0 TB stored (<0.1 %)"),
        ("storage_bytes", 999_949, 0, "999.9 kB stored, no limit"),
        ("bytes_synced", 999, 1000, "999 bytes of 1.0 kB synced (99.9 %)"),
        ("bytes_synced", 0, 3 * 10**9, "0 bytes of 3.0 GB synced (0.0 %)"),
        ("databases", 250, 500, "250 of 500 databases (50.0 %)"),
        ("groups", 1, 1, "1 of 1 group (100.0 %, used up)"),
        ("locations", 3, 3, "3 of 3 locations of groups (100.0 %, used up)"),
    ],
)
def test_what_was_used_in_words(name, used, limit, said):
    assert words(name, used, limit) == said


def test_bars_have_a_colour_and_words_for_each_state():
    drawn = bars(
        {"rows_read": 10, "rows_written": 85, "storage_bytes": 100, "databases": 101, "groups": 7, "unheard_of": 3},
        {"rows_read": 100, "rows_written": 100, "storage_bytes": 100, "databases": 100}, told=True,
    )  # fmt: skip
    meters = [one for one in drawn.walk() if one.attributes.get("role") == "meter"]
    assert [one.attributes["class"] for one in meters] == [
        "pm-bar",
        "pm-bar pm-nearly",
        "pm-bar pm-over",
        "pm-bar pm-over",
    ]
    widths = [one.children[0].attributes["style"] for one in meters]
    assert widths == ["width: 10.0%", "width: 85.0%", "width: 100.0%", "width: 100.0%"]
    assert "7 groups, no limit" in [one.words for one in drawn.walk() if one.tag == "li"]
    assert "unheard_of" not in drawn.words


def test_where_quotas_are_not_told_nothing_is_said_of_limits():
    assert "limit" not in bars({"groups": 7}, {}, told=False).words
