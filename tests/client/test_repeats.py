"""What is sent again: every row of the table, on servers that count what they receive."""

import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from raw_server import plain, served
from scripted_server import Answer, ScriptedServer, as_json, good
from waiting import PATIENCE, until

from pipemagic import errors
from pipemagic.client.address import parse_address
from pipemagic.client.arguments import statement
from pipemagic.client.repeats import REPEATS, Cause, First, Message
from pipemagic.client.transport import Transport
from pipemagic.hrana.messages import Execute, Stmt
from pipemagic.http.transport import HttpConnection, HttpTransport

INSERT = b'{"requests":[{"type":"execute","stmt":{"sql":"INSERT INTO t VALUES (1)"}}]}'


def test_each_cause_has_a_row_that_says_why_it_is_safe():
    assert set(REPEATS) == set(Cause)
    assert all(repeat.safe and isinstance(repeat.first, First) for repeat in REPEATS.values())


def reset(talk):
    """Close a connection so that the peer cannot send anything any more."""
    talk._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    talk._socket.close()


def test_a_request_of_which_no_byte_was_sent_goes_to_another_connection(monkeypatch):
    bodies, closed = [], threading.Event()

    def serve(talk):
        while (request := talk.request()) is not None:
            bodies.append(request[1])
            talk.send(plain(b"hello"))
            if len(bodies) == 1:
                reset(talk)
                closed.set()
                return

    with served(serve) as server, Transport(parse_address(server.url)) as http:
        http.request("POST", "/", b"first")
        closed.wait(PATIENCE)
        (idle,) = http._lower.pool._idle
        until(idle.is_stale)
        monkeypatch.setattr(
            HttpConnection, "is_stale", lambda _: False
        )  # it is closed between this check and the request
        assert http.request("POST", "/", INSERT).body == b"hello"
    assert bodies == [b"first", INSERT]
    assert server.connections == 2


def test_a_server_that_closes_each_connection_gets_no_third_one(monkeypatch):
    with served(lambda _: None) as server, Transport(parse_address(server.url), timeout=PATIENCE) as http:
        monkeypatch.setattr(HttpConnection, "send", lambda *_: False)  # the system accepts nothing
        with pytest.raises(errors.ConnectError, match="closed before the request was sent"):
            http.request("POST", "/", INSERT)
    assert server.connections == 2


LATER = Answer(503, b'{"error": "later"}', headers={"Retry-After": "0"})


@pytest.mark.parametrize(("method", "body", "statuses"), [("GET", None, [200]), ("POST", INSERT, [503, 200])])
def test_503_with_a_time_is_repeated_only_for_what_reads(scripted, method, body, statuses, pauses):
    server = scripted(LATER, Answer(200, b"hello"))
    with Transport(parse_address(server.url), sleep=pauses.append, timeout=PATIENCE) as http:
        assert [http.request(method, "/data", body).status for _ in statuses] == statuses
    assert len(server.calls) == 2
    assert len(pauses) == 2 - len(statuses)


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "9"}, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}])
def test_503_without_a_short_time_is_not_repeated(scripted, headers, pauses):
    server = scripted(Answer(503, b"{}", headers=headers), Answer(200, b"hello"))
    with Transport(parse_address(server.url), sleep=pauses.append, timeout=PATIENCE) as http:
        assert http.request("GET", "/data").status == 503
    assert (len(server.calls), pauses) == (1, [])


@pytest.fixture
def moved(scripted):
    """A transport to a server that was stopped, another server, and how often the latter was looked for."""
    stopped, server, causes = ScriptedServer(), scripted(Answer(200, b"hello")), []
    stopped.close()
    with Transport(parse_address(stopped.url), "old", timeout=PATIENCE) as http:

        def find_again(cause):
            causes.append(cause)
            return Transport(parse_address(server.url), "new")

        http.find_again = find_again
        yield http, server, causes


def test_a_service_that_moved_is_found_once_and_gets_the_request_once(moved):
    http, server, causes = moved
    assert http.request("POST", "/", INSERT).body == b"hello"
    assert http.request("POST", "/", b"{}").body == b"hello"
    assert [(call.body, call.headers["authorization"]) for call in server.calls] == [
        (INSERT, "Bearer new"), (b"{}", "Bearer new"),
    ]  # fmt: skip
    assert causes == [Cause.UNREACHABLE]
    assert http.endpoint.address == server.url


def test_an_aborted_request_looks_for_no_service(moved):
    http, server, causes = moved
    http.abort()
    with pytest.raises(errors.ConnectError, match="nothing is listening"):
        http.request("POST", "/", INSERT)
    assert (causes, server.calls) == ([], [])


def test_a_request_that_is_aborted_while_a_service_is_found_is_not_sent_there(moved):
    http, server, _ = moved
    find_again = http.find_again

    def find(cause):
        http.abort()
        return find_again(cause)

    http.find_again = find
    with pytest.raises(errors.UnknownOutcome):
        http.request("POST", "/", INSERT)
    assert server.calls == []


def test_a_service_that_is_not_found_is_an_error(moved):
    http, server, _ = moved
    http.find_again = lambda _: None
    with pytest.raises(errors.ConnectError, match="nothing is listening"):
        http.request("POST", "/", INSERT)
    http.find_again = lambda _: Transport(http.endpoint)  # nothing listens there, either
    with pytest.raises(errors.ConnectError, match="nothing is listening"):
        http.request("POST", "/", INSERT)
    assert server.calls == []


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(KeyboardInterrupt(), errors.InterruptedRequest), (errors.ServiceError("it has ended"), errors.ServiceError)],
)
def test_nothing_ran_if_a_service_is_not_found(moved, raised, kind):
    http, server, _ = moved

    def find_again(_):
        raise raised

    http.find_again = find_again
    message = Message("POST", "/", INSERT)
    with pytest.raises(kind):
        http.send(message)
    assert message.nothing_ran
    assert server.calls == []


