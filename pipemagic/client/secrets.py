"""Secrets that are hidden in reprs, tracebacks, logs and saved notebooks."""

from __future__ import annotations

from pipemagic.client.pasted import token_in


class Secret(str):
    """A string that its repr, which notebooks display, hides."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(***)"


class HeaderSecret:
    """A secret that is sent as a header, but cannot be displayed or pickled.

    The text may have quotation marks around it. ``value`` is the value of the header, empty without a secret, and
    ``headers`` the header itself.
    """

    noun = "secret"
    header = b""
    prefix = ""

    __slots__ = ("_text", "headers", "value")

    headers: tuple[tuple[bytes, bytes], ...]

    def __init__(self, text: str | None) -> None:
        self._text = text = token_in(str(text or ""), f"the {self.noun}")
        self.value = f"{self.prefix}{text}".encode() if text else b""
        self.headers = ((self.header, self.value),) if text else ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'***' if self._text else 'none'})"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError(f"the {self.noun} cannot be pickled")

    def redact(self, text: str) -> str:
        """Mask the secret in a text."""
        return text.replace(self._text, "***") if len(self._text) > 7 else text


class BearerToken(HeaderSecret):
    """A token, which the text may have after ``Bearer``."""

    noun = "token"
    header = b"Authorization"
    prefix = "Bearer "

    __slots__ = ()


class EncryptionKey(HeaderSecret):
    """The key of an encrypted database, in base64, which the server needs with every request.

    The ``cipher`` is needed to create a database, and to upload its content; '' otherwise.
    """

    noun = "encryption key"
    header = b"x-turso-encryption-key"

    __slots__ = ("cipher",)

    def __init__(self, text: str | None, cipher: str = "") -> None:
        super().__init__(text)
        self.cipher = cipher
        if cipher:
            self.headers += ((b"x-turso-encryption-cipher", cipher.encode()),)

    @property
    def members(self) -> dict[str, str]:
        """The members of ``remote_encryption`` in the request that creates a database."""
        cipher = {"encryption_cipher": self.cipher} if self.cipher else {}
        return {"encryption_key": self.value.decode(), **cipher}
