"""Accounts, logins and organizations from the command line, against a real service."""

from __future__ import annotations

import io
import json
import re
from uuid import uuid4

import pytest

from pipemagic import cli, launcher
from pipemagic.cli.api import CredentialsFile

PASSWORD = "correct horse battery"


@pytest.fixture
def log(run, monkeypatch):
    """Sign up or log in with a password on standard input."""

    def log(how, username, password=PASSWORD):
        monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
        return run("auth", how, username, "--password-stdin")

    return log


@pytest.fixture
def ada():
    """A user name without an account."""
    return f"ada-{uuid4().hex[:12]}"


def slugs(run):
    return [item["slug"] for item in json.loads(run("org", "list", "--json")[1])]


def test_commands_use_the_account_between_signup_and_logout(run, log, folder, settings_folder, ada):
    run("group", "create", "edge", "--location", "ams")
    run("db", "create", "theirs", "--group", "edge")
    assert log("signup", ada) == (0, f"{ada}\n", "")
    assert run("auth", "whoami") == (0, f"{ada}\n", "")
    assert slugs(run) == [ada]
    assert json.loads(run("db", "list", "--json")[1]) == []
    code, _, err = run("db", "list", "--org", "local")  # the account is not a member
    assert (code, "organization not found" in err) == (1, True)
    assert run("auth", "token")[1].strip() == CredentialsFile(settings_folder).get(f"data:{folder}").token
    run("group", "create", "mine", "--location", "ams")
    assert run("db", "create", "theirs", "--group", "mine") == (0, "theirs\n", "")  # names are those of an organization
    assert run("auth", "logout") == (0, "", "")
    assert run("auth", "whoami") == (0, "local\n", "")
    assert [item["name"] for item in json.loads(run("db", "list", "--json")[1])] == ["theirs"]
    assert run("auth", "logout") == (0, "", "No account was logged in.\n")


def test_logging_in_and_out(run, log, ada):
    log("signup", ada)
    run("auth", "logout")
    code, out, err = log("login", ada, "wrong password")
    assert (code, out) == (1, "")
    assert re.fullmatch("Error: .*password.*\n", err)
    assert log("login", ada) == (0, f"{ada}\n", "")
    token = run("auth", "token")[1]
    assert run("auth", "logout", "--all")[0] == 0
    assert log("login", ada)[0] == 0
    assert run("auth", "token")[1] != token
    code, _, err = log("signup", ada)
    assert (code, "exists" in err) == (1, True)


def test_a_login_that_another_machine_invalidated(run, log, settings_folder, folder, ada):
    log("signup", ada)
    token = CredentialsFile(settings_folder).get(f"data:{folder}").token
    run("auth", "logout", "--all")
    CredentialsFile(settings_folder).put(f"data:{folder}", token=token, username=ada, organization=ada)
    code, _, err = run("db", "list")
    assert code == 1
    assert "log in with `pipemagic auth login`" in err


def test_organizations_and_members(run, log, ada):
    log("signup", ada)
    assert run("org", "create", "team") == (0, "team\n", "")
    assert run("org", "switch", "team") == (0, "team\n", "")
    assert run("group", "create", "edge", "--location", "ams")[0] == 0
    assert run("org", "members", "add", "local", "--role", "viewer") == (0, "local\n", "")
    assert json.loads(run("org", "members", "list", "--json")[1]) == [
        {"username": ada, "role": "owner"}, {"username": "local", "role": "viewer"},
    ]  # fmt: skip
    run("auth", "logout")
    assert "team" in slugs(run)
    assert run("group", "list", "--org", "team")[1].startswith("NAME  LOCATIONS")
    code, _, err = run("group", "create", "more", "--location", "ams", "--org", "team")
    assert (code, "your role in team is viewer" in err, "read-only" in err) == (1, True, False)
    log("login", ada)
    assert run("org", "members", "remove", "local", "--org", "team")[0] == 1  # it asks for confirmation
    assert run("org", "members", "remove", "local", "--org", "team", "-y") == (0, "local\n", "")


