"""The nodes of ``--local``: a primary and its replicas, each a sqld process on loopback, restarted when it ends."""

from __future__ import annotations

import datetime
import json
import logging
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
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
from pipemagic.service.sqld.binary import NOT_FOR_WINDOWS, NoSqld
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
"""Seconds to wait for the node of an earlier service, which ends shortly after the service."""
CERTIFICATE, KEY = "node.pem", "node.key"
RESTART_INTERVAL = 2.0
"""Seconds between two starts of a node that ends again and again."""
LOG_LIMIT = 1_000_000
"""Bytes of a node's log, checked when the node is started."""
LOG_TAIL = 1000
"""Characters of the log that an error shows."""

_WATCHER = "cat >/dev/null; kill -9 0"
"""Ends its own process group, with the node in it, when this process ends and its end of the pipe is closed.

A group exists as long as one of its processes, so its id cannot belong to a later process, as that of a dead node can.
"""


class NodeProcess:
    """One sqld process. It holds a lock on its folder as long as it runs, so no other process uses its data."""

    def __init__(self, node: Node, folder: Path, arguments: tuple[str, ...]) -> None:
        self.node = node
        self.stopped = False
        """Whether it was ended on purpose."""
        self._folder, self._arguments = folder, arguments
        self._log = folder / "sqld.log"
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        """The size of the log when the node was started last."""
        self._started = float("-inf")

    def start(self) -> None:
        """Start the node; raise `ServiceError` if that fails, or if another process uses its folder."""
        make_private_folder(self._folder)
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                with self._lock:
                    self._spawn()
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ServiceError(
                        f"another sqld{self._owner()} runs in {self._folder}",
                        hint="end it, or name another folder with --data",
                        code="FOLDER_IN_USE",
                    ) from None  # fmt: skip
                time.sleep(0.02)
            except OSError as error:
                raise ServiceError(
                    f"the node {self.node.code} cannot be started: {error}", code="NODE_DOWN",
                    hint="name a sqld for this machine with PIPEMAGIC_SQLD",
                ) from None  # fmt: skip

    def wait_until_ready(self) -> None:
        """Wait until the node responds; raise `ServiceError` if it ends before that, or takes too long."""
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT
        with closing(Admin(self.node)) as admin:
            while True:
                status = self._process.poll()
                with suppress(NodeDown):
                    if status is None:
                        return admin.check()
                if status is not None or time.monotonic() > deadline:
                    reason = f"did not respond within {START_TIMEOUT:g} s" if status is None else f"ended with {status}"
                    raise ServiceError(
                        f"the node {self.node.code} {reason}: {self._log_tail()}",
                        hint=f"see {self._log}; if its port is taken, end the program that has it", code="NODE_DOWN",
                    )  # fmt: skip
                time.sleep(0.02)

    def ensure_running(self) -> bool:
        """Start the node again if it ended and was not stopped, at most every `RESTART_INTERVAL` seconds.

        Return True if it was started.
        """
        with self._lock:
            if self.stopped or self._process is None or self._process.poll() is None:
                return False
            if time.monotonic() < self._started + RESTART_INTERVAL:
                return False
            log.warning("the node %s ended with %d and is started again: %s",
                        self.node.code, self._process.returncode, self._log_tail())  # fmt: skip
            self._end()
            try:
                self._spawn()
            except OSError as error:
                log.error("the node %s cannot be started: %s", self.node.code, error)
                return False
            return True

    def restart(self) -> None:
        """End the node, so that `ensure_running` starts it again."""
        with self._lock:
            self._end()

    def set_stopped(self, stopped: bool) -> None:
        """End the node and wait for its end, or let `ensure_running` start it. What it has acknowledged is on disk."""
        with self._lock:
            if stopped:
                self._end()
            elif self.stopped:
                self._started = float("-inf")
            self.stopped = stopped

    def _end(self) -> None:
        """End the node and its watcher, also if they are suspended."""
        if sys.platform != "win32" and self._watcher is not None and self._watcher.returncode is None:
            # It is not waited for yet, so its id is not reused.
            os.killpg(self._watcher.pid, signal.SIGKILL)
            self._watcher.communicate()
        if self._process is not None:
            self._process.wait()

    def _spawn(self) -> None:
        self._started = time.monotonic()
        if self._log.exists() and self._log.stat().st_size > LOG_LIMIT:
            self._log.replace(self._log.with_name(self._log.name + ".1"))
        with _locked(self._folder) as lock, self._log.open("ab") as output:
            self._log_start = output.tell()
            self._watcher = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHER], stdin=subprocess.PIPE, stdout=output, stderr=output, process_group=0,
            )  # fmt: skip
            self._process = subprocess.Popen(
                self._arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(lock.fileno(),),
                env=_environment(self.node), process_group=self._watcher.pid,
            )  # fmt: skip
            with suppress(OSError):  # on a full disk the node runs all the same
                lock.write(b"%d\n" % self._process.pid)
        log.info("the node %s is process %d", self.node.code, self._process.pid)

    def _owner(self) -> str:
        """Return the id of the process that holds the folder's lock, as a part of a message."""
        with suppress(OSError, ValueError):
            return f" (process {int(_lock_file(self._folder).read_bytes())})"
        return ""

    def _log_tail(self) -> str:
        """Return the end of what the node has logged since its last start."""
        logged = b""
        with suppress(OSError), self._log.open("rb") as file:  # the file may be missing
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - 4 * LOG_TAIL))  # a character has at most four bytes
            logged = file.read()
        return logged.decode("utf-8", "replace")[-LOG_TAIL:].strip() or "it has logged nothing"


@contextmanager
def _locked(folder: Path) -> Iterator[FileIO]:
    """Lock a folder; a process that inherits the file holds the lock until it ends."""
    if sys.platform == "win32":
        raise NoSqld(NOT_FOR_WINDOWS)
    import fcntl

    with _lock_file(folder).open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        yield file


def _lock_file(folder: Path) -> Path:
    return folder / "node.lock"


def _environment(node: Node) -> dict[str, str]:
    """Return this process's environment without sqld's variables, which would add to the arguments."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SQLD_", "LIBSQL_"))}
    return {**inherited, "LIBSQL_ADMIN_AUTH_KEY": node.admin_key, "RUST_LOG": "warn", "RUST_BACKTRACE": "0"}


def start_cluster(binary: Path, folder: Path, count: int) -> list[NodeProcess]:
    """Start ``count`` nodes with their data below a folder, the primary first, and wait until they respond.

    Raise `ServiceError` if one of them does not start.
    """
    if not 1 <= count <= len(CODES):
        raise ServiceError(f"--local takes from 1 to {len(CODES)} nodes, not {count}", code="BAD_NODES")
    make_private_folder(folder)
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
