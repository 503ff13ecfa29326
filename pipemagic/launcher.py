"""Find, start, lease and stop the embedded service.

One process serves a data folder for all kernels and programs that use it. Each of them holds a lease: an open
connection, which the operating system closes when the process ends. The service ends some time after the last lease
and the last request with a token.

Another process may listen at the port of a service that has ended. So on each connection the service first proves that
it knows the secret of the folder, and only then a token is sent, on the same connection.
"""

from __future__ import annotations

import hmac
import http.client
import json
import os
import platform
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from pipemagic.config import make_private_folder, private_lock
from pipemagic.errors import ServiceError
from pipemagic.service import files
from pipemagic.version import __version__

if TYPE_CHECKING:
    from pipemagic.client.address import Endpoint

FOLDER_VARIABLE = "PIPEMAGIC_DATA"

RESPONSE_TIMEOUT = 5.0  # seconds; the service is on this machine
START_TIMEOUT = 30.0  # seconds, for a very busy machine; usually a quarter of a second is enough
STOP_TIMEOUT = 5.0  # seconds; the service ends within two
PROBE_TIMEOUT = 1.0  # seconds, for other processes that test the lock

_MAIN = Path(files.__file__).with_name("__main__.py")
_CONNECTION_ERRORS = (OSError, http.client.HTTPException)


class _Child(subprocess.Popen[str]):
    """A process that may outlive this one."""

    def __del__(self) -> None:
        """Do not warn that the process is still running."""


_started: list[_Child] = []  # polled until they end, possibly long after their leases


@dataclass(frozen=True)
class LocalService:
    """A running service on this machine. ``url`` is its address, ``organization`` a slug.

    ``public_url`` is its address for other machines, None if it has none; ``idle_timeout`` the seconds after its last
    use (a lease, or a request with a token) at which it ends, None if it stays.
    """

    url: str
    organization: str
    version: str
    folder: Path
    public_url: str | None = None
    idle_timeout: float | None = None

    def platform_token(self) -> str:
        """Return the token for its management API."""
        return (self.folder / files.PLATFORM_TOKEN_FILE).read_text("ascii").strip()


class Lease:
    """Keeps a service running until it is closed, or until this process ends.

    ``started`` is True if the service was started for it.
    """

    def __init__(
        self, service: LocalService, alive: Callable[[], bool], release: Callable[[], None], *, started: bool
    ) -> None:
        self.service, self.started = service, started
        self._alive = alive
        self._release = weakref.finalize(self, release)

    @property
    def alive(self) -> bool:
        """Whether the service is still connected; nothing is sent."""
        return self._release.alive and self._alive()

    def close(self) -> None:
        """Release the lease; later calls do nothing."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lease of {self.service.url}{'' if self.alive else ', ended'}>"


def default_folder() -> Path:
    """Return the data folder: ``PIPEMAGIC_DATA``, or the platform's folder for a user's data."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named).expanduser().absolute()
    return platform_folder()


def platform_folder() -> Path:
    """Return the data folder without ``PIPEMAGIC_DATA``: the platform's folder for a user's data."""
    import platformdirs

    return platformdirs.user_data_path("pipemagic", appauthor=False)


def find(folder: Path | None = None) -> LocalService | None:
    """Return the running service of a folder on this machine, or None; start and change nothing.

    Raise `ServiceError` for a folder that other users can write to, or that contains their files, and for a process
    that does not prove that it is the service.
    """
    found = _running(_absolute(folder))
    with suppress(*_CONNECTION_ERRORS):
        if found is not None:
            _connect(found).close()
            return found
    return None


def check(folder: Path | None = None) -> LocalService | None:
    """Return the running service of a folder, or None; do not start one.

    Raise `ServiceError` for a service that does not respond or has another version, and the errors of `find`.
    """
    folder = _absolute(folder)
    found = _read_runtime_file(folder)
    if not folder.is_dir() or not _is_locked(folder):
        return None
    if found is None:
        hint = f"read {folder / files.LOG_FILE}; the service may be on another machine that shares the folder"
        raise ServiceError(f"a service has locked the data folder {folder}, but its address is unknown", hint=hint)
    _check_version(found)
    try:
        _connect(found).close()
    except _CONNECTION_ERRORS as error:
        raise _failure(found, f"does not respond: {error}") from None
    return found


