"""The options of ``pipemagic class serve``, its notes, and a class behind TLS."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

import pipemagic
from pipemagic import cli
from pipemagic.cli.serving import serve
from pipemagic.management_api.client import Management
from pipemagic.service import process
from pipemagic.service.hosting import Hosting
from pipemagic.service.limits import MB, Limits
from pipemagic.service.settings import Settings
from pipemagic.teaching.classes.serve import LEFT_OUT, hub_settings
from pipemagic.teaching.classes.serve import serve as class_serve

DOMAIN = "hub.example.org"
SHARED = ["--host", "0.0.0.0", "--domain", DOMAIN]
OF_CLASS = Limits(database=200 * MB, statement_time=20.0, database_streams=32, body=32 * MB, response=32 * MB)
HUB = {
    "JUPYTERHUB_SERVICE_NAME": "sql", "JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:10101",
    "JUPYTERHUB_SERVICE_PREFIX": "/services/sql/",
}  # fmt: skip


@pytest.fixture
def settings_of(monkeypatch, tmp_path):
    """Run the command without starting the service; return its settings."""
    seen = []
    monkeypatch.setattr(process, "stop_on_hang_up", lambda: None)

    def run(settings, announce):
        seen.append(settings)
        announce({"url": "http://127.0.0.1:4711", "organization": "local", "pid": 1})

    monkeypatch.setattr(process, "run", run)

    def settings(*options):
        assert cli.main(["class", "serve", "--data", str(tmp_path), *options]) == 0
        return seen.pop()

    return settings


def test_a_class_has_other_defaults_which_options_change(settings_of, tmp_path):
    assert settings_of() == Settings(tmp_path, limits=OF_CLASS)
    changed = settings_of(
        "--max-database-size", "1GB", "--statement-timeout", "5", "--max-database-streams", "8", "--max-body", "1MB",
        "--max-response", "2MB", "--base-path", "/services/sql/", "--port", "1",
    )  # fmt: skip
    limits = Limits(database=1024 * MB, statement_time=5.0, database_streams=8, body=MB, response=2 * MB)
    assert changed == Settings(tmp_path, port=1, limits=limits, base_path="/services/sql")


def test_a_class_has_the_options_of_serve_without_sign_up_and_other_engines(capsys):
    names = {parameter.name for parameter in class_serve.params}
    assert names == {parameter.name for parameter in serve.params} - LEFT_OUT | {"base_path"}
    assert {"--max-database-size", "--ssl-certfile"} <= {parameter.opts[0] for parameter in class_serve.params}
    for option in ("--allow-signup", "--engine=sqld"):
        assert cli.main(["class", "serve", option]) == 2
    assert "No such option" in capsys.readouterr().err


def test_the_notes_name_limits_and_metrics_but_no_token(settings_of, capsys, tmp_path):
    settings_of("--max-database-size", "1MB")
    out, err = capsys.readouterr()
    assert json.loads(out)["url"] == "http://127.0.0.1:4711"
    assert err.splitlines() == [
        "Each student can use a database of 1 MB, 32 open streams, and 20 s for a statement. "
        "Next: pipemagic class create ROSTER.csv --group GROUP --from TEMPLATE --expires 2h",
        f"The metrics are at http://127.0.0.1:4711/metrics, with the token in {tmp_path / 'platform-token'}",
    ]


@pytest.mark.parametrize(("options", "message", "hint"), [
    (SHARED, "without TLS", "on a JupyterHub, omit --host"),
    (["--host", "0.0.0.0"], "requires a domain name", "add --domain"),
    (["--ssl-keyfile", "key.pem"], "requires --ssl-certfile", "name the certificate"),
])  # fmt: skip
def test_unsafe_settings_are_refused_with_a_hint_for_a_class(capsys, tmp_path, options, message, hint):
    assert cli.main(["class", "serve", "--data", str(tmp_path), *options]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert hint in error


@pytest.mark.parametrize("path", ["services/sql", "/", "", "/a b", "/services//sql", "https://hub/services/sql"])
def test_a_base_path_is_checked(capsys, path):
    assert cli.main(["class", "serve", f"--base-path={path}"]) == 2
    assert "is not a path such as /services/sql/" in capsys.readouterr().err


def test_a_service_of_a_jupyterhub_takes_its_address_from_the_environment(settings_of, monkeypatch, capsys, tmp_path):
    for name, value in {**HUB, "JUPYTERHUB_PUBLIC_URL": f"https://{DOMAIN}/services/sql/"}.items():
        monkeypatch.setenv(name, value)
    assert settings_of() == Settings(
        tmp_path, port=10101, limits=OF_CLASS, base_path="/services/sql", hosting=Hosting(domain=DOMAIN)
    )
    assert "Behind the proxy, the address ends with /services/sql\n" in capsys.readouterr().err
    chosen = settings_of("--port", "4711", "--base-path", "/x", "--domain", "localhost")
    assert (chosen.port, chosen.base_path, chosen.hosting) == (4711, "/x", Hosting())


def test_only_a_service_of_a_hub_uses_these_variables():
    """The server of a user has its own address in the same variables."""
    assert hub_settings(HUB) == {"port": 10101, "base_path": "/services/sql", "domain": None}
    assert hub_settings({name: value for name, value in HUB.items() if name != "JUPYTERHUB_SERVICE_NAME"}) == {}
    without_address = {"port": None, "base_path": "", "domain": None}
    assert hub_settings({"JUPYTERHUB_SERVICE_NAME": "sql", "JUPYTERHUB_PUBLIC_URL": ""}) == without_address


@pytest.fixture
def shared(tmp_path):
    """A class behind TLS: its first line, and the authority of its certificate."""
    authority = trustme.CA()
    leaf, pem, trusted = authority.issue_cert("localhost"), tmp_path / "cert.pem", tmp_path / "authority.pem"
    leaf.private_key_and_cert_chain_pem.write_to_path(pem)
    authority.cert_pem.write_to_path(trusted)
    command = [
        sys.executable, "-m", "pipemagic", "class", "serve", "--data", tmp_path / "data", "--port", "0", "--host",
        "127.0.0.1", "--ssl-certfile", pem, "--base-path", "/services/sql",
    ]  # fmt: skip
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield json.loads(running.stdout.readline()), trusted
    finally:
        running.terminate()
        running.communicate(timeout=20)


def test_a_class_behind_tls_and_a_path(shared, tmp_path, monkeypatch):
    line, trusted = shared
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    address = f"{line['url'].replace('127.0.0.1', 'localhost')}/services/sql/"
    platform = Path(tmp_path / "data" / "platform-token").read_text().strip()
    with Management(f"{address}v1", platform) as api:
        api.create_group("g", "ams")
        info = api.create_database("student-1", "g")
        token = str(api.create_token("student-1"))
    assert info.url == address.rstrip("/")
    with pipemagic.connect(info.url, token) as db:
        db.execute("CREATE TABLE t(a)")
        with db.transaction() as transaction:
            transaction.execute("INSERT INTO t VALUES (1)")
        assert db.execute("SELECT * FROM t").rows == [(1,)]
