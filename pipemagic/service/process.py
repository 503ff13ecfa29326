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
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

from uvicorn.server import HANDLED_SIGNALS

from pipemagic.config import make_private_folder, private_lock, write_private
from pipemagic.errors import ServiceError
from pipemagic.service import memory
from pipemagic.service.app import create_app
from pipemagic.service.embedded import EmbeddedEngine
from pipemagic.service.endpoint import Runtime
from pipemagic.service.files import (
    LOCK_FILE,
    LOG_FILE,
    PORT_FILE,
    RUNTIME_FILE,
    check_data_folder,
    check_lock_files,
    has_space,
)
from pipemagic.service.hosting import LOOPBACK, LOOPBACK_6, Hosting
from pipemagic.service.http_server import HttpServer
from pipemagic.service.listeners import BoundPort, Certificate, Listener, listen_for_localhost, listen_locally
from pipemagic.service.logs import AccessLog, logging_to
from pipemagic.service.metrics import Metrics
from pipemagic.service.operator_api import Leases, operator_routes
from pipemagic.service.service import Service
from pipemagic.service.settings import Settings
from pipemagic.version import __version__

DEADLINE = 1.8  # seconds after which the process exits in any case; committed data is safe at any time
MANY_FILES = 16384
RETRY_RUNTIME_FILE = 2.0  # seconds
ANNOUNCED = ("organization", "pid", "idle_timeout")
"""What the first line of output has of the runtime file, besides the addresses."""

DISK_FULL = "the disk of the data folder is full: databases are read-only until there is free space"

_log = logging.getLogger(__name__)

Announce = Callable[[dict[str, Any]], None]


def open_embedded(settings: Settings) -> Service:
    """Create the service for databases in files of the data folder."""
    engine = partial(
        EmbeddedEngine, here=settings.here, simulate_latency=settings.simulate_latency, unicode=settings.unicode,
        backups=settings.backups,
    )  # fmt: skip
    return Service(
        settings.folder, engine, limits=settings.limits, domain=settings.hosting.domain, signup=settings.signup
    )


def run(settings: Settings, announce: Announce) -> None:
    """Run the service until a signal or a stop request.

    ``announce`` is called when it is ready, with url, organization and pid, with local_url if that differs, with
    idle_timeout (seconds) if it does not stay, and with a warning, if any. Raises `ServiceError` if the folder or the
    port cannot be used. Sets the umask, the switch interval, SQLite's memory limit and the logging of this process, so
    a process runs one service only.
    """
    os.umask(0o077)
    # apsw releases the interpreter lock for every row: with the default of 5 ms it gets it back too late.
    sys.setswitchinterval(2e-4)
    # A request creates some hundred objects and no cycles: a collection every 700 objects takes 5% of the time.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    memory.limit_heap(settings.limits.memory // 2)
    _allow_many_files()
    with ExitStack() as stack:
        stack.enter_context(_data_folder(settings))
        stack.enter_context(logging_to(settings.folder / LOG_FILE))
        access_log = AccessLog(FileIO(1, "w", closefd=False)) if settings.access_log else None
        certificate = _certificate(settings.hosting)
        listeners, warning = _listen(settings, certificate, stack)
        service = (settings.open or open_embedded)(settings)
        stack.callback(service.close)
        service.start()
        if not has_space(settings.folder):
            warning = f"{warning}; {DISK_FULL}".removeprefix("; ")
        process = ServiceProcess(
            settings, service, listeners, access_log, certificate, partial(_announce, announce, warning)
        )
        process.run()
        _log.info("stopped")
    if process.lost_threads:  # inside SQLite, whose connections the interpreter would wait for
        os._exit(0)


def _listen(
    settings: Settings, certificate: Certificate | None, stack: ExitStack
) -> tuple[list[Listener], str]:  # fmt: skip
    """Bind the sockets; return them and a warning, '' if there is none.

    The first listener is always that for this machine: plain HTTP on 127.0.0.1.
    """
    hosting, port = settings.hosting, settings.port
    bound = listen_locally(settings.folder / PORT_FILE, port if hosting.local_only else None)
    stack.callback(bound.close)
    listeners = [Listener(sock) for sock in bound.sockets]
    if not hosting.local_only:
        bound = listen_for_localhost(hosting.host, hosting.default_port if port is None else port)
        stack.callback(bound.close)
        tls = None if certificate is None else certificate.context
        listeners += [Listener(sock, tls) for sock in bound.sockets]
    warning = _describe_taken(hosting, bound) if bound.taken else ""
    if warning:
        _log.warning("%s", warning)
    return listeners, warning


