"""`pipemagic doctor`: every finding; the problems are real ones where possible."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import venv
from pathlib import Path

import jupyter_core
import pytest

from pipemagic import cli, launcher
from pipemagic.cli import doctor
from pipemagic.cli.quickstart import check_panels
from pipemagic.errors import SessionError
from pipemagic.service.files import RUNTIME_FILE

posix = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
own = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def examine(run):
    """Run the checks; return the exit code, and the state, message and hint of each check by its name."""

    def examine():
        code, out, err = run("doctor")
        assert err == ""
        return code, results(out)

    return examine


def results(out):
    by_name, name = {}, ""
    for line in out.splitlines():
        if line.startswith(" "):
            by_name[name][2] = line.removeprefix(" " * 19 + "Hint: ")
        else:
            name = line[6:18].rstrip()
            by_name[name] = [line[:5].rstrip(), line[19:], ""]
    return by_name


@own
def test_a_machine_without_problems(examine, run, folder):
    code, found = examine()
    assert code == 0
    assert found["service"] == ["ok", "not running; commands start it", ""]
    assert not folder.exists()  # the checks change nothing
    run("org", "list")
    code, found = examine()
    assert code == 0
    free = f"{shutil.disk_usage(folder).free / 1e9:,.1f} GB free"
    state, message, _ = found["data folder"]
    assert (state, re.sub(r"[\d.]+ [kM]B used", "SIZE used", message)) == ("ok", f"{folder} (SIZE used, {free})")
    assert found["service"][1].startswith(f"{launcher.find(folder).url}, version ")
    assert all((state == "ok") == (not hint) for state, _, hint in found.values())


def test_the_size_of_the_data(tmp_path):
    folder = tmp_path / "data"
    assert " used" not in doctor.check_folder(folder)[0]
    (folder / "databases").mkdir(mode=0o700, parents=True)
    folder.chmod(0o700)
    (folder / "databases" / "a.sqlite").write_bytes(bytes(2_500_000))
    (folder / "b").write_bytes(bytes(500_000))
    assert doctor.check_folder(folder)[0].startswith(f"{folder} (3.0 MB used, ")


@posix
@own
def test_a_folder_that_the_service_refuses(examine, folder):
    folder.mkdir()
    folder.chmod(0o770)
    code, found = examine()
    state, message, hint = found["data folder"]
    assert (code, state, message) == (1, "fail", f"other users can write to the data folder {folder}")
    assert f"chmod 700 '{folder}'" in hint


def test_a_data_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(SessionError) as caught:
        doctor.check_folder(tmp_path / "file" / "data")
    assert caught.value.message == f"cannot write to {tmp_path / 'file'}"
    assert "PIPEMAGIC_DATA" in caught.value.hint


def test_a_folder_on_a_disk_that_is_read_only(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root can write everywhere else
    with pytest.raises(SessionError, match="cannot write to"):
        doctor.check_folder(tmp_path / "data")


@own
def test_a_full_disk(examine, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    state, message, hint = examine()[1]["data folder"]
    assert (state, "0.0 GB free" in message, hint[:12]) == ("warn", True, "delete files")


def test_a_service_of_another_version(examine, folder):
    about = json.loads((folder / RUNTIME_FILE).read_bytes())
    (folder / RUNTIME_FILE).write_text(json.dumps(about | {"version": "0.0.1"}))
    try:
        code, found = examine()
    finally:
        (folder / RUNTIME_FILE).write_text(json.dumps(about))
    assert (code, found["service"][0]) == (1, "fail")
    assert "pipemagic stop" in found["service"][2]


def test_a_service_that_does_not_respond(examine, folder):
    about = json.loads((folder / RUNTIME_FILE).read_bytes())
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        elsewhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
    (folder / RUNTIME_FILE).write_text(json.dumps(about | {"url": elsewhere}))
    try:
        code, found = examine()
    finally:
        (folder / RUNTIME_FILE).write_text(json.dumps(about))
    assert code == 1
    assert f"{elsewhere} does not respond" in found["service"][1]


@own
def test_proxies(examine, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert examine()[1]["proxy"][0] == "ok"
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://proxy.example.io:3128")
        state, _, hint = examine()[1]["proxy"]
        assert (state, hint) == ("warn", "export no_proxy=localhost,127.0.0.1")
        monkeypatch.setenv("no_proxy", "localhost, 127.0.0.1")
        assert examine()[1]["proxy"][0] == "ok"
        monkeypatch.delenv(name)
        monkeypatch.delenv("no_proxy")


def test_names_that_resolve_to_another_machine(monkeypatch):
    def resolve(*_, **__):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.7", 80))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(SessionError, match=r"flights-local.localhost is another machine, 203\.0\.113\.7"):
        doctor.check_localhost(None)


def test_names_that_do_not_resolve(monkeypatch):
    def fail(*_, **__):
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert "127.0.0.1:PORT" in doctor.check_localhost(None)[1]


@pytest.mark.parametrize(("requirement", "message"), [
    ("click>=99", r"^click \d+\S*; pipemagic requires click 99\n"),
    ("nope-nope>=1", "^nope-nope is missing; pipemagic requires nope-nope 1\n"),
    ("nope-nope", "^nope-nope is missing; pipemagic requires nope-nope\n"),
])  # fmt: skip
def test_packages_that_are_too_old_or_missing(monkeypatch, requirement, message):
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: ["ipython>=8.18", requirement, "x>=1; extra == 'lab'"])
    with pytest.raises(SessionError, match=message) as caught:
        doctor.check_packages(None)
    assert caught.value.hint == "update it in its checkout: git pull && pip install ., then restart the kernels"


@pytest.fixture
def jupyterlab(tmp_path, monkeypatch):
    """A new environment with Jupyter's commands, but without any lab extension; return its folder."""
    venv.create(tmp_path / "lab")
    commands, packages = tmp_path / "lab" / "bin", Path(jupyter_core.__file__).parents[1]
    start = f"import sys; sys.path.append({str(packages)!r})\nfrom jupyter_core.command import main; main()"
    for name in ("jupyter", "jupyter-lab"):
        (commands / name).write_text(f"#!{commands / 'python'}\n{start}\n")
        (commands / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(commands))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "own"))
    monkeypatch.delenv("JUPYTER_PATH", raising=False)
    return tmp_path / "lab"


