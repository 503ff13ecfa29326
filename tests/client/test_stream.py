"""How a client reads an answer: each row of the table in database-api.md, section 16, has its test."""

from __future__ import annotations

import json
import threading
import traceback

import pytest
from scripted_server import Answer, Call, ScriptedServer, as_json, as_text, entry, error_entry, good

from pipemagic import errors
from pipemagic.client.address import parse_address
from pipemagic.client.stream import Dialect
from pipemagic.client.transaction import Reason
from pipemagic.client.transport import Transport
from pipemagic.hrana.batches import transactional
from pipemagic.hrana.messages import Close, ErrorEntry, Execute, RunBatch, Stmt
from pipemagic.hrana.stream import Phase, Tx
from pipemagic.http.transport import HttpTransport

EXPIRED = as_json({"message": "The stream has expired due to inactivity", "code": "STREAM_EXPIRED"}, 400)
USED = as_text("Received a baton that has already been used")
INVALID = as_text("Received an invalid baton")
NOT_FOUND = as_json({"error": "stream not found"}, 404)
STREAM_NOT_FOUND = as_json({"message": "no such stream", "code": "STREAM_NOT_FOUND"}, 404)
GONE_EXPIRED = as_json({"message": "the stream has expired", "code": "STREAM_EXPIRED"}, 410)
GONE_LOST = as_json({"message": "the stream was lost", "code": "STREAM_LOST"}, 410)
GONE = as_text("gone", 410)


def sql(text: str) -> Execute:
    return Execute(Stmt(text))


def opened(call: Call) -> Answer:
    """Answer as a server on which a transaction is open afterwards."""
    return good(call, "in-transaction", autocommit=False)


def with_limit(call: Call, milliseconds: object) -> Answer:
    """Answer as a server that names its idle limit."""
    return as_json({**json.loads(good(call).body), "stream_ttl_ms": milliseconds})


def results(*entries: object, baton: str | None = "next", base_url: str | None = None) -> Answer:
    return as_json({"baton": baton, "base_url": base_url, "results": list(entries)})


AUTOCOMMIT = entry({"type": "get_autocommit"})


def open_transaction(stream) -> None:
    stream.send([sql("BEGIN")])
    assert stream.transaction.state is Tx.OPEN


# -- the normal life


def test_the_baton_of_every_answer_is_sent_next(scripted, stream_to) -> None:
    server = scripted(lambda call: good(call, "b1"), lambda call: good(call, "b2"), good)
    stream = stream_to(server)
    for _ in range(3):
        stream.send([sql("SELECT 1")])
    assert [call.baton for call in server.posts] == [None, "b1", "b2"]
    assert all(call.headers["authorization"] == "Bearer a-secret-token" for call in server.posts)
    assert all(call.headers["accept-encoding"] == "identity" for call in server.posts)
    assert stream.phase is Phase.IDLE


def test_close_ends_the_stream_and_the_next_request_opens_a_new_one(scripted, stream_to) -> None:
    server = scripted(good)
    stream = stream_to(server)
    stream.send([sql("SELECT 1"), Close()])
    assert stream.phase is Phase.CLOSED
    assert not stream.is_open
    stream.send([sql("SELECT 2")])
    stream.close()
    assert [call.kinds for call in server.posts] == [["execute", "close"], ["execute", "get_autocommit"], ["close"]]
    assert [call.baton for call in server.posts] == [None, None, "b"]
    assert stream.reopened == 0


def test_a_stream_that_the_server_ended_counts_as_reopened(scripted, stream_to) -> None:
    server = scripted(results(entry({"type": "execute"}), AUTOCOMMIT, baton=None), good)
    stream = stream_to(server)
    stream.send([sql("SELECT 1")])
    assert stream.phase is Phase.LOST
    stream.send([sql("SELECT 2")])
    assert stream.reopened == 1


def test_of_two_threads_at_once_one_is_refused(scripted, stream_to, monkeypatch) -> None:
    """Also between the look whether a request is under way and the beginning of the next."""
    refused: list[errors.StreamError] = []

    def send() -> None:
        try:
            stream.send([sql("SELECT 2")])
        except errors.StreamError as error:
            refused.append(error)

    def answer(call: Call) -> Answer:
        other.join(10)
        return good(call)

    other = threading.Thread(target=send)
    server = scripted(answer)
    stream = stream_to(server)
    prepare = stream._reads.prepare

    def prepare_slowly(*requests, **options):
        if other.ident is None:
            other.start()
            other.join(0.1)  # it waits for this one
        return prepare(*requests, **options)

    monkeypatch.setattr(stream._reads, "prepare", prepare_slowly)
    stream.send([sql("SELECT 1")])
    other.join(10)
    assert "one at a time" in str(refused[0])
    assert len(server.calls) == 1


