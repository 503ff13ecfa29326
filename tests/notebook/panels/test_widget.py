"""The widget of every panel: what it sends, what it takes from a page, what it leaves behind."""

from __future__ import annotations

import gc
import logging
import signal
import threading
import weakref
from types import SimpleNamespace

import ipywidgets
import pytest
from panel_page import PanelPage
from traitlets import Int
from waiting import PATIENCE

from pipemagic.client.secrets import Secret
from pipemagic.errors import SessionError
from pipemagic.notebook.panels.ground import widget
from pipemagic.notebook.panels.ground.parts import button, section, state
from pipemagic.notebook.panels.ground.tree import h
from pipemagic.notebook.panels.ground.widget import Panel, View
from pipemagic.notebook.panels.ground.work import Model, WorkingModel


class Counting(WorkingModel):
    """A number, and an equal one: both are always set together."""

    number = Int()
    equal = Int()


class Counter(View):
    """Shows the numbers, and counts what it is asked."""

    title = "Counter"

    def __init__(self, model: Counting) -> None:
        self.model = model
        self.drawn = 0
        self.followed: list[str] = []
        self.secrets: dict[str, Secret | None] = {}

    def models(self):
        return (self.model,)

    def draw(self):
        self.drawn += 1
        if self.model.number < 0:
            raise ZeroDivisionError("drawing below zero")
        more = button("More", ("more", "1"))
        return section(self.title, f"{self.model.number} = {self.model.equal}", more, state(self.model))

    def on_more(self, values, by):
        if by == "ours":
            raise SessionError("the session refuses", hint="do something else")
        self.model.number += int(by)

    def take_secrets(self):
        taken, self.secrets = self.secrets, {}
        return taken

    def opened(self):
        self.followed.append("opened")

    def closed(self):
        self.followed.append("closed")


@pytest.fixture
def counter():
    yield Counter(Counting())
    ipywidgets.Widget.close_all()


@pytest.fixture
def panel(counter):
    return PanelPage(Panel(counter))


def say(panel, message):
    panel.panel._heard(panel.panel, message, [])


def test_a_click_and_what_it_changes(panel):
    panel.click("More")
    assert "1 = 0" in panel.words


@pytest.mark.parametrize(
    "message",
    [
        {"action": ["__class__"], "values": {}},
        {"action": ["act"], "values": {}},
        {"action": ["close"], "values": {}},
        {"action": ["more"], "values": {}},
        {"action": ["more", "1", "2"], "values": {}},
        {"action": ["more", 1], "values": {}},
        {"action": ["more", ["1"]], "values": {}},
        {"action": [], "values": {}},
        {"action": "more", "values": {}},
        {"action": ["more", "1"], "values": "all"},
        {"action": ["more", "1"]},
        {"seen": "yes"},
        {},
        [],
        None,
        "more",
        7,
    ],
    ids=repr,
)
def test_what_no_panel_of_ours_says_does_nothing(message, panel, counter, caplog):
    before = panel.words
    with caplog.at_level(logging.WARNING):
        say(panel, message)
    assert panel.words == before
    assert counter.model.number == 0
    assert len(caplog.records) == 1


def test_what_a_page_says_about_traits_is_not_taken_over(panel):
    before = panel.panel.tree
    panel.panel.set_state({"tree": ["script", {}, ["alert(1)"]], "_esm": "alert(1)"})
    assert panel.panel.tree == before
    assert "alert(1)" not in panel.panel._esm


def test_values_of_other_kinds_do_not_arrive(panel, counter):
    heard = {}
    counter.on_more = None  # what is on the object does not count, only methods do
    type(counter).on_fill = lambda self, values: heard.update(values)
    try:
        say(panel, {"action": ["fill"], "values": {"name": "a", "on": True, "number": 3, "list": ["x"], "none": None}})
    finally:
        del type(counter).on_fill
    assert heard == {"name": "a", "on": True}


def test_an_error_in_a_handler_is_shown_until_the_next_action(panel):
    say(panel, {"action": ["more", "ours"], "values": {}})
    assert [one.words for one in panel.find("p")] == ["SESSION: the session refuses", "do something else"]
    say(panel, {"action": ["more", "x"], "values": {}})
    assert panel.find("p")[0].words == "BUG: ValueError: invalid literal for int() with base 10: 'x'"
    assert "ValueError" not in panel.text
    panel.click("More")
    assert panel.find("p") == []


def test_an_error_in_drawing_is_shown_until_it_can_be_drawn(panel, counter):
    counter.model.number = -1
    assert panel.tree.words == "BUG: ZeroDivisionError: drawing below zerothe kernel's log has the traceback"
    counter.model.number = 2
    assert "2 = 0" in panel.words


