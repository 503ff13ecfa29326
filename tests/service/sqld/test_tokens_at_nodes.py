"""Tokens at real nodes: which of them are valid, at each interface of a node."""

from __future__ import annotations

import json
import socket
import ssl
import struct
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqld_engine import SqldEngineProcess
from waiting import until

from pipemagic.errors import PipemagicError

HELLO = b"\x00" + struct.pack(">I", 2) + b"\x08\x01"  # gRPC: a HelloRequest, which opens the log of a namespace


class Doors:
    """The interfaces of a database at one node."""

    def __init__(self, engine: SqldEngineProcess, code: str, name: str) -> None:
        self.label = f"{name}-local"
        # One connection for each request: sqld refuses a token before it has read the body, and may then close.
        fresh = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(base_url=engine.node(code), trust_env=False, timeout=10, limits=fresh)

    def sql(self, token: str | None, path: str = "/v2/pipeline", **headers: str) -> int:
        body = {"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}, {"type": "close"}]}
        sent = {"host": f"{self.label}.localhost", **headers}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        return self._http.post(path, json=body, headers=sent).status_code

    def log(self, token: str | None, **headers: str) -> str:
        """Request the replication log like an embedded replica; return the gRPC status."""
        sent = {
            "content-type": "application/grpc-web", **headers,
            "x-namespace-bin": b64encode(self.label.encode()).rstrip(b"=").decode(),
        }  # fmt: skip
        if token is not None:
            sent["x-authorization"] = f"Bearer {token}"
        answer = self._http.post("/wal_log.ReplicationLog/Hello", content=HELLO, headers=sent)
        return answer.headers.get("grpc-status") or ("0" if b"grpc-status:0" in answer.content else "?")

    def close(self) -> None:
        self._http.close()


@pytest.fixture(scope="module")
def group(sqld_engine: SqldEngineProcess) -> Iterator[str]:
    """A group with a replica."""
    sqld_engine.manage("POST", "/groups", {"name": "doors", "location": "ams"})
    sqld_engine.manage("POST", "/groups/doors/locations/nrt")
    yield "doors"
    sqld_engine.manage("DELETE", "/groups/doors")


@pytest.fixture(params=["ams", "nrt"])
def doors(request: pytest.FixtureRequest, sqld_engine: SqldEngineProcess, group: str) -> Iterator[Doors]:
    name = f"doors-{request.param}"
    sqld_engine.manage("POST", "/databases", {"name": name, "group": group})
    made = Doors(sqld_engine, request.param, name)
    yield made
    made.close()
    sqld_engine.manage("DELETE", f"/databases/{name}")


def name_of(doors: Doors) -> str:
    return doors.label.removesuffix("-local")


def test_the_token_of_another_database_is_refused(sqld_engine: SqldEngineProcess, doors: Doors):
    token = sqld_engine.mint(sqld_engine.create())
    assert doors.sql(token) == 401
    assert doors.log(token) != "0"
    assert doors.sql(token, f"/dev/{doors.label}/v2/pipeline", host="elsewhere.localhost") in (401, 404)
    assert doors.sql(token, **{"x-namespace": doors.label}) == 401


def test_missing_and_forged_tokens_are_refused(sqld_engine: SqldEngineProcess, doors: Doors):
    token = sqld_engine.mint(name_of(doors))
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    own = Ed25519PrivateKey.generate()
    forged = [
        None, "x", jwt.encode(claims, None, "none"), jwt.encode(claims, "k" * 32, "HS256"),
        jwt.encode(claims, own, "EdDSA"), jwt.encode({}, own, "EdDSA"),
    ]  # fmt: skip
    for secret in forged:
        assert doors.sql(secret) == 401, secret
        assert doors.log(secret) != "0", secret
        assert doors.log(secret, **{"x-proxy-authorization": '"FullAccess"', "libsql-proxied": "true"}) != "0", secret


def test_the_default_namespace_is_closed(sqld_engine: SqldEngineProcess, doors: Doors):
    assert doors.sql(None, host="default.localhost") == 401
    assert doors.sql(sqld_engine.mint(name_of(doors)), host="default.localhost") == 401


def test_rotated_tokens_are_invalid_at_once(sqld_engine: SqldEngineProcess, doors: Doors):
    old = sqld_engine.mint(name_of(doors))
    assert until(lambda: doors.sql(old) == 200)
    sqld_engine.manage("POST", f"/databases/{name_of(doors)}/auth/rotate")
    assert (doors.sql(old), doors.log(old) != "0") == (401, True)
    assert until(lambda: doors.sql(sqld_engine.mint(name_of(doors))) == 200)
    sqld_engine.manage("POST", "/groups/doors/auth/rotate")
    assert doors.sql(old) == 401


def test_tokens_of_a_deleted_database_do_not_open_its_successor(sqld_engine: SqldEngineProcess, doors: Doors):
    name = name_of(doors)
    old = sqld_engine.mint(name)
    assert until(lambda: doors.sql(old) == 200)
    sqld_engine.manage("DELETE", f"/databases/{name}")
    assert doors.sql(old) in (401, 404)
    sqld_engine.manage("POST", "/databases", {"name": name, "group": "doors"})
    assert (doors.sql(old), doors.log(old) != "0") == (401, True)
    assert until(lambda: doors.sql(sqld_engine.mint(name)) == 200)


def test_reads_can_be_blocked(sqld_engine: SqldEngineProcess, doors: Doors):
    name, code = name_of(doors), doors.label.removesuffix("-local").removeprefix("doors-")
    with sqld_engine.open(name, code) as db:
        assert until(lambda: doors.sql(sqld_engine.mint(name)) == 200)
        sqld_engine.manage("PATCH", f"/databases/{name}/configuration", {"block_reads": True})
        with pytest.raises(PipemagicError) as raised:
            db.execute("SELECT 1")
        assert raised.value.code == "BLOCKED"
        sqld_engine.manage("PATCH", f"/databases/{name}/configuration", {"block_reads": False})
        assert list(db.execute("SELECT 1").rows) == [(1,)]


def test_a_database_grows_to_its_size_limit(sqld_engine: SqldEngineProcess, group: str):
    sqld_engine.manage("POST", "/databases", {"name": "small", "group": group, "size_limit": "100kb"})
    with sqld_engine.open("small") as db:
        db.execute("CREATE TABLE t (x)")
        with pytest.raises(PipemagicError, match="full"):
            db.execute("INSERT INTO t VALUES (zeroblob(200000))")
        sqld_engine.manage("PATCH", "/databases/small/configuration", {"size_limit": "1mb"})
    with sqld_engine.open("small") as db:
        db.execute("INSERT INTO t VALUES (zeroblob(200000))")
    sqld_engine.manage("PATCH", "/databases/small/configuration", {"size_limit": "0"})
    with sqld_engine.open("small") as db:
        db.execute("INSERT INTO t VALUES (zeroblob(2000000))")
    sqld_engine.manage("DELETE", "/databases/small")


def group_token(engine: SqldEngineProcess, query: str = "") -> str:
    return str(engine.manage("POST", f"/groups/doors/auth/tokens{query}")["jwt"])


def test_the_token_of_a_group_opens_its_databases_only(sqld_engine: SqldEngineProcess, doors: Doors):
    """It also opens databases that are created later."""
    token = group_token(sqld_engine)
    assert until(lambda: doors.sql(token) == 200)
    assert doors.log(token) == "0"
    later, other = "doors-later", sqld_engine.create()
    sqld_engine.manage("POST", "/databases", {"name": later, "group": "doors"})
    with sqld_engine.open(later, token=token) as db:
        db.execute("CREATE TABLE t (x)")
    with closing(Doors(sqld_engine, "ams", other)) as foreign:
        assert (foreign.sql(token), foreign.log(token) != "0") == (401, True)
    sqld_engine.manage("DELETE", f"/databases/{later}")


@pytest.mark.parametrize("doors", ["ams"], indirect=True)
def test_a_read_only_token_of_a_group_reads_only(sqld_engine: SqldEngineProcess, doors: Doors):
    token = group_token(sqld_engine, "?authorization=read-only")
    with sqld_engine.open(name_of(doors), token=token) as db:
        assert list(db.execute("SELECT 1").rows) == [(1,)]
        with pytest.raises(PipemagicError) as raised:
            db.execute("CREATE TABLE t (x)")
        assert "403" in str(raised.value) or "forbidden" in str(raised.value).lower()


def test_a_rotated_database_refuses_the_tokens_of_its_group(sqld_engine: SqldEngineProcess, doors: Doors):
    """The other databases of the group still accept them; a rotation of the group's tokens includes it again."""
    sqld_engine.manage("POST", "/databases", {"name": "doors-other", "group": "doors"})
    with closing(Doors(sqld_engine, "ams", "doors-other")) as other:
        old = group_token(sqld_engine)
        assert until(lambda: doors.sql(old) == 200)
        sqld_engine.manage("POST", f"/databases/{name_of(doors)}/auth/rotate")
        assert (doors.sql(old), doors.log(old) != "0", other.sql(old)) == (401, True, 200)
        own = sqld_engine.mint(name_of(doors))
        assert until(lambda: doors.sql(own) == 200)
        assert doors.sql(group_token(sqld_engine)) == 401
        sqld_engine.manage("POST", "/groups/doors/auth/rotate")
        assert [door.sql(token) for door in (doors, other) for token in (old, own)] == [401] * 4
        new = group_token(sqld_engine)
        assert until(lambda: doors.sql(new) == other.sql(new) == 200)
    sqld_engine.manage("DELETE", "/databases/doors-other")


def test_the_port_between_the_nodes_accepts_only_nodes(sqld_engine: SqldEngineProcess):
    port = json.loads((sqld_engine.folder / "nodes" / "ports.json").read_text())["ams"][2]
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        assert not received(plain).startswith(b"\0\0"), "it accepts HTTP/2 without TLS"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=5) as raw, context.wrap_socket(raw) as stranger:
        assert received(stranger) == b"", "it accepts a client without a certificate"


def received(connection: socket.socket) -> bytes:
    """Return the bytes that the other side sends; none if it closes the connection."""
    try:
        return connection.recv(100)
    except OSError:
        return b""


def test_secrets_are_not_in_logs_and_command_lines(sqld_engine: SqldEngineProcess):
    import psutil

    token = sqld_engine.mint(sqld_engine.create())
    service = psutil.Process(sqld_engine.process.pid)
    key = psutil.Process(sqld_engine.pids()["ams"]).environ()["LIBSQL_ADMIN_AUTH_KEY"]
    said = sqld_engine.log + " ".join(
        word for process in service.children(recursive=True) for word in process.cmdline()
    )
    for secret in (token, key, sqld_engine.token):
        assert secret not in said
    private = [*sqld_engine.folder.rglob("*.key"), *sqld_engine.folder.glob("*.pem")]
    assert private
    assert all(path.stat().st_mode & 0o077 == 0 for path in private)
    assert " INFO libsql_server" not in said, "nodes log warnings and errors only"
