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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
from filelock import FileLock, Timeout

from pipemagic import __version__
from pipemagic.errors import ServiceError
from pipemagic.service.access_log import AccessLog
from pipemagic.service.app import create_app
from pipemagic.service.certificates import Certificate
from pipemagic.service.control import control_routes
from pipemagic.service.embedded import Service
from pipemagic.service.endpoint import BODY_TIMEOUT, Runtime
from pipemagic.service.files import make_private_folder, write_private
from pipemagic.service.hosting import LOOPBACK, Hosting
from pipemagic.service.layout import LOCK_FILE, LOG_FILE, PORT_FILE, RUNTIME_FILE
from pipemagic.service.leases import Leases
from pipemagic.service.limits import Limits
from pipemagic.service.logs import logging_to
from pipemagic.service.metrics import Metrics, ServiceState
from pipemagic.service.server import Listener, Server, listen, listen_locally

if TYPE_CHECKING:
    from pipemagic.service.sqld.service import SqldService

DEADLINE = 1.8  # seconds after which the process exits in any case; committed data is safe at any time
HEAP_LIMIT = 512 * 1024 * 1024  # bytes that SQLite may use: beyond it, statements fail instead of the process
MANY_FILES = 16384

_LOG = logging.getLogger(__name__)


def open_embedded(settings: Settings) -> Service:
    """Create the service whose databases are files in the data folder."""
    return Service(
        settings.folder, limits=settings.limits, domain=settings.hosting.domain, signup=settings.signup,
        here=settings.here, simulate_latency=settings.simulate_latency,
    )  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Settings of the process.

    ``port``: None takes the one of the last start if it is free, else any; 0 takes any; for a shared service None is
    `Hosting.default_port`. ``linger``: seconds without a lease after which the service ends; None if it stays.
    ``temporary``: it ends when its standard input does, and removes its folder. ``signup``: whether anybody may create
    an account. ``connections``: how many may be open at once, None for any number. ``memory``: bytes that
    SQLite may take. ``access_log``: a file, ``-`` for standard output, None for no access log. ``cors``: the origins
    whose pages may use the service in a browser. ``here``: the code of the location of the service, from which
    requests go to the nearest instance; ``simulate_latency``: delay responses as the distance to an instance implies.
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
    """Creates the service; raises `ServiceError` if that is not possible."""


def run(settings: Settings, announce: Callable[[dict[str, Any]], None]) -> None:
    """Run the service until a signal or a stop request.

    ``announce`` is called when it is ready, with url, organization and pid, and with local_url if that differs. Raises
    `ServiceError` if another service uses the folder, or if the port is in use. Sets the umask, the switch
    interval, SQLite's memory limit and the logging of this process, so a process runs one service only.
    """
    os.umask(0o077)
    # apsw releases the interpreter lock for every row: with the default of 5 ms it gets it back too late.
    sys.setswitchinterval(2e-4)
    # A request creates some hundred objects and no cycles: a collection every 700 objects takes 5 % of the time.
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
        access_log = None
        if settings.access_log is not None:
            access_log = stack.enter_context(closing(AccessLog(settings.access_log)))
        certificate = _certificate(settings.hosting)
        listeners = _listen(settings, certificate, stack)
        service = settings.open(settings)
        stack.callback(service.close)
        _Process(settings, service, listeners, access_log, certificate, announce).run()
        _LOG.info("stopped")


def _listen(settings: Settings, certificate: Certificate | None, stack: ExitStack) -> list[Listener]:
    """Bind the sockets. The first listener is always that for this machine: plain HTTP on 127.0.0.1."""
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
    """Raise the limit of file handles: a stream needs three, and 1024 are a usual default."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MANY_FILES if hard == resource.RLIM_INFINITY else min(MANY_FILES, hard)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Process:
    """Connects the service, the ASGI application and the HTTP server."""

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
        self._runtime = Runtime(body_timeout=settings.body_timeout)
        self._leases = Leases(settings.linger, self._idle)
        state = ServiceState(service, lambda: self._leases.open, lambda: self._server.connections)
        metrics = Metrics(state)
        app = create_app(
            service, self._runtime, metrics=metrics, cors=settings.cors, access_log=access_log,
            more_routes=control_routes(
                self._runtime, service.tokens, self._leases, metrics, self._stop_soon, self._about
            ),
        )  # fmt: skip
        self._server = Server(
            app, listeners, on_ready=self._ready, on_stopping=self._stopping, connections=settings.connections
        )

    def run(self) -> None:
        self._service.start()
        try:
            asyncio.run(self._server.serve())
        finally:
            self._runtime.close()

    def _ready(self) -> None:
        self._loop = asyncio.get_running_loop()
        write_private(self._settings.folder / RUNTIME_FILE, json.dumps(self._about).encode())
        self._leases.start()
        if sys.platform != "win32":
            self._loop.add_signal_handler(signal.SIGUSR1, self._load_again)
        if self._settings.temporary:
            threading.Thread(target=self._follow_input, name="pipemagic-input", daemon=True).start()
        url = self._about.get("public_url", self._url)
        _LOG.info("pipemagic %s at %s, process %d", __version__, url, os.getpid())
        said = {"url": url, "organization": self._about["organization"], "pid": self._about["pid"]}
        if url != self._url:
            said["local_url"] = self._url
        self._announce(said)

    def _load_again(self) -> None:
        """Load a renewed certificate; open a new access log if the old one was moved away."""
        for part in self._loaded:
            try:
                part.load()
            except (ServiceError, OSError):
                _LOG.exception("it stays as it was")
        _LOG.info("read the certificate again and opened the access log again")

    def _follow_input(self) -> None:
        """Stop when the starter exits: it holds the other end of the pipe."""
        sys.stdin.buffer.read()
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stop)

    def _idle(self) -> None:
        _LOG.info("no lease for %g s", self._settings.linger)
        self._stop()

    def _stop_soon(self) -> None:
        """Stop on a client's request, after its response was sent."""
        self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._hide()
        self._server.stop()

    def _hide(self) -> None:
        """Remove the runtime file and end the leases at once: the server checks only now and then whether to stop."""
        _remove(self._settings.folder / RUNTIME_FILE)
        self._leases.end()

    def _stopping(self) -> None:
        """Begin to stop: interrupt running requests."""
        _LOG.info("stopping")
        timer = threading.Timer(DEADLINE, self._give_up)
        timer.daemon = True
        timer.start()
        self._hide()
        self._runtime.stop()

    def _give_up(self) -> None:
        _LOG.warning("still busy after %g s: the process ends here", DEADLINE)
        if self._settings.temporary:
            shutil.rmtree(self._settings.folder, ignore_errors=True)
        os._exit(0)


@contextmanager
def _sole_owner(folder: Path) -> Iterator[None]:
    """Lock the data folder; raise `ServiceError` if another process has. The lock ends with the process."""
    lock = FileLock(folder / LOCK_FILE)
    path = folder / RUNTIME_FILE
    try:
        # A process that is stopping has removed its runtime file and releases the lock within two seconds.
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
    """Stop regularly when the terminal is closed, too."""
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