@posix
def test_a_jupyterlab_in_another_environment(jupyterlab, monkeypatch):
    for missing in ("@jupyter-widgets/jupyterlab-manager", "anywidget"):
        message, hint = check_panels(None)
        assert message.endswith(f"/jupyter-lab shows panels without their buttons: {missing} is missing")
        assert "pip install anywidget" in hint
        (jupyterlab / "share/jupyter/labextensions" / missing).mkdir(parents=True)
    assert check_panels(None) == (f"{jupyterlab}/bin/jupyter-lab shows panels", "")
    (jupyterlab / "bin/jupyter").unlink()
    assert check_panels(None)[0] == f"cannot find the extensions of {jupyterlab}/bin/jupyter-lab"
    monkeypatch.setenv("PATH", "")
    assert check_panels(None) == ("JupyterLab is not on the PATH", "")


@pytest.fixture
def hosted(folder, run, monkeypatch, capsys):
    """Check the service of the environment; return the exit code and its result."""
    monkeypatch.setenv("PIPEMAGIC_API_URL", launcher.find(folder).url)
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", run("auth", "token")[1].strip())
    monkeypatch.setenv("PIPEMAGIC_DATA", str(folder))

    def check():
        code = cli.main(["doctor"])
        return code, results(capsys.readouterr().out)["service"]

    return check


def test_a_hosted_service(hosted, monkeypatch):
    code, (state, message, hint) = hosted()
    assert (code, state, hint) == (0, "ok", "")
    assert message.endswith(" accepts the token")
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", "wrong")
    code, (state, _, hint) = hosted()
    assert (code, state) == (1, "fail")
    assert "pipemagic auth login" in hint
    monkeypatch.delenv("PIPEMAGIC_API_TOKEN")
    assert hosted()[0] == 1


def test_a_clock_that_differs_from_that_of_the_service(hosted, monkeypatch):
    now = doctor.time.time
    monkeypatch.setattr(doctor, "time", type("time", (), {"time": lambda: now() - 3600}))
    code, (state, _, hint) = hosted()
    assert (code, state) == (0, "warn")
    assert hint.startswith("set the clock, which differs by -3,")
