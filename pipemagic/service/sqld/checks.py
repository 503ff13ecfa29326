"""Whether a node lets in somebody who has no token, no key and no certificate, at any of its three ports."""

from __future__ import annotations

import socket
from http.client import HTTPException
from urllib.parse import urlsplit

from pipemagic.errors import ServiceError
from pipemagic.service.sqld.admin import connect
from pipemagic.service.sqld.nodes import Node

TIMEOUT = 1.0
"""Seconds for the connection, and for the first words."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How a client begins to speak HTTP/2, with empty settings."""
_SETTINGS = 4
"""The type of the frame that the server answers with, at its fourth byte."""
_SELECT = b'{"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}, {"type": "close"}]}'


def refuse_open(node: Node) -> None:
    """Raise `ServiceError` for a node that runs SQL for anybody: its HTTP port is for everybody."""
    if runs_sql_for_anybody(node):
        raise ServiceError(
            f"the node {node.code} runs SQL without a token at {node.http}",
            hint="start it with --auth-jwt-key-file and --disable-default-namespace (docs/sqld.md)", code="NODE_OPEN",
        )  # fmt: skip


def warnings(node: Node) -> list[str]:
    """Say what is open about a node that should not be, unless only this service and the nodes can reach it."""
    found = []
    if answers_without_key(node):
        found.append(f"the admin port of the node {node.code} obeys whoever connects: set its LIBSQL_ADMIN_AUTH_KEY, "
                     "and admin_key_env in the nodes' file (docs/sqld.md)")  # fmt: skip
    if node.grpc and lets_anybody_in(node.grpc):
        found.append(f"the gRPC port of the node {node.code} gives every database to whoever connects: start it with "
                     "--grpc-tls (docs/sqld.md)")  # fmt: skip
    return found


def runs_sql_for_anybody(node: Node) -> bool:
    """Tell whether the namespace that every sqld has answers without a token; False also if it cannot be reached.

    sqld looks for a namespace before it looks at the token, so one that is not there would tell nothing.
    """
    return _status(node.http, "POST", "/v2/pipeline", _SELECT, {"host": f"default.{node.domain}"}) == 200


def answers_without_key(node: Node) -> bool:
    """Tell whether the admin port answers without its key; False also if it cannot be reached from here."""
    return _status(node.admin, "GET", "/", b"", {}) not in (None, 401, 403)


def lets_anybody_in(grpc: str) -> bool:
    """Tell whether the port speaks HTTP/2 without TLS; False also if it cannot be reached from here."""
    parts = urlsplit(grpc)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 5001), timeout=TIMEOUT) as connection:
            connection.sendall(_PREFACE)
            said = connection.recv(9)
    except OSError:
        return False
    return len(said) > 3 and said[0] == 0 and said[3] == _SETTINGS


def _status(address: str, method: str, path: str, body: bytes, headers: dict[str, str]) -> int | None:
    connection = connect(address, TIMEOUT)
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
