"""The limits of a Binder container for a tree of processes, and what the tree uses.

The container of a visitor has one core and 1 GB of memory. Here the processes share one core with the browser, which on
Binder has a machine of its own. The memory is limited by a control group if this user may create one; its peak is
measured in any case.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil

MEMORY = 1 << 30  # bytes


class Core:
    """The one core of this process and of all that it starts."""

    def __init__(self) -> None:
        self.number = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {self.number})

    def used_by_others(self) -> float:
        """Return how long other programs used the core, in seconds since some moment in the past."""
        times = psutil.cpu_times(percpu=True)[self.number]
        this = psutil.Process()
        return sum(times) - times.idle - times.iowait - sum(map(_cpu, [this, *this.children(recursive=True)]))


def _groups_of_this_process() -> Iterator[tuple[Path, str]]:
    """Yield the memory groups of this process, of version 1 and 2, with the name of the file for the limit."""
    for line in Path("/proc/self/cgroup").read_text("ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            yield Path(f"/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"
        elif not controllers:
            yield Path(f"/sys/fs/cgroup{path}"), "memory.max"


@contextmanager
def memory_group() -> Iterator[Path | None]:
    """Create a control group with the limit, or yield None where this is not possible."""
    group = _create_group()
    try:
        yield group
    finally:
        if group:
            with suppress(OSError):  # its last process may be ending
                group.rmdir()


def _create_group() -> Path | None:
    for parent, limit in _groups_of_this_process():
        group = parent / f"binder-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(MEMORY), "ascii")
        except OSError:
            group.rmdir()
            continue
        return group
    return None


def entry(group: Path | None) -> Callable[[], object] | None:
    """Return what a new process does first: it joins the group."""
    return partial((group / "cgroup.procs").write_text, "0", "ascii") if group else None


def killed(group: Path) -> int:
    """Return how many processes of the group were killed because the limit was reached."""
    for name in ("memory.oom_control", "memory.events"):
        if (group / name).exists():
            counts = dict(line.split() for line in (group / name).read_text("ascii").splitlines())
            return int(counts["oom_kill"])
    return 0


class Container:
    """The processes below the server, and the peak of their memory (PSS: shared pages are counted once)."""

    def __init__(self, server: subprocess.Popen[bytes]) -> None:
        self.server = psutil.Process(server.pid)
        self.peak = 0
        self._ended = threading.Event()

    def processes(self, part: str = "") -> list[psutil.Process]:
        """Return the processes, or those with this text in their command line."""
        found = []
        with suppress(psutil.NoSuchProcess):  # the server ended
            for process in [self.server, *self.server.children(recursive=True)]:
                with suppress(psutil.Error):
                    if part in " ".join(process.cmdline()):
                        found.append(process)
        return found

    def cpu(self) -> float:
        """Return the processor time that the processes used, in seconds."""
        return sum(map(_cpu, self.processes()))

    def end(self) -> None:
        """End the server, and wait for what it started."""
        rest = self.processes()
        self.server.terminate()
        for process in psutil.wait_procs(rest, 30)[1]:
            process.kill()
        psutil.wait_procs(rest, 5)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the memory several times a second."""
        thread = threading.Thread(target=self._measure)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _measure(self) -> None:
        while not self._ended.wait(0.25):
            self.peak = max(self.peak, sum(map(_memory, self.processes())))


def _memory(process: psutil.Process) -> int:
    with suppress(psutil.Error):  # it ended meanwhile
        return int(process.memory_full_info().pss)
    return 0


def _cpu(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        return sum(process.cpu_times()[:4])  # with that of its processes that ended
    return 0.0
