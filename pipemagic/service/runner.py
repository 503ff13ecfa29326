"""The service as a process: its data folder, port, runtime file, log, and an end within two seconds."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import re
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import uvicorn
from filelock import FileLock, Timeout

from pipemagic import __version__
from pipemagic.errors import ServiceError
from pipemagic.service.app import BODY_TIMEOUT, Shell
from pipemagic.service.control import Control, Leases
from pipemagic.service.core import Service
from pipemagic.service.files import make_private_folder, write_private
from pipemagic.service.layout import LOCK_FILE, LOG_FILE, PORT_FILE, RUNTIME_FILE

LOOPBACK = "127.0.0.1"
KEEP_ALIVE = 75  # seconds; clients drop idle connections before that, so they never meet a closing one
GRACE = 1  # seconds that running answers get at the end
DEADLINE = 1.8  # seconds after which the process ends, come what may; committed data is safe at any time
HEAP_LIMIT = 512 * 1024 * 1024  # bytes that SQLite may take: a row of many huge values is an error, not the end
MANY_FILES = 16384
LOG_LIMIT = 1_000_000  # bytes, looked at when the service starts

_LOG = logging.getLogger(__name__)
_SECRETS = re.compile(r"pmp_[\w-]{8,}|eyJ[\w-]+\.[\w-]+\.[\w-]*")


@dataclass(frozen=True)
class Settings:
    """How to run.

    ``port``: None takes the one of last time if it is free, else any; 0 takes any. ``linger``: seconds
    without a lease after which the service ends; None if it stays. ``temporary``: it ends when its standard
    input does, and removes its folder.
    """

    folder: Path
    port: int | None = None
    linger: float | None = None
    temporary: bool = False
    body_timeout: float = BODY_TIMEOUT


def run(settings: Settings, announce: Callable[[dict[str, Any]], None]) -> None:
    """Run the service until it is told to stop; ``announce`` gets url, organization and pid when it is ready.

    Raises `ServiceError` if the folder is in use by another service, or the port by anything. Sets the
    umask, the switch interval, SQLite's memory limit and the logging of this process, so a process runs one
    service only.
    """
    os.umask(0o077)
    # SQLite gives up the interpreter lock for every row: with the default of 5 ms it gets it back too late.
    sys.setswitchinterval(5e-5)
    apsw.hard_heap_limit(HEAP_LIMIT)
    _allow_many_files()
    make_private_folder(settings.folder)
    with ExitStack() as stack:
        if settings.temporary:
            stack.callback(shutil.rmtree, settings.folder, ignore_errors=True)
        stack.enter_context(_sole_owner(settings.folder))
        stack.enter_context(_logging(settings.folder / LOG_FILE))
        listener = stack.enter_context(_listen(settings.folder / PORT_FILE, settings.port))
        service = Service(settings.folder)
        stack.callback(service.close)
        _Process(settings, service, listener, announce).run()
        _LOG.info("stopped")


def _allow_many_files() -> None:
    """Take all file handles that this process may have: a stream needs three, and 1024 are a usual default."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MANY_FILES if hard == resource.RLIM_INFINITY else min(MANY_FILES, hard)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Process:
    """Ties the service, its shell and the HTTP server together."""

    def __init__(
        self, settings: Settings, service: Service, listener: socket.socket, announce: Callable[[dict[str, Any]], None],
    ) -> None:  # fmt: skip
        self._settings = settings
        self._service = service
        self._listener = listener
        self._announce = announce
        port = listener.getsockname()[1]
        self._url = f"http://{LOOPBACK}:{port}"
        self._about = {
            "url": self._url, "port": port, "pid": os.getpid(), "host": platform.node(), "version": __version__,
            "organization": service.catalog.organizations()[0].slug,
        }  # fmt: skip
        self._shell = Shell(service, body_limit=service.limits.body, body_timeout=settings.body_timeout)
        self._leases = Leases(settings.linger, self._idle)
        app = Control(self._shell, service.tokens, self._leases, self._stop, self._about)
        self._server = _Server(
            uvicorn.Config(
                app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False,
                server_header=False, proxy_headers=False, interface="asgi3",
                timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=GRACE,
            ),
            on_ready=self._ready, on_stopping=self._stopping,
        )  # fmt: skip

    def run(self) -> None:
        self._service.start()
        try:
            asyncio.run(self._server.serve(sockets=[self._listener]))
        finally:
            self._shell.close()

    def _ready(self) -> None:
        write_private(self._settings.folder / RUNTIME_FILE, json.dumps(self._about).encode())
        self._leases.start()
        if self._settings.temporary:
            loop = asyncio.get_running_loop()
            threading.Thread(target=self._follow_input, args=(loop,), name="pipemagic-input", daemon=True).start()
        _LOG.info("pipemagic %s at %s, process %d", __version__, self._url, os.getpid())
        self._announce({name: self._about[name] for name in ("url", "organization", "pid")})

    def _follow_input(self, loop: asyncio.AbstractEventLoop) -> None:
        """End with the starter: it holds the other end of the pipe, whatever becomes of it."""
        sys.stdin.buffer.read()
        with suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(self._stop)

    def _idle(self) -> None:
        _LOG.info("no lease for %g s", self._settings.linger)
        self._stop()

    def _stop(self) -> None:
        self._server.should_exit = True

    def _stopping(self) -> None:
        """Begin to end: nobody finds the service any more, and what runs is interrupted."""
        _LOG.info("stopping")
        timer = threading.Timer(DEADLINE, self._give_up)
        timer.daemon = True
        timer.start()
        _remove(self._settings.folder / RUNTIME_FILE)
        self._leases.end()
        self._shell.stop()

    def _give_up(self) -> None:
        _LOG.warning("still busy after %g s: the process ends here", DEADLINE)
        if self._settings.temporary:
            shutil.rmtree(self._settings.folder, ignore_errors=True)
        os._exit(0)


