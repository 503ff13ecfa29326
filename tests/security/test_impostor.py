"""Another process at the service's port: it gets no token, whatever the client does after the service has ended.

Another user of the machine can listen at the port of a service that was killed, and hold its lock if that is open.
"""

from __future__ import annotations

import io
import json
import os
import socket
import sys
import threading
from contextlib import contextmanager, suppress

import httpx
import pytest
from promises import Promise
from started_services import crash, end_services

from pipemagic import cli, launcher
from pipemagic.cli.api import management
from pipemagic.cli.shell import open_database
from pipemagic.errors import PipemagicError, ServiceError
from pipemagic.service.files import LOCK_FILE, PLATFORM_TOKEN_FILE, RUNTIME_FILE, proof
from pipemagic.session import Session

pytestmark = [
    pytest.mark.promise(Promise.BOUNDARIES),
    pytest.mark.skipif(os.name != "posix", reason="Windows lets nobody take over a port or a lock"),
]

PASSWORD = "a long enough password"
SECRETS = ("pmp_", "pml_", "eyJ", "Bearer", PASSWORD)
LISTS = {name: [] for name in ("organizations", "groups", "databases", "locations", "tokens")}


class Impostor:
    """Listens at a port, records all it receives, and answers every request with 200 and a plausible body."""

    def __init__(self, port, status="200 OK", body=None):
        self.received = b""
        self._status, self._body = status, json.dumps(LISTS).encode() if body is None else body
        self._listener = socket.create_server(("127.0.0.1", port))
        self._open = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self):
        with suppress(OSError):  # it was closed
            while True:
                sock, _ = self._listener.accept()
                self._open.append(sock)
                self._threads.append(threading.Thread(target=self._talk, args=(sock,), daemon=True))
                self._threads[-1].start()

    def _talk(self, sock):
        with sock, suppress(OSError):
            head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            while data := sock.recv(65536):
                self.received += data
                if b"\r\n\r\n" in data:
                    body = self.body(data)
                    sock.sendall(head % (self._status.encode(), len(body)) + body)

    def body(self, _request):
        return self._body

    def close(self):
        for sock in [self._listener, *self._open]:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def assert_no_secret(self, *others):
        text = self.received.decode("latin-1")
        assert [secret for secret in (*SECRETS, *others) if secret in text] == [], text


@contextmanager
def lock_held(folder):
    """Hold the lock of a folder, as the service does."""
    import fcntl

    with (folder / LOCK_FILE).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    monkeypatch.setenv(launcher.FOLDER_VARIABLE, str(folder))
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(tmp_path / "config"))
    yield folder
    end_services(folder)


@pytest.fixture
def session(folder):
    with Session() as session:
        session.connect()
        session.run("CREATE TABLE t (a)")
        session.organization.create_database("other", "default")
        yield session


def port_of(folder):
    return json.loads((folder / RUNTIME_FILE).read_text())["port"]


@contextmanager
def impostor(folder, *, locked=True, kind=Impostor, **options):
    """Kill the service, and take its port and its lock."""
    port = port_of(folder)
    crash(folder)
    server = kind(port, **options)
    try:
        if locked:
            with lock_held(folder):
                yield server
        else:
            yield server
    finally:
        server.close()


ANSWERS = [
    {},
    {"status": "401 Unauthorized"},
    {"status": "404 Not Found", "body": b""},
    {"body": b""},
    {"body": b"0" * 64},
    {"body": b"x" * 100_000},
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_it_is_not_taken_for_the_service(session, folder, answer):
    with impostor(folder, **answer) as other:
        for use in (launcher.find, launcher.check, launcher.ensure, launcher.stop):
            with pytest.raises(ServiceError, match="did not prove that it is the service") as refused:
                use(folder)
            assert "no token was sent" in refused.value.message
            assert str(folder / LOCK_FILE) in refused.value.hint
            assert refused.value.code == "UNPROVEN"
        other.assert_no_secret()
        assert b"/pipemagic/proof?nonce=" in other.received


def test_it_is_refused_by_its_version_first(session, folder):
    """An earlier version gives no proof."""
    path = folder / RUNTIME_FILE
    with impostor(folder, status="404 Not Found", body=b"") as other:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"version": "0.0.1"}))
        for use in (launcher.check, launcher.ensure):
            with pytest.raises(ServiceError, match=r"is pipemagic 0\.0\.1"):
                use(folder)
        assert other.received == b""
        with pytest.raises(ServiceError, match="did not prove") as refused:
            launcher.stop(folder)
        assert f"end the process with the pid in {path}" in refused.value.hint
        other.assert_no_secret()


def test_a_session_that_is_open_sends_it_nothing(session, folder):
    """Neither the platform token nor that of a database, also on new connections to the earlier address."""
    token = session.connections["main"].database.transport.token._text
    with impostor(folder) as other:
        for use in (
            lambda: session.run("SELECT 1"),
            lambda: session.run("INSERT INTO t VALUES (1)"),
            lambda: session.connection().with_database(lambda database: database.execute("SELECT 1")),
            lambda: session.connection().database.sibling().execute("SELECT 1"),
            session.organization.databases,
            session.organization.states,
            lambda: session.organization.sibling("another").databases(),
            lambda: session.organization.create_token("other"),
            lambda: session.connect("other"),
            session.connect,
            lambda: session.choose_organization("another"),
            session.stop,
        ):
            with pytest.raises(PipemagicError):
                use()
        other.assert_no_secret(token)
        assert other.received


