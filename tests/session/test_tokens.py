"""Where a token may lie: a variable, a file that is the user's alone, the keyring, a prompt; and in which order."""

from __future__ import annotations

import os
import sys

import keyring
import pytest

from pipemagic.errors import AuthError, ConnectError, SessionError
from pipemagic.session import Session
from pipemagic.session.tokens import read_token_file

posix = pytest.mark.skipif(os.name != "posix", reason="Windows has other rights")


@pytest.fixture
def file(tmp_path, sqld_database):
    path = tmp_path / "token"
    path.write_text(sqld_database.token + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def session(tmp_path):
    with Session(environ={"PIPEMAGIC_CONFIG": str(tmp_path)}) as session:
        yield session


def works(session):
    return session.run("SELECT 1 AS a")["a"].tolist() == [1]


def entry_of(database):
    return database.url.split("://")[1]


# -- a file


def test_a_file(session, sqld_database, file):
    session.connect(sqld_database.url, token_file=str(file))
    assert works(session)


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610])
def test_a_file_that_others_may_open_is_refused(session, sqld_database, file, mode):
    file.chmod(mode)
    with pytest.raises(SessionError, match="accessible to other users") as caught:
        session.connect(sqld_database.url, token_file=str(file))
    assert caught.value.hint == f"chmod 600 {file}"
    assert sqld_database.token[:16] not in str(caught.value)


@posix
def test_a_link_is_followed_to_the_file_that_counts(file, tmp_path, sqld_database):
    link = tmp_path / "link"
    link.symlink_to(file)
    assert read_token_file(link) == sqld_database.token
    file.chmod(0o644)
    with pytest.raises(SessionError, match="accessible to other users"):
        read_token_file(link)


@posix
@pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="only root can give a file away")
def test_a_file_or_a_link_of_another_user_is_refused(file, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(file)
    os.chown(link, 12345, 12345, follow_symlinks=False)
    with pytest.raises(SessionError, match="belongs to another user"):
        read_token_file(link)
    os.chown(file, 12345, 12345)
    with pytest.raises(SessionError, match="belongs to another user"):
        read_token_file(file)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"", "is empty"), (b" \n\n", "is empty"), (b"one\ntwo\n", "more than a token"), (b"x" * 70000, "more than"),
     (b"one two", "more than"), (b'"one', "more than"), (b'""', "is empty"),
     ("tökén".encode(), "more than"), (b"\xff\xfe", "more than")],
)  # fmt: skip
def test_an_invalid_token_is_refused_and_not_repeated(tmp_path, data, said):
    path = tmp_path / "token"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(SessionError, match=said) as caught:
        read_token_file(path)
    assert "two" not in str(caught.value)


@posix
def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path / "link"):
        if path.name == "link":
            path.symlink_to("pipe")
        with pytest.raises(SessionError, match="is not a file"):
            read_token_file(path)


def test_a_file_of_a_windows_editor(tmp_path):
    path = tmp_path / "token"
    path.write_bytes(b"\xef\xbb\xbfabcdefgh\r\n")
    path.chmod(0o600)
    assert str(read_token_file(path)) == "abcdefgh"


def test_paths_that_are_not_files(tmp_path):
    with pytest.raises(SessionError, match=r"cannot read the token file .*: No such file"):
        read_token_file(tmp_path / "nothing")
    with pytest.raises(SessionError, match="token file"):
        read_token_file(tmp_path)


# -- the keyring


def test_the_keyring(session, sqld_database, ring):
    ring.kept["pipemagic", entry_of(sqld_database)] = sqld_database.token
    session.connect(sqld_database.url, keyring=True)
    assert works(session)
    ring.kept["pipemagic", entry_of(sqld_database)] = f'"Bearer {sqld_database.token}"\n'
    session.connect(sqld_database.url, keyring=True, name="pasted")
    assert works(session)
    ring.kept["pipemagic", entry_of(sqld_database)] = "s3cret s3cret"
    with pytest.raises(ConnectError, match="in the keyring contains a space") as caught:
        session.connect(sqld_database.url, keyring=True)
    assert "s3cret" not in str(caught.value)
    ring.kept["work", entry_of(sqld_database)] = sqld_database.token[:-4] + "AAAA"
    with pytest.raises(AuthError):
        session.connect(sqld_database.url, keyring="work")


def test_the_error_of_a_missing_keyring_entry_has_the_command_that_stores_it(session, sqld_database, ring):
    with pytest.raises(SessionError, match="contains no token for") as caught:
        session.connect(sqld_database.url, keyring=True)
    assert f"pipemagic auth store libsql://{entry_of(sqld_database)}" in caught.value.hint


def test_a_token_that_is_asked_for_is_remembered_once_it_was_right(tmp_path, sqld_database, ring):
    answers = ["wrong", f'"Bearer {sqld_database.token}" ']
    with Session(environ={"PIPEMAGIC_CONFIG": str(tmp_path)}, ask_token=lambda _: answers.pop(0)) as session:
        with pytest.raises(AuthError):
            session.connect(sqld_database.url, remember=True)
        assert not ring.kept
        session.connect(sqld_database.url, remember=True)
        assert ring.kept == {("pipemagic", entry_of(sqld_database)): sqld_database.token}
        session.close()
        session.connect(sqld_database.url, remember=True)  # no request is sent
        assert works(session)


def test_a_locked_keyring_and_none_at_all(session, sqld_database, ring, monkeypatch):
    ring.locked = True
    with pytest.raises(SessionError, match="the keyring is locked"):
        session.connect(sqld_database.url, keyring=True)
    from keyring.backends import fail

    keyring.set_keyring(fail.Keyring())
    with pytest.raises(SessionError, match="this machine has no keyring") as caught:
        session.connect(sqld_database.url, keyring=True)
    assert "--token-file" in caught.value.hint
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(SessionError, match="keyring is not installed") as caught:
        session.connect(sqld_database.url, keyring=True)
    assert "pip install keyring" in caught.value.hint


# -- the order


def test_a_named_source_precedes_the_default_variables(tmp_path, sqld_database, file, ring):
    environ = {"PIPEMAGIC_CONFIG": str(tmp_path), "PIPEMAGIC_TOKEN": "wrong", "MINE": sqld_database.token}
    ring.kept["pipemagic", entry_of(sqld_database)] = sqld_database.token
    with Session(environ=environ) as session:
        for said in ({"token_env": "MINE"}, {"token_file": str(file)}, {"keyring": True}):
            session.connect(sqld_database.url, **said)
            assert works(session)
        with pytest.raises(AuthError):
            session.connect(sqld_database.url)
        with pytest.raises(SessionError, match="more than one source"):
            session.connect(sqld_database.url, token_env="MINE", keyring=True)
