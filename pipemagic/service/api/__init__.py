"""The management API: accounts, organizations, locations, groups, databases and their tokens, as JSON over HTTP.

Each module has the functions of one subject, which `operations.Operation` registers.
"""

from __future__ import annotations

from collections import defaultdict
from inspect import isgenerator

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pipemagic.service.api import (  # the operations
    accounts,  # noqa: F401
    audit,
    databases,  # noqa: F401
    groups,  # noqa: F401
    organizations,  # noqa: F401
    tokens,  # noqa: F401
    usage,  # noqa: F401
)
from pipemagic.service.api.operations import OPERATIONS, ORG, ApiRequest, Operation, Reach, ServiceParts, parse_body
from pipemagic.service.catalog.catalog import unknown_database
from pipemagic.service.catalog.organizations import Role
from pipemagic.service.endpoint import SMALL_BODY, Endpoint, Runtime
from pipemagic.service.executor import Steps, Tenant
from pipemagic.service.request import ServiceRequest
from pipemagic.service.responses import JSON, Refused, compress_if_large, json

PREFIXES = ("/v1/", "/v2/organizations", "/v2/locations", "/v2/auth/", "/v3/organizations")
"""Prefixes of the paths of the management API, at the service's own address."""

MANAGEMENT: Tenant = "management"


def routes(runtime: Runtime, parts: ServiceParts) -> list[BaseRoute]:
    """Return the routes of the management API, for the service's own address.

    A path without an organization is in that of the token if it has one, otherwise in the personal one: the public
    command-line tool omits it if none is selected.
    """
    methods: dict[str, dict[str, Operation]] = defaultdict(dict)
    for operation in OPERATIONS:
        for path in {operation.path, operation.path.replace(f"{ORG}/", "/v1/")}:
            methods[path][operation.method] = operation
    paths = [Route(path, ManagementEndpoint(runtime, parts, by_method)) for path, by_method in methods.items()]
    others = ManagementEndpoint(runtime, parts, {})
    return [*paths, *(Route(f"{prefix}{{rest:path}}", others) for prefix in PREFIXES)]


class ManagementEndpoint(Endpoint):
    """An endpoint for one path of the management API, with its operations by method; unknown paths have none."""

    def __init__(self, runtime: Runtime, parts: ServiceParts, operations: dict[str, Operation]) -> None:
        super().__init__(runtime, self._handle, body_limit=SMALL_BODY)
        self._parts, self._operations = parts, operations

    async def admit(self, request: ServiceRequest) -> Tenant:  # noqa: ARG002
        """Admit every request: bodies are small, and the token is checked in the worker, which reads the catalog."""
        return MANAGEMENT

    def _handle(self, request: ServiceRequest, body: bytes) -> Steps[Response]:
        """Check the token and the role, and call the function."""
        operation = self._operations.get("GET" if request.method == "HEAD" else request.method)
        api_request = ApiRequest(self._parts, request, dict(request.path_params))
        if operation is None or not operation.public:
            authorization = request.headers.get("authorization")
            api_request.credential = self._parts.tokens.credential(authorization)
            request.is_use = True
        if not self._operations:
            raise Refused(404, f"there is no {request.scope['path']} in the management API")
        if operation is None:
            allowed = ", ".join(sorted(self._operations))
            raise Refused(405, f"{request.method} is not allowed here, only {allowed}", headers={"allow": allowed})
        _authorize(api_request, operation)
        arguments = [] if operation.body is None else [parse_body(operation.body, body)]
        result = operation.function(api_request, *arguments)
        response = json((yield from result) if isgenerator(result) else result)
        audit.record(api_request, operation, arguments[0] if arguments else None)
        compress_if_large(response, request)
        return response


def _authorize(request: ApiRequest, operation: Operation) -> None:
    """Raise `Refused` if the sender may not use the operation; set the role in the organization of the path."""
    if operation.public:
        # A web page of another origin cannot send this content type without a preflight request.
        content_type = request.http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if operation.body is not None and content_type != JSON:
            raise Refused(400, f"send the body with Content-Type: {JSON}")
        return
    if operation.operator and not request.account.operator:
        raise Refused(403, f"only the operator of this service {operation.operator}")
    if "{org}" in operation.path:
        organizations = request.catalog.organizations
        if "org" not in request.params:
            own = request.limits.organization if request.limits else organizations.of(request.account)[0].slug
            request.params["org"] = own
        role = organizations.role(request["org"], request.account)
        if role is None and operation.for_operator and request.account.operator:
            organizations.get(request["org"])  # 404 if there is none
            role = Role.MEMBER
        if role is None:
            raise Refused(404, "organization not found")  # not 403, which would disclose names of organizations
        if role < operation.needs:
            raise Refused(
                403, f"your role in {request['org']} is {role.label}; this requires the role {operation.needs.label}"
            )
        request.role = role
    _check_limits(request, operation)


def _check_limits(request: ApiRequest, operation: Operation) -> None:
    """Raise `Refused` if the limits of the token exclude the operation, or what its path names.

    For a group's token, other groups and their databases do not exist.
    """
    limits = request.limits
    if limits is None:
        return
    slug = request.params.get("org", limits.organization)
    if slug != limits.organization or operation.reach is Reach.ACCOUNT:
        what = f"the organization {slug}" if slug != limits.organization else "a token without limits"
        raise Refused(403, f"the token is limited to the organization {limits.organization}; this requires {what}")
    if limits.group_id is None:
        return
    if operation.reach is Reach.ORGANIZATION:
        raise Refused(
            403, f"the token is limited to the group {limits.group}; this requires a token of the organization"
        )
    if operation.scope and operation.scope not in limits.scopes:
        raise Refused(403, f"the token does not have the scope {operation.scope}, which this requires")
    name = request.params.get("group")
    if name is not None and request.catalog.group(slug, name).id != limits.group_id:
        raise Refused(404, "group not found")
    name = request.params.get("db")
    if name is not None and request.catalog.database(slug, name).group_id != limits.group_id:
        raise unknown_database(name)
