"""Published packages for comparison, in a separate environment.

Each runs in a process that reads a line of JSON for each call to time. A package that cannot be installed, or fails, is
reported on stderr and omitted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any

from client_packages import CannotInstall, install_python

HERE = Path(__file__).parent
WORKER = HERE / "worker.py"
LIMIT = 600.0
"""Seconds that a call may take before its process is ended."""

# JupySQL reports every use to its authors, which takes time as well.
QUIET = {"PLOOMBER_STATS_ENABLED": "false", "DO_NOT_TRACK": "1"}


class PeerError(Exception):
    """A package raised an error, or its process ended."""


class Worker:
    """A process that runs one package."""

    def __init__(self, command: Sequence[str | Path], *, limit: float = LIMIT) -> None:
        self._limit = limit
        self._process = subprocess.Popen(
            command, env={**os.environ, **QUIET}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def seconds(self, do: str, **members: Any) -> float:
        """Call a function of the worker; return the seconds that it reports. Raise `PeerError`."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        timer = Timer(self._limit, self._process.kill)
        timer.start()
        try:
            stdin.write(json.dumps({"do": do, **members}) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            raise PeerError(f"its process ended with status {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return float(answer["seconds"])

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        timer = Timer(self._limit, self._process.kill)
        timer.start()
        self._process.communicate()  # closes its input, which ends it
        timer.cancel()


class Peers:
    """The packages of requirements.txt in an environment below ``folder``, created at its first use."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @cached_property
    def _interpreter(self) -> Path | None:
        if self._folder is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            return install_python(self._folder, HERE / "requirements.txt")
        except CannotInstall as reason:
            print(f"without other packages: {reason}", file=sys.stderr)
            return None

    @contextmanager
    def working(self, packages: Iterable[str], begin: Callable[[Worker], object]) -> Iterator[dict[str, Worker]]:
        """Start a worker for each package; return those for which ``begin`` did not fail."""
        with ExitStack() as stack:
            workers = {}
            for package in packages if self._interpreter else ():
                worker = stack.enter_context(Worker([self._interpreter, WORKER, package]))
                try:
                    begin(worker)
                except PeerError as reason:
                    print(f"without {package}: {reason}", file=sys.stderr)
                else:
                    workers[package] = worker
            yield workers