def ensure(
    folder: Path | None = None, *, while_starting: Callable[[], None] = lambda: None, idle_timeout: float | None = None
) -> Lease:
    """Lease the service of a folder; start it if it is not running.

    ``while_starting`` is called while it starts. If it is started, it ends ``idle_timeout`` seconds after its last use,
    by default 20. Raise `ServiceError` if it cannot be started or has another version.
    """
    folder = _absolute(folder)
    _poll_children()
    if (lease := _lease_running(folder)) is not None:
        return lease
    make_private_folder(folder)
    try:
        starting = private_lock(folder / files.START_LOCK_FILE).acquire(START_TIMEOUT)
    except TimeoutError:
        message = f"another process has been starting the service for more than {START_TIMEOUT:g} s"
        hint = f"read {folder / files.LOG_FILE}, then try again"
        raise ServiceError(message, hint=hint, code="START_TIMEOUT") from None
    with starting:
        if (lease := _lease_running(folder)) is not None:
            return lease
        options = () if idle_timeout is None else ("--idle-timeout", str(idle_timeout))
        _, service = _spawn(folder, *options, stdin=subprocess.DEVNULL, callback=while_starting)
        return _open_lease(service, started=True)


def temporary(*options: str, while_starting: Callable[[], None] = lambda: None) -> Lease:
    """Start a service with a new folder; both are removed when the lease or this process ends.

    The ``options`` are words of a ``pipemagic serve`` line: --limits, --here or --simulate-latency.
    ``while_starting`` is called while it starts.
    """
    _poll_children()
    folder = Path(tempfile.mkdtemp(prefix="pipemagic-"))
    try:
        child, started = _spawn(folder, "--temporary", *options, stdin=subprocess.PIPE, callback=while_starting)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    owner = os.getpid()

    def release() -> None:
        if os.getpid() != owner:  # the lease belongs to the process that forked this one
            return
        assert child.stdin is not None
        child.stdin.close()  # the service ends with its standard input
        try:
            child.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        shutil.rmtree(folder, ignore_errors=True)  # a killed service has not removed it

    return Lease(started, lambda: child.poll() is None, release, started=True)


def stop(folder: Path | None = None) -> LocalService | None:
    """Stop the service of a folder and wait for its end; return it, None if none was running."""
    found = _running(_absolute(folder))
    if found is None:
        return None
    problem: Exception | None = None
    try:
        with closing(_connect(found)) as connection:
            _request(connection, found, "POST", files.STOP_PATH, found.platform_token()).read()
    except _CONNECTION_ERRORS as error:  # it may be stopping
        problem = error
    try:
        with private_lock(found.folder / files.LOCK_FILE).acquire(timeout=STOP_TIMEOUT, poll_interval=0.02):
            pass  # the service released the lock: it has ended
    except OSError as error:  # also after the timeout
        raise _failure(found, f"does not stop: {problem or error}", code="STOP") from None
    _poll_children()
    return found


def endpoint_of(service: LocalService) -> Endpoint:
    """Return the address of a service for clients, to which it has to prove on each connection that it is the one."""
    from pipemagic.client.address import parse_address

    return replace(parse_address(service.url), challenge=partial(_challenge, service))


# -- find


def _running(folder: Path) -> LocalService | None:
    """Return the service that has locked a folder, by its runtime file; None if there is none.

    It may be stopping, or another process may listen at its port.
    """
    found = _read_runtime_file(folder)
    return found if found is not None and _is_locked(folder) else None


def _absolute(folder: Path | None) -> Path:
    return folder.absolute() if folder else default_folder()


