"""Encrypted databases: every request has the key, no other host gets it, and it is shown nowhere."""

from __future__ import annotations

import csv
import io
import json
import pickle
import secrets
import sqlite3
import traceback
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa
from encrypted_service import CIPHER_HEADER, KEY, KEY_HEADER, OTHER_KEY
from panel_page import PanelPage
from panel_session import close_panels
from scripted_server import Answer, ScriptedServer, good
from sqlalchemy.dialects import registry

import pipemagic
from pipemagic import cli, dbapi
from pipemagic.client import transfer
from pipemagic.client.address import check_base_url, parse_address
from pipemagic.client.database import Database
from pipemagic.client.secrets import EncryptionKey
from pipemagic.dbapi.sqlalchemy import PipemagicDialect
from pipemagic.errors import (
    AddressError,
    AuthError,
    EncryptionKeyError,
    ParameterError,
    PipemagicError,
    ServerError,
    SessionError,
    StatementError,
)
from pipemagic.hrana.messages import Execute, Stmt
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session
from pipemagic.session.profiles import FILE, Profiles


@pytest.fixture
def hosted(encrypted):
    return encrypted.hosted


@pytest.fixture
def session(encrypted, tmp_path):
    environ = encrypted.environ | {"PIPEMAGIC_CONFIG": str(tmp_path)}
    with Session(environ=environ, profiles=Profiles(tmp_path / FILE, lambda: tmp_path)) as session:
        yield session


@pytest.fixture
def run(encrypted, monkeypatch, tmp_path):
    """Return a function that runs a command line with the variables of the database, and returns its exit code."""
    for variable, value in (encrypted.environ | {"PIPEMAGIC_CONFIG": str(tmp_path)}).items():
        monkeypatch.setenv(variable, value)
    return lambda *words: cli.main(list(words))


# -- every request


def test_all_that_a_database_does(hosted, encrypted):
    with pipemagic.connect(encrypted.address, token=encrypted.token, encryption_key=KEY) as database:
        assert database.execute("SELECT 1 AS a").rows == [(1,)]
        database.load(pd.DataFrame({"a": range(1000)}), "t")
        with database.transaction() as transaction:
            transaction.execute("INSERT INTO t VALUES (-1)")
        with database.cursor("SELECT * FROM t") as cursor:
            assert sum(map(len, cursor)) == 1001
        with database.sibling(timeout=30) as other:
            assert other.query("SELECT count(*) AS n FROM t")["n"].tolist() == [1001]
        with transfer.dumped(database) as chunks:
            assert b"CREATE TABLE" in b"".join(chunks)
        with transfer.exported(database) as chunks:
            assert b"".join(chunks).startswith(b"SQLite format 3")
    assert encrypted.had_every_key
    assert None not in hosted.keys
    paths = {call.path.partition("?")[0] for call in hosted.calls}
    assert {"/v3", "/v3/pipeline", "/v3/cursor", "/dump", "/info"} <= paths


def test_other_libraries(hosted, encrypted, monkeypatch):
    with closing(dbapi.connect(encrypted.address, encrypted.token, encryption_key=KEY)) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    monkeypatch.setenv("PIPEMAGIC_TOKEN", encrypted.token)
    monkeypatch.setenv("KEY", KEY)
    registry.register("sqlite.pipemagic", PipemagicDialect.__module__, PipemagicDialect.__name__)
    host = encrypted.address.partition("://")[2]
    engine = sa.create_engine(f"sqlite+pipemagic://{host}/?encryption_key_env=KEY")
    pd.DataFrame({"a": [1, 2]}).to_sql("t", engine, index=False)
    assert pd.read_sql("SELECT sum(a) AS s FROM t", engine)["s"].tolist() == [3]
    engine.dispose()
    with pytest.raises(dbapi.OperationalError, match="encrypted, and no key was sent"):
        dbapi.connect(encrypted.address, encrypted.token)
    assert set(hosted.without_key) <= {"GET /v3", "POST /v3/pipeline", "POST /v2/pipeline"}
    assert hosted.keys == {KEY}


