"""Call a service in process, without a port, with a clock that tests set."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from asgi_calls import Disconnect, Reply, call

from pipemagic.service.limits import Limits
from pipemagic.service.service import Service

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
CLOSE = {"type": "close"}
GET_AUTOCOMMIT = {"type": "get_autocommit"}

WALL_START = 1_769_900_000.0
"""Unix time of the tests that have their own: 2026-01-31T22:53:20Z."""


class Clock:
    """Seconds that pass only when a test advances them."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds


class File(NamedTuple):
    """A database file for `Connection`, without a service."""

    path: Path
    limits: Limits = Limits()
    unicode: bool = False
    schema_changes: int = 0


@contextmanager
def new_service(folder: Path, **options: Any) -> Iterator[Service]:
    """Run a service over a new folder, with a group; its clock stands still."""
    service = Service(folder / "data", **{"clock": Clock(), **options})
    service.catalog.create_group("local", "default", "ams")
    try:
        yield service
    finally:
        service.close()


def execute(sql: str, *args: dict[str, Any], **fields: Any) -> dict[str, Any]:
    stmt = {"sql": sql, **fields}
    if args:
        stmt["args"] = list(args)
    return {"type": "execute", "stmt": stmt}


@dataclass
class Answer:
    """The response to a pipeline."""

    status: int
    body: Any
    content_type: str = ""

    @property
    def baton(self) -> str | None:
        return self.body["baton"]

    @property
    def codes(self) -> list[str]:
        """'ok' or the error's code, for each request."""
        return ["ok" if result["type"] == "ok" else result["error"]["code"] for result in self.body["results"]]

    def rows(self, index: int = 0) -> list[list[Any]]:
        """The rows of one result: the values of the protocol, None for null."""
        result = self.body["results"][index]
        assert result["type"] == "ok", result
        rows = result["response"]["result"]["rows"]
        return [[cell.get("value", cell.get("base64")) for cell in row] for row in rows]

    def error(self, index: int = 0) -> dict[str, str]:
        return self.body["results"][index]["error"]

    def response(self, index: int = 0) -> dict[str, Any]:
        return self.body["results"][index]["response"]


@dataclass
class Entries:
    """The response to a cursor, as far as it was read."""

    baton: str | None
    entries: list[dict[str, Any]]

    @property
    def kinds(self) -> list[str]:
        """The type of each entry, errors with their code."""
        return [
            f"{entry['type']} {entry['error']['code']}" if "error" in entry else entry["type"] for entry in self.entries
        ]

    def rows(self) -> list[list[Any]]:
        """The rows of all steps: the values of the protocol, None for null."""
        rows = [entry["row"] for entry in self.entries if entry["type"] == "row"]
        return [[cell.get("value", cell.get("base64")) for cell in row] for row in rows]


def entries_of(data: bytes) -> Entries:
    """Parse a whole body, in which every line must be JSON."""
    assert data.endswith(b"\n")
    head, *entries = map(json.loads, data.splitlines())
    assert set(head) in ({"baton", "base_url"}, {"baton", "base_url", "stream_ttl_ms"})
    return Entries(head["baton"], entries)


@dataclass
class Caller:
    """Sends requests to a service as a client of one database."""

    service: Service
    token: str
    headers: dict[str, str] = field(default_factory=lambda: {"host": "127.0.0.1:8080"})

    def post(
        self,
        *requests: dict[str, Any],
        baton: str | None = None,
        version: int = 3,
        connection: Disconnect | None = None,
    ) -> Answer:
        body = json.dumps({"baton": baton, "requests": requests}).encode()
        headers = {**self.headers, "authorization": f"Bearer {self.token}"}
        path = f"/v{version}/pipeline"
        response = call(self.service, "POST", path, headers=headers, body=body, connection=connection)
        data = response.read()
        parsed = json.loads(data) if response.content_type == "application/json" else data.decode()
        return Answer(response.status, parsed, response.content_type)

    def cursor(
        self, *steps: str | dict[str, Any], baton: str | None = None, connection: Disconnect | None = None
    ) -> Reply:
        """Begin a cursor; steps are texts or complete steps. The caller reads its chunks."""
        batch = {"steps": [{"stmt": {"sql": step}} if isinstance(step, str) else step for step in steps]}
        headers = {**self.headers, "authorization": f"Bearer {self.token}"}
        body = json.dumps({"baton": baton, "batch": batch}).encode()
        return call(self.service, "POST", "/v3/cursor", headers=headers, body=body, connection=connection)

    def read(self, *steps: str | dict[str, Any], baton: str | None = None) -> Entries:
        """Run a cursor to the end."""
        response = self.cursor(*steps, baton=baton)
        assert (response.status, response.content_type) == (200, "text/plain")
        return entries_of(b"".join(response.chunks))

    def run(self, *statements: str) -> Answer:
        """Run statements and close, in one request."""
        return self.post(*(execute(sql) for sql in statements), CLOSE)


class Background:
    """A call in a thread."""

    def __init__(self, function, *arguments, **options):
        self._results = []
        self._thread = threading.Thread(target=lambda: self._results.append(function(*arguments, **options)))
        self._thread.start()

    def result(self):
        self._thread.join(30)
        (result,) = self._results
        return result


def caller_of(service: Service, name: str, *, read_only: bool = False, subject: str = "ada") -> Caller:
    """Create a token for a database, and the database if necessary; return its caller."""
    names = [database.name for database in service.catalog.databases("local")]
    if name not in names:
        service.catalog.create_database("local", name, "default")
    record = service.catalog.database("local", name)
    token = service.tokens.issue_database(record, read_only=read_only, expires_in=None, subject=subject)
    return Caller(service, token)
