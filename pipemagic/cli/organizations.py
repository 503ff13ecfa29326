"""``pipemagic org`` and ``pipemagic plan``: organizations, who is in them, what they may use."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pipemagic.cli.base import Commands, confirm, say, say_fields, say_json, say_table
from pipemagic.cli.credentials import Credentials
from pipemagic.cli.platform import management, memory_key
from pipemagic.errors import NotFound, UnsupportedError

RESOURCES = ["rows_read", "rows_written", "storage_bytes", "databases", "groups", "locations"]
"""What quotas are about, in the order shown."""


def add_commands(top: Commands) -> None:
    """Declare the commands."""
    org = top.group("org", "organizations")
    org.add("list", _list, "list the organizations and their slugs", listing=True)
    org.add("switch", _switch, "make an organization the current one").add_argument("slug", metavar="SLUG")
    org.add("create", _create, "make an organization and print its slug").add_argument("name", metavar="NAME")
    members = org.group("members", "who belongs to the organization")
    members.add("list", _list_members, "list the members and their roles", organization=True, listing=True)
    add = members.add("add", _add_member, "let an account in and print its name", organization=True)
    add.add_argument("username", metavar="NAME")
    add.add_argument("--role", choices=["admin", "member", "viewer"], default="member")
    remove = members.add("remove", _remove_member, "take an account out", organization=True, destroys=True)
    remove.add_argument("username", metavar="NAME")

    plan = top.group("plan", "the organization's plan")
    plan.add("show", _show_plan, "show the plan, and what was used of it this month", organization=True, listing=True)
    overages = plan.group("overages", "whether the organization may go past its quotas")
    overages.add("enable", _enable, "let it", organization=True)
    overages.add("disable", _disable, "block statements beyond the quotas", organization=True)


# -- organizations


def _list(options: argparse.Namespace) -> None:
    with management(options) as api:
        organizations = api.organizations()
        current = api.slug if organizations else ""
    if options.json:
        say_json([
            {"name": one.name, "slug": one.slug, "type": one.type, "current": one.slug == current}
            for one in organizations
        ])  # fmt: skip
        return
    say_table(["name", "slug", "type"], [
        (one.name, f"{one.slug} (current)" if one.slug == current else one.slug, one.type) for one in organizations
    ])  # fmt: skip


def _switch(options: argparse.Namespace) -> None:
    with management(options) as api:
        known = [one.slug for one in api.organizations()]
    if options.slug not in known:
        raise NotFound(
            f"there is no organization {options.slug!r}", status=404, hint="`pipemagic org list` shows those there are"
        )
    Credentials().put(memory_key(options), organization=options.slug)
    say(options.slug)


def _create(options: argparse.Namespace) -> None:
    with management(options) as api:
        say(api.create_organization(options.name).slug)


def _list_members(options: argparse.Namespace) -> None:
    with management(options) as api:
        members = api.members()
    if options.json:
        say_json([{"username": one.username, "role": one.role} for one in members])
    else:
        say_table(["username", "role"], [(one.username, one.role) for one in members])


def _add_member(options: argparse.Namespace) -> None:
    with management(options) as api:
        say(api.add_member(options.username, options.role).username)


def _remove_member(options: argparse.Namespace) -> None:
    with management(options) as api:
        confirm(options, f"Take {options.username} out of {api.slug}?")
        api.remove_member(options.username)
    say(options.username)


# -- the plan


def _show_plan(options: argparse.Namespace) -> None:
    with management(options) as api:
        organization = api.organization()
        try:
            subscription, used = api.subscription(), api.usage().figures
            limits = next((one.quotas for one in api.plans() if one.name == subscription.plan), {})
            plan, overages = subscription.plan, subscription.overages
        except UnsupportedError:  # a small API: only the setting is known
            plan, overages, used, limits = "", None, {}, {}
    overages = organization.overages if overages is None else overages
    if options.json:
        say_json({
            "organization": organization.slug, "plan": plan, "overages": overages,
            "used": dict(used), "quotas": dict(limits),
        })  # fmt: skip
        return
    say_fields([
        ("Organization", organization.slug), ("Plan", plan or "unknown"),
        ("Overages", {True: "on", False: "off", None: "unknown"}[overages]),
    ])  # fmt: skip
    if used:
        say("")
        say_table(["resource", "used", "limit", "limit %"], [_line(name, used, limits) for name in RESOURCES])


def _line(name: str, used: Mapping[str, int], limits: Mapping[str, int]) -> tuple[str, str, str, str]:
    count = used.get(name, 0)
    limit = limits.get(name, 0)
    share = f"{100 * count / limit:.0f}%" if limit else ""
    return name.removesuffix("_bytes").replace("_", " "), _amount(name, count), _amount(name, limit, "unlimited"), share


def _amount(name: str, count: int, none: str = "0") -> str:
    if not count:
        return none
    return size(count) if name.endswith("_bytes") else f"{count:,}"


def size(count: int) -> str:
    """Write a number of bytes for people."""
    amount, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1000
        units.pop(0)
    return f"{amount:.1f} {units[0]}" if units[0] != "B" else f"{count} B"


def _enable(options: argparse.Namespace) -> None:
    _set_overages(options, on=True)


def _disable(options: argparse.Namespace) -> None:
    _set_overages(options, on=False)


def _set_overages(options: argparse.Namespace, *, on: bool) -> None:
    with management(options) as api:
        said = api.update_organization(overages=on).overages
    say("enabled" if said else "disabled")
