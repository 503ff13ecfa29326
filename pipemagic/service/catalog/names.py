"""The names that may be part of a path or of a host name."""

from __future__ import annotations

import re

from pipemagic.service.responses import Refused

LABEL_LIMIT = 63
"""Longest DNS label: ``<database>-<organization>`` is one label."""

SLUG_LIMIT = 32
"""Longest slug of an organization; it leaves 30 characters for the names of databases."""

RESERVED_SLUGS = frozenset({
    # first and second parts of paths of this service and of the public one
    "api", "auth", "current-user", "databases", "dump", "groups", "health", "locations", "organizations", "pipemagic",
    "user", "v1", "v2", "v3", "v3-protobuf", "version",
    # names of this machine, and common names of servers below a domain
    "localhost", "www",
})  # fmt: skip
"""Slugs that no organization may have: they are names of routes or machines."""

_FORM = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)


def check_slug(slug: str, kind: str = "organization") -> str:
    """Return the slug of a new organization (or user); raise `Refused`: 400 if it is invalid, 422 if reserved."""
    _check(kind, slug, SLUG_LIMIT)
    if slug in RESERVED_SLUGS:
        raise Refused(422, f"{kind} name not available: {slug} is reserved", "NAME_NOT_AVAILABLE")
    return slug


def slug_of(name: str) -> str:
    """Return the slug for the name of an organization: ``data-club`` for ``Data Club``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def check_name(kind: str, name: str, slug: str) -> str:
    """Return the name of a new group or database of the organization ``slug``; raise `Refused` (400) if it is invalid.

    The host name ``<name>-<slug>`` must fit one label.
    """
    return _check(kind, name, LABEL_LIMIT - 1 - len(slug))


def is_label(label: str) -> bool:
    """Return True if a host name can begin with this label."""
    return len(label) <= LABEL_LIMIT and bool(_FORM.fullmatch(label))


def _check(kind: str, name: str, limit: int) -> str:
    if not (1 <= len(name) <= limit and _FORM.fullmatch(name)):
        raise Refused(
            400, f"invalid {kind} name: it must have between 1 and {limit} lower-case letters, digits and hyphens, "
            "and may not begin or end with a hyphen",
        )  # fmt: skip
    return name
