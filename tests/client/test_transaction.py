"""The tracker of a transaction: what it holds, and how it ends."""

import pytest

from pipemagic.client.transaction import Certainty, Loss, Reason, Transaction, TransactionContent
from pipemagic.errors import TransactionLost
from pipemagic.hrana.messages import Close, Error, ErrorEntry, Execute, ExecuteResponse, OkEntry, Stmt, StmtResult
from pipemagic.hrana.stream import Event, Phase, Tx
from pipemagic.sql import parse, split


def after(*scripts):
    transaction = TransactionContent()
    for script in scripts:
        transaction = transaction.ahead(split(script))
    return transaction


@pytest.mark.parametrize(
    ("script", "held"),
    [
        ("INSERT INTO t VALUES (1)", []),
        ("BEGIN; INSERT INTO t VALUES (1)", ["BEGIN", "INSERT INTO t VALUES (1)"]),
        ("BEGIN; SELECT 1; COMMIT", []),
        ("begin immediate; select 1; end", []),
        ("BEGIN; SELECT 1; ROLLBACK", []),
        ("BEGIN; SAVEPOINT a; SELECT 1; ROLLBACK TO a", ["BEGIN", "SAVEPOINT a"]),
        (
            "BEGIN; SAVEPOINT a; SELECT 1; SAVEPOINT a; SELECT 2; RELEASE a; SELECT 3; ROLLBACK TO a; SELECT 4",
            ["BEGIN", "SAVEPOINT a", "SELECT 4"],
        ),
        ("SAVEPOINT a; SAVEPOINT b; SELECT 1; ROLLBACK TO a; SELECT 2", ["SAVEPOINT a", "SELECT 2"]),
        ("BEGIN; SAVEPOINT a; RELEASE a", ["BEGIN", "SAVEPOINT a", "RELEASE a"]),
        ("SAVEPOINT a; SELECT 1; RELEASE SAVEPOINT A", []),
        ('SAVEPOINT a; SAVEPOINT "b c"; RELEASE "b c"', ["SAVEPOINT a", 'SAVEPOINT "b c"', 'RELEASE "b c"']),
        ("SAVEPOINT a; SAVEPOINT b; RELEASE a", []),
        ("EXPLAIN BEGIN", []),
    ],
)
def test_the_statements_of_the_open_transaction(script, held):
    transaction = after(script)
    assert transaction.texts == held
    assert transaction.open == bool(held)


def test_the_age_of_a_transaction_that_follows_another_one_in_a_request():
    transaction, done = Transaction(), OkEntry(ExecuteResponse(StmtResult()))
    begin, commit = Execute(Stmt("BEGIN")), Execute(Stmt("COMMIT"))
    transaction.machine.move(Event.SEND)
    transaction.responded([begin], [done], sent_at=10.0, baton="b")
    assert transaction.age(12.0) == 2.0
    transaction.machine.move(Event.SEND)
    transaction.responded([commit, begin], [done, done], sent_at=14.0, baton="b")
    assert transaction.age(15.0) == 1.0


def test_rolling_back_to_a_savepoint_that_is_not_known_keeps_what_is_held():
    transaction = TransactionContent()
    for text in ("BEGIN", "SAVEPOINT a", "INSERT INTO t VALUES (1)", "ROLLBACK TO other"):
        transaction.apply(parse(text), Stmt(text))
    assert transaction.texts == ["BEGIN", "SAVEPOINT a", "INSERT INTO t VALUES (1)"]


OK = OkEntry(ExecuteResponse(StmtResult()))
BEGIN, INSERT, COMMIT = (Execute(Stmt(text)) for text in ("BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"))
TIMED_OUT = ErrorEntry(Error("Transaction timed out", "TRANSACTION_TIMEOUT"))


def opened():
    """Return a transaction after BEGIN and an INSERT, with a request pending."""
    transaction = Transaction()
    transaction.machine.move(Event.SEND)
    with transaction.recording({"BEGIN": "BEGIN", "INSERT INTO t VALUES (1)": "INSERT INTO t VALUES (1)"}):
        transaction.responded([BEGIN, INSERT], [OK, OK], sent_at=0.0, baton="b")
    transaction.machine.move(Event.SEND)
    return transaction


def respond(transaction, requests, entries, baton):
    with pytest.raises(TransactionLost) as caught:
        transaction.responded(requests, entries, sent_at=7.0, baton=baton)
    assert caught.value.message == transaction.loss.message


def gone(transaction, reason):
    with pytest.raises(TransactionLost, match="gone"):
        transaction.stream_gone(reason, "gone")


