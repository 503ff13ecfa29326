"""A page of another site uses the service by `fetch`; the browser enforces the origin rules.

Arguments: the path of chromium, the address of the service, a token of a database, and ``let-in`` or ``kept-out``.
"""

from __future__ import annotations

import contextlib
import http.server
import sys
import threading
from collections.abc import Iterator
from typing import Any

from lab import browser

CALL = """async ([url, options]) => {
    try {
        const answer = await fetch(url, options);
        return [answer.status, await answer.text()];
    } catch (error) {
        return [0, String(error)];  // all that a page is told of an answer that it may not read
    }
}"""
ROWS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT n FROM c"


class EmptyPage(http.server.BaseHTTPRequestHandler):
    """Responds with an empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another site</title>")

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextlib.contextmanager
def another_site() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def main(chromium: str, service: str, token: str, expected: str) -> None:
    with another_site() as site, browser(chromium) as page:
        page.goto(site)

        def call(method: str, path: str, body: str | None = None, bearer: str = token) -> list[Any]:
            headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
            answer: list[Any] = page.evaluate(
                CALL, [service + path, {"method": method, "headers": headers, "body": body}]
            )
            return answer

        answers = [
            call(
                "POST", "/v2/pipeline", '{"requests":[{"type":"execute","stmt":{"sql":"SELECT 6*7"}},{"type":"close"}]}'
            ),
            call("POST", "/v3/cursor", f'{{"batch":{{"steps":[{{"stmt":{{"sql":"{ROWS}"}}}}]}}}}'),
            call("POST", "/v2/pipeline", '{"requests":[]}', bearer="wrong"),
            call("POST", "/v2/pipeline", "{"),
            call("GET", "/version"),
            call("DELETE", "/v1/organizations/local/databases/nope"),
        ]
        statuses = [status for status, _ in answers]
        if expected == "kept-out":
            assert statuses == [0] * 6, answers
            return
        assert statuses == [200, 200, 401, 400, 200, 401], answers
        assert '"value":"42"' in answers[0][1]
        assert answers[1][1].count('"type":"row"') == 20_000


if __name__ == "__main__":
    main(*sys.argv[1:5])
