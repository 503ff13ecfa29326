"""Text that came from elsewhere, made harmless for a terminal, and without the passwords of addresses."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


_ADDRESS = re.compile(r"(?<=://)[^\s'\"<>]+")
"""An address from its host on, or from the user before that."""
_USER = re.compile(r"\A(?:[^:]*:.*|[^/?#]*)@(?=[\w\[/])")
"""User and password; the password may hold any character but blanks and quotes."""
_PORT = re.compile(r"(?:\[[^]]*\]|[^:/?#@]*):\d{1,5}/(?:[^@]*/)?@[^@]*\Z")
"""A host with a port, and a path with a segment that begins with @: nothing of it is a password."""


def without_passwords(text: str) -> str:
    """Return the text with ``***`` in the place of the user and the password of each address in it."""
    return _ADDRESS.sub(_masked, text) if "@" in text else text


def _masked(address: re.Match[str]) -> str:
    return address[0] if _PORT.match(address[0]) else _USER.sub("***@", address[0], count=1)


def visible(text: str, *, keep: str = "") -> str:
    """Show what would steer a terminal, or turn the direction of writing, by its number; not what is to be kept."""
    return _CONTROL.sub(
        lambda match: match[0] if match[0] in keep else _NAMED.get(match[0]) or f"\\u{ord(match[0]):04x}", text
    )
