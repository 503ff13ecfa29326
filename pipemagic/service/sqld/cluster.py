"""Nodes on this machine, for ``--local``: a primary and its replicas, each a sqld process on loopback."""

from __future__ import annotations

import datetime
import json
import secrets
from contextlib import suppress
from pathlib import Path

from pipemagic.errors import ServiceError
from pipemagic.service.files import make_private_folder, write_private
from pipemagic.service.sqld import certificates
from pipemagic.service.sqld.admin import Admin
from pipemagic.service.sqld.binary import PATIENCE, free_port
from pipemagic.service.sqld.certificates import Certificates
from pipemagic.service.sqld.keys import nobodys_key
from pipemagic.service.sqld.nodes import Node, Nodes
from pipemagic.service.sqld.processes import Command, NodeProcess

CODES = ("ams", "nrt", "ord", "syd", "gru", "jnb", "bom", "lhr", "sjc")
"""The locations of local nodes, the primary's first; far from each other, since nothing here is."""

LOOPBACK = "127.0.0.1"
MANY = "100000"
"""Namespaces that a node keeps open: beyond them (100 by default) it answers 404 for some that it has."""


class Cluster:
    """``count`` nodes with their data below ``folder``; `nodes` says where they are."""

    def __init__(self, binary: Path, folder: Path, count: int) -> None:
        if not 1 <= count <= len(CODES):
            raise ServiceError(f"--local takes from 1 to {len(CODES)} nodes, not {count}", code="BAD_NODES")
        make_private_folder(folder)
        self._folder = folder
        admin_key = secrets.token_urlsafe(32)
        self.nodes = _nodes(_ports(folder / "ports.json", CODES[:count]), admin_key)
        write_private(folder / "nobody.pem", nobodys_key().encode())
        files = certificates.make(folder / "certificates", datetime.datetime.now(datetime.UTC))
        self.processes = {
            code: NodeProcess(_command(binary, folder, node, self.nodes.primary, files), Admin(node).answers)
            for code, node in self.nodes.by_code.items()
        }  # fmt: skip

    def start(self) -> None:
        """Start all nodes and wait until they answer; `ServiceError` if one does not."""
        try:
            for process in self.processes.values():
                process.start()
            for process in self.processes.values():
                process.wait(PATIENCE)
        except BaseException:
            self.close()
            raise

    def starts(self, code: str) -> int:
        """Tell how often the node of a location was started."""
        return self.processes[code].starts

    def set_paused(self, code: str, paused: bool) -> None:
        """Take the node of a location down, or let it run again."""
        process = self.processes[code]
        if paused:
            process.pause()
        else:
            process.resume()

    def restart(self, code: str) -> None:
        """End the node of a location, so that it is started again."""
        self.processes[code].restart()

    def close(self) -> None:
        """End all nodes, the primary last."""
        for process in reversed(self.processes.values()):
            process.close()


def _nodes(ports: dict[str, list[int]], admin_key: str) -> Nodes:
    by_code = {
        code: Node(
            code, f"http://{LOOPBACK}:{http}", f"http://{LOOPBACK}:{admin}", f"https://{LOOPBACK}:{grpc}",
            admin_key=admin_key,
        )
        for code, (http, admin, grpc) in ports.items()
    }  # fmt: skip
    return Nodes(next(iter(by_code)), by_code)


def _ports(path: Path, codes: tuple[str, ...]) -> dict[str, list[int]]:
    """Give three ports for each node: those of last time, so that addresses survive a restart."""
    known: dict[str, list[int]] = {}
    with suppress(OSError, ValueError):
        known = json.loads(path.read_text("ascii"))
    ports = {code: known.get(code) or [free_port() for _ in range(3)] for code in codes}
    write_private(path, json.dumps({**known, **ports}).encode())
    return ports


def _command(binary: Path, folder: Path, node: Node, primary: Node, files: Certificates) -> Command:
    """Give the command line of a node: secrets go through the environment, which others cannot read."""
    tls = ("cert-file", files.certificate), ("key-file", files.key), ("ca-cert-file", files.authority)
    side = "grpc" if node is primary else "primary-grpc"
    where = ("--grpc-listen-addr", _address(node.grpc)) if node is primary else ("--primary-grpc-url", primary.grpc)
    arguments = (
        str(binary), "--db-path", str(folder / node.code / "data"), "--no-welcome",
        "--enable-namespaces", "--disable-default-namespace", "--max-active-namespaces", MANY,
        "--http-listen-addr", _address(node.http), "--admin-listen-addr", _address(node.admin),
        "--auth-jwt-key-file", str(folder / "nobody.pem"),
        *where, f"--{side}-tls", *(part for name, file in tls for part in (f"--{side}-{name}", str(file))),
    )  # fmt: skip
    return Command(
        node.code, arguments, folder / node.code, {"LIBSQL_ADMIN_AUTH_KEY": node.admin_key, "RUST_LOG": "warn"}
    )


def _address(url: str) -> str:
    return url.partition("://")[2]
