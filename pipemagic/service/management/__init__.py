"""The management API: accounts, organizations, locations, groups, databases and their tokens, as JSON over HTTP.

One module per subject holds its endpoints and its table of routes; a new endpoint is a function of a `Call`
and a line in that table.
"""

from __future__ import annotations

from pipemagic.service.http import Refused, Request, Response, empty, json
from pipemagic.service.management import databases, groups, organizations, places, tokens
from pipemagic.service.management.routing import Call, Platform, Route

ROUTES: tuple[Route, ...] = (
    *places.ROUTES, *organizations.ROUTES, *groups.ROUTES, *databases.ROUTES, *tokens.ROUTES,
)  # fmt: skip


class Management:
    """All endpoints below ``/v1/``."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    def handle(self, request: Request) -> Response:
        """Authenticate, find the endpoint and call it; every refusal becomes an answer."""
        try:
            return self._route(request)
        except Refused as refused:
            return refused.response()

    def _route(self, request: Request) -> Response:
        account = self.platform.tokens.check_platform(request.headers.get("authorization"))
        method = "GET" if request.method == "HEAD" else request.method
        allowed = []
        for route in ROUTES:
            match = route.pattern.fullmatch(request.path)
            if match and route.method == method:
                call = Call(self.platform, request, account, match.groupdict())
                if "org" in call.parts:
                    self._check_organization(call)
                answer = route.endpoint(call)
                return answer if isinstance(answer, Response) else json(answer)
            if match:
                allowed.append(route.method)
        if allowed:
            return empty(405, ("allow", ", ".join(sorted(allowed))))
        raise Refused(404, f"there is no {request.path} in the management API")

    def _check_organization(self, call: Call) -> None:
        if self.platform.catalog.organization(call["org"]).account != call.account.id:
            raise Refused(404, "organization not found")  # not 403: other people's names are not given away
