"""A management API that responds as the documentation of the public hosted service describes, with real databases.

It is written from that service's documentation, tool and client packages; no response was recorded from it.
Each route names the source of its response: [docs] the public documentation and its OpenAPI file, [docs-24] and
[docs-23] its text of 2024 and 2023, [cli] the command-line tool, [sdk] `@tursodatabase/api`, [issue] a public issue,
[inferred] a guess. Where these disagree, `Shapes` chooses. Databases are those of a real service, to which SQL is
passed on.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from scripted_server import Answer, Call, ScriptedServer, as_json, as_text
from served import Served

AIRPORTS = {"ams": "Amsterdam, Netherlands", "nrt": "Tokyo, Japan", "ord": "Chicago, Illinois (US)"}
REGIONS = {"aws-eu-west-1": "AWS EU West (Ireland)", "aws-us-east-1": "AWS US East (Virginia)"}

STARTER = {"error": "this feature is not available for starter plans", "code": "feature_not_available_for_starter_plan"}
"""The code is in [cli]; the text is [inferred]."""


@dataclass
class Shapes:
    """Properties on which the sources disagree, or which a service may lack. The default is [docs]."""

    organizations: str = "wrapped"
    """``bare``: the array by itself, as OpenAPI has it [docs]; ``wrapped``: as [docs-23] and [sdk] have it."""
    sums: str = "total"
    """Member with the sums of a database's usage: ``total`` [docs], ``usage`` [cli][sdk][docs-23]."""
    locations: str = "airports"
    """``airports`` [docs-24], ``regions`` with an ``aws-`` prefix [docs]."""
    storage: str = "storage_bytes"
    """``storage`` in [docs] until January 2025."""
    more_locations: Answer | None = None
    """The error for a second location of a group; None: it is added."""
    deleted: str = "name"
    """The response to DELETE of a database: its ``name`` as text [docs], or the ``object`` as for groups [inferred]."""
    lacks: frozenset[str] = frozenset()
    """Endpoints that return 404 without a message: usage, plans, subscription, instances, wait."""
    only_full_access: bool = False
    """Whether databases refuse `authorization` of new tokens, as those of the new engine do."""
    seed_only: bool = False
    """Whether it has only the five endpoints of the requirement."""
    pending: int = 0
    """The number of requests that a new database refuses with 404 at first [issue libsql-client-ts#346]."""

    @property
    def places(self) -> dict[str, str]:
        """The available locations, by code."""
        return REGIONS if self.locations == "regions" else AIRPORTS


@dataclass
class _Database:
    name: str
    group: str
    inside: str
    """Its name in the real service."""
    id: str = field(default_factory=lambda: str(uuid.uuid1()))
    pending: int = 0


@dataclass
class _Refusing:
    pattern: str
    answer: Answer
    left: int | None

    def take(self) -> bool:
        """Return True if it refuses one more request."""
        if self.left is not None:
            self.left -= 1
        return self.left is None or self.left >= 0