@pytest.mark.parametrize("dialect", [Dialect.V3, Dialect.SEED])
def test_path_and_probe_fit_the_dialect(scripted, stream_to, dialect) -> None:
    server = scripted(good)
    stream_to(server, dialect).send([sql("SELECT 1")])
    (call,) = server.posts
    assert call.path == ("/v3/pipeline" if dialect is Dialect.V3 else "/v2/pipeline")
    assert call.kinds == (["execute", "get_autocommit"] if dialect is Dialect.V3 else ["execute"])


def test_a_server_with_only_the_seed_is_sent_nothing_else(scripted, stream_to) -> None:
    server = scripted(good)
    with pytest.raises(errors.UnsupportedError):
        stream_to(server, Dialect.SEED).send([RunBatch(transactional([Stmt("SELECT 1")]))])
    assert server.posts == []


# -- row 1: an error entry


def test_an_error_entry_keeps_the_stream(scripted, stream_to) -> None:
    server = scripted(results(error_entry("no such table: t", "SQLITE_UNKNOWN"), AUTOCOMMIT), good)
    stream = stream_to(server)
    (got,) = stream.send([sql("SELECT * FROM t")])
    assert isinstance(got, ErrorEntry)
    assert got.error.code == "SQLITE_UNKNOWN"
    stream.send([sql("SELECT 1")])
    assert server.posts[1].baton == "next"


def test_the_error_of_a_stream_that_ended_says_how_much_of_the_request_ran(scripted, stream_to) -> None:
    inside = as_json({"baton": None, "base_url": None, "results": [
        entry({"type": "execute"}), entry({"type": "execute"}), {"type": "ok", "response": {
            "type": "get_autocommit", "is_autocommit": False}}]})  # fmt: skip
    stream = stream_to(scripted(opened, inside))
    open_transaction(stream)
    with pytest.raises(errors.TransactionLost, match="the server closed the connection") as caught:
        stream.send([sql("ROLLBACK"), sql("BEGIN")])
    assert caught.value.ran == 2  # so a ROLLBACK that ran is not sent again


# -- row 2: TRANSACTION_TIMEOUT


@pytest.mark.parametrize(("message", "code"), [
    ("Transaction timed out", "TRANSACTION_TIMEOUT"),
    ("error executing a request on the primary: transaction timed-out", "PROXY_ERROR"),
])  # fmt: skip
def test_a_transaction_that_timed_out_is_lost_and_the_stream_kept(scripted, stream_to, clock, message, code) -> None:
    server = scripted(opened, results(error_entry(message, code), AUTOCOMMIT), good)
    stream = stream_to(server)
    open_transaction(stream)
    clock.advance(7)
    with pytest.raises(errors.TransactionLost, match="it was open for longer than the server allows"):
        stream.send([sql("INSERT INTO t VALUES (1)")])
    assert stream.transaction.state is Tx.LOST
    with pytest.raises(errors.TransactionLost, match="nothing was run outside it"):
        stream.send([sql("COMMIT")])
    assert len(server.posts) == 2  # the COMMIT was not sent
    stream.transaction.acknowledge()
    stream.send([sql("SELECT 1")])
    assert server.posts[2].baton == "next"


def test_statements_that_ran_outside_a_lost_transaction_are_reported(scripted, stream_to) -> None:
    ran = entry({"type": "execute"})
    failed = error_entry("cannot commit - no transaction is active", "SQLITE_UNKNOWN")
    server = scripted(
        opened, results(error_entry("Transaction timed out", "TRANSACTION_TIMEOUT"), ran, failed, AUTOCOMMIT)
    )
    stream = stream_to(server)
    open_transaction(stream)
    with pytest.raises(errors.TransactionLost, match=r"1 later statement\(s\) .* ran outside it and stay applied"):
        stream.send([sql("INSERT INTO t VALUES (1)"), sql("INSERT INTO t VALUES (2)"), sql("COMMIT")])
    assert stream.transaction.state is Tx.NONE  # the request held its own COMMIT: nothing of it is to come


def test_a_whole_batch_that_timed_out_leaves_no_loss(scripted, stream_to) -> None:
    late = {"message": "Transaction timed out", "code": "TRANSACTION_TIMEOUT"}
    answer = {"type": "batch", "result": {"step_results": [None] * 4, "step_errors": [late] * 4}}
    server = scripted(results({"type": "ok", "response": answer}, AUTOCOMMIT))
    stream = stream_to(server)
    with pytest.raises(errors.TransactionLost):
        stream.send([RunBatch(transactional([Stmt("INSERT INTO t VALUES (1)")]))])
    assert stream.transaction.state is Tx.NONE


