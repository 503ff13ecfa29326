"""The Session panel: connections, limits, the buttons that end a transaction."""

from __future__ import annotations

import threading
import time

import pytest
from panel_page import PanelPage
from waiting import PATIENCE, until

from pipemagic import launcher
from pipemagic.errors import StatementError
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.notebook.panels.session import SessionPanel

LABEL = "Keep alive between cells"
SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT count(*) FROM n"


@pytest.fixture(autouse=True)
def frequent_updates(monkeypatch):
    """Update panels more often than every 0.3 s: most tests wait for the next update."""
    monkeypatch.setattr(SessionPanel, "interval", 0.05)


@pytest.fixture
def open_page(session):
    """Open a session panel."""

    def open_page():
        panel = SessionPanel(state_of(session))
        panel.mount()
        return PanelPage(panel)

    return open_page


@pytest.fixture
def page(open_page):
    return open_page()


def card(page, name="main"):
    return page.panel.card(name)


def health(page):
    return page.panel.health(page.panel.state.session.connection())


def threads():
    ours = ("pipemagic: Session panel", "pipemagic: health of a server")
    return [thread.name for thread in threading.enumerate() if thread.name in ours]


def token_of(session):
    return session.connection().database.transport.token.value.decode().removeprefix("Bearer ")


def test_live_and_static_content(open_page, session):
    session.connect(session.organization.create_database("flights", "default").name, name="my <b>flights")
    session.run("BEGIN; CREATE TABLE t (a)")
    page = open_page()
    page.wait("healthy, round trip")
    assert page.text == (
        "Session\n"
        "  Connection     Where             State\n"
        "  main           embedded service  no transaction\n"
        "  my <b>flights  embedded service  transaction open, 1 statement so far  current"
    )
    assert "<b>" not in page.html
    assert "round trip" not in page.html
    assert "<b>" not in card(page, "my <b>flights").children[0].value
    assert page.html == open_page().html


def test_limits_run_down_to_a_fixed_time(page, session):
    assert card(page).transaction_left.until == card(page).idle_left.until == 0.0
    assert "No server-side connection: the next cell opens one." in page.words
    began = time.time()
    session.run("BEGIN")
    until(lambda: card(page).transaction_left.until and card(page).idle_left.until)
    transaction, idle = card(page).transaction_left, card(page).idle_left
    end = transaction.until
    assert (transaction.length, idle.length) == (5.0, 10.0)
    assert not transaction.about
    assert not idle.about
    assert began + 4.8 < end < time.time() + 5.2
    assert began + 9.8 < idle.until < time.time() + 10.2
    page.panel.changed()
    assert transaction.until == end
    assert session.connection().stream.idle_for() > 0  # nothing was renewed


def test_commit(page, session):
    session.run("CREATE TABLE t (a)")
    assert not page.can("Commit main")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    page.wait("Transaction open, 1 statement so far.")
    until(lambda: card(page).statements.texts == ["BEGIN", "INSERT INTO t VALUES (1)"])
    card(page).commit.click()
    page.wait("Committed 1 statement.")
    assert page.panel.status.line == "%sql --on main COMMIT"
    assert not page.can("Commit main")
    assert not page.can("Roll back main")
    assert session.run("SELECT a FROM t")["a"].tolist() == [1]
    assert session.run_cell("BEGIN").open_line.startswith("Transaction open, no statements so far")


def test_text_that_looks_like_a_token_in_a_statement_is_not_shown(page, session):
    session.run("CREATE TABLE t (a)")
    session.run("BEGIN; INSERT INTO t VALUES ('libsql://a.example?authToken=a-secret')")
    page.wait("Transaction open, 1 statement so far.")
    until(lambda: card(page).statements.texts == ["BEGIN", "INSERT INTO t VALUES ('libsql://a.example?authToken=***')"])
    assert "a-secret" not in page.words + page.html


def test_roll_back(page, session):
    session.run("CREATE TABLE t (a)")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    page.wait("Transaction open, 1 statement so far.")
    card(page).roll_back.click()
    page.wait("Rolled back 1 statement.")
    assert page.panel.status.line == "%pipedb rollback --on main"
    assert session.run("SELECT a FROM t")["a"].tolist() == []


def test_the_end_of_a_transaction_that_only_reads(page, session):
    session.run("BEGIN; SELECT 1")
    page.wait("Transaction open, 1 statement so far.")
    card(page).commit.click()
    page.wait("Ended the transaction. Its statement only read data.")
    session.run("BEGIN")
    page.wait("Transaction open, no statements so far.")
    card(page).roll_back.click()
    page.wait("Ended the transaction. It contained no statements.")


