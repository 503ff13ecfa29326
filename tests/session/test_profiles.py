"""Profiles: connections under a name in files that hold no secrets."""

from __future__ import annotations

import os
import tomllib

import pytest

from pipemagic.errors import SessionError
from pipemagic.session import Session
from pipemagic.session.profiles import FILE, Profile, Profiles

TOKEN = "eyJhbGciOiJFZERTQSJ9.eyJhIjoicncifQ.c2lnbmF0dXJl"


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project" / "notebooks"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def profiles(tmp_path, project):
    return Profiles(tmp_path / "config" / FILE, lambda: project)


def write(profiles, text):
    profiles.path.parent.mkdir(exist_ok=True)
    profiles.path.write_text(text, encoding="utf-8")


def test_a_profile_is_read_with_all_it_has(profiles):
    write(
        profiles,
        """
        [flights]
        address = "libsql://flights-acme.example.io"
        token-env = "FLIGHTS_TOKEN"
        timeout = 30
        [ware]
        database = "ware"
        organization = "acme"
        at = "https://api.example.io"
        api_token_env = "ACME"
    """,
    )
    assert profiles.names() == ["flights", "ware"]
    flights = profiles.get("flights")
    assert flights == Profile(
        "flights", address="libsql://flights-acme.example.io", token_env="FLIGHTS_TOKEN", timeout=30
    )
    assert (flights.where, flights.token_from) == ("libsql://flights-acme.example.io", "variable FLIGHTS_TOKEN")
    assert profiles.get("ware").where == "ware of acme"
    assert profiles.get("ware").api_token_env == "ACME"
    assert profiles.get("nothing") is None


def test_false_is_the_same_as_an_absent_key(profiles):
    write(profiles, "[x]\naddress='libsql://a.io'\nread-only=false\nkeyring=false\ntoken-env='A'\n"
                    "[y]\ndatabase='d'\nread-only=false\nkeyring=false\n")  # fmt: skip
    found = profiles.get("x")
    assert not found.read_only
    assert found.token_source.keyring is None
    assert found.token_from == "variable A"
    assert not profiles.get("y").read_only


def test_the_users_come_before_the_projects(profiles, project):
    (project.parent / "pyproject.toml").write_text(
        "[tool.pipemagic.connections.a]\naddress='libsql://theirs.example.io'\n"
        "[tool.pipemagic.connections.b]\naddress='libsql://b.example.io'\ntoken-file='secret/token'\n"
    )
    write(profiles, "[a]\naddress = 'libsql://mine.example.io'\n")
    assert profiles.names() == ["a", "b"]
    assert profiles.get("a").address == "libsql://mine.example.io"
    assert profiles.get("b").token_source.file == str(project.parent / "secret" / "token")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[x]\ntimeout = 3", "neither an address nor a database"),
        ("[x]\naddress='libsql://a.io'\ndatabase='b'", "both an address and a database"),
        (
            "[x]\naddress='libsql://a.io'\ntokne-env='b'",
            "has 'tokne-env', which is not a key of profiles\nHint: did you mean token-env",
        ),
        ("[x]\naddress='libsql://a.io'\ntimeout='long'", "timeout is a number of seconds"),
        ("[x]\naddress='libsql://a.io'\ntimeout=inf", "timeout is a number of seconds"),
        ("[x]\naddress='libsql://a.io'\ntimeout=1" + "0" * 400, "timeout is a number of seconds"),
        ("[x]\naddress='libsql://a.io'\nkeyring=''", "keyring is true"),
        ("[x]\naddress=3", "address is a text"),
        ("[x]\naddress='libsql://a.io'\ntoken-env='\t'", "token-env is a text"),
        ("[x]\naddress='libsql://a.io'\nread-only=true\nread_only=false", "has read_only twice"),
        ("[x]\ndatabase='d'\nkeep-alive='long'", "'long' is not a duration"),
        ("[x]\ndatabase='d'\nkeep-alive=true", "keep-alive is a duration"),
        ("[x]\ndatabase='d'\nread-only='yes'", "read-only is true or false"),
        ("[x]\naddress='libsql://a.io'\nkeyring=1", "keyring is true, false or a service of the keyring"),
        ("[x]\naddress='libsql://a.io'\ntoken-env='A'\ntoken-file='b'", "has token_env and token_file"),
        ("[x]\naddress='libsql://a.io'\norganization='acme'", "has organization"),
        ("[x]\ndatabase='d'\ntoken-env='A'", "has token_env"),
        ("x = 3", "is not a table"),
    ],
)
def test_errors_of_a_profile_are_raised_when_it_is_used(profiles, text, said):
    write(profiles, text + "\n[good]\ndatabase='d'\n" if text[0] == "[" else "good.database='d'\n" + text)
    with pytest.raises(SessionError) as caught:
        profiles.get("x")
    assert said in str(caught.value)
    assert "profile x in connections.toml" in str(caught.value)
    assert profiles.get("good").database == "d"