# -- row 3: a 200 that is no answer


@pytest.mark.parametrize("answer", [
    Answer(body=b"<html><title>Sign in</title></html>", content_type="text/html"),
    Answer(body=b"<html>no content type</html>", content_type=""),
    Answer(body=b""),
    Answer(body=b'{"baton":"x","results":'),
    as_json({"baton": "x"}),
    results(AUTOCOMMIT),
    results(entry({"type": "execute"}), entry({"type": "execute"}), AUTOCOMMIT),
    results(entry({"type": "close"}), AUTOCOMMIT),
])  # fmt: skip
def test_a_200_that_is_no_answer_drops_the_stream(scripted, stream_to, answer) -> None:
    server = scripted(good, answer, good)
    stream = stream_to(server)
    stream.send([sql("SELECT 1")])
    with pytest.raises(errors.ProtocolError) as caught:
        stream.send([sql("SELECT 2")])
    assert len(str(caught.value).splitlines()) <= 2
    assert stream.phase is Phase.LOST
    stream.send([sql("SELECT 3")])
    assert [call.baton for call in server.posts] == [None, "b", None]
    assert [call.sql for call in server.posts] == [["SELECT 1"], ["SELECT 2"], ["SELECT 3"]]


# -- row 4: STREAM_EXPIRED; row 5: the baton is refused


REFUSALS = [EXPIRED, USED, INVALID, NOT_FOUND, STREAM_NOT_FOUND, GONE_EXPIRED, GONE_LOST, GONE]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_an_expired_stream_with_nothing_at_stake_is_opened_again(scripted, stream_to, refusal) -> None:
    server = scripted(good, refusal, good)
    stream = stream_to(server)
    stream.on_reopen = lambda: [sql("PRAGMA foreign_keys = OFF")]
    stream.send([sql("SELECT 1")])
    entries = stream.send([sql("SELECT 2")])
    assert len(entries) == 1
    assert [call.baton for call in server.posts] == [None, "b", None]
    assert server.posts[2].sql == ["PRAGMA foreign_keys = OFF", "SELECT 2"]
    assert stream.reopened == 1
    assert len(stream.replayed) == 1


@pytest.mark.parametrize("refusal", REFUSALS)
def test_an_expired_stream_with_a_transaction_is_an_error(scripted, stream_to, refusal) -> None:
    server = scripted(opened, refusal, good)
    stream = stream_to(server)
    open_transaction(stream)
    expired = refusal in (EXPIRED, GONE_EXPIRED)
    why = "the connection was idle for longer than the server allows" if expired else "the server closed the connection"
    with pytest.raises(errors.TransactionLost, match=why):
        stream.send([sql("INSERT INTO t VALUES (1)")])
    assert len(server.posts) == 2
    assert stream.transaction.state is Tx.LOST
    assert stream.phase is Phase.EXPIRED
    loss = stream.transaction.loss
    assert (loss.reason, loss.certain) == (Reason.IDLE_LIMIT if expired else Reason.SERVER_CLOSED, True)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_the_outcome_of_a_commit_without_a_response_stays_unknown(scripted, stream_to, refusal) -> None:
    server = scripted(opened, Answer(vanish=True), refusal)
    stream = stream_to(server)
    open_transaction(stream)
    with pytest.raises(errors.UnknownOutcome):
        stream.send([sql("COMMIT")])
    assert (stream.phase, stream.transaction.state, stream.transaction.loss) == (Phase.LOST, Tx.NONE, None)
    with pytest.raises(errors.ServerError):  # another stream: the baton of the COMMIT is not used again
        stream.send([sql("SELECT 1")])
    assert [call.baton for call in server.posts] == [None, "in-transaction", None]


def test_a_410_of_something_else_is_no_refused_baton(scripted, stream_to) -> None:
    server = scripted(good, as_json({"message": "the database was deleted", "code": "DATABASE_DELETED"}, 410))
    stream = stream_to(server)
    stream.send([sql("SELECT 1")])
    with pytest.raises(errors.ServerError, match="HTTP 410"):
        stream.send([sql("SELECT 2")])
    assert len(server.posts) == 2


def test_a_stream_that_the_server_ended_by_itself_is_set_up_again(scripted, stream_to) -> None:
    server = scripted(lambda call: good(call, None))
    stream = stream_to(server)
    stream.on_reopen = lambda: [sql("PRAGMA foreign_keys = OFF")]
    stream.send([sql("SELECT 1")])
    stream.send([sql("SELECT 2")])
    assert [call.sql for call in server.posts] == [["SELECT 1"], ["PRAGMA foreign_keys = OFF", "SELECT 2"]]


