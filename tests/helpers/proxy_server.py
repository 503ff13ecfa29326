"""An HTTP proxy: forwards requests and opens tunnels; all names below ``.test`` are this machine."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from raw_server import RawServer, Talk


class Proxy:
    """Listens at ``url``; ``asked`` has the first line of every request. ``refusal`` is the response to all, if set."""

    def __init__(self, refusal: bytes = b"") -> None:
        self.asked: list[str] = []
        self._refusal = refusal
        self._server = RawServer(self._serve)
        self.url = self._server.url

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _serve(self, talk: Talk) -> None:
        while (request := talk.request()) is not None:
            head, body = request
            line, _, lines = head.decode("ascii").partition("\r\n")
            self.asked.append(line)
            method, target, version = line.split(" ")
            if self._refusal:
                talk.send(self._refusal)
                return
            if method == "CONNECT":
                talk.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self._tunnel(talk, int(target.rpartition(":")[2]))
                return
            host, _, path = target.removeprefix("http://").partition("/")
            with socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2]))) as behind:
                behind.sendall(f"{method} /{path} {version}\r\n{lines}\r\nConnection: close\r\n\r\n".encode() + body)
                while data := behind.recv(65536):
                    talk.send(data)
            return

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
