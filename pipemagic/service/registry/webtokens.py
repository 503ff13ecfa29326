"""JSON web tokens signed with Ed25519: the one kind that libSQL servers and this one take.

PyJWT does the work. It is imported with the first token, since that takes an eighth of the service's start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_ALGORITHM = "EdDSA"
_UNCHECKED: Any = dict.fromkeys(("verify_exp", "verify_iat", "verify_nbf", "verify_aud", "verify_sub"), False)


class InvalidToken(Exception):
    """The text is no token that was signed with this key."""


def sign(claims: dict[str, Any], key: Ed25519PrivateKey) -> str:
    """Make a token."""
    import jwt

    return jwt.encode(claims, key, algorithm=_ALGORITHM)


def verify(token: str, key: Ed25519PublicKey) -> dict[str, Any]:
    """Give the claims of a token, whatever they are; `InvalidToken` unless its signature is the key's."""
    import jwt

    try:
        claims: dict[str, Any] = jwt.decode(token, key, algorithms=[_ALGORITHM], options=_UNCHECKED)
    except (jwt.InvalidTokenError, UnicodeError):
        raise InvalidToken from None
    return claims
