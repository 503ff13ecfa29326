"""The operations of the management API: how functions are registered for them, and what they receive."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

import msgspec

from pipemagic.scopes import required_scope
from pipemagic.service.auth.codes import Codes
from pipemagic.service.auth.logins import Logins, network_of
from pipemagic.service.auth.tokens import TokenAuthority
from pipemagic.service.catalog.accounts import AccountRecord, Credential, TokenLimits
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.organizations import Role
from pipemagic.service.catalog.records import DatabaseRecord, utc
from pipemagic.service.catalog.usage import UsageMeter
from pipemagic.service.engine import Engine
from pipemagic.service.hosting import LOCAL_DOMAIN, LOOPBACK_HOSTS, host_of
from pipemagic.service.limits import parse_size
from pipemagic.service.request import ServiceRequest
from pipemagic.service.responses import Refused

ORG = "/v1/organizations/{org}"
"""The path of an organization; an operation with ``{org}`` returns 404 to accounts that are not members."""


@dataclass
class ServiceParts:
    """The parts of the service that the functions use."""

    catalog: Catalog
    tokens: TokenAuthority
    logins: Logins
    codes: Codes
    meter: UsageMeter
    engine: Engine


@dataclass
class ApiRequest:
    """A request; ``request["org"]`` is a parameter of its path."""

    parts: ServiceParts
    http: ServiceRequest
    params: dict[str, str] = field(default_factory=dict)
    credential: Credential | None = None
    """The token of the sender; None at a public operation."""
    role: Role = Role.VIEWER
    """The sender's role in the organization of the path, if the path has one."""

    @property
    def account(self) -> AccountRecord:
        """The account of the sender; not available at public operations."""
        assert self.credential is not None
        return self.credential.account

    @property
    def limits(self) -> TokenLimits | None:
        """The limits of the sender's token."""
        return None if self.credential is None else self.credential.limits

    def reaches(self, group_id: str) -> bool:
        """Return True unless the sender's token is limited to another group."""
        return self.limits is None or self.limits.group_id in (None, group_id)

    @property
    def catalog(self) -> Catalog:
        """The catalog."""
        return self.parts.catalog

    @property
    def network(self) -> str:
        """The network of the client, or of the proxy in front of the service."""
        return "" if self.http.client is None else network_of(self.http.client.host)

    def with_local_names(self, record: DatabaseRecord) -> DatabaseRecord:
        """Return the record with host names below ``localhost`` if the client has connected by loopback.

        Programs of the machine then need neither the name of a shared service nor its certificate. Below the path of a
        proxy, all names are that of the service itself.
        """
        host = host_of(self.http.headers.get("host", ""))
        if self.http.scope.get("root_path"):
            return record.at(host)
        if host == self.catalog.domain or host not in LOOPBACK_HOSTS or self.parts.engine.addresses(record):
            return record
        return record.below(LOCAL_DOMAIN)

    def __getitem__(self, param: str) -> str:
        return self.params[param]


class Reach(IntEnum):
    """What a platform token can be limited to. Each includes those before it."""

    GROUP = 1
    ORGANIZATION = 2
    ACCOUNT = 3

    @classmethod
    def of(cls, limits: TokenLimits | None) -> Reach:
        """Return the reach of a token."""
        return cls.ACCOUNT if limits is None else cls.ORGANIZATION if limits.group_id is None else cls.GROUP


