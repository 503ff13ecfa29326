"""Tokens in the Databases panel."""

from __future__ import annotations

import threading

import pytest
from panel_page import PanelPage, everything
from waiting import PATIENCE, until

from pipemagic.client.database import Database
from pipemagic.errors import AuthError, ReadOnlyError, StatementError
from pipemagic.management_api.client import Management


@pytest.fixture
def panel(page) -> PanelPage:
    opened = page("databases")
    opened.click("Details of main")
    return opened


def create(panel: PanelPage, *, read_only: bool = False) -> str:
    """Create a token and return it as the page received it."""
    panel.click("New token ...")
    panel.choose("Expires", "7d")
    panel.check("Read-only", on=read_only)
    panel.submit("Create token")
    panel.wait("The token was created. It is shown only once.")
    (value,) = until(lambda: panel.secrets)
    return value


def url(session) -> str:
    return session.organization.databases().items[0].url


def test_a_token_is_shown_once_and_is_in_no_trait(panel, session):
    assert "A token gives other programs access to the database. Existing tokens cannot be listed." in panel.words
    value = create(panel, read_only=True)
    assert "A read-only token for main that expires after 7d:" in panel.words
    assert "%pipedb create-token main --expiration 7d --read-only --to-env MAIN_TOKEN" in panel.words
    with Database(url(session), value) as database:
        assert database.execute("SELECT 1").rows == [(1,)]
        with pytest.raises((AuthError, StatementError, ReadOnlyError)):
            database.execute("CREATE TABLE t(a)")
    seen = [panel.words, panel.text, panel.html, repr(panel.panel)]
    for widget in everything(panel.panel):
        seen += [repr(widget), repr(widget.get_state()), repr(vars(widget))]
    seen += [repr(vars(task)) for task in (panel.panel.action, panel.panel.details.tokens.action)]
    assert not any(value in text for text in seen)
    secret = panel.panel.details.tokens.secret
    assert secret in panel.widgets
    secret.receive({"ready": True})  # a page that was opened later
    assert panel.secrets == [value]
    panel.click("Done")
    assert panel.secrets == []
    assert secret not in panel.widgets


def test_a_platform_token_for_a_group_has_the_scopes_of_its_boxes(page, session):
    session.organization.create_group("edge", "ams")
    groups = page("groups")
    groups.click("New platform token ...")
    groups.type("Token name", "ci")
    assert not groups.has_field("db:create: create databases")
    groups.choose("Limited to", "edge")
    groups.check("db:create: create databases")
    groups.submit("Create platform token")
    groups.wait("The token was created. It is shown only once.")
    (value,) = until(lambda: groups.secrets)
    assert "The platform token ci for group edge (read, db:create):" in groups.words
    assert "%pipedb create-api-token ci --group edge --scope read --scope db:create --to-env CI_TOKEN" in groups.words
    api = session.organization.api
    with Management(api.url, str(value), organization=api.slug) as limited:
        assert [group.name for group in limited.groups()] == ["edge"]
        with pytest.raises(AuthError, match="the token does not have the scope db:delete"):
            limited.delete_database("nope")
    seen = [groups.words, groups.text, groups.html, *(repr(widget.get_state()) for widget in everything(groups.panel))]
    assert not any(value in text for text in seen)
    groups.click("Done")
    assert groups.secrets == []
    groups.click("New platform token ...")
    groups.type("Token name", "deploy")
    groups.choose("Limited to", "")
    groups.submit("Create platform token")
    groups.wait("The token was created. It is shown only once.")
    listed = {token.name: (token.scope, token.permissions) for token in session.organization.api_tokens()}
    assert listed["ci"] == (f"{api.slug}/edge", "read, db:create")
    assert listed["deploy"] == (api.slug, "")
    groups.panel.close()
    assert groups.secrets == []


def test_pages_remove_a_token_with_its_details_and_with_the_panel(panel, session):
    create(panel)
    panel.click("Details of main")
    assert panel.secrets == []
    session.organization.create_database("other", "default")
    panel.click("Details of main")
    create(panel)
    panel.click("Details of other")
    assert panel.secrets == []
    assert "A token for" not in panel.words
    create(panel)
    panel.panel.close()
    assert panel.secrets == []


def test_a_token_that_arrives_after_its_details_were_closed_is_not_shown(panel, session, monkeypatch):
    create_token, go_on = session.organization.create_token, threading.Event()
    monkeypatch.setattr(
        session.organization,
        "create_token",
        lambda *args, **options: go_on.wait(PATIENCE) and create_token(*args, **options),
    )
    panel.click("New token ...")
    panel.submit("Create token")
    panel.click("Close details")
    go_on.set()
    assert panel.panel.details.tokens.action.wait(PATIENCE)
    assert panel.secrets == []
    panel.click("Details of main")
    assert "A token for main" not in panel.words


def test_an_expiration_that_is_typed(panel):
    panel.click("New token ...")
    assert not panel.has_field("Expires after")
    panel.choose("Expires", "custom")
    for typed in ("", "soon", "\N{ARABIC-INDIC DIGIT THREE}d"):
        panel.type("Expires after", typed)
        panel.submit("Create token")
        panel.wait(f"{typed!r} is not a duration")
        assert "write 12h, 7d or 1w2d6h" in panel.words
    panel.type("Expires after", "1w2d")
    panel.submit("Create token")
    panel.wait("A token for main that expires after 1w2d:")


def test_invalidating_renews_the_connections_of_the_session(panel, session):
    value = create(panel)
    session.run("CREATE TABLE t(a)")
    panel.click("Invalidate all tokens ...")
    panel.type("Type main to invalidate all its tokens", "mine")
    panel.submit("Invalidate all tokens")
    assert panel.alerts == ["no token was invalidated: the typed name is not main type main"]
    panel.type("Type main to invalidate all its tokens", "main")
    panel.submit("Invalidate all tokens")
    panel.wait("All tokens of main are invalid.\nmain continues with a new token.")
    assert "%pipedb invalidate-tokens main --confirm" in panel.words
    assert panel.secrets == []
    assert not panel.can("Invalidate all tokens")
    with Database(url(session), value) as database, pytest.raises(AuthError):
        database.execute("SELECT 1")
    assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]
    panel.click("Invalidate all tokens ...")
    assert panel.field("Type main to invalidate all its tokens").value == ""  # it must be typed each time


def test_an_open_transaction_is_named(panel, session):
    session.run("CREATE TABLE t(a); BEGIN; INSERT INTO t VALUES (1)")
    panel.click("Invalidate all tokens ...")
    panel.type("Type main to invalidate all its tokens", "main")
    panel.submit("Invalidate all tokens")
    panel.wait("main continues with a new token. Its open transaction may be rolled back.")
