"""The servers under test, with a common interface."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx
import jwt
import pytest
from asgi_calls import Disconnect, call
from contract_wire import Answer, execute
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqld_server import Sqld, stop
from waiting import PATIENCE, pause, until

from pipemagic.hrana.stream import IDLE_LIMIT
from pipemagic.service.limits import Limits
from pipemagic.service.service import Service
from pipemagic.service.sqlite.database import WriteLock

MAX_BODY = 16 * 1024 * 1024
"""Of the service in process, instead of 128 MB."""


class Server(Protocol):
    """A server with many databases."""

    name: str
    http: httpx.Client

    def database(self) -> Database:
        """Create a database."""

    def recreate(self, database: Database) -> None:
        """Delete the database and create one of the same name."""

    def pass_time(self, seconds: float) -> None:
        """Advance the server's clock."""

    def until_one_waits(self, database: Database, count: int = 1) -> None:
        """Wait until a stream, or several, wait for the write lock."""

    def disconnect(self, database: Database, body: bytes, running: float) -> None:
        """Send a pipeline and disconnect while it runs."""


class Database:
    """One database of a server: posts pipelines to it."""

    def __init__(self, server: Server, host: str, key: Ed25519PrivateKey, claims: dict[str, Any]) -> None:
        self.server, self.http, self.host, self._key, self._claims = server, server.http, host, key, claims
        self.token = self.mint()

    @property
    def name(self) -> str:
        return self.host.partition(".")[0]

    def mint(self, **claims: Any) -> str:
        """Return a token for this database; ``a="ro"`` is read-only, None omits a claim."""
        merged = {**self._claims, "iat": int(time.time()), **claims}
        return jwt.encode(
            {name: content for name, content in merged.items() if content is not None}, self._key, "EdDSA"
        )

    def headers(self, token: str | None = None, **more: str) -> dict[str, str]:
        return {"host": self.host, "authorization": f"Bearer {token or self.token}", **more}

    def send(self, method: str, path: str, *, headers: dict[str, str] | None = None, content: Any = None) -> Answer:
        """Send a request; without ``headers`` it has no token."""
        return Answer(self.http.request(method, path, headers={"host": self.host, **(headers or {})}, content=content))

    def send_body(self, body: bytes, *, version: int = 2, token: str | None = None) -> Answer:
        return self.send("POST", f"/v{version}/pipeline", headers=self.headers(token), content=body)

    def post(
        self, *requests: dict[str, Any], baton: str | None = None, version: int = 2, token: str | None = None
    ) -> Answer:
        body: dict[str, Any] = {"requests": requests}
        if baton is not None:
            body["baton"] = baton
        return self.send_body(json.dumps(body).encode(), version=version, token=token)

    def run(self, *texts: str) -> Answer:
        """Run statements in one request that closes its stream; all must succeed."""
        answer = self.post(*map(execute, texts), {"type": "close"})
        assert set(answer.codes) == {"ok"}, answer.results
        return answer

    def rows(self, sql: str) -> list[list[Any]]:
        return self.run(sql).rows()

    def stream(self, version: int = 2) -> Stream:
        return Stream(self, version)


class Stream:
    """A stream: sends the newest baton and stores the one in the response."""

    def __init__(self, database: Database, version: int) -> None:
        self.database, self.version, self.baton = database, version, None

    def send(self, *requests: dict[str, Any], token: str | None = None) -> Answer:
        answer = self.database.post(*requests, baton=self.baton, version=self.version, token=token)
        if answer.status == 200:
            self.baton = answer.baton
        return answer

    def run(self, *texts: str) -> Answer:
        """Run statements, all of which must succeed."""
        answer = self.send(*map(execute, texts))
        assert set(answer.codes) <= {"ok"}, answer.results
        return answer

    def rows(self, sql: str) -> list[list[Any]]:
        return self.run(sql).rows()

    @property
    def autocommit(self) -> bool:
        answer = self.database.post({"type": "get_autocommit"}, baton=self.baton, version=3)
        self.baton = answer.baton
        return answer.response()["is_autocommit"]


