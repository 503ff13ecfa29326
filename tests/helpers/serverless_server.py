"""A server of the serverless protocol of 2026, in front of the embedded service.

It keeps a stream, and returns a baton, only if necessary: for an open transaction, a setting, a temporary table,
a stored text; with ``holds_all`` for every request. ``ends_next`` ends a stream with the
next response in any case. A baton that is unknown, or was idle for longer than
``idle_limit`` seconds, is answered with 404. `restart` forgets all batons.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
from scripted_server import Answer, Call, ScriptedServer, as_json

HOLDS = re.compile(r"(?i)^\s*(PRAGMA\s+\w+\s*=|CREATE\s+TEMP)")


class ServerlessServer(ScriptedServer):
    """Serves one database: ``http`` sends requests to the real service at ``url``, and ``clock`` measures idle time."""

    def __init__(self, http: httpx.Client, url: str, clock: Callable[[], float], idle_limit: float = 10.0) -> None:
        self._client, self._upstream, self._clock, self.idle_limit = http, url, clock, idle_limit
        self.holds_all = self.ends_next = False
        self._held: dict[str, tuple[str, float, bool]] = {}
        self._numbers = itertools.count(1)
        super().__init__(self._respond)
        self.pages |= {path: Answer(body=http.get(url + path).content) for path in ("/version", "/health")}

    def restart(self) -> None:
        for baton, _, _ in self._held.values():
            self._post("/v3/pipeline", {"baton": baton, "requests": [{"type": "close"}]})
        self._held.clear()

    def _respond(self, call: Call) -> Answer:
        baton, holds = call.baton, False
        if baton is not None:
            held, used, holds = self._held.pop(baton, ("", 0.0, False))
            if not held or self._clock() - used > self.idle_limit:
                if held:
                    self._post("/v3/pipeline", {"baton": held, "requests": [{"type": "close"}]})
                return as_json({"error": "stream not found"}, 404)
            baton = held
        self._authorization = call.headers.get("authorization", "")
        answer = self._post(call.path, call.json | {"baton": baton}, {
            name: value for name, value in call.headers.items() if name.startswith("pipemagic")
        })  # fmt: skip
        body = answer.content
        if answer.status_code == 200:
            head, line_end, rest = body.partition(b"\n") if call.path == "/v3/cursor" else (body, b"", b"")
            told = json.loads(head)
            told["baton"] = self._hold(
                told["baton"], holds or self.holds_all or any(map(HOLDS.match, _texts(call.json)))
            )
            body = json.dumps(told).encode() + line_end + rest
        return Answer(answer.status_code, body, answer.headers.get("content-type", ""))

    def _hold(self, baton: str | None, holds: bool) -> str | None:
        """Return a baton for a stream that must be kept; close any other."""
        if baton is None:
            return None
        asked = self._post("/v3/pipeline", {"baton": baton, "requests": [{"type": "get_autocommit"}]}).json()
        ends, self.ends_next = self.ends_next, False
        if ends or (asked["results"][0]["response"]["is_autocommit"] and not holds):
            self._post("/v3/pipeline", {"baton": asked["baton"], "requests": [{"type": "close"}]})
            return None
        given = f"baton-{next(self._numbers)}"
        self._held[given] = (asked["baton"], self._clock(), holds)
        return given

    def _post(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> httpx.Response:
        headers = {"authorization": self._authorization, **(headers or {})}
        return self._client.post(self._upstream + path, json=body, headers=headers)


def _texts(body: dict[str, Any]) -> list[str]:
    """Return the SQL of all requests; "PRAGMA x =" for a text that is stored, which a stream holds, too."""
    found = []
    for request in body.get("requests", [{"batch": body.get("batch")}]):
        if request.get("type") == "store_sql":
            found.append("PRAGMA stored = 1")
        found += [(request.get("stmt") or {}).get("sql") or "", request.get("sql") or ""]
        found += [step["stmt"].get("sql") or "" for step in (request.get("batch") or {}).get("steps", [])]
    return found
