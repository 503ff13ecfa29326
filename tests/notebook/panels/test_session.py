"""The session's panel: connections, clocks, the buttons that end a transaction."""

from __future__ import annotations

import threading
import time

import pytest
from seed_server import SeedServer
from waiting import Stopwatch, until

from pipemagic import launcher
from pipemagic.errors import StatementError

SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT count(*) FROM n"


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    """Let panels look at their session more often than every 0.3 s: most tests wait for the next look."""
    monkeypatch.setattr("pipemagic.notebook.panels.session.opened.EVERY", 0.05)


@pytest.fixture
def panel(page):
    return page("session")


def clocks(panel):
    return {node.attributes["aria-label"]: node.attributes for node in panel.find("div") if "until" in node.attributes}


def token_of(session):
    return session.connection().database.transport.token.authorization.decode().removeprefix("Bearer ")


def test_what_is_connected_in_two_faces(page, session):
    session.connect(session.platform.create_database("flights", "default").name, name="my <b>flights")
    session.run("BEGIN; CREATE TABLE t (a)")
    panel = page("session")
    panel.wait("healthy, round trip")
    assert panel.text == (
        "Session\n"
        "  Connection    Where             State\n"
        "  main          embedded service  no transaction\n"
        "  my <b>flights  embedded service  transaction open, 1 statement so far  current"
    ).replace("Connection    Where", "Connection     Where").replace("main          emb", "main           emb")
    assert "<b>" not in panel.html
    assert "until" not in panel.html
    assert "round trip" not in panel.html
    assert panel.html == page("session").html


def test_the_windows_run_down_to_a_fixed_time(panel, session):
    assert clocks(panel) == {}
    assert "No server-side connection: the next cell opens one." in panel.words
    began = time.time()
    session.run("BEGIN")
    until(lambda: len(clocks(panel)) == 2)
    transaction = clocks(panel)["Time left of the transaction of main"]
    assert transaction["of"] == 5.0
    assert began + 4.8 < transaction["until"] < time.time() + 5.2
    idle = clocks(panel)["Idle time left of main"]
    assert idle["of"] == 10.0
    assert began + 9.8 < idle["until"] < time.time() + 10.2
    looked = panel.panel.view.model.opened
    for _ in range(5):
        looked.look()
    assert clocks(panel)["Time left of the transaction of main"]["until"] == transaction["until"]
    assert session.connection().stream.idle_for() > 0  # nothing was renewed


def test_commit_by_button(panel, session):
    session.run("CREATE TABLE t (a)")
    assert not panel.can("Commit main")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    panel.wait("Transaction open, 1 statement so far.")
    assert "INSERT INTO t VALUES (1)" in panel.words
    panel.click("Commit main")
    panel.wait("Committed 1 statement on main.")
    assert "%pipedb commit --on main" in panel.words
    assert not panel.can("Commit main")
    assert not panel.can("Roll back main")
    assert session.run("SELECT a FROM t")["a"].tolist() == [1]
    assert session.run_cell("BEGIN").open_line.startswith("Transaction open, no statement so far")


def test_what_looks_like_a_token_in_a_statement_is_not_shown(panel, session):
    session.run("CREATE TABLE t (a)")
    session.run("BEGIN; INSERT INTO t VALUES ('libsql://a.example?authToken=a-secret')")
    panel.wait("Transaction open, 1 statement so far.")
    assert "INSERT INTO t VALUES ('libsql://a.example?authToken=***')" in panel.words
    assert "a-secret" not in str(panel.panel.tree)


def test_roll_back_by_button(panel, session):
    session.run("CREATE TABLE t (a)")
    session.run("BEGIN; INSERT INTO t VALUES (1)")
    panel.wait("Transaction open, 1 statement so far.")
    panel.click("Roll back main")
    panel.wait("Rolled back 1 statement on main.")
    assert "%pipedb rollback --on main" in panel.words
    assert session.run("SELECT a FROM t")["a"].tolist() == []


def test_commit_while_a_cell_runs_waits_for_it_and_blocks_nobody(panel, session):
    session.run("CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (1)")
    panel.wait("Transaction open, 1 statement so far.")
    cell = threading.Thread(target=session.run, args=[SLOW.format(3_000_000)])
    cell.start()
    panel.wait("A request has been under way for ")
    watch = Stopwatch()
    panel.click("Commit main")
    assert watch.stop() < 0.2
    assert "Committing main ..." in panel.words
    assert not panel.can("Commit main")
    panel.wait("Committed 2 statements on main.")
    cell.join()
    with pytest.raises(StatementError, match="no transaction is active"):
        session.run("COMMIT")
    assert session.run("SELECT a FROM t")["a"].tolist() == [1]


def test_use_and_close(panel, session):
    session.connect(session.connection().name, name="two words")
    panel.wait("two words")
    panel.click("Use main")
    panel.wait("Using main.")
    assert "%pipedb use main" in panel.words
    assert session.current == "main"
    session.run("BEGIN", on="two words")
    panel.wait("transaction open, no statement so far")
    panel.click("Close two words")
    panel.wait("Closed two words. The open transaction was rolled back.")
    assert '%pipedb close "two words"' in panel.words
    assert list(session.connections) == ["main"]
    panel.click("Close main")
    panel.wait("Closed main.")
    panel.wait("No connection yet.")


