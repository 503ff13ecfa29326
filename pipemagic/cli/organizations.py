"""``pipemagic org`` and ``pipemagic plan``: organizations, their members, and their quotas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from pipemagic.cli import console
from pipemagic.cli.api import CredentialsFile, SelectedService, api_command, data_option, management, name_argument
from pipemagic.errors import NotFound, UnsupportedError
from pipemagic.management_api.client import Management
from pipemagic.management_api.models import describe_data
from pipemagic.text import format_size

RESOURCES = ["rows_read", "rows_written", "storage_bytes", "databases", "groups", "locations"]
"""The resources of quotas, in the order of the output."""

username_argument = click.argument("username", metavar="NAME")

org = click.Group("org", help="Manage organizations.")


@api_command(org, "list", console.json_option, in_organization=False)
def list_organizations(api: Management, as_json: bool) -> None:
    """List the organizations and their slugs."""
    organizations = api.organizations()
    current = api.slug if organizations else ""
    if as_json:
        console.print_json([
            {"name": organization.name, "slug": organization.slug, "type": organization.type,
             "current": organization.slug == current}
            for organization in organizations
        ])  # fmt: skip
        return
    rows = [
        (organization.name, organization.slug + " (current)" * (organization.slug == current), organization.type)
        for organization in organizations
    ]
    console.print_table(["name", "slug", "type"], rows)


@org.command()
@click.argument("slug")
@data_option
def switch(data: Path | None, slug: str) -> None:
    """Make an organization the current one."""
    with management(data) as api:
        if slug not in [organization.slug for organization in api.organizations()]:
            hint = "list the organizations with `pipemagic org list`"
            raise NotFound(f"organization {slug!r} does not exist", status=404, hint=hint)
    CredentialsFile().put(SelectedService(data).account_key, organization=slug)
    console.print_line(slug)


@api_command(org, "create", name_argument, in_organization=False)
def create_organization(api: Management, name: str) -> None:
    """Create an organization and print its slug."""
    console.print_line(api.create_organization(name).slug)


@org.group()
def members() -> None:
    """Manage the members of an organization."""


@api_command(members, "list", console.json_option)
def list_members(api: Management, as_json: bool) -> None:
    """List the members and their roles."""
    console.print_records(
        ["username", "role"], [(member.username, member.role) for member in api.members()], as_json=as_json
    )


@api_command(members, "add", username_argument)
@click.option(
    "--role", type=click.Choice(["admin", "member", "viewer"]), default="member", show_default=True,
    help="What the account may do.",
)  # fmt: skip
def add_member(api: Management, username: str, role: str) -> None:
    """Add an account to the organization and print its name."""
    console.print_line(api.add_member(username, role).username)


@api_command(members, "remove", username_argument, console.yes_option)
def remove_member(api: Management, username: str, yes: bool) -> None:
    """Remove an account from the organization."""
    console.confirm(f"Remove {username} from {api.slug}?", yes=yes)
    api.remove_member(username)
    console.print_line(username)


@org.group("audit-logs")
def audit_logs() -> None:
    """Show who changed what in an organization."""


@api_command(audit_logs, "list", console.json_option)
@click.option("-p", "--page", type=click.IntRange(1), default=1, show_default=True, help="The page.")
@click.option(
    "-s",
    "--limit",
    type=click.IntRange(1, 1000),
    default=25,
    show_default=True,
    help="The number of entries of a page.",
)
def list_audit_logs(api: Management, page: int, limit: int, as_json: bool) -> None:
    """List the changes, the newest first."""
    rows = [
        (entry.created, entry.author, entry.origin, entry.code, describe_data(entry.data))
        for entry in api.audit_logs(page, limit)
    ]
    console.print_records(["created", "author", "origin", "code", "data"], rows, as_json=as_json)


# -- the plan

plan = click.Group("plan", help="Show the plan and its quotas.")


@api_command(plan, "show", console.json_option)
def show(api: Management, as_json: bool) -> None:
    """Show the plan and this month's usage."""
    organization = api.organization()
    try:
        subscription, figures = api.subscription(), api.usage().figures
        limits = next((item.quotas for item in api.plans() if item.name == subscription.plan), {})
        name, overages = subscription.plan, subscription.overages
    except UnsupportedError:  # a small API has nothing but the setting
        name, overages, figures, limits = "", None, {}, {}
    overages = organization.overages if overages is None else overages
    if as_json:
        console.print_json({
            "organization": organization.slug, "plan": name, "overages": overages,
            "used": dict(figures), "quotas": dict(limits),
        })  # fmt: skip
        return
    state = {True: "on", False: "off", None: "unknown"}[overages]
    console.print_fields(Organization=organization.slug, Plan=name or "unknown", Overages=state)
    if figures:
        console.print_line()
        console.print_table(
            ["resource", "used", "limit", "limit %"], [usage_row(name, figures, limits) for name in RESOURCES]
        )


def usage_row(name: str, used: Mapping[str, int], limits: Mapping[str, int]) -> tuple[str, str, str, str]:
    """Return the cells of a resource: its name, the amount used, the limit, and the used share of it."""
    count, limit = used.get(name, 0), limits.get(name, 0)
    amount = format_size if name.endswith("_bytes") else "{:,}".format
    cells = (amount(limit), f"{100 * count / limit:.0f}%") if limit else ("unlimited", "")
    return name.removesuffix("_bytes").replace("_", " "), amount(count) if count else "0", *cells


@api_command(plan, "overages", click.argument("state", type=click.Choice(["enable", "disable"])))
def overages(api: Management, state: str) -> None:
    """Allow statements beyond the quotas, or block them."""
    enabled = api.update_organization(overages=state == "enable").overages
    console.print_line("enabled" if enabled else "disabled")
