"""Signed tokens: what is one, and what is not."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pipemagic.service.registry import webtokens

KEY = Ed25519PrivateKey.generate()
CLAIMS = {"id": "7", "sub": "Zoë", "exp": 253_402_300_799, "p": {"rw": {"tags": ["a"]}}, "at": 0.5, "none": None}


def part(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return urlsafe_b64encode(data).rstrip(b"=")


def signed(header, claims):
    text = part(header) + b"." + part(claims)
    return (text + b"." + part(KEY.sign(text))).decode()


def test_others_read_what_is_signed():
    token = webtokens.sign(CLAIMS, KEY)
    assert jwt.decode(token, KEY.public_key(), algorithms=["EdDSA"]) == CLAIMS
    assert jwt.get_unverified_header(token) == {"alg": "EdDSA", "typ": "JWT"}


@pytest.mark.parametrize("more", [{}, {"kid": "1"}, {"typ": "at+jwt"}])
def test_what_others_sign_is_read(more):
    token = jwt.encode(CLAIMS, KEY, algorithm="EdDSA", headers=more)
    assert webtokens.verify(token, KEY.public_key()) == CLAIMS


def test_every_changed_letter_makes_a_token_invalid():
    token = webtokens.sign(CLAIMS, KEY)
    last = len(token) - 1  # some bits of the last letter stand for nothing
    for place, letter in enumerate(token[:last]):
        changed = token[:place] + ("A" if letter != "A" else "B") + token[place + 1 :]
        with pytest.raises(webtokens.InvalidToken):
            webtokens.verify(changed, KEY.public_key())


def test_a_token_is_for_one_key_only():
    with pytest.raises(webtokens.InvalidToken):
        webtokens.verify(webtokens.sign(CLAIMS, KEY), Ed25519PrivateKey.generate().public_key())


@pytest.mark.parametrize(
    "token",
    [
        "", ".", "..", "a.b", "a.b.c", "a.b.c.d", "é.é.é", "\ud800.a.a", webtokens.sign(CLAIMS, KEY) + "\n",
        webtokens.sign(CLAIMS, KEY) + "=", " " + webtokens.sign(CLAIMS, KEY),
        signed({"alg": "none"}, CLAIMS), signed({"alg": "HS256"}, CLAIMS), signed({}, CLAIMS), signed([], CLAIMS),
        signed({"alg": "EdDSA", "crit": ["exp"]}, CLAIMS), signed({"alg": "EdDSA", "crit": None}, CLAIMS),
        signed(b"{", CLAIMS), signed({"alg": "EdDSA"}, b"{"), signed({"alg": "EdDSA"}, [1]),
        signed({"alg": "EdDSA"}, b'{"a":"\xff"}'),
    ],
)  # fmt: skip
def test_anything_else_is_no_token(token):
    with pytest.raises(webtokens.InvalidToken):
        webtokens.verify(token, KEY.public_key())


def test_a_token_that_a_shared_secret_signed_is_none():
    secret = KEY.public_key().public_bytes_raw() * 2
    with pytest.raises(webtokens.InvalidToken):
        webtokens.verify(jwt.encode(CLAIMS, secret, algorithm="HS256"), KEY.public_key())
