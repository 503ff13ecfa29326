"""Cells and `%pipedb` on servers whose limits are not those that the client estimates."""

from __future__ import annotations

import pytest
from limited_service import LimitedService, limited, names_limits

from pipemagic.errors import SessionError, TransactionLost
from pipemagic.service.limits import Limits

__all__ = ["limited", "names_limits"]

patient = pytest.mark.parametrize("limits", [Limits(idle=60, transaction=60)], ids=[""])
impatient = pytest.mark.parametrize("limits", [Limits(idle=3, transaction=60)], ids=[""])

OPEN = "Transaction open, {} so far: COMMIT keeps its changes, ROLLBACK undoes them."

WAYS_ON = "transaction timed out and was rolled back: %pipedb retry reruns its statements, %pipedb rollback discards it"


@pytest.fixture
def db(shell, limited: LimitedService):
    """The shell, with the connections ``main`` and ``other`` to one database of a service with ``limits``."""
    session = shell.ip.magics_manager.registry["PipeMagics"].session
    for name in ("other", "main"):
        session.adopt(limited.connect(name))
    return shell


@patient
def test_a_transaction_goes_on_after_a_pause(db, limited):
    db("%sql BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(12)
    status = db("%pipedb status --on main").lines[0]
    assert "transaction open, 1 statement so far" in status
    assert "nothing to rerun on main" in db.fails("%pipedb retry").out
    assert db("%sql INSERT INTO n VALUES (3)").lines[-1] == OPEN.format("2 statements")
    limited.pause(12)
    assert isinstance(db.fails("%sql --atomic INSERT INTO n VALUES (4)").error, SessionError)
    assert db("%sql COMMIT").lines == ["Done."]
    assert limited.numbers == [1, 2, 3]


@patient
@pytest.mark.parametrize("end", ["%pipedb rollback", "%sql ROLLBACK"])
def test_a_rollback_after_a_pause_releases_the_lock(db, limited, end):
    db("%sql BEGIN IMMEDIATE; INSERT INTO n VALUES (2)")
    limited.pause(12)
    db(end)
    assert limited.open_transactions == 0
    db("%sql --on other INSERT INTO n VALUES (3)")
    db("%sql INSERT INTO n VALUES (4)")
    assert limited.numbers == [1, 3, 4]


@patient
def test_temporary_tables_stay_after_a_pause(db, limited):
    db("%sql CREATE TEMP TABLE basket (item); INSERT INTO basket VALUES (7); PRAGMA foreign_keys = OFF")
    db("%pipedb connect main --keep-alive off")
    limited.pause(12)
    cell = db("%sql SELECT item FROM basket")
    assert (cell.lines, cell.value["item"].tolist()) == ([], [7])
    assert db("%sql PRAGMA foreign_keys").value.iloc[0, 0] == 0


@impatient
def test_a_lost_transaction_is_reported_with_its_reason_and_retried(db, limited):
    db("value = 2\n%sql BEGIN; INSERT INTO n VALUES (:value)")
    limited.pause(4)
    failed = db.fails("value = 3\n%sql INSERT INTO n VALUES (:value)")
    assert isinstance(failed.error, TransactionLost)
    assert "idle" in failed.error.message.split("\n")[0]
    assert "Undone:\n  BEGIN\n  INSERT INTO n VALUES (:value)" in failed.out
    assert "not run" in db.fails("%sql COMMIT").out
    assert db("%pipedb status --on main").lines[0].endswith(f"no server-side connection; {WAYS_ON}")
    assert db("%pipedb retry").lines == [
        "Rerunning 1 statement with the original parameter values, all or nothing:",
        "  INSERT INTO n VALUES (:value)",
        "Committed; 1 row affected.",
        "Not included, and not run yet:",
        "  INSERT INTO n VALUES (:value)",
    ]
    assert limited.numbers == [1, 2]


@impatient
def test_status_asks_the_server_and_the_next_cell_reports_the_loss(db, limited):
    db("%sql BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(4)
    assert db("%pipedb status --on main").lines[0].endswith(f"no server-side connection; {WAYS_ON}")
    failed = db.fails("%sql INSERT INTO n VALUES (3)")
    assert isinstance(failed.error, TransactionLost)
    assert "Undone:\n  BEGIN\n  INSERT INTO n VALUES (2)" in failed.out
    assert db("%pipedb rollback").lines == ["Discarded the lost transaction."]
    assert limited.numbers == [1]


@impatient
def test_a_commit_of_a_lost_transaction_says_so(db, limited):
    db("%sql BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(4)
    failed = db.fails("%sql COMMIT")
    assert isinstance(failed.error, TransactionLost)
    assert "%pipedb retry reruns the undone statements, all or nothing" in failed.out
    assert db("%pipedb rollback").lines == ["The server had already rolled back the transaction."]
    assert limited.numbers == [1]


@impatient
def test_cells_with_nothing_open_run_once_after_each_pause(db, limited):
    for number in (2, 3):
        limited.pause(4)
        db(f"%sql INSERT INTO n VALUES ({number})")
        limited.pause(4)
        db(f"%sql --atomic INSERT INTO n VALUES ({number + 10})")
    assert limited.numbers == [1, 2, 3, 12, 13]
