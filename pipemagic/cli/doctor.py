"""``pipemagic doctor``: checks of this machine, or of notebooks, with what to do about each problem."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from importlib import metadata
from pathlib import Path

import click

from pipemagic import launcher
from pipemagic.cli import console
from pipemagic.cli.api import CredentialsFile, SelectedService, data_option, management
from pipemagic.config import config_folder, make_private_folder
from pipemagic.errors import PipemagicError, SessionError
from pipemagic.service import files
from pipemagic.version import LOWEST_IPYTHON, __version__

OK, WARN, FAIL = "ok", "warn", "fail"
CLEAN, FOUND, UNREADABLE = 0, 1, 2  # exit codes for notebooks
LOW_SPACE, NO_SPACE = 1_000_000_000, 50_000_000  # bytes
EARLIEST = 1_735_689_600.0  # 2025-01-01: a clock that is behind it is wrong
MAX_SKEW = 60.0  # seconds: tokens expire early or late by as much
OTHER_DATA = "name another folder with PIPEMAGIC_DATA or --data"


@click.command()
@click.argument("notebooks", nargs=-1, type=click.Path(path_type=Path), metavar="[NOTEBOOK]...")
@click.option("--allow", multiple=True, metavar="REGEX", help="Ignore findings that match in full; repeatable.")
@console.json_option
@data_option
def doctor(data: Path | None, notebooks: Sequence[Path], allow: Sequence[str], as_json: bool) -> int:
    """Check this machine for problems, or notebooks for secrets.

    A NOTEBOOK is a notebook, a folder of notebooks, or another text file. It is searched for tokens, passwords and
    private hosts.
    """
    if notebooks:
        return check_notebooks(notebooks, allow, as_json)
    if allow:
        raise click.UsageError("--allow requires notebooks.", click.get_current_context())
    return check_machine(data, as_json)


# -- notebooks


def check_notebooks(paths: Sequence[Path], allow: Sequence[str], as_json: bool) -> int:
    """Print a line for each finding, with secrets masked, and return the exit code."""
    from pipemagic import secret_scan

    try:
        allowed = [re.compile(text) for text in allow]
    except re.error as error:
        raise SessionError(f"--allow requires a regular expression: {error}") from None
    findings: list[secret_scan.Finding] = []
    unreadable = False
    for path in (file for root in paths for file in secret_scan.files_in(root)):
        try:
            findings += [
                secret
                for secret in secret_scan.scan_file(path)
                if not any(regex.fullmatch(secret.text) for regex in allowed)
            ]
        except secret_scan.UnreadableFile as error:
            console.print_note(f"Error: {error.message}")
            unreadable = True
    rows = [
        (str(secret.path), secret.cell, secret.where, secret.kind, secret_scan.mask(secret.text)) for secret in findings
    ]
    if as_json:
        console.print_json([dict(zip(("path", "cell", "where", "kind", "found"), row, strict=True)) for row in rows])
    else:
        for name, cell, where, kind, text in rows:
            console.print_line(f"{name}:{cell}:{where}: {kind} {text}")
    if findings:
        console.print_note(
            "Remove these before you share the file: put tokens into variables, clear the outputs, and replace a "
            "token that others may have seen. Allow what is intended with --allow REGEX or # pipemagic: allow"
        )
    return FOUND if findings else UNREADABLE if unreadable else CLEAN


# -- this machine


@dataclass(frozen=True)
class Diagnosis:
    """The result of one check: ``state`` is ok, warn or fail; ``hint`` says what to do, '' if nothing."""

    state: str
    message: str
    hint: str = ""


def check_machine(data: Path | None, as_json: bool) -> int:
    """Print the result of each check, and return 1 if one failed."""
    diagnoses = {name: run_check(check, data) for name, check in CHECKS.items()}
    if as_json:
        console.print_json([{"name": name, **asdict(diagnosis)} for name, diagnosis in diagnoses.items()])
    else:
        for name, diagnosis in diagnoses.items():
            console.print_line(f"{diagnosis.state:<5} {name:<12} {diagnosis.message}")
            if diagnosis.hint:
                console.print_line(f"{'':<19}-> {diagnosis.hint}")
    return int(any(diagnosis.state == FAIL for diagnosis in diagnoses.values()))


def run_check(check: Callable[[Path | None], Diagnosis], data: Path | None) -> Diagnosis:
    """Run a check; an error is its diagnosis."""
    try:
        return check(data)
    except PipemagicError as error:
        return Diagnosis(FAIL, error.message, error.hint)


def check_packages(_data: Path | None) -> Diagnosis:
    """Check that all required packages are installed and new enough."""
    try:
        required = metadata.requires("pipemagic") or []
    except metadata.PackageNotFoundError:
        return Diagnosis(WARN, "pipemagic is not installed, so its requirements are unknown", "pip install .")
    requirements = re.findall(r"^([\w.-]+) *(?:>= *([0-9.]+))?[^;\n]*$", "\n".join(required), re.MULTILINE)
    problems = [problem for name, lowest in requirements if (problem := package_problem(name, lowest))]
    if problems:
        return Diagnosis(FAIL, "; ".join(problems), "pip install --upgrade pipemagic")
    return Diagnosis(OK, f"{len(requirements)} packages, all new enough")


def package_problem(name: str, lowest: str) -> str:
    """Return what is wrong with a package: it is missing, or older than ``lowest`` if that is not ''; otherwise ''."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} is missing"
    numbers, least = ([int(number) for number in re.findall(r"\d+", text.split("+")[0])] for text in (version, lowest))
    return f"{name} {version} is older than {lowest}" if numbers < least else ""


