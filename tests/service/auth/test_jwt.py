"""Signed tokens, valid and invalid."""

from __future__ import annotations

import json
import string
from base64 import urlsafe_b64encode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pipemagic.service.auth import jwt as tokens

KEY = Ed25519PrivateKey.generate()
ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
CLAIMS = {"id": "7", "sub": "Zoë", "exp": 253_402_300_799, "p": {"rw": {"tags": ["a"]}}, "at": 0.5, "none": None}


def part(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return urlsafe_b64encode(data).rstrip(b"=")


def signed(header, claims):
    text = part(header) + b"." + part(claims)
    return (text + b"." + part(KEY.sign(text))).decode()


def test_pyjwt_reads_our_tokens():
    token = tokens.sign(CLAIMS, KEY)
    assert jwt.decode(token, KEY.public_key(), algorithms=["EdDSA"]) == CLAIMS
    assert jwt.get_unverified_header(token) == {"alg": "EdDSA", "typ": "JWT"}


@pytest.mark.parametrize("more", [{}, {"kid": "1"}, {"typ": "at+jwt"}])
def test_tokens_of_pyjwt_are_read(more):
    token = jwt.encode(CLAIMS, KEY, algorithm="EdDSA", headers=more)
    assert tokens.verify(token, KEY.public_key()) == CLAIMS


def test_every_changed_letter_makes_a_token_invalid():
    token = tokens.sign(CLAIMS, KEY)
    for place, letter in enumerate(token):
        changed = token[:place] + ("A" if letter != "A" else "B") + token[place + 1 :]
        with pytest.raises(tokens.InvalidToken):
            tokens.verify(changed, KEY.public_key())


def test_a_token_has_one_spelling():
    claims = next(  # with a signature that has one of the characters in which the two base64 alphabets differ
        {"sub": str(n)} for n in range(1000) if set("-_") & set(tokens.sign({"sub": str(n)}, KEY).split(".")[2])
    )
    token = tokens.sign(claims, KEY)
    head, payload, signature = token.split(".")
    assert tokens.verify(token, KEY.public_key()) == claims
    last = ALPHABET.index(signature[-1])
    for spelling in (
        token + "=", token + "==", token + "==" + "A" * 4, token + "!!!!", f"{head}=.{payload}.{signature}",
        f"{head}.{payload}.{signature[:4]}\n\n\n\n{signature[4:]}",
        f"{head}.{payload}.{signature.replace('-', '+').replace('_', '/')}",
        f"{head}.{payload}.{signature[:-1]}{ALPHABET[last + 1]}",  # only in bits that are unused
    ):  # fmt: skip
        with pytest.raises(tokens.InvalidToken):
            tokens.verify(spelling, KEY.public_key())


@pytest.mark.parametrize(
    "token",
    [
        "", ".", "..", "a.b", "a.b.c", "a.b.c.d", "é.é.é", "\ud800.a.a", tokens.sign(CLAIMS, KEY) + "\n",
        tokens.sign(CLAIMS, KEY) + "=", " " + tokens.sign(CLAIMS, KEY),
        signed({"alg": "none"}, CLAIMS), signed({"alg": "HS256"}, CLAIMS), signed({}, CLAIMS), signed([], CLAIMS),
        signed({"alg": "EdDSA", "crit": ["exp"]}, CLAIMS), signed({"alg": "EdDSA", "crit": None}, CLAIMS),
        signed(b"{", CLAIMS), signed({"alg": "EdDSA"}, b"{"), signed({"alg": "EdDSA"}, [1]),
        signed({"alg": "EdDSA"}, b'{"a":"\xff"}'),
    ],
)  # fmt: skip
def test_other_text_is_not_a_token(token):
    with pytest.raises(tokens.InvalidToken):
        tokens.verify(token, KEY.public_key())
