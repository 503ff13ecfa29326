"""`%load_ext pipemagic` in a kernel whose IPython is too old, or was replaced on the disk since the kernel started."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import IPython
import pytest

from pipemagic.version import LOWEST_IPYTHON

ROOT = Path(__file__).parents[2]
LOAD = """
import sys, pipemagic
sys.modules.update(dict.fromkeys(sys.argv[1:]))
try:
    pipemagic.load_ipython_extension(None)
except ImportError as error:
    print(error)
    short = getattr(error, "_render_traceback_", None)
    assert short is None or short() == f"ImportError: {error}".split("\\n")
    print("a traceback" if short is None else "no traceback")
"""


@pytest.fixture
def load(tmp_path):
    """Load the extension in a process in which IPython is a package without the names of newer versions."""

    def load(running, installed, *modules):
        numbers = (*map(int, running.split(".")), "")
        package = tmp_path / "IPython"
        (package / "core").mkdir(parents=True)
        (package / "__init__.py").write_text(f"__version__ = {running!r}\nversion_info = {numbers!r}\n")
        for name in ("__init__", "completer", "extensions", "getipython", "interactiveshell"):
            (package / "core" / f"{name}.py").write_text("ExtensionManager = InteractiveShell = get_ipython = None\n")
        information = tmp_path / f"ipython-{installed}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ipython\nVersion: {installed}\n")
        path = os.pathsep.join([str(tmp_path), str(ROOT), *sys.path])
        run = subprocess.run(
            [sys.executable, "-c", LOAD, *modules], capture_output=True, text=True, timeout=60,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert run.stderr == ""
        return run.stdout.splitlines()

    return load


OLD = "pipemagic requires IPython 8.18 or later, but this kernel runs 7.34.0"


def test_the_kernel_must_be_restarted_after_the_installation(load):
    assert load("7.34.0", "9.18.1") == [
        OLD,
        "Hint: IPython 9.18.1 is installed; restart the kernel and run %load_ext pipemagic again",
        "no traceback",
    ]


def test_colab_calls_it_a_runtime(load):
    restart = "restart the runtime (Runtime > Restart session)"
    assert load("7.34.0", "8.39.0", "google.colab") == [
        OLD,
        f"Hint: IPython 8.39.0 is installed; {restart} and run %load_ext pipemagic again",
        "no traceback",
    ]


@pytest.mark.parametrize("installed", ["7.34.0", "9.18.1"])
def test_colab_needs_ipython_8(installed, load):
    restart = "restart the runtime (Runtime > Restart session)"
    assert load("7.34.0", installed, "google.colab")[1] == (
        f'Hint: run %pip install "ipython>=8.18,<9", {restart} and run %load_ext pipemagic again'
    )


def test_a_preliminary_version(load):
    assert load("7.34.0", "9.0b1")[1].startswith("Hint: IPython 9.0b1 is installed; restart the kernel")


def test_a_restart_is_not_enough_if_an_old_version_is_installed(load):
    assert load("7.34.0", "7.34.0") == [
        OLD,
        'Hint: run %pip install "ipython>=8.18", restart the kernel and run %load_ext pipemagic again',
        "no traceback",
    ]


def test_files_that_were_replaced_since_the_kernel_started(load):
    lines = load("8.20.0", "9.18.1")
    assert lines[0].startswith("this kernel still runs IPython 8.20.0: cannot import name 'CompletionContext'")
    assert lines[1:] == [
        "Hint: IPython 9.18.1 is installed; restart the kernel and run %load_ext pipemagic again",
        "no traceback",
    ]


def test_another_import_error_stays_as_it_is(load):
    lines = load("9.18.1", "9.18.1")
    assert lines[0].startswith("cannot import name 'CompletionContext'")
    assert lines[1:] == ["a traceback"]


def test_a_cell_shows_two_lines(plain_shell, monkeypatch):
    monkeypatch.setattr(IPython, "version_info", (7, 34, 0, ""))
    monkeypatch.setattr(IPython, "__version__", "7.34.0")
    cell = plain_shell.fails("%load_ext pipemagic")
    installed = metadata.version("ipython")
    assert cell.lines == [
        f"ImportError: {OLD}",
        f"Hint: IPython {installed} is installed; restart the kernel and run %load_ext pipemagic again",
    ]
    monkeypatch.undo()
    plain_shell("%load_ext pipemagic")


def test_the_lowest_version_is_that_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"ipython>={LOWEST_IPYTHON}" in project["dependencies"]
