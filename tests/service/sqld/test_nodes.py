"""Reading the file that lists the nodes."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from raw_server import served

from pipemagic.errors import ServiceError
from pipemagic.service.sqld.nodes import load, open_client

EXAMPLE = """
primary = "ams"

[[nodes]]
code = "ams"                          # a location of the management API
http = "https://ams.db.example.org"   # where clients reach it; a database is one label before this host
admin = "http://10.0.0.1:8081"        # where this service reaches its admin API
grpc = "https://10.0.0.1:5001"        # where replicas reach it; this service only checks that it requires TLS
admin_key_env = "SQLD_ADMIN_KEY"      # the variable that holds its --admin-auth-key
"""
NODE = '[[nodes]]\ncode = "ams"\nhttp = "http://127.0.0.1:8080"\nadmin = "http://127.0.0.1:8081"\n'


def load_text(tmp_path: Path, text: str):
    path = tmp_path / "nodes.toml"
    path.write_text(text, "utf-8")
    return load(path, {"SQLD_ADMIN_KEY": "secret"})


def test_a_database_is_a_label_before_the_node_s_domain(tmp_path: Path):
    nodes = load_text(tmp_path, EXAMPLE)
    assert nodes[0].url("shop-local") == "https://shop-local.ams.db.example.org"
    assert "secret" not in repr(nodes)
    assert nodes[0].admin_key == "secret"


def test_a_node_on_loopback_has_names_below_localhost(tmp_path: Path):
    nodes = load_text(tmp_path, f'primary = "ams"\n{NODE}')
    assert nodes[0].url("shop-local") == "http://shop-local.localhost:8080"
    assert [node.code for node in nodes] == ["ams"]


def test_the_admin_key_is_not_sent_to_the_ipv6_address_of_localhost(monkeypatch: pytest.MonkeyPatch):
    """Another process may listen there; most resolvers name [::1] first."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host, *options, **named):
        found = [] if host != "localhost" else resolve("::1", *options, **named)
        return [*found, *resolve("127.0.0.1" if found else host, *options, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    def serve(talk):
        received.append(talk.head())
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    received: list[bytes] = []
    with (
        served(serve) as node,
        socket.create_server(("::1", node.port), family=socket.AF_INET6) as stranger,
        open_client(f"http://localhost:{node.port}/base", 5.0, {"Authorization": "secret"}) as client,
    ):
        stranger.settimeout(0.1)
        assert client.get("/v1").status_code == 200
        with pytest.raises(TimeoutError):
            stranger.accept()
    assert b"GET /base/v1 " in received[0]
    assert b"secret" in received[0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x = ", "Invalid value"),
        ('primary = "ams"', "missing required field `nodes`"),
        (NODE, "missing required field `primary`"),
        (f'primary = "nrt"\n{NODE}', "primary = "),
        (f'primary = "ams"\n{NODE}{NODE}', "two nodes"),
        (f'primary = "ams"\n{NODE}colour = "red"\n', "unknown field `colour`"),
        (f'primary = "ams"\n{NODE}'.replace('"ams"', '"xyz"'), "not a location"),
        (f'primary = "ams"\n{NODE}'.replace("http://127.0.0.1:8081", "127.0.0.1:8081"), "requires admin"),
        (f'primary = "ams"\n{NODE}'.replace("127.0.0.1:8080", "10.0.0.1:8080"), "requires domain"),
        (f'primary = "ams"\n{NODE}'.replace("127.0.0.1:8080", "u:p@127.0.0.1"), "requires http"),
        (f'primary = "ams"\n{NODE}admin_key_env = "NOT_SET"\n', "NOT_SET, which is not set"),
        (f'primary = "ams"\n{NODE}name = 3\n', "Expected `str`, got `int` - at `\\$.nodes\\[0\\].name`"),
    ],
)
def test_an_invalid_file_is_refused(tmp_path: Path, text: str, what: str):
    with pytest.raises(ServiceError, match=what) as raised:
        load_text(tmp_path, text)
    assert "%pipedb help operators/cluster" in raised.value.hint


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(ServiceError, match="cannot be read"):
        load(tmp_path / "none.toml")