class Body(msgspec.Struct):
    """The JSON object of a request's body. Subclasses declare its fields, which also describe it in OpenAPI."""

    optional: ClassVar[bool] = False
    """True if the body may be missing."""
    unsupported: ClassVar[tuple[str, ...]] = ()
    """Fields that would change the meaning; a request that sets one to another value than its default is refused."""

    def changes(self) -> dict[str, Any]:
        """Return the fields that the request has."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "maxLength": 30})]

Size = Count | Annotated[str, msgspec.Meta(pattern=r"^ *[0-9]{1,18}(\.[0-9]{1,9})? *([kmgtKMGT][iI]?)?[bB]? *$")]
"""A number of bytes, which may be a string such as ``256mb``."""

_Body = TypeVar("_Body", bound=Body)


def parse_body(kind: type[_Body], body: bytes) -> _Body:
    """Convert a body; raise `Refused` (400) if that is not possible.

    Its fields may be in any case; null counts as missing.
    """
    if kind.optional and not body.strip():
        return kind()
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the request body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refused(400, "the request body must be a JSON object")
    # The public command-line tool sends `Name`. Where both are present, the lower-case one is the last and wins.
    fields = {name.lower(): value[name] for name in sorted(value)}
    for name in kind.unsupported:
        if _has_content(fields.get(name)) and fields[name] != _DEFAULTS.get(name):
            reason = _UNSUPPORTED.get(name, "")
            raise Refused(400, f'"{name}" is not supported by this service' + (f": {reason}" if reason else ""))
    try:
        present = {name: value for name, value in fields.items() if value is not None}
        return msgspec.convert(present, kind)
    except msgspec.ValidationError as error:
        raise Refused(400, _message(str(error))) from None


def number_in_query(request: ApiRequest, name: str, default: int) -> int:
    """Return a positive number of the query; raise `Refused` (400) for anything else."""
    value = request.http.query_params.get(name) or str(default)
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", value, re.ASCII):
        raise Refused(400, f'"{name}" must be a positive integer')
    return int(value)


def _has_content(value: Any) -> bool:
    """Return False for null, false, 0 and what is empty, as objects of empty lists, which published clients send."""
    return any(map(_has_content, value.values())) if isinstance(value, dict) else bool(value)


def size_in_bytes(size: int | str | None) -> int | None:
    """Convert a `Size` to bytes."""
    return parse_size(size) if isinstance(size, str) else size


_DEFAULTS = {"image": "latest", "version": "latest"}
"""The values of unsupported fields that mean the same as a missing field; so do false and empty values, also nested."""

_UNSUPPORTED = {
    "remote_encryption": "it does not encrypt databases",
    "use_tursodb": "it has no databases of that engine",
    "image": "all its databases run the same version",
    "version": "all its databases run the same version",
    "extensions": "all its databases have the same functions",
    "allowed_ips": "it accepts every address",
    "allowed_aws_vpc_ids": "it is not in AWS",
    "permissions": "a token has the rights that authorization names",
    "fine_grained_permissions": "a token has the rights that authorization names",
}
"""Why fields are unsupported."""

_REQUIREMENTS = {
    "str": "must be a string", "bool": "must be true or false", "int": "must be a non-negative integer",
    "object": "must be an object", "array": "must be a list", "matching": "must be a size, such as 10000, 256mb or 1gb",
}  # fmt: skip


def _message(error: str) -> str:
    """Convert a message of msgspec, such as "Expected `str`, got `int` - at `$.name`"."""
    if match := re.match(r"Object missing required field `(\w+)`", error):
        return f'"{match[1]}" is missing'
    problem, _, path = error.partition(" - at ")
    expected = re.match(r"Expected `str` (matching)|Expected `(\w+)", problem)
    assert expected is not None, error
    return f'"{path.strip("`").removeprefix("$.")}" {_REQUIREMENTS[expected[1] or expected[2]]}'


_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(eq=False)
class Operation:
    """A decorator that registers a function for a method and a path, in which a ``{name}`` is one segment.

    The function receives the request, and its body if the parameter ``body`` is declared. It returns the JSON of a 200,
    as a generator if it has to wait, or raises `Refused`.
    """

    method: str
    path: str
    role: Role | None = None
    """The role that is required in the organization of the path; None: viewer for a GET, otherwise member."""
    public: bool = False
    """True if no token is required."""
    operator: str = ""
    """What only the operator of the service may do; empty if all accounts may use the operation."""
    for_operator: bool = False
    """True if the operator of the service may use it in every organization, as a member: to suspend a database."""
    outside: Reach = Reach.ACCOUNT
    """The reach that a token needs for a path without an organization."""
    audit: str = ""
    """The code of its entries in the audit log; empty for an operation without one."""
    query: Mapping[str, Any] = field(default_factory=dict)
    """JSON schemas of the query parameters, for OpenAPI."""
    function: Callable[..., Any] = field(init=False)
    body: type[Body] | None = field(init=False)

    @property
    def needs(self) -> Role:
        """The role that is required."""
        return self.role or (Role.VIEWER if self.method == "GET" else Role.MEMBER)

    @property
    def scope(self) -> str:
        """The scope that a group's token needs; '' if no scope suffices, or none is needed."""
        return required_scope(self.method, self.path)

    @property
    def reach(self) -> Reach:
        """The reach that a token needs."""
        return Reach.GROUP if self.scope else Reach.ORGANIZATION if "{org}" in self.path else self.outside

    def __call__(self, function: _Function) -> _Function:
        """Register the function."""
        self.function, self.body = function, get_type_hints(function).get("body")
        OPERATIONS.append(self)
        return function


OPERATIONS: list[Operation] = []
"""The operations of the management API."""


def parse_time(text: str, name: str) -> float:
    """Convert a time in RFC 3339, with its offset, to Unix seconds; raise `Refused` (400) for any other text."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None or "T" not in text.upper():
        raise Refused(400, f'"{name}" must be a time such as 2026-01-31T00:00:00Z')
    return time.timestamp()


def format_time(seconds: float) -> str:
    """Convert Unix seconds to a time in RFC 3339."""
    return utc(seconds).isoformat(timespec="seconds").replace("+00:00", "Z")
