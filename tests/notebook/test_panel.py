"""The panel without a browser: clicks in process, on the real embedded service."""

from __future__ import annotations

import threading

import ipywidgets
import pytest

from pipemagic import local
from pipemagic.notebook.panels.platform import PlatformModel, PlatformPanel
from pipemagic.session import Session


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    session = Session(environ={})
    session.connect()
    yield session
    session.shut_down()
    local.stop()


@pytest.fixture
def panel(session):
    model = PlatformModel(session)
    model.fetch()
    panel = PlatformPanel(model)
    yield panel
    assert model.wait(10)
    ipywidgets.Widget.close_all()


def click(panel, button):
    button.click()
    assert panel.model.wait(10)


def test_it_shows_what_there_is(panel):
    assert panel.model.title == "Organization local (embedded service)"
    assert ("ams: Amsterdam, Netherlands", "ams") in panel.location.options
    assert panel.group.options == (("default", "default"),)
    assert panel.database.options == (("main", "main"),)
    assert "<b>main</b> (current)" in panel.lists.value


def test_from_a_group_to_a_cell(panel, session):
    panel.group_name.value = "edge"
    panel.location.value = "nrt"
    click(panel, panel.create_group)
    assert "Group edge is in nrt." in panel.status.value
    assert panel.group_name.value == ""
    panel.group.value = "edge"
    panel.database_name.value = " flights "
    click(panel, panel.create_database)
    assert "Database flights is in group edge." in panel.status.value
    assert (panel.database_name.value, panel.group.value) == ("", "edge")
    panel.database.value = "flights"
    click(panel, panel.connect)
    assert "Connected to flights: %%sql cells use it now." in panel.status.value
    assert "<b>flights</b> (current)" in panel.lists.value
    assert session.current == "flights"
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    assert panel.model.text() == (
        "Organization local (embedded service)\n"
        "  group default in ams\n"
        "    database main\n"
        "  group edge in nrt\n"
        "    database flights"
    )


def test_errors_are_shown_and_escaped_and_the_panel_goes_on(panel):
    panel.database_name.value = "<img src=x onerror=alert(1)>"
    click(panel, panel.create_database)
    assert 'class="pipemagic-error"' in panel.status.value
    assert "invalid database name" in panel.status.value
    assert "<img" not in panel.status.value
    panel.database_name.value = "main"
    click(panel, panel.create_database)
    assert "already exists" in panel.status.value
    panel.database_name.value = ""
    click(panel, panel.create_database)
    assert "Give the database a name." in panel.status.value
    panel.database_name.value = "next"
    click(panel, panel.create_database)
    assert "Database next is in group default." in panel.status.value
    assert "pipemagic-error" not in panel.status.value


def test_markup_in_data_is_text(panel):
    panel.model.groups = [("<b>g</b>", "<i>l</i>")]
    panel.model.databases = [("<u>d</u>", "<b>g</b>"), ("<s>loose</s>", "elsewhere")]
    for markup in ("<b>g", "<i>l", "<u>d", "<s>loose"):
        assert markup not in panel.lists.value
    assert "&lt;s&gt;loose" in panel.lists.value


def test_while_it_works_nothing_can_be_clicked_and_the_main_thread_is_free(panel, session, monkeypatch):
    go_on, seen = threading.Event(), []
    create = session.platform.create_group

    def slowly(name, location):
        seen.append(threading.current_thread())
        assert go_on.wait(10)
        return create(name, location)

    monkeypatch.setattr(session.platform, "create_group", slowly)
    panel.group_name.value = "slow"
    panel.create_group.click()
    assert "Creating group slow ..." in panel.status.value
    assert all(button.disabled for button in (panel.create_group, panel.create_database, panel.connect, panel.refresh))
    panel.model.create_database("meanwhile", "default")  # ignored
    go_on.set()
    assert panel.model.wait(10)
    assert seen[0] is not threading.main_thread()
    assert seen[0].daemon
    assert not panel.create_group.disabled
    assert [name for name, _ in panel.model.databases] == ["main"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_is_visible_too(panel, session, monkeypatch):
    def broken():
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(session.platform, "groups", broken)
    click(panel, panel.refresh)
    assert "ZeroDivisionError: a bug" in panel.status.value
    assert not panel.refresh.disabled


def test_refresh_sees_what_others_made(panel, session):
    session.platform.create_database("other", "default")
    click(panel, panel.refresh)
    assert [name for name, _ in panel.model.databases] == ["main", "other"]


def test_the_text_form_is_for_terminals_and_saved_notebooks(panel):
    bundle = panel._repr_mimebundle_()
    assert bundle["text/plain"] == panel.model.text()
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_an_organization_without_groups(panel):
    panel.model.groups, panel.model.databases = [], []
    assert "No groups yet." in panel.lists.value
    assert panel.model.text().endswith("no groups yet")
    click(panel, panel.connect)
    assert "There is no database yet." in panel.status.value
