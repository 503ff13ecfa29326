"""Check names of groups, databases, tokens and organizations without the server."""

from __future__ import annotations

import re
from typing import Literal

NameKind = Literal["group", "database", "token", "organization"]

LABEL = 63
"""Longest DNS label; ``<database>-<organization>`` is one."""

SLUG = 32
"""Longest slug of an organization."""

_FOREIGN = re.compile(r"[^a-z0-9-]")


def longest(kind: NameKind, slug: str) -> int:
    """Return the maximum length of a name in the organization ``slug``, which hosts contain, but not token names."""
    if kind == "organization":
        return SLUG
    return LABEL - 1 - (0 if kind == "token" else len(slug))


def problem(kind: NameKind, name: str, slug: str = "") -> str:
    """Return why a new name is invalid, '' if it is valid; only the server knows whether it is taken."""
    article = f"{'an' if kind == 'organization' else 'a'} {kind}"
    if not name:
        return f"Enter {article} name."
    if foreign := _FOREIGN.search(name):
        return (
            f"the name of {article} can contain only lower-case letters, digits and hyphens, not {_shown(foreign[0])}"
        )
    if name[0] == "-" or name[-1] == "-":
        return f"the name of {article} cannot begin or end with a hyphen"
    limit = longest(kind, slug)
    if len(name) > limit:
        left = f", which leaves room for -{slug} in a host name" if slug and kind in ("group", "database") else ""
        return f"the name of {article} can have at most {max(limit, 0)} characters here{left}, not {len(name)}"
    return ""


def _shown(character: str) -> str:
    if character.isspace():
        return "spaces"
    return character if character.isprintable() else f"U+{ord(character):04X}"
