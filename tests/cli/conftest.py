"""The ``pipemagic`` command over a data folder and a settings folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from started_services import SharedService, end_services

import pipemagic
from pipemagic import cli


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory):
    """The service of the tests that do not need one of their own; sign-up is on."""
    shared = SharedService(tmp_path_factory.mktemp("shared") / "data")
    process = subprocess.Popen(
        [sys.executable, "-m", "pipemagic", "serve", "--port", "0", "--allow-signup", "--data", shared.folder],
        env=os.environ | {"PYTHONPATH": str(Path(pipemagic.__file__).parents[1])}, stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        process.stdout.readline()
        yield shared
        shared.end()


@pytest.fixture(autouse=True)
def settings_folder(tmp_path, monkeypatch):
    """The folder for credentials; the files of the user are neither read nor written."""
    folder = tmp_path / "config"
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(folder))
    for name in ("PIPEMAGIC_API_URL", "PIPEMAGIC_API_TOKEN", "TURSO_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def own_folder(tmp_path):
    """A data folder for this test, which does not exist yet and has no service."""
    folder = tmp_path / "data"
    yield folder
    end_services(folder)


@pytest.fixture
def folder(request):
    """The data folder of the command: `own_folder` if the test uses it, otherwise that of an empty shared service."""
    if "own_folder" in request.fixturenames:
        return request.getfixturevalue("own_folder")
    shared = request.getfixturevalue("shared_service")
    shared.ready()
    return shared.folder


@pytest.fixture
def run(folder, capsys):
    """Run a command in this process; return exit code, standard output and standard error."""

    def run(*arguments):
        code = cli.main([*arguments, "--data", str(folder)])
        out, err = capsys.readouterr()
        return code, out, err

    return run
