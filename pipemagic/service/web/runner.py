"""The service as a process: its data folder, addresses, runtime file, log, and an end within two seconds."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import platform
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
from filelock import FileLock, Timeout

from pipemagic import __version__
from pipemagic.errors import ServiceError
from pipemagic.service.core import Service
from pipemagic.service.embedded.databases import UPLOAD_PATH
from pipemagic.service.files import make_private_folder, write_private
from pipemagic.service.hosting import LOOPBACK, Hosting
from pipemagic.service.layout import LOCK_FILE, LOG_FILE, PORT_FILE, RUNTIME_FILE
from pipemagic.service.limits import Limits
from pipemagic.service.web.access_log import AccessLog
from pipemagic.service.web.app import Shell
from pipemagic.service.web.certificates import Certificate
from pipemagic.service.web.control import Control, Leases
from pipemagic.service.web.gauges import Gauges
from pipemagic.service.web.listening import listen, listen_locally
from pipemagic.service.web.logs import logging_to
from pipemagic.service.web.receiving import BODY_TIMEOUT
from pipemagic.service.web.server import Listener, Server
from pipemagic.service.web.traffic import Traffic, Watched

if TYPE_CHECKING:
    from pipemagic.service.sqld.service import SqldService

DEADLINE = 1.8  # seconds after which the process ends, come what may; committed data is safe at any time
HEAP_LIMIT = 512 * 1024 * 1024  # bytes that SQLite may take: a row of many huge values is an error, not the end
MANY_FILES = 16384

_LOG = logging.getLogger(__name__)


def open_embedded(settings: Settings) -> Service:
    """Make the service whose databases are files of the data folder."""
    return Service(
        settings.folder, limits=settings.limits, domain=settings.hosting.domain, signup=settings.signup,
        cors=settings.cors, here=settings.here, simulate_latency=settings.simulate_latency,
    )  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How to run.

    ``port``: None takes the one of last time if it is free, else any; 0 takes any; for a shared service None is
    `Hosting.default_port`. ``linger``: seconds without a lease after which the service ends; None if it stays.
    ``temporary``: it ends when its standard input does, and removes its folder. ``signup``: whether strangers may make
    themselves accounts. ``connections``: how many may be open at once, None for any number. ``memory``: bytes that
    SQLite may take. ``access_log``: a file, ``-`` for standard output, None for no access log. ``cors``: the origins
    whose pages may use the service in a browser. ``here``: the code of the location that the service is at, whence
    requests go to the nearest instance; ``simulate_latency``: answers take as long as the way from there implies.
    """

    folder: Path
    port: int | None = None
    linger: float | None = None
    temporary: bool = False
    body_timeout: float = BODY_TIMEOUT
    hosting: Hosting = field(default_factory=Hosting)
    limits: Limits = field(default_factory=Limits)
    signup: bool = True
    here: str | None = None
    simulate_latency: bool = False
    connections: int | None = None
    memory: int = HEAP_LIMIT
    access_log: Path | None = None
    cors: tuple[str, ...] = ()
    open: Callable[[Settings], Service | SqldService] = open_embedded
    """Makes the service; `ServiceError` if that cannot be."""


def run(settings: Settings, announce: Callable[[dict[str, Any]], None]) -> None:
    """Run the service until it is told to stop.

    ``announce`` gets url, organization and pid when it is ready, and local_url where that is another one. Raises
    `ServiceError` if the folder is in use by another service, or the port by anything. Sets the umask, the switch
    interval, SQLite's memory limit and the logging of this process, so a process runs one service only.
    """
    os.umask(0o077)
    # SQLite gives up the interpreter lock for every row: with the default of 5 ms it gets it back too late.
    sys.setswitchinterval(5e-5)
    # A request makes some hundred objects and no cycles: looking for those every 700 objects costs 5 % of the time.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    apsw.hard_heap_limit(settings.memory)
    _allow_many_files()
    make_private_folder(settings.folder)
    with ExitStack() as stack:
        if settings.temporary:
            stack.callback(shutil.rmtree, settings.folder, ignore_errors=True)
        stack.enter_context(_sole_owner(settings.folder))
        stack.enter_context(logging_to(settings.folder / LOG_FILE))
        access_log = None if settings.access_log is None else stack.enter_context(AccessLog(settings.access_log))
        certificate = _certificate(settings.hosting)
        listeners = _listen(settings, certificate, stack)
        service = settings.open(settings)
        stack.callback(service.close)
        _Process(settings, service, listeners, access_log, certificate, announce).run()
        _LOG.info("stopped")


