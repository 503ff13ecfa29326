"""The scopes of platform tokens that are limited to a group, as the published API names them.

Sources: the pages on authentication and on creating API tokens of its documentation, and its OpenAPI document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SCOPES = {
    "read": "read the group, its databases and their settings",
    "db:create": "create databases",
    "db:delete": "delete databases",
    "db:configure": "change the settings of databases",
    "db:mint-token": "create tokens of databases, and codes for them",
    "db:rotate-creds": "invalidate the tokens of a database",
    "group:configure": "change the settings and locations of the group",
    "group:mint-token": "create tokens of the group",
    "group:rotate-creds": "invalidate all tokens of the group",
}
"""The scopes, with what each allows."""

PRESETS = {"read-only": ("read",), "full-access": tuple(SCOPES)}
"""Names for several scopes; a token has the scopes themselves."""

_BELOW_ORGANIZATION = re.compile(r"/v\d+/(?:organizations/[^/]+/)?(.*)")
_REQUIRED = tuple((methods, re.compile(path), scope) for methods, path, scope in (
    ("GET", r"(?:locations|groups|databases)(?:/.*)?", "read"),
    ("POST", r"databases", "db:create"),
    ("DELETE", r"databases/[^/]+", "db:delete"),
    ("POST PATCH", r"databases/[^/]+/(?:configuration|wakeup|update)", "db:configure"),
    ("POST", r"databases/[^/]+/auth/(?:tokens|codes)", "db:mint-token"),
    ("POST", r"databases/[^/]+/auth/rotate", "db:rotate-creds"),
    ("POST PATCH DELETE", r"groups/[^/]+/(?:configuration|unarchive|update|rename|locations/.*)", "group:configure"),
    ("POST", r"groups/[^/]+/auth/tokens", "group:mint-token"),
    ("POST", r"groups/[^/]+/auth/rotate", "group:rotate-creds"),
))  # fmt: skip


def expand(names: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes of names and presets, in the order of `SCOPES`; raise ValueError for an unknown name."""
    chosen: set[str] = set()
    for name in names:
        if name not in SCOPES and name not in PRESETS:
            raise ValueError(f"unknown scope {name[:50]!r}: the scopes are {', '.join([*SCOPES, *PRESETS])}")
        chosen.update(PRESETS.get(name, (name,)))
    return tuple(scope for scope in SCOPES if scope in chosen)


def summary(scopes: Iterable[str]) -> str:
    """Return the scopes as text, or the preset that has the same."""
    names = tuple(scopes)
    return next((preset for preset, same in PRESETS.items() if set(same) == set(names)), ", ".join(names))


def required_scope(method: str, path: str) -> str:
    """Return the scope that a request (or a template of a path) needs with a group's token; '' if none suffices."""
    below = _BELOW_ORGANIZATION.fullmatch(path)
    resource = "" if below is None else below[1]
    for methods, pattern, scope in _REQUIRED:
        if method in methods.split() and pattern.fullmatch(resource):
            return scope
    return ""
