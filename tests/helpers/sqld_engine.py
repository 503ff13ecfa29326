"""The service with ``--engine sqld --local N``, as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import httpx
import psutil
from sqld_server import stop
from waiting import until

import pipemagic
from pipemagic.client.database import Database

PATIENCE = 30.0


class SqldEngineProcess:
    """A service in front of ``count`` nodes, with the group ``default``."""

    def __init__(self, binary: Path, folder: Path, count: int = 3) -> None:
        self.folder, self._binary, self._count = folder, binary, count
        self.start()
        self.manage("POST", "/groups", {"name": "default", "location": "ams"})

    def start(self, **environment: str) -> None:
        """Start or restart it."""
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "pipemagic", "serve", "--port", "0", "--data", str(self.folder),
                "--engine", "sqld", "--local", str(self._count),
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            env={**os.environ, "PIPEMAGIC_SQLD": str(self._binary), **environment},
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the service did not start"
        self.url = json.loads(line)["url"]
        self.token = (self.folder / "platform-token").read_text().strip()
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=30)

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Send a request to the management API; a relative path is below the organization."""
        whole = path if path.startswith("/v1/") else f"/v1/organizations/local{path}"
        return self.http.request(method, whole, json=body, headers={"authorization": f"Bearer {self.token}"})

    def manage(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that must succeed; return the parsed response."""
        answer = self.ask(method, path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def create(self, name: str = "") -> str:
        """Create a database; return its name."""
        name = name or "d" + uuid.uuid4().hex[:12]
        self.manage("POST", "/databases", {"name": name, "group": "default"})
        return name

    def mint(self, name: str, query: str = "") -> str:
        """Create a token for a database."""
        return str(self.manage("POST", f"/databases/{name}/auth/tokens{query}")["jwt"])

    def node(self, code: str) -> str:
        """The address of the node of a location."""
        ports = json.loads((self.folder / "nodes" / "ports.json").read_text())
        return f"http://127.0.0.1:{ports[code][0]}"

    def address(self, name: str, code: str = "ams") -> str:
        """The address of a database at a location."""
        instances = self.manage("GET", f"/databases/{name}/instances")["instances"]
        return next(instance["url"] for instance in instances if instance["name"] == code)

    def open(self, name: str, code: str = "ams", token: str = "") -> Database:
        """Connect to a database at a location."""
        return pipemagic.connect(self.address(name, code), token or self.mint(name), timeout=10)

    def states(self, group: str = "default") -> dict[str, str]:
        """The states of the locations of a group."""
        status = self.manage("GET", f"/groups/{group}")["group"]["status"]["locations"]
        return {replica["name"]: replica["status"] for replica in status}

    def pids(self) -> dict[str, int]:
        """The process ids of the running nodes, by location."""
        return {
            pid_and_code[1]: pid_and_code[0]
            for pid_and_code in nodes_of(self.folder)
        }  # fmt: skip

    def kill_node(self, code: str) -> None:
        """Kill a node with SIGKILL and wait until the service reports it."""
        os.kill(self.pids()[code], signal.SIGKILL)
        until(lambda: self.states()[code] == "down", f"the service does not notice that the node {code} has ended")

    def restart_node(self, code: str) -> None:
        """Start a node that has ended, and wait until it is up to date."""
        for action in ("pause", "resume"):
            self.manage("POST", f"/groups/default/locations/{code}/{action}")
        until(lambda: self.states()[code] == "ok", f"the node {code} was not started again")

    def kill(self) -> None:
        """Kill the service with SIGKILL."""
        self.process.kill()
        self.close()

    @property
    def log(self) -> str:
        """The logs of the service and its nodes."""
        return "".join(path.read_text("utf-8", "replace") for path in self.folder.rglob("*.log"))

    def close(self) -> None:
        """End the service."""
        self.http.close()
        stop(self.process)
        assert self.process.stdout is not None
        self.process.stdout.close()


def nodes_of(folder: Path) -> list[tuple[int, str]]:
    """Return the sqld processes with data below the folder: process id and location."""
    found = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if "--db-path" in command:
            data = Path(command[command.index("--db-path") + 1])
            if data.is_relative_to(folder):
                found.append((process.pid, data.parent.name))
    return found
