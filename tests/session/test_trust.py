"""Trust in a project's file: no token and no request goes to an address that only this file names."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest
from raw_server import answering, plain, served

from pipemagic.errors import AuthError, ConnectError, SessionError
from pipemagic.http.transport import HttpTransport
from pipemagic.session import Session
from pipemagic.session.profiles import FILE, Profiles

EVIL = "libsql://evil.example.io"


@pytest.fixture
def profiles(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "config").mkdir()
    return Profiles(tmp_path / "config" / FILE, lambda: folder)


@pytest.fixture
def asked():
    return []


@pytest.fixture
def sent(monkeypatch):
    """The hosts that a request was to go to, with the authorization it had; none leaves."""
    requests = []

    def note(self, request):
        requests.append((request.headers["Host"].partition(":")[0], request.headers.get("Authorization", "")))
        raise ConnectError("nothing leaves this test")

    monkeypatch.setattr(HttpTransport, "handle_request", note)
    return requests


@pytest.fixture
def session(profiles, sent, asked, tmp_path):
    environ = {
        "PIPEMAGIC_TOKEN": "mine",
        "AWS_SECRET": "aws",
        "OTHER": "other",
        "PIPEMAGIC_API_TOKEN": "platform",
        "PIPEMAGIC_CONFIG": str(tmp_path / "config"),
    }
    with Session(environ=environ, profiles=profiles, ask_token=lambda host: asked.append(host) or "typed") as session:
        yield session


def project(tmp_path, text):
    (tmp_path / "project" / "pyproject.toml").write_text(f"[tool.pipemagic.connections.x]\n{text}\n")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"address = '{EVIL}'", "PIPEMAGIC_TOKEN"),
        (f"address = '{EVIL}'\ntoken-env = 'AWS_SECRET'", "variable AWS_SECRET"),
        (f"address = '{EVIL}'\ntoken-file = 'token'", "token (token: file"),
        (f"address = '{EVIL}'\nkeyring = true", "keyring pipemagic"),
        ("address = 'http://192.0.2.1:8080'", "192.0.2.1:8080"),
        ("address = 'https://localhost.evil.example.io'", "localhost.evil.example.io"),
        ("database = 'd'\nat = 'https://evil.example.io'", "platform token"),
        ("database = 'd'\nat = 'https://evil.example.io'\napi-token-env = 'AWS_SECRET'", "variable AWS_SECRET"),
        ("database = 'd'\napi-token-env = 'AWS_SECRET'", "variable AWS_SECRET"),
        ("address = 'https://\u0430pple.example.io'", "\\u0430pple"),  # a Cyrillic letter
        # On this machine another user may listen.
        ("address = 'http://127.0.0.1:81'", "PIPEMAGIC_TOKEN"),
        ("address = 'http://[::1]:81'\ntoken-env = 'AWS_SECRET'", "variable AWS_SECRET"),
        ("address = 'http://localhost:81'\ntoken-env = 'AWS_SECRET'", "http://localhost:81"),
        ("address = 'libsql://db.localhost:81'\ntoken-file = '../../.ssh/id'", "id (token: file"),
        ("address = 'http://localhost:81'\nkeyring = 'other'", "keyring other"),
        ("database = 'd'\nat = 'http://127.0.0.1:81'", "platform token"),
        ("database = 'd'\nat = 'http://localhost:81/v1'\napi-token-env = 'AWS_SECRET'", "variable AWS_SECRET"),
    ],
)
def test_nothing_is_sent_before_the_user_trusts_the_route(session, sent, asked, tmp_path, text, named):
    project(tmp_path, text)
    for options in ({}, {"token_env": "OTHER"}, {"token": "given"}):
        if options and "database" in text:
            continue
        with pytest.raises(SessionError) as caught:
            session.connect("x", **options)
        assert "nothing was sent" in str(caught.value)
        assert "%pipedb profiles --trust x" in caught.value.hint
    assert named.split(" (")[-1] in str(caught.value) or options
    assert (sent, asked) == ([], [])


def test_trust_is_for_one_address_with_one_token_source(session, profiles, sent, tmp_path):
    project(tmp_path, f"address = '{EVIL}'\ntoken-env = 'OTHER'")
    assert str(profiles.trust("x")) == "https://evil.example.io (token: variable OTHER)"
    profiles.trust("x")
    assert profiles.trust_file.read_text().count("[[trusted]]") == 1
    if os.name == "posix":
        assert profiles.trust_file.stat().st_mode & 0o077 == 0
    with pytest.raises(ConnectError):
        session.connect("x")
    assert sent[-1] == ("evil.example.io", "Bearer other")
    sent.clear()
    for changed in (
        f"address = '{EVIL}'\ntoken-env = 'AWS_SECRET'", f"address = '{EVIL}'", f"address = '{EVIL}:81'",
        f"address = '{EVIL}/path'\ntoken-env = 'OTHER'", "address = 'http://evil.example.io'\ntoken-env = 'OTHER'",
        "database = 'd'\nat = 'https://evil.example.io'\napi-token-env = 'OTHER'",
    ):  # fmt: skip
        project(tmp_path, changed)
        with pytest.raises(SessionError, match="nothing was sent"):
            session.connect("x")
    assert sent == []


def test_the_users_own_file_is_trusted(session, profiles, sent, tmp_path):
    profiles.path.write_text(f"[mine]\naddress = '{EVIL}'\ntoken-env = 'OTHER'\n[bad]\naddress = 'nothing'\n")
    project(tmp_path, f"address = '{EVIL}'\ntoken-env = 'AWS_SECRET'")
    with pytest.raises(SessionError, match="nothing was sent"):
        session.connect("x")
    project(tmp_path, f"address = '{EVIL}'\ntoken-env = 'OTHER'")
    for name in ("x", "mine"):
        with pytest.raises(ConnectError):
            session.connect(name)
    assert {host for host, _ in sent} == {"evil.example.io"}
    with pytest.raises(SessionError, match="does not require trust"):
        profiles.trust("mine")
    with pytest.raises(SessionError, match=r"profile '.*' does not exist"):
        profiles.trust("nothing")


NO_TOKENS = [{}, {"PIPEMAGIC_TOKEN": "", "TURSO_AUTH_TOKEN": ""}, {"PIPEMAGIC_API_TOKEN": "p", "OTHER": "o"}]


@pytest.fixture
def student(profiles, asked):
    """Returns a session with other variables than `session`."""
    with ExitStack() as stack:
        yield lambda **environ: stack.enter_context(
            Session(environ=environ, profiles=profiles, ask_token=lambda host: asked.append(host) or "typed")
        )


@pytest.mark.parametrize("environ", NO_TOKENS)
@pytest.mark.parametrize("address", ["http://db.localhost:81", "http://localhost:81", "http://127.0.0.1:81"])
def test_this_machine_needs_no_trust_without_a_token(student, sent, tmp_path, environ, address):
    """A project for teaching has a local server."""
    project(tmp_path, f"address = '{address}'")
    session = student(**environ)
    session._default, session._default_of_project = lambda: address, lambda: True
    for target in ("x", None):
        with pytest.raises(ConnectError):
            session.connect(target)
        assert sent.pop()[1] == ""


@pytest.mark.parametrize("name", ["PIPEMAGIC_TOKEN", "TURSO_AUTH_TOKEN"])
@pytest.mark.parametrize("target", ["x", None])
@pytest.mark.parametrize("address", ["http://localhost:81", "localhost:81"])
def test_a_default_variable_is_not_sent_to_a_process_of_this_machine(
    student, profiles, sent, tmp_path, name, target, address
):
    project(tmp_path, f"address = '{address}'")
    session = student(**{name: "mine"})
    session._default, session._default_of_project = lambda: address, lambda: True
    for options in ({}, {"token_env": name}, {"token": "given"}):
        with pytest.raises(SessionError, match="nothing was sent") as refused:
            session.connect(target, **options)
    assert sent == []
    assert refused.value.hint.endswith("--trust x" if target else f'--trust "{address}"')
    assert str(profiles.trust(target or address)) == "http://localhost:81 (token: PIPEMAGIC_TOKEN or TURSO_AUTH_TOKEN)"
    with pytest.raises(ConnectError):
        session.connect(target)
    assert sent == [("localhost", "Bearer mine")]


@pytest.mark.parametrize("name", ["PIPEMAGIC_API_TOKEN", "TURSO_API_TOKEN"])
def test_a_platform_token_is_not_sent_to_a_process_of_this_machine(student, profiles, sent, tmp_path, name):
    project(tmp_path, "database = 'd'\nat = 'http://localhost:81'")
    with pytest.raises(SessionError, match="there is no platform token"):
        student(PIPEMAGIC_TOKEN="mine").connect("x")
    session = student(**{name: "mine"})
    with pytest.raises(SessionError, match="nothing was sent"):
        session.connect("x")
    assert sent == []
    profiles.trust("x")
    with pytest.raises(ConnectError):
        session.connect("x")
    assert sent[-1] == ("localhost", "Bearer mine")


def test_the_user_is_not_asked_for_a_token_for_a_process_of_this_machine(student, profiles, asked, tmp_path):
    """The first request has none; a server that only the project names may want the user's."""
    with served(answering(plain(b'{"error": "who are you?"}', status="401 Unauthorized"))) as server:
        project(tmp_path, f"address = '{server.url}'")
        session = student()
        session._default, session._default_of_project = lambda: server.url, lambda: True
        for target, name in (("x", "x"), (None, f'"{server.url}"')):
            with pytest.raises(SessionError, match="no token was sent") as refused:
                session.connect(target)
            assert refused.value.hint == f"if that is right, trust it once: %pipedb profiles --trust {name}"
        assert asked == []
        profiles.trust("x")
        with pytest.raises(AuthError):
            session.connect("x")
    assert asked == ["127.0.0.1"]


