"""Groups, databases, tokens and plans from the command line, against a real service."""

from __future__ import annotations

import io
import json
import os
import stat

import httpx
import pytest

from pipemagic import cli, launcher
from pipemagic.cli.api import CredentialsFile
from pipemagic.errors import SessionError


@pytest.fixture
def edge(run):
    """A group at ams with one database."""
    assert run("group", "create", "edge", "--location", "ams")[0] == 0
    assert run("db", "create", "flights", "--group", "edge", "--wait") == (0, "flights\n", "")


def test_groups(run, edge):
    assert run("group", "list")[1] == ("NAME  LOCATIONS      STATUS   PROTECTED\nedge  ams (primary)  healthy  no\n")
    assert run("group", "locations", "add", "edge", "nrt", "fra", "--wait") == (0, "nrt\nfra\n", "")
    lines = run("group", "locations", "list", "edge")[1].splitlines()
    assert [line.split()[0] for line in lines] == ["ID", "ams", "nrt", "fra"]
    assert "primary" in lines[1]
    assert "replica" in lines[2]
    shown = json.loads(run("group", "show", "edge", "--json")[1])
    assert (shown["primary"], shown["locations"]) == ("ams", ["ams", "nrt", "fra"])
    code, _, err = run("group", "locations", "add", "edge", "nrt")
    assert (code, err) == (1, "Error: the group edge is already at nrt\n")
    code, _, err = run("group", "locations", "add", "edge", "xxx")
    assert code == 1
    assert "pipemagic db locations" in err


def test_pausing_and_resuming_a_location(run, edge):
    run("group", "locations", "add", "edge", "nrt", "--wait")
    assert run("group", "locations", "pause", "edge", "nrt") == (0, "nrt\n", "")
    assert run("group", "list")[1].splitlines()[1].split(None, 3)[3] == "nrt  degraded (nrt)  no"
    assert run("group", "locations", "resume", "edge", "nrt") == (0, "nrt\n", "")
    assert run("group", "locations", "pause", "edge", "nrt", "--replication-only") == (0, "nrt\n", "")
    assert "lagging" in run("group", "locations", "list", "edge")[1]
    assert run("group", "locations", "resume", "edge", "nrt", "--wait") == (0, "nrt\n", "")
    assert "lagging" not in run("group", "locations", "list", "edge")[1]
    assert run("group", "locations", "pause", "edge", "ams") == (0, "ams\n", "")
    assert "unhealthy (ams)" in run("group", "show", "edge")[1]
    code, _, err = run("db", "shell", "flights", "CREATE TABLE t (a)")
    assert (code, "paused" in err) == (1, True)
    run("group", "locations", "resume", "edge", "ams")
    assert run("group", "locations", "remove", "edge", "nrt")[0] == 1  # it asks for confirmation
    assert run("group", "locations", "remove", "edge", "nrt", "-y") == (0, "nrt\n", "")
    assert json.loads(run("group", "show", "edge", "--json")[1])["locations"] == ["ams"]


def test_addresses_of_a_database(run, edge):
    http = run("db", "show", "flights", "--http-url")[1].strip()
    host = http.removeprefix("http://")
    assert run("db", "show", "flights", "--url") == (0, f"libsql://{host}?tls=0\n", "")
    assert run("db", "show", "flights", "--instance-url", "ams")[0] == 0
    assert run("db", "show", "flights", "--instance-url", "nrt")[0] == 1
    code, out, err = run("db", "show", "flights", "--url", "--http-url")
    assert (code, out, "--url and --http-url cannot be used together" in err) == (2, "", True)
    listed = json.loads(run("db", "list", "--json")[1])
    assert [(database["name"], database["group"], database["http_url"]) for database in listed] == [
        ("flights", "edge", http)
    ]
    assert run("db", "list", "--group", "edge")[1].splitlines()[1].split()[:2] == ["flights", "edge"]
    assert "ams  Amsterdam" in run("db", "locations")[1].replace("                 ", "  ")


def test_nothing_is_deleted_without_a_confirmation(run, edge):
    for command in (["db", "destroy", "flights"], ["group", "destroy", "edge"]):
        code, out, err = run(*command)
        assert (code, out) == (1, "")
        assert err.startswith("Error: confirmation required: Permanently delete ")
        assert "--yes" in err
    assert len(json.loads(run("db", "list", "--json")[1])) == 1
    assert run("db", "destroy", "flights", "nope", "-y")[0] == 1  # a wrong name: nothing is deleted
    assert len(json.loads(run("db", "list", "--json")[1])) == 1
    assert run("db", "destroy", "flights", "-y") == (0, "flights\n", "")
    assert run("group", "destroy", "edge", "--yes") == (0, "edge\n", "")
    assert run("group", "list", "--json")[1] == "[]\n"


