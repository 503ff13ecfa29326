"""``pipemagic doctor``: what may be wrong with this machine, and what to type next; or with notebooks."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from importlib import metadata
from pathlib import Path

from pipemagic import __version__
from pipemagic.cli import notebooks
from pipemagic.cli.base import Commands, say, say_json
from pipemagic.cli.credentials import Credentials
from pipemagic.configuration import config_folder
from pipemagic.errors import PipemagicError

OK, WARN, FAIL = "ok", "warn", "fail"
LOWEST_PYTHON = (3, 11)
LITTLE_SPACE, NO_SPACE = 1_000_000_000, 50_000_000  # bytes
EARLIEST = 1_735_689_600.0  # the first of January 2025: no clock is right that is behind it
MOST_SKEW = 60.0  # seconds: tokens expire early or late by as much
HOSTED_TIMEOUT = 10.0  # seconds

_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:>=\s*([0-9.]+))?")


@dataclass(frozen=True)
class Finding:
    """What one look gave: ``state`` is ok, warn or fail; ``todo`` says what to type next, '' if nothing."""

    name: str
    state: str
    said: str
    todo: str = ""


Look = Callable[[argparse.Namespace], Iterator[Finding]]


def add_command(top: Commands) -> None:
    """Declare the command."""
    text = "look for what may be wrong here, or for secrets in notebooks, and say what to do about it"
    notebooks.add_arguments(top.add("doctor", _doctor, text, listing=True))


def _doctor(options: argparse.Namespace) -> int:
    return notebooks.check(options) if options.files else _machine(options)


def _machine(options: argparse.Namespace) -> int:
    findings = [finding for look in LOOKS for finding in look(options)]
    if options.json:
        say_json([asdict(one) for one in findings])
    else:
        for one in findings:
            say(f"{one.state:<5} {one.name:<12} {one.said}")
            if one.todo:
                say(f"{'':<19}-> {one.todo}")
    return int(any(one.state == FAIL for one in findings))


# -- the programs


def python(_options: argparse.Namespace) -> Iterator[Finding]:
    """Look at the versions of Python and pipemagic."""
    said = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < LOWEST_PYTHON:
        yield Finding("python", FAIL, said, "install Python 3.11 or newer")
    else:
        yield Finding("python", OK, said)
    yield Finding("pipemagic", OK, f"{__version__} at {Path(__file__).parents[1]}")


def packages(_options: argparse.Namespace) -> Iterator[Finding]:
    """Look whether all packages that are needed are there, and new enough."""
    try:
        required = metadata.requires("pipemagic") or []
    except metadata.PackageNotFoundError:
        yield Finding("packages", WARN, "pipemagic is not installed here, so its needs are not known", "pip install .")
        return
    wanted = [one for line in required if ";" not in line and (one := _REQUIREMENT.match(line))]
    wrong = [problem for one in wanted if (problem := _package_problem(one[1], one[2] or "0"))]
    if wrong:
        yield Finding("packages", FAIL, "; ".join(wrong), "pip install --upgrade pipemagic")
    else:
        yield Finding("packages", OK, f"{len(wanted)} packages, all new enough")


def _package_problem(name: str, lowest: str) -> str:
    try:
        there = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} is missing"
    return f"{name} {there} is older than {lowest}" if _numbers(there) < _numbers(lowest) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.split("+")[0])[:4])


# -- folders


def data_folder(options: argparse.Namespace) -> Iterator[Finding]:
    """Look whether the data folder can be written to, by its owner alone, and has room."""
    from pipemagic import local

    folder = options.data or local.default_folder()
    if not folder.exists():
        there = next(parent for parent in folder.parents if parent.exists())
        if not os.access(there, os.W_OK):
            yield Finding("data folder", FAIL, f"{folder} cannot be made: {there} is read-only", _OTHER_DATA)
            return
        yield Finding("data folder", OK, f"{folder} will be made by the first command that needs it")
        yield _space(there)
        return
    yield _folder("data folder", folder, _OTHER_DATA)
    yield _space(folder)


_OTHER_DATA = "name another folder with PIPEMAGIC_DATA or --data"


def _folder(name: str, folder: Path, otherwise: str) -> Finding:
    if not folder.is_dir():
        return Finding(name, FAIL, f"{folder} is no folder", otherwise)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return Finding(name, FAIL, f"{folder} cannot be written to: {error.strerror}", otherwise)
    if sys.platform != "win32" and folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Finding(name, WARN, f"{folder} is open to others", f"chmod 700 {folder}")
    return Finding(name, OK, f"{folder} is writable and private")


def _space(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    said = f"{free / 1e9:,.1f} GB free at {folder}"
    if free < NO_SPACE:
        return Finding("disk", FAIL, said, "free some space: nothing can be written without")
    if free < LITTLE_SPACE:
        return Finding("disk", WARN, said, "free some space: copies of databases need as much as they take")
    return Finding("disk", OK, said)


def settings(_options: argparse.Namespace) -> Iterator[Finding]:
    """Look whether the file with the logins can be read, by its owner alone."""
    credentials = Credentials()
    if not credentials.path.exists():
        yield Finding("logins", OK, f"none in {config_folder()}")
        return
    try:
        credentials.get("")
    except PipemagicError as error:
        yield Finding("logins", FAIL, error.message, error.hint)
        return
    mode = credentials.path.stat().st_mode
    if sys.platform != "win32" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield Finding("logins", WARN, f"{credentials.path} is open to others", f"chmod 600 {credentials.path}")
    else:
        yield Finding("logins", OK, f"{credentials.path} is readable and private")


# -- the service and the way to it


def service(options: argparse.Namespace) -> Iterator[Finding]:
    """Look whether the embedded service runs, answers and is of this version."""
    from pipemagic import local

    try:
        found = local.check(options.data)
    except PipemagicError as error:
        yield Finding("service", FAIL, error.message, error.hint)
        return
    if found is None:
        yield Finding("service", OK, "does not run; the first command that needs it starts it")
    else:
        yield Finding("service", OK, f"answers at {found.url}, version {found.version}")


def names(_options: argparse.Namespace) -> Iterator[Finding]:
    """Look whether names below localhost resolve: pipemagic does without, other clients may not."""
    host = "flights-local.localhost"
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM)}
    except OSError:
        yield Finding(
            "localhost", WARN, f"names such as {host} do not resolve; pipemagic itself does without",
            "give other clients http://127.0.0.1:PORT with a database's token, or add the name to /etc/hosts",
        )  # fmt: skip
        return
    if found <= {"127.0.0.1", "::1"}:
        yield Finding("localhost", OK, f"{host} is {', '.join(sorted(found))}")
    else:
        yield Finding(
            "localhost", FAIL, f"{host} resolves to {', '.join(sorted(found))}, which is not this machine",
            "have the resolver answer names below localhost itself (RFC 6761)",
        )  # fmt: skip


def proxies(_options: argparse.Namespace) -> Iterator[Finding]:
    """Look for proxy variables that send other clients away from this machine."""
    set_here = [name for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY") if os.environ.get(name)]
    spared = os.environ.get("no_proxy", os.environ.get("NO_PROXY", "")).replace(" ", "").split(",")
    if not set_here:
        yield Finding("proxy", OK, "no variable sends requests to this machine elsewhere")
    elif "*" in spared or {"localhost", "127.0.0.1"} <= set(spared):
        yield Finding("proxy", OK, f"{set_here[0]} is set, and spares this machine")
    else:
        yield Finding(
            "proxy", WARN, f"{set_here[0]} is set: other clients would ask the proxy for this machine",
            "export no_proxy=localhost,127.0.0.1",
        )  # fmt: skip


def clock(_options: argparse.Namespace) -> Iterator[Finding]:
    """Look whether the clock can be right."""
    now = time.time()
    said = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
    yield (
        Finding("clock", FAIL, f"it is {said} here", "set the clock") if now < EARLIEST else Finding("clock", OK, said)
    )


def sqld(_options: argparse.Namespace) -> Iterator[Finding]:
    """Look for a libSQL server, which only one engine needs."""
    from pipemagic.service.sqld.binary import NoSqld, locate

    try:
        found, carried = locate()
    except NoSqld as missing:
        state = FAIL if os.environ.get("PIPEMAGIC_SQLD") else OK
        yield Finding(
            "sqld",
            state,
            f"{missing.message}; only `serve --engine sqld` needs it",
            missing.hint if state != OK else "",
        )
        return
    yield Finding("sqld", OK, f"in the package of {found}" if carried else str(found))


def hosted(options: argparse.Namespace) -> Iterator[Finding]:
    """Look whether the management API that the environment names can be reached, with what token."""
    from pipemagic.cli.platform import management, on_this_machine
    from pipemagic.session.secrets import API_URL

    if on_this_machine(options):
        yield Finding("hosted", OK, f"{API_URL} is not set: commands work on the embedded service")
        return
    try:
        with management(options) as api:
            expires = api.validate()
            skew = _skew(api.transport.get("/v1/locations").date)
    except PipemagicError as error:
        yield Finding("hosted", FAIL, error.message, error.hint)
        return
    left = "" if expires is None else f"; the login ends {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime(expires))}"
    yield Finding("hosted", OK, f"{os.environ[API_URL]} answers and takes the token{left}")
    if skew is not None and abs(skew) > MOST_SKEW:
        yield Finding(
            "clock", WARN, f"{abs(skew):,.0f} s {'ahead of' if skew > 0 else 'behind'} the service's", "set it"
        )


def _skew(date: str) -> float | None:
    try:
        return time.time() - parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return None


LOOKS: tuple[Look, ...] = (
    python, packages, data_folder, settings, service, names, proxies, clock, sqld, hosted,
)  # fmt: skip
