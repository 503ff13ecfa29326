"""Secrets that do not show themselves in a repr, a traceback, a log or a saved notebook."""

from __future__ import annotations

import re

from pipemagic.errors import ConnectError

_VISIBLE = re.compile(r"[\x21-\x7e]*\Z")


class Secret(str):
    """Text that is used like any other, but whose repr hides it: what a cell shows is the repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(***)"


class Token:
    """A bearer token: it can be sent, but neither shown nor pickled.

    ``authorization`` is the header's value, empty without a token.
    """

    __slots__ = ("_text", "authorization")

    def __init__(self, text: str | None) -> None:
        text = str(text or "").strip()
        if not _VISIBLE.match(text):
            raise ConnectError("the token holds characters that no token has (a blank, a line break?)")
        self._text = text
        self.authorization = f"Bearer {text}".encode() if text else b""

    def __repr__(self) -> str:
        return "Token(***)" if self._text else "Token(none)"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a token is not pickled")

    def redact(self, text: str) -> str:
        """Mask the token in a text that came from outside."""
        return text.replace(self._text, "***") if len(self._text) > 7 else text
