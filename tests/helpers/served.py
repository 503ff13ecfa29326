"""`pipemagic serve` as a process, and requests to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from pipemagic.service.limits import Limits, parse_size

ORGANIZATION = "/v1/organizations/local"
PATIENCE = 30.0  # seconds


@dataclass(eq=False)
class Served:
    """A running service: its process, address, data folder, and memory in bytes."""

    process: subprocess.Popen[bytes]
    url: str
    folder: Path
    max_memory: int
    """Its ``--max-memory``."""
    memory_at_start: int = 0
    """Its resident memory before the first request; 0 where it is not measured."""
    peak: int = 0
    """The peak of its resident memory, as far as it was measured."""

    def __post_init__(self) -> None:
        self.memory_at_start = self._memory("VmRSS")

    def reset_peak(self) -> None:
        """Begin to measure the peak anew."""
        self.peak = 0
        if sys.platform == "linux":
            Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # proc(5): resets the peak of resident memory

    def measure_peak(self) -> None:
        """Read the peak, unless the process has ended."""
        self.peak = max(self.peak, self._memory("VmHWM"))

    def _memory(self, name: str) -> int:
        if sys.platform != "linux" or self.process.poll() is not None:
            return 0
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{name}:\s*([0-9]+) kB$", status, re.MULTILINE)
        return int(found[1]) * 1024 if found else 0  # a process that is ending has none

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def platform_token(self) -> str:
        return (self.folder / "platform-token").read_text().strip()

    def manage(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Call the management API; ``path`` is below the organization unless it starts with ``/v1``."""
        url = self.url + (path if path.startswith("/v1") else ORGANIZATION + path)
        headers = {"authorization": f"Bearer {self.platform_token}", **options.pop("headers", {})}
        return self._http.request(method, url, headers=headers, **options)

    def metrics(self) -> str:
        """Return the page of metrics."""
        headers = {"authorization": f"Bearer {self.platform_token}"}
        return self._http.get(f"{self.url}/metrics", headers=headers).raise_for_status().text

    @cached_property
    def _http(self) -> httpx.Client:
        return httpx.Client(verify=False, timeout=PATIENCE)

    def create(self, name: str, group: str = "g") -> None:
        """Create a database and its group unless they exist."""
        if self.manage("GET", f"/groups/{group}").status_code == 404:
            self.manage("POST", "/groups", json={"name": group, "location": "ams"}).raise_for_status()
        if self.manage("GET", f"/databases/{name}").status_code == 404:
            self.manage("POST", "/databases", json={"name": name, "group": group}).raise_for_status()

    def token(self, name: str, **query: str) -> str:
        answer = self.manage("POST", f"/databases/{name}/auth/tokens", params=query)
        return str(answer.raise_for_status().json()["jwt"])

    def database(self, name: str) -> Database:
        """Create the database if necessary, and return a client of it."""
        self.create(name)
        return Database(self.url, self.token(name))

    def log(self) -> str:
        path = self.folder / "service.log"
        return path.read_text("utf-8", "replace") if path.exists() else ""


services: list[Served] = []
"""The services that `serve` has started; `peak_memory` removes those that have ended."""


class Database:
    """Sends pipelines to one database, over one persistent connection."""

    def __init__(self, url: str, token: str, host: str | None = None) -> None:
        headers = {"authorization": f"Bearer {token}"} | ({"host": host} if host else {})
        self.token = token
        self.http = httpx.Client(base_url=url, headers=headers, verify=False, timeout=PATIENCE)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def post(self, *texts: str, baton: str | None = None, close: bool = True) -> httpx.Response:
        requests: list[Any] = [{"type": "execute", "stmt": {"sql": text}} for text in texts]
        return self.http.post("/v3/pipeline", json={"baton": baton, "requests": requests + [{"type": "close"}] * close})

    def run(self, *texts: str, baton: str | None = None, close: bool = True) -> Any:
        """Run statements that must succeed; return the body of the response."""
        answer = self.post(*texts, baton=baton, close=close)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert all(result["type"] == "ok" for result in body["results"]), answer.text
        return body

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        result = self.run(sql)["results"][0]["response"]["result"]
        return [tuple(cell.get("value") for cell in row) for row in result["rows"]]

    def error(self, *texts: str) -> dict[str, str]:
        """Run statements, the last of which must fail; return its error."""
        answer = self.post(*texts)
        assert answer.status_code == 200, answer.text
        *before, last, _ = answer.json()["results"]
        assert all(result["type"] == "ok" for result in before), answer.text
        assert last["type"] == "error", answer.text
        error: dict[str, str] = last["error"]
        return error


@contextmanager
def serve(
    folder: Path,
    *options: str,
    prepare: Callable[[], None] | None = None,
    program: Sequence[str] = ("-m", "pipemagic"),
    command: str = "serve",
) -> Iterator[Served]:
    """Run the service over a folder; ``prepare`` runs in its process first. It is killed at the end.

    ``program`` are the interpreter's arguments in front of the command line; ``command`` is ``serve`` or
    ``class serve``.
    """
    process = subprocess.Popen(
        [sys.executable, *program, *command.split(), "--data", str(folder), *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=prepare,
    )  # fmt: skip
    assert process.stdout is not None
    served = None
    try:
        line = process.stdout.readline()
        assert line, f"the service did not start: it ended with status {process.wait()}"
        served = Served(process, json.loads(line)["url"], folder, _max_memory(options) or Limits().memory)
        services.append(served)
        yield served
    finally:
        if served is not None:
            served.measure_peak()
        process.kill()
        process.wait()
        process.stdout.close()
        if served is not None:
            served._http.close()


def _max_memory(options: Sequence[str]) -> int | None:
    return parse_size(options[options.index("--max-memory") + 1]) if "--max-memory" in options else None
