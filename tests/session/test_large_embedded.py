"""Results that one response of the embedded service cannot hold; in process, where its limit can be a small one."""

from __future__ import annotations

import httpx
import pytest
from service_http import ServiceTransport

from pipemagic import errors
from pipemagic.client.database import Database
from pipemagic.hrana.stream import Tx
from pipemagic.service.limits import Limits
from pipemagic.service.service import Service
from pipemagic.session.cell import RunOptions, parse_cell
from pipemagic.session.connection import Connection

ROWS = 3000
MANY = f"""WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {ROWS})
    SELECT n, printf('%0100d', n) AS t, CASE n WHEN {ROWS} THEN x'00ff' END AS late FROM c"""


@pytest.fixture
def connection(tmp_path):
    """A connection to a database of a service that sends 100 kB at most in one response."""
    service = Service(tmp_path / "data", limits=Limits(response=100_000))
    service.catalog.create_group("local", "default", "ams")
    record = service.catalog.create_database("local", "flights", "default")
    token = service.tokens.issue_database(record, read_only=False, expires_in=None, subject="ada")
    with httpx.Client(transport=ServiceTransport(service)) as http:
        connection = Connection("db", Database("http://127.0.0.1:8080", token, http=http), "here")
        yield connection
        connection.dispose()
    service.close()


def test_in_a_transaction_it_sees_what_is_not_committed(connection) -> None:
    connection.run(parse_cell("CREATE TABLE t(a); BEGIN; INSERT INTO t VALUES (7)"))
    frame = connection.run(parse_cell(f"SELECT * FROM ({MANY}), t")).frame
    assert (len(frame), set(frame["a"])) == (ROWS, {7})
    assert connection.transaction is Tx.OPEN
    connection.run(parse_cell("ROLLBACK"))
    assert connection.run(parse_cell("SELECT count(*) AS n FROM t")).frame["n"].tolist() == [0]


def test_an_interrupt_when_all_rows_have_come_leaves_the_transaction_open(connection) -> None:
    connection.run(parse_cell("CREATE TABLE t(a); BEGIN; INSERT INTO t VALUES (7)"))
    with pytest.raises(
        errors.InterruptedRequest, match="while rows were received\nThe cell only reads: nothing was changed"
    ):
        connection.run(parse_cell(MANY), RunOptions(progress=interrupted))
    assert connection.transaction is Tx.OPEN
    assert connection.run(parse_cell("COMMIT; SELECT count(*) AS n FROM t")).frame["n"].tolist() == [1]


def interrupted(_: int) -> None:
    raise KeyboardInterrupt


def test_a_transaction_in_which_a_failed_statement_kept_rows_is_not_run_again(connection) -> None:
    """Only statements that succeeded are listed: without its rows, a part of the transaction would be applied."""
    connection.run(parse_cell("CREATE TABLE t(n PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1)"))
    with pytest.raises(errors.StatementError, match="UNIQUE"):
        connection.run(parse_cell("INSERT OR FAIL INTO t VALUES (2), (1)"))
    assert connection.run(parse_cell("SELECT count(*) AS n FROM t")).frame["n"].tolist() == [2]
    connection.run(parse_cell("CREATE TRIGGER no BEFORE DELETE ON t BEGIN SELECT RAISE(ROLLBACK, 'no'); END"))
    with pytest.raises(errors.StatementError, match="rolled back the whole transaction"):
        connection.run(parse_cell("DELETE FROM t"))
    with pytest.raises(errors.SessionError, match="or it was OR FAIL"):
        connection.retry()


@pytest.mark.parametrize("cell", [f"INSERT INTO t {MANY} RETURNING *", f"SELECT 1; INSERT INTO t {MANY} RETURNING *"])
def test_a_transaction_in_which_such_a_write_may_have_run_is_not_run_again(connection, cell) -> None:
    connection.run(parse_cell("CREATE TABLE t(n, t, late); BEGIN; INSERT INTO t VALUES (1, 2, 3)"))
    with pytest.raises(errors.StatementError) as caught:
        connection.run(parse_cell(cell))
    assert caught.value.code == "RESPONSE_TOO_LARGE"
    connection.run(parse_cell("CREATE TRIGGER no BEFORE DELETE ON t BEGIN SELECT RAISE(ROLLBACK, 'no'); END"))
    with pytest.raises(errors.StatementError, match="rolled back the whole transaction"):
        connection.run(parse_cell("DELETE FROM t WHERE n = 1"))
    with pytest.raises(errors.SessionError, match="may have been part of it: its result was too large"):
        connection.retry()
    connection.run(parse_cell("ROLLBACK; BEGIN; INSERT INTO t VALUES (4, 5, 6)"))
    assert connection.transaction is Tx.OPEN
    assert connection.statements_open == 1