def test_a_stream_that_ends_in_a_transaction_loses_it_also_where_a_statement_failed(scripted, stream_to) -> None:
    state = entry({"type": "get_autocommit"}, autocommit=False)
    server = scripted(opened, results(error_entry("no such table: nope", "SQLITE_UNKNOWN"), state, baton=None), good)
    stream = stream_to(server)
    open_transaction(stream)
    with pytest.raises(errors.TransactionLost, match=r"the server closed the connection .* no such table: nope"):
        stream.send([sql("SELECT * FROM nope")])
    assert stream.transaction.state is Tx.LOST


def test_an_old_baton_is_not_tried_if_nothing_is_lost_with_the_stream(scripted, stream_to, clock) -> None:
    server = scripted(good)
    stream = stream_to(server, is_empty=lambda: True)
    stream.send([sql("SELECT 1")])
    clock.advance(10)
    stream.send([sql("SELECT 2")])
    clock.advance(10.1)
    stream.send([sql("SELECT 3")])
    assert [call.baton for call in server.posts] == [None, "b", None]
    assert stream.reopened == 1


def test_an_old_baton_is_tried_if_something_is_lost_with_the_stream(scripted, stream_to, clock) -> None:
    server = scripted(good)
    stream = stream_to(server, is_empty=lambda: False)
    stream.send([sql("PRAGMA foreign_keys = OFF")])
    clock.advance(3600)
    stream.send([sql("SELECT 2")])
    assert [call.baton for call in server.posts] == [None, "b"]
    assert stream.reopened == 0


def test_idle_with_a_transaction_reports_that_alone(scripted, stream_to, clock) -> None:
    server = scripted(opened, EXPIRED, good)
    stream = stream_to(server, is_empty=lambda: True)
    open_transaction(stream)
    clock.advance(12)
    why = "back: the connection was idle for more than 10 s"
    with pytest.raises(errors.TransactionLost, match=why):
        stream.send([sql("INSERT INTO t VALUES (1)")])
    assert server.posts[1].baton == "in-transaction"
    assert stream.transaction.loss.reason is Reason.IDLE_LIMIT
    stream.transaction.acknowledge()
    stream.send([sql("BEGIN")])
    assert server.posts[2].baton is None


def test_a_transaction_of_an_hour_is_committed_if_the_server_keeps_it(scripted, stream_to, clock) -> None:
    server = scripted(opened)
    stream = stream_to(server, is_empty=lambda: True)
    open_transaction(stream)
    clock.advance(3600)
    stream.send([sql("INSERT INTO t VALUES (1)")])
    assert stream.transaction.state is Tx.OPEN
    stream.close()
    assert [call.sql for call in server.posts] == [["BEGIN"], [], ["INSERT INTO t VALUES (1)"], []]
    assert {call.baton for call in server.posts} == {None, "in-transaction"}


def test_a_server_that_ended_a_transaction_without_a_word_is_asked_before_more_runs(scripted, stream_to, clock) -> None:
    server = scripted(opened, good)
    stream = stream_to(server)
    open_transaction(stream)
    clock.advance(12)
    with pytest.raises(errors.TransactionLost, match="it was open for longer than the server allows"):
        stream.send([sql("INSERT INTO t VALUES (1)")])
    assert [call.sql for call in server.posts] == [["BEGIN"], [], ["SELECT 1"]]  # which may report the reason
    assert (stream.transaction.state, stream.transaction.loss.reason) == (Tx.LOST, Reason.TRANSACTION_LIMIT)


def test_a_server_that_names_its_limits_reports_the_end_itself(scripted, stream_to, clock) -> None:
    named = as_json({**json.loads(results(entry({"type": "execute"}), AUTOCOMMIT).body), "stream_ttl_ms": 60_000})
    inside = json.loads(named.body)
    inside["results"][-1]["response"]["is_autocommit"] = False
    server = scripted(as_json(inside), results(error_entry("Transaction timed out", "TRANSACTION_TIMEOUT"), AUTOCOMMIT))
    stream = stream_to(server)
    open_transaction(stream)
    clock.advance(12)
    with pytest.raises(errors.TransactionLost, match="it was open for longer than the server allows"):
        stream.send([sql("INSERT INTO t VALUES (1)")])
    assert [call.sql for call in server.posts] == [["BEGIN"], ["INSERT INTO t VALUES (1)"]]


