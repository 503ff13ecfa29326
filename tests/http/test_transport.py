"""HTTP over real sockets: what servers do, well or badly, and what becomes of the connection and of the request."""

import gc
import gzip
import os
import signal
import socket
import ssl
import threading
import time
import traceback
import tracemalloc
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import httpx
import pytest
import trustme
from raw_server import answering, chunked, once, plain, served
from small_heap import small_heap
from waiting import PATIENCE, until

from pipemagic import errors
from pipemagic.client import response_body, transport
from pipemagic.client.address import parse_address
from pipemagic.client.repeats import Message
from pipemagic.client.stream import ClientStream
from pipemagic.client.transport import Transport
from pipemagic.hrana.messages import Close
from pipemagic.http import transport as below
from pipemagic.http.transport import KEEP_ALIVE, HttpConnection, HttpTransport, Origin, connect

OK = plain(b"hello")


@contextmanager
def talking(serve, context=None, *, timeout=PATIENCE, **options):
    """A server and a transport to it."""
    with (
        served(serve, context, **options) as server,
        Transport(parse_address(server.url), "t", timeout=timeout) as http,
    ):
        yield http, server


def echo(talk):
    while (request := talk.request()) is not None:
        talk.send(plain(request[1]))


def pool_of(http):
    assert isinstance(http._lower, HttpTransport)
    return http._lower.pool


# -- answers


def test_a_piece_is_given_when_it_is_there():
    go_on = threading.Event()

    def serve(talk):
        talk.request()
        whole = chunked(b"first", b"second")
        talk.send(whole[: whole.index(b"6\r\nsecond")])
        go_on.wait(PATIENCE)
        talk.send(whole[whole.index(b"6\r\nsecond") :])

    with talking(serve) as (http, _):
        pieces = http.chunks(Message("POST", "/", b"{}"))
        assert next(pieces) == b"first"
        go_on.set()
        assert list(pieces) == [b"second"]
        pieces.close()


def test_a_compressed_answer():
    body = b"hello " * 50_000
    packed = gzip.compress(body)
    with talking(answering(plain(packed, "200 OK", "Content-Encoding: gzip"))) as (http, server):
        assert http.get("/").body == body
        pieces = http.chunks(Message("POST", "/", b""))
        assert b"".join(pieces) == body
        pieces.close()
    assert server.connections == 1


def test_a_compressed_answer_that_is_cut():
    answer = plain(gzip.compress(b"hello")[:-1], "200 OK", "Content-Encoding: gzip")
    with talking(once(answer)) as (http, _), pytest.raises(errors.UnknownOutcome):
        http.get("/")


def test_responses_that_are_not_http():
    with talking(once(b"\x15\x03\x01\x00\x02\x02\x46")) as (http, _), pytest.raises(errors.UnknownOutcome) as caught:
        http.get("/")
    assert caught.value.hint == "the response is not HTTP; did you mean https://?"


# -- requests


def test_the_bytes_of_a_request():
    heads = []

    def serve(talk):
        while (request := talk.request()) is not None:
            heads.append(request)
            talk.send(OK)

    with talking(serve) as (http, server):
        http.request("POST", "/v2/pipeline", b'{"a":"\xc3\xa9"}')
        http.request("POST", "/v1/x y/\N{LATIN SMALL LETTER E WITH ACUTE}%2F", params={"a b": "c&d/é"})
        http.get("/v3")
    common = [f"Host: 127.0.0.1:{server.port}", "User-Agent", "Accept: */*", "Accept-Encoding: identity"]
    expected = [
        (
            "POST /v2/pipeline HTTP/1.1",
            "Content-Type: application/json",
            "Content-Length: 10",
            "Pipemagic-Rows: columns",
        ),
        ("POST /v1/x%20y/%C3%A9%2F?a%20b=c%26d%2F%C3%A9 HTTP/1.1", "Content-Length: 0"),
        ("GET /v3 HTTP/1.1",),
    ]
    for (head, body), (first, *more) in zip(heads, expected, strict=True):
        line, *lines = head.decode("ascii").split("\r\n")
        assert line == first
        lines = [
            header.partition("/")[0].partition(":")[0] if header.startswith("User") else header for header in lines
        ]
        assert sorted(lines) == sorted([*common, "Authorization: Bearer t", *more])
        assert body == (b'{"a":"\xc3\xa9"}' if "pipeline" in first else b"")


