"""How a request of the management API reaches its endpoint, and what an endpoint gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pipemagic.service.catalog import Account, Catalog, DatabaseRecord, GroupRecord
from pipemagic.service.hosting import LOCAL_DOMAIN, LOOPBACK_HOSTS
from pipemagic.service.http import Request
from pipemagic.service.tokens import Tokens

ORG = "/v1/organizations/{org}"
"""Where everything of one organization is; a route with ``{org}`` is refused (404) to those who are not in it."""


def _nobody(_: object) -> None:
    """Tell no one."""


@dataclass
class Platform:
    """What the endpoints work on, and who is told of what they did."""

    catalog: Catalog
    tokens: Tokens
    on_delete: Callable[[DatabaseRecord], None] = _nobody
    """Called when the catalog no longer has the database; has to end its streams and remove its files.

    What a crash or a file in use leaves of them, `Catalog.finish_deletions` removes at the next start.
    """
    on_locations: Callable[[GroupRecord], None] = _nobody
    """Called after a change of a group's locations."""


@dataclass(frozen=True)
class Call:
    """One authenticated request on its way to an endpoint; ``call["org"]`` is a part of its path."""

    platform: Platform
    request: Request
    account: Account
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def catalog(self) -> Catalog:
        """The catalog."""
        return self.platform.catalog

    def addressed(self, record: DatabaseRecord) -> DatabaseRecord:
        """Give the record with the host name that the asker can use: below ``localhost`` if he came by loopback.

        Programs of the machine then need neither the network's name for a shared service nor its certificate.
        """
        if self.request.host == self.catalog.domain or self.request.host not in LOOPBACK_HOSTS:
            return record
        return replace(record, hostname=f"{record.hostname.partition('.')[0]}.{LOCAL_DOMAIN}")

    def __getitem__(self, part: str) -> str:
        return self.parts[part]


Endpoint = Callable[[Call], Any]
"""Gives the JSON of a 200, or a `Response`; refuses by raising `Refused`."""


class Route(NamedTuple):
    """Which endpoint answers to a method and a path."""

    method: str
    pattern: re.Pattern[str]
    endpoint: Endpoint


def route(method: str, path: str, endpoint: Endpoint) -> Route:
    """Make a route; a ``{name}`` in the path takes one segment, whatever it holds."""
    return Route(method, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)), endpoint)
