"""The management API: accounts, organizations, locations, groups, databases and their tokens, as JSON over HTTP.

One module per subject holds its endpoints and its table of routes; a new endpoint is a function of a `Call`
and a line in that table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pipemagic.service.http import Later, Refused, Request, Response, empty, json
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

ROUTES: tuple[Route, ...] = (
    *accounts.ROUTES, *places.ROUTES, *organizations.ROUTES, *members.ROUTES, *groups.ROUTES, *locations.ROUTES,
    *databases.ROUTES, *configuration.ROUTES, *tokens.ROUTES, *usage.ROUTES, *quotas.ROUTES,
)  # fmt: skip

PREFIXES = ("/v1/", "/v2/organizations", "/v2/locations", "/v2/auth/")
"""Paths that begin so are of the management API, at the service's own address."""


class Management:
    """All endpoints of the management API."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    def handle(self, request: Request) -> Response | Later:
        """Find the endpoint, authenticate and call it; every refusal becomes an answer."""
        try:
            return self._answer(request)
        except Refused as refused:
            return refused.response()

    def _answer(self, request: Request) -> Response | Later:
        found = _find(request.method, request.path)
        if found.route is not None and found.route.public:
            return _run(found.route, Call(self.platform, request, None, found.parts))
        credential = self.platform.tokens.credential(request.headers.get("authorization"))
        if found.route is None and not found.allowed and request.path.startswith("/v1/"):
            # With no organization selected the public command-line tool leaves it out: the personal one is meant.
            slug = self.platform.catalog.organizations.personal(credential.account).slug
            found = _find(request.method, f"/v1/organizations/{slug}/{request.path.removeprefix('/v1/')}")
        if found.route is None:
            if found.allowed:
                return empty(405, ("allow", ", ".join(sorted(found.allowed))))
            raise Refused(404, f"there is no {request.path} in the management API")
        call = Call(self.platform, request, credential, found.parts)
        return _run(found.route, _admit(call, found.route) if "org" in call.parts else call)


class _Found(NamedTuple):
    route: Route | None
    parts: dict[str, str]
    allowed: list[str]
    """The methods that the path knows, if the method that was asked for is not one of them."""


def _find(method: str, path: str) -> _Found:
    method = "GET" if method == "HEAD" else method
    allowed = []
    for route in ROUTES:
        match = route.pattern.fullmatch(path)
        if match and route.method == method:
            return _Found(route, match.groupdict(), [])
        if match:
            allowed.append(route.method)
    return _Found(None, {}, allowed)


def _admit(call: Call, route: Route) -> Call:
    """Let a call into the organization of its path, if the account's role there allows it."""
    role = call.catalog.organizations.role(call["org"], call.account)
    if role is None:
        raise Refused(404, "organization not found")  # not 403: other people's names are not given away
    if role < route.needs:
        raise Refused(403, f"your role in {call['org']} is {role.label}; this takes the role {route.needs.label}")
    return replace(call, role=role)


def _run(route: Route, call: Call) -> Response | Later:
    answer = route.endpoint(call)
    return answer if isinstance(answer, Response | Later) else json(answer)
