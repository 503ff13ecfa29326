"""The session's panel while windows run out, on our service and on a real sqld, which counts differently.

And while a sqld is paused. All of it at the same time, since most of it is waiting.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from functools import partial

import pytest
from long_waits import side_by_side
from magic_shell import make_database
from panel_page import PanelPage
from sqld_server import Sqld
from waiting import until

from pipemagic.errors import TransactionLost
from pipemagic.hrana.stream import Tx
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session

LATE = "This server may wait until somebody else wants to write before it rolls it back"


class Servers:
    """Sessions with their panels: on a service and a sqld for all, or on a sqld that is paused."""

    def __init__(self, service, shared, binary, new_folder):
        self.service, self.shared, self.binary, self.new_folder = service, shared, binary, new_folder
        self.sessions, self.own = [], []
        self._making = threading.Lock()

    def embedded_panel(self, name):
        """Return the panel of a session, and the session: with one connection to a database of our service, `main`."""
        with self._making:  # it makes a group, if there is none
            url, token = make_database(self.service, f"panel {name}")
        return self._panel(url, token, "main", version="pipemagic ")

    def panel(self, server=None):
        """Return the panel of a session, and the session: with two connections to one database, `theirs` and `ours`."""
        if isinstance(self.shared, pytest.skip.Exception):
            raise self.shared
        database = (server or self.shared).database()
        return self._panel(database.url, database.token, "theirs", "ours", version="sqld ")

    def _panel(self, url, token, *names, version):
        session = Session(environ={})
        self.sessions.append(session)
        for name in names:
            session.connect(url, name=name, token=token)
        session.run("CREATE TABLE t (a)")
        panel = PanelPage(open_panel(session, "session"))
        panel.wait(version)
        panel.wait("healthy, round trip")
        return panel, session

    @contextmanager
    def one_to_pause(self):
        """Yield a panel and its session on a sqld of their own, and functions that pause and resume that server."""
        if isinstance(self.binary, pytest.skip.Exception):
            raise self.binary
        server = Sqld(self.binary, self.new_folder())
        self.own.append(server)
        send = partial(os.kill, server.process.pid)
        try:
            yield *self.panel(server), partial(send, signal.SIGSTOP), partial(send, signal.SIGCONT)
        finally:
            send(signal.SIGCONT)


def late(panel, session):
    """Begin a transaction, and wait until its time is over by the panel."""
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    panel.wait("Transaction open, 1 statement so far.")
    panel.wait(LATE)


def until_of(panel, connection):
    (bar,) = panel.find("div", f"Time left of the transaction of {connection}")
    return bar.attributes["until"]


def a_late_transaction_without_another_writer_can_be_committed(servers):
    panel, session = servers.panel()
    late(panel, session)
    assert until_of(panel, "ours") == 0.0
    assert "the server has rolled it back" not in panel.words
    panel.click("Commit ours")
    panel.wait("Committed 1 statement on ours.")
    assert session.run("SELECT a FROM t", on="theirs")["a"].tolist() == [1]


def a_late_transaction_that_another_one_ended(servers):
    panel, session = servers.panel()
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


def idle_time_that_is_over_ends_a_transaction_here_too(servers):
    panel, session = servers.panel()
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    panel.wait("Transaction timed out and was rolled back.")
    assert not panel.can("Commit ours")
    assert panel.can("Run again on ours")
    with pytest.raises(TransactionLost):
        session.run("INSERT INTO t VALUES (2)")
    panel.wait("the connection was idle for more than 10 s and is closed by then. Nothing more runs here")
    assert session.run("SELECT a FROM t", on="theirs")["a"].tolist() == []


def a_transaction_whose_time_is_over(servers):
    panel, session = servers.embedded_panel("over")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    panel.wait("Transaction timed out and was rolled back.")
    panel.wait(
        "The server rolled the transaction back: it must be committed within 5 s and was open for longer. "
        "Nothing more runs here until it is run again, or given up with Roll back."
    )
    assert not panel.can("Commit main")
    panel.click("Run again on main")
    panel.wait("Ran 1 statement again and committed; 1 row affected.")
    assert "%pipedb retry --on main" in panel.words
    assert session.run("SELECT a FROM t")["a"].tolist() == [1]
    assert "can be run again" not in panel.words


def a_lost_transaction(servers):
    panel, session = servers.embedded_panel("lost")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    until(lambda: session.connection().transaction is Tx.LOST)
    with pytest.raises(TransactionLost):
        session.run("INSERT INTO t VALUES (2)")
    panel.wait("must be committed within 5 s and was open for longer. Nothing more runs here until it is run again,")
    assert {"Undone", "INSERT INTO t VALUES (1)"} <= set(panel.words.split("\n"))
    assert {"Not run, and not run again", "INSERT INTO t VALUES (2)"} <= set(panel.words.split("\n"))
    assert not panel.can("Commit main")
    panel.wait_for("Run again on main")
    assert panel.text.endswith("transaction timed out and was rolled back  current")
    panel.click("Roll back main")
    panel.wait("Lost transaction discarded.")
    assert session.run("SELECT a FROM t")["a"].tolist() == []


def a_server_that_is_paused_is_told_of_and_heard_again(servers):
    with servers.one_to_pause() as (panel, _, pause, go_on):
        pause()
        panel.click("Refresh")
        until(lambda: "Its server: no answer within 3 s." in panel.alerts)
        panel.wait_for("Use theirs")
        go_on()
        until(lambda: not panel.alerts)  # asked again by itself
        panel.wait("healthy, round trip")


def a_cell_that_waits_for_a_paused_server(servers):
    """Nobody asks for it: the panel sees that the cell takes long, and asks beside it."""
    with servers.one_to_pause() as (panel, session, pause, go_on):
        pause()
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


def asking_how_a_server_is_does_not_touch_the_transaction(servers):
    panel, session = servers.panel()
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    stream = session.connection().stream
    sent, requests = stream.sent_for(), session.wire.newest(1)
    opened = panel.panel.view.model.opened
    asked = opened.connections[-1].answer.at
    panel.click("Refresh")
    until(lambda: opened.connections[-1].answer.at > asked)
    assert stream.sent_for() > sent  # nothing was sent on it
    assert session.wire.newest(1) == requests
    assert session.connection().commit() == 1


@pytest.fixture(scope="module")
def outcome(request, service, tmp_path_factory, closing):
    try:
        sqld, binary = request.getfixturevalue("sqld"), request.getfixturevalue("sqld_binary")
    except pytest.skip.Exception as reason:  # the scenarios on our own service run without it
        sqld = binary = reason
    servers = Servers(service, sqld, binary, lambda: tmp_path_factory.mktemp("sqld-to-pause"))
    with pytest.MonkeyPatch.context() as patch:
        # Seconds after which a server is asked again, else 5.
        patch.setattr("pipemagic.notebook.panels.session.opened.AGAIN", 0.5)
        with side_by_side(request, test_side_by_side, servers) as outcome:
            yield outcome
        closing()
    for session in servers.sessions:
        session.shut_down()
    for server in servers.own:
        server.close()


SCENARIOS = [
    a_late_transaction_without_another_writer_can_be_committed,
    a_late_transaction_that_another_one_ended,
    idle_time_that_is_over_ends_a_transaction_here_too,
    a_transaction_whose_time_is_over,
    a_lost_transaction,
    a_server_that_is_paused_is_told_of_and_heard_again,
    a_cell_that_waits_for_a_paused_server,
    asking_how_a_server_is_does_not_touch_the_transaction,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_side_by_side(outcome, scenario):
    outcome(scenario)
