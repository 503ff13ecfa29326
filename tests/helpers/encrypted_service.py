"""A hosted service with encrypted databases: it demands the key with every request, and passes them on to a service."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from scripted_server import Answer, Call, ScriptedServer, as_json
from served import PATIENCE, Served, serve

KEY = base64.b64encode(secrets.token_bytes(32)).decode()
OTHER_KEY = base64.b64encode(secrets.token_bytes(16)).decode()

KEY_HEADER = "x-turso-encryption-key"
CIPHER_HEADER = "x-turso-encryption-cipher"
NO_KEY = "the database is encrypted: the header x-turso-encryption-key is missing"
WRONG_KEY = "Decryption failed for page=1"
_OWN = ("host", "connection", "content-length", "transfer-encoding", KEY_HEADER, CIPHER_HEADER)
"""Headers of the way to this server, and those that only it understands."""
_MADE = ("connection", "content-length", "content-type", "transfer-encoding", "date", "server")
"""Headers of a response that this server writes itself."""


@dataclass(frozen=True)
class Encrypted:
    """The key of a database, and its cipher."""

    key: str
    cipher: str


class EncryptedService(ScriptedServer):
    """Serves the databases of a real service. ``encrypted`` has the key of each encrypted one, by its host name.

    ``without_key`` are the requests to these that were refused; ``keys`` the values of the header in all others.
    The texts of the refusals are not those of the hosted service, which publishes none.
    """

    def __init__(self, behind: Served) -> None:
        self.encrypted: dict[str, Encrypted] = {}
        self.without_key: list[str] = []
        self.keys: set[str | None] = set()
        self._behind = behind
        super().__init__()
        self.pages = {}

    def address(self, name: str) -> str:
        """Return the address of a database."""
        return f"http://{name}-local.localhost:{self.port}"

    def encrypt(self, name: str, key: str, cipher: str = "aegis256") -> None:
        """Demand a key for a database from now on."""
        self.encrypted[f"{name}-local.localhost"] = Encrypted(key, cipher)

    def answer(self, call: Call) -> Answer:
        host = call.headers.get("host", "").partition(":")[0]
        demanded, key = self.encrypted.get(host), call.headers.get(KEY_HEADER)
        if call.path.startswith("/v1/organizations/"):
            assert key is None, "the platform gets a key in the body of a creation alone"
            if call.method == "POST" and urlsplit(call.path).path.endswith("/databases"):
                return self._create(call)
        elif demanded is not None:
            is_upload = call.path == "/v1/upload"
            if key != demanded.key or (is_upload and call.headers.get(CIPHER_HEADER) != demanded.cipher):
                self.without_key.append(f"{call.method} {call.path}")
                return as_json({"error": NO_KEY if key is None else WRONG_KEY}, 400)
        self.keys.add(key)
        return self._forward(call, call.body)

    def _create(self, call: Call) -> Answer:
        body = call.json
        demanded = body.pop("remote_encryption", None)
        source = self.encrypted.get(f"{(body.get('seed') or {}).get('name')}-local.localhost")
        if source is not None and (demanded or {}).get("encryption_key") != source.key:
            return as_json({"error": NO_KEY if demanded is None else WRONG_KEY}, 400)
        answer = self._forward(call, json.dumps(body).encode())
        if demanded and answer.status == 200:
            cipher = source.cipher if source else demanded["encryption_cipher"]
            self.encrypt(body["name"], demanded["encryption_key"], cipher)
        return answer

    def _forward(self, call: Call, body: bytes) -> Answer:
        connection = HTTPConnection("127.0.0.1", self._behind.port, timeout=PATIENCE)
        try:
            headers = {name: value for name, value in call.headers.items() if name not in _OWN}
            host = re.sub(r":\d+\Z", f":{self._behind.port}", call.headers["host"])
            connection.request(call.method, call.path, body or None, {**headers, "host": host})
            answer = connection.getresponse()
            kept = {name: text for name, text in answer.getheaders() if name.lower() not in _MADE}
            text = answer.read().replace(f":{self._behind.port}".encode(), f":{self.port}".encode())
            return Answer(answer.status, text, answer.getheader("content-type") or "", kept)
        finally:
            connection.close()


@dataclass
class EncryptedDatabase:
    """A database that requires `KEY`, and what a session needs to reach it."""

    hosted: EncryptedService
    behind: Served
    name: str
    token: str

    @property
    def address(self) -> str:
        return self.hosted.address(self.name)

    @property
    def environ(self) -> dict[str, str]:
        """The variables of a session, with two keys."""
        return {
            "PIPEMAGIC_TOKEN": self.token, "KEY": KEY, "OTHER": OTHER_KEY,
            "PIPEMAGIC_API_URL": self.hosted.url, "PIPEMAGIC_API_TOKEN": self.behind.platform_token,
        }  # fmt: skip

    @property
    def had_every_key(self) -> bool:
        """Whether every request for it had the key; requests to the platform have none."""
        return self.hosted.without_key == [] and self.hosted.keys <= {KEY, None} and KEY in self.hosted.keys


@pytest.fixture(scope="session")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service that has the content of the encrypted databases."""
    folder: Path = tmp_path_factory.mktemp("behind") / "data"
    with serve(folder) as served:
        yield served


@pytest.fixture
def encrypted(behind: Served) -> Iterator[EncryptedDatabase]:
    """A new encrypted database."""
    hosted, name = EncryptedService(behind), f"d{secrets.token_hex(6)}"
    behind.create(name)
    hosted.encrypt(name, KEY)
    yield EncryptedDatabase(hosted, behind, name, behind.token(name))
    hosted.close()