def test_a_body_in_pieces_goes_both_ways():
    parts = [b"a" * 100_000, b"", b"b", b"c" * 300_000]
    with talking(echo) as (http, server):
        for _ in range(2):
            with http.streamed("POST", "/", iter(parts), size=400_001) as answer:
                assert b"".join(answer) == b"".join(parts)
    assert server.connections == 1


@pytest.mark.parametrize(("size", "said"), [(4, "1 bytes more"), (7, "2 bytes less")])
def test_a_body_of_another_length_than_announced(size, said):
    with talking(echo) as (http, _):
        with pytest.raises(errors.UnknownOutcome), http.streamed("POST", "/", [b"abc", b"de"], size=size):
            pass
        assert len(pool_of(http)) == 0
        assert http.request("POST", "/", b"x").body == b"x"


def test_an_error_of_the_chunk_producer_is_raised_unchanged():
    def pieces():
        yield b"abc"
        raise FileNotFoundError("gone")

    with talking(echo) as (http, _):
        with pytest.raises(FileNotFoundError, match="gone"), http.streamed("POST", "/", pieces(), size=10):
            pass
        assert len(pool_of(http)) == 0


def test_the_token_is_in_no_variable_of_an_error_that_is_not_ours():
    def pieces():
        yield b"abc"
        raise FileNotFoundError("gone")

    def stopped(_signal, _frame):
        raise RuntimeError("stopped")

    def serve(talk):
        if b"/upload" not in talk.head():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        talk.end_of_client()

    before = signal.signal(signal.SIGUSR1, stopped)
    try:
        with served(serve) as server, Transport(parse_address(server.url), "a-secret-token") as http:
            with pytest.raises(FileNotFoundError) as from_pieces, http.streamed("POST", "/upload", pieces(), size=10):
                pass
            with pytest.raises(RuntimeError) as from_signal:
                http.request("POST", "/", b"{}")
    finally:
        signal.signal(signal.SIGUSR1, before)
    for caught in (from_pieces, from_signal):
        shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
        assert "SecretBytes(***)" in shown
        assert "a-secret-token" not in shown


@pytest.mark.parametrize("body", [b"x" * 1000, b"x" * 20_000_000])
def test_a_refusal_before_the_body_is_there(body):
    def serve(talk):
        talk.head()
        talk.send(plain(b"no", "401 Unauthorized", "Connection: close"))

    with talking(serve) as (http, server):
        for _ in range(2):
            assert http.request("POST", "/", body).status == 401
        with pytest.raises(errors.AuthError), http.streamed("POST", "/", iter([body]), size=len(body)):
            pass
    assert server.connections == 3


@pytest.mark.parametrize(
    ("location", "where"),
    [("https://db.test/v2", "db.test"), ("/other", "another path"), ("http://[::1", "an address that cannot be read")],
)
def test_a_redirect_is_not_followed(location, where):
    with (
        talking(answering(plain(b"", "302 Found", f"Location: {location}"))) as (http, _),
        pytest.raises(errors.AddressError, match=f"redirects to {where};"),
    ):
        http.request("POST", "/", b"{}")


# -- the connection


def test_connections_are_used_again_and_closed_at_the_end():
    ended = []

    def serve(talk):
        echo(talk)
        ended.append(talk.number)

    with served(serve) as server:
        with Transport(parse_address(server.url)) as http:
            for _ in range(5):
                assert http.request("POST", "/", b"x").body == b"x"
            assert len(pool_of(http)) == 1
        until(lambda: ended == [0])
        assert len(pool_of(http)) == 0
        assert server.connections == 1


def test_a_connection_that_the_server_closed_meanwhile_is_not_used():
    closed = threading.Event()

    def serve(talk):
        once(OK)(talk)
        closed.set()

    with talking(serve) as (http, server):
        for _ in range(5):
            closed.clear()
            assert http.request("POST", "/", b"{}").body == b"hello"
            closed.wait(PATIENCE)
            (idle,) = pool_of(http)._idle
            until(idle.is_stale)
    assert server.connections == 5


