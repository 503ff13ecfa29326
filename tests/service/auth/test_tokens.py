"""Tokens: their checks, errors and files."""

from __future__ import annotations

import os
import secrets

import jwt
import pytest

from pipemagic.errors import ServiceError
from pipemagic.service.auth.tokens import TokenAuthority, parse_expiration
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.responses import Refused


class Setting:
    """A folder, its catalog and its tokens, and a clock that tests set."""

    def __init__(self, folder):
        self.folder = folder
        self.time = 1_700_000_000.5
        self.catalog = Catalog(folder / "catalog.sqlite")
        self.catalog.create_group("local", "edge", "ams")
        self.flights = self.catalog.create_database("local", "flights", "edge")
        self.weather = self.catalog.create_database("local", "weather", "edge")
        self.tokens = self.again()

    def again(self):
        return TokenAuthority(self.folder, self.catalog, lambda: self.time, secrets.token_bytes)

    @property
    def platform(self):
        return (self.folder / "platform-token").read_text().strip()

    def issue(self, database=None, *, read_only=False, expires_in=None, subject="ada"):
        return self.tokens.issue_database(
            database or self.flights, read_only=read_only, expires_in=expires_in, subject=subject
        )

    def refusal(self, header, database=None):
        with pytest.raises(Refused) as caught:
            self.tokens.check_database(header, database)
        return caught.value.status, caught.value.message


@pytest.fixture
def setting(tmp_path):
    setting = Setting(tmp_path)
    yield setting
    setting.catalog.close()


# -- platform tokens


def test_the_token_in_the_file_opens_the_account(setting):
    assert setting.tokens.credential(f"Bearer {setting.platform}").account.username == "local"
    assert setting.tokens.credential(f"bearer  {setting.platform} ").account.username == "local"
    assert setting.again().credential(f"Bearer {setting.platform}").account.username == "local"


def test_only_the_owner_can_read_secrets(setting):
    for name in ("platform-token", "signing-key.pem"):
        assert (setting.folder / name).stat().st_mode & 0o777 == (0o600 if os.name == "posix" else 0o666)
    everything = b"".join(path.read_bytes() for path in setting.folder.glob("catalog.sqlite*"))
    assert setting.platform.encode() not in everything
    assert b"platform_tokens" in everything
    assert sorted(path.name for path in setting.folder.glob(".*")) == []


def test_deleting_the_file_revokes_its_token(setting):
    old = setting.platform
    (setting.folder / "platform-token").unlink()
    tokens = setting.again()
    assert tokens.credential(f"Bearer {setting.platform}").account.username == "local"
    with pytest.raises(Refused, match="platform token is invalid"):
        tokens.credential(f"Bearer {old}")


def test_a_token_file_that_is_not_in_the_catalog_is_valid(setting):
    """A crash between file and catalog, or a token that the user put there."""
    (setting.folder / "platform-token").write_text("pmp_of-my-own-choice-and-long-enough\n")
    assert setting.again().credential("Bearer pmp_of-my-own-choice-and-long-enough").account.username == "local"


@pytest.mark.parametrize("spelling", [
    "Bearer {}\xa0", "Bearer {}\x85", "Bearer \xa0{}", "Bearer \t{}", "Bearer {}\x0b", "\x1fBearer {}", "\x0cBearer {}",
    "Bearer {}\x1f", "Bearer {} x", "Bearer {},", "Bearer {}=", "Bearer {}==", "Bearer {}.", "Bearer {}!!!!",
    "Bearer Bearer {}", 'Bearer "{}"', "Bearer\xa0{}", "{}", "token {}", "Bearer, Bearer {}",
])  # fmt: skip
def test_a_token_with_surplus_characters_is_refused(setting, spelling):
    assert setting.refusal(spelling.format(setting.issue()))[0] == 401
    with pytest.raises(Refused) as caught:
        setting.tokens.credential(spelling.format(setting.platform))
    assert caught.value.status == 401


