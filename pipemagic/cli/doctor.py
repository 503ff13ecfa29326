"""Check this machine. Each check returns a message, and a hint if there is a problem."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from importlib import metadata
from pathlib import Path

import click

from pipemagic import __version__, launcher
from pipemagic.cli import console
from pipemagic.cli.api import SelectedService, data_option, management
from pipemagic.cli.quickstart import check_panels
from pipemagic.config import make_private_folder
from pipemagic.errors import PipemagicError, SessionError
from pipemagic.http.transport import find_proxy
from pipemagic.service.files import check_data_folder
from pipemagic.text import format_size


@click.command()
@data_option
def doctor(data: Path | None) -> int:
    """Check this machine for problems. Nothing is changed; the exit code is 1 if a check fails."""
    failed = 0
    for name, check in CHECKS.items():
        try:
            message, hint = check(data)
            state = "warn" if hint else "ok"
        except PipemagicError as error:
            state, message, hint, failed = "fail", error.message, error.hint, 1
        console.print_line(f"{state:<5} {name:<12} {message}" + (f"\n{'':<19}Hint: {hint}" if hint else ""))
    return failed


def check_packages(_data: Path | None) -> tuple[str, str]:
    """Check that each required package is installed and new enough."""
    requirements = "\n".join(metadata.requires("pipemagic") or [])
    for name, lowest in re.findall(r"^([\w.-]+)(?:>=([\d.]+))?$", requirements, re.MULTILINE):
        version = next((package.version for package in metadata.distributions(name=name)), "")
        installed, required = ([int(number) for number in re.findall(r"\d+", text)] for text in (version, lowest))
        if not version or installed < required:
            message = f"{name} {version or 'is missing'}; pipemagic requires {name} {lowest}"
            raise SessionError(
                message.strip(), hint="update it in its checkout: git pull && pip install ., then restart the kernels"
            )
    return f"pipemagic {__version__}, Python {platform.python_version()}, IPython {metadata.version('ipython')}", ""


def check_folder(data: Path | None) -> tuple[str, str]:
    """Check that the service can use the data folder, and that its disk has space; report both sizes."""
    folder = data or launcher.default_folder()
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        raise SessionError(f"cannot write to {nearest}", hint="name another folder with PIPEMAGIC_DATA or --data")
    size = ""
    if nearest == folder:
        make_private_folder(folder)  # raises what the service would raise; an existing folder is not changed
        check_data_folder(folder)
        size = f"{format_size(_size(folder))} used, "
    free = shutil.disk_usage(nearest).free / 1e9
    hint = "" if free > 1 else "delete files: nothing can be written to a full disk"
    return f"{folder} ({size}{free:,.1f} GB free)", hint


def _size(folder: Path) -> int:
    """Return the size of the files of a folder in bytes."""
    size = 0
    for parent, _, names in os.walk(folder):  # it passes over folders that a running service removes meanwhile
        for name in names:
            with suppress(FileNotFoundError):
                size += os.lstat(os.path.join(parent, name)).st_size
    return size


def check_service(data: Path | None) -> tuple[str, str]:
    """Check that the service that commands use responds, that it accepts the token, and that the clocks agree."""
    address = SelectedService(data).address
    if address is None:
        service = launcher.check(data)
        return f"{service.url}, version {service.version}" if service else "not running; commands start it", ""
    with management(data) as api:
        api.validate()
        date = api.transport.get("/v1/locations").date
    skew = time.time() - parsedate_to_datetime(date).timestamp() if date else 0
    hint = "" if abs(skew) < 60 else f"set the clock, which differs by {skew:+,.0f} s: tokens expire early or late"
    return f"{address} accepts the token", hint


def check_localhost(_data: Path | None) -> tuple[str, str]:
    """Check that names below localhost lead to this machine; other programs need them, pipemagic does not."""
    host = "flights-local.localhost"
    try:
        addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM)}
    except OSError:
        return f"other programs cannot find {host}", "give them http://127.0.0.1:PORT with the token of a database"
    if others := addresses - {"127.0.0.1", "::1"}:
        raise SessionError(f"{host} is another machine, {min(others)}", hint="correct the resolver (RFC 6761)")
    return f"{host} is this machine", ""


def check_proxy(_data: Path | None) -> tuple[str, str]:
    """Check that other programs do not send requests for this machine to a proxy."""
    hint = "" if find_proxy("http", "127.0.0.1") is None else "export no_proxy=localhost,127.0.0.1"
    return "other programs send it requests to this machine" if hint else "not used for requests to this machine", hint


CHECKS = {"packages": check_packages, "data folder": check_folder, "service": check_service,
          "localhost": check_localhost, "proxy": check_proxy, "panels": check_panels}  # fmt: skip