def test_the_command_line(encrypted, run, tmp_path, capsysbinary):
    name, key = encrypted.name, ("--encryption-key-env", "KEY")
    for target in (encrypted.address, name):
        assert run("db", "shell", target, "SELECT 41 + 1 AS a", *key) == 0
        assert b"42" in capsysbinary.readouterr().out
    assert run("db", "dump", name, *key) == 0
    assert run("db", "export", name, str(tmp_path / "x.db"), *key) == 0
    assert (tmp_path / "x.db").read_bytes()[:6] == b"SQLite"
    assert encrypted.had_every_key
    capsysbinary.readouterr()
    assert run("db", "shell", name, "SELECT 1") == 1
    error = capsysbinary.readouterr().err.decode()
    assert "the database is encrypted, and no key was sent" in error
    assert "--encryption-key-env" in error
    assert run("db", "shell", name, "SELECT 1", "--encryption-key-env", "NOT_SET") == 1
    assert "the environment variable NOT_SET is not set" in capsysbinary.readouterr().err.decode()


def test_without_a_key_there_is_no_header(hosted, encrypted):
    hosted.encrypted.clear()
    with Database(encrypted.address, encrypted.token) as database:
        database.execute("SELECT 1")
        with database.cursor("SELECT 1") as cursor:
            list(cursor)
    assert hosted.keys == {None}


# -- missing and wrong keys


@pytest.mark.parametrize(("option", "message"), [
    ({}, "the database is encrypted, and no key was sent"),
    ({"encryption_key_env": "OTHER"}, "the encryption key was not accepted"),
])  # fmt: skip
def test_a_missing_and_a_wrong_key_have_their_own_messages(session, encrypted, option, message):
    with pytest.raises(EncryptionKeyError, match=message) as caught:
        session.connect(encrypted.address, **option)
    assert "--encryption-key-env VARIABLE" in caught.value.hint
    assert caught.value.code == "ENCRYPTION_KEY"
    assert session.connections == {}


def test_a_key_that_is_changed_on_the_server_is_reported_by_the_cell(session, encrypted):
    session.connect(encrypted.address, name="db", encryption_key_env="KEY")
    encrypted.hosted.encrypt(encrypted.name, OTHER_KEY)
    with pytest.raises(EncryptionKeyError, match="the encryption key was not accepted: Decryption failed"):
        session.run("SELECT 1")
    encrypted.hosted.encrypt(encrypted.name, KEY)
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]


def test_a_table_named_like_encryption_is_another_error(session, encrypted):
    session.connect(encrypted.address, name="db", encryption_key_env="KEY")
    with pytest.raises(StatementError, match="no such"):
        session.run("SELECT encrypt(x) FROM encrypted")


def test_a_quota_of_an_organization_named_like_encryption_is_another_error():
    blocked = {"error": "Operation was blocked: the organization encryption-course has read 9 rows", "code": "BLOCKED"}
    server = ScriptedServer(Answer(403, json.dumps(blocked).encode()))
    try:
        with Database(server.url, "t") as database, pytest.raises(ServerError, match="was blocked") as caught:
            database.execute("SELECT 1")
    finally:
        server.close()
    assert not isinstance(caught.value, EncryptionKeyError)
    assert caught.value.message == blocked["error"]


@pytest.mark.parametrize(("value", "said"), [("two words", "a space"), ("ключ", r"U\+043A"), ('a"b', "a quotation")])
def test_text_that_is_no_key_is_not_sent(encrypted, value, said):
    environ = encrypted.environ | {"KEY": value}
    with Session(environ=environ) as session, pytest.raises(PipemagicError, match=said) as got:
        session.connect(encrypted.address, encryption_key_env="KEY")
    assert "the encryption key in the environment variable KEY" in str(got.value)
    assert value not in str(got.value)
    assert encrypted.hosted.calls == []


# -- where it comes from


