"""The measured servers: the service as a process, and sqld if it is available."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from sqld_server import Sqld, stop

import pipemagic
from pipemagic.service.sqld.local_nodes import NoSqld, find_sqld

UNLIMITED = ("--max-response", "4GB")
SQLD_UNLIMITED = ("--max-response-size", "4GB", "--max-total-response-size", "8GB")
"""Options that allow responses of any size."""


@dataclass(frozen=True)
class Target:
    """A database on a server: its address, Host header and token, and the server's process and folder."""

    name: str
    port: int
    host: str
    token: str
    pid: int
    folder: Path

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://{self.host}"

    @property
    def loopback(self) -> str:
        """The IP address, which leads to the same database."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {"Host": self.host, "Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}

    @property
    def memory(self) -> int:
        """The memory of the server's processes in bytes."""
        process = psutil.Process(self.pid)
        return sum(member.memory_info().rss for member in [process, *process.children(recursive=True)])

    def connect(self) -> pipemagic.Database:
        """Return a client of the database."""
        return pipemagic.connect(self.url, self.token)


@contextmanager
def running(folder: Path, options: tuple[str, ...] = ()) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """Run `pipemagic serve` over a folder; yield its process, its address and its organization."""
    command = [sys.executable, "-m", "pipemagic", "serve", "--port", "0", "--data", folder, *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        about = json.loads(process.stdout.readline())
        yield process, about["url"], about["organization"]
    finally:
        stop(process)
        process.stdout.close()


def management(folder: Path, url: str, organization: str) -> pipemagic.Management:
    """Return a client of the management API of the service over a folder."""
    token = (folder / "platform-token").read_text().strip()
    return pipemagic.management(url, token, organization=organization)


@contextmanager
def service(parent: Path | None = None, options: tuple[str, ...] = ()) -> Iterator[Target]:
    """Run `pipemagic serve` over a new folder, in ``parent`` if given."""
    with tempfile.TemporaryDirectory(dir=parent) as name, running(Path(name), options) as (process, url, organization):
        with management(Path(name), url, organization) as api:
            api.create_group("default", "ams")
            api.create_database("bench", "default")
            token = api.create_token("bench")
        port = int(url.rpartition(":")[2])
        host = f"bench-{organization}.localhost:{port}"
        yield Target("the service", port, host, token, process.pid, Path(name))


@contextmanager
def sqld(parent: Path | None = None, options: tuple[str, ...] = ()) -> Iterator[Target | None]:
    """Run sqld, with its data in ``parent`` if given; if it is missing, print the reason and yield None."""
    with tempfile.TemporaryDirectory(dir=parent) as name:
        unpack = Path(name) / "binary"
        unpack.mkdir()
        try:
            server = Sqld(find_sqld(unpack), Path(name) / "sqld", *options)
        except NoSqld as reason:
            print(f"without sqld: {reason}", file=sys.stderr)
            yield None
            return
        try:
            # sqld selects the database by the first label of the host, so 127.0.0.1 leads to this name as well.
            database = server.database("127")
            yield Target("sqld", server.port, database.host, database.token, server.process.pid, Path(name))
        finally:
            server.close()
