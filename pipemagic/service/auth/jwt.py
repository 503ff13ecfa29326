"""JSON web tokens signed with Ed25519, as libSQL servers and this service accept them.

PyJWT is imported with the first token: the import would take an eighth of the service's start.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_ALGORITHM = "EdDSA"
_UNCHECKED: Any = dict.fromkeys(("verify_exp", "verify_iat", "verify_nbf", "verify_aud", "verify_sub"), False)


class InvalidToken(Exception):
    """The text is not a token that was signed with this key."""


def sign(claims: dict[str, Any], key: Ed25519PrivateKey) -> str:
    """Return a token with these claims."""
    import jwt

    return jwt.encode(claims, key, algorithm=_ALGORITHM)


def verify(token: str, key: Ed25519PublicKey) -> dict[str, Any]:
    """Return the claims of a token without checking them; raise `InvalidToken` unless the key signed it.

    PyJWT also accepts padding and characters of the other base64 alphabet in the signature, older versions also any
    surplus characters and bits. They are refused here, so that a token has exactly one spelling.
    """
    import jwt

    if token.count(".") != 2 or not all(map(_is_canonical, token.split("."))):
        raise InvalidToken
    try:
        claims: dict[str, Any] = jwt.decode(token, key, algorithms=[_ALGORITHM], options=_UNCHECKED)
    except (jwt.InvalidTokenError, UnicodeError):
        raise InvalidToken from None
    return claims


def _is_canonical(segment: str) -> bool:
    """Return True for base64url as RFC 7515 requires it: without padding, other characters or surplus bits."""
    try:
        data = urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except ValueError:
        return False
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii") == segment
