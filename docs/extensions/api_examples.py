"""Real requests and responses of the service, as examples in the reference of its APIs."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from pipemagic.service.api.openapi import description
from pipemagic.service.app import create_app
from pipemagic.service.endpoint import Runtime
from pipemagic.service.metrics import Metrics
from pipemagic.service.service import Service

NEW_YEAR = 1_767_225_600.0  # 2026-01-01T00:00:00Z
PASSWORD = "correct horse"
CODE = "K7QF2MXB"  # instead of the real one
LIST = 2  # the first entries of a long list

ACME, FLIGHTS = "/v1/organizations/acme", "/v1/organizations/acme/databases/flights"
EDGE = f"{ACME}/groups/edge"
ADA = {"username": "ada", "password": PASSWORD}
STMT = {"sql": "SELECT ? AS n", "args": [{"type": "integer", "value": "1"}]}
EXECUTE = {"requests": [{"type": "execute", "stmt": STMT}]}
BATCH = {"batch": {"steps": [
    {"stmt": {"sql": "CREATE TABLE t (a)"}},
    {"condition": {"type": "ok", "step": 0}, "stmt": {"sql": "INSERT INTO t VALUES (1)"}},
]}}  # fmt: skip
CURSOR = {"batch": {"steps": [{"stmt": {"sql": "SELECT 1 AS n"}}]}}

# Who sends each request, and its body. They run in this order.
CALLS: list[tuple[str, str, str, Any]] = [
    ("", "GET", "/health", None),
    ("", "GET", "/version", None),
    ("", "POST", "/v1/auth/signup", ADA),
    ("", "POST", "/v1/auth/login", ADA),
    ("operator", "POST", "/v1/users", {"username": "grace", "password": PASSWORD}),
    ("ada", "GET", "/v1/user", None),
    ("ada", "GET", "/v1/current-user", None),
    ("ada", "GET", "/v1/auth/validate", None),
    ("ada", "GET", "/v1/auth/api-tokens/validate", None),
    ("ada", "POST", "/v1/organizations", {"name": "Acme"}),
    ("ada", "GET", "/v1/organizations", None),
    ("ada", "GET", "/v2/organizations", None),
    ("ada", "GET", ACME, None),
    ("ada", "PATCH", ACME, {"overages": True}),
    ("ada", "POST", f"{ACME}/members", {"username": "grace", "role": "member"}),
    ("ada", "DELETE", f"{ACME}/members/grace", None),
    ("ada", "POST", f"{ACME}/members/grace", {"role": "viewer"}),
    ("ada", "PATCH", f"{ACME}/members/grace", {"role": "admin"}),
    ("ada", "GET", f"{ACME}/members", None),
    ("ada", "GET", f"{ACME}/members/grace", None),
    ("ada", "POST", "/v2/organizations/acme/invites", {"username": "local", "role": "viewer"}),
    ("ada", "GET", "/v2/organizations/acme/invites", None),
    ("ada", "GET", f"{ACME}/audit-logs?page_size=2", None),
    ("ada", "GET", "/v1/locations", None),
    ("ada", "GET", "/v2/locations", None),
    ("ada", "GET", "/v2/organizations/acme/locations", None),
    ("ada", "GET", "/v1/locations/ams", None),
    ("", "GET", "/v1/closest", None),
    ("ada", "POST", f"{ACME}/groups", {"name": "edge", "location": "ams"}),
    ("ada", "POST", "/v2/auth/api-tokens/deploy", {"organization": "acme"}),
    (
        "ada",
        "POST",
        "/v1/auth/api-tokens/ci",
        {"organization": "acme", "group": "edge", "scopes": ["db:create", "read"]},
    ),
    ("ada", "GET", "/v1/auth/api-tokens", None),
    ("ada", "GET", "/v2/auth/api-tokens", None),
    ("ada", "GET", f"{ACME}/api-tokens", None),
    ("ada", "DELETE", f"{ACME}/api-tokens/{{id}}", None),
    ("ada", "DELETE", "/v2/auth/api-tokens/deploy", None),
    ("ada", "POST", "/v2/auth/api-tokens/deploy", {"organization": "acme"}),
    ("ada", "DELETE", "/v1/auth/api-tokens/deploy", None),
    ("ada", "POST", f"{EDGE}/locations/lhr", None),
    ("ada", "GET", f"{EDGE}/locations/lhr/wait", None),
    ("ada", "POST", f"{EDGE}/locations/lhr/pause", None),
    ("ada", "POST", f"{EDGE}/locations/lhr/resume", None),
    ("ada", "GET", f"{ACME}/groups", None),
    ("ada", "GET", EDGE, None),
    ("ada", "POST", f"{EDGE}/unarchive", None),
    ("ada", "GET", f"{EDGE}/configuration", None),
    ("ada", "PATCH", f"{EDGE}/configuration", {"delete_protection": False}),
    ("ada", "POST", f"{ACME}/databases", {"name": "flights", "group": "edge", "size_limit": "256mb"}),
    ("ada", "GET", f"{ACME}/databases?group=edge", None),
    ("ada", "GET", FLIGHTS, None),
    ("ada", "GET", f"{FLIGHTS}/instances", None),
    ("ada", "GET", f"{FLIGHTS}/instances/ams", None),
    ("ada", "GET", f"{FLIGHTS}/configuration", None),
    ("ada", "PATCH", f"{FLIGHTS}/configuration", {"block_writes": False, "size_limit": "1gb"}),
    ("ada", "POST", f"{FLIGHTS}/wakeup", None),
    ("ada", "POST", f"{FLIGHTS}/update", None),
    ("ada", "POST", f"{EDGE}/auth/tokens?authorization=read-only", {}),
    ("ada", "POST", f"{FLIGHTS}/auth/tokens?expiration=7d", {}),
    ("ada", "POST", f"{FLIGHTS}/auth/codes?expiration=2h", {"replace": True}),
    ("", "POST", "/v1/auth/code", {"code": CODE, "key": "a secret of the client's"}),
    ("flights", "GET", "/v2", None),
    ("flights", "GET", "/v3", None),
    ("flights", "POST", "/v2/pipeline", EXECUTE),
    ("flights", "POST", "/v3/pipeline", EXECUTE),
    ("flights", "POST", "/v3/cursor", CURSOR),
    ("flights", "POST", "/v1/execute", {"stmt": STMT}),
    ("flights", "POST", "/v1/batch", BATCH),
    ("ada", "GET", f"{ACME}/usage", None),
    ("ada", "GET", f"{FLIGHTS}/usage?from=2026-01-01T00:00:00Z", None),
    ("ada", "GET", f"{FLIGHTS}/stats", None),
    ("ada", "GET", f"{FLIGHTS}/usage/queries", None),
    ("ada", "GET", f"{ACME}/plans", None),
    ("ada", "GET", f"{ACME}/subscription", None),
    ("ada", "GET", f"{ACME}/invoices", None),
    ("operator", "PATCH", "/v1/quotas", {"rows_written": 1_000_000, "storage_bytes": "200mb"}),
    ("operator", "GET", "/v1/quotas", None),
    ("operator", "PATCH", "/v1/quotas/acme", {"rows_read": 5_000_000}),
    ("operator", "GET", "/v1/quotas/acme", None),
    ("operator", "DELETE", "/v1/quotas/acme", None),
    ("ada", "POST", f"{FLIGHTS}/auth/rotate", None),
    ("ada", "POST", f"{EDGE}/auth/rotate", None),
    ("ada", "DELETE", FLIGHTS, None),
    ("ada", "DELETE", f"{EDGE}/locations/lhr", None),
    ("ada", "DELETE", EDGE, None),
    ("ada", "DELETE", ACME, None),
    ("ada", "POST", "/v1/auth/invalidate", None),
    ("", "POST", "/v1/auth/login", ADA),
    ("ada", "POST", "/v1/auth/password", {"password": "another horse", "current": PASSWORD}),
]


class Example(NamedTuple):
    """A request and its response; either body is None if there is none, a response in lines is text."""

    path: str
    body: Any
    response: Any


def examples() -> dict[tuple[str, str], Example]:
    """Run the requests in a service over a temporary folder; return them by method and path of the description."""
    found: dict[tuple[str, str], Example] = {}
    for name in ("httpx", "pipemagic"):
        logging.getLogger(name).setLevel(logging.WARNING)  # the build prints only problems
    with TemporaryDirectory(prefix="pipemagic-docs-", ignore_cleanup_errors=True) as folder:
        service = Service(Path(folder), now=lambda: NEW_YEAR, signup=True)
        service.start()
        try:
            for method, path, example in asyncio.run(_run(service)):
                found[method, _template(method, path)] = example
        finally:
            service.close()
    return found


async def _run(service: Service) -> list[tuple[str, str, Example]]:
    done, app = [], create_app(service, Runtime(), metrics=Metrics())

    async def with_state(scope: Any, receive: Any, send: Any) -> None:
        """Call the service as uvicorn does."""
        await app({**scope, "state": {}}, receive, send)

    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=with_state))
    operator = service.catalog.accounts.find("local") or service.catalog.open_account("local")
    tokens, token_id, code = {"operator": service.tokens.issue_platform(operator, "docs")[1]}, "", ""
    for sender, method, path, body in CALLS:
        host = "flights-acme.localhost" if sender == "flights" else "127.0.0.1"
        headers = {"Authorization": f"Bearer {tokens[sender]}"} if sender else {}
        path = path.replace("{id}", token_id)
        sent = {**body, "code": code} if path == "/v1/auth/code" else body
        response = await client.request(method, f"http://{host}:8080{path}", json=sent, headers=headers)
        if response.status_code != 200:
            raise RuntimeError(f"{method} {path}: {response.status_code} {response.text}")
        if path == "/v1/auth/login":
            tokens["ada"] = response.json()["token"]
        if path.startswith("/v1/auth/api-tokens/ci"):
            token_id = response.json()["id"]
        if path.startswith(f"{FLIGHTS}/auth/codes"):
            code = response.json()["code"]
        if path.startswith(f"{FLIGHTS}/auth/tokens"):
            tokens["flights"] = response.json()["jwt"]
        is_json = response.headers.get("content-type") == "application/json"
        answer = _shortened(response.json()) if is_json else _without_baton(response.text)
        done.append((method, path, Example(path, body, answer)))
    return done


def _template(method: str, path: str) -> str:
    """Return the path of the description that a request has; exact ones first."""
    plain = path.partition("?")[0]
    for template in sorted(description()["paths"], key=lambda text: text.count("{")):
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))
        if method.lower() in description()["paths"][template] and re.fullmatch(pattern, plain):
            return str(template)
    raise RuntimeError(f"{method} {path} is not described")


def _shortened(value: Any, key: str = "") -> Any:
    """Replace tokens, and leave out all but the first locations."""
    if isinstance(value, dict):
        items = list(value.items())[: LIST if key in ("locations", "aws", "fly") and len(value) > LIST else None]
        return {name: _shortened(item, name) for name, item in items}
    if isinstance(value, list):
        return [_shortened(item) for item in value[: LIST if key == "closest" else None]]
    if key == "code" and len(value) == len(CODE):
        return CODE
    if isinstance(value, str) and (key == "baton" or value.startswith(("eyJ", "pml_", "pmp_"))):
        return "…"
    return value


def _without_baton(text: str) -> str:
    return re.sub(r'("baton": ?)"[^"]+"', r'\1"…"', text.strip())
