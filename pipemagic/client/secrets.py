"""Secrets that are hidden in reprs, tracebacks, logs and saved notebooks."""

from __future__ import annotations

from pipemagic.client.pasted import token_in


class Secret(str):
    """A string that its repr, which notebooks display, hides."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(***)"


class BearerToken:
    """A bearer token, which can be sent, but not displayed or pickled.

    The text may have quotation marks and ``Bearer`` around the token. ``authorization`` is the value of the
    header, empty without a token, and ``headers`` the header itself.
    """

    __slots__ = ("_text", "authorization", "headers")

    def __init__(self, text: str | None) -> None:
        self._text = text = token_in(str(text or ""))
        self.authorization = f"Bearer {text}".encode() if text else b""
        self.headers = ((b"Authorization", self.authorization),) if text else ()

    def __repr__(self) -> str:
        return "Token(***)" if self._text else "Token(none)"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a token cannot be pickled")

    def redact(self, text: str) -> str:
        """Mask the token in a text."""
        return text.replace(self._text, "***") if len(self._text) > 7 else text