def test_unrequested_data_are_never_used_as_a_response():
    """Data that come together with a response are in `test_parser`."""
    answered = threading.Event()

    def serve(talk):
        if talk.request() is not None:
            talk.send(OK)
            answered.wait(PATIENCE)
            talk.send(plain(b"other"))
            talk.end_of_client()

    with talking(serve) as (http, server):
        assert http.request("POST", "/", b"{}").body == b"hello"
        answered.set()
        (idle,) = pool_of(http)._idle
        until(idle.is_stale)
        assert http.request("POST", "/", b"{}").body == b"hello"
        assert server.connections == 2


@pytest.mark.parametrize("answer", [plain(b"a", "200 OK", "Connection: close"), plain(b"a") + b"surplus"])
def test_a_connection_that_is_not_used_again(answer):
    with talking(answering(answer)) as (http, server):
        for _ in range(2):
            assert http.get("/").body == b"a"
            assert len(pool_of(http)) == 0
        assert server.connections == 2


def test_leaving_the_block_early_closes_the_connection():
    hung_up = threading.Event()

    def serve(talk):
        talk.request()
        talk.send(chunked(b"first")[:-5])
        talk.end_of_client()
        hung_up.set()

    with talking(serve) as (http, _):
        pieces = http.chunks(Message("POST", "/", b"{}"))
        assert next(pieces) == b"first"
        pieces.close()
        assert hung_up.wait(PATIENCE)
        assert len(pool_of(http)) == 0


@pytest.mark.parametrize(("answer", "begun"), [(OK, False), (chunked(b"first")[:-5], True)])
def test_garbage_collected_responses_leave_no_closed_connection_in_the_pool(answer, begun):
    """The collector ends what is in a circle in any order: the socket before the answer, too."""

    def forget(http):
        pieces = http.chunks(Message("POST", "/", b"{}"))
        if begun:
            next(pieces)
        pieces.myself = pieces

    with small_heap(), talking(answering(answer)) as (http, _):
        for _ in range(2):
            gc.collect()
            gc.disable()
            try:
                for _ in range(10):
                    forget(http)
            finally:
                gc.enable()
            gc.collect()
            assert not [connection for connection in pool_of(http)._idle if connection.is_stale()]
            assert not http._lower._in_use


def test_threads_share_the_connections():
    with talking(echo) as (http, server):
        wrong = []

        def work(name):
            for number in range(40):
                body = f"{name} {number} ".encode() * 500
                if http.request("POST", "/", body).body != body:
                    wrong.append((name, number))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert len(pool_of(http)) == server.connections <= 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own():
    with talking(echo) as (http, server):
        assert http.request("POST", "/", b"before").body == b"before"
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = int(http.request("POST", "/", b"child").body != b"child")
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert server.connections == 2
        assert http.request("POST", "/", b"parent").body == b"parent"
    assert server.connections == 2


# -- a server that has to prove what it is


def challenged(server, proof=b"proof", path="/proof?nonce=1", **options):
    endpoint = replace(parse_address(server.url), challenge=lambda: (path, proof))
    return Transport(endpoint, "t", timeout=PATIENCE, **options)