def test_group_tokens_and_their_invalidation(run, folder):
    import httpx

    run("group", "create", "edge", "--location", "ams")
    run("db", "create", "flights", "--group", "edge")
    url = run("db", "show", "flights", "--http-url")[1].strip()
    address = launcher.find(folder).url

    def status(token):
        body = {"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}, {"type": "close"}]}
        headers = {"Host": url.removeprefix("http://"), "Authorization": f"Bearer {token}"}
        return httpx.post(f"{address}/v2/pipeline", headers=headers, json=body).status_code

    group = run("group", "tokens", "create", "edge", "--expiration", "1d")[1].strip()
    database = run("db", "tokens", "create", "flights")[1].strip()
    assert (status(group), status(database)) == (200, 200)
    assert run("db", "tokens", "invalidate", "flights", "-y") == (0, "flights\n", "")
    assert status(database) == 401
    group = run("group", "tokens", "create", "edge", "--read-only")[1].strip()
    code, _, err = run("group", "tokens", "invalidate", "edge")
    assert (code, "All tokens of the group edge and its databases will stop working." in err) == (1, True)
    assert status(group) == 200
    assert run("group", "tokens", "invalidate", "edge", "-y") == (0, "edge\n", "")
    assert status(group) == 401


def test_the_usage_of_the_organization(run):
    run("group", "create", "edge", "--location", "ams")
    run("db", "create", "flights", "--group", "edge")
    plan = json.loads(run("plan", "show", "--json")[1])
    assert (plan["organization"], plan["used"]["databases"], plan["used"]["groups"]) == ("local", 1, 1)
    lines = run("plan", "show")[1].splitlines()
    assert lines[4].split() == ["RESOURCE", "USED", "LIMIT", "LIMIT", "%"]
    assert any(line.split() == ["databases", "1", "unlimited"] for line in lines)


def test_a_hosted_service(run, log, folder, settings_folder, monkeypatch, capsys):
    """The login is stored under the address of PIPEMAGIC_API_URL."""
    run("org", "list")
    url = launcher.find(folder).url
    monkeypatch.setenv("PIPEMAGIC_API_URL", url + "/")
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORD + "\n"))
    assert cli.main(["auth", "signup", "grace", "--password-stdin"]) == 0
    assert cli.main(["auth", "whoami"]) == 0
    assert capsys.readouterr().out == "grace\ngrace\n"
    assert CredentialsFile(settings_folder).get(url).username == "grace"
    assert cli.main(["auth", "logout"]) == 0
    assert cli.main(["auth", "token"]) == 1
    assert "log in with" in capsys.readouterr().err


def test_passwords_are_never_arguments(run, monkeypatch):
    assert run("auth", "login", "ada", "password")[0] == 2
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, _, err = run("auth", "login", "ada")
    assert (code, "--password-stdin" in err) == (1, True)


def test_the_token_of_a_database_in_the_keyring(monkeypatch, capsys, tmp_path):
    import io

    import keyring
    from keyrings.alt.file import PlaintextKeyring

    from pipemagic import cli

    before, ring = keyring.get_keyring(), PlaintextKeyring()
    ring.file_path = str(tmp_path / "ring.cfg")
    keyring.set_keyring(ring)
    try:
        monkeypatch.setattr("sys.stdin", io.StringIO("a.secret.token\n"))
        assert cli.main(["auth", "store", "libsql://db.example.io", "--token-stdin"]) == 0
        out, err = capsys.readouterr()
        assert (out, err) == ("db.example.io\n", "")
        assert ring.get_password("pipemagic", "db.example.io") == "a.secret.token"
        for wrong, text in (("libsql://db.example.io", "\n"), ("libsql://db.example.io?authToken=x", "x\n")):
            monkeypatch.setattr("sys.stdin", io.StringIO(text))
            assert cli.main(["auth", "store", wrong, "--token-stdin"]) == 1
        monkeypatch.setattr("sys.stdin", io.StringIO('"Bearer a.secret.token"\n'))
        assert cli.main(["auth", "store", "'db.example.io:443'", "--token-stdin"]) == 0
        assert ring.get_password("pipemagic", "db.example.io") == "a.secret.token"
        monkeypatch.setattr("sys.stdin", io.StringIO("x"))
        assert cli.main(["auth", "store", "libsql://db.example.io"]) == 1  # no terminal for the prompt
        assert ring.get_password("pipemagic", "db.example.io") == "a.secret.token"
        assert cli.main(["auth", "forget", "https://db.example.io"]) == 0
        assert ring.get_password("pipemagic", "db.example.io") is None
        capsys.readouterr()
        assert cli.main(["auth", "forget", "https://db.example.io"]) == 0
        assert "has no token" in capsys.readouterr().err
    finally:
        keyring.set_keyring(before)
