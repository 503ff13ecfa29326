"""Tokens in the panel of databases."""

from __future__ import annotations

import json

import pytest
from panel_page import PanelPage
from waiting import until

from pipemagic.client.database import Database
from pipemagic.errors import AuthError, ReadOnlyError, StatementError


@pytest.fixture
def panel(page) -> PanelPage:
    opened = page("databases")
    opened.click("Details of main")
    return opened


def made(panel: PanelPage, *, read_only: bool = False) -> str:
    panel.click("New token ...")
    panel.choose("Expires", "7d")
    panel.check("Only for reading", on=read_only)
    panel.submit("Make token")
    panel.wait("The token is made. It is shown only now.")
    until(lambda: panel.secrets)
    return next(iter(panel.secrets.values()))


def url(session) -> str:
    return session.platform.databases().items[0].url


def test_a_token_is_shown_once_and_is_in_no_trait(panel, session):
    assert "A token lets other programs into the database. Existing tokens cannot be listed." in panel.words
    value = made(panel, read_only=True)
    assert "A token for main that reads only and expires after 7d:" in panel.words
    assert "%pipedb create-token main --expiration 7d --read-only --to-env MAIN_TOKEN" in panel.words
    with Database(url(session), value) as database:
        assert database.execute("SELECT 1").rows == [(1,)]
        with pytest.raises((AuthError, StatementError, ReadOnlyError)):
            database.execute("CREATE TABLE t(a)")
    seen = [json.dumps(panel.panel.tree), repr(panel.panel), panel.text, panel.html, repr(panel.panel.get_state())]
    for model in panel.panel.view.models():
        seen += [repr(model), repr(model.trait_values()), repr(vars(model))]
    assert not any(value in text for text in seen)
    [copy] = panel.find("button", "Copy token")
    assert copy.attributes["copy"] == {"secret": "token 1"}
    assert [one.attributes["show"] for one in panel.find("button") if "show" in one.attributes] == ["token 1"]
    panel.click("Done")
    assert panel.secrets == {}
    assert not panel.find("button", "Copy token")


def test_a_value_goes_with_the_panel_and_with_the_details(panel):
    made(panel)
    panel.click("Details of main")
    assert panel.secrets == {}
    panel.click("Details of main")
    made(panel)
    model = panel.panel.view.view.model.tokens
    panel.panel.close()
    assert model.shown == ""


def test_a_time_of_ones_own(panel):
    panel.click("New token ...")
    panel.choose("Expires", "own")
    panel.type("Expires after", "soon")
    panel.submit("Make token")
    panel.wait("'soon' is not a length of time")
    panel.type("Expires after", "\N{ARABIC-INDIC DIGIT THREE}d")
    panel.submit("Make token")
    panel.wait("'\N{ARABIC-INDIC DIGIT THREE}d' is not a length of time")
    assert "write 12h, 7d or 1w2d6h" in panel.words
    panel.type("Expires after", "1w2d")
    panel.submit("Make token")
    panel.wait("A token for main that expires after 1w2d:")


def test_invalidating_renews_the_connections_of_the_session(panel, session):
    value = made(panel)
    session.run("CREATE TABLE t(a)")
    panel.click("Invalidate all tokens ...")
    panel.type("Type main to invalidate all its tokens", "mine")
    panel.submit("Invalidate all its tokens")
    panel.wait("nothing was done: what was typed is not main")
    panel.type("Type main to invalidate all its tokens", "main")
    panel.submit("Invalidate all its tokens")
    panel.wait("All tokens of main are invalid.\nmain goes on with a new token.")
    assert "%pipedb invalidate-tokens main --confirm" in panel.words
    assert panel.secrets == {}
    with Database(url(session), value) as database, pytest.raises(AuthError):
        database.execute("SELECT 1")
    assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]


def test_an_open_transaction_is_named(panel, session):
    session.run("CREATE TABLE t(a); BEGIN; INSERT INTO t VALUES (1)")
    panel.click("Invalidate all tokens ...")
    panel.type("Type main to invalidate all its tokens", "main")
    panel.submit("Invalidate all its tokens")
    panel.wait("main goes on with a new token. Its open transaction may be rolled back.")
