"""Audit logs: the entry of a request that changed something, and their list."""

from __future__ import annotations

from typing import Any

import msgspec

from pipemagic.service.api.operations import ORG, ApiRequest, Body, Operation, format_time, number_in_query
from pipemagic.service.catalog.organizations import Role

LARGEST_PAGE = 1000
DETAILS = (
    "name", "group", "location", "username", "role", "overages", "size_limit", "block_reads", "block_writes",
    "delete_protection",
)  # fmt: skip
"""The fields of bodies that entries have; none of them is secret."""


@Operation("GET", f"{ORG}/audit-logs", role=Role.ADMIN, query={
    "page": {"type": "integer", "minimum": 1}, "page_size": {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE},
})  # fmt: skip
def list_audit_logs(request: ApiRequest) -> Any:
    """List who changed what, the newest first, in pages of 100 or ``page_size`` entries."""
    page, size = number_in_query(request, "page", 1), min(number_in_query(request, "page_size", 100), LARGEST_PAGE)
    records, count = request.catalog.audit.page(request["org"], page, size)
    entries = [
        {"code": record.code, "message": "", "origin": record.origin, "author": record.author,
         "created_at": format_time(record.created), "data": msgspec.json.decode(record.data)}
        for record in records
    ]  # fmt: skip
    pagination = {"page": page, "page_size": size, "total_pages": -(-count // size), "total_rows": count}
    return {"audit_logs": entries, "pagination": pagination}


def record(request: ApiRequest, operation: Operation, body: Body | None) -> None:
    """Add the entries of a request that has succeeded to the audit log of its organization."""
    if not operation.audit:
        return
    changes = {} if body is None else {name: value for name, value in body.changes().items() if name in DETAILS}
    data = changes | {{"db": "database"}.get(name, name): value for name, value in request.params.items()}
    organization, author = data.pop("org", ""), request.account.username
    if not organization:
        if operation.audit == "org-create":  # a dry run
            return
        organization = request.catalog.organizations.of(request.account)[0].slug
    agent = request.http.headers.get("user-agent", "")
    origin = "web" if agent.startswith("Mozilla/") else "cli"  # the published API derives it from the same header
    leaves = operation.audit == "org-member-rm" and data["username"] == author
    for code in ["org-member-leave"] if leaves else _codes(operation.audit, changes):
        request.catalog.audit.add(organization, code, author, origin, data)


def _codes(code: str, changes: dict[str, Any]) -> list[str]:
    """Return the codes for a change: one of protection has codes of its own."""
    kind, _, action = code.partition("-")
    if action != "configure":
        return [code]
    protection = changes.get("delete_protection")
    codes = [] if protection is None else [f"{kind}-{'protect' if protection else 'unprotect'}"]
    return [*codes, code] if changes.keys() - {"delete_protection"} else codes