def test_a_new_session_sends_it_nothing(session, folder):
    session.shut_down()
    with impostor(folder) as other, Session() as new:
        for use in (new.connect, lambda: new.connect("main"), lambda: new.organization.databases(), new.stop):
            with pytest.raises(ServiceError, match="did not prove"):
                use()
        other.assert_no_secret()


@pytest.mark.parametrize(
    "command",
    [
        ["db", "list"], ["db", "shell", "main", "SELECT 1"], ["db", "create", "new", "--group", "default"],
        ["group", "list"], ["org", "list"], ["auth", "whoami"], ["auth", "token"], ["stop"], ["doctor"],
        ["auth", "api-tokens", "list"], ["auth", "logout", "--all"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_command_sends_it_a_token(session, folder, command, capsys):
    with impostor(folder) as other:
        assert cli.main([*command, "--data", str(folder)]) != 0
        other.assert_no_secret()
    assert "did not prove that it is the service" in "".join(capsys.readouterr())


@pytest.mark.parametrize("command", ["login", "signup"])
def test_no_command_sends_it_a_password(session, folder, command, capsys, monkeypatch):
    with impostor(folder) as other:
        monkeypatch.setattr(sys, "stdin", io.StringIO(PASSWORD + "\n"))
        assert cli.main(["auth", command, "ada", "--password-stdin", "--data", str(folder)]) != 0
        other.assert_no_secret()


def test_the_service_starts_elsewhere_if_only_its_port_is_taken(session, folder):
    """The cell runs: its connection moves to the new address."""
    with impostor(folder, locked=False) as other:
        session.run("INSERT INTO t VALUES (1)")
        assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [1]
        assert {info.name for info in session.organization.databases().items} == {"main", "other"}
        other.assert_no_secret()
        assert launcher.find(folder).url == json.loads((folder / RUNTIME_FILE).read_text())["url"]


def test_a_command_that_is_running_sends_it_nothing(session, folder):
    """The service ends while a command has its address: only new connections are made to the other process."""
    with management(folder) as api, open_database(api, "main") as database:
        assert database.execute("SELECT 1").rows == [(1,)]
        with impostor(folder) as other:
            for use in (api.databases, lambda: database.execute("SELECT 1"), lambda: api.create_token("main")):
                with pytest.raises(PipemagicError, match="did not prove that it is the service"):
                    use()
            other.assert_no_secret()


def test_a_temporary_service_that_was_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Session() as session:
        connection = session.connect(temporary=True)
        session.run("CREATE TABLE t (a)")
        [folder] = tmp_path.iterdir()
        with impostor(folder, locked=False) as other:
            for use in (
                lambda: session.run("SELECT 1"),
                session.organization.databases,
                lambda: connection.database.sibling().execute("SELECT 1"),
                session.organization.states,
            ):
                with pytest.raises(PipemagicError):
                    use()
            other.assert_no_secret()


# -- the proof


class Relay(Impostor):
    """Forwards the request for a proof to a running service at another port."""

    to = ""

    def body(self, request):
        path = request.split()[1].decode()
        return httpx.get(self.to + path).content if path.startswith("/pipemagic/proof") else self._body


def test_a_proof_of_the_service_at_another_port_is_not_accepted(session, folder):
    """It asked the true service, which was started again; the client has read the earlier address."""
    about = (folder / RUNTIME_FILE).read_text()
    with impostor(folder, locked=False, kind=Relay) as other, launcher.ensure(folder) as lease:
        other.to = lease.service.url
        assert launcher.find(folder) == lease.service
        now = (folder / RUNTIME_FILE).read_text()
        (folder / RUNTIME_FILE).write_text(about)
        for use in (launcher.find, launcher.check, launcher.ensure, launcher.stop):
            with pytest.raises(ServiceError, match="did not prove"):
                use(folder)
        other.assert_no_secret()
        (folder / RUNTIME_FILE).write_text(now)


def test_the_proof_is_only_for_the_connection_on_which_it_came(session, folder):
    """A process that gets a proof and then disconnects does not get the token on a new connection."""

    class OneProof(Impostor):
        proofs = 0

        def body(self, request):
            path = request.split()[1].decode()
            if not path.startswith("/pipemagic/proof"):
                return b""
            self.proofs += 1
            nonce = path.partition("nonce=")[2]
            return proof(folder, f"http://127.0.0.1:{port}", nonce)

        def _talk(self, sock):
            with sock, suppress(OSError):
                request = sock.recv(65536)
                self.received += request
                body = self.body(request)
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    port = port_of(folder)
    with impostor(folder, kind=OneProof) as other:
        for use in (launcher.ensure, launcher.stop):
            with pytest.raises(ServiceError):
                use(folder)
        with pytest.raises(PipemagicError):
            session.organization.databases()
        assert other.proofs
        other.assert_no_secret()


def test_the_proof_follows_the_token_of_the_folder(session, folder):
    """A token that was replaced while the service runs is that of the next proof, too."""
    path = folder / PLATFORM_TOKEN_FILE
    before = path.read_text()
    try:
        path.write_text("pmp_another\n")
        assert launcher.find(folder) is not None
        path.write_text("")  # a proof with an empty key proves nothing
        with pytest.raises(ServiceError, match=r"no readable platform token: .*platform-token is empty"):
            launcher.find(folder)
    finally:
        path.write_text(before)
    assert launcher.find(folder) is not None
