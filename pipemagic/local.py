"""Finds, starts, leases and stops the embedded service: the only meeting point of client and service.

One process serves a data folder, for all kernels and programs that use it. Each of them holds a lease, an
open connection that the operating system closes when its process ends; the service ends a while after the
last lease is gone. Nothing here needs a thread.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from pipemagic import __version__, service
from pipemagic.errors import ServiceError
from pipemagic.service.files import make_private_folder
from pipemagic.service.layout import (
    LEASE_PATH,
    LOCK_FILE,
    LOG_FILE,
    LOOK_LOCK_FILE,
    PLATFORM_TOKEN_FILE,
    RUNTIME_FILE,
    START_LOCK_FILE,
    STOP_PATH,
)

FOLDER_VARIABLE = "PIPEMAGIC_DATA"

ANSWER_TIMEOUT = 5.0  # seconds; the service is on this machine
START_TIMEOUT = 30.0  # seconds, for a machine that is very busy; usually it takes a quarter of one
END_TIMEOUT = 5.0  # seconds; the service ends within two
LOOK_TIMEOUT = 1.0  # seconds, for others who look; each takes a moment

_MAIN = Path(service.__file__).with_name("__main__.py")
_NO_ANSWER = (OSError, http.client.HTTPException)


class _Child(subprocess.Popen[str]):
    """A process that may outlive this one, which is nothing to warn of."""

    def __del__(self) -> None:
        """Do without the warning that the process is still running."""


_started: list[_Child] = []  # to be reaped when they end, which may be long after their leases


@dataclass(frozen=True)
class LocalService:
    """A running service on this machine. ``url`` is its own address, ``organization`` a slug.

    ``public_url`` is its address for other machines, None if it has none.
    """

    url: str
    organization: str
    version: str
    folder: Path
    public_url: str | None = None

    def platform_token(self) -> str:
        """Read the token for its management API."""
        return (self.folder / PLATFORM_TOKEN_FILE).read_text("ascii").strip()


class Lease:
    """Keeps a service running until it is closed, or until this process ends, however it ends."""

    def __init__(self, service: LocalService, alive: Callable[[], bool], release: Callable[[], None]) -> None:
        self.service = service
        self._alive = alive
        self._release = weakref.finalize(self, _only_in_process(os.getpid(), release))

    @property
    def alive(self) -> bool:
        """Whether the service is still there; looks only at this end of the connection."""
        return self._release.alive and self._alive()

    def close(self) -> None:
        """Give the lease back; twice is fine."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lease of {self.service.url}{'' if self.alive else ', ended'}>"