@pytest.mark.parametrize(("named", "seconds"), [(3000, 3.0), (60_000, 60.0), (2500.5, 2.5005)])
def test_the_idle_limit_that_the_server_names_is_used(scripted, stream_to, clock, named, seconds) -> None:
    server = scripted(lambda call: with_limit(call, named))
    stream = stream_to(server, is_empty=lambda: True)
    assert (stream.idle_limit, stream.names_limit) == (10.0, False)
    stream.send([sql("SELECT 1")])
    assert (stream.idle_limit, stream.names_limit) == (seconds, True)
    clock.advance(seconds)
    assert not stream.is_outdated
    clock.advance(0.1)
    assert stream.is_outdated
    stream.send([sql("SELECT 1")])
    assert [call.baton for call in server.posts] == [None, None]


def test_a_limit_of_null_is_none(scripted, stream_to) -> None:
    stream = stream_to(scripted(lambda call: with_limit(call, None)))
    stream.send([sql("SELECT 1")])
    assert (stream.idle_limit, stream.names_limit) == (10.0, False)


def test_a_transaction_of_6_s_is_the_servers_to_judge(scripted, stream_to, clock) -> None:
    server = scripted(opened)
    stream = stream_to(server)
    open_transaction(stream)
    clock.advance(6)
    stream.send([sql("INSERT INTO t VALUES (1)")])
    assert stream.transaction_age() == 6
    assert stream.idle_for() == 0


def test_a_new_stream_that_is_refused_for_its_baton_is_no_endless_loop(scripted, stream_to) -> None:
    server = scripted(good, INVALID, INVALID)
    stream = stream_to(server)
    stream.send([sql("SELECT 1")])
    with pytest.raises(errors.ServerError, match="invalid baton"):
        stream.send([sql("SELECT 2")])
    assert len(server.posts) == 3


# -- row 6: other 400, 403, 500


@pytest.mark.parametrize(("answer", "kind"), [
    (as_text("Cannot deserialize client message from JSON"), errors.ServerError),
    (as_json({"error": "Authorization forbidden"}, 403), errors.AuthError),
    (as_json({"error": "Internal Error"}, 500), errors.ServerError),
    (Answer(502, b"<html>Bad Gateway</html>", "text/html"), errors.ServerError),
    (as_json({"message": "too big", "code": "X"}, 413), errors.ServerError),
])  # fmt: skip
def test_a_refusal_drops_the_stream_and_nothing_is_repeated(scripted, stream_to, answer, kind) -> None:
    server = scripted(good, answer, good)
    stream = stream_to(server)
    stream.send([sql("SELECT 1")])
    with pytest.raises(kind) as caught:
        stream.send([sql("SELECT 2")])
    assert caught.value.status == answer.status
    assert stream.phase is Phase.LOST
    stream.send([sql("SELECT 3")])
    assert [call.baton for call in server.posts] == [None, "b", None]


def test_a_refusal_in_a_transaction_loses_it(scripted, stream_to) -> None:
    server = scripted(opened, as_json({"error": "Internal Error"}, 500), good)
    stream = stream_to(server)
    open_transaction(stream)
    with pytest.raises(errors.ServerError, match="HTTP 500") as caught:
        stream.send([sql("INSERT INTO t VALUES (1)")])
    assert caught.value.message.endswith("\nThe open transaction was rolled back.")
    assert stream.transaction.state is Tx.LOST


# -- row 7: 401


def test_after_401_a_new_token_continues_the_stream(scripted, stream_to) -> None:
    server = scripted(opened, as_json({"error": "Unauthorized: `The JWT has expired`"}, 401), good)
    stream = stream_to(server)
    open_transaction(stream)
    with pytest.raises(errors.AuthError, match="The JWT has expired") as caught:
        stream.send([sql("INSERT INTO t VALUES (1)")])
    assert caught.value.status == 401
    assert stream.phase is Phase.IDLE
    assert stream.transaction.state is Tx.OPEN
    stream.send([sql("INSERT INTO t VALUES (1)")])
    assert [call.baton for call in server.posts] == [None, "in-transaction", "in-transaction"]


# -- row 8: 404


def test_404_drops_the_stream(scripted, stream_to) -> None:
    stream = stream_to(scripted(as_json({"error": "Namespace `x` doesn't exist"}, 404)))
    with pytest.raises(errors.NotFound, match="Namespace `x` doesn't exist"):
        stream.send([sql("SELECT 1")])
    assert stream.phase is Phase.LOST