def test_suspending_and_resuming_a_database(run, edge):
    assert run("db", "shell", "flights", "CREATE TABLE t (a)")[0] == 0
    code, out, err = run("db", "suspend", "flights")
    question = "This ends all statements and open transactions on flights, for all users. Continue?"
    assert (code, out, err.startswith(f"Error: confirmation required: {question}")) == (1, "", True)
    assert json.loads(run("db", "show", "flights", "--json")[1])["block_reads"] is False
    assert run("db", "suspend", "flights", "-y") == (0, "flights\n", "")
    [listed] = json.loads(run("db", "list", "--json")[1])
    assert (listed["block_reads"], listed["block_writes"]) == (True, True)
    assert run("db", "list")[1].splitlines()[1].split()[-2] == "suspended"
    assert "Status:    suspended" in run("db", "show", "flights")[1]
    for sql in ("SELECT * FROM t", "INSERT INTO t VALUES (1)"):
        code, out, err = run("db", "shell", "flights", sql)
        assert (code, out, "pipemagic db resume flights" in err, "suspended" in err) == (1, "", True, True)
    assert run("db", "dump", "flights")[:2] == (1, "")
    assert run("db", "resume", "flights") == (0, "flights\n", "")
    assert run("db", "list")[1].splitlines()[1].split()[-2] == "ok"
    assert run("db", "shell", "flights", "INSERT INTO t VALUES (1)")[0] == 0
    code, _, err = run("db", "suspend", "nope", "-y")
    assert (code, "database not found" in err or "nope" in err) == (1, True)


def test_protection_from_deletion(run, edge):
    assert run("db", "protect", "flights") == (0, "flights\n", "")
    assert run("db", "list")[1].splitlines()[1].split()[-1] == "yes"
    assert "Protected: yes" in run("db", "show", "flights")[1]
    refused = "database flights is protected from deletion (delete_protection)\nHint: `pipemagic db unprotect flights`"
    for command in (["db", "destroy", "flights"], ["group", "destroy", "edge"]):
        code, out, err = run(*command, "-y")
        assert (code, out, refused in err) == (1, "", True)
    assert run("group", "protect", "edge") == (0, "edge\n", "")
    assert run("group", "list")[1].splitlines()[1].split()[-1] == "yes"
    assert json.loads(run("group", "show", "edge", "--json")[1])["delete_protection"] is True
    assert run("db", "unprotect", "flights") == (0, "flights\n", "")
    for command in (["db", "destroy", "flights"], ["group", "destroy", "edge"]):
        assert "Hint: `pipemagic group unprotect edge` removes the protection" in run(*command, "-y")[2]
    assert run("group", "unprotect", "edge") == (0, "edge\n", "")
    assert run("group", "destroy", "edge", "-y") == (0, "edge\n", "")


def test_api_tokens(folder, run):
    code, token, _ = run("auth", "api-tokens", "mint", "ci")
    assert (code, token.count("\n")) == (0, 1)
    listed = {item["name"]: item["scope"] for item in json.loads(run("auth", "api-tokens", "list", "--json")[1])}
    assert listed == {"default": "all", "ci": "local"}
    url = f"{launcher.find(folder).url}/v1/organizations"
    headers = {"Authorization": f"Bearer {token.strip()}"}
    assert httpx.get(url, headers=headers).status_code == 200
    assert run("auth", "api-tokens", "revoke", "ci", "-y") == (0, "ci\n", "")
    assert httpx.get(url, headers=headers).status_code == 401


def test_platform_tokens_with_limits(folder, run, edge, monkeypatch, capsys):
    def mint(name, *options):
        code, token, err = run("auth", "api-tokens", "mint", name, *options)
        assert (code, err) == (0, "")
        return token.strip()

    reader = mint("reader", "--group", "edge", "--read-only")
    mint("builder", "--group", "edge", "--scope", "db:mint-token", "--scope", "db:create")
    mint("all", "--group", "edge", "--full-access")
    mint("free", "--unlimited")
    own = [line.split() for line in run("auth", "api-tokens", "list")[1].splitlines()]
    assert own[0][:3] == ["NAME", "SCOPE", "PERMISSIONS"]
    assert ["reader", "local/edge", "read-only"] in [line[:3] for line in own]
    assert ["builder", "local/edge", "db:create,", "db:mint-token"] in [line[:4] for line in own]
    assert ["all", "local/edge", "full-access"] in [line[:3] for line in own]
    assert ["free", "all"] in [line[:2] for line in own]
    listed = json.loads(run("auth", "api-tokens", "list", "--org", "local", "--json")[1])
    assert [(token["name"], token["owner"]) for token in listed] == [
        ("reader", "local"), ("builder", "local"), ("all", "local"),
    ]  # fmt: skip

    def elsewhere(*arguments):
        """Run a command as a program that has only this token."""
        return cli.main([*arguments]), *capsys.readouterr()

    monkeypatch.setenv("PIPEMAGIC_API_URL", launcher.find(folder).url)
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", reader)
    assert [database["name"] for database in json.loads(elsewhere("db", "list", "--json", "--org", "local")[1])] == [
        "flights"
    ]
    code, out, err = elsewhere("db", "create", "new", "--group", "edge", "--org", "local")
    assert (code, out) == (1, "")
    assert "the token does not have the scope db:create, which this requires" in err
    assert "Hint: create a platform token with the scope db:create" in err
    assert "no organization is named, and this token does not list organizations" in elsewhere("db", "list")[2]
    assert (
        "this requires a token of the organization" in elsewhere("group", "destroy", "edge", "-y", "--org", "local")[2]
    )
    monkeypatch.delenv("PIPEMAGIC_API_URL")

    token_id = listed[0]["id"]
    assert run("auth", "api-tokens", "revoke", token_id, "--org", "local", "-y") == (0, f"{token_id}\n", "")
    code, _, err = run("auth", "api-tokens", "revoke", token_id, "--org", "local", "-y")
    assert (code, "token not found" in err) == (1, True)
    code, out, err = run("auth", "api-tokens", "mint", "x", "--group", "edge")
    assert (code, out) == (1, "")
    assert "Error: a token for a group requires scopes" in err


