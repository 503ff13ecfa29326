"""The selector of the organization in every heading, and the usage."""

from __future__ import annotations

import threading
import uuid

import pytest
from ipywidgets import FloatProgress
from panel_page import PanelPage
from started_services import shared_service
from waiting import until

from pipemagic.notebook.panels.opening import NAMES, open_panel
from pipemagic.notebook.panels.usage import UsageLine, describe_usage
from pipemagic.session.organization import Organization

__all__ = ["shared_service"]


@pytest.fixture
def panel(page):
    """A panel, with the usage below its heading."""
    panel = page("groups")
    panel.click("Usage")
    panel.wait("Used in this calendar month (UTC)")
    return panel


def test_the_name_and_the_usage_of_the_organization(panel):
    lines = panel.words.splitlines()
    assert "local – a personal account, embedded service" in lines
    assert "Plan: self-hosted." in lines
    assert "1 database, no limit" in lines
    assert "1 group, no limit" in lines
    assert any(line.endswith("rows written, no limit") for line in lines)
    assert "%pipedb usage" in lines


def test_statements_of_a_database(panel, session):
    session.run("CREATE TABLE a (b)")
    session.run("SELECT b FROM a WHERE b = 7")
    panel.choose("Database", "main")
    panel.click("Show statements")
    panel.wait("SELECT b FROM a WHERE b = ?")
    assert "statements of main." in panel.words


def test_overages_are_switched_and_both_states_are_explained(panel, session):
    assert "Now off: after a quota of the plan is used up, statements fail with the code BLOCKED" in panel.words
    assert "When on: statements still run after a quota of the plan is used up" in panel.words
    panel.click("Switch overages on")
    panel.wait("Overages are on for organization local.")
    assert "%pipedb overages on" in panel.words
    panel.wait_for("Switch overages off")
    assert session.organization.settings().overages is True
    assert "Now on: statements still run" in panel.words
    assert "switching overages off later does not cancel charges already incurred" in panel.words
    panel.click("Switch overages off")
    panel.wait("Overages are off for organization local.")
    assert session.organization.settings().overages is False


def test_overages_that_a_cell_switches_are_shown(panel, session):
    session.organization.set_overages(on=True)
    panel.wait_for("Switch overages off")


def test_a_quota_that_is_used_up_is_shown(panel, session):
    session.run("CREATE TABLE a (b); INSERT INTO a VALUES (1), (2), (3)")
    session.organization.api._call("PATCH", "/v1/quotas/local", {"rows_written": 2})
    panel.click("Refresh")
    panel.wait("rows written (")
    until(lambda: "over the quota)" in panel.words)
    panel.wait("Writing is blocked: a quota of this month is used up")
    (bar,) = [widget for widget in panel.widgets if isinstance(widget, FloatProgress)]
    assert (bar.value, bar.bar_style) == (1.0, "danger")
    panel.click("Switch overages on")
    until(lambda: "Writing is blocked" not in panel.words)


@pytest.fixture
def club(session):
    """Create another organization, with a name that differs from its slug."""
    slug = f"club-{uuid.uuid4().hex[:8]}"
    session.organization.api.create_organization(slug.replace("club-", "Club "))
    return slug


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_switches_to_another_organization(name, club, session, page):
    panel, groups = page(name), page("groups")
    panel.choose("Organization", club)
    panel.wait(f"Using organization {club} (embedded service). The connections stay as they are: main.")
    assert f"%pipedb organization {club}" in panel.words
    assert session.organization.slug == club
    groups.wait("No groups yet.")
    until(lambda: groups.field("Organization").value == club)
    assert {"local", club} <= set(groups.options("Organization"))
    assert f"{club} (Club {club[5:]})" in groups.words
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    panel.choose("Organization", "local")
    panel.wait("Using organization local (embedded service).")


def test_the_selector_follows_when_a_cell_switches(club, session, page):
    panel = page("databases")
    session.choose_organization(club)
    until(lambda: panel.field("Organization").value == club)
    assert panel.alerts == []
    assert f"Using organization {club}" not in panel.words  # the cell has said it


def test_an_organization_that_is_created_elsewhere_is_offered_after_a_refresh(session, page):
    panel = page("databases")
    assert "late-club" not in panel.options("Organization")
    session.organization.api.create_organization("Late Club")
    panel.click("Refresh")
    until(lambda: "late-club" in panel.options("Organization"))


def test_while_it_is_switched_the_selector_shows_the_next_organization_and_is_disabled(
    club, session, page, monkeypatch
):
    may_end, choose = threading.Event(), session.choose_organization
    monkeypatch.setattr(
        session, "choose_organization", lambda *names, **more: may_end.wait() and choose(*names, **more)
    )
    panel = page("databases")
    panel.choose("Organization", club)
    panel.wait(f"Switching to {club} ...")
    assert (panel.field("Organization").value, panel.field("Organization").disabled) == (club, True)
    may_end.set()
    panel.wait(f"Using organization {club} (embedded service).")
    until(lambda: not panel.field("Organization").disabled)