def test_404_for_a_database_that_was_deleted_is_an_error_of_the_second_try(scripted, stream_to) -> None:
    server = scripted(good, as_json({"error": "Namespace `x` doesn't exist"}, 404))
    stream = stream_to(server)
    stream.send([sql("SELECT 1")])
    with pytest.raises(errors.NotFound, match="Namespace `x` doesn't exist"):
        stream.send([sql("SELECT 2")])
    assert [call.baton for call in server.posts] == [None, "b", None]
    assert stream.phase is Phase.LOST


# -- row 9: 429


def test_429_is_tried_again_with_pauses(scripted, stream_to, pauses) -> None:
    busy = as_json({"error": "Too many concurrent requests"}, 429)
    server = scripted(good, busy, busy, good)
    stream = stream_to(server)
    stream.send([sql("SELECT 1")])
    stream.send([sql("SELECT 2")])
    assert [call.baton for call in server.posts] == [None, "b", "b", "b"]
    assert len(pauses) == 2
    assert stream.reopened == 0


def test_a_429_whose_body_is_cut_says_that_nothing_ran(scripted, stream_to, pauses) -> None:
    server = scripted(Answer(429, b'{"error": "busy"}', cut=5))
    stream = stream_to(server)
    with pytest.raises(errors.BusyError, match="busy"):
        stream.send([sql("DELETE FROM t")])
    assert len(pauses) == len(server.posts) - 1 > 1
    assert stream.phase is Phase.IDLE


@pytest.mark.parametrize("rows", [False, True])
def test_an_interrupt_in_the_pause_after_a_429_leaves_the_transaction(scripted, stream_to, monkeypatch, rows) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    server = scripted(opened, as_json({"error": "Too many concurrent requests"}, 429), good)
    stream = stream_to(server)
    open_transaction(stream)
    monkeypatch.setattr(stream._transport, "_sleep", interrupted)
    with pytest.raises(errors.InterruptedRequest) as caught:
        stream.stream(Stmt("SELECT 1")) if rows else stream.send([sql("INSERT INTO t VALUES (1)")])
    assert (caught.value.message, caught.value.hint) == ("interrupted while the server was busy", "nothing was run")
    assert (stream.phase, stream.transaction.state) == (Phase.IDLE, Tx.OPEN)
    stream.send([sql("COMMIT")])
    assert [call.baton for call in server.posts] == [None, *["in-transaction"] * 2]
    assert stream.transaction.state is Tx.NONE
    assert stream.reopened == 0


def test_no_pause_after_a_429_goes_beyond_the_limit_of_time(scripted, stream_to, pauses, monkeypatch) -> None:
    monkeypatch.setattr("pipemagic.client.transport.BUSY_PAUSES", (100.0,))
    server = scripted(opened, as_json({"error": "Too many concurrent requests"}, 429), good)
    stream = stream_to(server)
    open_transaction(stream)
    with stream.deadline(50), pytest.raises(errors.BusyError):
        stream.send([sql("INSERT INTO t VALUES (1)")])
    assert (pauses, stream.phase, stream.transaction.state) == ([], Phase.IDLE, Tx.OPEN)


def test_an_export_is_tried_again_after_429(scripted, pauses) -> None:
    server = scripted(as_json({"error": "another export is running"}, 429), Answer(200, b"SELECT 1;"))
    with (
        Transport(parse_address(server.url), "a-secret-token", sleep=pauses.append, timeout=5) as transport,
        transport.streamed("GET", "/dump") as pieces,
    ):
        assert b"".join(pieces) == b"SELECT 1;"
    assert len(pauses) == 1


def test_429_for_ever_is_an_error_that_keeps_the_stream(scripted, stream_to, pauses) -> None:
    server = scripted(good, as_json({"error": "Too many concurrent requests"}, 429))
    stream = stream_to(server)
    stream.send([sql("SELECT 1")])
    with pytest.raises(errors.BusyError, match="Too many concurrent requests"):
        stream.send([sql("SELECT 2")])
    assert sum(pauses) < 5
    assert len(pauses) == len(server.posts) - 2
    server.script = [good]
    stream.send([sql("SELECT 3")])
    assert server.posts[-1].baton == "b"


# -- row 10: no answer


def whole(call: Call) -> bytes:
    return good(call).body


@pytest.mark.parametrize("answer", [
    Answer(vanish=True),
    lambda call: Answer(body=whole(call), cut=20),
    lambda call: Answer(body=whole(call), cut=0),
])  # fmt: skip
def test_a_lost_or_cut_answer_is_an_unknown_outcome_and_never_sent_again(scripted, stream_to, answer) -> None:
    server = scripted(good, answer, good)
    stream = stream_to(server)
    stream.send([sql("SELECT 1")])
    with pytest.raises(errors.UnknownOutcome, match="the request may have run"):
        stream.send([sql("INSERT INTO t VALUES (1)")])
    assert stream.phase is Phase.LOST
    assert stream.transaction.state is Tx.NONE
    stream.send([sql("SELECT 2")])
    assert [call.sql for call in server.posts] == [["SELECT 1"], ["INSERT INTO t VALUES (1)"], ["SELECT 2"]]
    assert server.posts[2].baton is None


