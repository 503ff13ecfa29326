"""Usage, quotas and plans."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from pipemagic.service.api.databases import DATABASE
from pipemagic.service.api.operations import ORG, ApiRequest, Body, Count, Operation, Size, parse_time, size_in_bytes
from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.catalog.usage import DEFAULT, Quotas, month_of

log = logging.getLogger(__name__)

PLAN = "self-hosted"
QUOTAS = "/v1/quotas"
OPERATOR = "may read and change quotas"


class QuotaSettings(Body):
    """Quotas: rows in a calendar month, bytes at any time; 0: no limit. Missing ones do not change."""

    rows_read: Count | None = None
    rows_written: Count | None = None
    storage_bytes: Size | None = None


@Operation("GET", f"{ORG}/usage")
def get_organization_usage(request: ApiRequest) -> Any:
    """Return the usage of an organization and of each of its databases in this month."""
    request.parts.meter.flush()
    catalog, month = request.catalog, request.parts.meter.month
    record, groups = catalog.organizations.get(request["org"]), catalog.groups(request["org"])
    databases = [_usage_json(request, database, month, month) for database in catalog.databases(request["org"])]
    return {"organization": {
        "uuid": record.id,
        "usage": {
            **catalog.usage.of_organization(record.slug, month)._asdict(),
            "storage_bytes": sum(database["usage"]["storage_bytes"] for database in databases),
            "bytes_synced": 0,
            "databases": len(databases),
            "groups": len(groups),
            "locations": sum(len(group.locations) for group in groups),
        },
        "databases": databases,
    }}  # fmt: skip


@Operation("GET", f"{DATABASE}/usage", query={"from": {"type": "string"}, "to": {"type": "string"}})
def get_database_usage(request: ApiRequest) -> Any:
    """Return the usage of a database in the months from ``from`` to ``to``, by default the current one."""
    request.parts.meter.flush()
    first, last = _parse_month(request, "from"), _parse_month(request, "to")
    usage = _usage_json(request, request.catalog.database(request["org"], request["db"]), first, last)
    instances = {instance["uuid"]: instance["usage"] for instance in usage["instances"]}
    return {"database": usage, "instances": instances, "total": usage["total"]}


@Operation("GET", f"{DATABASE}/stats")
def get_database_stats(request: ApiRequest) -> Any:
    """Return the ten slowest statements of the last 24 hours, on average, and the ten most frequent, without values."""
    return {"top_queries": _queries_json(request, None)}  # a list: a published client iterates over it


@Operation("GET", f"{DATABASE}/usage/queries", query={"from": {"type": "string"}})
def get_database_queries(request: ApiRequest) -> Any:
    """Return the same list for the public command-line tool, with the statements since ``from``."""
    start = request.http.query_params.get("from")
    return _queries_json(request, parse_time(start, "from") if start else None)


def _queries_json(request: ApiRequest, since: float | None) -> list[dict[str, Any]]:
    """Return statements as JSON; only this service has ``runs`` and ``mean_duration_ms``."""
    database = request.catalog.database(request["org"], request["db"])
    return [
        {
            "query": query, "rows_read": counts.rows_read, "rows_written": counts.rows_written, "runs": counts.runs,
            "mean_duration_ms": round(counts.seconds * 1000 / counts.runs, 3),
        }
        for query, counts in request.parts.meter.queries.top(database.id, since)
    ]  # fmt: skip


@Operation("GET", f"{ORG}/plans")
def list_plans(request: ApiRequest) -> Any:
    """Return the only plan, with the quotas of the organization; 0 is no limit."""
    quotas = request.catalog.usage.quotas(request["org"])
    return {"plans": [{
        "name": PLAN, "price": "0", "prices": [],
        "quotas": {
            "rowsRead": quotas.rows_read, "rowsWritten": quotas.rows_written, "storage": quotas.storage_bytes,
            "databases": 0, "locations": 0, "groups": 0, "bytesSynced": 0,
        },
    }]}  # fmt: skip


@Operation("GET", f"{ORG}/subscription")
def get_subscription(request: ApiRequest) -> Any:
    """Return the plan of the organization."""
    overages = request.catalog.organizations.get(request["org"]).overages
    return {"subscription": {"name": PLAN, "plan": PLAN, "overages": overages, "timeline": "monthly"}}


@Operation("GET", f"{ORG}/invoices")
def list_invoices(_request: ApiRequest) -> Any:
    """List the invoices; there are none."""
    return {"invoices": []}


@Operation("GET", QUOTAS, operator=OPERATOR)
def list_quotas(request: ApiRequest) -> Any:
    """Return the default quotas, and for each organization its own (or null) and its usage in this month."""
    request.parts.meter.flush()
    usage, month = request.catalog.usage, request.parts.meter.month
    organizations = {}
    for record in request.catalog.organizations.all():
        own, figures = usage.own_quotas(record.slug), usage.of_organization(record.slug, month)
        organizations[record.slug] = {"quotas": own and msgspec.structs.asdict(own), "usage": figures._asdict()}
    return {"default": msgspec.structs.asdict(usage.own_quotas(DEFAULT) or Quotas()), "organizations": organizations}


@Operation("PATCH", QUOTAS, operator=OPERATOR)
def update_default_quotas(request: ApiRequest, body: QuotaSettings) -> Any:
    """Change the quotas of all organizations without quotas of their own."""
    return _update_quotas(request, DEFAULT, body)


@Operation("GET", f"{QUOTAS}/{{slug}}", operator=OPERATOR)
def get_quotas(request: ApiRequest) -> Any:
    """Return the quotas of one organization."""
    organization = request.catalog.organizations.get(request["slug"])
    return {"quotas": msgspec.structs.asdict(request.catalog.usage.quotas(organization.slug))}


@Operation("PATCH", f"{QUOTAS}/{{slug}}", operator=OPERATOR)
def update_quotas(request: ApiRequest, body: QuotaSettings) -> Any:
    """Change the quotas of one organization."""
    return _update_quotas(request, request.catalog.organizations.get(request["slug"]).slug, body)


@Operation("DELETE", f"{QUOTAS}/{{slug}}", operator=OPERATOR)
def remove_quotas(request: ApiRequest) -> Any:
    """Remove the quotas of one organization; the default ones apply again."""
    request.catalog.usage.set_quotas(request["slug"], None)
    return get_quotas(request)


def _update_quotas(request: ApiRequest, slug: str, body: QuotaSettings) -> Any:
    changes = {name: size_in_bytes(value) for name, value in body.changes().items()}
    quotas = msgspec.structs.replace(request.catalog.usage.quotas(slug), **changes)
    request.catalog.usage.set_quotas(slug, quotas)
    log.info("quotas of %s: %s", slug or "all organizations", quotas)
    return {"quotas": msgspec.structs.asdict(quotas)}


def _usage_json(request: ApiRequest, record: DatabaseRecord, first: str, last: str) -> dict[str, Any]:
    """Return the usage of a database as JSON; all of it is counted at the primary."""
    counts = request.catalog.usage.of_database(record.id, first, last)
    usage = {**counts._asdict(), "storage_bytes": request.parts.meter.size(record.id), "bytes_synced": 0}
    instance = {"uuid": f"{record.id}-{record.locations[0]}", "usage": usage}
    return {"uuid": record.id, "name": record.name, "instances": [instance], "usage": usage, "total": usage}


def _parse_month(request: ApiRequest, name: str) -> str:
    """Return the month of a time in the query; raise `Refused` (400) if that is not a time."""
    text = request.http.query_params.get(name)
    if not text:
        return request.parts.meter.month
    return month_of(parse_time(text, name))
