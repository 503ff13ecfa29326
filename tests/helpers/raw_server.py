"""A server on bare sockets: a test sends the bytes of each response, and closes the connection."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Talk:
    """The server's side of one connection."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.number = number
        """0 for the first connection."""
        self._socket, self._left = sock, b""

    def head(self) -> bytes:
        """Read the head of a request; b"" if the client has disconnected."""
        while b"\r\n\r\n" not in self._left:
            data = self._socket.recv(65536)
            if not data:
                return b""
            self._left += data
        head, _, self._left = self._left.partition(b"\r\n\r\n")
        return head

    def request(self) -> tuple[bytes, bytes] | None:
        """Read a request: its head and its body; None if the client has disconnected."""
        if not (head := self.head()):
            return None
        length = next(
            (int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length:")), 0
        )
        while len(self._left) < length:
            if not (data := self._socket.recv(65536)):
                return None
            self._left += data
        body, self._left = self._left[:length], self._left[length:]
        return head, body

    def receive(self) -> bytes:
        """Return the received bytes; b"" if the client has disconnected."""
        if self._left:
            data, self._left = self._left, b""
            return data
        return self._socket.recv(65536)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def end_of_client(self) -> None:
        """Return when the client has disconnected."""
        with suppress(ConnectionError):
            while self._socket.recv(65536):
                pass


class RawServer:
    """Calls ``serve`` for each connection in a thread of its own; the connection is closed when it returns."""

    def __init__(
        self, serve: Callable[[Talk], None], context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._serve, self._context = serve, context
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.port = self._listener.getsockname()[1]
        self.url = f"{'http' if context is None else 'https'}://{f'[{host}]' if ':' in host else host}:{self.port}"
        self.connections = 0
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                sock, _ = self._listener.accept()
                self._open.append(sock)
                talk = threading.Thread(target=self._talk, args=(sock, self.connections))
                self.connections += 1
                self._threads.append(talk)
                talk.start()

    def _talk(self, sock: socket.socket, number: int) -> None:
        with sock, suppress(OSError):  # the client disconnected, or does not trust the certificate
            secure = sock if self._context is None else self._context.wrap_socket(sock, server_side=True)
            with secure:
                self._serve(Talk(secure, number))

    def close(self) -> None:
        for sock in [self._listener, *self._open]:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@contextmanager
def served(serve: Callable[[Talk], None], context: ssl.SSLContext | None = None, **options: str) -> Iterator[RawServer]:
    """Run a server for a block."""
    server = RawServer(serve, context, **options)
    try:
        yield server
    finally:
        server.close()


def answering(*answers: bytes) -> Callable[[Talk], None]:
    """Send the responses on each connection in turn, the last one repeatedly; disconnect at one of b""."""

    def serve(talk: Talk) -> None:
        left = list(answers)
        while talk.request() is not None:
            answer = left.pop(0) if len(left) > 1 else left[0]
            if not answer:
                return
            talk.send(answer)

    return serve


def once(answer: bytes) -> Callable[[Talk], None]:
    """Send one response on each connection, and disconnect."""

    def serve(talk: Talk) -> None:
        if talk.request() is not None:
            talk.send(answer)

    return serve


def plain(body: bytes, status: str = "200 OK", *lines: str) -> bytes:
    """Return a response with a length."""
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", *lines, f"Content-Length: {len(body)}"))
    return head.encode() + b"\r\n" + body


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    """Return a response in chunks."""
    parts = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n" + trailers + b"\r\n"
