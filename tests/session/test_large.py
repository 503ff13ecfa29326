"""Results that one response cannot hold."""

from __future__ import annotations

import pytest
from pandas.testing import assert_frame_equal

from pipemagic import errors
from pipemagic.hrana.stream import Tx
from pipemagic.session import Session
from pipemagic.session.cell import RunOptions

ROWS = 12_000
MANY = f"""WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {ROWS})
    SELECT n, n / 7.0 AS f, CASE WHEN n % 3 THEN printf('%01600d', n) END AS t, CASE n WHEN {ROWS} THEN 'x' END AS late
    FROM c"""


@pytest.fixture
def session(sqld_database):
    """A session on sqld, which sends 10 MB at most in one response."""
    with Session(environ={"PIPEMAGIC_TOKEN": sqld_database.token}) as session:
        session.connect(sqld_database.url, name="db")
        yield session


def test_a_query_is_asked_again_by_cursor(session) -> None:
    seen: list[int] = []
    result = session.run_cell(MANY, options=RunOptions(progress=seen.append))
    frame = result.frame
    assert len(frame) == ROWS
    assert [str(kind) for kind in frame.dtypes] == ["int64", "float64", "str", "str"]
    halves = [session.run(f"SELECT * FROM ({MANY}) WHERE n {part} {ROWS // 2}") for part in ("<=", ">")]
    assert_frame_equal(frame.iloc[ROWS // 2 :].reset_index(drop=True), halves[1])
    assert_frame_equal(frame.iloc[: ROWS // 2, :3], halves[0].iloc[:, :3])
    assert seen == sorted(seen)
    assert seen[-1] == ROWS


def test_a_write_is_never_sent_again_and_reported_as_possibly_applied(session) -> None:
    session.run("CREATE TABLE t(n, f, t, late)")
    with pytest.raises(errors.StatementError) as caught:
        session.run(f"INSERT INTO t {MANY} RETURNING *")
    assert "too large for one response" in caught.value.message
    assert "may be applied; it was not sent again" in caught.value.hint
    assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [ROWS]


def test_several_statements_are_not_sent_again(session) -> None:
    session.run("CREATE TABLE t(a)")
    with pytest.raises(errors.StatementError, match="may have run"):
        session.run(f"INSERT INTO t VALUES (1); {MANY}")
    assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [1]


def test_an_interrupt_while_the_rows_come(session) -> None:
    session.run("CREATE TABLE t(a)")
    with pytest.raises(errors.InterruptedRequest) as caught:
        session.run_cell(MANY, options=RunOptions(progress=interrupted))
    first = "interrupted while a request was pending"
    assert caught.value.message == f"{first}\nThe cell only reads: nothing was changed."
    session.run("BEGIN; INSERT INTO t VALUES (7)")
    with pytest.raises(errors.InterruptedRequest, match="No part of the transaction was applied"):
        session.run_cell(MANY, options=RunOptions(progress=interrupted))
    assert session.connection().transaction is Tx.LOST
    assert session.run("ROLLBACK; SELECT count(*) AS n FROM t")["n"].tolist() == [0]


def interrupted(_: int) -> None:
    raise KeyboardInterrupt


def test_into_a_file(session, tmp_path) -> None:
    assert session.run_cell(MANY).returned.write(tmp_path / "many.csv", "csv") == ROWS
    assert (tmp_path / "many.csv").read_text().count("\n") == ROWS + 1
