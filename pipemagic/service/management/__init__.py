"""The management API: accounts, organizations, locations, groups, databases and their tokens, as JSON over HTTP.

One module per subject holds its endpoints and its table of routes; a new endpoint is a function of a `Call`
and a line in that table.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from inspect import isgenerator
from typing import Any

from starlette import routing as starlette
from starlette.requests import Request

from pipemagic.service.compression import SMALLEST, compress
from pipemagic.service.endpoint import SMALL_BODY, Admission, CancelToken, Endpoint, Runtime
from pipemagic.service.executor import Steps, Tenant
from pipemagic.service.management import (
    accounts,
    configuration,
    databases,
    groups,
    locations,
    members,
    organizations,
    places,
    quotas,
    tokens,
    usage,
)
from pipemagic.service.management.routing import Call, Platform, Route
from pipemagic.service.responses import MethodNotAllowed, Refused, ServiceResponse, json

ROUTES: tuple[Route, ...] = (
    *accounts.ROUTES, *places.ROUTES, *organizations.ROUTES, *members.ROUTES, *groups.ROUTES, *locations.ROUTES,
    *databases.ROUTES, *configuration.ROUTES, *tokens.ROUTES, *usage.ROUTES, *quotas.ROUTES,
)  # fmt: skip

PREFIXES = ("/v1/", "/v2/organizations", "/v2/locations", "/v2/auth/")
"""Prefixes of the paths of the management API, at the service's own address."""

MANAGEMENT = Tenant("management", "management")


def routes(runtime: Runtime, platform: Platform) -> list[starlette.BaseRoute]:
    """Return the routes of the management API, for the service's own address."""
    methods: dict[str, dict[str, Route]] = defaultdict(dict)
    for route in ROUTES:
        methods[route.path][route.method] = route
    known = [starlette.Route(path, ManagementEndpoint(runtime, platform, found)) for path, found in methods.items()]
    others = OtherPaths(runtime, platform, known)
    return [*known, *(starlette.Route(f"{prefix}{{rest:path}}", others) for prefix in PREFIXES)]


class ManagementEndpoint(Endpoint):
    """An endpoint for one path of the management API; ``routes`` has its methods."""

    def __init__(self, runtime: Runtime, platform: Platform, routes: dict[str, Route]) -> None:
        super().__init__(runtime, body_limit=SMALL_BODY)
        self._platform, self._routes = platform, routes

    async def admit(self, request: Request) -> Admission:  # noqa: ARG002
        """Admit every request: bodies are small, and the token is checked in the worker, which reads the catalog."""
        return Admission(MANAGEMENT)

    def handle(self, request: Request, admission: Admission, body: bytes, cancel: CancelToken) -> Steps:  # noqa: ARG002
        """Check the token and the role, and call the endpoint."""
        route = self._routes.get(_method(request))
        call = Call(self._platform, request, None, request.path_params, body, cancel)
        if route is None or not route.public:
            call = replace(call, credential=_credential(self._platform, request))
        return (yield from self.run(call))

    def run(self, call: Call) -> Steps:
        """Call the function for the request's method, after the token was checked."""
        route = self._routes.get(_method(call.request))
        if route is None:
            raise MethodNotAllowed(", ".join(sorted(self._routes)))
        answer = route.endpoint(_admit(call, route) if not route.public and "org" in call.parts else call)
        if isgenerator(answer):
            answer = yield from answer
        response = answer if isinstance(answer, ServiceResponse) else json(answer)
        if len(response.body) >= SMALLEST:
            compress(response, call.request)
        return response


class OtherPaths(ManagementEndpoint):
    """An endpoint for all other paths, some of which leave out the organization."""

    def __init__(self, runtime: Runtime, platform: Platform, known: list[starlette.Route]) -> None:
        super().__init__(runtime, platform, {})
        self._known = known

    def run(self, call: Call) -> Steps:
        """Find the path in the personal organization.

        The public command-line tool leaves out the organization if none is selected.
        """
        path: str = call.request.scope["path"]
        if path.startswith("/v1/"):
            slug = call.catalog.organizations.personal(call.account).slug
            scope = {**call.request.scope, "path": f"/v1/organizations/{slug}/{path.removeprefix('/v1/')}"}
            for route in self._known:
                match, found = route.matches(scope)
                if match is starlette.Match.FULL:
                    return (yield from found["endpoint"].run(replace(call, parts=found["path_params"])))
        raise Refused(404, f"there is no {path} in the management API")


def _method(request: Request) -> str:
    return "GET" if request.method == "HEAD" else request.method


def _credential(platform: Platform, request: Request) -> Any:
    return platform.tokens.credential(request.headers.get("authorization"))


def _admit(call: Call, route: Route) -> Call:
    """Return the call with the account's role in the organization of its path; raise `Refused` if that is too low."""
    role = call.catalog.organizations.role(call["org"], call.account)
    if role is None:
        raise Refused(404, "organization not found")  # not 403, which would disclose the names of other organizations
    if role < route.needs:
        raise Refused(403, f"your role in {call['org']} is {role.label}; this takes the role {route.needs.label}")
    return replace(call, role=role)
