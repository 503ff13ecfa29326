"""The sockets of a service, and the port that it keeps from one start to the next."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipemagic.errors import ServiceError
from pipemagic.service.files import write_private
from pipemagic.service.hosting import LOOPBACK


@contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """Listen on an address and port of this machine; `ServiceError` if that is not possible."""
    try:
        listener = _bound(host, port)
    except OSError as error:
        raise _failure(f"{host}, port {port}", error) from error
    with listener:
        yield listener


@contextmanager
def listen_locally(port_file: Path, port: int | None) -> Iterator[socket.socket]:
    """Listen on loopback; the port is noted, so that addresses survive a restart.

    ``port``: None takes the one of last time if it is free, else any; 0 takes any.
    """
    wanted = [port] if port is not None else [*last_port(port_file), 0]
    for candidate in wanted:
        try:
            listener = _bound(LOOPBACK, candidate)
            break
        except OSError as error:
            failure = error
    else:
        raise _failure(f"port {port}", failure) from failure
    with listener:
        write_private(port_file, str(listener.getsockname()[1]).encode())
        yield listener


def last_port(port_file: Path) -> list[int]:
    """Read the port of last time; an empty list if there is none."""
    try:
        port = int(port_file.read_text())
    except (OSError, ValueError):
        return []
    return [port] if 0 < port < 65536 else []


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol left to the system, asyncio would not switch Nagle's delay (40 ms an answer) off.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":  # there SO_REUSEADDR would let others take the port over
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # all addresses, those of IPv4 too
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    return listener


def _failure(where: str, error: OSError) -> ServiceError:
    if isinstance(error, PermissionError):
        hint = "ports below 1024 need a right of their own: pipemagic serve --print-systemd shows how to give it"
        return ServiceError(f"cannot listen on {where}: {error.strerror}", hint=hint, code="PORT_NOT_ALLOWED")
    return ServiceError(
        f"cannot listen on {where}: {error.strerror}",
        hint="choose another one with --port, or --port 0 for any that is free", code="PORT_IN_USE",
    )  # fmt: skip
