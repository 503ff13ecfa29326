"""Start sqld, the libSQL server, with a new key."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pipemagic.service.sqld.local_nodes import START_TIMEOUT, free_port


@dataclass(frozen=True)
class SqldDatabase:
    """A database of sqld: its address and tokens."""

    url: str
    name: str
    key: Ed25519PrivateKey

    @property
    def host(self) -> str:
        """The Host header; names below localhost do not resolve everywhere."""
        return self.url.removeprefix("http://")

    @property
    def token(self) -> str:
        return self.mint()

    def mint(self, **claims: Any) -> str:
        """Create a token, by default with full access to this database; ``a="ro"`` is read-only."""
        return jwt.encode({"id": self.name, "a": "rw", **claims}, self.key, "EdDSA")


class Sqld:
    """A running sqld with many databases, each with a host name; ``checked``: whether it requires tokens."""

    def __init__(
        self, binary: Path, folder: Path, *options: str, key: Ed25519PrivateKey | None = None, checked: bool = True
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.key = key or Ed25519PrivateKey.generate()
        public = self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (folder / "key.pem").write_bytes(public)
        self.log = folder / "sqld.log"
        self.port, self.admin_port = free_port(), free_port()
        self._command = [
            binary, "--db-path", folder / "data", "--http-listen-addr", f"127.0.0.1:{self.port}",
            "--admin-listen-addr", f"127.0.0.1:{self.admin_port}",
            *(("--auth-jwt-key-file", folder / "key.pem") if checked else ()),
            "--enable-namespaces", "--no-welcome",
            # Beyond this number (100 by default) it returns 404 for some that it is loading again.
            "--max-active-namespaces", "100000", *options,
        ]  # fmt: skip
        self.restart()

    def restart(self) -> None:
        """Start it, again at the same ports after `close`."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(self.port, self.process)
            wait_for(self.admin_port, self.process, "/")
        except TimeoutError as error:
            self.close()
            raise RuntimeError(f"{error}\n{self.log.read_text('utf-8', 'replace')}") from None

    @property
    def address(self) -> str:
        """Its address; the Host header names the database."""
        return f"http://127.0.0.1:{self.port}"

    def database(self, name: str | None = None, **config: Any) -> SqldDatabase:
        """Create a database with a new name; ``config`` is that of its namespace, such as ``txn_timeout_s=1``."""
        name = name or "t" + uuid.uuid4().hex
        self._ask("POST", f"/v1/namespaces/{name}/create", config)
        return SqldDatabase(f"http://{name}.localhost:{self.port}", name, self.key)

    def delete(self, name: str) -> None:
        """Delete a database."""
        self._ask("DELETE", f"/v1/namespaces/{name}")

    def _ask(self, method: str, path: str, config: Mapping[str, Any] | None = None) -> None:
        # urllib would read the certificates of all public authorities for each request.
        connection = HTTPConnection("127.0.0.1", self.admin_port, timeout=START_TIMEOUT)
        connection.request(method, path, json.dumps(config or {}), {"content-type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        assert response.status == 200, f"{method} {path}: {response.status} {text}"

    def close(self) -> None:
        stop(self.process)


def wait_for(port: int, process: subprocess.Popen[bytes], path: str = "/health") -> None:
    """Wait until a server on loopback responds; raise TimeoutError if its process ends, or if it takes too long."""
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end:
        if process.poll() is not None:
            raise TimeoutError(f"it ended with {process.returncode}")
        connection = HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", path)
            connection.getresponse()
            return
        except (OSError, HTTPException):
            time.sleep(0.02)
        finally:
            connection.close()
    raise TimeoutError(f"port {port} did not respond within {START_TIMEOUT:.0f} s")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a child process and wait for its end."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
