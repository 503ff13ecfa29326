"""What is measured: the embedded service as a process, and sqld where there is one."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pipemagic
from pipemagic.service.sqld.binary import NoSqld, find, stop

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from sqld_server import Sqld


@dataclass(frozen=True)
class Target:
    """A database on a server: where to connect, what to send as Host, the token."""

    port: int
    host: str
    token: str
    pid: int = 0

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://{self.host}"

    @property
    def loopback(self) -> str:
        """The address without names."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Host": self.host, "Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}


@contextmanager
def service(parent: Path | None = None) -> Iterator[Target]:
    """Run `pipemagic serve` over a folder of its own, in ``parent`` if given."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        command = [sys.executable, "-m", "pipemagic", "serve", "--port", "0", "--data", folder]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            about = json.loads(process.stdout.readline())
            platform_token = (Path(folder) / "platform-token").read_text().strip()
            with pipemagic.management(about["url"], platform_token, organization=about["organization"]) as api:
                api.create_group("default", "ams")
                api.create_database("bench", "default")
                token = api.create_token("bench")
            port = int(about["url"].rpartition(":")[2])
            yield Target(port, f"bench-{about['organization']}.localhost:{port}", token, process.pid)
        finally:
            stop(process)
            process.stdout.close()


@contextmanager
def sqld(parent: Path | None = None) -> Iterator[Target | None]:
    """Run sqld, its data in ``parent`` if given; None, and a line that says why, where there is none."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        unpack = Path(folder) / "binary"
        unpack.mkdir()
        try:
            server = Sqld(find(unpack), Path(folder) / "sqld")
        except NoSqld as reason:
            print(f"without sqld: {reason}", file=sys.stderr)
            yield None
            return
        try:
            database = server.database("bench")
            yield Target(server.port, database.host, database.token)
        finally:
            server.close()