def _read_runtime_file(folder: Path) -> LocalService | None:
    """Return the address of the service; None without the file, or if another host of a shared home wrote it.

    Raise `ServiceError` if another user may have written it, or the token.
    """
    try:
        if folder.is_dir():  # it is not created
            make_private_folder(folder)
            files.check_lock_files(folder)
        about = json.loads((folder / files.RUNTIME_FILE).read_bytes())
        if about["host"] != platform.node():
            return None
        return LocalService(
            about["url"], about["organization"], about["version"], folder, about.get("public_url"),
            about.get("idle_timeout"),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_locked(folder: Path) -> bool:
    """Return True if a service is running, by its lock, since a pid may be reused.

    The test takes that lock for a moment. Only one process tests at a time, since its lock looks like that of a
    service.
    """
    tests, lock = private_lock(folder / files.PROBE_LOCK_FILE), private_lock(folder / files.LOCK_FILE)
    try:
        with tests.acquire(PROBE_TIMEOUT, poll_interval=0.005), lock.acquire(timeout=0):
            return False
    except TimeoutError:
        return True
    except OSError:
        return False


def _failure(found: LocalService, problem: str, code: str = "") -> ServiceError:
    hint = f"end the process with the pid in {found.folder / files.RUNTIME_FILE}"
    return ServiceError(f"the service at {found.url} {problem}", hint=hint, code=code)


def _check_version(found: LocalService) -> None:
    if found.version != __version__:
        message = f"the running service is pipemagic {found.version}, but this is pipemagic {__version__}"
        hint = "stop it with `pipemagic stop` or `%pipedb stop` and connect again; another environment started it"
        raise ServiceError(message, hint=hint, code="VERSION_MISMATCH")


# -- requests


def _challenge(service: LocalService) -> tuple[str, bytes]:
    """Return the path of a request for a proof, and the proof; raise OSError if the token cannot be read."""
    nonce = secrets.token_hex(32)
    return f"{files.PROOF_PATH}?nonce={nonce}", files.proof(service.folder, service.url, nonce)


def _connect(found: LocalService) -> http.client.HTTPConnection:
    """Connect to a service without a proxy; raise `ServiceError` unless it proves that it is the one of the folder."""
    try:
        path, proof = _challenge(found)
    except OSError as error:
        raise _failure(found, f"has no readable platform token: {error}") from None
    connection = http.client.HTTPConnection(found.url.removeprefix("http://"), timeout=RESPONSE_TIMEOUT)
    try:
        connection.connect()
        connection.auto_open = 0  # the proof is for this connection only
        connection.request("GET", path)
        response = connection.getresponse()
        if response.status == 503:
            raise _failure(found, f"returned {response.status} {response.reason}")
        if response.status != 200 or not hmac.compare_digest(response.read(len(proof) + 1), proof):
            raise _unproven(found)
    except BaseException:
        connection.close()
        raise
    return connection


def _unproven(found: LocalService) -> ServiceError:
    message = f"the process at {found.url} did not prove that it is the service; no token was sent"
    hint = (
        f"end the process with the pid in {found.folder / files.RUNTIME_FILE}, or the one that has "
        f"{found.folder / files.LOCK_FILE} open; or name another folder with PIPEMAGIC_DATA or --data"
    )
    return ServiceError(message, hint=hint, code="UNPROVEN")


def _request(
    connection: http.client.HTTPConnection, found: LocalService, method: str, path: str, token: str
) -> http.client.HTTPResponse:
    """Send a request on a connection of `_connect`; raise `ServiceError` unless the status of the response is 200."""
    connection.request(method, path, headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    if response.status != 200:
        raise _failure(found, f"returned {response.status} {response.reason}")
    return response


def _lease_running(folder: Path) -> Lease | None:
    """Lease the running service of a folder; return None if there is none, or if it is stopping."""
    found = _running(folder)
    with suppress(*_CONNECTION_ERRORS):
        if found is not None:
            return _open_lease(found, started=False)
    return None


def _open_lease(found: LocalService, *, started: bool) -> Lease:
    _check_version(found)
    connection = _connect(found)
    try:
        response = _request(connection, found, "GET", files.LEASE_PATH, found.platform_token())
        held = connection.sock
        response.readline()  # the lease counts from now on
        held.settimeout(0)
    except BaseException:
        connection.close()
        raise

    def alive() -> bool:
        try:
            held.recv(1, socket.MSG_PEEK)
        except OSError as error:
            return isinstance(error, BlockingIOError)  # nothing else is sent during the lease
        return False

    return Lease(found, alive, connection.close, started=started)


# -- start


def _spawn(folder: Path, *options: str, stdin: int, callback: Callable[[], None]) -> tuple[_Child, LocalService]:
    """Start a service that shares only pipes with this process, and wait until it is ready."""
    detached: dict[str, Any] = {"start_new_session": True}  # without Ctrl-C and hang-up of this terminal
    if sys.platform == "win32":
        detached = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    log = folder / files.LOG_FILE
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as errors:
        child = _Child(
            [sys.executable, "-P", str(_MAIN), "--data", str(folder), *options],
            stdin=stdin, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder.anchor, **detached,
        )  # fmt: skip
    _started.append(child)
    assert child.stdout is not None
    with child.stdout as pipe:
        callback()
        message = _read_message(child, pipe)
    if "url" in message:
        idle_timeout = message.get("idle_timeout")
        service = LocalService(message["url"], message["organization"], __version__, folder, idle_timeout=idle_timeout)
        return child, service
    if child.stdin is not None:
        child.stdin.close()
    child.wait()
    raise ServiceError(
        message.get("error", "cannot start the embedded service"),
        hint=message.get("hint", f"read the end of {log}"), code=message.get("code", ""),
    )  # fmt: skip


def _read_message(child: _Child, pipe: IO[str]) -> dict[str, Any]:
    """Return the JSON object that the service prints first; an empty one if it ends or is killed after a timeout."""
    timer = threading.Timer(START_TIMEOUT, child.kill)
    timer.start()
    try:
        line = next((line for line in pipe if line.startswith("{")), "{}")  # skip output of sitecustomize
        return dict(json.loads(line))
    finally:
        timer.cancel()


def _poll_children() -> None:
    """Remove services that have ended; the poll also removes their processes from the system."""
    _started[:] = [child for child in _started if child.poll() is None]