def test_commit_while_a_cell_runs_waits_for_it_and_does_not_block(page, session):
    session.run("CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (1)")
    page.wait("Transaction open, 1 statement so far.")
    cell = threading.Thread(target=session.run, args=[SLOW.format(3_000_000)])
    cell.start()
    page.wait("A request has been running since ")
    card(page).commit.click()
    assert page.panel.status.busy == "Committing main ..."
    assert not page.can("Commit main")
    page.wait("Committed 2 statements.")
    cell.join()
    with pytest.raises(StatementError, match="no transaction is active"):
        session.run("COMMIT")
    assert session.run("SELECT a FROM t")["a"].tolist() == [1]


def test_use_and_close(page, session):
    session.connect(session.connection().name, name="two words")
    page.wait("two words")
    page.click("Use main")
    page.wait("Using main.")
    assert page.panel.status.line == "%pipedb use main"
    assert session.current == "main"
    session.run("BEGIN", on="two words")
    page.wait("transaction open, no statements so far")
    until(lambda: list(page.panel.cards) == ["main", "two words"])
    closed = card(page, "two words")
    page.click("Close two words")
    page.wait("Closed two words. Its open transaction was rolled back.")
    assert page.panel.status.line == '%pipedb close "two words"'
    assert list(session.connections) == ["main"]
    until(lambda: closed.comm is None)
    page.click("Close main")
    page.wait("Closed main.")
    page.wait("No connections yet.")


def test_cards_of_connections_that_stay_keep_their_widgets(page, session):
    main = card(page)
    session.run("BEGIN")  # a connection without open state is closed when another one becomes current
    for _ in range(2):
        session.connect(session.connection("main").name, name="other")
        until(lambda: list(page.panel.cards) == ["main", "other"])
        other = card(page, "other")
        session.close("other")
        until(lambda: page.panel.box.children == (main,))
        until(lambda other=other: other.comm is None)  # closed
    assert card(page) is main


def test_keep_alive(page, session):
    session.run("SELECT 1")
    assert card(page).keep.widget.options == (("off", 0), ("1 min", 60), ("10 min", 600), ("1 h", 3600))
    page.choose(LABEL, 600)
    page.wait("main is kept alive for 10 min after each cell.")
    assert card(page).keeping_status.line == "%pipedb connect main --keep-alive 10m"
    assert session.connection().keep_alive_thread.seconds == 600
    page.wait(" without a cell")
    page.choose(LABEL, 0)
    page.wait("main is no longer kept alive between cells.")
    assert card(page).keeping_status.line == "%pipedb connect main --keep-alive off"
    assert session.connection().keep_alive_thread.seconds is None
    session.connection().keep_alive(300)
    until(lambda: card(page).keep.widget.value == 300)
    assert ("5 min", 300) in card(page).keep.widget.options
    session.connection().keep_alive(None)  # its thread exists for that time
    until(lambda: len(card(page).keep.widget.options) == 4)


def test_a_time_that_a_page_selects_before_it_has_the_new_options(page, session):
    panel, keep = page.panel, card(page).keep
    panel.events.receive({"chosen": "10 min", "field": keep.id})
    session.connection().keep_alive(300)
    until(lambda: keep.widget.options[2] == ("5 min", 300))
    keep.widget.set_state({"index": 2})  # of "10 min" before there were 5 minutes
    until(lambda: session.connection().keep_alive_thread.seconds == 600)
    session.close(session.current)
    until(lambda: keep.id not in panel.events.on_chosen)


def test_it_says_why_a_connection_with_temporary_tables_is_kept(page, session):
    session.run("CREATE TEMP TABLE basket (item)")
    page.panel.changed()
    page.wait(" without a cell, because it has temporary tables")
    assert card(page).keep.widget.value == 3600
    session.run("DROP TABLE basket")
    page.panel.changed()
    until(lambda: card(page).keep.widget.value == 0)


def test_of_quick_selections_the_last_one_counts(page, session):
    """With arrow keys, each step through a list is a selection."""
    connection, values = session.connection(), []
    card(page).keep.widget.observe(lambda change: values.append(change["new"]), "value")
    with connection._lock:  # as during a cell
        page.choose(LABEL, 60)
        page.wait("Keeping main alive ...")
        page.choose(LABEL, 600)
        page.choose(LABEL, 3600)
        page.wait("A request has been running since ")
        page.panel.changed()
    page.wait("main is kept alive for 1 h after each cell.")
    page.panel.changed()
    assert connection.keep_alive_thread.seconds == 3600
    assert values == [60, 600, 3600]  # it never jumped back
    connection.keep_alive(None)


def test_before_connect_it_shows_what_to_do(open_page, session):
    session.close()
    page = open_page()
    assert page.text == (
        "Session\nNo connections yet. %pipedb connect starts a database on this machine; "
        "%pipedb connect ADDRESS connects to another."
    )
    page.click("Connect")
    page.wait("Connected to main (embedded service).")
    page.wait("healthy, round trip")
    assert page.panel.status.line == "%pipedb connect"


