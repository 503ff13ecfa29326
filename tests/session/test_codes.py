"""``connect`` with a one-time code: the token is kept, for the same cell after a restart, until it expires."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from served import serve
from waiting import until

from pipemagic.errors import AuthError, SessionError, UnknownOutcome, UnsupportedError
from pipemagic.session import Session


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("codes"), "--access-log") as served:
        served.create("flights")
        yield served


@pytest.fixture
def new_code(served):
    def new_code(expiration="1h", name="flights", **body):
        answer = served.manage("POST", f"/databases/{name}/auth/codes", params={"expiration": expiration}, json=body)
        return answer.raise_for_status().json()["code"]

    return new_code


@pytest.fixture
def session(tmp_path):
    """Return a function that starts a session of a user; each is as after a restart of the kernel."""
    sessions = []

    def session(user="ada", **environ):
        sessions.append(Session(environ={"PIPEMAGIC_CONFIG": str(tmp_path / user), **environ}))
        return sessions[-1]

    yield session
    for each in sessions:
        each.shut_down()


def kept(tmp_path, user="ada"):
    return sorted((tmp_path / user / "codes").glob("*.json"))


def value(session):
    return session.run("SELECT 1 AS n")["n"].to_list()


def test_the_same_line_works_again_after_a_restart(served, session, new_code, tmp_path):
    code = new_code()
    first = session()
    connection = first.connect(served.url, code=code)
    assert (connection.name, value(first)) == ("flights", [1])
    first.connect(served.url, code=code)  # the cell again
    second = session()
    second.connect(served.url, code=f" {code[:4].lower()}-{code[4:].lower()}")
    assert value(second) == [1]
    [file] = kept(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert code not in file.read_text() + file.name
    with pytest.raises(AuthError, match="the code was used before, and is valid once") as caught:
        session("eve").connect(served.url, code=code)
    assert (caught.value.code, caught.value.hint) == (
        "CODE_USED", "if that was you, it was on another computer or with other settings; ask for a new code",
    )  # fmt: skip
    assert kept(tmp_path, "eve") == []


def test_a_wrong_code(served, session, tmp_path):
    with pytest.raises(AuthError, match="the code is wrong") as caught:
        session().connect(served.url, code="WRNGWRNG")
    assert (caught.value.code, "WRNG" in str(caught.value)) == ("CODE_WRONG", False)
    assert kept(tmp_path) == []


def test_no_request_is_necessary_while_the_token_is_kept(served, session, new_code):
    code = new_code()
    session().connect(served.url, code=code)
    new_code(replace=True)  # the first one is wrong now, but its token stays valid
    again = session()
    again.connect(served.url, code=code)
    assert value(again) == [1]


def test_a_token_that_was_invalidated_is_replaced_while_the_code_is_valid(served, session, new_code, tmp_path):
    code = new_code()
    session().connect(served.url, code=code)
    [file] = kept(tmp_path)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "token": content["token"][:-4] + "AAAA"}))
    again = session()
    again.connect(served.url, code=code)
    assert value(again) == [1]
    assert json.loads(file.read_text())["token"] != content["token"][:-4] + "AAAA"
    served.manage("POST", "/databases/flights/auth/rotate").raise_for_status()
    with pytest.raises(AuthError) as caught:
        session().connect(served.url, code=code)
    assert caught.value.code == "CODE_EXPIRED"  # a rotation ends codes, too
    assert kept(tmp_path) == []


def test_files_of_expired_tokens_are_deleted(served, session, new_code, tmp_path):
    codes = [new_code(), new_code()]
    session().connect(served.url, code=codes[0])
    [file] = kept(tmp_path)
    file.write_text(json.dumps({**json.loads(file.read_text()), "expires": 1.0}))
    lost = file.with_name("lost.json")
    lost.write_text('{"key": "of an exchange without a response"}')
    os.utime(lost, (1, 1))
    file.with_name("other.json").write_text("[]")
    session().connect(served.url, code=codes[1])
    [left] = kept(tmp_path)
    assert left != file


@pytest.mark.parametrize("seconds", [3600, 40 * 86400])
def test_a_clock_that_is_fast_does_not_lock_out(served, session, new_code, tmp_path, seconds):
    code = new_code()
    session().connect(served.url, code=code)
    [file] = kept(tmp_path)
    file.write_text(json.dumps({**json.loads(file.read_text()), "expires": time.time() - seconds}))
    session().connect(served.url, code=code)


def test_a_file_that_cannot_be_read_does_not_matter(served, session, new_code, tmp_path):
    (tmp_path / "ada" / "codes" / "0.json").mkdir(parents=True)  # as it is for one of the administrator
    ada = session()
    ada.connect(served.url, code=new_code())
    assert value(ada) == [1]


def test_an_expired_code(served, session, new_code):
    code = new_code("1s")

    def expired():
        answer = httpx.post(f"{served.url}/v1/auth/code", json={"code": code, "key": "x" * 22})
        return answer.json().get("code") == "CODE_EXPIRED"

    until(expired)
    with pytest.raises(AuthError, match="the code has expired") as caught:
        session().connect(served.url, code=code)
    assert caught.value.hint == "use the newest code that you were given, or ask for a new one"


class Cutting:
    """A proxy that closes the connection instead of passing on the first responses."""

    def __init__(self, port, responses):
        self._socket, self._port, self.left = socket.create_server(("127.0.0.1", 0)), port, responses
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client, socket.create_connection(("127.0.0.1", self._port)) as server:
                request = client.recv(65536)
                server.sendall(request.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nConnection: close\r\n", 1))
                response = b"".join(iter(lambda server=server: server.recv(65536), b""))
                self.left -= 1
                if self.left < 0:
                    client.sendall(response)

    def close(self):
        self._socket.close()


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_response_does_not_lock_out(served, session, new_code, lost):
    code = new_code()
    proxy = Cutting(served.port, lost)
    try:
        if lost > 1:
            with pytest.raises(UnknownOutcome) as caught:
                session().connect(proxy.url, code=code)
            assert caught.value.hint == "connect again: the code is still valid here"
        again = session()
        again.connect(proxy.url, code=code)
        assert value(again) == [1]
    finally:
        proxy.close()


def test_two_notebooks_of_one_user_share_the_token(served, session, new_code):
    code = new_code()
    sessions = [session(), session(), session()]
    with ThreadPoolExecutor(3) as pool:
        names = list(pool.map(lambda each: each.connect(served.url, code=code).name, sessions))
    assert names == ["flights"] * 3


def test_of_two_users_with_one_code_exactly_one_connects(served, session, new_code):
    def connect(each, code):
        try:
            return each.connect(served.url, code=code).name
        except AuthError as error:
            return error.code

    for _ in range(5):
        code, users = new_code(), [session("ada"), session("eve")]
        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(lambda each, code=code: connect(each, code), users)) == ["CODE_USED", "flights"]


def test_codes_are_in_no_url_and_no_log(served, session, new_code):
    code = new_code()
    first = session()
    first.connect(served.url, code=code)
    first.run("SELECT 1")
    with pytest.raises(AuthError):
        session("eve").connect(served.url, code="WRNGWRNG")
    served.manage("GET", "/groups/the-last-line-of-the-test")
    lines = iter(lambda: served.process.stdout.readline().decode(), "")
    log = ""
    while "the-last-line-of-the-test" not in log:
        log += next(lines)
    assert re.search(r"POST \S+ /v1/auth/code 200", log)
    trace = repr(first.wire.newest(1000)) + str(first.wire.trace())
    for text in (log, served.log(), trace):
        assert code not in text
        assert "WRNG" not in text


def test_codes_need_the_address_of_a_service(served, session, new_code):
    code = new_code()
    port = urlsplit(served.url).port
    with pytest.raises(UnsupportedError, match="exchanges no codes") as caught:
        session().connect(f"http://flights-local.localhost:{port}", code=code)
    assert "without the name of a database" in caught.value.hint
    with pytest.raises(SessionError, match="a token is for an address") as refused:
        session(PIPEMAGIC_API_URL=served.url, PIPEMAGIC_API_TOKEN=served.platform_token).connect("flights", code=code)
    assert refused.value.hint == "%pipedb connect ADDRESS --code LETTERS"
    for other in ({"token_env": "MINE"}, {"token": "of another database"}):
        with pytest.raises(SessionError, match="more than one source"):
            session().connect(served.url, code=code, **other)
    named = session(PIPEMAGIC_URL=served.url, PIPEMAGIC_TOKEN="of another database")
    assert named.connect(code=code, name="mine").name == "mine"
    assert value(named) == [1]


def test_a_saved_connection_has_no_code(served, session, new_code, tmp_path):
    code = new_code()
    first = session()
    connection = first.connect(served.url, code=code)
    first.profiles.save(connection.profile)
    assert code not in (tmp_path / "ada" / "connections.toml").read_text()


def test_the_hint_once_the_token_is_refused(served, session, new_code):
    first = session()
    first.connect(served.url, code=new_code())
    served.manage("POST", "/databases/flights/auth/rotate").raise_for_status()
    with pytest.raises(AuthError) as caught:
        first.run("SELECT 1")
    assert "ask for a new code, then connect again" in caught.value.hint
    assert f"%pipedb connect {served.url} --as flights --code LETTERS" in caught.value.hint


def test_a_code_at_the_prompt_for_a_token(served, new_code, tmp_path):
    code = new_code()
    for _ in range(2):
        with Session(
            environ={"PIPEMAGIC_CONFIG": str(tmp_path / "ada")}, ask_token=lambda _: f"{code[:4]} {code[4:].lower()}"
        ) as session:  # fmt: skip
            session.connect(served.url)
            assert value(session) == [1]
            assert code not in f"{session.connection().profile}"


def test_the_folder_is_private(served, session, new_code, tmp_path):
    session().connect(served.url, code=new_code())
    folder = Path(tmp_path / "ada" / "codes")
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