def test_a_database_of_an_organization_and_its_profile(session, encrypted):
    name = encrypted.name
    session.connect(name, encryption_key_env="KEY")
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    connection = session.connection()
    assert connection.connect_line == f"%pipedb connect {name} --encryption-key-env KEY"
    session.profiles.save(replace(connection.profile, name="saved"))
    text = session.profiles.path.read_text()
    assert 'encryption-key-env = "KEY"' in text
    assert KEY not in text
    session.connect("saved")
    assert session.run("SELECT 2 AS a")["a"].tolist() == [2]
    assert encrypted.had_every_key


def test_a_connection_gets_its_new_token_with_the_key(session, encrypted):
    session.connect(encrypted.name, name="mine", encryption_key_env="KEY")
    assert session.invalidate_tokens(encrypted.name)[1:] == ["mine continues with a new token."]
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    assert encrypted.had_every_key


def test_the_keyring_has_it_beside_the_token(session, encrypted, ring, run, monkeypatch, capsys):
    entry = encrypted.address.partition("://")[2]
    with pytest.raises(SessionError, match="the keyring contains no encryption key for") as caught:
        session.connect(encrypted.address, encryption_key_keyring=True)
    assert caught.value.hint == f"in a terminal: pipemagic auth store libsql://{entry} --encryption-key"
    for secret, option in ((KEY, "--encryption-key-stdin"), (encrypted.token, "--token-stdin")):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{secret}\n"))
        assert run("auth", "store", f"libsql://{entry}", option) == 0
    assert sorted(ring.kept.values()) == sorted([KEY, encrypted.token])
    session.connect(encrypted.address, name="a", keyring=True, encryption_key_keyring=True)
    assert session.connection().profile.settings()["encryption-key-keyring"] is True
    session.connect(encrypted.name, encryption_key_keyring=True)
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    assert encrypted.had_every_key
    assert run("auth", "forget", f"libsql://{entry}", "--encryption-key") == 0
    assert list(ring.kept.values()) == [encrypted.token]
    assert KEY not in capsys.readouterr().out


def test_two_sources_and_a_key_instead_of_a_name_are_refused(session, encrypted, tmp_path):
    address = encrypted.address
    with pytest.raises(SessionError, match="more than one source"):
        session.connect(address, encryption_key_env="KEY", encryption_key_keyring=True)
    for key in (KEY, "ab" * 32):
        with pytest.raises(SessionError, match="takes the name of an environment variable") as caught:
            session.connect(address, encryption_key_env=key)
        assert key not in str(caught.value)
    for line in (f"encryption-key = '{KEY}'", f"remote_encryption_key = '{KEY}'", f"key = '{KEY}'"):
        (tmp_path / FILE).write_text(f"[x]\naddress = '{address}'\n{line}\n")
        with pytest.raises(SessionError, match="contains a token") as caught:
            session.connect("x")
        assert KEY not in str(caught.value)
    (tmp_path / FILE).write_text(
        f"[x]\naddress = '{address}'\nencryption-key-env = 'A'\nencryption-key-keyring = true\n"
    )
    with pytest.raises(SessionError, match="encryption_key_env and encryption_key_keyring"):
        session.connect("x")


@pytest.mark.parametrize("text", [
    "address = '{address}'\nencryption-key-env = 'KEY'", "database = '{name}'\nencryption-key-env = 'KEY'",
    "address = '{address}'\nencryption-key-keyring = true", "database = '{name}'\nfollow = 'example.io'",
    "address = '{address}'\nfollow = 'example.io'",
])  # fmt: skip
def test_a_project_cannot_send_it_without_the_users_trust(encrypted, tmp_path, text):
    text = text.format(address=encrypted.address, name=encrypted.name)
    table = f"[tool.pipemagic.connections.x]\n{text}\n"
    (tmp_path / "pyproject.toml").write_text(table)
    environ = encrypted.environ | {"PIPEMAGIC_TOKEN": ""}
    profiles = Profiles(tmp_path / "config" / FILE, lambda: tmp_path)
    with Session(environ=environ, profiles=profiles) as session:
        with pytest.raises(SessionError, match="nothing was sent"):
            session.connect("x")
        assert encrypted.hosted.calls == []
        route = profiles.trust("x")
        assert ("encryption key: " in str(route)) == ("encryption" in text)
        assert ("follows: example.io" in str(route)) == ("follow" in text)
        profiles.check_trusted(profiles.get("x"), has_token=True)
        for old, new in (("KEY", "AWS_SECRET"), ("example.io", "evil.example.io"), ("true", "'other'")):
            table = table.replace(f"'{old}'" if old != "true" else old, f"'{new}'" if old != "true" else new)
        (tmp_path / "pyproject.toml").write_text(table)
        with pytest.raises(SessionError, match="nothing was sent"):
            session.connect("x")


