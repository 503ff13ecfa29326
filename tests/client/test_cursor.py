from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from magic_shell import make_database
from scripted_server import Answer, Call, good

from pipemagic import errors, launcher
from pipemagic.client.cursor import Cursor
from pipemagic.client.database import Database
from pipemagic.client.stream import Dialect
from pipemagic.hrana.messages import Execute, Stmt
from pipemagic.hrana.stream import Phase, Tx
from pipemagic.hrana.values import decode

MANY = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) SELECT n, 'row ' || n AS t FROM c"
BROKEN = f"SELECT CASE WHEN n < 3 THEN n ELSE abs(-9223372036854775808) END FROM ({MANY.format(5)})"


@pytest.fixture(scope="module")
def service_of_its_own():
    """The embedded service in another process: in process a response arrives as a whole."""
    with launcher.temporary() as lease:
        yield lease.service


@pytest.fixture(params=["embedded", "sqld"])
def served(request) -> Iterator[Database]:
    """A database of each server, over HTTP."""
    if request.param == "sqld":
        made = request.getfixturevalue("sqld_database")
        url, token = made.url, made.token
    else:
        url, token = make_database(request.getfixturevalue("service_of_its_own"), request.node.name)
    with Database(url, token) as database:
        yield database


def rows_of(cursor: Cursor) -> list[tuple]:
    return [tuple(map(decode, row)) for rows in cursor for row in rows]


def execute(stream, sql: str):
    entry = stream.send([Execute(Stmt(sql))])[0]
    return [tuple(map(decode, row)) for row in entry.response.result.rows]


# -- every server


def test_columns_come_first_then_batches_of_rows(database) -> None:
    with database.cursor("SELECT 1 AS a, 'x' UNION ALL SELECT 2, NULL") as cursor:
        assert cursor.columns == ("a", "'x'")
        assert rows_of(cursor) == [(1, "x"), (2, None)]
        assert cursor.finished


def test_no_rows_still_have_columns(database) -> None:
    with database.cursor("SELECT 1 AS a WHERE 0") as cursor:
        assert cursor.columns == ("a",)
        assert list(cursor) == []


def test_statements_without_rows(full) -> None:
    with full.cursor("CREATE TABLE t(a)") as cursor:
        assert (cursor.columns, list(cursor), cursor.finished) == ((), [], True)
    with full.cursor("INSERT INTO t VALUES (1), (2)") as cursor:
        assert list(cursor) == []
        assert cursor.affected_row_count == 2


@pytest.mark.parametrize("sql", ["SELEC", "SELECT nope", "SELECT * FROM nope", "SELECT 1; SELECT 2"])
def test_a_statement_that_cannot_run_is_an_error_of_the_statement(database, sql) -> None:
    with pytest.raises(errors.StatementError), database.cursor(sql):
        pass


def test_an_error_after_some_rows(full) -> None:
    with pytest.raises(errors.StatementError, match="integer overflow"), full.cursor(BROKEN) as cursor:
        list(cursor)


# -- on a stream


def test_a_stream_goes_on_after_a_cursor(full) -> None:
    with full.open_stream() as stream:
        execute(stream, "CREATE TABLE t(a)")
        execute(stream, "BEGIN")
        execute(stream, "INSERT INTO t VALUES (7)")
        with Cursor(stream, Stmt("SELECT a FROM t")) as cursor:
            assert rows_of(cursor) == [(7,)]
        assert (stream.phase, stream.transaction.state, stream.reopened) == (Phase.IDLE, Tx.OPEN, 0)
        execute(stream, "COMMIT")
    assert full.execute("SELECT a FROM t").rows == [(7,)]


@pytest.mark.parametrize("sql", ["SELEC", "SELECT nope", BROKEN])
def test_an_error_leaves_stream_and_transaction_as_they_were(full, sql) -> None:
    with full.open_stream() as stream:
        execute(stream, "CREATE TABLE t(a)")
        execute(stream, "BEGIN")
        execute(stream, "INSERT INTO t VALUES (7)")
        with pytest.raises(errors.StatementError), Cursor(stream, Stmt(sql)) as cursor:
            list(cursor)
        assert (stream.transaction.state, stream.reopened) == (Tx.OPEN, 0)
        execute(stream, "COMMIT")
    assert full.execute("SELECT a FROM t").rows == [(7,)]


def test_stopping_early_does_not_end_a_transaction(served) -> None:
    with served.open_stream() as stream:
        execute(stream, "BEGIN")
        execute(stream, "CREATE TABLE t(a)")
        with Cursor(stream, Stmt(MANY.format(50_000))) as cursor:
            next(iter(cursor))
        assert (stream.transaction.state, stream.reopened) == (Tx.OPEN, 0)
        execute(stream, "COMMIT")
    assert served.execute("SELECT count(*) FROM t").rows == [(0,)]


def test_after_stopping_early_the_next_statement_has_a_stream_again(served) -> None:
    with served.open_stream() as stream:
        with Cursor(stream, Stmt(MANY.format(10**10))) as cursor:
            next(iter(cursor))
        assert execute(stream, "SELECT 1") == [(1,)]