def check_ipython(_data: Path | None) -> Diagnosis:
    """Report the version of IPython, which a kernel that started before its installation does not have."""
    if problem := package_problem("ipython", LOWEST_IPYTHON):
        return Diagnosis(FAIL, problem, f'pip install "ipython>={LOWEST_IPYTHON}", then restart the kernel')
    version = metadata.version("ipython")
    return Diagnosis(OK, f"{version}; restart kernels that were started with a version before {LOWEST_IPYTHON}")


def check_data_folder(data: Path | None) -> Diagnosis:
    """Check that the service can use the data folder, and that it is writable and private."""
    folder, existing = data_folders(data)
    if existing != folder:
        if existing.is_dir() and os.access(existing, os.W_OK):
            return Diagnosis(OK, f"{folder} will be created by the first command that needs it")
        return Diagnosis(FAIL, f"{folder} cannot be created: {existing} is not a writable folder", OTHER_DATA)
    make_private_folder(folder)  # raises what the service would raise; an existing folder is not changed
    files.check_data_folder(folder)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return Diagnosis(FAIL, f"{folder} cannot be written to: {error.strerror}", OTHER_DATA)
    return check_mode(folder, "writable", 700)


def data_folders(data: Path | None) -> tuple[Path, Path]:
    """Return the data folder, and that folder or the nearest one above it that exists."""
    folder = data or launcher.default_folder()
    return folder, next(path for path in (folder, *folder.parents) if path.exists())


def check_mode(path: Path, quality: str, mode: int) -> Diagnosis:
    """Check that no other user has access to a file or folder; Windows has no modes."""
    if sys.platform != "win32" and path.stat().st_mode & 0o077:
        return Diagnosis(WARN, f"{path} is accessible to other users", f"chmod {mode} {path}")
    return Diagnosis(OK, f"{path} is {quality} and private")


def check_disk(data: Path | None) -> Diagnosis:
    """Check that there is free space."""
    _, existing = data_folders(data)
    free = shutil.disk_usage(existing).free
    message = f"{free / 1e9:,.1f} GB free at {existing}"
    if free < NO_SPACE:
        return Diagnosis(FAIL, message, "free some space: nothing can be written")
    if free < LOW_SPACE:
        return Diagnosis(WARN, message, "free some space: a copy of a database needs as much as the database")
    return Diagnosis(OK, message)


def check_logins(_data: Path | None) -> Diagnosis:
    """Check that the file with the logins is valid and private."""
    credentials = CredentialsFile()
    if not credentials.path.exists():
        return Diagnosis(OK, f"none in {config_folder()}")
    credentials.get("")
    return check_mode(credentials.path, "readable", 600)