# -- nowhere else


def test_it_is_in_no_repr_trace_error_or_saved_file(session, encrypted, tmp_path):
    connection = session.connect(encrypted.address, name="db", encryption_key_env="KEY")
    with session.wire.cell():
        session.run(f"SELECT '{KEY}' AS a")
    trace = session.wire.last
    assert len(trace) == 1
    with pytest.raises(StatementError) as caught:
        session.run("SELECT * FROM nothing")
    database = connection.database
    encrypted.hosted.encrypt(encrypted.name, OTHER_KEY)
    with pytest.raises(EncryptionKeyError) as refused:
        session.run("SELECT 1")
    shown = [
        repr(connection), repr(connection.__dict__), repr(session.__dict__), repr(database.__dict__), repr(trace),
        repr(database.transport.__dict__), repr(EncryptionKey(KEY)), str(EncryptionKey(KEY)), str(trace),
        *("".join(traceback.format_exception(error.value)) for error in (caught, refused)),
        *(path.read_text("utf-8", "replace") for path in tmp_path.rglob("*") if path.is_file()),
    ]  # fmt: skip
    assert [text for text in shown if KEY in text] == []
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(EncryptionKey(KEY))


def test_a_server_that_repeats_the_key_in_its_error_is_masked():
    server = ScriptedServer(Answer(400, f'{{"error": "decryption with {KEY} failed"}}'.encode()))
    try:
        with Database(server.url, "t", encryption_key=KEY) as database, pytest.raises(EncryptionKeyError) as caught:
            database.execute("SELECT 1")
    finally:
        server.close()
    assert KEY not in str(caught.value)
    assert "decryption with *** failed" in str(caught.value)


@pytest.mark.parametrize("answer", [
    Answer(400, f'{{"error": "the key {KEY} has another length"}}'.encode()), Answer(200, b"[1"), Answer(vanish=True),
])  # fmt: skip
def test_it_is_in_no_error_and_no_variable_of_a_refused_creation(answer):
    server = ScriptedServer(answer)
    try:
        with pipemagic.management(server.url, "t", organization="x") as api, pytest.raises(PipemagicError) as caught:
            api.create_database("a", "g", encryption_key=EncryptionKey(KEY, "aes256gcm"))
        assert server.calls[-1].json["remote_encryption"]["encryption_key"] == KEY
    finally:
        server.close()
    frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack
    shown = [str(caught.value), *(str(frame.locals) for frame in frames if frame.filename != __file__)]
    assert len(shown) > 2
    assert [text for text in shown if KEY in text] == []


def test_a_key_for_the_management_api_may_be_text_but_not_empty():
    server = ScriptedServer(Answer(200, b'{"database": {"Name": "a"}}'))
    try:
        with pipemagic.management(server.url, "t", organization="x") as api:
            api.create_database("a", "g", copy_of="b", encryption_key=KEY)
            for empty in ("", EncryptionKey(None, "aes256gcm")):
                with pytest.raises(ParameterError, match="the encryption key is empty"):
                    api.create_database("a", "g", encryption_key=empty)
        [body] = [call.json for call in server.calls]
        assert body["remote_encryption"] == {"encryption_key": KEY}
    finally:
        server.close()