def test_a_challenge_is_the_first_request_on_each_connection():
    received = []

    def serve(talk):
        while (request := talk.request()) is not None:
            received.append((talk.number, request[0].split(b"\r\n")[0], b"Authorization" in request[0]))
            if b"/last" in request[0]:
                talk.send(plain(b"hello", "200 OK", "Connection: close"))
                return
            talk.send(plain(b"proof" if b"/proof" in request[0] else b"hello"))

    with served(serve) as server, challenged(server) as http, http.sibling() as other:
        for path in ("/", "/last", "/"):
            assert http.get(path).body == b"hello"
        assert other.get("/").body == b"hello"
    proof = b"GET /proof?nonce=1 HTTP/1.1"
    assert received == [
        (0, proof, False), (0, b"GET / HTTP/1.1", True), (0, b"GET /last HTTP/1.1", True),
        (1, proof, False), (1, b"GET / HTTP/1.1", True), (2, proof, False), (2, b"GET / HTTP/1.1", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [
        plain(b"prooF"), plain(b"proof2"), plain(b""), plain(b"proof" * 10_000), plain(b"proof", status="401 No"),
        plain(b"proof", "200 OK", "Connection: close"), b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nproof",
        b"garbage\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n", b"",
    ],
)  # fmt: skip
def test_nothing_is_sent_to_a_server_that_does_not_prove_what_it_is(answer):
    received = []

    def serve(talk):
        received.append(talk.request()[0])
        talk.send(answer)
        with suppress(OSError):
            received.append(talk.receive())

    with served(serve) as server, challenged(server, connect_timeout=0.3) as http:  # for answers that never end
        with pytest.raises(errors.ConnectError, match="did not prove that it is the service; no token was sent"):
            http.request("POST", "/", b"{}")
        assert len(pool_of(http)) == 0
    assert b"Bearer" not in b"".join(received)
    assert {line for line in received if line} == {
        f"GET /proof?nonce=1 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}".encode()
    }


def test_a_challenge_ends_in_time():
    def serve(talk):
        talk.head()
        with suppress(OSError):
            while True:
                talk.send(b"H")
                time.sleep(0.01)

    with served(serve) as server:
        endpoint = replace(parse_address(server.url), challenge=lambda: ("/proof", b"proof"))
        with Transport(endpoint, "t", connect_timeout=0.3) as http, pytest.raises(errors.ConnectError):
            http.get("/")


def test_a_challenge_that_cannot_be_made_connects_to_nothing():
    def broken():
        raise OSError("no file")

    with (
        served(echo) as server,
        Transport(replace(parse_address(server.url), challenge=broken), "t") as http,
        pytest.raises(errors.ConnectError, match="no file"),
    ):
        http.request("POST", "/", b"{}")


def test_a_closed_transport_connects_no_more():
    with talking(echo) as (http, server):
        http.close()
        with pytest.raises(errors.ConnectError, match="closed here"):
            http.get("/")
    assert server.connections == 0


def test_pending_requests_complete_after_the_transport_is_closed():
    asked, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def serve(talk):
        talk.request()
        asked.set()
        go_on.wait(PATIENCE)
        talk.send(OK)
        talk.end_of_client()
        ended.set()

    with talking(serve) as (http, _):
        got = []
        thread = threading.Thread(target=lambda: got.append(http.get("/").body))
        thread.start()
        asked.wait(PATIENCE)
        http.close()
        go_on.set()
        thread.join()
        assert got == [b"hello"]
        assert ended.wait(PATIENCE)


def test_an_ipv6_address():
    try:
        with talking(echo, host="::1") as (http, server):
            assert http.request("POST", "/", b"x").body == b"x"
            assert server.url.startswith("http://[::1]:")
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")


@pytest.mark.parametrize(
    ("host", "kind"),
    [("b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.invalid", "cannot find the host"), ("a" * 64, "HTTP can use")],
)
def test_host_names_that_are_not_plain(host, kind):
    with (
        Transport(parse_address(f"http://{host}")) as http,
        pytest.raises((errors.ConnectError, errors.AddressError), match=kind),
    ):
        http.get("/")


# -- time-outs and interrupts


def silent(talk):
    talk.request()
    talk.end_of_client()


def test_a_server_that_sends_nothing():
    with talking(silent, timeout=0.05) as (http, _), pytest.raises(errors.AnswerTimeout, match="in time"):
        http.get("/")


def test_a_server_that_stops_in_the_middle():
    def serve(talk):
        talk.request()
        talk.send(chunked(b"first")[:-5])
        talk.end_of_client()

    with talking(serve, timeout=0.05) as (http, _):
        with pytest.raises(errors.AnswerTimeout, match="in time"):
            http.get("/")
        pieces = http.chunks(
            Message("POST", "/", b"{}", timeout=1)
        )  # within which the first one comes on a slow machine, too
        assert next(pieces) == b"first"
        with pytest.raises(errors.AnswerTimeout, match="in the middle"):
            next(pieces)
        pieces.close()
        assert len(pool_of(http)) == 0


def endless(talk):
    """Answer, with a little more of it again and again until the client hangs up."""
    talk.request()
    talk.send(chunked(b"first")[:-5])
    while True:
        talk.send(b"1\r\nx\r\n")
        threading.Event().wait(0.01)


@pytest.mark.parametrize("directly", [True, False])
def test_a_limit_is_for_the_whole_answer(directly):
    with (
        served(endless) as server,
        httpx.Client() as client,
        Transport(parse_address(server.url), http=None if directly else client) as http,
    ):
        with pytest.raises(errors.AnswerTimeout):
            http.send(Message("POST", "/", b"{}", limit=0.2))
        with pytest.raises(errors.AnswerTimeout):
            list(http.chunks(Message("POST", "/", b"{}", limit=0.2)))
        stream = ClientStream(http)
        with stream.deadline(0.2), pytest.raises(errors.AnswerTimeout, match=r"stopped waiting after 0\.2 s"):
            stream.send([Close()])


def test_a_whole_answer_has_a_lowest_rate(monkeypatch):
    monkeypatch.setattr(response_body, "RATE_PERIOD", 0.2)
    monkeypatch.setattr(response_body, "MIN_RATE", 5_000)
    with talking(endless, timeout=0.5) as (http, _):
        with pytest.raises(errors.AnswerTimeout):
            http.request("POST", "/", b"{}")
        chunks = http.chunks(
            Message("POST", "/", b"{}")
        )  # rows may come as slowly as they are found, and longer than 0.5 s
        for _ in range(60):
            next(chunks)
        chunks.close()


def test_a_head_ends_in_time(monkeypatch):
    def serve(talk):
        talk.request()
        talk.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        threading.Event().wait(0.3)  # which may be long
        talk.send(b"HTTP/1.1 200 OK\r\n")
        while True:  # until the client hangs up
            talk.send(b"X: y\r\n")
            threading.Event().wait(0.01)

    monkeypatch.setattr(below, "HEAD_TIMEOUT", 0.2)
    with talking(serve) as (http, _), pytest.raises(errors.AnswerTimeout):
        http.get("/")


BOMB = plain(gzip.compress(bytes(50_000_000)), "200 OK", "Content-Encoding: gzip")


def bomb(talk):
    talk.request()
    talk.send(BOMB)


def nothing_unpacked(talk):
    talk.request()
    talk.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08" + bytes(4) + b"\0\3")
    for _ in range(500):  # a name of a file without an end
        talk.send(b"name" * 100)
        threading.Event().wait(0.001)


@pytest.mark.parametrize("serve", [bomb, endless, nothing_unpacked])
def test_an_answer_that_is_read_as_a_whole_has_a_largest_size(serve, monkeypatch):
    monkeypatch.setattr(response_body, "MAX_SIZE", 3_000_000 if serve is bomb else 100)
    tracemalloc.start()
    try:
        with talking(serve) as (http, _):
            with pytest.raises(errors.UnknownOutcome, match="larger than 256 MB") as caught:
                http.request("POST", "/", b"{}")
            assert caught.value.hint.startswith("use fewer rows")
            assert len(pool_of(http)) == 0
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_chunks_have_no_largest_size(monkeypatch):
    monkeypatch.setattr(response_body, "MAX_SIZE", 100)
    with talking(bomb) as (http, _):
        sizes = [len(chunk) for chunk in http.chunks(Message("POST", "/", b"{}"))]
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= 1024 * 1024


def test_each_request_has_a_time_out_of_its_own():
    def serve(talk):
        while (request := talk.request()) is not None:
            if b"/silent" not in request[0]:
                talk.send(OK)

    with talking(serve) as (http, server):
        assert http.request("POST", "/", b"{}", timeout=PATIENCE / 2).body == b"hello"
        assert http.request("POST", "/", b"{}").body == b"hello"
        with pytest.raises(errors.AnswerTimeout):
            http.request("POST", "/silent", b"{}", timeout=0.05)
    assert server.connections == 1


def test_a_transfer_ends_when_the_server_stops(monkeypatch):
    def serve(talk):
        head, _, _ = talk.head().partition(b" HTTP")
        if b"/stops" in head:
            talk.send(chunked(b"first")[:-5])
        if b"/takes" in head:
            done.wait(PATIENCE)
        else:
            talk.end_of_client()

    done = threading.Event()
    monkeypatch.setattr(transport, "TRANSFER_TIMEOUT", 0.3)
    large = [bytes(1_000_000)] * 50
    with talking(serve, timeout=0.3) as (http, _):
        with (
            pytest.raises(errors.ConnectError, match="ended before the transfer was complete"),
            http.streamed("GET", "/stops") as chunks,
        ):
            list(chunks)
        with pytest.raises(errors.AnswerTimeout), http.streamed("GET", "/silent"):
            pass
        with pytest.raises(errors.AnswerTimeout), http.streamed("POST", "/silent", [b"abc"], size=3):
            pass
        with pytest.raises(errors.AnswerTimeout), http.streamed("POST", "/takes", large, size=50_000_000):
            pass
        done.set()


def test_a_peer_that_is_gone_is_noticed():
    with talking(echo) as (http, _):
        http.request("POST", "/", b"x")
        (idle,) = pool_of(http)._idle
        assert idle._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        for name, value in KEEP_ALIVE.items():
            if hasattr(socket, name):
                assert idle._socket.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\n", chunked(b"a" * 1000)[:-5]])
def test_an_interrupt_drops_the_connection(begun, interrupt_once):
    hung_up = threading.Event()

    def serve(talk):
        talk.request()
        talk.send(begun)
        interrupt_once()
        talk.end_of_client()
        hung_up.set()

    with talking(serve) as (http, _):
        with pytest.raises(errors.InterruptedRequest):
            http.request("POST", "/", b"{}")
        assert hung_up.wait(PATIENCE)
        assert len(pool_of(http)) == 0


# -- TLS


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def secure(authority, tmp_path, monkeypatch):
    """Return the TLS context of a server with a certificate for some names, which the client trusts."""
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))

    def make(*names):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(context)
        return context

    return make


