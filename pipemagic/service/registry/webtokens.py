"""JSON web tokens signed with Ed25519 (RFC 7515 and 8037): all of what libSQL servers and this one need of them.

Packages for it know many kinds of keys and fetch keys over HTTP; to import one took a sixth of the service's start.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Literal

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_THREE_PARTS = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)", re.ASCII)


class _Header(msgspec.Struct, frozen=True):
    """What a token says of itself. ``crit`` names members that have to be understood: none is."""

    alg: Literal["EdDSA"]
    crit: msgspec.UnsetType = msgspec.UNSET


class _SignedHeader(msgspec.Struct, frozen=True):
    alg: str = "EdDSA"
    typ: str = "JWT"


_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(_Header).decode
_decode_claims = msgspec.json.Decoder(dict[str, Any]).decode


class InvalidToken(Exception):
    """The text is no token that was signed with this key."""


def sign(claims: dict[str, Any], key: Ed25519PrivateKey) -> str:
    """Make a token."""
    signed = b"%b.%b" % (_packed(_encode(_SignedHeader())), _packed(_encode(claims)))
    return (b"%b.%b" % (signed, _packed(key.sign(signed)))).decode("ascii")


def verify(token: str, key: Ed25519PublicKey) -> dict[str, Any]:
    """Give the claims of a token, whatever they are; `InvalidToken` unless its signature is the key's."""
    parts = _THREE_PARTS.fullmatch(token)
    if parts is None:
        raise InvalidToken
    header, claims, signature = map(_unpacked, parts.groups())
    try:
        key.verify(signature, token[: parts.start(3) - 1].encode("ascii"))
        _decode_header(header)
        read: dict[str, Any] = _decode_claims(claims)
    except (InvalidSignature, msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidToken from None
    return read


def _packed(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def _unpacked(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:  # one letter too many
        raise InvalidToken from None