def default_folder() -> Path:
    """Give the data folder: ``PIPEMAGIC_DATA``, or the platform's place for a user's data."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named).expanduser().absolute()
    import platformdirs

    return platformdirs.user_data_path("pipemagic", appauthor=False)


def find(folder: Path | None = None) -> LocalService | None:
    """Give the service that runs on this machine over the folder, or None. Starts and changes nothing."""
    folder = _absolute(folder)
    found = _read_runtime_file(folder)
    if found is None or not _is_held(folder):
        return None
    try:
        _request(found, "GET", "/health", authorized=False)
    except _NO_ANSWER:
        return None
    return found


def check(folder: Path | None = None) -> LocalService | None:
    """Look at the service over the folder: give it if it runs, answers and is of this version, None if none runs.

    Starts nothing. Raises `ServiceError` for one that runs and does not do its work.
    """
    folder = _absolute(folder)
    found = _read_runtime_file(folder)
    if not folder.is_dir() or not _is_held(folder):
        return None
    if found is None:
        raise ServiceError(
            f"a service holds the data folder {folder} and does not say where it is",
            hint=f"look at {folder / LOG_FILE}; it may be one of another machine that shares the folder",
        )
    try:
        _request(found, "GET", "/health", authorized=False)
    except _NO_ANSWER as error:
        raise ServiceError(
            f"the service at {found.url} does not answer: {error}",
            hint=f"end the process whose pid is in {folder / RUNTIME_FILE}",
        ) from None
    _check_version(found)
    return found


def ensure(folder: Path | None = None, *, meanwhile: Callable[[], None] = lambda: None) -> Lease:
    """Lease the service over the folder; start it if it does not run.

    ``meanwhile`` is called while it starts: a caller can do then what takes as long. Raises `ServiceError` if it cannot
    be started or is of another version of pipemagic.
    """
    folder = _absolute(folder)
    _reap()
    found = find(folder)
    if found is not None:
        try:
            return _lease(found)
        except _NO_ANSWER:
            pass  # it was about to end
    make_private_folder(folder)
    from filelock import FileLock, Timeout

    try:
        with FileLock(folder / START_LOCK_FILE, timeout=START_TIMEOUT):
            return _lease(find(folder) or _spawn(folder, stdin=subprocess.DEVNULL, meanwhile=meanwhile)[1])
    except Timeout:
        raise ServiceError(
            f"another process has been starting the service for more than {START_TIMEOUT:g} s",
            hint=f"look at {folder / LOG_FILE}, then try again", code="START_TIMEOUT",
        ) from None  # fmt: skip


def temporary(*, meanwhile: Callable[[], None] = lambda: None) -> Lease:
    """Start a service of one's own, with an empty folder; both are gone when the lease or this process ends.

    ``meanwhile`` as for `ensure`.
    """
    _reap()
    folder = Path(tempfile.mkdtemp(prefix="pipemagic-"))
    try:
        child, started = _spawn(folder, "--temporary", stdin=subprocess.PIPE, meanwhile=meanwhile)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise

    def release() -> None:
        assert child.stdin is not None
        child.stdin.close()  # tells it to end
        try:
            child.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        shutil.rmtree(folder, ignore_errors=True)  # what a killed one could not remove

    return Lease(started, lambda: child.poll() is None, release)


def stop(folder: Path | None = None) -> bool:
    """End the service over the folder, whoever uses it, and wait for its end; False if there was none."""
    folder = _absolute(folder)
    found = find(folder)
    if found is None:
        return False
    from filelock import FileLock, Timeout

    try:
        _request(found, "POST", STOP_PATH)
        with FileLock(folder / LOCK_FILE).acquire(timeout=END_TIMEOUT, poll_interval=0.02):
            pass  # the service let go of it: it has ended
    except (*_NO_ANSWER, Timeout) as error:
        raise ServiceError(
            f"the service at {found.url} does not end: {error}",
            hint=f"end the process whose pid is in {folder / RUNTIME_FILE}", code="STOP",
        ) from None  # fmt: skip
    _reap()
    return True


# -- looking


def _absolute(folder: Path | None) -> Path:
    return folder.absolute() if folder else default_folder()


def _read_runtime_file(folder: Path) -> LocalService | None:
    """Read where the service says it is; None without one, and for one on another host of a shared home."""
    try:
        about = json.loads((folder / RUNTIME_FILE).read_bytes())
        if about["host"] != platform.node():
            return None
        return LocalService(
            about["url"], about["organization"], about["version"], folder, about.get("public_url")
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_held(folder: Path) -> bool:
    """Tell whether a service runs: it holds its lock as long as it lives, and a pid may be another's by now.

    To look is to take that lock for a moment. One looks at a time, else two would take each other for the service.
    """
    from filelock import FileLock, Timeout

    others, lock = FileLock(folder / LOOK_LOCK_FILE), FileLock(folder / LOCK_FILE)
    try:
        with others.acquire(LOOK_TIMEOUT, poll_interval=0.005), lock.acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False


# -- asking


def _connect(found: LocalService) -> http.client.HTTPConnection:
    """Connect straight to the port: no proxy, and nothing that reads the environment."""
    return http.client.HTTPConnection(found.url.removeprefix("http://"), timeout=ANSWER_TIMEOUT)


def _authorization(found: LocalService) -> dict[str, str]:
    return {"Authorization": f"Bearer {found.platform_token()}"}


def _request(found: LocalService, method: str, path: str, *, authorized: bool = True) -> None:
    connection = _connect(found)
    try:
        connection.request(method, path, headers=_authorization(found) if authorized else {})
        answer = connection.getresponse()
        answer.read()
        _expect_ok(answer, found)
    finally:
        connection.close()


def _lease(found: LocalService) -> Lease:
    _check_version(found)
    connection = _connect(found)
    try:
        connection.request("GET", LEASE_PATH, headers=_authorization(found))
        answer = connection.getresponse()
        _expect_ok(answer, found)
        answer.readline()
    except BaseException:
        connection.close()
        raise

    held = connection.sock
    held.settimeout(0)

    def alive() -> bool:
        try:
            held.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True  # nothing more is sent as long as the lease lasts
        except OSError:
            pass
        return False

    def release() -> None:
        answer.close()
        connection.close()

    return Lease(found, alive, release)


def _expect_ok(answer: http.client.HTTPResponse, found: LocalService) -> None:
    if answer.status != 200:
        raise ServiceError(
            f"the service at {found.url} answered {answer.status} {answer.reason}",
            hint=f"end it with `pipemagic stop`, and look at {found.folder / LOG_FILE}",
        )


def _check_version(found: LocalService) -> None:
    if found.version != __version__:
        raise ServiceError(
            f"the running service is of pipemagic {found.version}, this is pipemagic {__version__}",
            hint="end it with `pipemagic stop` or `%pipedb stop` and connect again; another environment started it",
            code="VERSION_MISMATCH",
        )


# -- starting


def _spawn(folder: Path, *options: str, stdin: int, meanwhile: Callable[[], None]) -> tuple[_Child, LocalService]:
    """Start a service that shares nothing with this process but the pipes asked for, and wait until it is ready."""
    detached: dict[str, Any] = {"start_new_session": True}  # no Ctrl-C, no hang-up of a terminal
    if sys.platform == "win32":
        detached = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    log = folder / LOG_FILE
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as errors:
        child = _Child(
            [sys.executable, "-P", str(_MAIN), "--data", str(folder), *options],
            stdin=stdin, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder.anchor, **detached,
        )  # fmt: skip
    _started.append(child)
    assert child.stdout is not None
    with child.stdout as pipe:
        meanwhile()
        said = _first_line(child, pipe)
    if "url" in said:
        return child, LocalService(said["url"], said["organization"], __version__, folder)
    if child.stdin is not None:
        child.stdin.close()
    child.wait()
    raise ServiceError(
        said.get("error", "the embedded service could not be started"),
        hint=said.get("hint", f"its last words are in {log}"), code=said.get("code", ""),
    )  # fmt: skip


def _first_line(child: _Child, pipe: IO[str]) -> dict[str, Any]:
    """Wait for the child's first line; nothing if it died or took too long (then it is killed)."""
    timer = threading.Timer(START_TIMEOUT, child.kill)
    timer.daemon = True
    timer.start()
    try:
        for line in pipe:
            if line.startswith("{"):  # not what some site customization prints
                said: dict[str, Any] = json.loads(line)
                return said
        return {}
    finally:
        timer.cancel()


def _reap() -> None:
    """Forget the started services that have ended; asking for their exit code is what removes them."""
    _started[:] = [child for child in _started if child.poll() is None]


def _only_in_process(pid: int, release: Callable[[], None]) -> Callable[[], None]:
    """Make a call that does nothing in a forked child: the lease is the parent's."""

    def release_here() -> None:
        if os.getpid() == pid:
            release()

    return release_here