@pytest.mark.parametrize("text", ["JWT decryption failed", "the token cannot be decrypted"])
def test_a_token_that_cannot_be_decrypted_is_another_error(text):
    server = ScriptedServer(Answer(401, f'{{"error": "{text}"}}'.encode()))
    try:
        with Database(server.url, "t") as database, pytest.raises(AuthError, match="the token was not accepted"):
            database.execute("SELECT 1")
    finally:
        server.close()


# -- other hosts


class Referring:
    """Two servers, the first of which refers to the second."""

    def __init__(self):
        self.second = ScriptedServer()
        self.target = f"http://localhost:{self.second.port}"
        self.first = ScriptedServer(lambda call: good(call, base_url=self.target))
        self.first.pages = self.second.pages = {}

    @property
    def secrets(self):
        return [(call.headers.get("authorization"), call.headers.get(KEY_HEADER)) for call in self.second.calls]


@pytest.fixture
def referring():
    servers = Referring()
    yield servers
    servers.first.close()
    servers.second.close()


def two_requests(url, **options):
    with Database(url, "secret-token", encryption_key=KEY, **options) as database, database.open_stream() as stream:
        stream.send([Execute(Stmt("BEGIN"))])
        stream.send([Execute(Stmt("SELECT 1"))])


def test_neither_token_nor_key_goes_to_another_host(referring):
    with pytest.raises(AddressError, match="is not the host you named") as caught:
        two_requests(referring.first.url)
    assert "--follow HOST" in caught.value.hint
    assert referring.secrets == []


@pytest.mark.parametrize(
    "follow", ["example.io", "localhost", "localhost:1", "127.0.0.1:{port}", "evil-localhost:{port}"]
)
def test_another_host_than_the_named_one_is_not_followed(referring, follow):
    """A port that is not named is that of the address, or the default."""
    with pytest.raises(AddressError, match="is not the host you named"):
        two_requests(referring.first.url, follow=follow.format(port=referring.second.port))
    assert referring.secrets == []


def test_the_named_host_is_followed_with_token_and_key(referring, tmp_path):
    host = f"localhost:{referring.second.port}"
    two_requests(referring.first.url, follow=f"  '{host.upper()}' ")
    assert set(referring.secrets) == {("Bearer secret-token", KEY)}


def test_a_host_is_not_followed_from_https_to_http():
    endpoint = replace(parse_address("https://db.example.io"), follow="other.example.io")
    assert check_base_url(endpoint, "https://other.example.io").url == "https://other.example.io"
    assert check_base_url(endpoint, "https://OTHER.example.io:443/").url == "https://other.example.io"
    for base_url in ("http://other.example.io", "https://other.example.io:8443", "https://evil.example.io",
                     "https://other.example.io.evil.io", "https://x@other.example.io", "https://a-other.example.io",
                     ):  # fmt: skip
        with pytest.raises(AddressError):
            check_base_url(endpoint, base_url)


@pytest.mark.parametrize("text", ["https://other.io", "a b", "other.io/path", "u:p@other.io", "other.io:99999", "*"])
def test_what_cannot_be_followed(text):
    with pytest.raises(AddressError, match="the host to follow is not a host name"):
        Database("http://localhost:1", follow=text)


def test_a_profile_has_the_host_to_follow(session, tmp_path, referring):
    host = f"localhost:{referring.second.port}"
    (tmp_path / FILE).write_text(
        f"[x]\naddress = '{referring.first.url}'\nfollow = '{host}'\nencryption-key-env = 'KEY'\n"
    )
    profile = session.profiles.get("x")
    assert profile.route_options == f" --encryption-key-env KEY --follow {host}"
    assert profile.settings()["follow"] == host
    session.connect("x")
    session.run("BEGIN")
    session.run("SELECT 1")
    assert {key for _, key in referring.secrets} == {KEY}


# -- creation


@pytest.fixture
def sqlite_file(tmp_path):
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2);")
    connection.close()
    return path


