"""Databases that accept no limits of tokens, such as those of the new engine: magics, command, panel, session."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hosted_api import HostedApi, Shapes
from magic_shell import ipython, plain_shell
from panel_page import PanelPage
from panel_session import close_panels
from waiting import until

from pipemagic import cli
from pipemagic.errors import ServerError
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session

__all__ = ["ipython", "plain_shell"]

REFUSAL = "Permissions are not supported for db-api controlled databases"
HINT = "this database accepts only tokens with full access; no token was created"


@pytest.fixture
def api(behind):
    api = HostedApi(behind, Shapes(only_full_access=True))
    yield api
    api.close()


@pytest.fixture
def session(api):
    session = Session(environ=api.environment)
    session.organization.create_group("edge", "ams")
    session.organization.create_database("flights", "edge")
    yield session
    close_panels()
    session.shut_down()


def token_requests(api):
    return [call.path.partition("?")[2] for call in api.calls if call.path.partition("?")[0].endswith("/auth/tokens")]


def test_a_session_connects_with_full_access_and_a_read_only_connection_is_explained(api, session):
    session.connect("flights")
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    assert token_requests(api) == ["expiration=never"]
    with pytest.raises(ServerError, match=REFUSAL) as caught:
        session.connect("flights", name="again", read_only=True)
    assert caught.value.hint == HINT
    assert token_requests(api)[1:] == ["expiration=never&authorization=read-only"]  # not again without it
    assert list(session.connections) == ["flights"]
    session.invalidate_tokens("flights", session.organization)
    assert session.run("SELECT 2 AS a")["a"].tolist() == [2]


def test_the_command(api, session, monkeypatch, capsys, tmp_path):
    for name, value in {**api.environment, "PIPEMAGIC_CONFIG": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["db", "tokens", "create", "flights", "--expiration", "7d"]) == 0
    token = capsys.readouterr().out.strip()
    assert api.issued[token] == "flights"
    assert cli.main(["db", "tokens", "create", "flights", "--read-only"]) == 1
    out, err = capsys.readouterr()
    assert (out, REFUSAL in err, HINT in err) == ("", True, True)
    assert cli.main(["db", "shell", "flights", "SELECT 3 AS a"]) == 0
    assert "3" in capsys.readouterr().out
    assert len(token_requests(api)) == 3
    assert cli.main(["group", "tokens", "create", "edge"]) == 1  # this stand-in has no endpoint for it


def test_exports_read_with_full_access_for_a_day(api, session, plain_shell, monkeypatch, capsys, tmp_path):
    session.connect("flights")
    session.run("CREATE TABLE flight (id INTEGER); INSERT INTO flight VALUES (7)")
    monkeypatch.chdir(tmp_path)
    for name, value in {**api.environment, "PIPEMAGIC_CONFIG": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    asked = len(token_requests(api))
    plain_shell("%load_ext pipemagic")
    assert plain_shell("%pipedb export-database flights one.db").lines[0].startswith("Wrote database flights to one.db")
    assert token_requests(api)[asked:] == ["expiration=1d&authorization=read-only", "expiration=1d"]
    assert cli.main(["db", "export", "flights", "two.db"]) == 0
    assert cli.main(["db", "dump", "flights", "three.sql"]) == 0
    for name in ("one.db", "two.db"):
        with closing(sqlite3.connect(name)) as file:
            assert file.execute("SELECT id FROM flight").fetchall() == [(7,)]
    with closing(sqlite3.connect(":memory:")) as restored:
        restored.executescript(Path("three.sql").read_text("utf-8"))
        assert restored.execute("SELECT id FROM flight").fetchall() == [(7,)]


def test_the_panel_shows_the_tables_of_a_database_without_a_connection(session):
    session.connect("flights")
    session.run("CREATE TABLE flight (id INTEGER)")
    session.close("flights")
    page = PanelPage(open_panel(session, "databases"))
    page.click("Details of flights")
    until(lambda: [row[0] for row in page.rows("Tables of flights")] == ["flight"], "the table is not listed")


def test_the_button_of_the_panel(api, session):
    session.connect("flights")
    page = PanelPage(open_panel(session, "databases"))
    page.click("Details of flights")
    page.click("New token ...")
    page.submit("Create token")
    page.wait("The token was created. It is shown only once.")
    page.click("Done")
    page.click("New token ...")
    page.check("Read-only")
    page.submit("Create token")
    page.wait(HINT)
    assert REFUSAL in page.words
