"""Logs replace every kind of token that the service issues, in any context."""

from __future__ import annotations

import logging
from io import BytesIO
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.service import logs
from pipemagic.service.auth.tokens import TokenAuthority
from pipemagic.service.logs import AccessLog, Redacting, redact

KINDS = ("platform", "login", "database", "group", "operator")


class Accounts:
    """Accounts that store nothing."""

    def operator(self):
        return "operator"

    def tokens(self, _account):
        return []

    def add_token(self, *_):
        return None

    add_login = add_token


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tokens")


def issue(kind, folder, secret, subject):
    """Issue a token of a kind; its secret part is made of the given bytes."""
    (folder / "platform-token").unlink(missing_ok=True)
    catalog = SimpleNamespace(accounts=Accounts(), rotations=0)
    tokens = TokenAuthority(folder, catalog, lambda: 1_700_000_000.0, lambda n: secret[:n])
    place, rights = SimpleNamespace(id="8c4a-2b"), {"subject": subject, "read_only": False, "expires_in": None}
    match kind:
        case "platform":
            return tokens.issue_platform("account", "laptop")[1]
        case "login":
            return tokens.issue_login("account")
        case "database":
            return tokens.issue_database(place, **rights)
        case "group":
            return tokens.issue_group(place, **rights)
    return (folder / "platform-token").read_text().strip()


@given(
    kind=st.sampled_from(KINDS), secret=st.binary(min_size=32, max_size=32), subject=st.text("abc-", max_size=40),
    before=st.text(max_size=10), after=st.sampled_from(["", " ", "&x=1", "/", '"', ".", "\n", ", next"]),
)  # fmt: skip
def test_tokens_are_completely_removed_from_logs(folder, kind, secret, subject, before, after):
    token = issue(kind, folder, secret, subject)
    left = redact(before + token + after).removeprefix(before)
    assert "[token]" in redact(before + token + after)
    parts = [token[position : position + 12] for position in range(0, len(token) - 12, 4)]
    assert [part for part in parts if part in left] == []


@pytest.mark.parametrize(("text", "redacted"), [
    ("GET /?authToken=opaque-token&x=1", "GET /?authToken=[token]&x=1"),
    ("GET /?x=1&auth_token=opaque-token", "GET /?x=1&auth_token=[token]"),
    ("GET /?jwt=opaque-token HTTP/1.1", "GET /?jwt=[token] HTTP/1.1"),
    ("authorization: Bearer of-my-own-choice", "authorization: Bearer [token]"),
    ("authorization: bearer  pml_0123456789", "authorization: bearer  [token]"),
    ("eyJhbGciOiJFZERTQSJ9.eyJpZCI6", "[token]"),  # a path is cut
    ("GET /v1/organizations/local/databases", "GET /v1/organizations/local/databases"),
])  # fmt: skip
def test_tokens_of_any_form_where_tokens_are_expected(text, redacted):
    assert redact(text) == redacted


def test_arguments_and_tracebacks_are_redacted():
    record = logging.LogRecord("x", logging.INFO, "", 0, "pmp_abcdefghijkl and %s.", ("pml_abcdefghijkl",), None)
    record.exc_text = "ValueError: eyJhbGciOi.eyJpZCI6.c2ln-_ "
    assert Redacting("%(message)s").format(record) == "[token] and [token].\nValueError: [token] "


@pytest.mark.parametrize(("now", "text"), [
    (1_700_000_000.0045, "2023-11-14T22:13:20.004Z"), (285_000_000_000.0, "11001-04-17T02:40:00.000Z"),
])  # fmt: skip
def test_the_access_log_has_times_of_any_year(monkeypatch, now, text):
    monkeypatch.setattr(logs.time, "time", lambda: now)
    file = BytesIO()
    AccessLog(file).write({"headers": [], "method": "GET", "path": "/health"}, 200, 0, 0.001)
    assert file.getvalue().decode() == f"{text} - GET - /health 200 0 1.0\n"