def test_a_service_with_another_token_is_found_again(scripted):
    refusing, server = scripted(as_json({"error": "no"}, 401)), scripted(Answer(200, b"hello"))
    with Transport(parse_address(refusing.url), "old") as http:
        http.find_again = lambda _: Transport(parse_address(server.url), "new")
        assert http.request("GET", "/data").body == b"hello"
    assert (len(refusing.calls), len(server.calls)) == (1, 1)


def test_a_token_that_is_refused_again_is_refused(scripted):
    refusing, causes = scripted(as_json({"error": "no"}, 401)), []
    with Transport(parse_address(refusing.url), "old") as http:
        http.find_again = lambda cause: causes.append(cause) or Transport(http.endpoint, "new")
        assert http.request("GET", "/data").status == 401
    assert (len(refusing.calls), causes) == (2, [Cause.REFUSED_TOKEN])


def test_threads_find_a_service_once(moved):
    http, server, causes = moved
    with ThreadPoolExecutor(4) as pool:
        received = list(pool.map(lambda _: http.request("POST", "/", INSERT).body, range(4)))
    assert received == [b"hello"] * 4
    assert causes == [Cause.UNREACHABLE]
    assert len(server.calls) == 4


@pytest.mark.parametrize(
    ("text", "begins", "sent"),
    [
        ("SELECT 1", False, 2),
        ("INSERT INTO t VALUES (1)", False, 1),
        ("SELECT 1", True, 1),
        ("BEGIN IMMEDIATE", False, 1),
    ],
)
def test_503_on_a_stream_is_repeated_only_for_what_reads_outside_of_a_transaction(
    scripted, stream_to, pauses, text, begins, sent
):
    server = scripted(lambda call: good(call, autocommit=not begins), LATER, good)
    stream = stream_to(server)
    stream.send([Execute(Stmt("BEGIN" if begins else "SELECT 0"))])
    if sent == 2:
        stream.send([Execute(Stmt(text))])
    else:
        with pytest.raises(errors.ServerError, match="HTTP 503"):
            stream.send([Execute(Stmt(text))])
    assert [call.sql for call in server.posts[1:]] == [[text]] * sent
    assert len(pauses) == sent - 1


def test_rows_of_a_frame_are_not_sent_again_after_503(scripted, stream_to):
    server = scripted(good, LATER, good)
    stream = stream_to(server)
    stream.send([Execute(Stmt("SELECT 0"))])
    with pytest.raises(errors.ServerError, match="HTTP 503"):
        stream.send([Execute(statement("SELECT :rows_of_x", {"rows_of_x": "1"}))])
    assert len(server.posts) == 2


@pytest.fixture
def stream_that_moves(scripted, stream_to):
    """A function that makes a stream whose first requests go to a server that has stopped, and the server of now."""

    def make(first, texts, *script, **options):
        stopped, server = ScriptedServer(first), scripted(*script)
        stream = stream_to(stopped, **options)
        for text in texts:
            stream.send([Execute(Stmt(text))])
        stopped.close()
        stream._transport._lower.close()  # else the kept connection is what breaks
        stream._transport._lower = HttpTransport()
        stream._transport.find_again = lambda _: Transport(parse_address(server.url), "new")
        return stream, server

    return make


def foreign_keys_off():
    return [Execute(Stmt("PRAGMA foreign_keys = OFF"))]


def test_a_stream_of_a_service_that_moved_is_opened_again_with_its_settings(stream_that_moves):
    stream, server = stream_that_moves(good, ["SELECT 0"], good, on_reopen=foreign_keys_off)
    stream.send([Execute(Stmt("SELECT 1"))])
    assert [(call.baton, call.sql) for call in server.posts] == [(None, ["PRAGMA foreign_keys = OFF", "SELECT 1"])]
    assert stream.reopened == 1


def test_a_cursor_of_a_service_that_moved_is_sent_after_the_settings(stream_that_moves):
    refusal = as_json({"error": "no"}, 403)
    stream, server = stream_that_moves(good, ["SELECT 0"], good, refusal, on_reopen=foreign_keys_off)
    with pytest.raises(errors.AuthError):
        stream.stream(Stmt("SELECT 1"))
    assert [(call.path, call.baton) for call in server.posts] == [("/v3/pipeline", None), ("/v3/cursor", "b")]
    assert server.posts[0].sql == ["PRAGMA foreign_keys = OFF"]


def test_a_transaction_is_not_taken_to_a_service_that_moved(stream_that_moves):
    stream, server = stream_that_moves(lambda call: good(call, autocommit=False), ["BEGIN"], good)
    with pytest.raises(errors.ConnectError):
        stream.send([Execute(Stmt("COMMIT"))])
    assert stream.transaction.open
    assert server.calls == []


def test_only_a_service_that_proves_itself_replaces_one_that_does(moved):
    http, server, causes = moved
    http.endpoint = replace(http.endpoint, challenge=lambda: ("/proof", b""))
    with pytest.raises(errors.ConnectError, match="did not prove its identity"):
        http.request("POST", "/", INSERT)
    assert causes == [Cause.UNREACHABLE]
    assert server.calls == []