def test_tls(secure):
    body = bytes(range(256)) * 10_000
    with talking(echo, secure("127.0.0.1")) as (http, server):
        assert [http.request("POST", "/", body).body == body for _ in range(3)] == [True] * 3
    assert server.connections == 1


def test_a_connection_that_is_aborted_from_another_thread_stays_encrypted(secure):
    with served(silent, secure("127.0.0.1")) as server:
        connection = connect(Origin("127.0.0.1", server.port, "127.0.0.1"), PATIENCE)
        with closing(connection):
            connection.abort()
            assert connection._socket.version() is not None
            with suppress(httpx.ReadError):  # the other side may reset it
                assert bytes(connection.receive(PATIENCE)) == b""


def test_a_certificate_for_another_name(secure):
    with (
        talking(echo, secure("other.test")) as (http, _),
        pytest.raises(errors.ConnectError, match="is not trusted") as caught,
    ):
        http.get("/")
    assert caught.value.hint == "check the host: the certificate is for another host"


def test_names_of_this_machine_are_asked_for_and_checked(secure):
    name = "db.localhost"
    context, asked = secure(name), []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    with served(echo, context) as server:
        with Transport(parse_address(f"https://{name}:{server.port}")) as http:
            assert http.request("POST", "/", b"x").body == b"x"
        with (
            Transport(parse_address(f"https://other.localhost:{server.port}")) as http,
            pytest.raises(errors.ConnectError, match=r"other\.localhost:\d+ is not trusted"),
        ):
            http.get("/")
    assert asked == [name, "other.localhost"]


