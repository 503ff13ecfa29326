"""Addresses and tokens as people paste them: in quotation marks, with ``Bearer``, with blanks or a line break.

An ``env_file`` of Docker and IPython's ``%env NAME="..."`` keep the quotation marks. What is around a value is removed;
what is inside stays, and is an error if no address or token contains it.
"""

from __future__ import annotations

import re
import unicodedata

from pipemagic.errors import ConnectError

_PAIRS = (('"', '"'), ("'", "'"), ("`", "`"), ("“", "”"), ("‘", "’"), ("„", "“"))
_INVISIBLE = "\ufeff\u200b"  # a byte order mark, a space of no width
_BEARER = re.compile(r"(?:authorization\s*:\s*)?bearer(?:\s+|\Z)", re.IGNORECASE)
_FOREIGN = re.compile(r"""[^\x21-\x7e]|["'`\\<>]|=(?!=*\Z)""")
"""What a token cannot contain: RFC 6750 allows ``=`` only at its end."""


def strip_quotes(text: str) -> str:
    """Return text without the blanks, line breaks and pairs of quotation marks around it."""
    while True:
        stripped = text.strip().strip(_INVISIBLE)
        if len(stripped) > 1 and (stripped[0], stripped[-1]) in _PAIRS:
            stripped = stripped[1:-1]
        if stripped == text:
            return text
        text = stripped


def unpaired_quote(text: str) -> str:
    """Return ``begins`` or ``ends`` if that is where text has a quotation mark, otherwise ''."""
    marks = {mark for pair in _PAIRS for mark in pair}
    if not text or not {text[0], text[-1]} & marks:
        return ""
    return "begins" if text[0] in marks else "ends"


def token_in(text: str, name: str = "the token") -> str:
    """Return the token in text, which may have ``Bearer`` before it; '' if there is none.

    Raise ConnectError for a character that a token cannot contain. The message has the ``name`` of the token and the
    character, but nothing else of the token.
    """
    token = strip_quotes(_BEARER.sub("", strip_quotes(text), count=1))
    if foreign := _FOREIGN.search(token):
        raise ConnectError(
            f"{name} contains {_described(foreign[0])}, so it was not sent",
            hint="set it alone, as one word: no quotation marks, spaces or line breaks inside",
        )
    return token


def _described(character: str) -> str:
    if character in "\r\n":
        return "a line break"
    if character.isascii() and not character.isprintable():
        return "a control character" if character != "\t" else "a tab"
    if character == " ":
        return "a space"
    names = {'"': "a quotation mark", "'": "a quotation mark", "\\": "a backslash", "`": "a backtick"}
    if character.isascii():
        return names.get(character, f"the character {character}")
    return f"the character U+{ord(character):04X} ({unicodedata.name(character, 'without a name')})"
