"""The session's panel where the server is not ours: a real sqld, which counts differently, and one that is paused."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from panel_page import PanelPage
from waiting import until

from pipemagic.errors import TransactionLost
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session

BAR = "Time left of the transaction of ours"
LATE = "This server may wait until somebody else wants to write before it rolls it back"


@pytest.fixture
def session(sqld_database, closing):
    """A session with two connections to one database of a sqld: `theirs`, and `ours`, the current one."""
    session = Session(environ={})
    for name in ("theirs", "ours"):
        session.connect(sqld_database.url, name=name, token=sqld_database.token)
    session.run("CREATE TABLE t (a)")
    yield session
    closing()
    session.shut_down()


@pytest.fixture
def panel(session):
    panel = PanelPage(open_panel(session, "session"))
    panel.wait("sqld ")
    panel.wait("healthy, round trip")
    return panel


@pytest.fixture
def paused(sqld):
    """Pause sqld, until `go_on` is called or the test ends."""

    def go_on():
        os.kill(sqld.process.pid, signal.SIGCONT)

    def pause():
        os.kill(sqld.process.pid, signal.SIGSTOP)
        return go_on

    yield pause
    go_on()


def late(panel, session):
    """Begin a transaction, and wait until its time is over by the panel."""
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    panel.wait("Transaction open, 1 statement so far.")
    panel.wait(LATE)


def until_of(panel):
    return {node.attributes["aria-label"]: node.attributes["until"] for node in panel.find("div", BAR)}


def test_a_late_transaction_that_nobody_minds_can_be_committed(panel, session):
    late(panel, session)
    assert until_of(panel) == {BAR: 0.0}
    assert "the server has rolled it back" not in panel.words
    panel.click("Commit ours")
    panel.wait("Committed 1 statement on ours.")
    assert session.run("SELECT a FROM t", on="theirs")["a"].tolist() == [1]


def test_a_late_transaction_that_another_one_ended(panel, session):
    late(panel, session)
    session.run("INSERT INTO t VALUES (2)", on="theirs")
    panel.click("Commit ours")
    panel.wait(
        "The server rolled the transaction back: it must be committed within 5 s and was open for longer. "
        "What it held can be run again until the next cell."
    )
    until(lambda: any(one.startswith("TRANSACTION_LOST: ") for one in panel.alerts))
    panel.click("Run again on ours")
    panel.wait("Ran 1 statement again and committed; 1 row affected.")
    assert session.run("SELECT a FROM t")["a"].tolist() == [2, 1]


def test_idle_time_that_is_over_ends_a_transaction_here_too(panel, session):
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    panel.wait("Nothing was sent for 10 s: the server has closed the connection and rolled it back.")
    assert not panel.can("Commit ours")
    with pytest.raises(TransactionLost):
        session.run("INSERT INTO t VALUES (2)")
    panel.wait("the connection was idle for more than 10 s and is closed by then. Nothing more runs here")
    assert session.run("SELECT a FROM t", on="theirs")["a"].tolist() == []


def test_a_server_that_is_paused_is_told_of_and_heard_again(panel, session, paused):
    go_on = paused()
    panel.click("Look again")
    until(lambda: "Its server: no answer within 3 s." in panel.alerts)
    assert panel.can("Use theirs")
    go_on()
    until(lambda: not panel.alerts)  # asked again by itself
    panel.wait("healthy, round trip")


def test_a_cell_that_waits_for_a_paused_server(panel, session, paused):
    """Nobody asks for it: the panel sees that the cell takes long, and asks beside it."""
    go_on = paused()
    cell = threading.Thread(target=session.run, args=["INSERT INTO t VALUES (2)"])
    cell.start()
    panel.wait("A request has been under way for ")
    panel.wait("Its server: no answer within 3 s.")
    panel.click("Use theirs")
    panel.wait("Using theirs.")
    go_on()
    cell.join()
    until(lambda: not panel.alerts)
    assert session.run("SELECT a FROM t")["a"].tolist() == [2]


def test_asking_how_a_server_is_does_not_touch_the_transaction(panel, session):
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    stream = session.connection().stream
    sent, requests = stream.sent_for(), session.wire.newest(1)
    opened = panel.panel.view.model.opened
    asked = opened.connections[-1].answer.at
    panel.click("Look again")
    until(lambda: opened.connections[-1].answer.at > asked)
    assert stream.sent_for() > sent  # nothing was sent on it
    assert session.wire.newest(1) == requests
    assert session.connection().commit() == 1