class HostedApi(ScriptedServer):
    """The hosted service for one organization, ``acme``. ``token`` is the valid platform token."""

    slug = "acme"

    def __init__(self, behind: Served, shapes: Shapes | None = None) -> None:
        self.shapes = shapes or Shapes()
        self.token = f"platform-{uuid.uuid4().hex}"
        self.groups: dict[str, dict[str, Any]] = {}
        self.databases: dict[str, _Database] = {}
        self.overages = False
        self.teams: list[str] = []
        """Slugs of other organizations of the same account, which are empty."""
        self.issued: dict[str, str] = {}
        """The database tokens that were issued, and the database of each."""
        self._behind = behind
        self._refusals: list[_Refusing] = []
        self._talks = threading.Event()
        self._talks.set()
        super().__init__()
        self.pages = {}
        self.environment = {"PIPEMAGIC_API_URL": self.url, "PIPEMAGIC_API_TOKEN": self.token}
        """The environment variables by which a session finds it."""

    def refuse(self, pattern: str, answer: Answer, times: int | None = None) -> None:
        """Return a response, always or some times, where ``METHOD /path`` matches the pattern; see `clear_refusals`."""
        self._refusals.append(_Refusing(pattern, answer, times))

    def clear_refusals(self) -> None:
        """Remove the responses that `refuse` set."""
        self._refusals.clear()

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Do not respond until the end of the block."""
        self._talks.clear()
        try:
            yield
        finally:
            self._talks.set()

    def renew_token(self) -> str:
        """Invalidate the platform token; return the new one."""
        self.token = f"platform-{uuid.uuid4().hex}"
        return self.token

    # -- answering

    def answer(self, call: Call) -> Answer:
        path = urlsplit(call.path).path
        self._talks.wait()
        for refusing in tuple(self._refusals):
            if re.match(refusing.pattern, f"{call.method} {path}") and refusing.take():
                return refusing.answer
        if not path.startswith("/v1/"):
            return self._sql(call)
        if call.headers.get("authorization") != f"Bearer {self.token}":
            return as_json({"error": "could not parse jwt id"}, 401)  # section 7, [issue turso-api-client-ts#17]
        for method, pattern, react in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method == call.method and (not self.shapes.seed_only or react in SEED):
                if found.groups() and found[1] not in (self.slug, *self.teams):
                    return self._missing("organization")
                return react(self, call, *found.groups())
        return as_text("404 page not found", 404)  # [inferred]

    def _sql(self, call: Call) -> Answer:
        """Forward requests for a database to the real service."""
        name = self.issued.get(call.headers.get("authorization", "").removeprefix("Bearer "))
        database = self.databases.get(name or "")
        if database is not None and database.pending > 0:
            database.pending -= 1
            return as_json({"error": f"database {name} not found"}, 404)  # section 12.2, [issue libsql-client-ts#346]
        if database is not None and self.groups[database.group].get("archived"):
            return Answer(502, b"")  # [issue turso-cli#894, turso-cli#917]
        kept = {key: value for key, value in call.headers.items() if key in ("authorization", "content-type", "accept")}
        connection = HTTPConnection("127.0.0.1", self._behind.port, timeout=30)
        try:
            connection.request(call.method, call.path, call.body or None, kept)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), answer.getheader("content-type") or "")
        finally:
            connection.close()

    def _missing(self, what: str) -> Answer:
        return as_json({"error": f"{what} not found"}, 404)  # section 1, [docs]

    def _lacking(self, what: str) -> Answer | None:
        return as_text("404 page not found", 404) if what in self.shapes.lacks else None

    # -- organizations: sections 2.5 and 3.1

    def _organization(self, slug: str) -> dict[str, Any]:
        own = slug == self.slug
        name, kind = ("personal", "personal") if own else (slug.title(), "team")
        return {"name": name, "slug": slug, "type": kind, "overages": own and self.overages,
                "blocked_reads": False, "blocked_writes": False}  # [docs-24]  # fmt: skip

    def _organizations(self, _call: Call) -> Answer:
        mine = [self._organization(slug) for slug in (self.slug, *self.teams)]
        return as_json(mine if self.shapes.organizations == "bare" else {"organizations": mine})

    def _show_organization(self, _call: Call, slug: str) -> Answer:
        return as_json({"organization": self._organization(slug)})

    def _update_organization(self, call: Call, slug: str) -> Answer:
        self.overages = call.json["overages"]
        return as_json({"organization": self._organization(slug)})

    def _usage(self, _call: Call, _slug: str) -> Answer:
        sums = {"rows_read": 120, "rows_written": 12, self.shapes.storage: 4096 * len(self.databases)}
        databases = [
            {"uuid": database.id, "instances": [], self.shapes.sums: dict(sums)} for database in self.databases.values()
        ]
        whole = {**sums, "databases": len(databases), "locations": 1, "groups": len(self.groups), "bytes_synced": 0}
        return self._lacking("usage") or as_json(
            {"organization": {"uuid": "5f0c1d3e-8f10-11ee-9a51-6a2f4c0b9d70", "usage": whole, "databases": databases}}
        )

    def _plans(self, _call: Call, _slug: str) -> Answer:
        quotas = {"rowsRead": 10**9, "rowsWritten": 25 * 10**6, "databases": 500, "locations": 3, "storage": 9 * 10**9,
                  "groups": 1, "bytesSynced": 3 * 10**9}  # section 10, [docs]  # fmt: skip
        free = {"name": "starter", "price": "0", "prices": [{"value": "0", "timeline": "monthly"}], "quotas": quotas}
        return self._lacking("plans") or as_json({"plans": [free]})

    def _subscription(self, _call: Call, _slug: str) -> Answer:
        told = {"name": "starter", "plan": "starter", "overages": self.overages, "timeline": "monthly"}
        return self._lacking("subscription") or as_json({"subscription": told})

    # -- locations and groups: sections 2.1, 2.2, 2.4, 3.2

    def _locations(self, _call: Call) -> Answer:
        return as_json({"locations": self.shapes.places})

    def _list_groups(self, _call: Call, slug: str) -> Answer:
        return as_json({"groups": [] if slug in self.teams else list(self.groups.values())})

    def _create_group(self, call: Call, _slug: str) -> Answer:
        wish = {key.lower(): value for key, value in call.json.items()}
        name, code = wish["name"], wish["location"]
        if name in self.groups:
            return as_json({"error": "group already exists"}, 409)  # [docs]
        if code not in self.shapes.places:
            return as_json({"error": f"invalid location: {code}"}, 400)  # [inferred], as for 2.4
        self.groups[name] = {
            "name": name, "uuid": str(uuid.uuid1()), "locations": [code], "primary": code, "archived": False,
            "version": "v0.24.18", "delete_protection": False,
        }  # fmt: skip
        return as_json({"group": self.groups[name]})

    def _show_group(self, _call: Call, _slug: str, name: str) -> Answer:
        return as_json({"group": self.groups[name]}) if name in self.groups else self._missing("group")

    def _delete_group(self, _call: Call, _slug: str, name: str) -> Answer:
        if name not in self.groups:
            return self._missing("group")
        for dropped in [database.name for database in self.databases.values() if database.group == name]:
            self._drop(dropped)
        return as_json({"group": self.groups.pop(name)})

    def _add_location(self, _call: Call, _slug: str, name: str, code: str) -> Answer:
        if name not in self.groups:
            return self._missing("group")
        if self.shapes.more_locations is not None:
            return self.shapes.more_locations
        if code not in self.shapes.places:
            return as_json({"error": f"invalid location: {code}"}, 400)
        group = self.groups[name]
        group["locations"] = list(dict.fromkeys([*group["locations"], code]))
        return as_json({"group": group})

    def _remove_location(self, _call: Call, _slug: str, name: str, code: str) -> Answer:
        group = self.groups.get(name)
        if group is None:
            return self._missing("group")
        if code not in group["locations"] or code == group["primary"]:
            return as_json({"error": "Invalid location code"}, 400)
        group["locations"].remove(code)
        return as_json({"group": group})

    def _wait(self, _call: Call, _slug: str, _name: str, _code: str) -> Answer:
        return self._lacking("wait") or Answer()  # 200 without a body [cli]

    def archive(self, name: str) -> None:
        """Archive a group, as the service does after ten days without requests on the free plan [docs]."""
        self.groups[name]["archived"] = True

    def _unarchive(self, _call: Call, _slug: str, name: str) -> Answer:
        if name not in self.groups:
            return self._missing("group")
        self.groups[name]["archived"] = False
        return as_json({"group": self.groups[name]})  # [docs]

    def _configure_group(self, call: Call, _slug: str, name: str) -> Answer:
        if name not in self.groups:
            return self._missing("group")
        self.groups[name] |= call.json
        return as_json({"delete_protection": self.groups[name]["delete_protection"]})  # [docs]

    # -- databases: sections 2.3, 3.3

    def _shown(self, database: _Database) -> dict[str, Any]:
        group = self.groups[database.group]
        archived = group.get("archived", False)
        return {
            "Name": database.name, "DbId": database.id, "Hostname": self._hostname, "group": database.group,
            "primaryRegion": group["primary"], "regions": group["locations"], "type": "logical", "version": "0.24.18",
            "is_schema": False, "schema": "", "block_reads": False, "block_writes": False, "allow_attach": False,
            "archived": archived, "sleeping": archived, "hostname": self._hostname, "delete_protection": False,
        }  # [docs-24][sdk]  # fmt: skip

    @property
    def _hostname(self) -> str:
        """The same for all, since names below a domain do not resolve everywhere; the token names the database."""
        return f"127.0.0.1:{self.port}"

    def _list_databases(self, call: Call, slug: str) -> Answer:
        wanted = re.search(r"group=([\w-]+)", urlsplit(call.path).query)
        mine = [] if slug in self.teams else self.databases.values()
        found = [database for database in mine if wanted is None or database.group == wanted[1]]
        return as_json({"databases": [self._shown(item) for item in found]})

    def _create_database(self, call: Call, _slug: str) -> Answer:
        name, group = call.json["name"], call.json["group"]
        if group not in self.groups:
            return as_json({"error": "group not found"}, 400)  # not 404 [docs]
        if name in self.databases:
            return as_json({"error": f"database with name {name} already exists"}, 409)  # [docs]
        if self.groups[group].get("archived"):  # the text is in [issue turso-cli#894], the status [inferred]
            return as_json({"error": f"cannot create database on group {group} because it is sleeping"}, 400)
        made = _Database(name, group, f"h{uuid.uuid4().hex}", pending=self.shapes.pending)
        self._behind.create(made.inside)
        self.databases[name] = made
        return as_json(
            {"database": {"DbId": made.id, "Hostname": self._hostname, "Name": name}}
        )  # three members [docs]

    def _show_database(self, _call: Call, _slug: str, name: str) -> Answer:
        if name not in self.databases:
            return as_json({"error": f"could not find database with name {name}: record not found"}, 404)  # [docs]
        return as_json({"database": self._shown(self.databases[name])})

    def _delete_database(self, _call: Call, _slug: str, name: str) -> Answer:
        if name not in self.databases:
            return as_json({"error": f"could not find database with name {name}: record not found"}, 404)
        shown = self._shown(self.databases[name])
        self._drop(name)
        return as_json({"database": shown if self.shapes.deleted == "object" else name})

    def _drop(self, name: str) -> None:
        self._behind.manage("DELETE", f"/databases/{self.databases.pop(name).inside}").raise_for_status()

    def _instances(self, _call: Call, _slug: str, name: str) -> Answer:
        if name not in self.databases:
            return self._missing("database")
        group = self.groups[self.databases[name].group]
        found = [
            {"uuid": str(uuid.uuid1()), "name": code, "type": "primary" if code == group["primary"] else "replica",
             "region": code, "hostname": self._hostname}
            for code in group["locations"]
        ]  # fmt: skip
        return self._lacking("instances") or as_json({"instances": found})

    # -- tokens: section 7

    def _create_token(self, call: Call, _slug: str, name: str) -> Answer:
        if name not in self.databases:
            return self._missing("database")
        query = dict(pair.split("=") for pair in urlsplit(call.path).query.split("&") if pair)
        if not re.fullmatch(r"never|(\d+[wdhms])+", query.get("expiration", "never")):
            return as_json({"error": "Invalid expiration format"}, 400)  # [docs]
        if self.shapes.only_full_access and "authorization" in query:
            text = "Permissions are not supported for db-api controlled databases"  # [issue turso-api-client-ts#30]
            return as_json({"error": text}, 400)
        token = self._behind.token(self.databases[name].inside, **query)
        self.issued[token] = name
        return as_json({"jwt": token})

    def _rotate(self, _call: Call, _slug: str, name: str) -> Answer:
        if name not in self.databases:
            return self._missing("database")
        path = f"/databases/{self.databases[name].inside}/auth/rotate"
        self._behind.manage("POST", path).raise_for_status()
        return Answer()  # documented without a body [docs]


_ORG = r"/v1/organizations/([\w-]+)"
_GROUP = rf"{_ORG}/groups/([^/]+)"
_DATABASE = rf"{_ORG}/databases/([^/]+)"
ROUTES: list[tuple[str, str, Callable[..., Answer]]] = [
    ("GET", r"/v1/organizations", HostedApi._organizations),
    ("GET", _ORG, HostedApi._show_organization),
    ("PATCH", _ORG, HostedApi._update_organization),
    ("GET", rf"{_ORG}/usage", HostedApi._usage),
    ("GET", rf"{_ORG}/plans", HostedApi._plans),
    ("GET", rf"{_ORG}/subscription", HostedApi._subscription),
    ("GET", r"/v1/locations", HostedApi._locations),
    ("GET", rf"{_ORG}/groups", HostedApi._list_groups),
    ("POST", rf"{_ORG}/groups", HostedApi._create_group),
    ("GET", _GROUP, HostedApi._show_group),
    ("DELETE", _GROUP, HostedApi._delete_group),
    ("PATCH", rf"{_GROUP}/configuration", HostedApi._configure_group),
    ("POST", rf"{_GROUP}/unarchive", HostedApi._unarchive),
    ("POST", rf"{_GROUP}/locations/([^/]+)", HostedApi._add_location),
    ("DELETE", rf"{_GROUP}/locations/([^/]+)", HostedApi._remove_location),
    ("GET", rf"{_GROUP}/locations/([^/]+)/wait", HostedApi._wait),
    ("GET", rf"{_ORG}/databases", HostedApi._list_databases),
    ("POST", rf"{_ORG}/databases", HostedApi._create_database),
    ("GET", _DATABASE, HostedApi._show_database),
    ("DELETE", _DATABASE, HostedApi._delete_database),
    ("GET", rf"{_DATABASE}/instances", HostedApi._instances),
    ("POST", rf"{_DATABASE}/auth/tokens", HostedApi._create_token),
    ("POST", rf"{_DATABASE}/auth/rotate", HostedApi._rotate),
]

SEED = (
    HostedApi._locations, HostedApi._create_group, HostedApi._add_location, HostedApi._create_database,
    HostedApi._update_organization,
)  # fmt: skip
