"""What is sent again: every row of the table, on servers that count what they receive."""

import socket
import struct
import threading

import pytest
from raw_server import plain, served
from scripted_server import Answer
from waiting import PATIENCE, until

from pipemagic import errors
from pipemagic.client.address import parse_address
from pipemagic.client.repeats import REPEATS, Cause, First
from pipemagic.client.transport import Transport
from pipemagic.http.connection import Connection

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
        monkeypatch.setattr(Connection, "is_stale", lambda _: False)  # it is closed between this check and the request
        assert http.request("POST", "/", INSERT).body == b"hello"
    assert bodies == [b"first", INSERT]
    assert server.connections == 2


def test_a_server_that_closes_each_connection_gets_no_third_one(monkeypatch):
    with served(lambda _: None) as server, Transport(parse_address(server.url), timeout=PATIENCE) as http:
        monkeypatch.setattr(Connection, "send", lambda *_: False)  # the system accepts nothing
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
