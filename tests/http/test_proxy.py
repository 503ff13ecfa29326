"""Which transport sends requests: our own, a client of the user, or one through a proxy."""

import importlib.util
import socket
import ssl
import threading
from contextlib import suppress
from itertools import cycle

import httpx
import pytest
import trustme
from raw_server import RawServer, Talk, answering, plain, served

from pipemagic import errors
from pipemagic.client.address import parse_address
from pipemagic.client.repeats import Message
from pipemagic.client.transport import Transport
from pipemagic.http.transport import HttpTransport

OK = plain(b"hello")


class Proxy:
    """Forwards requests and opens tunnels; all names below ``.test`` are this machine.

    ``asked`` has the first line of every request. ``refusal`` is the response to all, if set.
    """

    def __init__(self, refusal: bytes = b"") -> None:
        self.asked: list[str] = []
        self._refusal = refusal
        self._server = RawServer(self._serve)
        self.url = self._server.url

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _serve(self, talk: Talk) -> None:
        if (request := talk.request()) is None:
            return
        head, body = request
        line, _, lines = head.decode("ascii").partition("\r\n")
        self.asked.append(line)
        method, target, version = line.split(" ")
        if self._refusal:
            talk.send(self._refusal)
        elif method == "CONNECT":
            talk.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._tunnel(talk, int(target.rpartition(":")[2]))
        else:
            host, _, path = target.removeprefix("http://").partition("/")
            with socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2]))) as behind:
                behind.sendall(f"{method} /{path} {version}\r\n{lines}\r\nConnection: close\r\n\r\n".encode() + body)
                self._back(talk, behind)

    def _tunnel(self, talk: Talk, port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as behind:
            back = threading.Thread(target=self._back, args=(talk, behind))
            back.start()
            with suppress(OSError):
                while data := talk.receive():
                    behind.sendall(data)
                behind.shutdown(socket.SHUT_WR)
            back.join()

    def _back(self, talk: Talk, behind: socket.socket) -> None:
        with suppress(OSError):
            while data := behind.recv(65536):
                talk.send(data)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)


@pytest.mark.parametrize(
    ("address", "variables", "expected"),
    [
        ("http://db.test", {}, False),
        ("http://db.test", {"HTTP_PROXY": "http://p"}, True),
        ("http://db.test", {"http_proxy": "http://p"}, True),
        ("http://db.test", {"HTTPS_PROXY": "http://p"}, False),
        ("https://db.test", {"HTTPS_PROXY": "http://p"}, True),
        ("https://db.test", {"ALL_PROXY": "http://p"}, True),
        ("https://db.test", {"ALL_PROXY": "http://p", "NO_PROXY": "*"}, False),
        ("https://db.test", {"ALL_PROXY": "http://p", "NO_PROXY": "x.test, db.test"}, False),
        ("https://a.db.test", {"ALL_PROXY": "http://p", "NO_PROXY": "db.test"}, False),
        ("https://other.test", {"ALL_PROXY": "http://p", "NO_PROXY": "db.test"}, True),
        ("https://db.test:8443", {"ALL_PROXY": "http://p", "NO_PROXY": "db.test:8443"}, False),
        ("https://db.test:8443", {"ALL_PROXY": "http://p", "NO_PROXY": "db.test:443"}, True),
        ("http://localhost:1", {"ALL_PROXY": "http://p"}, False),
        ("http://127.0.0.1:1", {"HTTP_PROXY": "http://p"}, False),
        ("https://[::1]:1", {"ALL_PROXY": "http://p"}, False),
        ("http://db-local.localhost:1", {"ALL_PROXY": "http://p"}, False),
    ],
)
def test_the_proxy_of_a_host(address, variables, expected, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with Transport(parse_address(address)) as http:
        assert isinstance(http._lower, HttpTransport) is not expected


def test_a_client_of_the_user_goes_before_a_proxy(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, text="mine"))) as client:
        assert Transport(parse_address("http://db.test"), http=client).get("/").body == b"mine"


def test_without_a_proxy_the_way_is_direct():
    assert isinstance(Transport(parse_address("http://db.test"))._lower, HttpTransport)


# -- through a proxy


