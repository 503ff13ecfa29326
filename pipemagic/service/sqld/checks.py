"""Whether a node's gRPC port, which asks for no tokens, lets in whoever connects."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

TIMEOUT = 1.0
"""Seconds for the connection, and for the first words."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How a client begins to speak HTTP/2, with empty settings."""
_SETTINGS = 4
"""The type of the frame that the server answers with, at its fourth byte."""


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
