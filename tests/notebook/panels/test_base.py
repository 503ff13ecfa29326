"""Common behaviour of panels: following changes, errors, the cell that shows them, and their end."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import ipywidgets
import pytest
from ipywidgets.widgets.widget import _instances
from panel_page import PanelPage
from waiting import PATIENCE, until

from pipemagic.errors import SessionError
from pipemagic.notebook.panels import base, static_html
from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.components import Table
from pipemagic.notebook.panels.forms import Line, button
from pipemagic.notebook.panels.opening import NAMES, open_panel
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.session import Session


class Counter(Panel):
    """Shows a number, and has buttons that fail."""

    title = "Counter"
    in_organization = False

    def __init__(self, state):
        super().__init__(state)
        self.number, self.updates = 0, 0

    def build(self):
        self.line = Line()
        self.more = button("More", self.count)
        self.table = Table({"fail": lambda key: self.fail(key)}, columns=[{"title": ""}], label="Numbers")
        return [self.line, self.more, button("Refuse", lambda: self.fail("refuse")), self.table, self.status]

    def update(self):
        self.updates += 1
        if self.number < 0:
            raise ZeroDivisionError("below zero")
        self.line.set_text(f"number {self.number}")
        self.table.show([{"key": "bug", "cells": [{"actions": [{"name": "fail", "label": "Fail"}]}]}])

    def static(self):
        return [f"number {self.number}"]

    def count(self):
        self.number += 1
        self.changed()

    def fail(self, how):
        if how == "refuse":
            raise SessionError("the session refuses", hint="do something else")
        raise ValueError(how)


@pytest.fixture
def unconnected() -> Iterator[Session]:
    """A session without connections."""
    with Session(environ={}) as session:
        yield session
        ipywidgets.Widget.close_all()


@pytest.fixture
def counter(unconnected) -> Counter:
    panel = Counter(state_of(unconnected))
    panel.mount()
    return panel


@pytest.fixture
def page(counter) -> PanelPage:
    return PanelPage(counter)


def test_the_error_of_a_click_is_shown_until_the_next_click(page, caplog):
    page.click("Refuse")
    assert "SESSION: the session refuses\nHint: do something else" in page.words
    page.panel.changed()
    assert "the session refuses" in page.words
    with caplog.at_level(logging.ERROR):
        page.click("Fail")
    assert "BUG: ValueError: bug. The kernel's log has the traceback." in page.words
    assert "Traceback" in caplog.text
    assert "ValueError" not in page.text
    page.click("More")
    assert "BUG" not in page.words


def test_the_error_of_an_update_is_shown_until_one_succeeds(page, counter, caplog):
    counter.number = -1
    with caplog.at_level(logging.ERROR):
        counter.changed()
        counter.changed()
    assert "BUG: ZeroDivisionError: below zero. The kernel's log has the traceback." in page.words
    assert caplog.text.count("Traceback") == 1
    counter.number = 2
    counter.changed()
    assert "BUG" not in page.words
    assert "number 2" in page.words


def test_a_panel_that_cannot_be_sent_delays_no_other(page, counter, unconnected, monkeypatch):
    other = Counter(state_of(unconnected))
    other.mount()

    def refuse(*_arguments, **_options):
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    monkeypatch.setattr(counter.line, "set_text", refuse)
    state_of(unconnected).notify()
    assert "BUG: UnicodeEncodeError" in page.words
    other.number = 3
    state_of(unconnected).notify()
    assert "number 3" in PanelPage(other).words


def test_a_task_that_ends_before_the_widgets_exist_updates_none(unconnected, caplog):
    class Early(Counter):
        def build(self):
            self.changed()
            return super().build()

    panel = Early(state_of(unconnected))
    panel.mount()
    assert panel.updates == 1
    assert caplog.text == ""


def test_many_threads_update_one_panel(page, counter):
    busy, failed = threading.Lock(), []
    update = counter.update

    def update_alone():
        if not busy.acquire(blocking=False):
            failed.append("two updates at a time")
            return
        update()
        busy.release()

    counter.update = update_alone

    def count(step):
        for number in range(100):
            counter.number = step * 1000 + number
            counter.changed()

    threads = [threading.Thread(target=count, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert f"number {counter.number}" in page.words  # the last update shows the last state


def test_a_panel_follows_only_while_a_page_shows_it(page, counter):
    counter.events.receive({"shown": "one"})
    counter.events.receive({"shown": "two"})
    counter.events.receive({"hidden": "one"})
    assert counter.mounted
    counter.events.receive({"hidden": "two"})
    assert not counter.mounted
    updates, counter.number = counter.updates, 5
    counter.state.notify()
    assert counter.updates == updates
    counter.events.receive({"shown": "three"})
    assert "number 5" in page.words


def test_closed_panels_leave_nothing_in_the_registry_of_widgets(session):
    before = set(_instances)
    tabs = open_panel(session)
    for panel in tabs.panels:
        tabs.select(panel.title)
        tabs.wait()
    assert len(set(_instances) - before) > 500
    tabs.close()
    assert set(_instances) - before == set()


def test_an_update_sends_only_changes(page, counter, monkeypatch):
    sent = []
    monkeypatch.setattr(ipywidgets.Widget, "_send", lambda _widget, message, buffers=None: sent.append(message))
    counter.changed()
    assert sent == []


def test_several_panels_read_the_organization_once(session, monkeypatch):
    panels = [open_panel(session, "databases") for _ in range(4)]
    state = state_of(session)
    assert state.task.wait(PATIENCE)
    read, groups = [], session.organization.groups
    monkeypatch.setattr(session.organization, "groups", lambda: read.append(1) or groups())
    session.organization.create_database("flights", "default")
    until(lambda: all("flights" in [row["key"] for row in panel.table.rows] for panel in panels))
    assert state.task.wait(PATIENCE)
    assert sum(read) <= 2


def test_closed_panels_keep_no_session_alive(service_folder, closing, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_DATA", str(service_folder))
    session = Session(environ={})
    session.connect()
    for name in NAMES:
        panel = open_panel(session, name)
        panel.wait()
        panel.close()
    closing()
    gone = weakref.ref(session)
    session.shut_down()
    del session, panel
    gc.collect()
    assert gone() is None


def test_a_panel_of_a_session_that_ended_shows_it(unconnected):
    session = Session(environ={})
    page = PanelPage(open_panel(session, "databases"))
    session.shut_down()
    del session
    gc.collect()
    page.panel.changed()
    assert "the session of this panel was closed" in page.words
    assert "BUG" not in page.words


# -- the cell that shows a panel


def test_in_a_terminal_a_panel_is_printed_and_follows_nothing_then(unconnected, capsys):
    panel = Counter(state_of(unconnected))
    panel.number = 3
    for _ in range(2):
        panel._ipython_display_()
        assert capsys.readouterr().out.splitlines() == ["Counter", "number 3"]
        assert not panel.mounted


@pytest.mark.parametrize("variables", [{}, {static_html.IN_VSCODE: "a.ipynb"}], ids=["two outputs", "one output"])
def test_an_interrupt_ends_the_cell_and_the_panel_stays(unconnected, monkeypatch, variables, interrupt_once):
    shown, waiting, may_end = [], threading.Event(), threading.Event()
    monkeypatch.setattr(static_html, "get_ipython", lambda: SimpleNamespace(kernel=True, user_ns=variables))
    monkeypatch.setattr(static_html, "publish_display_data", lambda data, **_: shown.append(data))
    monkeypatch.setattr(base, "PATIENCE", PATIENCE)
    panel = Counter(state_of(unconnected))

    def work():
        assert waiting.wait(PATIENCE)
        interrupt_once()
        assert may_end.wait(PATIENCE)
        return "Done."

    wait = panel.wait
    monkeypatch.setattr(panel, "wait", lambda: (waiting.set(), wait()))
    panel.action.start("Working ...", work)
    with pytest.raises(KeyboardInterrupt) as caught:
        panel._ipython_display_()
    assert caught.value._render_traceback_() == [static_html.INTERRUPTED]
    kinds = [kind for inner in shown for kind in inner]
    assert kinds.count(static_html.WIDGET) == kinds.count("text/html") == 1
    assert "number 0" in shown[-1]["text/plain"]
    may_end.set()
    assert panel.action.wait(PATIENCE)
    assert "Done." in PanelPage(panel).words


def test_the_cell_waits_no_longer_than_its_patience(unconnected, monkeypatch):
    monkeypatch.setattr(static_html, "get_ipython", lambda: SimpleNamespace(kernel=True, user_ns={}))
    monkeypatch.setattr(static_html, "publish_display_data", lambda _data, **_: None)
    monkeypatch.setattr(base, "PATIENCE", 0.05)
    panel, waits, may_end = Counter(state_of(unconnected)), [], threading.Event()
    wait = panel.wait
    monkeypatch.setattr(panel, "wait", lambda: (waits.append(1), wait()))
    panel.action.start("Working ...", lambda: may_end.wait(PATIENCE) and "Done.")
    panel._ipython_display_()
    assert not may_end.is_set()
    assert waits == [1]  # not again for the text
    may_end.set()
    assert panel.action.wait(PATIENCE)
