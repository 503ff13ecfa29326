"""Secrets that are hidden in reprs, tracebacks, logs and saved notebooks."""

from __future__ import annotations

import re

from pipemagic.errors import ConnectError

_VISIBLE = re.compile(r"[\x21-\x7e]*\Z")


class Secret(str):
    """A string whose repr, which notebooks display, hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(***)"


class Token:
    """A bearer token, which can be sent, but not displayed or pickled.

    ``authorization`` is the header's value, empty without a token.
    """

    __slots__ = ("_text", "authorization")

    def __init__(self, text: str | None) -> None:
        text = str(text or "").strip()
        if not _VISIBLE.match(text):
            raise ConnectError("the token has invalid characters (such as a space or a line break)")
        self._text = text
        self.authorization = f"Bearer {text}".encode() if text else b""

    def __repr__(self) -> str:
        return "Token(***)" if self._text else "Token(none)"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a token cannot be pickled")

    def redact(self, text: str) -> str:
        """Mask the token in a text."""
        return text.replace(self._text, "***") if len(self._text) > 7 else text