def test_the_error_names_a_token_of_the_other_kind(setting):
    assert setting.refusal(f"Bearer {setting.platform}") == (
        401, "Unauthorized: `The JWT is invalid`: this is a platform token; the database interface takes a "
        "database token")  # fmt: skip
    with pytest.raises(Refused, match="this is a database token"):
        setting.tokens.credential(f"Bearer {setting.issue()}")


def test_an_error_never_contains_the_token(setting):
    for bad in ("pmp_wrong-token", "eyJhbGciOiJub25lIn0.e30.", "a\udcff"):
        for check in (setting.tokens.credential, lambda header: setting.tokens.check_database(header, None)):
            with pytest.raises(Refused) as caught:
                check(f"Bearer {bad}")
            assert caught.value.status == 401
            assert bad not in caught.value.message


# -- database tokens


def test_the_claims(setting):
    token = setting.issue(read_only=True, expires_in=60)
    assert jwt.get_unverified_header(token) == {"alg": "EdDSA", "typ": "JWT"}
    assert jwt.decode(token, options={"verify_signature": False}) == {
        "id": setting.flights.id, "sub": "ada", "a": "ro", "iat": 1_700_000_000, "gen": 0, "exp": 1_700_000_061,
    }  # fmt: skip
    assert "exp" not in jwt.decode(setting.issue(), options={"verify_signature": False})


def test_a_token_that_was_valid_before_expires(setting):
    header = f"Bearer {setting.issue(expires_in=60)}"
    assert setting.tokens.check_database(header, setting.flights)
    setting.time += 60.5
    assert setting.refusal(header, setting.flights) == (401, "Unauthorized: `The JWT has expired`")


@pytest.mark.parametrize("claims", [
    {}, {"id": 1}, {"a": "root"}, {"sub": None}, {"exp": "tomorrow"}, {"exp": True}, {"nbf": "now"}, {"id": "unknown"},
])  # fmt: skip
def test_signed_invalid_claims(setting, claims):
    base = {"id": setting.flights.id, "sub": "ada", "a": "rw"} if claims else {}
    token = jwt.encode(base | claims, setting.tokens._key, algorithm="EdDSA")
    status, message = setting.refusal(f"Bearer {token}", setting.flights)
    assert status == 401
    assert message.startswith("Unauthorized: `The JWT is invalid`")


def test_the_key_is_kept(setting):
    token = setting.issue()
    assert setting.again().check_database(f"Bearer {token}", setting.flights)


def test_a_broken_key_file_is_reported(setting):
    (setting.folder / "signing-key.pem").write_text("not a key")
    with pytest.raises(ServiceError, match="is not an Ed25519 key"):
        setting.again()


def test_the_cache_of_checked_tokens_is_bounded(setting, monkeypatch):
    monkeypatch.setattr("pipemagic.service.auth.tokens._MOST_CACHED", 4)
    for number in range(9):
        setting.tokens.check_database(f"Bearer {setting.issue(subject=str(number))}", None)
    assert len(setting.tokens._grants) == 4


# -- lifetimes


@pytest.mark.parametrize(("text", "seconds"), [
    ("never", None), ("", None), ("none", None), ("7d", 604800), ("1w2d6h3m", 604800 + 2 * 86400 + 6 * 3600 + 180),
    ("7d3h2m1s", 604800 + 3 * 3600 + 121), ("5m", 300), ("1500ms", 1.5), ("1.5h", 5400), ("1m1m", 120),
])  # fmt: skip
def test_lifetimes(text, seconds):
    assert parse_expiration(text) == seconds


@pytest.mark.parametrize("text", [
    "0d", "0", "7", "d", "7x", "-7d", "7 d", "7d ", " 7d", "7D", "1e3d", "tomorrow", "9" * 60 + "w", "7d\n", "٧d",
    "1d" * 60,
])  # fmt: skip
def test_invalid_lifetimes(text):
    with pytest.raises(Refused) as caught:
        parse_expiration(text)
    assert (caught.value.status, caught.value.message) == (400, "Invalid expiration format")