class _Server(uvicorn.Server):
    """uvicorn, with a call when it listens and another when it begins to stop, and no signal raised again."""

    def __init__(
        self, config: uvicorn.Config, *, on_ready: Callable[[], None], on_stopping: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stopping = on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.should_exit = True  # a signal is the usual way to end: the exit code is 0


@contextmanager
def _sole_owner(folder: Path) -> Iterator[None]:
    """Hold the data folder; `ServiceError` if another process does. The lock ends with the process."""
    lock = FileLock(folder / LOCK_FILE)
    path = folder / RUNTIME_FILE
    try:
        # One that is ending has no runtime file any more and lets go within two seconds.
        lock.acquire(timeout=0.5 if path.exists() else 5.0, poll_interval=0.02)
    except Timeout:
        raise ServiceError(
            f"the data folder {folder} is in use by the service {_whose(path)}",
            hint="connect to that one, end it with `pipemagic stop`, or name another folder with --data",
            code="FOLDER_IN_USE",
        ) from None
    try:
        _remove(path)  # of a service that was killed
        yield
    finally:
        _remove(path)
        lock.release()


def _whose(path: Path) -> str:
    try:
        about = json.loads(path.read_bytes())
        return f"at {about['url']} (process {about['pid']} on {about['host']})"
    except (OSError, ValueError, KeyError):
        return "of another process"


@contextmanager
def _listen(port_file: Path, port: int | None) -> Iterator[socket.socket]:
    """Listen on loopback; the port is noted, so that addresses survive a restart."""
    wanted = [port] if port is not None else [*_last_port(port_file), 0]
    for candidate in wanted:
        try:
            listener = _bound(candidate)
            break
        except OSError as error:
            failure = error
    else:
        raise ServiceError(
            f"cannot listen on port {port}: {failure.strerror}",
            hint="choose another one with --port, or --port 0 for any that is free", code="PORT_IN_USE",
        ) from failure  # fmt: skip
    with listener:
        write_private(port_file, str(listener.getsockname()[1]).encode())
        yield listener


def _last_port(port_file: Path) -> list[int]:
    try:
        port = int(port_file.read_text())
    except (OSError, ValueError):
        return []
    return [port] if 0 < port < 65536 else []


def _bound(port: int) -> socket.socket:
    # With the protocol left to the system, asyncio would not switch Nagle's delay (40 ms an answer) off.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":  # there SO_REUSEADDR would let others take the port over
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
    except BaseException:
        listener.close()
        raise
    return listener


@contextmanager
def _logging(path: Path) -> Iterator[None]:
    """Log to a file of the data folder, without secrets; an overlong one of before becomes ``.1``."""
    with suppress(FileNotFoundError):
        if path.stat().st_size > LOG_LIMIT:
            path.replace(path.with_name(path.name + ".1"))
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(_Redacting("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()


class _Redacting(logging.Formatter):
    """Takes out whatever looks like a token, wherever it came from."""

    def format(self, record: logging.LogRecord) -> str:
        return _SECRETS.sub("[token]", super().format(record))


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def stop_on_hang_up() -> None:
    """End properly when the terminal is closed, too."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