def test_no_tls_where_there_is_some(secure):
    with served(echo, secure("127.0.0.1")) as server:
        address = server.url.replace("https://", "http://")
        with Transport(parse_address(address)) as http, pytest.raises(errors.UnknownOutcome):
            http.request("POST", "/", b"{}")


def test_a_handshake_that_does_not_come():
    def serve(talk):
        talk.end_of_client()

    with served(serve) as server:
        address = server.url.replace("http://", "https://")
        with (
            Transport(parse_address(address), connect_timeout=0.05) as http,
            pytest.raises(errors.ConnectError, match="did not accept the connection in time"),
        ):
            http.get("/")


def test_a_part_that_was_sent_with_tls_counts_as_sent():
    """OpenSSL reports an error for all of its records, also if the server has received the first ones."""
    certificate = trustme.CA().issue_cert("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    ours, theirs = socket.socketpair()
    for side in (ours, theirs):
        side.settimeout(PATIENCE)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            side.setsockopt(socket.SOL_SOCKET, option, 4096)
    received = []

    def serve():
        with context.wrap_socket(theirs, server_side=True) as server:
            received.append(server.recv(1))

    thread = threading.Thread(target=serve)
    thread.start()
    connection = HttpConnection(trusting.wrap_socket(ours), Origin("localhost", 443, "localhost"))
    with closing(connection):
        assert not connection.send(b"x" * 2**20, PATIENCE)
    thread.join(PATIENCE)
    assert received == [b"x"]
    assert connection.has_sent