def _describe_taken(hosting: Hosting, bound: BoundPort) -> str:
    """Return the warning for a port that another process has at the other address of ``localhost``."""
    names = {LOOPBACK: LOOPBACK, LOOPBACK_6: f"[{LOOPBACK_6}]"}
    other = names.pop(bound.taken)
    (own,) = names.values()
    url = f"{hosting.scheme}://localhost:{bound.port}"
    return (
        f"another process listens at {other}:{bound.port}: other programs that use {url} reach it; "
        f"use {hosting.scheme}://{own}:{bound.port}"
    )


def _announce(announce: Announce, warning: str, about: dict[str, Any]) -> None:
    announce({**about, "warning": warning} if warning else about)


def _certificate(hosting: Hosting) -> Certificate | None:
    if hosting.certfile is None:
        return None
    certificate = Certificate(hosting.certfile, hosting.keyfile)
    if missing := certificate.uncovered(hosting.domain):
        _log.warning("clients will refuse the certificate for %s: it does not cover that name", " and ".join(missing))
    return certificate


def _allow_many_files() -> None:
    """Raise the limit of file handles: a stream needs three, and 1024 are a usual default."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = MANY_FILES if hard == resource.RLIM_INFINITY else min(MANY_FILES, hard)
        if soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


class ServiceProcess:
    """A running service: its HTTP server, and the runtime file and leases that clients find it by and keep it by."""

    def __init__(
        self, settings: Settings, service: Service, listeners: Sequence[Listener],
        access_log: AccessLog | None, certificate: Certificate | None, announce: Announce,
    ) -> None:  # fmt: skip
        self._settings, self._announce = settings, announce
        self._certificate = certificate
        self._runtime = Runtime(settings.limits)
        self._leases = Leases()
        self._about = _describe(settings, service, listeners)
        metrics = Metrics(service)
        metrics.add_gauge(
            "pipemagic_leases", "Programs on this machine that keep the service running.", lambda: self._leases.open
        )
        metrics.add_gauge(
            "pipemagic_http_connections", "Open connections, including idle ones.", lambda: self._server.connections
        )
        metrics.add_abandoned(self._runtime.executor)
        routes = operator_routes(
            self._runtime, service.tokens, self._leases, metrics, self._stop_from_thread, settings.folder, self._about
        )
        app = create_app(
            service, self._runtime, metrics=metrics, cors=settings.cors, access_log=access_log, more_routes=routes,
            base_path=settings.base_path,
        )  # fmt: skip
        self._server = HttpServer(app, listeners, connections=settings.connections, proxies=settings.proxies)

    @property
    def lost_threads(self) -> int:
        """The number of threads with an abandoned statement that has not ended."""
        return len(self._runtime.executor.lost)

    def run(self) -> None:
        """Serve until the process is to end."""
        try:
            with _signals_stop(self.stop):
                asyncio.run(self._server.serve(on_start=self._start, on_stop=self._interrupt))
        finally:
            self._runtime.executor.close()

    def _start(self) -> None:
        """Write the runtime file and announce the addresses: the sockets are bound."""
        self._loop = asyncio.get_running_loop()
        self._write_runtime_file()
        if self._settings.idle_timeout is not None:
            self._stop_if_idle(self._settings.idle_timeout)
        reload_on_signal(self._reload)
        if self._settings.temporary:
            threading.Thread(target=self._follow_input, name="pipemagic-input", daemon=True).start()
        local_url = self._about["url"]
        url = self._about.get("public_url", local_url)
        _log.info("pipemagic %s at %s, process %d", __version__, url, os.getpid())
        line = {"url": url, **{name: self._about[name] for name in ANNOUNCED if name in self._about}}
        self._announce(line if url == local_url else {**line, "local_url": local_url})

    def _write_runtime_file(self) -> None:
        """Write the runtime file, later if the disk is full: the starter has the address, other programs read it."""
        if self._server.stopping:
            return
        try:
            write_private(self._settings.folder / RUNTIME_FILE, json.dumps(self._about).encode())
        except OSError as error:
            _log.warning(
                "other programs cannot find the service: %s cannot be written: %s", RUNTIME_FILE, error.strerror
            )
            self._loop.call_later(RETRY_RUNTIME_FILE, self._write_runtime_file)

    def _interrupt(self) -> None:
        """Interrupt running requests; the server waits until they have ended, and the process no longer than that."""
        _log.info("stopping")
        timer = threading.Timer(DEADLINE, self._exit)
        timer.daemon = True
        timer.start()
        self._runtime.stop()

    def stop(self) -> None:
        """Begin to stop: the service is no longer found, and the leases end."""
        _remove(self._settings.folder / RUNTIME_FILE)
        self._leases.end()
        self._server.stop()

    def _stop_if_idle(self, timeout: float) -> None:
        """Stop once the service was not used for ``timeout`` seconds; also if its starter died before the first use."""
        rest = timeout - self._runtime.idle_time
        if rest > 0:  # later use only postpones the next check: a timer for each request would cost more
            self._loop.call_later(rest, self._stop_if_idle, timeout)
        elif not self._server.stopping:
            _log.info("not used for %g s", timeout)
            self.stop()

    def _stop_from_thread(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.stop)

    def _follow_input(self) -> None:
        """Stop when the starter exits: it holds the other end of the pipe."""
        while os.read(sys.stdin.fileno(), 4096):  # a buffered read holds a lock that aborts the interpreter's exit
            pass
        self._stop_from_thread()

    def _reload(self) -> None:
        """Load a renewed certificate, if the service has one: without a handler, the signal would end the process."""
        if self._certificate is not None:
            try:
                self._certificate.reload()
                _log.info("reloaded the certificate")
            except ServiceError:
                _log.exception("the certificate could not be reloaded; the previous one stays in use")

    def _exit(self) -> None:
        _log.warning("still busy after %g s: the process exits", DEADLINE)
        if self._settings.temporary:
            shutil.rmtree(self._settings.folder, ignore_errors=True)
        os._exit(0)


def _describe(settings: Settings, service: Service, listeners: Sequence[Listener]) -> dict[str, Any]:
    """Return the content of the runtime file."""
    local_port, shared_port = (listeners[number].socket.getsockname()[1] for number in (0, -1))
    about = {
        "url": f"http://{LOOPBACK}:{local_port}", "port": local_port, "pid": os.getpid(), "host": platform.node(),
        "version": __version__, "organization": service.catalog.home.slug,
    }  # fmt: skip
    if settings.idle_timeout is not None:
        about["idle_timeout"] = settings.idle_timeout
    if not settings.hosting.local_only:
        about["public_url"] = settings.hosting.url(shared_port)
    return about


@contextmanager
def _data_folder(settings: Settings) -> Iterator[None]:
    """Create, check and lock the data folder; remove a temporary one afterwards.

    Raise `ServiceError` if it cannot be used. The lock ends with the process, however that happens.
    """
    folder = settings.folder
    make_private_folder(folder)
    check_lock_files(folder)
    lock = private_lock(folder / LOCK_FILE)
    runtime_file = folder / RUNTIME_FILE
    try:
        # A process that is stopping has removed its runtime file and releases the lock within two seconds.
        lock.acquire(timeout=0.5 if runtime_file.exists() else 5.0, poll_interval=0.02)
    except TimeoutError:
        raise ServiceError(
            f"the data folder {folder} is in use by the service {_describe_owner(runtime_file)}",
            hint="connect to that one, end it with `pipemagic stop`, or name another folder with --data",
            code="FOLDER_IN_USE",
        ) from None
    except OSError as error:  # a temporary service has just removed it, or it is read-only
        raise ServiceError(
            f"cannot use the data folder {folder}: {error.strerror}",
            hint="try again, or name another folder with PIPEMAGIC_DATA or --data", code="DATA_FOLDER",
        ) from None  # fmt: skip
    removes = False
    try:
        check_data_folder(folder)
        if settings.temporary:
            _check_new(folder)
            removes = True
        _remove(runtime_file)  # of a service that was killed
        yield
    finally:
        _remove(runtime_file)
        if removes:  # before the lock is released: another service may be waiting for it
            shutil.rmtree(folder, ignore_errors=True)
        lock.release()
        if removes and sys.platform == "win32":  # which keeps an open file
            _remove(folder / LOCK_FILE)
            with suppress(OSError):  # another service has it now
                folder.rmdir()


def _check_new(folder: Path) -> None:
    """Raise `ServiceError` if a folder has any files besides those that exist before every start."""
    if {path.name for path in folder.iterdir()} - {LOCK_FILE, LOG_FILE}:
        raise ServiceError(
            f"the folder {folder} is not empty: a temporary service removes its folder when it ends",
            hint="name a new folder with --data, or omit --temporary", code="DATA_FOLDER",
        )  # fmt: skip


def _describe_owner(runtime_file: Path) -> str:
    try:
        about = json.loads(runtime_file.read_bytes())
        return f"at {about['url']} (process {about['pid']} on {about['host']})"
    except (OSError, ValueError, KeyError):
        return "of another process"


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def reload_on_signal(reload: Callable[[], None]) -> None:
    """Call ``reload`` on SIGUSR1. Call this in the event loop."""
    if sys.platform != "win32":
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, reload)


@contextmanager
def _signals_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` on a signal that ends a process: it then exits with code 0. Use it in the main thread."""
    handlers = {number: signal.signal(number, lambda *_: stop()) for number in HANDLED_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def stop_on_hang_up() -> None:
    """Stop regularly when the terminal is closed, too."""
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