def test_an_error_that_comes_from_work_is_on_the_page(panel, counter):
    def work():
        raise SessionError("the session refuses", hint="do something else")

    counter.model.start("Working ...", work, "%pipedb connect")
    panel.wait("do something else")
    assert "SESSION: the session refusesdo something else%pipedb connect" in panel.tree.words


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_work_is_on_the_page_and_the_next_work_begins(panel, counter):
    counter.model.start("Working ...", lambda: 1 / 0)
    panel.wait("ZeroDivisionError: division by zero")
    assert counter.model.wait(PATIENCE)
    assert counter.model.start("Working ...", lambda: "well done")
    panel.wait("well done")


def test_work_can_be_waited_for_as_soon_as_it_is_said_to_be_under_way(counter):
    waited = []
    waiting = threading.Thread(target=lambda: waited.append(counter.model.wait(PATIENCE)))

    def wait(change):
        if change.new:
            waiting.start()
            waiting.join(0.1)

    counter.model.observe(wait, "busy")
    counter.model.start("Working ...", lambda: "well done")
    waiting.join(PATIENCE)
    assert waited == [True]


def test_many_threads_draw_one_panel(panel, counter):
    sent = []
    panel.panel.observe(lambda change: sent.append(change.new), "tree")

    def count(step):
        for number in range(200):
            with counter.model.hold_trait_notifications():
                counter.model.number = counter.model.equal = step * 1000 + number

    threads = [threading.Thread(target=count, args=(one,)) for one in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert f"{counter.model.number} = {counter.model.equal}" in panel.words  # the last word is the last state
    assert sent[-1] == panel.panel.tree == counter.draw().wire()


def test_changes_held_together_are_told_once_and_by_their_own_thread():
    class Pair(Model):
        one, other = Int(), Int()

    pair, told = Pair(), []
    pair.observe(lambda change: told.append((change.name, change.old, change.new, threading.current_thread().name)))
    inside, go_on = threading.Event(), threading.Event()

    def hold():
        with pair.hold_trait_notifications():
            pair.one, pair.one = 1, 2
            inside.set()
            go_on.wait(10)

    thread = threading.Thread(target=hold, name="other")
    thread.start()
    assert inside.wait(10)
    with pair.hold_trait_notifications():
        pair.other = 3
    assert told == [("other", 0, 3, "MainThread")]  # not kept back by the other thread
    go_on.set()
    thread.join()
    assert told[1:] == [("one", 0, 2, "other")]


def test_a_panel_follows_only_while_a_page_shows_it(panel, counter):
    assert counter.followed == ["opened"]
    say(panel, {"seen": True})
    say(panel, {"seen": False})
    assert counter.followed == ["opened", "closed"]
    drawn = counter.drawn
    counter.model.number = 5
    assert counter.drawn == drawn
    say(panel, {"seen": True})
    assert counter.followed == ["opened", "closed", "opened"]
    assert "5 = 0" in panel.words


def test_a_closed_panel_leaves_nothing_behind(counter):
    model = counter.model
    panel = PanelPage(Panel(counter))
    panel.panel.close()
    panel.panel.close()
    say(panel, {"seen": True})
    assert counter.followed == ["opened", "closed"]
    gone = weakref.ref(panel.panel)
    del panel
    gc.collect()
    assert gone() is None
    model.number = 3


def test_ten_panels_ask_once(session, monkeypatch):
    from pipemagic.notebook.panels.holdings import holdings_of
    from pipemagic.notebook.panels.opening import open_panel

    panels = [open_panel(session, "databases") for _ in range(10)]
    holdings_of(session).wait(10)
    asked = []
    groups = session.platform.groups
    monkeypatch.setattr(session.platform, "groups", lambda: asked.append(1) or groups())
    session.platform.create_database("flights", "default")
    page = PanelPage(panels[-1])
    page.wait("flights")
    holdings_of(session).wait(10)
    assert sum(asked) <= 2


def test_a_secret_goes_to_the_page_and_nowhere_else(panel, counter):
    sent = []
    panel.panel.send = lambda message, buffers=None: sent.append(message)
    counter.secrets = {"new token": Secret("s3cret-value")}
    counter.model.number = 1
    counter.secrets = {"new token": None}
    counter.model.number = 2
    assert sent == [{"secret": "new token", "value": "s3cret-value"}, {"secret": "new token", "value": None}]
    held = f"{panel.panel.get_state()} {panel.panel!r} {counter.model!r} {panel.panel} {panel.html}"
    assert "s3cret" not in held


def test_an_attribute_that_runs_code_cannot_be_written():
    with pytest.raises(ValueError, match="onclick"):
        h("button", onclick="alert(1)")
    with pytest.raises(ValueError, match="javascript:alert"):
        h("a", href="javascript:alert(1)")
    assert h("a", href="https://example.org/").attributes == {"href": "https://example.org/"}


def test_a_panel_that_cannot_be_sent_holds_up_nobody(panel, counter, monkeypatch, caplog):
    other = PanelPage(Panel(counter))

    def refuse(*_arguments, **_options):
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    monkeypatch.setattr(panel.panel, "send_state", refuse)
    counter.model.start("Working ...", lambda: "well done")
    other.wait("well done")
    assert counter.model.wait(PATIENCE)
    assert "the panel Counter could not be sent" in caplog.text


def test_one_who_hears_and_fails_keeps_nothing_from_others():
    class Pair(Model):
        one, other = Int(), Int()

    pair, told = Pair(), []
    pair.observe(lambda _: 1 / 0, "one")
    pair.observe(lambda change: told.append(change.new), "other")
    with pytest.raises(ZeroDivisionError), pair.hold_trait_notifications():
        pair.one, pair.other = 1, 2
    assert told == [2]


def test_halves_of_characters_are_replaced():
    tree = h("p", "half \ud800", title="\udfff", copy="a\ud800", on={"click": ["use", "b\ud800"]})
    assert tree.wire() == ["p", {"title": "?", "copy": "a?", "on": {"click": ["use", "b?"]}}, ["half ?"]]


def test_a_page_that_acts_is_seen_although_another_one_was_closed(panel, counter):
    say(panel, {"seen": False})
    panel.click("More")
    assert "1 = 0" in panel.words
    assert counter.followed == ["opened", "closed", "opened"]


def test_the_pages_of_other_windows_are_asked_whether_they_are_there_when_one_goes(panel):
    sent = []
    panel.panel.send = lambda message, buffers=None: sent.append(message)
    for message in ({"seen": True}, {"seen": False}, {"seen": True}):
        say(panel, message)
    assert ["anybody" in one for one in sent] == [False, True, False]


def test_in_a_terminal_nothing_is_followed_once_the_text_is_there(counter, capsys):
    panel = Panel(counter)
    counter.model.number = 3
    for _ in range(2):
        panel._ipython_display_()
        assert capsys.readouterr().out.splitlines() == ["Counter", "3 = 0"]
    assert counter.followed == ["opened", "closed", "opened", "closed"]


@pytest.fixture
def one_interrupt():
    """Return a function that interrupts the main thread once. A signal just before a wait begins does not end it."""
    arrived = threading.Event()

    def interrupted(_signal, _frame):
        if not arrived.is_set():
            arrived.set()
            raise KeyboardInterrupt

    def interrupt():
        while not arrived.wait(0.02):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupted)
    yield interrupt
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("variables", [{}, {widget.IN_VSCODE: "a.ipynb"}], ids=["around", "apart"])
def test_an_interrupt_ends_the_waiting_and_the_cells_to_come_and_the_panel_stays(
    counter, monkeypatch, variables, one_interrupt
):
    shown, waiting, go_on = [], threading.Event(), threading.Event()
    monkeypatch.setattr(widget, "get_ipython", lambda: SimpleNamespace(kernel=True, user_ns=variables))
    monkeypatch.setattr(widget, "_publish", shown.append)
    monkeypatch.setattr(widget, "PATIENCE", PATIENCE)
    panel = Panel(counter)

    def work():
        waiting.wait(PATIENCE)
        one_interrupt()
        go_on.wait(PATIENCE)
        return "well done"

    def models():
        waiting.set()  # the first thing that is wanted for it
        return (counter.model,)

    monkeypatch.setattr(counter, "models", models)
    counter.model.start("Working ...", work)
    with pytest.raises(KeyboardInterrupt) as caught:
        panel._ipython_display_()
    assert caught.value._render_traceback_() == ["KeyboardInterrupt: the panel is open, and no longer waited for"]
    kinds = [kind for one in shown for kind in one]
    assert kinds.count(widget.WIDGET) == kinds.count("text/html") == 1
    assert "0 = 0" in shown[-1]["text/plain"]
    go_on.set()
    assert counter.model.wait(PATIENCE)
    assert "well done" in str(panel.tree)


def test_what_was_asked_for_a_session_goes_with_it():
    from pipemagic.notebook.panels.holdings import holdings_of
    from pipemagic.session import Session

    session = Session(environ={})
    holdings = holdings_of(session)
    assert holdings_of(session) is holdings
    gone = weakref.ref(session)
    session.shut_down()
    del session, holdings
    gc.collect()
    assert gone() is None