@pytest.mark.parametrize(
    "line",
    [f"token = '{TOKEN}'", f"authToken = '{TOKEN}'", "password = 'hunter2'", f"timeout = '{TOKEN}'",
     "jwt = 'x'", f"address = 'libsql://a.example.io?authToken={TOKEN}'", "address = 'https://me:hunter2@a.example.io'",
     "address = 'https://user:token@a.example.io'",
     "token-env = 'pmp_0123456789abcdef0123'", f"'{TOKEN}' = 'x'"],
)  # fmt: skip
def test_a_literal_token_is_refused_and_not_repeated(profiles, line):
    write(profiles, f"[x]\n{line}\n")
    with pytest.raises(SessionError, match="contains a token") as caught:
        profiles.get("x")
    assert TOKEN[:12] not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert 'token-env = "VARIABLE"' in caught.value.hint


def test_a_file_that_is_no_toml(profiles):
    write(profiles, "[x\n")
    with pytest.raises(SessionError, match=r"connections\.toml is not valid TOML"):
        profiles.get("x")
    profiles.path.write_bytes(b"\xff\xfe")
    with pytest.raises(SessionError, match="it is not UTF-8"):
        profiles.get("x")


@pytest.mark.parametrize("text", ["x = " + "[" * 5000, "x = 1" + "0" * 5000])
def test_a_file_that_breaks_the_reader_of_toml(profiles, text):
    write(profiles, text)
    with pytest.raises(SessionError, match="too long or too deep"):
        profiles.names()


@pytest.mark.skipif(os.name != "posix", reason="has no such files")
def test_a_path_that_is_not_a_file_is_not_waited_for(profiles, project):
    (project / "pyproject.toml").symlink_to("/dev/zero")
    with pytest.raises(SessionError, match=r"pyproject\.toml is not a file"):
        profiles.names()
    (project / "pyproject.toml").unlink()
    profiles.path.parent.mkdir()
    os.mkfifo(profiles.path)
    with pytest.raises(SessionError, match=r"connections\.toml is not a file"):
        profiles.names()


NAMES = [
    "plain",
    "two words",
    'quo"te',
    "it's",
    "dot.ted",
    "späße",
    "\U0001f6eb",
    "[x]",
    "a]b",
    "back\\slash",
    "<script>",
    "\x7f",
]


@pytest.mark.parametrize("name", NAMES)
def test_saving_and_deleting_leave_the_rest_of_the_file_as_it_was(profiles, name):
    text = "# mine\n[first]  # the first\naddress = 'libsql://a.example.io'\n\n[last]\ndatabase = 'd' # ]\n"
    write(profiles, text)
    profile = Profile(name, address="libsql://b.example.io", token_file='/a "b"/c', keyring=None, timeout=2.5)
    profiles.save(profile)
    assert profiles.get(name) == profile
    assert profiles.path.read_text(encoding="utf-8").startswith(text)
    if os.name == "posix":
        files = {path.name: path.stat().st_mode & 0o077 for path in profiles.path.parent.iterdir()}
        assert files == {"connections.toml": 0, "connections.lock": 0}
    with pytest.raises(SessionError, match="already"):
        profiles.save(profile)
    profiles.delete(name)
    assert profiles.path.read_text(encoding="utf-8").rstrip() == text.rstrip()
    profiles.delete("first")
    assert profiles.names() == ["last"]
    with pytest.raises(SessionError, match=r"profile '.*' does not exist"):
        profiles.delete("first")


