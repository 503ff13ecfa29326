"""One connection: a socket, with TLS or not, its time-outs, and whether it is still good."""

from __future__ import annotations

import os
import select
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pipemagic.client.http.messages import Broken, NotConnected, Silent, TookTooLong
from pipemagic.client.urls import Endpoint
from pipemagic.errors import ConnectError

if TYPE_CHECKING:
    import ssl

RECEIVED_AT_ONCE = 256 * 1024
"""Bytes of the buffer that answers are read into: what stays in the cache of the processor."""

RECEIVED_AT_FIRST = 16 * 1024
"""Bytes of the buffer until an answer fills it: most connections have small answers only, and are kept."""


@dataclass(frozen=True)
class Origin:
    """Where a connection leads; ``server_name`` is whom its certificate must name, None without TLS."""

    host: str
    port: int
    server_name: str | None


@lru_cache(maxsize=1024)
def origin_of(endpoint: Endpoint) -> Origin:
    """Tell where to connect for an endpoint. Names below ``localhost`` share the connections to 127.0.0.1."""
    host = urlsplit(endpoint.url).hostname or ""
    named = endpoint.named_host if endpoint.host_header is not None else host
    return Origin(host, endpoint.port, named if endpoint.scheme == "https" else None)


class Connection:
    """An open socket. What fails with it is raised as Silent or Broken; it is then good for nothing but `close`."""

    def __init__(self, sock: socket.socket, origin: Origin) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._socket = sock
        self._process = os.getpid()
        self._buffer = memoryview(bytearray(RECEIVED_AT_FIRST))

    @property
    def gathers(self) -> bool:
        """Whether one `receive` gives all that came meanwhile; with TLS it gives one record, however small."""
        return self.origin.server_name is None

    def wait_for(self, seconds: float | None) -> None:
        """Set how long `send` and `receive` wait for the next part."""
        if self._socket.gettimeout() != seconds:
            # 0 would mean not to wait at all, even for what is there in a moment.
            self._socket.settimeout(None if seconds is None else max(seconds, 0.001))

    def send(self, data: bytes) -> bool:
        """Send all of it; False if the server takes no more: it may have answered all the same, and hung up.

        `socket.sendall` would limit the time for the whole, which is not what the time-out means.
        """
        left = memoryview(data)
        try:
            while left:
                left = left[self._socket.send(left) :]
        except TimeoutError:
            raise Silent("the server does not take what is sent") from None
        except OSError:
            return False
        return True

    def receive(self) -> memoryview:
        """Give what is there, at least one byte, empty at the end; it is overwritten by the next call."""
        piece = self._buffer[: self._receive_into(self._buffer)]
        if RECEIVED_AT_FIRST == len(piece) == len(self._buffer):
            self._buffer = memoryview(bytearray(RECEIVED_AT_ONCE))
        return piece

    def _receive_into(self, buffer: memoryview) -> int:
        try:
            return self._socket.recv_into(buffer)
        except TimeoutError:
            raise Silent("the server does not answer") from None
        except OSError as error:
            raise Broken(str(error), not_http=_of_tls(error)) from None

    def is_stale(self) -> bool:
        """Tell whether the server said something while nothing was asked: that it is gone, as a rule.

        In a forked process also what the parent opened is stale: each would get answers to what the other asked.
        """
        if self._process != os.getpid():
            return True
        if sys.platform == "win32":  # it has no poll; its select has no limit on the number of a socket
            return bool(select.select([self._socket], [], [], 0)[0])
        look = select.poll()
        look.register(self._socket, select.POLLIN)
        return bool(look.poll(0))

    def close(self) -> None:
        """Close the socket; the server notices."""
        self._socket.close()

    def hang_up(self) -> None:
        """End both directions; a thread that waits here wakes up. The socket is left to be closed by that one."""
        with suppress(OSError):  # it is not connected any more
            self._socket.shutdown(socket.SHUT_RDWR)


def connect(origin: Origin, timeout: float | None, context: ssl.SSLContext | None) -> Connection:
    """Open a connection, within ``timeout`` seconds for each address of the host, and for the handshake of TLS."""
    try:
        sock = socket.create_connection((origin.host, origin.port), timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=origin.server_name)
        except BaseException:
            sock.close()
            raise
    except TimeoutError as error:
        raise TookTooLong(str(error)) from error
    except OSError as error:
        raise NotConnected(str(error)) from error
    return Connection(sock, origin)


def trusting() -> ssl.SSLContext:
    """Give what TLS trusts: SSL_CERT_FILE or SSL_CERT_DIR, else the authorities of certifi. Takes some 20 ms."""
    import ssl

    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
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


def _of_tls(error: OSError) -> bool:
    import ssl

    return isinstance(error, ssl.SSLError)