def check_service(data: Path | None) -> Diagnosis:
    """Check that the embedded service answers and has this version, if it runs."""
    service = launcher.check(data)
    if service is None:
        return Diagnosis(OK, "is not running; the first command that needs it starts it")
    return Diagnosis(OK, f"answers at {service.url}, version {service.version}")


def check_names(_data: Path | None) -> Diagnosis:
    """Check whether names below localhost resolve: other clients need them, pipemagic does not."""
    host = "flights-local.localhost"
    try:
        addresses = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM)})
    except OSError:
        hint = "give other clients http://127.0.0.1:PORT with a database's token, or add the name to /etc/hosts"
        return Diagnosis(WARN, f"names such as {host} do not resolve; pipemagic does not need them", hint)
    if set(addresses) <= {"127.0.0.1", "::1"}:
        return Diagnosis(OK, f"{host} is {', '.join(addresses)}")
    message = f"{host} resolves to {', '.join(addresses)}, which is not this machine"
    return Diagnosis(FAIL, message, "configure the resolver for names below localhost (RFC 6761)")


def check_proxies(_data: Path | None) -> Diagnosis:
    """Check for proxy variables that apply to requests to this machine."""
    variables = [name for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY") if os.environ.get(name)]
    exceptions = os.environ.get("no_proxy", os.environ.get("NO_PROXY", "")).replace(" ", "").split(",")
    if not variables:
        return Diagnosis(OK, "no proxy is set")
    if "*" in exceptions or {"localhost", "127.0.0.1"} <= set(exceptions):
        return Diagnosis(OK, f"{variables[0]} is set, but not for this machine")
    message = f"{variables[0]} is set: other clients would send requests to this machine to the proxy"
    return Diagnosis(WARN, message, "export no_proxy=localhost,127.0.0.1")


def check_clock(_data: Path | None) -> Diagnosis:
    """Check that the clock is not far behind."""
    now = time.time()
    if now < EARLIEST:
        return Diagnosis(FAIL, f"it is {format_time(now)} here", "set the clock")
    return Diagnosis(OK, format_time(now))


def format_time(seconds: float) -> str:
    """Format a time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def check_sqld(_data: Path | None) -> Diagnosis:
    """Report where the libSQL server is installed, which only one engine needs."""
    from pipemagic.service.sqld.local_nodes import NoSqld, locate_sqld

    try:
        path, packaged = locate_sqld()
    except NoSqld as missing:
        message = f"{missing.message}; only `serve --engine sqld` needs it"
        return Diagnosis(FAIL, message, missing.hint) if os.environ.get("PIPEMAGIC_SQLD") else Diagnosis(OK, message)
    return Diagnosis(OK, f"in the package of {path}" if packaged else str(path))


def check_hosted(data: Path | None) -> Diagnosis:
    """Check that the management API of the environment accepts the token, and that its clock agrees with this one."""
    address = SelectedService(data).address
    if address is None:
        return Diagnosis(OK, "PIPEMAGIC_API_URL is not set: commands use the embedded service")
    with management(data) as api:
        expires = api.validate()
        skew = clock_skew(api.transport.get("/v1/locations").date)
    until = "" if expires is None else f"; the login expires {format_time(expires)}"
    message = f"{address} answers and accepts the token{until}"
    if abs(skew) <= MAX_SKEW:
        return Diagnosis(OK, message)
    direction = "ahead of" if skew > 0 else "behind"
    return Diagnosis(WARN, f"{message}; this clock is {abs(skew):,.0f} s {direction} the service's", "set the clock")


def clock_skew(date: str) -> float:
    """Return how many seconds this clock is ahead of the date of a response; 0 for a response without one."""
    try:
        return time.time() - parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return 0.0


CHECKS: dict[str, Callable[[Path | None], Diagnosis]] = {
    "python": lambda _: Diagnosis(OK, f"{platform.python_version()} at {sys.executable}"),
    "pipemagic": lambda _: Diagnosis(OK, f"{__version__} at {Path(__file__).parents[1]}"),
    "packages": check_packages, "ipython": check_ipython,
    "data folder": check_data_folder, "disk": check_disk, "logins": check_logins, "service": check_service,
    "localhost": check_names, "proxy": check_proxies, "clock": check_clock, "sqld": check_sqld,
    "hosted": check_hosted,
}  # fmt: skip
