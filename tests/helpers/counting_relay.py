"""A relay in front of a server that records every HTTP request."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress

_HEAD = re.compile(rb"([A-Z]+ \S+) HTTP/1\.1\r\n")


class CountingRelay:
    """Relays bytes in both directions. ``requests`` has the method and path of each request, in order.

    Clients here send a request only after the response to the previous one, so each begins a new piece.
    """

    def __init__(self, port: int) -> None:
        self.requests: list[str] = []
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop, and close every connection."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for connection in self._sockets:
            with suppress(OSError):  # the other side may have closed it
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in [self._listener, *self._sockets]:
            connection.close()

    def taken(self) -> list[str]:
        """Return the requests since the last call."""
        taken, self.requests = self.requests, []
        return taken

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(("127.0.0.1", self._to))
            self._sockets += [client, server]
            for source, target in ((client, server), (server, client)):
                thread = threading.Thread(target=self._pass_on, args=(source, target, source is client), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(65536):
                if counted and (head := _HEAD.match(data)):
                    self.requests.append(head[1].decode())
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # either side may disconnect at any time