def test_keep_alive(panel, session):
    session.run("SELECT 1")
    label = "Keep alive between cells"
    assert panel.options(label) == ["off", "1m", "10m", "1h"]
    panel.choose(label, "10m")
    panel.wait("main is kept alive for 10 min after each cell.")
    assert "%pipedb keep-alive 10m --on main" in panel.words
    assert session.connection().keeping.seconds == 600
    panel.wait(" without a cell")
    panel.choose(label, "off")
    panel.wait("main is no longer kept alive between cells.")
    assert session.connection().keeping is None
    session.connection().keep_alive(300)
    until(lambda: panel.options(label)[-1] == "5 min")
    session.connection().keep_alive(None)  # its thread is as long as that


def test_of_choices_that_come_quickly_the_last_one_counts(panel, session):
    """As arrow keys make them: each step on the way through a list is a choice."""
    label, connection = "Keep alive between cells", session.connection()
    with connection._lock:  # as a cell holds it
        panel.choose(label, "1m")
        until(lambda: "Keeping main ..." in panel.words)
        panel.choose(label, "10m")
        panel.choose(label, "1h")
    panel.wait("main is kept alive for 1 h after each cell.")
    assert connection.keeping.seconds == 3600
    connection.keep_alive(None)


def test_a_choice_is_carried_out_once_however_quickly_that_ends(panel, session, monkeypatch):
    model, begun = panel.panel.view.model, []
    start = model.start

    def start_and_dawdle(what, *rest):
        begun.append(what)
        started = start(what, *rest)
        until(lambda: not model.busy)
        model.wait(0.2)  # for what its thread does after that, too
        return started

    monkeypatch.setattr(model, "start", start_and_dawdle)
    panel.choose("Keep alive between cells", "10m")
    panel.wait("main is kept alive for 10 min after each cell.")
    assert begun == ["Keeping main ..."]
    session.connection().keep_alive(None)


def test_before_connect_it_says_what_to_do(page, session):
    session.close()
    panel = page("session")
    assert panel.text == (
        "Session\nNo connection yet. %pipedb connect starts a database on this machine, "
        "%pipedb connect ADDRESS takes another."
    )
    panel.click("Connect")
    panel.wait("Connected to main (embedded service).")
    panel.wait("healthy, round trip")


def test_the_last_requests(panel, session):
    session.run("SELECT 1")
    panel.wait("POST /v3/pipeline")
    rows = [[cell.words for cell in row.children] for row in panel.find("tr")]
    ran = next(row for row in rows if row[2:4] == ["a cell", "POST /v3/pipeline"])
    assert ran[1] == "main"
    assert ran[4] == "HTTP 200"
    assert ran[5].endswith(" ms")
    for _ in range(25):
        session.run("SELECT 1")
    panel.wait("The last 20 requests")
    assert token_of(session) not in str(panel.panel.tree)


def test_requests_that_keep_a_connection_alive_are_listed_as_such(panel, session, monkeypatch):
    monkeypatch.setattr("pipemagic.session.keep_alive.CHECK_EVERY", 0.01)
    monkeypatch.setattr("pipemagic.session.keep_alive.RENEW_AFTER", 0.0)
    session.connection().keep_alive(60)
    session.run("SELECT 1")
    until(lambda: any(row.children[2].words == "keep-alive" for row in panel.find("tr")))
    session.connection().keep_alive(None)


def test_the_service_is_stopped_and_started(panel, session):
    panel.wait("healthy, round trip")
    session.run("BEGIN")
    panel.wait("Transaction open")
    session.stop()
    panel.wait("No transaction.")
    session.run("SELECT 1")
    panel.wait("Server-side connection, open for ")
    opened = panel.panel.view.model.opened
    asked = opened.connections[0].answer.at
    panel.click("Refresh")
    until(lambda: opened.connections[0].answer.at > asked)
    until(lambda: not panel.alerts)
    panel.wait("healthy, round trip")


def test_roll_back_of_what_ended_with_its_service(panel, session):
    session.run("CREATE TABLE t(a)")
    session.run("BEGIN")
    session.run("INSERT INTO t VALUES (1)")
    panel.wait_for("Roll back main")
    launcher.stop()
    panel.click("Roll back main")
    panel.wait("The server had rolled it back already; cells run again on main.")
    assert panel.alerts == []
    assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]


def test_a_server_that_does_not_answer_is_words(page, session):
    session.connect(session.connection().database.url, name="by address", token=token_of(session))
    session.close("main")
    panel = page("session")
    panel.wait("healthy, round trip")
    session.stop()
    panel.click("Refresh")
    panel.wait("nothing listens at http://main-local.localhost")
    panel.wait_for("Refresh")


def test_a_server_that_knows_little(page, session, tmp_path):
    server = SeedServer(tmp_path)
    session.connect(server.url, name="seed", token="token")
    panel = page("session")
    panel.wait("seed 1, healthy, round trip")
    session.run("BEGIN")
    panel.wait("Transaction open, no statement so far.")
    panel.click("Commit seed")
    panel.wait("Committed 0 statements on seed.")
    server.close()


def test_all_panels_of_a_session_share_one_thread_which_ends_with_them(page, session):
    def looking():
        return [one for one in threading.enumerate() if one.name == "pipemagic: clocks of a session"]

    panels = [page("session"), page("session"), page()]
    assert len(looking()) == 1
    for panel in panels:
        panel.panel.close()
    until(lambda: not looking())
    again = page("session")
    session.run("SELECT 1")
    again.wait("Server-side connection, open for ")


def test_a_bug_is_not_swallowed(panel, session, monkeypatch, caplog):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(session.wire, "newest", lambda _: 1 / 0)
    panel.wait("ZeroDivisionError: division by zero")
