"""The management API: accounts, organizations, locations, groups, databases and their tokens, as JSON over HTTP.

Each module has the functions of one subject, which `routing.Route` registers.
"""

from __future__ import annotations

from collections import defaultdict
from inspect import isgenerator

from starlette import routing as starlette
from starlette.responses import Response

from pipemagic.service.api import accounts, databases, groups, organizations, tokens, usage  # noqa: F401 - routes
from pipemagic.service.api.routing import ORG, ROUTES, ApiRequest, Route, ServiceParts, parse_body
from pipemagic.service.catalog.organizations import Role
from pipemagic.service.endpoint import SMALL_BODY, Endpoint, Runtime
from pipemagic.service.executor import Steps, Tenant
from pipemagic.service.request import ServiceRequest
from pipemagic.service.responses import JSON, Refused, compress_if_large, json, wrong_method

PREFIXES = ("/v1/", "/v2/organizations", "/v2/locations", "/v2/auth/")
"""Prefixes of the paths of the management API, at the service's own address."""

MANAGEMENT: Tenant = "management"


def routes(runtime: Runtime, parts: ServiceParts) -> list[starlette.BaseRoute]:
    """Return the routes of the management API, for the service's own address.

    A path without an organization is in the personal one: the public command-line tool omits it if none is selected.
    """
    methods: dict[str, dict[str, Route]] = defaultdict(dict)
    for route in ROUTES:
        for path in {route.path, route.path.replace(f"{ORG}/", "/v1/")}:
            methods[path][route.method] = route
    paths = [
        starlette.Route(path, ManagementEndpoint(runtime, parts, by_method)) for path, by_method in methods.items()
    ]
    others = ManagementEndpoint(runtime, parts, {})
    return [*paths, *(starlette.Route(f"{prefix}{{rest:path}}", others) for prefix in PREFIXES)]


class ManagementEndpoint(Endpoint):
    """An endpoint for one path of the management API; ``routes`` has its methods, and is empty for unknown paths."""

    def __init__(self, runtime: Runtime, parts: ServiceParts, routes: dict[str, Route]) -> None:
        super().__init__(runtime, self._handle, body_limit=SMALL_BODY)
        self._parts, self._routes = parts, routes

    async def admit(self, request: ServiceRequest) -> Tenant:  # noqa: ARG002
        """Admit every request: bodies are small, and the token is checked in the worker, which reads the catalog."""
        return MANAGEMENT

    def _handle(self, request: ServiceRequest, body: bytes) -> Steps[Response]:
        """Check the token and the role, and call the function."""
        route = self._routes.get("GET" if request.method == "HEAD" else request.method)
        api_request = ApiRequest(self._parts, request, dict(request.path_params))
        if route is None or not route.public:
            authorization = request.headers.get("authorization")
            api_request.credential = self._parts.tokens.credential(authorization)
            request.is_use = True
        if not self._routes:
            raise Refused(404, f"there is no {request.scope['path']} in the management API")
        if route is None:
            raise wrong_method(", ".join(sorted(self._routes)))
        _authorize(api_request, route)
        arguments = [] if route.body is None else [parse_body(route.body, body)]
        result = route.endpoint(api_request, *arguments)
        response = json((yield from result) if isgenerator(result) else result)
        compress_if_large(response, request)
        return response


def _authorize(request: ApiRequest, route: Route) -> None:
    """Raise `Refused` if the sender may not use the route; set the role in the organization of the path."""
    if route.public:
        # A web page of another origin cannot send this content type without a preflight request.
        content_type = request.http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if route.body is not None and content_type != JSON:
            raise Refused(400, f"send the body with Content-Type: {JSON}")
        return
    if route.operator and not request.account.operator:
        raise Refused(403, f"only the operator of this service {route.operator}")
    if "{org}" in route.path:
        organizations = request.catalog.organizations
        if "org" not in request.params:
            request.params["org"] = organizations.of(request.account)[0].slug
        role = organizations.role(request["org"], request.account)
        if role is None and route.for_operator and request.account.operator:
            organizations.get(request["org"])  # 404 if there is none
            role = Role.MEMBER
        if role is None:
            raise Refused(404, "organization not found")  # not 403, which would disclose names of organizations
        if role < route.needs:
            raise Refused(
                403, f"your role in {request['org']} is {role.label}; this requires the role {route.needs.label}"
            )
        request.role = role
