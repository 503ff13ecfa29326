"""One connection: a socket, with or without TLS, its timeouts, and whether it can still be used."""

from __future__ import annotations

import os
import select
import socket
import ssl
import sys
from contextlib import suppress
from functools import cache
from typing import NamedTuple

import httpx

from pipemagic.errors import ConnectError

RECEIVE_SIZE = 256 * 1024
"""Bytes of the receive buffer: what stays in the cache of the processor."""

FIRST_RECEIVE_SIZE = 16 * 1024
"""Bytes of the buffer until a response fills it: most connections carry small responses only, and are kept."""

KEEP_ALIVE = {
    "TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 6, "TCP_USER_TIMEOUT": 60_000,
}  # fmt: skip
"""Options of TCP, where the platform has them: a peer that is gone without a word is noticed within a minute."""


class Origin(NamedTuple):
    """Where a connection leads; ``server_name`` is the name that its certificate must have, None without TLS."""

    host: str
    port: int
    server_name: str | None


class Connection:
    """An open socket. After an error of `send` or `receive` it can only be closed."""

    def __init__(self, sock: socket.socket, origin: Origin) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._socket = sock
        self._process = os.getpid()
        self._buffer = memoryview(bytearray(FIRST_RECEIVE_SIZE))

    def send(self, data: bytes, timeout: float | None) -> bool:
        """Send all of it; return False if the server closed its end: it may have sent a response before.

        ``timeout`` is for each part that the server takes. `socket.sendall` would limit the time for the whole.
        """
        unsent = memoryview(data)
        try:
            self._socket.settimeout(timeout)
            while unsent:
                unsent = unsent[self._socket.send(unsent) :]
        except TimeoutError:
            raise httpx.WriteTimeout("the server does not take what is sent") from None
        except OSError:
            return False
        return True

    def receive(self, timeout: float | None) -> memoryview:
        """Return what has arrived, at least one byte, empty at the end; the next call overwrites it."""
        if self._socket.gettimeout() != timeout:
            self._socket.settimeout(timeout)
        try:
            data = self._buffer[: self._socket.recv_into(self._buffer)]
        except TimeoutError:
            raise httpx.ReadTimeout("the server does not answer") from None
        except OSError as error:
            raise httpx.ReadError(str(error)) from None
        if len(data) == len(self._buffer) == FIRST_RECEIVE_SIZE:
            self._buffer = memoryview(bytearray(RECEIVE_SIZE))
        return data

    def is_stale(self) -> bool:
        """Return True if something arrived although nothing was requested: as a rule, that the server closed its end.

        In a forked process the connections of the parent are stale, too: each would get the responses of the other.
        """
        if self._process != os.getpid():
            return True
        if sys.platform == "win32":  # it has no poll; its select has no limit on the number of a socket
            return bool(select.select([self._socket], [], [], 0)[0])
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close the socket; the server notices."""
        self._socket.close()

    def abort(self) -> None:
        """End both directions, which wakes up the thread that waits here. That thread closes the socket."""
        with suppress(OSError):  # it is not connected any more
            # Not the method of an SSLSocket: that forgets TLS first, and the other thread would send plain text.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def connect(origin: Origin, timeout: float | None) -> Connection:
    """Open a connection, within ``timeout`` seconds for each address of the host, and for the handshake of TLS."""
    context = tls_context() if origin.server_name is not None else None
    try:
        sock = socket.create_connection((origin.host, origin.port), timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option in keep_alive_options():
                with suppress(OSError):  # an option that this system does not know
                    sock.setsockopt(*option)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=origin.server_name)
        except BaseException:
            sock.close()
            raise
    except UnicodeError as error:
        raise httpx.InvalidURL(f"no network can name this host: {error}") from None
    except TimeoutError as error:
        raise httpx.ConnectTimeout(str(error)) from error
    except OSError as error:
        raise httpx.ConnectError(str(error)) from error
    return Connection(sock, origin)


def tls_context() -> ssl.SSLContext:
    """Return what TLS trusts: SSL_CERT_FILE or SSL_CERT_DIR, else the authorities of certifi."""
    return _tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _tls_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return one context for all connections of the process: making one takes some 20 ms."""
    if not file and not folder:
        import certifi

        file = certifi.where()
    try:
        context = ssl.create_default_context(cafile=file or None, capath=None if file else folder)
    except OSError as error:
        raise ConnectError(
            f"the certificates to trust, {file or folder}, cannot be read: {error}",
            hint="SSL_CERT_FILE and SSL_CERT_DIR say where they are; unset, those of certifi count",
        ) from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def keep_alive_options() -> list[tuple[int, int, int]]:
    """Return the options for a socket whose peer may be gone without a word, as `socket.setsockopt` takes them."""
    known = ((getattr(socket, name, None), value) for name, value in KEEP_ALIVE.items())
    options = [(socket.IPPROTO_TCP, option, value) for option, value in known if option is not None]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *options]