def test_a_cursor_that_ends_a_transaction_is_followed(full) -> None:
    with full.open_stream() as stream:
        execute(stream, "BEGIN")
        with Cursor(stream, Stmt("COMMIT")) as cursor:
            assert list(cursor) == []
        assert stream.transaction.state is Tx.NONE


def test_a_stream_takes_nothing_else_meanwhile(served) -> None:
    with served.open_stream() as stream, Cursor(stream, Stmt(MANY.format(50_000))) as cursor:
        rows = iter(cursor)
        next(rows)
        with pytest.raises(errors.StreamError, match="one at a time"):
            execute(stream, "SELECT 1")
        assert sum(map(len, rows)) > 1000


def test_a_stream_that_expired_is_opened_again(embedded, clock) -> None:
    with embedded.open_stream(on_reopen=lambda: [Execute(Stmt("CREATE TEMP TABLE again(a)"))]) as stream:
        execute(stream, "SELECT 1")
        clock.advance(11)
        with Cursor(stream, Stmt("SELECT count(*) FROM again")) as cursor:
            assert rows_of(cursor) == [(0,)]
        assert stream.reopened == 1


# -- trouble

HEAD = {"baton": "b2", "base_url": None}
BEGIN = {"type": "step_begin", "step": 0, "cols": [{"name": "a", "decltype": None}]}
ROW = {"type": "row", "row": [{"type": "integer", "value": "1"}]}
END = {"type": "step_end", "affected_row_count": 0, "last_insert_rowid": None}


def lines(*entries: dict, cut: int | None = None) -> Answer:
    return Answer(body=b"".join(json.dumps(entry).encode() + b"\n" for entry in entries), cut=cut)


def answering(answer: Answer):
    """Answer cursors like this and pipelines as a healthy server."""
    return lambda call: answer if call.path == "/v3/cursor" else good(call)


@contextmanager
def cursor_at(server) -> Iterator[Cursor]:
    with Database(server.url, "a-secret-token", timeout=5) as database, database.cursor("SELECT a FROM t") as cursor:
        yield cursor


def test_entries_that_are_not_known_are_passed_over(scripted) -> None:
    server = scripted(answering(lines(HEAD, BEGIN, {"type": "odd"}, ROW, {"type": "new", "x": [1]}, ROW, END)))
    with cursor_at(server) as cursor:
        assert rows_of(cursor) == [(1,), (1,)]


def test_a_response_that_names_a_foreign_address_is_aborted_and_observed(scripted) -> None:
    server = scripted(answering(lines({**HEAD, "base_url": "https://elsewhere.example"}, BEGIN, ROW)))
    requests: list[str] = []
    observer = SimpleNamespace(exchanged=lambda request: requests.append(request.path))
    with Database(server.url, timeout=5, observer=observer) as database:
        with pytest.raises(errors.PipemagicError, match="elsewhere"), database.cursor("SELECT a FROM t"):
            pass
        assert requests == ["/v3", "/v3/cursor"]


def test_a_cut_answer_is_no_end(scripted) -> None:
    whole = lines(HEAD, BEGIN, ROW, ROW, END)
    for cut in range(1, len(whole.body), 40):
        server = scripted(answering(Answer(body=whole.body, cut=cut)))
        with pytest.raises((errors.UnknownOutcome, errors.ProtocolError)), cursor_at(server) as cursor:
            list(cursor)


def test_an_answer_that_ends_without_the_end_of_its_step(scripted) -> None:
    server = scripted(answering(lines(HEAD, BEGIN, ROW)))
    with pytest.raises(errors.ProtocolError, match="ended before"), cursor_at(server) as cursor:
        list(cursor)


def test_the_failure_of_a_whole_cursor(scripted) -> None:
    gone = {"type": "error", "error": {"message": "the database is going away", "code": "STREAM_ENDED"}}
    server = scripted(answering(lines(HEAD, BEGIN, ROW, gone)))
    with pytest.raises(errors.UnknownOutcome, match="going away"), cursor_at(server) as cursor:
        list(cursor)


def test_a_lost_answer_loses_the_transaction(scripted, stream_to) -> None:
    def script(call: Call) -> Answer:
        if call.path == "/v3/cursor":
            return lines(HEAD, BEGIN, ROW, END, cut=120)
        if call.kinds[0] == "describe":
            described = {"params": [], "cols": [], "is_explain": False, "is_readonly": True}
            entry = {"type": "ok", "response": {"type": "describe", "result": described}}
            state = {"type": "ok", "response": {"type": "get_autocommit", "is_autocommit": False}}
            return Answer(body=json.dumps({"baton": "b", "base_url": None, "results": [entry, state]}).encode())
        return good(call, autocommit=False)

    stream = stream_to(scripted(script), Dialect.V3)
    execute(stream, "BEGIN")
    with pytest.raises(errors.UnknownOutcome) as caught, Cursor(stream, Stmt("SELECT 1")) as cursor:
        list(cursor)
    assert "The open transaction was rolled back." in str(caught.value)
    assert stream.transaction.state is Tx.LOST


def test_the_stream_is_closed_with_the_baton_of_the_first_line(scripted) -> None:
    server = scripted(answering(lines(HEAD, BEGIN, ROW, END)))
    with cursor_at(server) as cursor:
        list(cursor)
    last = server.posts[-1]
    assert (last.path, last.baton, last.kinds) == ("/v3/pipeline", "b2", ["close"])
