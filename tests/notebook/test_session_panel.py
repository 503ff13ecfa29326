"""The panel of what the session has open: a model with clicks, no browser."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

HOSTILE = "<script>alert('x')</script> & \"é\""


@pytest.fixture
def panel(db):
    db("%sql CREATE TABLE t (a)")
    panel = db("panel = %pipedb panel session\npanel").value
    yield panel
    panel.close()


def click(panel, button):
    button.click()
    assert panel.model.wait(10)


def test_a_transaction_is_followed_and_committed(db, panel):
    row = panel.rows["db"]
    assert (row.commit.disabled, row.roll_back.disabled) == (True, True)
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    panel.model.look()
    assert "transaction open, 1 statement so far" in row.text.value
    assert "of 5 s left; connection: " in row.text.value
    assert not row.commit.disabled
    click(panel, row.commit)
    assert panel.model.message == "db: committed 1 statement."
    assert panel.model.error == ""
    assert "no transaction" in row.text.value
    assert row.commit.disabled
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [1]


def test_a_transaction_is_rolled_back(db, panel):
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    panel.model.look()
    click(panel, panel.rows["db"].roll_back)
    assert panel.model.message == "db: rolled back 1 statement."
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [0]


def test_looking_does_not_renew_the_clocks_of_the_stream(db, panel):
    db("%sql BEGIN")
    stream = db.names["panel"].model._session.connection().stream
    answered = stream._answered_at
    for _ in range(3):
        panel.model.look()
    assert stream._answered_at == answered


def test_what_fails_is_shown(db, panel):
    click(panel, panel.rows["db"].commit)  # nothing is open; a page may be behind
    assert "no transaction is active" in panel.model.error
    assert "no transaction is active" in panel.status.value


def test_a_lost_transaction_can_only_be_settled(db, panel):
    db("%sql CREATE TABLE u (a PRIMARY KEY); INSERT INTO u VALUES (1); BEGIN")
    db.fails("%sql INSERT OR ROLLBACK INTO u VALUES (1)")
    panel.model.look()
    row = panel.rows["db"]
    assert "transaction lost" in row.text.value
    assert (row.commit.disabled, row.roll_back.disabled) == (True, False)
    click(panel, row.roll_back)
    assert "no transaction" in row.text.value


def test_the_saved_text_has_no_clocks_and_all_text_is_escaped(db, panel):
    session = panel.model._session
    session.connections[HOSTILE] = session.connections.pop("db")
    session.connections[HOSTILE].name = session.current = HOSTILE
    db("%sql SELECT 1")
    panel.model.look()
    assert "<script>" not in panel.rows[HOSTILE].text.value
    assert "&lt;script&gt;" in panel.rows[HOSTILE].text.value
    text = panel._repr_mimebundle_()["text/plain"]
    assert text.startswith(f"Connections\n  {HOSTILE} (")
    assert " s left" not in text


def test_without_a_connection(shell):
    panel = shell("%pipedb panel session").value
    assert panel.model.text() == "Connections\n  none"
    assert panel.body.children[0].value == "No connection yet."
    panel.close()


def test_there_are_two_panels(shell):
    assert isinstance(shell.fails("%pipedb panel queries").error, UsageError)