def test_the_last_requests(page, session):
    session.run("SELECT 1")
    page.wait("POST /v3/pipeline")
    ran = next(row for row in page.rows("The last requests") if row[2:4] == ["a cell", "POST /v3/pipeline"])
    assert ran[1] == "main"
    assert ran[4] == "HTTP 200"
    assert ran[5].endswith(" ms")
    for _ in range(25):
        session.run("SELECT 1")
    page.wait("The last 20 requests")
    assert page.panel.requests.selected_index is None
    assert token_of(session) not in page.words + page.html


def test_requests_that_keep_a_connection_alive_are_listed_as_such(page, session, monkeypatch):
    monkeypatch.setattr("pipemagic.session.keep_alive.CHECK_EVERY", 0.01)
    monkeypatch.setattr("pipemagic.session.keep_alive.RENEW_AFTER", 0.0)
    session.connection().keep_alive(60)
    session.run("SELECT 1")
    until(lambda: any(row[2] == "keep-alive" for row in page.rows("The last requests")))
    session.connection().keep_alive(None)


def test_the_service_is_stopped_and_started(page, session):
    page.wait("healthy, round trip")
    session.run("BEGIN")
    page.wait("Transaction open")
    session.stop()
    page.wait("No transaction.")
    session.run("SELECT 1")
    page.wait("Server-side connection, open since ")
    before = health(page).at
    page.panel.refresh.click()
    until(lambda: health(page).at > before and not health(page).error)
    page.wait("healthy, round trip")


def test_roll_back_of_a_transaction_that_ended_with_its_service(page, session):
    session.run("CREATE TABLE t(a)")
    session.run("BEGIN")
    session.run("INSERT INTO t VALUES (1)")
    page.wait_for("Roll back main")
    launcher.stop()
    page.click("Roll back main")
    page.wait("The server had already rolled back the transaction.")
    assert page.alerts == []
    assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]


def test_a_server_that_does_not_respond(open_page, session):
    session.connect(session.connection().database.url, name="by address", token=token_of(session))
    session.close("main")
    page = open_page()
    page.wait("healthy, round trip")
    session.stop()
    page.panel.refresh.click()
    page.wait("Server of by address: nothing is listening at http://main-local.localhost")
    assert "nothing is listening" in page.panel.failing_servers.value
    assert "pm-error" in page.panel.failing_servers.value
    assert page.panel.servers.value == ""
    page.wait_for("Refresh")


def test_a_server_that_stops_while_a_transaction_is_open(open_page, session, monkeypatch):
    monkeypatch.setattr("pipemagic.notebook.panels.session.OPEN", 0.05)
    session.run("CREATE TABLE t (a)")
    page = open_page()
    page.wait("healthy, round trip")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    page.wait("Transaction open, 1 statement so far.")
    launcher.stop()
    page.wait("The transaction (1 statement so far) is lost if the server has stopped.")
    assert card(page).transaction_left.until == 0.0
    assert card(page).idle_left.until == 0.0
    assert page.panel.static()[0].rows[0][2] == "the transaction (1 statement so far) is lost if the server has stopped"
    assert page.panel.table.rows[0]["cells"][2]["text"] == page.panel.static()[0].rows[0][2]


def test_settings_that_switch_checks_off(page, session):
    session.run("PRAGMA foreign_keys = OFF")
    page.wait("Foreign keys are not checked on this connection until PRAGMA foreign_keys = ON.")
    session.run("PRAGMA foreign_keys = ON")
    until(lambda: not card(page).settings.value)


def test_the_health_of_each_server_is_a_line_and_is_read_while_the_panel_is_shown(open_page, session):
    session.connect(session.connection().name, name="another")
    page = open_page()
    until(lambda: page.words.count("healthy, round trip") == 2, page.words)
    lines = page.panel.servers.value.split("<br>")
    assert [line.split("Server of ")[1].split(":")[0] for line in lines] == ["main", "another"]
    assert "Server" not in [column["title"] for column in page.panel.table.columns]
    read = health(page).at
    page.panel.tick()
    assert health(page).at == read  # once, unless a transaction is open or the server does not respond
    page.panel.unmount()
    until(lambda: not threads())


def test_a_bug_while_reading_the_health_is_shown_and_not_repeated_at_every_update(open_page, monkeypatch, caplog):
    monkeypatch.setattr(outcomes, "describe_server", lambda database: 1 / 0)
    page = open_page()
    page.wait("Server of main: BUG: see the kernel's log")
    health(page).task.wait(PATIENCE)
    page.panel.tick()
    page.panel.tick()
    assert caplog.text.count("the work of health of a server failed") == 1


def test_a_bug_is_not_swallowed(page, session, monkeypatch, caplog):
    monkeypatch.setattr(session.wire, "newest", lambda _: 1 / 0)
    page.wait("BUG: ZeroDivisionError: division by zero")
    monkeypatch.undo()
    until(lambda: not page.panel.bug.value)
