"""An IPython shell in process, without history, with the magics loaded, on a selected server."""

from __future__ import annotations

import atexit
import gc
import re
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from pipemagic import launcher
from pipemagic.session.tokens import API_URL, DATABASE_TOKENS, DATABASE_URL, PLATFORM_TOKENS

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PORT = re.compile(r"localhost:\d+")


@dataclass
class Cell:
    """The output and the value of a cell."""

    out: str
    err: str
    value: Any
    error: BaseException | None
    shown: list[Any]

    @property
    def lines(self) -> list[str]:
        """The lines that it printed, without the value that IPython shows."""
        return [line for line in self.out.split("Out[")[0].splitlines() if line]

    @property
    def stable_lines(self) -> list[str]:
        """The lines, with PORT for the port of the service, which differs between runs."""
        return [_PORT.sub("localhost:PORT", line) for line in self.lines]


class Shell:
    """Runs cells as a notebook does, and returns the outcome of each."""

    def __init__(self, ip: InteractiveShell) -> None:
        self.ip = ip

    def run(self, cell: str) -> Cell:
        """Run a cell; it may fail."""
        with capture_output() as captured:
            result = self.ip.run_cell(cell)
        out, err = (_COLOURS.sub("", text) for text in (captured.stdout, captured.stderr))
        shown = [output.data for output in captured.outputs]
        return Cell(out, err, result.result, result.error_before_exec or result.error_in_exec, shown)

    def __call__(self, cell: str) -> Cell:
        """Run a cell, which must succeed."""
        done = self.run(cell)
        assert done.error is None, done.out + done.err
        return done

    def fails(self, cell: str) -> Cell:
        """Run a cell, which must fail."""
        done = self.run(cell)
        assert done.error is not None, done.out
        return done

    @property
    def names(self) -> dict[str, Any]:
        return self.ip.user_ns


@contextmanager
def without_collection():
    """Let the full collection at the end of a reset find nothing: it takes longer than a test."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def ipython():
    """One IPython shell for the tests of a module; `get_ipython` returns it in tests that use `plain_shell` only."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    ip = InteractiveShell.instance(config=config)
    InteractiveShell.clear_instance()
    yield ip
    atexit.unregister(ip.atexit_operations)
    with without_collection():
        ip.atexit_operations()


@pytest.fixture
def plain_shell(ipython):
    """A shell without the magics, as at the start of a kernel."""
    InteractiveShell._instance = ipython
    config = deepcopy(ipython.config)
    yield Shell(ipython)
    if "pipemagic" in ipython.extension_manager.loaded:
        ipython.run_line_magic("unload_ext", "pipemagic")
    for found in ipython.magics_manager.magics.values():
        for name in [name for name, magic in found.items() if magic.__module__ == "__main__"]:
            del found[name]  # it is defined by a cell
    ipython.config = config
    with without_collection():
        ipython.reset()
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(plain_shell, monkeypatch, tmp_path):
    """A shell with the magics; the environment has no token and no service, and no file of the user is read."""
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(tmp_path / "config"))
    for variable in (*DATABASE_TOKENS, *PLATFORM_TOKENS, API_URL, DATABASE_URL):
        monkeypatch.delenv(variable, raising=False)
    plain_shell("%load_ext pipemagic")
    return plain_shell


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The data folder of this test for the embedded service."""
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    yield tmp_path / "data"
    launcher.stop()


@pytest.fixture(scope="session")
def service():
    """One embedded service for all tests that do not stop it; each creates its own database."""
    with launcher.temporary() as lease:
        yield lease.service


@pytest.fixture
def server():
    """The server of `db`: a test or a module in which the server matters has ``sqld`` as well."""
    return "embedded"


@pytest.fixture
def db(request, server, shell, monkeypatch):
    """The shell, connected as ``db`` to a fresh database."""
    if server == "sqld":
        made = request.getfixturevalue("sqld_database")
        url, token = made.url, made.token
    else:
        url, token = make_database(request.getfixturevalue("service"), request.node.nodeid)
    monkeypatch.setenv("DB_TOKEN", token)
    shell(f"%pipedb connect {url} --as db --token-env DB_TOKEN")
    return shell


def make_database(service, name):
    """Create a database of the embedded service; return its address and a token."""
    from hashlib import sha256

    from pipemagic.management_api.client import Management

    with Management(service.url, service.platform_token(), organization=service.organization) as api:
        if not api.groups():
            api.create_group("default", "ams")
        made = api.create_database(f"t{sha256(name.encode()).hexdigest()[:20]}", "default")
        return made.url, str(api.create_token(made.name))
