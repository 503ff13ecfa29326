"""Install the published packages that tests drive; their versions are pinned, in tests/published_clients by default.

They stay in a cache until the pins change.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from filelock import FileLock

CLIENTS = Path(__file__).resolve().parents[1] / "published_clients"
DRIVERS = CLIENTS / "drivers"
INSTALL_TIMEOUT = 900  # seconds
_PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]


class CannotInstall(Exception):
    """A package manager is missing or failed; the message names it and the reason."""


def install_npm(cache: Path, pins: Path = CLIENTS) -> Path:
    """Return a folder with the npm packages that are pinned in the folder ``pins``, and copies of its drivers."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise CannotInstall("node and npm are not on the PATH")

    def fill(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(pins / name, folder / name)
        _run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=5"], folder
        )

    folder = _installed(cache, "npm", [pins / "package-lock.json"], fill)
    with FileLock(f"{folder}.lock"):
        for script in (pins / DRIVERS.name).glob("*.mjs"):  # a script finds packages in the folders above its own only
            draft = folder / f".{script.name}"
            shutil.copy(script, draft)
            draft.replace(folder / script.name)  # another worker may be reading it
    return folder


def install_python(cache: Path, requirements: Path = CLIENTS / "requirements.txt", others: Sequence[str] = ()) -> Path:
    """Return the interpreter of an environment with the pinned Python packages, and others."""

    def fill(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder)
        pip = [sys.executable, *_PIP, "--python", str(_interpreter(folder)), "install"]
        _run([*pip, "-r", str(requirements), *others], folder)

    return _interpreter(_installed(cache, "python", [requirements], fill, others))


def download_sources(cache: Path, requirements: Path) -> Path:
    """Return a folder with the source archives of pinned packages, which are not installed."""

    def fill(folder: Path) -> None:
        # pip reads the name and the version of a package from its own code, and psycopg2's starts pg_config for that.
        stub = folder / "pg_config"
        stub.write_text('#!/bin/sh\n[ "$1" = --version ] && echo PostgreSQL 17.0 || echo /nowhere\n')
        stub.chmod(0o755)
        path = os.pathsep.join([str(folder), os.environ["PATH"]])
        command = [sys.executable, *_PIP, "download", "--no-deps", "--no-binary", ":all:", "--require-hashes"]
        _run([*command, "-r", str(requirements), "-d", str(folder)], folder, {**os.environ, "PATH": path})

    return _installed(cache, "sources", [requirements], fill)


def _interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _installed(
    cache: Path, kind: str, pins: Sequence[Path], fill: Callable[[Path], None], others: Sequence[str] = ()
) -> Path:
    """Fill a folder once for these pins and packages; tests that run at the same time wait for each other."""
    digest = hashlib.sha256("\n".join([sys.version, *others]).encode())
    for pin in pins:
        digest.update(pin.read_bytes())
    folder = cache / f"{kind}-{digest.hexdigest()[:12]}"
    with FileLock(f"{folder}.lock"):
        mark = folder / "complete"
        if not mark.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            fill(folder)
            mark.touch()
    return folder


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT,
    )
    if done.returncode:
        raise CannotInstall(f"`{' '.join(command)}` ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