def _listen(settings: Settings, certificate: Certificate | None, stack: ExitStack) -> list[Listener]:
    """Listen where the settings say. The first listener is always this machine's own: plain HTTP on 127.0.0.1."""
    hosting, port = settings.hosting, settings.port
    own = listen_locally(settings.folder / PORT_FILE, port if hosting.local_only else None)
    if hosting.local_only:
        return [Listener(stack.enter_context(own))]
    shared = stack.enter_context(listen(hosting.host, hosting.default_port if port is None else port))
    return [
        Listener(stack.enter_context(own)),
        Listener(shared, None if certificate is None else certificate.context),
    ]


def _certificate(hosting: Hosting) -> Certificate | None:
    if hosting.certfile is None:
        return None
    certificate = Certificate(hosting.certfile, hosting.keyfile)
    if missing := certificate.uncovered(hosting.domain):
        _LOG.warning("clients will refuse the certificate for %s: it is not made out to it", " and ".join(missing))
    return certificate


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
        self, settings: Settings, service: Service | SqldService, listeners: Sequence[Listener],
        access_log: AccessLog | None, certificate: Certificate | None, announce: Callable[[dict[str, Any]], None],
    ) -> None:  # fmt: skip
        self._settings = settings
        self._service = service
        self._announce = announce
        self._loaded = [part for part in (certificate, access_log) if part is not None]
        hosting = settings.hosting
        port, shared_port = (listeners[number].socket.getsockname()[1] for number in (0, -1))
        self._url = f"http://{LOOPBACK}:{port}"
        self._about = {
            "url": self._url, "port": port, "pid": os.getpid(), "host": platform.node(), "version": __version__,
            "organization": service.catalog.home.slug,
        }  # fmt: skip
        if not hosting.local_only:
            self._about["public_url"] = hosting.url(shared_port)
        self._shell = Shell(
            service, body_limit=service.limits.body, body_timeout=settings.body_timeout,
            file_paths=frozenset({UPLOAD_PATH}), intake=service.intake,
            brief=service.looks_brief,
        )  # fmt: skip
        self._leases = Leases(settings.linger, self._idle)
        traffic = Traffic()
        gauges = Gauges(service, traffic, self._leases, lambda: self._server.connections, time.time())
        app = Control(self._shell, service, self._leases, self._stop, self._about, gauges)
        self._server = Server(
            Watched(app, traffic, access_log), listeners,
            on_ready=self._ready, on_stopping=self._stopping, connections=settings.connections,
        )  # fmt: skip

    def run(self) -> None:
        self._service.start()
        try:
            asyncio.run(self._server.serve())
        finally:
            self._shell.close()

    def _ready(self) -> None:
        write_private(self._settings.folder / RUNTIME_FILE, json.dumps(self._about).encode())
        self._leases.start()
        if sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._load_again)
        if self._settings.temporary:
            loop = asyncio.get_running_loop()
            threading.Thread(target=self._follow_input, args=(loop,), name="pipemagic-input", daemon=True).start()
        url = self._about.get("public_url", self._url)
        _LOG.info("pipemagic %s at %s, process %d", __version__, url, os.getpid())
        said = {"url": url, "organization": self._about["organization"], "pid": self._about["pid"]}
        if url != self._url:
            said["local_url"] = self._url
        self._announce(said)

    def _load_again(self) -> None:
        """Take a renewed certificate; go on with a new access log, if the old one was moved away."""
        for part in self._loaded:
            try:
                part.load()
            except (ServiceError, OSError):
                _LOG.exception("it stays as it was")
        _LOG.info("read the certificate again and opened the access log again")

    def _follow_input(self, loop: asyncio.AbstractEventLoop) -> None:
        """End with the starter: it holds the other end of the pipe, whatever becomes of it."""
        sys.stdin.buffer.read()
        with suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(self._stop)

    def _idle(self) -> None:
        _LOG.info("no lease for %g s", self._settings.linger)
        self._stop()

    def _stop(self) -> None:
        self._hide()
        self._server.stop()

    def _hide(self) -> None:
        """Have nobody find the service any more, nor hold it: the server looks now and then whether it is to stop."""
        _remove(self._settings.folder / RUNTIME_FILE)
        self._leases.end()

    def _stopping(self) -> None:
        """Begin to end: what runs is interrupted."""
        _LOG.info("stopping")
        timer = threading.Timer(DEADLINE, self._give_up)
        timer.daemon = True
        timer.start()
        self._hide()
        self._shell.stop()

    def _give_up(self) -> None:
        _LOG.warning("still busy after %g s: the process ends here", DEADLINE)
        if self._settings.temporary:
            shutil.rmtree(self._settings.folder, ignore_errors=True)
        os._exit(0)


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


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def stop_on_hang_up() -> None:
    """End properly when the terminal is closed, too."""
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