@pytest.mark.parametrize("text", ["x.database = 'd'\n", "[x]\ndatabase='d'\n[y]\ndatabase='''\n[z]\n'''\n[x.y]\n"])
def test_a_file_of_another_style_is_edited_too(profiles, text):
    write(profiles, text)
    others = {name: table for name, table in tomllib.loads(text).items() if name != "x"}
    profiles.delete("x")
    assert tomllib.loads(profiles.path.read_text()) == others
    profiles.save(Profile("new", database="d"))
    assert tomllib.loads(profiles.path.read_text()) == {**others, "new": {"database": "d"}}
    assert profiles.path.read_text().startswith("[y]" if others else "")


@pytest.mark.parametrize("text", ["x = 1\nx = 2\n", "[x\n", "[x]\n[x]\n"])
def test_a_file_that_is_not_toml_is_left_as_it_is(profiles, text):
    write(profiles, text)
    with pytest.raises(SessionError):
        profiles.save(Profile("new", database="d"))
    assert profiles.path.read_text() == text


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_a_file_of_a_windows_editor(profiles, start):
    text = "# mine\r\n[x]\r\ndatabase = 'd'\r\n"
    profiles.path.parent.mkdir(exist_ok=True)
    profiles.path.write_bytes((start + text).encode())
    assert profiles.get("x").database == "d"
    profiles.save(Profile("y", database="e"))
    assert profiles.path.read_bytes().startswith(text.encode())
    profiles.delete("x")
    assert profiles.names() == ["y"]


def test_two_that_save_at_once_both_save(profiles):
    from concurrent.futures import ThreadPoolExecutor

    names = [f"n{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: profiles.save(Profile(name, database="d")), names))
    assert sorted(profiles.names()) == sorted(names)


# -- connecting


@pytest.fixture
def session(profiles, sqld_database, tmp_path):
    environ = {"MINE": sqld_database.token, "PIPEMAGIC_CONFIG": str(tmp_path / "config")}
    with Session(environ=environ, profiles=profiles) as session:
        yield session


def test_connecting_by_a_profile(session, profiles, sqld_database):
    write(profiles, f"[mine]\naddress = '{sqld_database.url}'\ntoken-env = 'MINE'\ntimeout = 7\n"
                    "read-only = true\nkeep-alive = '2m'\n")  # fmt: skip
    connection = session.connect("mine")
    assert connection.read_only
    assert connection.keep_alive_thread.seconds == 120
    assert (connection.name, session.current) == ("mine", "mine")
    assert connection.database.transport.timeout == 7
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    assert session.connect("mine") is connection  # a connection of the session comes before the file
    assert session.connect("mine", name="other", timeout=9).database.transport.timeout == 9
    assert sorted(session.connections) == ["mine", "other"]


def test_a_profile_of_a_database_of_the_organization(local_service, profiles):
    from dataclasses import replace

    with Session(environ={}, profiles=profiles) as session:
        connection = session.connect()
        session.run("CREATE TABLE here(a)")
        profiles.save(replace(connection.profile, name="own"))
    with Session(environ={}, profiles=profiles, default=lambda: "own") as session:
        assert session.run("SELECT count(*) AS n FROM here")["n"].tolist() == [0]
        assert session.current == "own"
        with pytest.raises(SessionError, match="a token is for an address"):
            session.connect("own", name="z", token_env="MINE")