@pytest.mark.parametrize(("before", "lost", "state"), [
    ([], ["BEGIN", "INSERT INTO t VALUES (1)"], Tx.LOST),
    ([], ["SAVEPOINT a"], Tx.LOST),
    ([], ["BEGIN", "COMMIT"], Tx.NONE),
    (["BEGIN"], ["INSERT INTO t VALUES (1)"], Tx.LOST),
    (["BEGIN"], ["INSERT INTO t VALUES (1)", "COMMIT"], Tx.NONE),
    (["BEGIN"], ["ROLLBACK"], Tx.NONE),
    (["BEGIN"], ["ROLLBACK TO a"], Tx.LOST),
])  # fmt: skip
def test_a_lost_answer_loses_the_transaction_that_would_be_open(scripted, stream_to, before, lost, state) -> None:
    stream = stream_to(scripted(*[opened] * len(before), Answer(vanish=True)))
    for text in before:
        stream.send([sql(text)])
    with pytest.raises(errors.UnknownOutcome):
        stream.send([sql(text) for text in lost])
    assert stream.transaction.state is state


# -- nothing was sent


def test_a_refused_connection_keeps_the_stream(scripted, stream_to) -> None:
    server = ScriptedServer(opened, good)
    stream = stream_to(server)
    open_transaction(stream)
    server.close()
    stream._transport._lower.close()  # else the kept-alive connection is what breaks
    stream._transport._lower = HttpTransport()
    with pytest.raises(errors.ConnectError, match="connection refused"):
        stream.send([sql("INSERT INTO t VALUES (1)")])
    assert stream.phase is Phase.IDLE
    assert stream.transaction.state is Tx.OPEN


def test_values_that_cannot_be_encoded_are_not_sent_and_keep_the_stream(scripted, stream_to) -> None:
    server = scripted(opened, good)
    stream = stream_to(server)
    open_transaction(stream)
    with pytest.raises(errors.ProtocolError, match="not valid Unicode"):
        stream.send([sql("SELECT '\ud800'")])
    assert stream.transaction.state is Tx.OPEN
    stream.send([sql("COMMIT")])
    assert [call.baton for call in server.posts] == [None, "in-transaction"]


def test_an_interrupt_at_an_odd_moment_never_blocks_the_stream(scripted, stream_to, monkeypatch) -> None:
    server = scripted(good)
    stream = stream_to(server)

    def interrupted(_body, _type):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pipemagic.hrana.faults.read_fault", interrupted)
        server.script = [as_text("no", 500), good]
        with pytest.raises(errors.InterruptedRequest):
            stream.send([sql("SELECT 1")])
    assert stream.phase is Phase.LOST
    stream.send([sql("SELECT 2")])
    assert stream.phase is Phase.IDLE


def test_an_interrupt_while_the_response_to_a_commit_is_processed_leaves_its_outcome_unknown(
    scripted, stream_to, monkeypatch
) -> None:
    server = scripted(opened, good, good)
    stream = stream_to(server)
    open_transaction(stream)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stream.transaction, "_read", interrupted)
        with pytest.raises(errors.InterruptedRequest):
            stream.send([sql("COMMIT")])
    assert (stream.phase, stream.transaction.state, stream.transaction.loss) == (Phase.LOST, Tx.NONE, None)
    stream.send([sql("SELECT 1")])
    assert [call.baton for call in server.posts] == [None, "in-transaction", None]


def test_a_lost_request_that_ends_with_close_leaves_no_loss(scripted, stream_to) -> None:
    stream = stream_to(scripted(Answer(vanish=True)))
    with pytest.raises(errors.UnknownOutcome):
        stream.send([sql("BEGIN"), sql("INSERT INTO t VALUES (1)"), Close()])
    assert stream.transaction.state is Tx.NONE


# -- base_url and redirects


def test_a_base_url_to_a_foreign_host_is_refused_and_gets_no_token(scripted, stream_to) -> None:
    foreign = scripted(good)
    server = scripted(lambda call: good(call, base_url=foreign.url), good)
    stream = stream_to(server)
    with pytest.raises(errors.AddressError, match="the token was not sent there"):
        stream.send([sql("SELECT 1")])
    assert foreign.calls == []
    assert stream.phase is Phase.LOST
    stream.send([sql("SELECT 2")])
    assert foreign.calls == []
    assert server.posts[1].baton is None


