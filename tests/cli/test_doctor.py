"""`pipemagic doctor`: every finding; the problems are real ones where possible."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time

import pytest

from pipemagic import launcher
from pipemagic.cli import doctor
from pipemagic.service.files import RUNTIME_FILE

posix = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
own = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def examine(run):
    """Run the checks; return the exit code and the findings by name."""

    def examine():
        code, out, err = run("doctor", "--json")
        assert err == ""
        return code, {item["name"]: item for item in json.loads(out)}

    return examine


@own
def test_a_machine_without_problems(examine, run, folder):
    code, found = examine()
    assert code == 0
    assert found["data folder"]["message"] == f"{folder} will be created by the first command that needs it"
    assert not folder.exists()  # the checks change nothing
    run("org", "list")
    code, found = examine()
    assert code == 0
    assert found["data folder"] == {
        "name": "data folder", "state": "ok", "message": f"{folder} is writable and private", "hint": ""
    }  # fmt: skip
    assert launcher.find(folder).url in found["service"]["message"]
    assert all(finding["state"] == "ok" or finding["hint"] for finding in found.values())


@own
def test_as_text(run):
    code, out, _ = run("doctor")
    assert code == 0
    for line in out.splitlines():
        assert line.startswith(("ok    ", "warn  ", " " * 19 + "-> "))


@posix
def test_a_folder_that_others_can_read(examine, folder):
    folder.chmod(0o755)
    try:
        code, found = examine()
    finally:
        folder.chmod(0o700)
    assert code == 0
    assert (found["data folder"]["state"], found["data folder"]["hint"]) == ("warn", f"chmod 700 {folder}")


@posix
@own
def test_a_folder_that_the_service_refuses(examine, folder):
    folder.mkdir()
    folder.chmod(0o770)
    code, found = examine()
    assert (code, found["data folder"]["state"]) == (1, "fail")
    assert found["data folder"]["message"] == f"other users can write to the data folder {folder}"
    assert f"chmod 700 '{folder}'" in found["data folder"]["hint"]


def test_a_data_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("a file")
    found = doctor.check_data_folder(tmp_path / "file" / "data")
    assert found.state == "fail"
    assert (
        found.message == f"{tmp_path / 'file' / 'data'} cannot be created: {tmp_path / 'file'} is not a writable folder"
    )


@own
def test_a_full_disk(examine, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    code, found = examine()
    assert (code, found["disk"]["state"]) == (1, "fail")


def test_a_service_of_another_version(examine, folder):
    about = json.loads((folder / RUNTIME_FILE).read_bytes())
    (folder / RUNTIME_FILE).write_text(json.dumps(about | {"version": "0.0.1"}))
    try:
        code, found = examine()
    finally:
        (folder / RUNTIME_FILE).write_text(json.dumps(about))
    assert (code, found["service"]["state"]) == (1, "fail")
    assert "pipemagic stop" in found["service"]["hint"]


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
    assert f"{elsewhere} does not respond" in found["service"]["message"]


@own
def test_logins_that_cannot_be_read(examine, settings_folder):
    settings_folder.mkdir()
    (settings_folder / "credentials.json").write_text("nonsense")
    code, found = examine()
    assert (code, found["logins"]["state"]) == (1, "fail")
    assert "pipemagic auth login" in found["logins"]["hint"]


@own
def test_proxies(examine, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert examine()[1]["proxy"]["state"] == "ok"
    monkeypatch.setenv("http_proxy", "http://proxy.example.io:3128")
    found = examine()[1]["proxy"]
    assert (found["state"], found["hint"]) == ("warn", "export no_proxy=localhost,127.0.0.1")
    monkeypatch.setenv("no_proxy", "localhost, 127.0.0.1")
    assert examine()[1]["proxy"]["state"] == "ok"


@own
def test_a_clock_that_is_far_behind(examine, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    code, found = examine()
    assert (code, found["clock"]["message"]) == (1, "it is 1970-01-01 00:16 UTC here")


def test_names_that_resolve_to_another_machine(monkeypatch):
    def resolve(*_, **__):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.7", 80))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    found = doctor.check_names(None)
    assert (found.state, "203.0.113.7" in found.message) == ("fail", True)


def test_packages_that_are_too_old(monkeypatch):
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: ["httpx>=99", "nope-nope>=1", "x>=1; extra == 'lab'"])
    found = doctor.check_packages(None)
    assert found.state == "fail"
    assert found.message.endswith("is older than 99; nope-nope is missing")
    assert found.hint.startswith("pip install")


@own
def test_a_missing_sqld(examine, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_SQLD", "/nowhere/sqld")
    code, found = examine()
    assert code == 1
    assert "/nowhere/sqld" in found["sqld"]["message"]


def test_a_hosted_service(folder, run, monkeypatch, capsys):
    from pipemagic import cli

    token = run("auth", "token")[1].strip()
    monkeypatch.setenv("PIPEMAGIC_API_URL", launcher.find(folder).url)
    monkeypatch.setenv("PIPEMAGIC_DATA", str(folder))

    def hosted():
        code = cli.main(["doctor", "--json"])
        return code, {item["name"]: item for item in json.loads(capsys.readouterr().out)}["hosted"]

    assert hosted()[0] == 1
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", token)
    code, found = hosted()
    assert (code, found["state"]) == (0, "ok")
    assert "answers and accepts the token" in found["message"]
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", "wrong")
    code, found = hosted()
    assert (code, found["state"]) == (1, "fail")
    assert "pipemagic auth login" in found["hint"]
