"""Cells that read frames: transactions that are lost, other servers, and requests that are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from seed_server import SeedServer
from version_2 import version_2

from pipemagic.client.database import Database
from pipemagic.errors import LoadError, ServerError, SessionError, StatementError, TransactionLost
from pipemagic.hrana.stream import Tx
from pipemagic.service.limits import Limits
from pipemagic.session import Connection, Session
from pipemagic.session import frames as frames_module
from pipemagic.session.cell import FramePolicy, RunOptions
from pipemagic.session.frames import with_frames


def session_on(database):
    session = Session(environ={})
    session.adopt(Connection("main", database, "a test"))
    return session


NUMBERS = pd.DataFrame({"i": [2, 3], "v": ["two", None], "day": pd.to_datetime(["2026-07-01", "2026-07-02"])})


def run(session, text, options=None, **variables):
    cell = with_frames(session.read(text), variables, FramePolicy(automatic=True))
    assert any(cell.frames)
    return session.run_cell(cell, options=options or RunOptions())


def values(result):
    frame = result.frame.astype(object)
    return frame.where(frame.notna(), None).to_numpy().tolist()


@pytest.fixture
def numbers(timed):
    timed.run("CREATE TABLE n (i INTEGER PRIMARY KEY, v); INSERT INTO n VALUES (1, 'one')")
    return timed


# -- transactions


def test_a_retry_inserts_the_rows_that_the_frame_had(numbers, clock):
    frame = NUMBERS.copy()
    numbers.run("BEGIN")
    run(numbers, "INSERT INTO n SELECT i, v FROM f", f=frame)
    frame.loc[:, "v"] = "of now"
    clock.advance(6)
    with pytest.raises(TransactionLost, match="INSERT INTO n SELECT i, v FROM f"):
        numbers.run("COMMIT")
    assert [outcome.affected_row_count for outcome in numbers.connection().retry().outcomes] == [2]
    assert values(numbers.run_cell("SELECT i, v FROM n")) == [[1, "one"], [2, "two"], [3, None]]


def test_queries_with_frames_leave_no_rows_in_a_transaction(numbers):
    frame = pd.DataFrame({"t": ["x" * 1_000_000] * 5})
    numbers.run("BEGIN")
    run(numbers, "SELECT count(*) FROM f", f=frame)
    for number in range(10):
        run(numbers, f"SELECT count(*) + {number} FROM f", f=frame)
    assert [statement.stmt.named_args for statement in numbers.connection().statements] == [None] * 12
    assert numbers.connection().statements_open == 11
    numbers.run("COMMIT")


def test_a_frame_that_is_refused_leaves_the_transaction_open(numbers):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    with pytest.raises(LoadError, match="timedelta"):
        run(numbers, "SELECT * FROM f", f=pd.DataFrame({"a": [pd.Timedelta(1)]}))
    assert numbers.connection().transaction is Tx.OPEN
    numbers.run("COMMIT")
    assert numbers.run("SELECT count(*) AS c FROM n")["c"].tolist() == [2]


def test_a_frame_that_is_refused_does_not_acknowledge_a_loss(numbers, clock):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    clock.advance(6)
    with pytest.raises(TransactionLost):
        numbers.run("SELECT 1")
    with pytest.raises(LoadError):
        run(numbers, "BEGIN; SELECT * FROM f", f=pd.DataFrame({"a": [pd.Timedelta(1)]}))
    assert numbers.connection().retry().outcomes[0].affected_row_count == 1


def test_the_loss_of_a_transaction_is_found_before_rows_are_sent(numbers, clock, monkeypatch):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    clock.advance(6)
    monkeypatch.setattr(frames_module, "with_rows", None)
    with pytest.raises(TransactionLost):
        run(numbers, "SELECT * FROM f", f=NUMBERS)


def test_after_a_loss_a_cell_with_a_frame_begins_again(numbers, clock):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    clock.advance(6)
    with pytest.raises(TransactionLost):
        run(numbers, "SELECT i FROM f", f=NUMBERS)
    assert values(run(numbers, "BEGIN; SELECT i FROM f; ROLLBACK", f=NUMBERS)) == [[2], [3]]


# -- rights and limits


@pytest.mark.parametrize("read_only", [False, True])
def test_a_read_only_token_reads_frames(make_database, read_only):
    make_database().execute("CREATE TABLE n (i INTEGER PRIMARY KEY)")
    database = make_database(read_only=True)
    database.read_only = read_only  # the connection refuses writes, too
    session = session_on(database)
    assert values(run(session, "SELECT f.i FROM f LEFT JOIN n USING (i)", f=NUMBERS)) == [[2], [3]]
    assert values(run(session, "BEGIN; SELECT count(*) FROM f; COMMIT", f=NUMBERS)) == [[2]]
    assert values(run(session, "SELECT max(i) FROM f; SELECT i FROM f", RunOptions(atomic=True), f=NUMBERS)) == [
        [2],
        [3],
    ]


@pytest.mark.parametrize("limits", [Limits(body=5_000_000)])
def test_a_request_that_is_too_large_for_the_server_has_the_line_of_the_load(numbers):
    frame = pd.DataFrame({"t": ["x" * 1_000_000] * 6})
    with pytest.raises(ServerError) as caught:
        run(numbers, "SELECT count(*) FROM f", f=frame)
    assert caught.value.status == 413
    assert caught.value.hint == "load the rows first:\n%pipedb load f --table f"
    assert values(run(numbers, "SELECT count(*) FROM f", f=frame.head(3))) == [[3]]


# -- other servers


@pytest.fixture(params=["version 2", "seed"])
def old(request, sqld_database, tmp_path):
    """A session on a server without version 3, and on one with the seed alone."""
    if request.param == "version 2":
        with version_2(sqld_database) as database:
            yield session_on(database)
        return
    server = SeedServer(tmp_path)
    with Database(server.url, "token") as database:
        yield session_on(database)
    server.close()


def test_every_server_reads_frames(old):
    old.run("CREATE TABLE n (i INTEGER PRIMARY KEY, v TEXT)")
    assert values(run(old, "SELECT i, v, day FROM f", f=NUMBERS)) == [
        [2, "two", pd.Timestamp("2026-07-01")], [3, None, pd.Timestamp("2026-07-02")]
    ]  # fmt: skip
    old.run("BEGIN")
    run(old, "INSERT INTO n SELECT i, v FROM f", f=NUMBERS)
    assert values(run(old, "SELECT count(*) FROM n JOIN f USING (i)", f=NUMBERS)) == [[2]]
    old.run("COMMIT")
    assert values(run(old, "SELECT i FROM f; DELETE FROM n; SELECT v FROM f", RunOptions(atomic=True), f=NUMBERS)) == [
        ["two"], [None]
    ]  # fmt: skip


@pytest.fixture
def without_records(numbers):
    """A session on a server that cannot read records."""
    numbers.connection().__dict__["_takes_records"] = False
    return numbers


def test_a_server_without_records_gets_an_argument_for_each_value(without_records):
    frame = pd.DataFrame({"i": [2**63 - 1, 1], "r": [0.1, -1e300], "t": ["é", None], "b": [b"\0", None], "o": [1, "1"]})
    (row, other) = values(run(without_records, "SELECT * FROM f WHERE i > '0' ORDER BY i DESC", f=frame))
    assert row == [2**63 - 1, 0.1, "é", b"\0", 1]
    assert other == [1, -1e300, None, None, "1"]
    with pytest.raises(SessionError, match="f has 40,000 values, and this server takes 32,766 in a statement"):
        run(without_records, "SELECT * FROM f", f=pd.DataFrame(np.zeros((20_000, 2))))


# -- what a cell sends


def test_an_interrupt_while_rows_are_received(numbers):
    def interrupt(_count):
        raise KeyboardInterrupt

    with pytest.raises(Exception, match="interrupted"):
        run(numbers, "SELECT * FROM f", RunOptions(progress=interrupt), f=pd.DataFrame({"i": range(100_000)}))
    assert values(run(numbers, "SELECT count(*) FROM f", f=NUMBERS)) == [[2]]


def test_parameters_of_the_user_keep_their_names(numbers):
    cell = with_frames(
        numbers.read("SELECT :rows_of_f_1, i FROM f WHERE i = :i", {"rows_of_f_1": "mine", "i": 3}),
        {"f": NUMBERS}, FramePolicy(automatic=True),
    )  # fmt: skip
    assert values(numbers.run_cell(cell)) == [["mine", 3]]


def test_a_wrong_name_is_explained_by_the_text_of_the_cell(numbers):
    with pytest.raises(StatementError, match="no such column: x") as caught:
        run(numbers, "SELECT x\nFROM f", f=NUMBERS)
    assert "WITH" not in caught.value.message
    assert "rows_of" not in str(caught.value)


def test_a_stream_that_has_expired_is_noticed_before_rows_are_sent(numbers, transport, clock, monkeypatch):
    sent = []
    handle = transport.handle_request

    def record(request):
        sent.append(b'rows_of_f_1_1"' in request.read())
        return handle(request)

    monkeypatch.setattr(transport, "handle_request", record)
    numbers.run("PRAGMA cache_size = 100")  # it is set again on the next stream
    clock.advance(11)
    assert values(run(numbers, "SELECT i FROM f; SELECT v FROM f", f=NUMBERS)) == [["two"], [None]]
    clock.advance(11)
    assert values(run(numbers, "SELECT max(i) FROM f", f=NUMBERS)) == [[3]]
    assert sent.count(True) == 2
