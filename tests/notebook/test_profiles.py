"""%pipedb profiles, the token sources of connect, and the default connection."""

from __future__ import annotations

import os

import pytest

from pipemagic.session.profiles import FILE


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file with the token of `db`; the variable is gone."""
    path = tmp_path / "token"
    path.write_text(os.environ["DB_TOKEN"])
    path.chmod(0o600)
    return path


def url(shell):
    return shell.ip.magics_manager.registry["PipeMagics"].session.connection().database.url


def test_a_saved_profile_connects_in_another_notebook(db, file, tmp_path):
    address = url(db)
    db(f'%pipedb connect {address} --as again --token-file "{file}" --timeout 20 --keep-alive 5m')
    db("%sql CREATE TABLE here AS SELECT 7 AS a")
    assert db("%pipedb profiles --save mine").lines == ["Saved profile mine: %pipedb connect mine"]
    assert "already" in db.fails("%pipedb profiles --save mine").out
    assert db('%pipedb profiles --save "<b>odd \' name" --on db').lines[0].startswith("Saved profile <b>odd")
    frame = db("%pipedb profiles").value
    assert list(frame.columns) == ["profile", "target", "token from", "file"]
    assert frame["profile"].tolist() == ["mine", "<b>odd ' name"]
    assert frame["token from"].tolist() == [f"file {file}", "variable DB_TOKEN"]
    assert frame["file"].tolist() == [FILE, FILE]
    assert os.environ["DB_TOKEN"] not in (tmp_path / "config" / FILE).read_text()
    db("%pipedb close again\n%pipedb close db")
    db("%pipedb connect mine")
    assert db("%sql SELECT a FROM here").value["a"].tolist() == [7]
    assert "kept alive" in db("%pipedb status").out
    assert db("%pipedb profiles --delete mine").lines == ["Deleted profile mine."]
    assert "does not exist" in db.fails("%pipedb profiles --delete mine").out
    assert "cannot be used together" in str(db.fails("%pipedb profiles --delete mine --save x").error)


def test_the_default_connection(db, file, tmp_path):
    db("%pipedb profiles --save mine\n%pipedb close")
    db("%config PipeMagic.connection = 'mine'")
    ran = db("%sql SELECT 1 AS a")
    assert ran.value["a"].tolist() == [1]
    assert ran.lines == ["Connected to mine.", f"Address: {url(db)}"]
    assert db("%sql SELECT 1 AS a").lines == []
    db("%pipedb close")
    assert db("%pipedb tables").lines[0] == "Connected to mine."
    db("%pipedb close")
    assert db("%pipedb connect").lines[0] == "Connected to mine."


def test_invalid_profiles_are_listed_with_their_errors(shell, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / FILE).write_text("[x]\npassword = 'hunter2'\n[y]\ndatabase = 'd'\n")
    frame = shell("%pipedb profiles").value
    wrong = "profile x in connections.toml contains a token, which must not be in that file"
    assert frame["target"].tolist() == [wrong, "d"]
    assert "hunter2" not in shell.fails("%pipedb connect x").out


def test_profiles_of_a_project_require_trust(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEMAGIC_TOKEN", "secret-of-mine")
    project = tmp_path / "pyproject.toml"
    project.write_text(
        "[tool.pipemagic]\nconnection = 'https://evil.invalid'\n[tool.pipemagic.connections.flights]\n"
        "address = 'libsql://flights.invalid'\ntoken-env = 'HOME'\n"
    )
    for line in ("%sql SELECT 1", "%pipedb tables", "%pipedb connect"):
        said = shell.fails(line).out
        assert "https://evil.invalid (token: PIPEMAGIC_TOKEN or TURSO_AUTH_TOKEN)" in said
        assert "nothing was sent" in said
    monkeypatch.chdir(project.parent.parent)  # the setting was read before; it is the project's all the same
    assert "nothing was sent" in shell.fails("%sql SELECT 1").out
    monkeypatch.chdir(tmp_path)
    assert '%pipedb profiles --trust "https://evil.invalid"' in said
    assert "%pipedb profiles --trust flights" in shell.fails("%pipedb connect flights").out
    assert shell("%pipedb profiles").value["file"].tolist() == ["pyproject.toml, not trusted"]
    assert "https://flights.invalid (token: variable HOME)" in shell("%pipedb profiles --trust flights").out
    assert shell("%pipedb profiles").value["file"].tolist() == ["pyproject.toml"]
    assert "https://evil.invalid" in shell('%pipedb profiles --trust "https://evil.invalid"').out
    assert "nothing was sent" not in shell.fails("%sql SELECT 1").out  # it goes out now, to a host that is not there
    assert "cannot be used together" in str(shell.fails("%pipedb profiles --trust a --delete b").error)


def test_an_address_on_this_machine_requires_trust_for_a_token_only(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("PIPEMAGIC_TOKEN", "TURSO_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pipemagic.connections.plain]\naddress = 'http://localhost:9'\n"
        "[tool.pipemagic.connections.named]\naddress = 'http://localhost:9'\ntoken-env = 'HOME'\n"
    )
    assert shell("%pipedb profiles").value["file"].tolist() == ["pyproject.toml", "pyproject.toml, not trusted"]
    assert "nothing is listening at http://localhost:9" in shell.fails("%pipedb connect plain").out
    assert "nothing was sent" in shell.fails("%pipedb connect named").out
    monkeypatch.setenv("PIPEMAGIC_TOKEN", "secret-of-mine")
    assert shell("%pipedb profiles").value["file"].tolist() == ["pyproject.toml, not trusted"] * 2
    assert "nothing was sent" in shell.fails("%pipedb connect plain").out
    assert "http://localhost:9 (token: PIPEMAGIC_TOKEN or" in shell("%pipedb profiles --trust plain").out
    assert "nothing is listening at http://localhost:9" in shell.fails("%pipedb connect plain").out


def test_a_default_set_by_the_user_requires_no_trust(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.pipemagic]\nconnection = 'https://evil.invalid'\n")
    assert "nothing was sent" in shell.fails("%sql SELECT 1").out
    shell("%config PipeMagic.connection = 'https://evil.invalid'")
    assert "nothing was sent" not in shell.fails("%sql SELECT 1").out
