"""One sqld process, kept going: started, watched, started again when it dies, and ended with this process.

A keeper (a few lines of shell) starts it and holds one end of a pipe. When this process ends, however it ends,
the pipe closes and the keeper kills the node. The node itself holds a lock on its folder as long as it lives,
so that its data never has two. What it says goes to its log: it would stop at a pipe that nobody empties.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pipemagic.errors import ServiceError
from pipemagic.service.files import make_private_folder
from pipemagic.service.sqld.binary import NOT_FOR_WINDOWS, NoSqld

log = logging.getLogger(__name__)

LOCK_PATIENCE = 10.0
"""Seconds to wait for a node of a service before, which ends within moments of it."""
FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
"""Seconds before a node that died is started again; twice as many each time it dies at once."""
STEADY = 20.0
"""Seconds after which a node counts as running well."""
LOG_LIMIT = 1_000_000
"""Bytes of a node's log, looked at when it is started."""

_KEEPER = """
exec 3<&0
"$@" </dev/null >&2 3<&- & node=$!
echo $node
exec >/dev/null
{ cat >/dev/null; kill -9 $node; } 2>/dev/null <&3 &
exec 3<&-
wait $node
"""


@dataclass(frozen=True)
class Command:
    """How to start a node: its arguments, what to add to its environment, and its folder."""

    name: str
    arguments: tuple[str, ...]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict, repr=False)


class NodeProcess:
    """Keeps one node going, from `start` to `close`; `pause` and `resume` take it down and up again."""

    def __init__(self, command: Command, answers: Callable[[], bool]) -> None:
        self.command = command
        self.starts = 0
        self._answers = answers
        self._wanted = True
        self._closing = False
        self._changed = threading.Condition()
        self._keeper: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._thread = threading.Thread(target=self._keep, name=f"pipemagic-{command.name}", daemon=True)

    @property
    def pid(self) -> int:
        """The process id of the node that was started last; 0 before."""
        return self._pid

    @property
    def log(self) -> Path:
        """Where it logs."""
        return self.command.folder / "sqld.log"

    def start(self) -> None:
        """Start it; `ServiceError` if another process holds its folder."""
        make_private_folder(self.command.folder)
        with _lock(self.command.folder):
            pass  # one of a service that was killed is gone by now
        self._thread.start()

    def wait(self, patience: float) -> None:
        """Wait until it answers; `ServiceError`, with the end of its log, if it does not within that many seconds."""
        end = time.monotonic() + patience
        while not self._answers():
            if time.monotonic() > end or self.starts > 3:
                raise ServiceError(
                    f"the node {self.command.name} does not start: {self._last_words()}",
                    hint=f"see {self.log}; if its port is taken, end the program that has it", code="NODE_DOWN",
                )  # fmt: skip
            time.sleep(0.02)

    def pause(self) -> None:
        """Take it down; it stays down until `resume`."""
        self._want(False)

    def resume(self) -> None:
        """Let it run again."""
        self._want(True)

    def restart(self) -> None:
        """End it, so that it is started again."""
        with self._changed:
            self._end()

    def close(self) -> None:
        """End it and wait for its end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._end()
        if self._thread.is_alive():
            self._thread.join()

    def _want(self, wanted: bool) -> None:
        with self._changed:
            self._wanted = wanted
            self._changed.notify_all()
            if not wanted:
                self._end()

    def _end(self) -> None:
        """Close the keeper's pipe; what the node has acknowledged is safe."""
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()

    def _keep(self) -> None:
        wait = FIRST_WAIT
        while self._due():
            began = time.monotonic()
            try:
                self._spawn()
                self._outlive()
            except (OSError, ServiceError):
                log.exception("the node %s cannot be started", self.command.name)
            if time.monotonic() - began > STEADY:
                wait = FIRST_WAIT
            with self._changed:
                if self._closing or not self._wanted:
                    continue
                log.warning("the node %s ended; it is started again in %g s", self.command.name, wait)
                self._changed.wait_for(lambda: self._closing, wait)
            wait = min(LONGEST_WAIT, 2 * wait)

    def _due(self) -> bool:
        """Wait until the node is wanted; False when all is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._closing)
            return not self._closing

    def _spawn(self) -> None:
        with self._changed:
            if self._closing or not self._wanted:
                return
            _roll(self.log)
            with _lock(self.command.folder) as lock, self.log.open("ab") as output:
                self._keeper = subprocess.Popen(
                    ["/bin/sh", "-c", _KEEPER, "keeper", *self.command.arguments],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, pass_fds=(lock.fileno(),),
                    env=_inherited() | self.command.environment, start_new_session=True,
                )  # fmt: skip
            assert self._keeper.stdout is not None
            self._pid = int(self._keeper.stdout.readline() or 0)
            self.starts += 1
        log.info("the node %s is process %d", self.command.name, self._pid)

    def _outlive(self) -> None:
        keeper = self._keeper
        if keeper is None or keeper.stdout is None:
            return
        keeper.wait()
        with self._changed:
            self._end()
            keeper.stdout.close()

    def _last_words(self) -> str:
        try:
            lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        except OSError:
            return "it has no log"
        return lines[-1][:300] if lines else "it said nothing"


class _Lock:
    """A lock on a folder that a child process inherits, and holds until it ends."""

    _file: BinaryIO

    def __init__(self, folder: Path) -> None:
        if sys.platform == "win32":
            raise NoSqld(NOT_FOR_WINDOWS)
        import fcntl

        self._file = (folder / "node.lock").open("wb")
        end = time.monotonic() + LOCK_PATIENCE
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    self._file.close()
                    raise ServiceError(
                        f"another sqld runs in {folder}", hint="end it, or name another folder with --data",
                        code="FOLDER_IN_USE",
                    ) from None  # fmt: skip
                time.sleep(0.02)

    def fileno(self) -> int:
        return self._file.fileno()

    def __enter__(self) -> _Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _inherited() -> dict[str, str]:
    """Give this process's environment without sqld's own variables, which would add to the arguments."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SQLD_", "LIBSQL_"))}


def _lock(folder: Path) -> _Lock:
    return _Lock(folder)


def _roll(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(log.with_name(log.name + ".1"))
