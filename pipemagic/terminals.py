"""Text that came from elsewhere, made harmless for a terminal, and without the passwords of addresses."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


_USER = re.compile(r"([A-Za-z][\w+.-]*://)(?:[^\s'\"<>]*:[^\s'\"<>]*|[^\s/?#'\"<>]*)@(?=[\w\[/])")
"""User and password of an address; the password may hold any character but blanks and quotes."""


def without_passwords(text: str) -> str:
    """Return the text with ``***`` in the place of the user and the password of each address in it."""
    return _USER.sub(r"\1***@", text) if "://" in text and "@" in text else text


def visible(text: str, *, keep: str = "") -> str:
    """Show what would steer a terminal, or turn the direction of writing, by its number; not what is to be kept."""
    return _CONTROL.sub(
        lambda match: match[0] if match[0] in keep else _NAMED.get(match[0]) or f"\\u{ord(match[0]):04x}", text
    )
