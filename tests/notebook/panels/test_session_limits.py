"""The Session panel while limits expire, on the embedded service and on sqld, one of which is paused.

The scenarios run concurrently, since they mostly wait. sqld ends transactions differently.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from long_waits import side_by_side
from magic_shell import make_database
from panel_page import PanelPage
from sqld_server import Sqld
from waiting import until

from pipemagic.errors import TransactionLost
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.notebook.panels.session import SessionPanel
from pipemagic.session import Session

LATE = "This server may roll the transaction back later, or only when another connection needs to write"
LATE_EXACT = "Commit, or the next cell, reports that the server has rolled the transaction back."
TIMED_OUT = "Transaction timed out and was rolled back."
WHY = "The server rolled the transaction back: it was open for longer than the server allows"
WHY_EXACT = "The server rolled the transaction back: it must be committed within 5 s and was open for longer"
REFUSING = "No cell runs on this connection until the transaction is run again or discarded."


class Servers:
    """Sessions with their panels: on a service and a sqld for all, or on a sqld that is paused."""

    def __init__(self, service, shared, binary, new_folder):
        self.service, self.shared, self.binary, self.new_folder = service, shared, binary, new_folder
        self.sessions, self.own = [], []
        self._making = threading.Lock()

    def embedded_panel(self, name):
        """Return a page and its session: with one connection to a database of our service, `main`."""
        with self._making:  # it makes a group, if there is none
            url, token = make_database(self.service, f"panel {name}")
        return self._panel(url, token, "main", version="pipemagic ")

    def panel(self, server=None):
        """Return a page and its session: with two connections to one database, `theirs` and `ours`."""
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
        panel = SessionPanel(state_of(session))
        panel.mount()
        page = PanelPage(panel)
        page.wait(version)
        page.wait("healthy, round trip")
        return page, session

    def one_to_pause(self):
        """Return another sqld."""
        if isinstance(self.binary, pytest.skip.Exception):
            raise self.binary
        self.own.append(Sqld(self.binary, self.new_folder()))
        return self.own[-1]


def stop(pid):
    """Stop a process and wait until no thread of it runs: one may still respond after the signal was sent."""
    os.kill(pid, signal.SIGSTOP)
    states = Path(f"/proc/{pid}/task")
    until(lambda: all(stat.read_text().rpartition(")")[2].split()[0] in "Tt" for stat in states.glob("*/stat")))


def late(page, session):
    """Begin a transaction, and wait until its time limit has passed in the panel."""
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    page.wait("Transaction open, 1 statement so far.")
    page.wait(LATE)


def a_late_transaction_without_another_writer_can_be_committed(servers):
    page, session = servers.panel()
    late(page, session)
    card = page.panel.card("ours")
    end = card.transaction_left.until
    assert card.transaction_left.about  # sqld names no limits
    assert card.idle_left.about
    assert TIMED_OUT not in page.words
    page.panel.changed()
    assert card.transaction_left.until == end  # without a request
    card.commit.click()
    page.wait("Committed 1 statement.")
    until(lambda: card.transaction_left.until == 0.0)
    assert session.run("SELECT a FROM t", on="theirs")["a"].tolist() == [1]


def a_late_transaction_that_another_one_ended(servers):
    page, session = servers.panel()
    late(page, session)
    session.run("INSERT INTO t VALUES (2)", on="theirs")
    page.click("Commit ours")
    page.wait(f"{WHY}. Its statements can be run again until the next cell.")
    until(lambda: any(alert.startswith("TRANSACTION_LOST: ") for alert in page.alerts))
    page.click("Run again on ours")
    page.wait("Committed; 1 row affected.")
    assert session.run("SELECT a FROM t")["a"].tolist() == [2, 1]


def a_transaction_whose_time_is_over(servers):
    """It is open until the server has said that it is not; then it can be run again."""
    page, session = servers.embedded_panel("over")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    page.wait(LATE_EXACT)
    assert TIMED_OUT not in page.words
    assert session.connection().check_server() == ""
    page.panel.changed()
    page.wait(TIMED_OUT)
    page.wait(f"{WHY_EXACT}. {REFUSING}")
    card = page.panel.card("main")
    assert "transaction open" not in page.words.lower()
    assert page.text.endswith("transaction timed out and was rolled back  current")
    assert card.transaction_left.until == 0.0
    assert card.commit.layout.display == "none"
    assert card.roll_back.description == "Discard"
    assert card.undone.texts == ["BEGIN", "INSERT INTO t VALUES (1)"]
    card.run_again.click()
    page.wait("Committed; 1 row affected.")
    assert page.panel.status.line == "%pipedb retry --on main"
    assert session.run("SELECT a FROM t")["a"].tolist() == [1]
    page.wait("No transaction.")
    assert not page.can("Run again on main")


def a_transaction_that_a_cell_met_after_its_time(servers):
    page, session = servers.embedded_panel("lost")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    page.wait(LATE_EXACT)
    with pytest.raises(TransactionLost):
        session.run("INSERT INTO t VALUES (2)")
    card = page.panel.card("main")
    until(lambda: card.left.texts == ["INSERT INTO t VALUES (2)"])
    assert {"Rolled back", "Not run, and not part of a rerun"} <= set(page.words.split("\n"))
    assert not page.can("Commit main")
    page.wait_for("Run again on main")
    page.click("Discard main")
    page.wait("Discarded the lost transaction.")
    assert page.panel.status.line == "%pipedb rollback --on main"
    assert session.run("SELECT a FROM t")["a"].tolist() == []


def a_cell_that_waits_for_a_paused_server(servers):
    """The panel detects without a click that the cell takes long, and sends a request beside it."""
    server = servers.one_to_pause()
    page, session = servers.panel(server)
    stop(server.process.pid)
    try:
        cell = threading.Thread(target=session.run, args=["INSERT INTO t VALUES (2)"])
        cell.start()
        page.wait("A request has been running since ")
        page.wait("Server of ours: no response within 3 s")
        page.click("Use theirs")
        page.wait("Using theirs.")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    cell.join()
    until(lambda: not page.panel.health(session.connection("ours")).error)  # requested again automatically
    page.wait("healthy, round trip")
    assert session.run("SELECT a FROM t")["a"].tolist() == [2]


def reading_the_health_does_not_touch_the_transaction(servers):
    page, session = servers.panel()
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    stream = session.connection().stream
    sent, requests = stream.sent_for(), session.wire.newest(1)
    health = page.panel.health(session.connection())
    before = health.at
    page.panel.refresh.click()
    until(lambda: health.at > before and not health.task.busy)
    assert stream.sent_for() > sent  # nothing was sent on it
    assert session.wire.newest(1) == requests
    assert session.connection().commit().count == 1


@pytest.fixture(scope="module")
def outcome(request, service, tmp_path_factory, closing):
    try:
        sqld, binary = request.getfixturevalue("sqld"), request.getfixturevalue("sqld_binary")
    except pytest.skip.Exception as reason:  # the scenarios on the embedded service run without it
        sqld = binary = reason
    servers = Servers(service, sqld, binary, lambda: tmp_path_factory.mktemp("sqld-to-pause"))
    with pytest.MonkeyPatch.context() as patch:
        # Seconds after which a server is queried again; the default is 5.
        patch.setattr("pipemagic.notebook.panels.session.RETRY", 0.5)
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
    a_transaction_whose_time_is_over,
    a_transaction_that_a_cell_met_after_its_time,
    a_cell_that_waits_for_a_paused_server,
    reading_the_health_does_not_touch_the_transaction,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_side_by_side(outcome, scenario):
    outcome(scenario)
