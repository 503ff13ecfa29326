"""An HTTP server that sends the responses of a test, also invalid ones."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Call:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    port: int = 0  # the client's, one for each connection

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def baton(self) -> str | None:
        return self.json.get("baton")

    @property
    def kinds(self) -> list[str]:
        return [request["type"] for request in self.json["requests"]]

    @property
    def sql(self) -> list[str]:
        return [request["stmt"]["sql"] for request in self.json["requests"] if "stmt" in request]


@dataclass(frozen=True)
class Answer:
    """A response. ``cut`` limits the bytes of the body that are sent; ``vanish`` closes the connection instead."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    vanish: bool = False


def as_json(value: object, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode())


def as_text(text: str, status: int = 400) -> Answer:
    return Answer(status, text.encode(), "text/plain")


def entry(request: dict[str, Any], autocommit: bool = True) -> dict[str, Any]:
    """Return an ok entry of the right type for a request."""
    kind = request["type"]
    response: dict[str, Any] = {"type": kind}
    if kind == "execute":
        response["result"] = {"cols": [], "rows": [], "affected_row_count": 1, "last_insert_rowid": None}
    elif kind == "batch":
        count = len(request["batch"]["steps"])
        one = {"cols": [], "rows": [], "affected_row_count": 0, "last_insert_rowid": None}
        response["result"] = {"step_results": [one] * count, "step_errors": [None] * count}
    elif kind == "get_autocommit":
        response["is_autocommit"] = autocommit
    return {"type": "ok", "response": response}


def error_entry(message: str, code: str) -> dict[str, Any]:
    return {"type": "error", "error": {"message": message, "code": code}}


def good(call: Call, baton: str | None = "b", *, autocommit: bool = True, base_url: str | None = None) -> Answer:
    """Return the response of a healthy server to a pipeline."""
    results = [entry(request, autocommit) for request in call.json["requests"]]
    ended = "close" in call.kinds
    return as_json({"baton": None if ended else baton, "base_url": base_url, "results": results})


class ScriptedServer:
    """Responds to each POST with the next item of ``script`` (an Answer, or a function of the Call), or the last one.

    The response to GET is that of ``pages`` (path -> Answer), otherwise 404.
    """

    def __init__(self, *script: Answer | Callable[[Call], Answer]) -> None:
        self.script = list(script) or [good]
        self.pages = {path: Answer(body=b"hello", content_type="text/plain") for path in ("/v2", "/v3")}
        self.calls: list[Call] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # otherwise each body waits 40 ms for the acknowledgement of its head

            def log_message(self, *_: object) -> None:
                pass

            def handle_any(self) -> None:
                length = int(self.headers.get("content-length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                call = Call(self.command, self.path, headers, self.rfile.read(length), self.client_address[1])
                server.calls.append(call)
                self.answer(server.answer(call))

            do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

            def answer(self, answer: Answer) -> None:
                if answer.vanish:
                    # Reset instead of a clean end, as a crash would.
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.content_type)
                self.send_header("Content-Length", str(len(answer.body)))
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body[: answer.cut])
                if answer.cut is not None:
                    self.close_connection = True

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        # Closing waits for a poll.
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def answer(self, call: Call) -> Answer:
        if call.method == "GET" and call.path in self.pages:
            return self.pages[call.path]
        if call.method == "GET" and call.path.startswith(("/v2", "/v3", "/version", "/health")):
            return as_text("", 404)
        item = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return item if isinstance(item, Answer) else item(call)

    @property
    def posts(self) -> list[Call]:
        return [call for call in self.calls if call.method == "POST"]

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
