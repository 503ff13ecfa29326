"""Endpoints about what was used, and what there is to use."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pipemagic.service.management.databases import DATABASE
from pipemagic.service.management.routing import ORG, Call, Route, route
from pipemagic.service.registry.quotas import month_of
from pipemagic.service.registry.records import DatabaseRecord
from pipemagic.service.registry.usage import Counts
from pipemagic.service.responses import Refused

PLAN = "self-hosted"


def organization_usage(call: Call) -> Any:
    """Show what an organization has used in this month, with each of its databases."""
    call.platform.meter.flush()
    catalog, month = call.catalog, call.platform.meter.month
    record = catalog.organizations.get(call["org"])
    groups, databases = catalog.groups(record.slug), catalog.databases(record.slug)
    shown = [_database(call, database, month, month) for database in databases]
    return {"organization": {
        "uuid": record.id,
        "usage": {
            **_counts(catalog.usage.of_organization(record.slug, month)),
            "storage_bytes": sum(one["usage"]["storage_bytes"] for one in shown),
            "bytes_synced": 0,
            "databases": len(databases),
            "groups": len(groups),
            "locations": sum(len(group.locations) for group in groups),
        },
        "databases": shown,
    }}  # fmt: skip


def database_usage(call: Call) -> Any:
    """Show what a database has used in the calendar months from ``from`` to ``to``, as a rule the current one."""
    call.platform.meter.flush()
    month = call.platform.meter.month
    first, last = _month(call, "from", month), _month(call, "to", month)
    shown = _database(call, call.catalog.database(call["org"], call["db"]), first, last)
    return {"database": shown, "instances": {one["uuid"]: one["usage"] for one in shown["instances"]},
            "total": shown["total"]}  # fmt: skip


def database_stats(call: Call) -> Any:
    """Show the most expensive queries, which are not recorded."""
    call.catalog.database(call["org"], call["db"])
    return {"top_queries": []}  # not null: a published client walks through them


def database_queries(call: Call) -> Any:
    """Show the same in the way that the public command-line tool asks for it."""
    call.catalog.database(call["org"], call["db"])
    return []


def plans(call: Call) -> Any:
    """Show the one plan that there is, with the quotas of the organization; 0 is no limit."""
    quotas = call.catalog.usage.quotas(call["org"])
    return {"plans": [{
        "name": PLAN, "price": "0", "prices": [],
        "quotas": {
            "rowsRead": quotas.rows_read, "rowsWritten": quotas.rows_written, "storage": quotas.storage_bytes,
            "databases": 0, "locations": 0, "groups": 0, "bytesSynced": 0,
        },
    }]}  # fmt: skip


def subscription(call: Call) -> Any:
    """Show which plan the organization has."""
    overages = call.catalog.organizations.get(call["org"]).overages
    return {"subscription": {"name": PLAN, "plan": PLAN, "overages": overages, "timeline": "monthly"}}


def invoices(_call: Call) -> Any:
    """List the invoices; nothing costs anything."""
    return {"invoices": []}


def _database(call: Call, record: DatabaseRecord, first: str, last: str) -> dict[str, Any]:
    """Give a database's usage; all of it is the primary's, whichever location answered."""
    counts = call.catalog.usage.of_database(record.id, first, last)
    used = {**_counts(counts), "storage_bytes": call.platform.meter.size(record.id), "bytes_synced": 0}
    instance = {"uuid": f"{record.id}-{record.locations[0]}", "usage": used}
    return {"uuid": record.id, "name": record.name, "instances": [instance], "usage": used, "total": used}


def _counts(counts: Counts) -> dict[str, int]:
    return {"rows_read": counts.rows_read, "rows_written": counts.rows_written}


def _month(call: Call, name: str, default: str) -> str:
    """Read a moment in RFC 3339 and give its month."""
    text = call.request.query_params.get(name)
    if not text:
        return default
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None or "T" not in text.upper():
            raise ValueError(text)
        return month_of(moment.timestamp())
    except (ValueError, OverflowError, OSError):
        raise Refused(400, f'"{name}" must be a time as 2026-01-31T00:00:00Z') from None


ROUTES: tuple[Route, ...] = (
    route("GET", f"{ORG}/usage", organization_usage),
    route("GET", f"{ORG}/plans", plans),
    route("GET", f"{ORG}/subscription", subscription),
    route("GET", f"{ORG}/invoices", invoices),
    route("GET", f"{DATABASE}/usage", database_usage),
    route("GET", f"{DATABASE}/usage/queries", database_queries),
    route("GET", f"{DATABASE}/stats", database_stats),
)
