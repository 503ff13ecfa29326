"""The components of components.js: the messages that they send, and those that they accept."""

from __future__ import annotations

import ipywidgets
import pytest

from pipemagic.client.secrets import Secret
from pipemagic.notebook.panels.components import Cells, Events, LongValue, SecretText, Table

ROWS = [
    {"key": "a", "cells": ["a", {"actions": [{"name": "use", "label": "Use"}, {"copy": "x", "label": "Copy"}]}]},
    {"key": "b", "cells": [{"items": [{"text": "c", "actions": [{"name": "close", "key": "c", "label": "Close"}]}]}]},
]  # fmt: skip


@pytest.fixture(autouse=True)
def _close_all():
    yield
    ipywidgets.Widget.close_all()


@pytest.fixture
def done():
    return []


@pytest.fixture
def table(done):
    names = ("use", "close", "never")
    made = Table(
        {name: lambda key, name=name: done.append((name, key)) for name in names},
        columns=[{"title": "Name", "sortable": True}, {"title": "Size"}],
    )
    made.show(ROWS)
    return made


@pytest.fixture
def sent(monkeypatch):
    """The messages of components."""
    found = []
    monkeypatch.setattr(ipywidgets.Widget, "send", lambda _widget, content, buffers=None: found.append(content))
    return found


def message(widget, content):
    """Handle a message as ipywidgets does."""
    widget._handle_custom_msg(content, [])


@pytest.mark.parametrize(
    "content",
    [
        {"action": "use", "key": "b"},
        {"action": "close", "key": "b"},
        {"action": "sort", "key": "Name"},
        {"action": "never", "key": "a"},
        {"action": "use", "key": ["a"]},
        {"action": ["use"], "key": "a"},
        None,
    ],
    ids=repr,
)
def test_other_messages_do_nothing(table, done, content):
    failed = []
    table.handled = failed.append
    message(table, content)
    assert done == []
    assert not any(failed)


def test_cells_offer_their_actions_and_no_others(done):
    offered = [("sort", "a b"), ("profile", "a b"), ("full", "0 1"), ("turn", "-1"), ("turn", "1")]
    names = ("sort", "profile", "full", "turn")
    profile, full = {"name": "profile", "label": "Profile"}, {"name": "full", "label": "full value", "key": "0 1"}
    cells = Cells(
        {name: lambda key, name=name: done.append((name, key)) for name in names},
        columns=[{"title": "A", "key": "a b", "actions": [profile]}, {"title": "B", "key": "b"}],
    )
    cells.show(
        [{"key": "0", "cells": [{"text": "1", "kind": "number"}, {"text": "…", "kind": "text", "actions": [full]}]}]
    )
    for name, key in (*offered, ("sort", "A"), ("profile", "b"), ("full", "0 0"), ("turn", "2")):
        message(cells, {"action": name, "key": key})
    assert done == offered


def test_a_busy_table_does_nothing(table, done):
    table.busy = True
    table.click("use", "a")
    assert done == []


def test_a_page_cannot_add_actions(table, done):
    columns, offered = table.columns, [{"title": "Name", "actions": [{"name": "never", "key": "x"}]}]
    table.busy = True
    table._handle_msg({"content": {"data": {"method": "update", "state": {"columns": offered, "busy": False}}}})
    assert (table.columns, table.busy) == (columns, True)
    table.busy = False
    message(table, {"action": "never", "key": "x"})
    assert done == []


def test_rows_are_in_no_state_and_sent_only_where_they_changed(table, sent):
    assert not any("cells" in str(value) for name, value in table.get_state().items() if name != "_esm")
    table.show([dict(row) for row in ROWS])
    assert sent == []
    table.show(ROWS[:1])
    message(table, {"ready": True})  # a page that was opened later
    assert sent == [{"rows": ROWS[:1]}] * 2


def test_halves_of_surrogate_pairs_are_replaced(table, sent):
    table.show([{"key": "a", "cells": ["a\ud800"]}])
    assert sent == [{"rows": [{"key": "a", "cells": ["a?"]}]}]


def test_a_long_value_is_in_no_state(sent):
    value = LongValue()
    value.show("long")
    value.show("long")
    message(value, {"ready": True})
    assert sent == [{"value": "long"}] * 2
    assert "long" not in [*value.get_state().values()]


def test_a_secret_is_sent_only_to_open_pages(sent):
    text = SecretText()
    text.send_secret(Secret("s3cret-value"))
    message(text, {"ready": True})
    text.send_secret(None)
    assert sent == [{"secret": "s3cret-value"}, {"secret": None}]
    assert "s3cret" not in f"{text.get_state()} {text!r} {vars(text)}"


def test_events_of_pages(done):
    events = Events(done.append)
    events.on_typed["field"] = done.append
    for content in (
        {"typed": "a", "field": "field"}, {"typed": "a", "field": "other"}, {"typed": 1, "field": "field"},
        {"shown": 1}, {"shown": "page"}, {"shown": "other"}, {"hidden": "page"}, {"hidden": "other"},
    ):  # fmt: skip
        message(events, content)
    assert done == ["a", True, True, False]  # hidden if no page shows it