def test_requests_go_through_the_proxy(monkeypatch):
    heads = []

    def serve(talk):
        heads.append(talk.request()[0])
        talk.send(OK)

    with served(serve) as server, Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with Transport(parse_address(f"http://db.test:{server.port}"), "a-token") as http:
            assert http.request("POST", "/v2/pipeline", b"{}").body == b"hello"
    assert proxy.asked == [f"POST http://db.test:{server.port}/v2/pipeline HTTP/1.1"]
    assert b"Authorization: Bearer a-token" in heads[0]


def test_tls_goes_through_a_tunnel(monkeypatch, tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("db.test").configure_cert(context)
    with served(answering(OK), context) as server, Proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with Transport(parse_address(f"https://db.test:{server.port}"), "a-token") as http:
            chunks = http.chunks(Message("POST", "/v3/cursor", b"{}"))
            assert b"".join(chunks) == b"hello"
            chunks.close()
            with http.streamed("POST", "/v1/upload", [b"ab", b"c"], size=3) as answer:
                assert b"".join(answer) == b"hello"
    assert proxy.asked == [f"CONNECT db.test:{server.port} HTTP/1.1"]


def test_a_proxy_that_refuses(monkeypatch):
    with Proxy(plain(b"no", "403 Forbidden")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with (
            Transport(parse_address("https://db.test"), "a-token") as http,
            pytest.raises(errors.ConnectError, match=r"the proxy refused the connection to https://db\.test: 403"),
        ):
            http.get("/")


def test_a_proxy_that_is_not_there(monkeypatch):
    with Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
    with (
        Transport(parse_address("http://db.test")) as http,
        pytest.raises(errors.ConnectError, match="nothing is listening"),
    ):
        http.get("/")


@pytest.mark.parametrize("proxy", ["strange://127.0.0.1", "http://ada:s3cret@[::1", "http://ada:s3cret@db.test:s3cret"])
def test_a_proxy_that_cannot_be_used(proxy, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(errors.ConnectError, match=r"cannot use the proxy") as caught:
        Transport(parse_address("http://db.test"))
    assert "s3cret" not in str(caught.value)


def test_a_proxy_that_needs_another_package(monkeypatch):
    if importlib.util.find_spec("socksio") is not None:
        pytest.skip("the package is here")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(errors.ConnectError, match=r"httpx\[socks\]"):
        Transport(parse_address("http://db.test"))


# -- through a client of the user's: fails as the direct way does


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (httpx.ConnectTimeout("x"), errors.ConnectError, "did not accept the connection in time"),
        (httpx.PoolTimeout("x"), errors.ConnectError, "did not accept the connection in time"),
        (httpx.ProxyError("407"), errors.ConnectError, "the proxy refused the connection to http://db.test: 407"),
        (httpx.ConnectError("x"), errors.ConnectError, "cannot connect to http://db.test: x"),
        (httpx.ReadTimeout("x"), errors.AnswerTimeout, "did not respond in time"),
        (httpx.WriteTimeout("x"), errors.AnswerTimeout, "did not respond in time"),
        (httpx.RemoteProtocolError("illegal status line"), errors.UnknownOutcome, "did you mean https://"),
        (httpx.ReadError("x"), errors.UnknownOutcome, "ended before the response was complete"),
        (httpx.InvalidURL("x"), errors.AddressError, "not an address"),
        (KeyboardInterrupt(), errors.InterruptedRequest, "interrupted"),
    ],
)
def test_how_httpx_fails(raised, kind, text):
    def fail(_request):
        raise raised

    with (
        httpx.Client(transport=httpx.MockTransport(fail)) as client,
        pytest.raises(errors.PipemagicError, match=text) as caught,
    ):
        Transport(parse_address("http://db.test"), http=client).get("/")
    assert type(caught.value) is kind


def test_a_client_that_is_closed_sends_nothing():
    client = httpx.Client()
    client.close()
    with pytest.raises(errors.ConnectError, match="closed"):
        Transport(parse_address("http://db.test"), http=client).get("/")


def test_through_a_client_connections_of_refusals_are_used_again():
    def serve(talk):
        for answer in cycle([OK, plain(b"no", "404 Not Found")]):
            if talk.request() is None:
                break
            talk.send(answer)

    with served(serve) as server, httpx.Client() as client:
        http = Transport(parse_address(server.url), http=client)
        for _ in range(2):
            assert http.get("/").body == b"hello"
            assert http.get("/").status == 404
        assert server.connections == 1
