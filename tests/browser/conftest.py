"""Fixtures of the tests with a browser."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATIENCE = 900  # seconds: many times the duration of the longest script
END = 60  # seconds for the end of chromium and JupyterLab


class Host:
    """The process that runs the scripts (see host.py); replaced if it has ended."""

    def __init__(self, chromium: str, folder: Path) -> None:
        self._chromium, self._log = chromium, folder / "host.log"
        self._process: subprocess.Popen[str] | None = None

    def run(self, script: str, *arguments: object) -> list[str]:
        """Run a script with the path of chromium and the arguments; return the lines that it prints."""
        if self._process is None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(PATIENCE, _kill, [process])
        timer.start()
        try:
            process.stdin.write(json.dumps([script, *map(str, arguments)]) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if not answer:
            self.close()
            raise AssertionError(f"{script} took too long, or its process ended:\n{self._log.read_text()}")
        printed, error = json.loads(answer)
        if error is not None:
            self.close()  # chromium or JupyterLab may have ended; the next script gets new ones
            raise AssertionError(printed + error)
        return str(printed).splitlines()

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("a") as log:
            return subprocess.Popen(
                [sys.executable, str(HERE / "host.py"), self._chromium],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )  # fmt: skip

    def close(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        with process:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(END)
            except subprocess.TimeoutExpired:
                _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the process and its children."""
    os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def host(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(chromium, tmp_path_factory.mktemp("host"))
    yield host
    host.close()


@pytest.fixture
def run(host: Host):
    """Run a script of this folder in the host process (see `Host.run`)."""
    return host.run
