"""How a request of the management API reaches its endpoint, and what an endpoint gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.requests import Request

from pipemagic.service.auth.logins import Logins
from pipemagic.service.auth.tokens import Tokens
from pipemagic.service.endpoint import CancelToken
from pipemagic.service.engine import Engine
from pipemagic.service.hosting import LOCAL_DOMAIN, LOOPBACK_HOSTS
from pipemagic.service.hosts import host_of
from pipemagic.service.registry.accounts import Account, Credential
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.organizations import Role
from pipemagic.service.registry.quotas import Meter
from pipemagic.service.registry.records import DatabaseRecord, GroupRecord
from pipemagic.service.transfer.endpoints import Transfers

ORG = "/v1/organizations/{org}"
"""Where everything of one organization is; a route with ``{org}`` is refused (404) to those who are not in it."""


def _nobody(_: object) -> None:
    """Tell no one."""


@dataclass
class Platform:
    """What the endpoints work on, and who is told of what they did."""

    catalog: Catalog
    tokens: Tokens
    logins: Logins
    meter: Meter
    on_delete: Callable[[DatabaseRecord], None] = _nobody
    """Called when the catalog no longer has the database; has to end its streams and remove its files.

    What a crash or a file in use leaves of them, `Catalog.finish_deletions` removes at the next start.
    """
    transfers: Transfers | None = None
    """What copies databases and waits for uploads; without it a new database begins empty."""
    on_locations: Callable[[GroupRecord], None] = _nobody
    """Called after a change of a group's locations, or of which of them are paused."""
    on_rotate: Callable[[DatabaseRecord], None] = _nobody
    """Called when the tokens of a database are void; has to end the streams that were opened with them."""
    on_configure: Callable[[DatabaseRecord], None] = _nobody
    """Called after a change of a database's configuration."""
    engine: Engine = field(default_factory=Engine)
    """Where the databases are."""


@dataclass(frozen=True)
class Call:
    """One request on its way to an endpoint; ``call["org"]`` is a part of its path."""

    platform: Platform
    request: Request
    credential: Credential | None
    """Who sent it; None at a public route, which asks for no token."""
    parts: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    cancel: CancelToken = field(default_factory=CancelToken)
    role: Role | None = None
    """The sender's role in the organization of the path, if there is one in it."""

    @property
    def account(self) -> Account:
        """Who sent it; not at public routes."""
        assert self.credential is not None
        return self.credential.account

    @property
    def catalog(self) -> Catalog:
        """The catalog."""
        return self.platform.catalog

    def addressed(self, record: DatabaseRecord) -> DatabaseRecord:
        """Give the record with the host name that the asker can use: below ``localhost`` if he came by loopback.

        Programs of the machine then need neither the network's name for a shared service nor its certificate.
        """
        if self.platform.engine.addresses(record):
            return record
        host = host_of(self.request.headers.get("host", ""))
        if host == self.catalog.domain or host not in LOOPBACK_HOSTS:
            return record
        return record.below(LOCAL_DOMAIN)

    def __getitem__(self, part: str) -> str:
        return self.parts[part]


Endpoint = Callable[[Call], Any]
"""Returns the JSON of a 200, as a generator if it has to wait, or raises `Refused`."""


class Route(NamedTuple):
    """Which endpoint answers to a method and a path, and the role that it takes in the path's organization."""

    method: str
    path: str
    endpoint: Endpoint
    needs: Role
    public: bool


def route(method: str, path: str, endpoint: Endpoint, *, needs: Role | None = None, public: bool = False) -> Route:
    """Make a route; a ``{name}`` in the path takes one segment, whatever it holds.

    Unless ``needs`` says otherwise, a GET takes a viewer and everything else a member. A ``public`` route
    asks for no token.
    """
    usual = Role.VIEWER if method == "GET" else Role.MEMBER
    return Route(method, path, endpoint, usual if needs is None else needs, public)