def test_creating_uploading_and_branching(session, encrypted, sqlite_file, run):
    stamp, key = secrets.token_hex(4), session.encryption_key_in("KEY", "aes256gcm")
    session.organization.create_database(f"e{stamp}", key=key)
    session.organization.create_database(f"f{stamp}", key=key, file=sqlite_file)
    upload = next(call for call in encrypted.hosted.calls if call.path == "/v1/upload")
    assert upload.headers[CIPHER_HEADER] == "aes256gcm"
    session.connect(f"f{stamp}", encryption_key_env="KEY")
    assert session.run("SELECT sum(a) AS s FROM t")["s"].tolist() == [3]
    assert run("db", "create", f"g{stamp}", "--from-db", f"f{stamp}") == 1
    copy = ("db", "create", f"g{stamp}", "--from-db", f"f{stamp}", "--wait", "--encryption-key-env", "KEY")
    assert run(*copy) == 0
    session.connect(f"g{stamp}", encryption_key_env="KEY")
    assert session.run("SELECT sum(a) AS s FROM t")["s"].tolist() == [3]
    assert encrypted.hosted.without_key == []
    with pytest.raises(SessionError, match="--encryption-cipher requires a key"):
        session.encryption_key_in(None, "aes256gcm")


def test_the_embedded_service_refuses_what_it_does_not_do(encrypted):
    environ = encrypted.environ | {"PIPEMAGIC_API_URL": encrypted.behind.url}
    with Session(environ=environ) as own, pytest.raises(PipemagicError, match="remote_encryption") as caught:
        own.organization.create_database("enc", key=own.encryption_key_in("KEY", "aegis256"))
    assert KEY not in str(caught.value)
    assert "\n" not in caught.value.message
    assert encrypted.behind.manage("GET", "/databases/enc").status_code == 404


# -- classes


def test_students_get_the_content_of_an_encrypted_template_without_its_key(
    hosted, encrypted, run, session, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    with pipemagic.connect(encrypted.address, token=encrypted.token, encryption_key=KEY) as database:
        database.execute("CREATE TABLE street (name TEXT)")
        database.execute("INSERT INTO street VALUES ('High Street')")
    name = f"c{encrypted.name[-6:]}"
    Path("roster.csv").write_text("name,email\nAda,ada@x.org\n", "utf-8")
    create = ("class", "create", "roster.csv", "--group", "g", "--from", encrypted.name, "--name", name)
    assert run(*create) == 1
    assert "--encryption-key-env" in capsys.readouterr().err
    hosted.without_key.clear()
    assert run(*create, "--encryption-key-env", "KEY") == 0
    assert encrypted.had_every_key
    with Path(f"{name}-handouts.csv").open(encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    with pipemagic.connect(row["address"], token=row["token"]) as student:
        assert student.execute("SELECT name FROM street").rows == [("High Street",)]
        student.execute("DELETE FROM street")
        panel = PanelPage(open_panel(session, "class"))
        panel.wait("0 of 1 connected")
        panel.click("Details of Ada")
        panel.click("Reset database ...")
        panel.type(f"Type {row['database']} to reset", row["database"])
        panel.click("Reset database")
        panel.wait(f"pipemagic class reset {row['database']} --class {name} --encryption-key-env VARIABLE")
        close_panels()
        assert run("class", "reset", "--class", name, "--all", "--yes", "--encryption-key-env", "KEY") == 0
        assert student.execute("SELECT name FROM street").rows == [("High Street",)]
    assert run("class", "close", "--confirm", name) == 0


# -- addresses


def test_turso_is_an_address_like_libsql(session, encrypted, run, capsys):
    address = f"turso://{encrypted.name}-local.localhost:{encrypted.behind.port}"
    session.connect(address, name="t")
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    with pipemagic.connect(address, token=encrypted.token) as database:
        assert database.execute("SELECT 1").rows == [(1,)]
    assert run("db", "shell", address, "SELECT 41 + 1 AS a") == 0
    assert "42" in capsys.readouterr().out