EVERY_LOSS = [
    (lambda lost: gone(lost, Reason.IDLE_LIMIT), Reason.IDLE_LIMIT, Tx.LOST, Phase.EXPIRED),
    (lambda lost: gone(lost, Reason.SERVER_CLOSED), Reason.SERVER_CLOSED, Tx.LOST, Phase.EXPIRED),
    (lambda lost: respond(lost, [INSERT], [TIMED_OUT], "b"), Reason.TRANSACTION_LIMIT, Tx.LOST, Phase.IDLE),
    (lambda lost: respond(lost, [COMMIT], [TIMED_OUT], "b"), Reason.TRANSACTION_LIMIT, Tx.NONE, Phase.IDLE),
    (lambda lost: respond(lost, [INSERT], [TIMED_OUT], None), Reason.TRANSACTION_LIMIT, Tx.LOST, Phase.LOST),
    (lambda lost: respond(lost, [INSERT], [OK], None), Reason.SERVER_CLOSED, Tx.LOST, Phase.LOST),
    (lambda lost: lost.no_response([INSERT]), Reason.UNKNOWN_OUTCOME, Tx.LOST, Phase.LOST),
    (lambda lost: lost.rolled_back(late=True), Reason.TRANSACTION_LIMIT, Tx.LOST, Phase.IN_USE),
    (lambda lost: lost.rolled_back(late=False), Reason.SERVER_CLOSED, Tx.LOST, Phase.IN_USE),
    (lambda lost: lost.service_stopped("it stopped"), Reason.SERVICE_STOPPED, Tx.LOST, Phase.LOST),
]


@pytest.mark.parametrize(("happen", "reason", "state", "phase"), EVERY_LOSS)
def test_every_way_in_which_an_open_transaction_is_lost(happen, reason, state, phase):
    transaction = opened()
    assert transaction.state is Tx.OPEN
    happen(transaction)
    loss = transaction.loss
    assert (loss.reason, loss.certain, loss.texts) == (reason, True, ["BEGIN", "INSERT INTO t VALUES (1)"])
    assert (loss.all_ran, loss.can_rerun, loss.not_run) == (True, True, ())
    assert (transaction.state, transaction.machine.phase) == (state, phase)
    assert not transaction.open
    assert transaction.count == 0
    transaction.acknowledge()
    assert (transaction.state, transaction.loss) == (Tx.NONE, loss)


def test_each_reason_occurs_in_one_of_these_ways_or_is_of_a_statement_that_failed():
    occurring = {reason for _, reason, _, _ in EVERY_LOSS}
    assert set(Reason) - occurring == {Reason.FAILED_STATEMENT}


@pytest.mark.parametrize("requests", [[COMMIT], [Execute(Stmt("ROLLBACK"))], [INSERT, COMMIT], [Close()]])
def test_without_a_response_to_its_end_the_outcome_of_a_transaction_is_in_doubt(requests):
    transaction = opened()
    assert not transaction.no_response(requests)
    assert (transaction.state, transaction.loss, transaction.machine.phase) == (Tx.NONE, None, Phase.LOST)


def test_a_transaction_that_begins_in_a_request_without_a_response_is_lost_with_it():
    transaction = Transaction()
    transaction.machine.move(Event.SEND)
    assert transaction.no_response([BEGIN, INSERT])
    assert (transaction.state, transaction.loss) == (Tx.LOST, Loss(Reason.UNKNOWN_OUTCOME))


@pytest.mark.parametrize("reason", Reason)
def test_only_an_unknown_outcome_may_be_uncertain(reason):
    if reason is Reason.UNKNOWN_OUTCOME:
        assert not Loss(reason, certainty=Certainty.NOTHING).can_rerun
    else:
        with pytest.raises(ValueError, match="is certain"):
            Loss(reason, certainty=Certainty.NOTHING)
    assert Loss(reason).timed_out is (reason in (Reason.IDLE_LIMIT, Reason.TRANSACTION_LIMIT))


@pytest.mark.parametrize("refuses", [True, False])
def test_a_loss_is_restored_as_it_was_before_a_request_that_did_not_run(refuses):
    transaction, loss = opened(), Loss(Reason.IDLE_LIMIT)
    transaction.responded([COMMIT], [OK], sent_at=1.0, baton="b")
    transaction.restore(loss, refuses=refuses)
    assert (transaction.state, transaction.loss) == (Tx.LOST if refuses else Tx.NONE, loss)


def test_an_abandoned_request_and_its_transaction_are_lost_with_the_next_stream():
    transaction = opened()
    transaction.replace_stream()
    assert (transaction.state, transaction.machine.phase) == (Tx.LOST, Phase.IDLE)


@pytest.mark.parametrize("name", ["state", "open", "statements", "count", "loss", "reported", "machine"])
def test_a_transaction_is_changed_by_its_methods_alone(name):
    with pytest.raises(AttributeError, match=f"'{name}'"):
        setattr(Transaction(), name, None)