def test_the_options_stay_while_another_organization_is_read(club, session, page):
    """Else a key that is pressed meanwhile selects something else."""
    panel = page("databases")
    panel.click("Refresh")
    until(lambda: club in panel.options("Organization"))
    seen = []
    panel.field("Organization").observe(lambda change: seen.append(change["new"]), "options")
    panel.choose("Organization", club)
    panel.wait("No group exists yet.")
    until(lambda: not panel.field("Organization").disabled)
    assert seen == []


def test_a_slug_is_asked_for_only_if_the_organizations_cannot_be_listed(session, monkeypatch, request):
    may_list, listed = threading.Event(), Organization.organizations
    request.addfinalizer(may_list.set)
    monkeypatch.setattr(Organization, "organizations", lambda self: may_list.wait() and listed(self))
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait("Loading ...")
    assert "" not in panel.options("Organization")
    may_list.set()
    until(lambda: "local" in panel.options("Organization"))


def test_a_service_that_lists_no_organization_lets_a_slug_be_entered(session, monkeypatch):
    monkeypatch.setattr(Organization, "organizations", lambda _: [])
    panel = PanelPage(open_panel(session, "databases"))
    until(lambda: panel.options("Organization") == ["local", ""])
    panel.choose("Organization", "")
    panel.wait("This service lists none of your organizations.")


def test_the_widgets_of_the_heading_and_the_message_stay_when_the_organization_changes(club, page):
    panel = page("databases")
    field, name = panel.field("Organization"), panel.field("Database name")
    panel.choose("Organization", club)
    panel.wait("No group exists yet.")
    assert not panel.has_field("Database name")  # and that of the body, in whatever form, is another one
    assert name.comm is None
    assert panel.field("Organization") is field
    assert "The connections stay as they are: main." in panel.words


def test_a_panel_shows_the_usage_below_its_heading(club, session, page):
    panel = page("databases")
    panel.click("Usage")
    panel.wait("Plan: self-hosted.")
    panel.click("Switch overages on")
    panel.wait("Overages are on for organization local.")
    panel.choose("Organization", club)
    panel.wait(f"{club} – “Club {club[5:]}”, a team, embedded service")
    panel.wait("0 databases, no limit")
    assert "Overages are on for organization local." not in panel.words
    panel.click("Hide usage")
    assert "Plan:" not in panel.words
    assert "Usage" in panel.buttons


def test_a_transaction_stays_open_when_another_organization_is_chosen(club, session, page):
    session.connect("main", name="idle")
    session.run("CREATE TABLE t (a)")
    panel = page("databases")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    panel.choose("Organization", club)
    panel.wait("The connections stay as they are: main, idle (transaction open).")
    assert session.connection().commit().count == 1
    assert session.run("SELECT a FROM t", on="main")["a"].tolist() == [1]


@pytest.mark.parametrize(
    ("name", "used", "limit", "said"),
    [
        ("rows_read", 0, 10**9, "0 of 1,000,000,000 rows read (0.0%)"),
        ("rows_read", 12_345, 10**9, "12,345 of 1,000,000,000 rows read (<0.1%)"),
        ("rows_read", 10**9, 10**9, "1,000,000,000 of 1,000,000,000 rows read (100.0%, used up)"),
        ("rows_written", 1, 0, "1 row written, no limit"),
        ("rows_written", 25, 20, "25 of 20 rows written (125.0%, over the quota)"),
        ("storage_bytes", 4096, 9 * 10**9, "4.1 kB of 9.0 GB stored (<0.1%)"),
        ("bytes_synced", 999, 1000, "999 B of 1.0 kB synced (99.9%)"),
        ("groups", 1, 1, "1 of 1 group (100.0%, used up)"),
        ("locations", 3, 3, "3 of 3 locations of groups (100.0%, used up)"),
    ],
)
def test_a_figure_as_text(name, used, limit, said):
    assert describe_usage(name, used, limit) == said


def test_no_limit_is_shown_if_quotas_are_not_reported():
    assert describe_usage("groups", 7, 0, quotas_known=False) == "7 groups"


@pytest.mark.parametrize(
    ("used", "quota", "value", "style"),
    [(10, 100, 0.1, ""), (80, 100, 0.8, "warning"), (100, 100, 1.0, "danger"), (101, 100, 1.0, "danger")],
)
def test_a_bar_has_a_colour_for_each_state(used, quota, value, style):
    line = UsageLine()
    line.update("words", used, quota)
    assert (line.bar.value, line.bar.bar_style, line.bar.layout.display) == (value, style, None)