class Embedded:
    """Base class of both embedded servers: databases are created through the management API."""

    http: httpx.Client
    folder: Path

    def database(self) -> Database:
        return self._create("d" + uuid.uuid4().hex[:12])

    def _create(self, name: str) -> Database:
        made = self._manage("POST", "/databases", {"name": name, "group": "default"})["database"]
        key = serialization.load_pem_private_key((self.folder / "signing-key.pem").read_bytes(), None)
        assert isinstance(key, Ed25519PrivateKey)
        return Database(self, made["Hostname"], key, {"id": made["DbId"], "sub": "ada", "a": "rw"})  # type: ignore[arg-type]

    def recreate(self, database: Database) -> None:
        name = database.name.removesuffix("-local")
        self._manage("DELETE", f"/databases/{name}")
        self._create(name)

    def make_group(self) -> None:
        self._manage("POST", "/groups", {"name": "default", "location": "ams"})

    @property
    def platform_token(self) -> str:
        """The token for the management API in the data folder."""
        return (self.folder / "platform-token").read_text().strip()

    def _manage(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"authorization": f"Bearer {self.platform_token}"}
        answer = self.http.request(method, f"/v1/organizations/local{path}", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()


class FakeClock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class ServiceTransport(httpx.BaseTransport):
    """Send requests to a service by calling it."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self.send(request, Disconnect())

    def send(self, request: httpx.Request, connection: Disconnect) -> httpx.Response:
        reply = call(
            self.service, request.method, request.url.path, headers=request.headers, body=request.read(),
            query=dict(request.url.params), connection=connection,
        )  # fmt: skip
        content = reply.read()
        if request.method == "HEAD":  # nor does a server on a port
            content = b""
        return httpx.Response(reply.status, headers=reply.headers, content=content)


class InProcess(Embedded):
    """The service in process, with a clock that tests advance."""

    name = "in_process"

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, FakeClock()
        limits = Limits(body=MAX_BODY, response=10 * 1024 * 1024)
        self.service = Service(folder, clock=self.clock, limits=limits)
        self._transport = ServiceTransport(self.service)
        self.http = httpx.Client(transport=self._transport, base_url="http://127.0.0.1:8080")
        self.make_group()

    def expire(self) -> None:
        """Let all streams expire, and close the files of their databases: this server is used by many modules."""
        self.clock.time += IDLE_LIMIT + 1
        self.service.engine.sweep()

    def pass_time(self, seconds: float) -> None:
        """Advance the clock in small steps, with a sweep after each."""
        end = self.clock.time + seconds
        while self.clock.time < end:
            self.clock.time = min(end, self.clock.time + 0.25)
            self.service.engine.sweep()

    def until_one_writes(self, database: Database) -> None:
        """Wait until a stream holds the write lock (which advances the clock a little)."""
        lock = self._write_lock(database)
        until(lambda: self.pass_time(0.001) or lock.holder_age() > 0)

    def until_one_runs(self) -> None:
        """Wait until a statement runs."""
        until(lambda: any(stream.running for stream in list(self.service.engine.streams._streams.values())))

    def until_one_waits(self, database: Database, count: int = 1) -> None:
        """Wait until a stream, or several, wait for the write lock."""
        lock = self._write_lock(database)
        until(lambda: len(lock.waiters()) >= count)

    def _write_lock(self, database: Database) -> WriteLock:
        record = self.service.catalog.database_by_host(database.host)
        assert record is not None
        return self.service.engine.databases.open(record).write_lock

    def disconnect(self, database: Database, body: bytes, running: float) -> None:
        connection = Disconnect()
        request = self.http.build_request("POST", "/v2/pipeline", headers=database.headers(), content=body)
        sending = threading.Thread(target=self._transport.send, args=(request, connection))
        sending.start()
        pause(running)
        connection.set()
        sending.join(PATIENCE)
        assert not sending.is_alive(), "the statement was not interrupted"

    def close(self) -> None:
        self.http.close()
        self.service.close()


class RealTime:
    """Base class of both servers on a port."""

    address: str

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)

    def until_one_waits(self, _database: Database, _count: int = 1) -> None:
        """Wait until a stream certainly waits for the write lock, which no client can see."""
        pause(0.25)

    def disconnect(self, database: Database, body: bytes, running: float) -> None:
        host, _, port = self.address.removeprefix("http://").partition(":")
        head = [
            "POST /v2/pipeline HTTP/1.1",
            f"Content-Length: {len(body)}",
            *(f"{name.title()}: {text}" for name, text in database.headers().items()),
        ]
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
            pause(running)


class WithKey(InProcess):
    """The service in process; every request has an encryption key, which the service ignores: it does not encrypt."""

    name = "with_key"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.http.headers["x-turso-encryption-key"] = "YUfkdsD2SJe4KzTB8n6CjwCgs1YIW6k1xxMEguRuI5s="


class OnPort(RealTime, Embedded):
    """The service as a process: `pipemagic serve --port 0`."""

    name = "on_port"

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipemagic", "serve", "--port", "0", "--data", str(folder), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        try:
            self.announced = json.loads(self.process.stdout.readline())
            self.address = self.announced.get("local_url", self.announced["url"])  # the one without TLS
            self.http = httpx.Client(base_url=self.address, trust_env=False, verify=False, timeout=30)
            self.make_group()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if hasattr(self, "http"):
            self.http.close()
        stop(self.process)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def log(self) -> str:
        """Return the log of the process."""
        return (self.folder / "service.log").read_text("utf-8")


class OnSqld(RealTime):
    """The libSQL server."""

    name = "sqld"

    def __init__(self, sqld: Sqld) -> None:
        self._sqld, self.address = sqld, sqld.address
        # One connection for each request: sqld may close it after refusing a token, before it has read the body.
        fresh = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.Client(base_url=sqld.address, trust_env=False, verify=False, timeout=30, limits=fresh)

    def database(self) -> Database:
        made = self._sqld.database()
        return Database(self, made.host, made.key, {"id": made.name, "sub": "ada", "a": "rw"})

    def recreate(self, database: Database) -> None:
        self._sqld.delete(database.name)
        self._sqld.database(database.name)

    def close(self) -> None:
        self.http.close()


@contextmanager
def closing(server: Any) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnPort]:
    """`pipemagic serve` as a process."""
    server = OnPort(tmp_path_factory.mktemp("served"))
    yield server
    server.close()
    assert "Traceback" not in server.log
