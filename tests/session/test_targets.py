"""What people write as the target of connect: values in quotes, hosts without a scheme, files; and their tokens."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

import pipemagic
from pipemagic.errors import AddressError, ConnectError, SessionError
from pipemagic.session import Session
from pipemagic.session.profiles import FILE

AROUND = ["{}", '"{}"', "'{}'", "{}\n", ' "{}"\n', "“{}”"]


@pytest.fixture
def make_session(tmp_path):
    sessions = []

    def make(environ=None, **options):
        environ = {"PIPEMAGIC_CONFIG": str(tmp_path / "config"), **(environ or {})}
        sessions.append(Session(environ=environ, **options))
        return sessions[-1]

    yield make
    for session in sessions:
        session.shut_down()


def works(session):
    return session.run("SELECT 1 AS a")["a"].tolist() == [1]


# -- values in quotes


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("variable", ["PIPEMAGIC_TOKEN", "TURSO_AUTH_TOKEN"])
def test_address_and_token_in_variables(make_session, sqld_database, around, variable):
    environ = {
        "PIPEMAGIC_URL": around.format(sqld_database.url),
        variable: around.format(f"Bearer {sqld_database.token}"),
    }
    session = make_session(environ)
    assert works(session)
    session.close()
    session.connect(around.format(sqld_database.url), token_env=variable)
    assert works(session)
    session.connect(sqld_database.url, token=around.format(sqld_database.token), name="again")
    assert works(session)


@pytest.mark.parametrize("around", AROUND)
def test_a_prompt_and_a_file(make_session, sqld_database, tmp_path, around):
    session = make_session(ask_token=lambda _: around.format(sqld_database.token))
    session.connect(sqld_database.url)
    assert works(session)
    path = tmp_path / "token"
    path.write_bytes(around.format(f"Bearer {sqld_database.token}").encode())
    path.chmod(0o600)
    session.connect(sqld_database.url, token_file=str(path), name="file")
    assert works(session)


@pytest.mark.parametrize("around", AROUND)
def test_a_profile(make_session, sqld_database, tmp_path, around):
    import tomlkit

    (tmp_path / "config").mkdir()
    table = {"address": around.format(sqld_database.url), "token-env": "MINE"}
    (tmp_path / "config" / FILE).write_text(tomlkit.dumps({"flights": table}), encoding="utf-8")
    session = make_session({"MINE": around.format(sqld_database.token)})
    session.connect("flights")
    assert works(session)


@pytest.mark.parametrize("around", AROUND)
def test_the_management_api(make_session, local_service, around):
    token = local_service.platform_token()
    environ = {
        "PIPEMAGIC_API_URL": around.format(local_service.url),
        "TURSO_API_TOKEN": around.format(f"Bearer {token}"),
    }
    assert make_session(environ).organization.slug == "local"
    session = make_session({"MINE": around.format(token)})
    assert session.choose_organization(at=around.format(f"{local_service.url}/v1/"), token_env="MINE").slug == "local"


def test_a_variable_that_is_empty_within_its_quotes_is_not_set(make_session, sqld_database, local_service):
    session = make_session({"PIPEMAGIC_URL": '""', "PIPEMAGIC_TOKEN": '" "', "TURSO_AUTH_TOKEN": sqld_database.token})
    assert session.connect().where == "embedded service"
    session.connect(sqld_database.url)
    assert works(session)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PIPEMAGIC_URL", '"http://127.0.0.1:1', "^PIPEMAGIC_URL: the address begins with a quotation mark"),
        ("PIPEMAGIC_URL", "flights-acme.turso.io", "^PIPEMAGIC_URL: the address has no scheme\nHint: write libsql://flights-acme"),
        ("PIPEMAGIC_URL", "shop.db", "^PIPEMAGIC_URL: shop.db names a file"),
        ("PIPEMAGIC_URL", "libsql://h?authToken=x", "^PIPEMAGIC_URL: the address contains a token"),
        ("PIPEMAGIC_URL", "http://h:99999", "^PIPEMAGIC_URL: the port of the address is not a number"),
        ("PIPEMAGIC_API_URL", "http://127.0.0.1:1'", "^PIPEMAGIC_API_URL: the address ends with a quotation mark"),
        ("PIPEMAGIC_API_URL", "api.example.io", "^PIPEMAGIC_API_URL: the address has no scheme\nHint: write https://api.example.io"),
    ],
)  # fmt: skip
def test_the_variable_of_a_wrong_address_is_named(make_session, variable, value, message):
    session = make_session({variable: value, "PIPEMAGIC_API_TOKEN": "x"})
    with pytest.raises(AddressError, match=message):
        session.connect(None if variable == "PIPEMAGIC_URL" else "flights")


@pytest.mark.parametrize(
    ("environ", "options"),
    [
        ({"PIPEMAGIC_TOKEN": "s3cret two"}, {}),
        ({"MINE": "s3cret two"}, {"token_env": "MINE"}),
        ({}, {"token": "s3cret two"}),
    ],
)
def test_a_token_with_a_space_inside_is_not_shown(make_session, sqld_database, environ, options):
    named = f"the token in the environment variable {next(iter(environ))}" if environ else "the token"
    with pytest.raises(ConnectError, match=f"^{named} contains a space, so it was not sent") as caught:
        make_session(environ).connect(sqld_database.url, **options)
    assert "s3cret" not in str(caught.value)


# -- HOST:PORT


def test_a_host_with_a_port_is_an_address(make_session, sqld_database):
    host = sqld_database.url.removeprefix("http://")
    session = make_session({"PIPEMAGIC_TOKEN": sqld_database.token})
    connection = session.connect(host)
    assert works(session)
    assert connection.greeting == f"Connected to {sqld_database.name}.\nAddress: http://{host}"
    assert connection.profile.address == f"http://{host}"
    assert make_session({"PIPEMAGIC_URL": host, "PIPEMAGIC_TOKEN": sqld_database.token}).run("SELECT 1") is not None
    assert session.connect(f"turso://{host}", name="turso").database.url == f"http://{host}"
    assert works(session)


def test_the_embedded_service_at_its_number(make_session, local_service):
    session = make_session()
    session.connect()
    token = session.organization.api.create_token("main", expiration="1d")
    port = local_service.url.rpartition(":")[2]
    session.run("CREATE TABLE IF NOT EXISTS at_port (a)")
    connection = session.connect(f"127.0.0.1:{port}", token=token, name="number")
    assert connection.greeting == f"Connected to number.\nAddress: http://127.0.0.1:{port}"
    assert session.run("SELECT count(*) AS n FROM at_port")["n"].tolist() == [0]


def test_a_connection_and_a_profile_keep_a_name_like_an_address_or_a_file(make_session, sqld_database, tmp_path):
    (tmp_path / "config").mkdir()
    names = ("a:1", "shop.db", "team.prod", "'q'", " a ")
    profiles = "".join(f'["{name}"]\naddress = "{sqld_database.url}"\n' for name in names)
    (tmp_path / "config" / FILE).write_text(profiles)
    session = make_session({"PIPEMAGIC_TOKEN": sqld_database.token})
    for name in names:
        assert session.connect(name).name == name
    for name in ("other.db", "'other'"):
        session.connect(sqld_database.url, name=name)
        session.use("a:1")
        assert session.connect(name).name == name


def test_temporary_is_not_for_an_address(make_session):
    with pytest.raises(SessionError, match="not for an address"):
        make_session().connect("127.0.0.1:8080", temporary=True)


# -- files, with the lines for each state of the session


@pytest.mark.parametrize(
    "target", ["shop.db", "./shop.db", "file:shop.db", "sqlite:shop.db", "{folder}/shop.db", "My.Shop"]
)
@pytest.mark.parametrize("temporary", [False, True])
def test_a_file(make_session, local_service, tmp_path, monkeypatch, target, temporary):
    monkeypatch.chdir(tmp_path)
    for name in ("shop.db", "My.Shop"):
        with closing(sqlite3.connect(tmp_path / name)) as file, file:
            file.execute("CREATE TABLE t (a)")
    session = make_session()
    with pytest.raises(AddressError, match="names a file, not a database on a server") as caught:
        session.connect(target.format(folder=tmp_path), temporary=temporary)
    first, create, connect = caught.value.hint.splitlines()[1:]
    assert first == f"%pipedb connect{' --temporary' if temporary else ''}"
    assert create.startswith(f"%pipedb create-database {'my' if 'My' in target else 'shop'} --from-file ")
    assert connect == f"%pipedb connect {'my' if 'My' in target else 'shop'}"
    assert session.connections == {}


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("new.db", None, ["there is no such file; create a database and connect", "%pipedb create-database new"]),
        ("empty.db", b"", ["the file is empty; create a database and connect to it:", "%pipedb create-database empty"]),
        ("d.duckdb", b"DUCK", ["it is not a SQLite file: read its tables with pandas", "%pipedb help load"]),
        ("d.sql", b"SELECT 1;", ["run its statements", "%pipedb create-database d --from-dump d.sql"]),
        ("x.csv", b"a\n1\n", ["load its rows into a table:", "%pipedb load x.csv --table x"]),
        ("my x.csv", b"a\n1\n", ["load its rows into a table:", '%pipedb load "my x.csv" --table my_x']),
    ],
)  # fmt: skip
def test_other_files(make_session, local_service, tmp_path, monkeypatch, name, content, lines):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    session = make_session()
    session.connect()
    with pytest.raises(AddressError, match=f"{name} names a file") as caught:
        session.connect(name)
    hint = caught.value.hint.splitlines()
    assert [start for start, line in zip(lines, hint, strict=False) if line.startswith(start)] == lines


def test_a_file_that_may_be_the_name_of_a_database(make_session, local_service, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect(tmp_path / "shop")) as file, file:
        file.execute("CREATE TABLE t (a)")
    session = make_session()
    session.connect()
    with pytest.raises(
        SessionError, match=r"database 'shop' does not exist.*\n.*create-database shop --from-file shop"
    ):
        session.connect("shop")
    session.organization.create_database("shop", "default")
    assert session.connect("shop").name == "shop"
    session.organization.delete_database("shop")


def test_no_line_creates_a_database_with_an_invalid_name(make_session, local_service, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = make_session()
    session.connect()
    for name in ("-", "a-", "x" * 60):
        with pytest.raises(SessionError, match="does not exist") as caught:
            session.connect(name)
        assert caught.value.hint == "%pipedb databases lists the existing ones"


def test_a_folder(make_session, tmp_path):
    with pytest.raises(AddressError) as caught:
        make_session().connect(str(tmp_path))
    assert caught.value.hint.startswith("it is a folder; create a database and connect to it:")


# -- variables that are not set

ASK = 'import getpass, os; os.environ["MY_TOKEN"] = getpass.getpass()'
COPY = 'import os; os.environ["MY_TOKEN"] = MY_TOKEN'
IN_PYTHON = "; the Python variable MY_TOKEN is not an environment variable"


@pytest.mark.parametrize(
    ("python", "environ", "message", "lines"),
    [
        ({}, {}, "", ["set it before Python starts, or type it at a prompt:", ASK]),
        ({}, {"MY_TOKENS": "x"}, "", ["did you mean MY_TOKENS?", "set it before", "import getpass"]),
        ({}, {"MY_TOKEN": '""'}, "", ["set it before", "import getpass"]),
        ({"MY_TOKEN": "s3cret"}, {"MY_TOKENS": "x"}, IN_PYTHON, ["set it:", COPY]),
        ({"MY_TOKEN": 7}, {}, IN_PYTHON, ["set it before", ASK]),
    ],
)  # fmt: skip
def test_a_variable_that_is_not_set(make_session, python, environ, message, lines):
    session = make_session(environ, variables=lambda: python)
    for connect in (
        lambda: session.connect("http://127.0.0.1:1", token_env="MY_TOKEN"),
        lambda: session.choose_organization(at="http://127.0.0.1:1", token_env="MY_TOKEN"),
    ):
        with pytest.raises(SessionError, match=f"^the environment variable MY_TOKEN is not set{message}\n") as caught:
            connect()
        hint = caught.value.hint.splitlines()
        assert len(hint) == len(lines)
        assert all(line.startswith(start) for line, start in zip(hint, lines, strict=True))
        assert "s3cret" not in str(caught.value)


def test_the_platform_token_that_is_not_set(make_session):
    session = make_session(variables=lambda: {"PIPEMAGIC_API_TOKEN": "s3cret"})
    with pytest.raises(
        SessionError, match=r"no platform token for http://127\.0\.0\.1:1: .*PIPEMAGIC_API_TOKEN is not set"
    ) as caught:
        session.choose_organization(at="http://127.0.0.1:1")
    assert caught.value.hint.splitlines()[-1] == 'import os; os.environ["PIPEMAGIC_API_TOKEN"] = PIPEMAGIC_API_TOKEN'


@pytest.mark.parametrize("text", ["$MY_TOKEN", "${MY_TOKEN}", "$env:MY_TOKEN", "%MY_TOKEN%"])
def test_the_value_of_a_variable_instead_of_its_name(make_session, text):
    with pytest.raises(SessionError, match="takes the name of an environment variable") as caught:
        make_session().connect("http://127.0.0.1:1", token_env=text)
    assert caught.value.hint == "write the name alone: --token-env MY_TOKEN"


@pytest.mark.parametrize("text", ["s3cret-two", "$s3cret-two", "eyJhbGciOiJFZERTQSJ9.eyJhIjoicncifQ.c2lnbmF0dXJl"])
def test_a_token_instead_of_the_name_of_a_variable(make_session, text):
    with pytest.raises(SessionError, match="takes the name of an environment variable") as caught:
        make_session().connect("http://127.0.0.1:1", token_env=text)
    assert text not in str(caught.value)


# -- the address


def _connected_to(kind, session, sqld_database):
    if kind == "sqld":
        return session.connect(f"libsql://{sqld_database.url.removeprefix('http://')}", token=sqld_database.token)
    return session.connect(temporary=kind == "temporary")


@pytest.mark.parametrize("kind", ["embedded", "temporary", "sqld"])
def test_the_address_opens_the_same_database_for_other_programs(make_session, local_service, sqld_database, kind):
    connection = _connected_to(kind, session := make_session(), sqld_database)
    session.run("CREATE TABLE shared AS SELECT 7 AS a")
    assert f"\nAddress: {connection.address}" in connection.greeting
    with pipemagic.connect(connection.address, connection.database.transport.token) as database:
        assert database.execute("SELECT a FROM shared").rows == [(7,)]