def test_a_base_url_of_the_same_place_is_followed_for_this_stream(scripted, stream_to) -> None:
    server = scripted(lambda call: good(call, base_url=f"http://ams-here.localhost:{server.port}"), good)
    server.url = f"http://here.localhost:{server.port}"
    stream = stream_to(server)
    stream.send([sql("SELECT 1")])
    stream.send([sql("SELECT 2"), Close()])
    stream.send([sql("SELECT 3")])
    assert [call.headers["host"].partition(".")[0] for call in server.posts] == ["here", "ams-here", "here"]


def test_a_base_url_that_is_not_needed_any_more_is_ignored(scripted, stream_to) -> None:
    server = scripted(lambda call: good(call, base_url="https://evil.example"))
    assert len(stream_to(server).send([sql("SELECT 1"), Close()])) == 2


@pytest.mark.parametrize("status", [302, 308])
def test_a_redirect_is_not_followed(scripted, stream_to, status) -> None:
    foreign = scripted(good)
    stream = stream_to(scripted(Answer(status, headers={"Location": f"{foreign.url}/v3/pipeline"})))
    with pytest.raises(errors.AddressError, match="redirects to"):
        stream.send([sql("SELECT 1")])
    assert foreign.calls == []


# -- transactions without get_autocommit


def test_without_get_autocommit_the_text_decides(scripted, stream_to) -> None:
    server = scripted(good)
    stream = stream_to(server, Dialect.SEED)
    for text, state in [
        ("BEGIN IMMEDIATE", Tx.OPEN), ("INSERT INTO t VALUES (1)", Tx.OPEN), ("COMMIT", Tx.NONE),
        ("SAVEPOINT a", Tx.OPEN), ("SAVEPOINT b", Tx.OPEN), ("ROLLBACK TO a", Tx.OPEN), ("RELEASE a", Tx.NONE),
        ("/* x */ begin", Tx.OPEN), ("end transaction", Tx.NONE), ("BEGIN", Tx.OPEN), ("ROLLBACK", Tx.NONE),
    ]:  # fmt: skip
        stream.send([sql(text)])
        assert stream.transaction.state is state, text


def test_without_get_autocommit_a_begin_after_an_error_shows_the_state(scripted, stream_to) -> None:
    conflict = error_entry("UNIQUE constraint failed: t.a", "SQLITE_CONSTRAINT")
    within = error_entry("cannot start a transaction within a transaction", "SQLITE_UNKNOWN")
    server = scripted(good, results(conflict), results(within), results(conflict), good, good)
    stream = stream_to(server, Dialect.SEED)
    open_transaction(stream)
    stream.send([sql("INSERT INTO t VALUES (1)")])
    assert stream.transaction.state is Tx.OPEN
    stream.send([sql("INSERT OR ROLLBACK INTO t VALUES (1)")])
    assert stream.transaction.state is Tx.NONE
    assert [call.sql[0] for call in server.posts[2:]] == [
        "BEGIN", "INSERT OR ROLLBACK INTO t VALUES (1)", "BEGIN", "ROLLBACK",
    ]  # fmt: skip


def test_a_server_that_ends_every_stream_cannot_hold_a_transaction(scripted, stream_to) -> None:
    stream = stream_to(scripted(lambda call: good(call, None)), Dialect.SEED)
    with pytest.raises(errors.TransactionLost, match="the server closed the connection"):
        stream.send([sql("BEGIN")])


# -- secrets


def test_the_token_shows_nowhere(scripted, stream_to) -> None:
    echo = as_json({"error": "bad token a-secret-token"}, 401)
    stream = stream_to(scripted(echo))
    with pytest.raises(errors.AuthError) as caught:
        stream.send([sql("SELECT 1")])
    assert "a-secret-token" not in str(caught.value)
    transport = stream._transport
    assert "a-secret-token" not in f"{transport!r} {transport.token!r} {transport.token} {vars(stream)}"
    with pytest.raises(TypeError):
        json.dumps(transport.token)


@pytest.mark.parametrize("answer", [
    as_json({"error": "no"}, 401), as_json({"error": "no"}, 403), as_json({"error": "no"}, 500),
    Answer(vanish=True), Answer(body=b"{}"), Answer(302, headers={"Location": "http://evil.example"}),
])  # fmt: skip
def test_the_token_is_in_no_variable_of_a_traceback(scripted, stream_to, answer) -> None:
    stream = stream_to(scripted(answer))
    with pytest.raises(errors.PipemagicError) as caught:
        stream.send([sql("SELECT 1")])
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "a-secret-token" not in "".join(shown.format())
