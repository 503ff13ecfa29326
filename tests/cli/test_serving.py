"""The options of ``pipemagic serve``, and the systemd unit that it prints."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipemagic import cli
from pipemagic.service import process
from pipemagic.service.limits import MB, LimitMode, Limits
from pipemagic.service.settings import Settings


@pytest.fixture
def printed(capsys, monkeypatch, tmp_path):
    """Run ``pipemagic serve --print-systemd``; return the unit's section Service and its text."""
    monkeypatch.chdir(tmp_path)

    def run(*options):
        assert cli.main(["serve", *options, "--print-systemd"]) == 0
        text = capsys.readouterr().out
        verify(text, tmp_path)
        parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters="=")
        parser.optionxform = str
        parser.read_string(text)
        return parser["Service"], text

    return run


def verify(text, folder):
    """Verify the unit with systemd, if it is installed."""
    if shutil.which("systemd-analyze"):
        path = folder / "pipemagic.service"
        path.write_text(text)
        done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")


HUB = ["--host", "0.0.0.0", "--domain", "hub.example.org"]


def test_a_unit_with_a_dynamic_user_and_certificates_of_root(printed, tmp_path):
    tls = ["--ssl-certfile", "/etc/tls/cert 100%.pem", "--ssl-keyfile", "key.pem"]
    service, text = printed(*HUB, *tls, "--port", "443", "--access-log", "/var/log/pipemagic/access.log")
    assert service["ExecStart"] == (
        f"{sys.executable} -m pipemagic serve --data /var/lib/pipemagic --port 443 --host 0.0.0.0"
        " --domain hub.example.org --ssl-certfile %d/ssl_certfile --ssl-keyfile %d/ssl_keyfile"
        " --access-log /var/log/pipemagic/access.log"
    )
    assert "LoadCredential=ssl_certfile:/etc/tls/cert 100%%.pem\n" in text
    assert f"LoadCredential=ssl_keyfile:{tmp_path}/key.pem\n" in text
    assert service["DynamicUser"] == "yes"
    assert service["StateDirectory"] == "pipemagic"
    assert service["AmbientCapabilities"] == service["CapabilityBoundingSet"] == "CAP_NET_BIND_SERVICE"
    assert service["ProtectSystem"] == "strict"
    assert "ReadWritePaths" not in service


def test_a_unit_with_a_data_folder_runs_as_the_current_user(printed, tmp_path, monkeypatch):
    monkeypatch.setenv("LOGNAME", "ada")
    service, text = printed("--data", "the $data", "--max-streams", "10", "--max-body", "2MB", "--access-log", "x.log")
    assert service["User"] == "ada"
    assert "DynamicUser" not in service
    assert f'serve --data "{tmp_path}/the $$data" --max-streams 10' in service["ExecStart"]
    assert "--max-body 2097152" in service["ExecStart"]
    assert f'ReadWritePaths="{tmp_path}/the $$data"\nReadWritePaths={tmp_path}\n' in text
    assert service["CapabilityBoundingSet"] == ""


def test_a_unit_with_a_data_folder_can_write_a_log_in_the_folder_of_logs(printed):
    service, _ = printed("--data", "data", "--access-log", "/var/log/pipemagic/access.log")
    assert service["LogsDirectory"] == "pipemagic"


def test_an_unknown_location_is_refused_with_similar_ones(capsys):
    assert cli.main(["serve", "--here", "fraa"]) == 2
    assert "there is no location 'fraa'; did you mean fra" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "message"), [
    (["--simulate-latency"], "--simulate-latency needs the location of the service"),
    (["--engine", "sqld", "--local", "1", "--here", "ams", "--max-streams", "5", "--limits", "relaxed"],
     "--here, --limits, --max-streams has no effect on libSQL servers"),
    (["--local", "1"], "--nodes and --local are options of libSQL servers"),
])  # fmt: skip
def test_options_without_effect_are_refused(capsys, options, message):
    assert cli.main(["serve", *options]) == 1
    assert message in capsys.readouterr().err


def test_no_unit_is_printed_for_invalid_settings(capsys):
    assert cli.main(["serve", "--host", "0.0.0.0", "--print-systemd"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "Hint: add --domain" in err


@pytest.mark.parametrize(("option", "value"), [
    ("--max-body", "3x"), ("--max-body", "0"), ("--max-body", "-1MB"), ("--max-streams", "0"), ("--port", "65536"),
    ("--max-value", "1000000001"), ("--max-value", "4MB"),
    ("--statement-timeout", "0"), ("--statement-timeout", "nan"), ("--statement-timeout", "inf"), ("--limits", "none"),
])  # fmt: skip
def test_invalid_values_of_options_are_refused(capsys, option, value):
    assert cli.main(["serve", f"{option}={value}"]) == 2
    assert f"Invalid value for '{option}': " in capsys.readouterr().err


def test_relaxed_limits_are_kept_in_the_unit(printed):
    service, _ = printed("--limits", "relaxed")
    assert service["ExecStart"].endswith("--limits relaxed")


def test_origins_and_the_statement_timeout_are_checked_and_kept(printed, capsys):
    service, _ = printed("--cors", "https://App.example.org", "--cors", "*", "--statement-timeout", "2.5")
    assert service["ExecStart"].endswith("--cors https://app.example.org --cors * --statement-timeout 2.5")
    for wrong in (["--cors", "app.example.org"], ["--cors", "https://x/y"], ["--statement-timeout", "0"]):
        assert cli.main(["serve", *wrong]) == 2
    assert "write its scheme and name" in capsys.readouterr().err


def test_options_are_settings_and_have_their_defaults(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(process, "stop_on_hang_up", lambda: None)
    monkeypatch.setattr(process, "run", lambda settings, _announce: seen.append(settings))
    folder = tmp_path / "data"
    assert cli.main(["serve", "--data", str(folder)]) == 0
    assert cli.main([
        "serve", "--data", str(folder), "--port", "1", "--host", "localhost", "--cors", "*",
        "--trusted-proxy", "10.0.0.0/8", "--here", "ams", "--simulate-latency", "--unicode", "--statement-timeout", "4",
        "--max-streams", "7", "--max-database-streams", "2", "--max-connections", "6", "--max-body", "1KB",
        "--max-response", "2KB", "--max-value", "6MB", "--max-database-size", "3KB", "--max-memory", "5KB",
        "--allow-signup", "--access-log", "-", "--limits", "relaxed",
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
        access_log=Path("-"), cors=("*",), proxies=("10.0.0.0/8",),
    )]  # fmt: skip
