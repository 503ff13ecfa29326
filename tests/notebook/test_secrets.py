"""Tokens come in by the environment or a prompt, and come out nowhere."""

from __future__ import annotations

import gc
import getpass
from concurrent.futures import ThreadPoolExecutor

import pytest
from ipywidgets import Widget

from pipemagic.errors import AuthError, SessionError, StatementError, UsageError
from pipemagic.management_api.client import management
from pipemagic.notebook.display import ask_token


def test_a_prompt_asks_without_showing(shell, sqld_database, monkeypatch):
    asked = []

    def answer(prompt):
        asked.append(prompt)
        return sqld_database.token

    monkeypatch.setattr(getpass, "getpass", answer)
    shell(f"%pipedb connect {sqld_database.url} --as db")
    assert asked == [f"Token for {sqld_database.name}.localhost: "]
    assert shell("%sql SELECT 1 AS a").value["a"].tolist() == [1]


def test_a_one_time_code_is_no_secret_once_it_was_used(shell, service, monkeypatch):
    monkeypatch.setattr(getpass, "getpass", lambda _: pytest.fail("a code is all that is necessary"))
    with management(service.url, service.platform_token(), organization="local") as api:
        if not api.groups():
            api.create_group("default", "ams")
        api.create_database("coded", "default")
        code = api.create_code("coded", expiration="1h")
    line = f"%pipedb connect {service.url} --code {code}"
    assert shell(line).lines[0] == "Connected to coded."
    assert shell("%sql SELECT 1 AS a").value["a"].tolist() == [1]
    assert code not in f"{shell('%pipedb wire last').value}{shell('%pipedb connections').value}"
    assert shell(line).lines[0] == "Connected to coded."
    refused = shell.fails(line.replace(code, "WRNGWRNG"))
    assert refused.out.startswith("CODE_WRONG: the code is wrong")
    assert "WRNG" not in refused.out


@pytest.mark.parametrize("failure", [EOFError, OSError])
def test_where_nobody_can_be_asked_the_error_names_the_variables(shell, sqld_database, monkeypatch, failure):
    def answer(prompt):
        raise failure

    monkeypatch.setattr(getpass, "getpass", answer)
    cell = shell.fails(f"%pipedb connect {sqld_database.url}")
    assert isinstance(cell.error, SessionError)
    assert "PIPEMAGIC_TOKEN" in cell.out
    with pytest.raises(SessionError):
        ask_token("x")


def test_nobody_is_asked_from_a_thread_of_a_panel(monkeypatch):
    monkeypatch.setattr(getpass, "getpass", lambda _: pytest.fail("the channel for questions belongs to cells"))
    message = "x requires a token, but input is not possible"
    with ThreadPoolExecutor(1) as threads, pytest.raises(SessionError, match=message):
        threads.submit(ask_token, "x").result()


def test_a_token_on_the_line_is_refused_and_not_repeated(shell, sqld_database):
    token = sqld_database.token
    for line in (f"connect {sqld_database.url}?authToken={token}", f"connect {sqld_database.url} --token {token}",
                 f"connect {sqld_database.url} --token-env {token}", f"organization acme {token}"):  # fmt: skip
        cell = shell.fails(f"%pipedb {line}")
        assert isinstance(cell.error, UsageError)
        assert token[:20] not in cell.out + cell.err


def test_the_text_of_an_error_which_a_notebook_saves_has_no_password(shell):
    """Beside its traceback, a kernel sends `str(error)`."""
    shell("%pipedb connect --temporary")
    shell('t = "postgresql://ada:hunter2@host/db\\x1b[2J"')
    failed = shell.fails("%sql SELECT * FROM {t}")
    assert str(failed.error) in failed.out
    assert "postgresql://***@host/db" in str(failed.error)
    for text in (failed.out, str(failed.error), repr(failed.error)):
        assert "hunter2" not in text
        assert "\x1b" not in text
    assert isinstance(failed.error, StatementError)
    assert failed.error.__traceback__ is not None
    assert failed.error.cell is not None


def test_a_token_is_in_no_repr_and_no_traceback(shell, sqld_database, monkeypatch):
    token = sqld_database.token
    monkeypatch.setenv("MINE", token)
    shell(f"%pipedb connect {sqld_database.url} --as db --token-env MINE")
    session = shell.ip.magics_manager.registry["PipeMagics"].session
    connection = session.connection()
    shell("%sql SELECT 1")
    said = [repr(session), repr(session.__dict__), repr(connection), repr(connection.__dict__)]
    said += [repr(connection.database.__dict__), repr(connection.stream.__dict__)]
    monkeypatch.setenv("WRONG", token[:-4] + "AAAA")
    shell("%xmode Verbose")
    wrong = shell.fails(f"%pipedb connect {sqld_database.url} --token-env WRONG")
    assert isinstance(wrong.error, AuthError)
    bad = shell.fails("%sql SELECT nope")
    said += [wrong.out, wrong.err, bad.out, bad.err]
    for text in said:
        assert token[:30] not in text
        assert token.split(".")[1] not in text


def test_the_panel_holds_no_token(shell, data):
    shell("%pipedb connect")
    token = (data / "platform-token").read_text().strip()
    panel = shell("%pipedb panel").value
    pages = []
    for inner in panel.panels:
        panel.select(inner.title)
        pages.append(f"{panel}{panel.to_html()}")
    assert "Tables of main" in "".join(pages)
    states = [item.get_state() for item in gc.get_objects() if isinstance(item, Widget) and item.comm is not None]
    text = f"{states!r}{[inner.__dict__ for inner in panel.panels]!r}{panel!r}{pages}"
    assert token not in text
    assert "eyJ" not in text