def test_audit_logs(run):
    run("org", "create", "Logbook")
    for name in ("edge", "core", "rest"):
        run("group", "create", name, "--location", "ams", "--org", "logbook")
    lines = run("org", "audit-logs", "list", "--org", "logbook", "--limit", "2")[1].splitlines()
    assert [line.split()[1:] for line in lines[1:]] == [
        ["local", "cli", "group-create", "name", f"{name},", "location", "ams"] for name in ("rest", "core")
    ]
    older = json.loads(run("org", "audit-logs", "list", "--org", "logbook", "-s", "2", "-p", "2", "--json")[1])
    assert [entry["data"] for entry in older] == ["name edge, location ams", "name Logbook"]


def test_overages(run):
    assert run("plan", "overages", "enable") == (0, "enabled\n", "")
    assert json.loads(run("plan", "show", "--json")[1])["overages"] is True
    assert run("plan", "overages", "disable") == (0, "disabled\n", "")
    assert "Overages:     off" in run("plan", "show")[1]


def test_pipemagic_api_url_selects_another_service(folder, run, edge, monkeypatch, capsys):
    token = run("auth", "token")[1].strip()
    monkeypatch.setenv("PIPEMAGIC_API_URL", launcher.find(folder).url)
    assert cli.main(["db", "list"]) == 1
    assert "there is no platform token" in capsys.readouterr().err
    monkeypatch.setenv("TURSO_API_TOKEN", token)
    assert cli.main(["db", "list"]) == 0
    assert "flights" in capsys.readouterr().out
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", "wrong")  # takes precedence
    assert cli.main(["db", "list"]) == 1
    err = capsys.readouterr().err
    assert "token was not accepted" in err
    assert "pipemagic auth login" in err


def test_org_switch_with_a_token_in_the_environment_does_not_change_the_login(folder, run, monkeypatch, capsys):
    operator = run("auth", "token")[1].strip()
    monkeypatch.setenv("PIPEMAGIC_API_URL", launcher.find(folder).url)
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse\n"))
    assert cli.main(["auth", "signup", "ada", "--password-stdin"]) == 0
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", operator)
    assert cli.main(["group", "create", "edge", "--location", "ams"]) == 0  # in the operator's organization
    assert cli.main(["org", "switch", "local"]) == 0
    monkeypatch.delenv("PIPEMAGIC_API_TOKEN")
    capsys.readouterr()
    assert cli.main(["org", "list", "--json"]) == 0
    assert [(item["slug"], item["current"]) for item in json.loads(capsys.readouterr().out)] == [("ada", True)]


def test_org_switch_is_stored_for_each_service(run, settings_folder, folder):
    code, _, err = run("org", "switch", "nope")
    assert (code, err) == (
        1, "Error: organization 'nope' does not exist\nHint: list the organizations with `pipemagic org list`\n"
    )  # fmt: skip
    assert run("org", "switch", "local") == (0, "local\n", "")
    assert CredentialsFile(settings_folder).get(f"data:{folder}").organization == "local"


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_credentials_are_private(settings_folder):
    credentials = CredentialsFile(settings_folder)
    credentials.put("https://api.example.io", token="secret", username="ada")
    credentials.put("https://api.example.io", organization="acme")
    assert credentials.get("https://api.example.io").token == "secret"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in settings_folder.iterdir()}
    assert modes == {"credentials.json": 0o600, "credentials.lock": 0o600}
    assert stat.S_IMODE(settings_folder.stat().st_mode) == 0o700
    assert "secret" not in repr(credentials.get("https://api.example.io"))
    assert credentials.forget("https://api.example.io")
    assert not credentials.forget("https://api.example.io")
    credentials.path.write_text("{")
    with pytest.raises(SessionError, match="cannot read"):
        credentials.get("x")


def test_a_closed_pipe(folder, run):
    """`pipemagic db locations | head -1` ends without a traceback."""
    import subprocess
    import sys
    from pathlib import Path

    import pipemagic

    run("org", "list")
    process = subprocess.Popen(
        [sys.executable, "-m", "pipemagic", "db", "locations", "--data", str(folder)],
        env=os.environ | {"PYTHONPATH": str(Path(pipemagic.__file__).parents[1])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(20) == 1
