"""The options of ``pipemagic serve``, and the unit of systemd on the page about it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipemagic import cli
from pipemagic.cli import serving
from pipemagic.service import process
from pipemagic.service.limits import MB, LimitMode, Limits
from pipemagic.service.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "operators" / "serve.md"


@pytest.fixture
def unit():
    """The unit of systemd on the page."""
    return re.search(r"^```ini\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)[1]


def command_of(unit):
    """Return the words of ExecStart."""
    line = re.search(r"^ExecStart=(.*)$", unit.replace("\\\n", ""), re.MULTILINE)[1]
    return shlex.split(line)


def test_the_unit_on_the_page_starts_the_service_with_valid_options(unit, monkeypatch):
    program, name, *options = command_of(unit)
    assert (Path(program).name, name) == ("pipemagic", "serve")
    context = serving.serve.make_context("serve", options)
    settings = serving.settings_of(serving.given_parameters(context), context.params)
    assert (settings.port, settings.hosting.host, settings.access_log) == (443, "0.0.0.0", True)
    # The folder and the files are those that systemd creates.
    assert settings.folder.name in unit.partition("StateDirectory=")[2].splitlines()
    loaded = re.findall(r"^LoadCredential=(\w+):", unit, re.MULTILINE)
    assert [settings.hosting.certfile.name, settings.hosting.keyfile.name] == loaded


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_unit_on_the_page(unit, tmp_path):
    path = tmp_path / "pipemagic.service"
    path.write_text(unit.replace(command_of(unit)[0], f"{sys.executable} -m pipemagic"))
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_location_is_refused_with_similar_ones(capsys):
    assert cli.main(["serve", "--here", "fraa"]) == 2
    assert "location 'fraa' does not exist\nHint: did you mean fra" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "message"), [
    (["--simulate-latency"], "--simulate-latency requires --here"),
    (["--engine", "sqld", "--local", "1", "--here", "ams", "--max-streams", "5", "--limits", "relaxed"],
     "no effect with --engine sqld: --here, --limits, --max-streams"),
    (["--local", "1"], "--nodes and --local require --engine sqld"),
])  # fmt: skip
def test_options_without_effect_are_refused(capsys, options, message):
    assert cli.main(["serve", *options]) == 1
    assert message in capsys.readouterr().err


def test_a_network_address_without_a_domain_is_refused(capsys):
    assert cli.main(["serve", "--host", "0.0.0.0"]) == 1
    assert "Hint: add --domain" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [
    ("--max-body", "3x"), ("--max-body", "0"), ("--max-body", "-1MB"), ("--max-streams", "0"), ("--port", "65536"),
    ("--max-value", "1000000001"), ("--max-value", "4MB"),
    ("--statement-timeout", "0"), ("--statement-timeout", "nan"), ("--statement-timeout", "inf"), ("--limits", "none"),
])  # fmt: skip
def test_invalid_values_of_options_are_refused(capsys, option, value):
    assert cli.main(["serve", f"{option}={value}"]) == 2
    assert f"Invalid value for '{option}': " in capsys.readouterr().err


@pytest.mark.parametrize("origin", ["app.example.org", "https://x/y"])
def test_an_origin_has_a_scheme_and_a_name(capsys, origin):
    assert cli.main(["serve", "--cors", origin]) == 2
    assert "is not an origin such as https://app.example.org" in capsys.readouterr().err


def test_options_are_settings_and_have_their_defaults(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(process, "stop_on_hang_up", lambda: None)
    monkeypatch.setattr(process, "run", lambda settings, _announce: seen.append(settings))
    folder = tmp_path / "data"
    assert cli.main(["serve", "--data", str(folder)]) == 0
    assert cli.main([
        "serve", "--data", str(folder), "--port", "1", "--host", "localhost", "--cors", "https://App.example.org",
        "--trusted-proxy", "10.0.0.0/8", "--here", "ams", "--simulate-latency", "--unicode", "--statement-timeout", "4",
        "--max-streams", "7", "--max-database-streams", "2", "--max-connections", "6", "--max-body", "1KB",
        "--max-response", "2KB", "--max-value", "6MB", "--max-database-size", "3KB", "--max-memory", "5KB",
        "--allow-signup", "--access-log", "--limits", "relaxed",
    ]) == 0  # fmt: skip
    limits = Limits(
        mode=LimitMode.RELAXED,
        body=1024,
        response=2048,
        value=6 * MB,
        database=3072,
        memory=5120,
        streams=7,
        database_streams=2,
        statement_time=4.0,
    )
    assert seen == [Settings(folder), Settings(
        folder, port=1, limits=limits, signup=True, here="ams", simulate_latency=True, unicode=True, connections=6,
        access_log=True, cors=("https://app.example.org",), proxies=("10.0.0.0/8",),
    )]  # fmt: skip