def test_a_link_of_the_project_to_another_token_file_asks_again(session, profiles, sent, tmp_path):
    """A pull of the project may change a link, which keeps its name."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o600)
    link = tmp_path / "project" / "token"
    link.symlink_to(tmp_path / "one")
    project(tmp_path, "address = 'http://localhost:81'\ntoken-file = 'token'")
    assert str(profiles.trust("x")) == f"http://localhost:81 (token: file {tmp_path / 'one'})"
    with pytest.raises(ConnectError):
        session.connect("x")
    assert sent == [("localhost", "Bearer one")]
    link.unlink()
    link.symlink_to(tmp_path / "two")
    with pytest.raises(SessionError, match="nothing was sent"):
        session.connect("x")
    assert len(sent) == 1


@pytest.mark.parametrize("named", ["address", "profile"])
def test_the_default_of_a_project_is_held_back_too(session, profiles, sent, tmp_path, named):
    project(tmp_path, f"address = '{EVIL}'")
    default = EVIL if named == "address" else "x"
    session._default, session._default_of_project = lambda: default, lambda: True
    for attempt in (session.connect, lambda: session.run("SELECT 1")):
        with pytest.raises(SessionError, match="nothing was sent"):
            attempt()
    assert sent == []
    profiles.trust(default)
    with pytest.raises(ConnectError):
        session.run("SELECT 1")
    assert sent[-1] == ("evil.example.io", "Bearer mine")


def test_a_damaged_file_of_trust_trusts_nothing(session, profiles, sent, tmp_path):
    project(tmp_path, f"address = '{EVIL}'")
    for text in ("trusted = 3", "[[trusted]]\naddress = 3", f"[trusted]\naddress = '{EVIL}'"):
        profiles.trust_file.write_text(text)
        with pytest.raises(SessionError, match="nothing was sent"):
            session.connect("x")
    profiles.trust_file.write_text("[")
    with pytest.raises(SessionError, match="is not valid TOML"):
        session.connect("x")
    assert sent == []
