"""``pipemagic group``: groups of databases, their locations and tokens."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from pipemagic.cli import console
from pipemagic.cli.api import api_command, name_argument
from pipemagic.errors import ServerError, SessionError, UnsupportedError
from pipemagic.management_api.client import Management
from pipemagic.management_api.models import ONE_LOCATION, Group, have_one_location
from pipemagic.suggestions import did_you_mean
from pipemagic.text import plural

wait_option = click.option("-w", "--wait", is_flag=True, help="Wait until all locations are ready.")
codes_argument = click.argument("codes", nargs=-1, required=True, metavar="CODE...")
group_argument = click.argument("name", metavar="GROUP")

group = click.Group("group", help="Manage groups of databases.")


@api_command(group, "create", name_argument)
@click.option("--location", required=True, metavar="CODE", help="The primary location, for example ams.")
@wait_option
def create(api: Management, name: str, location: str, wait: bool) -> None:
    """Create a group and print its name."""
    created = with_location_hint(api.create_group, name, location)
    if wait:
        wait_for_locations(api, created.name, created.locations)
    console.print_line(created.name)


@api_command(group, "list", console.json_option)
def list_groups(api: Management, as_json: bool) -> None:
    """List the groups."""
    groups = api.groups()
    if as_json:
        console.print_json(list(map(group_as_json, groups)))
        return
    console.print_table(["name", "locations", "status", "protected"], [
        (info.name, ", ".join(code + " (primary)" * (code == info.primary) for code in info.locations), info.health,
         "yes" if info.delete_protection else "no")
        for info in groups
    ])  # fmt: skip


@api_command(group, "show", name_argument, console.json_option)
def show(api: Management, name: str, as_json: bool) -> None:
    """Show the details of a group."""
    info = api.group(name)
    if as_json:
        console.print_json(group_as_json(info))
    else:
        locations = ", ".join(info.locations)
        console.print_fields(
            Name=info.name, ID=info.id, Primary=info.primary, Locations=locations, Status=info.health,
            Protected="yes" if info.delete_protection else "no",
        )  # fmt: skip


@api_command(group, "destroy", name_argument, console.yes_option)
def destroy(api: Management, name: str, yes: bool) -> None:
    """Delete a group and all its databases."""
    api.group(name)  # an unknown name is an error before the question
    content = "all databases"
    with suppress(UnsupportedError):
        content = plural(len(api.databases(name)), "database")
    console.confirm(f"Permanently delete the group {name} and {content} in it?", yes=yes)
    api.delete_group(name)
    console.print_line(name)


def group_as_json(info: Group) -> dict[str, Any]:
    """Return the JSON object of a group."""
    return {
        "name": info.name, "uuid": info.id, "primary": info.primary, "locations": list(info.locations),
        "status": dict(info.status), "archived": info.archived, "delete_protection": info.delete_protection,
    }  # fmt: skip


def add_protection_commands(parent: click.Group, owner: str) -> None:
    """Add the commands that protect an ``owner`` from deletion and allow it again."""

    def add(action: str, description: str) -> None:
        @api_command(parent, action, name_argument)
        def command(api: Management, name: str) -> None:
            getattr(api, f"{action}_{owner}")(name)
            console.print_line(name)

        command.help = description

    add("protect", f"Protect a {owner}{' and its databases' * (owner == 'group')} from deletion.")
    add("unprotect", f"Allow the deletion of a {owner} again.")


add_protection_commands(group, "group")


@api_command(group, "unarchive", name_argument)
def unarchive(api: Management, name: str) -> None:
    """Make the databases of an archived group available again.

    The hosted service archives the groups of a free plan after ten days without use.
    """
    console.print_line(api.unarchive_group(name).name)


# -- locations


@group.group()
def locations() -> None:
    """Manage the locations of a group's databases."""


@api_command(locations, "list", group_argument, console.json_option)
def list_locations(api: Management, name: str, as_json: bool) -> None:
    """List a group's locations."""
    info = api.group(name)
    names = {location.code: location.name for location in api.locations()}
    console.print_records(["id", "location", "type", "status"], [
        (code, names.get(code, ""), "primary" if code == info.primary else "replica", info.status.get(code))
        for code in info.locations
    ], as_json=as_json)  # fmt: skip


@api_command(locations, "add", group_argument, codes_argument, wait_option)
def add_locations(api: Management, name: str, codes: Sequence[str], wait: bool) -> None:
    """Replicate a group's databases to more locations."""
    existing = api.group(name).locations
    if repeated := [code for code in codes if code in existing]:
        raise SessionError(f"the group {name} is already at {', '.join(repeated)}")
    if have_one_location(api.locations()):
        console.print_note(ONE_LOCATION)
    for code in codes:
        with_location_hint(api.add_location, name, code)
        if wait:
            wait_for_locations(api, name, [code])
        console.print_line(code)


@api_command(locations, "remove", group_argument, codes_argument, console.yes_option)
def remove_locations(api: Management, name: str, codes: Sequence[str], yes: bool) -> None:
    """Remove a group's replicas from locations."""
    console.confirm(f"Remove the replicas of {name} at {', '.join(codes)}?", yes=yes)
    for code in codes:
        api.remove_location(name, code)
        console.print_line(code)


@api_command(locations, "pause", group_argument, codes_argument)
@click.option(
    "--replication-only", is_flag=True, help="Only stop the replication: the locations answer reads with older data."
)
def pause_locations(api: Management, name: str, codes: Sequence[str], replication_only: bool) -> None:
    """Pause a group at locations, to simulate an outage."""
    for code in codes:
        api.pause_location(name, code, replication_only=replication_only)
        console.print_line(code)


@api_command(locations, "resume", group_argument, codes_argument, wait_option)
def resume_locations(api: Management, name: str, codes: Sequence[str], wait: bool) -> None:
    """Resume a group at locations."""
    for code in codes:
        api.resume_location(name, code)
        if wait:
            wait_for_locations(api, name, [code])
        console.print_line(code)


def wait_for_locations(api: Management, name: str, codes: Sequence[str]) -> None:
    """Wait until a group is ready at locations; a service that reports no status has it ready when it is created."""
    with suppress(UnsupportedError):
        for code in codes:
            api.wait_for_location(name, code)


def with_location_hint(call: Callable[[str, str], Group], name: str, code: str) -> Group:
    """Call a method of the API, and add a hint to the error for an unknown location."""
    try:
        return call(name, code)
    except ServerError as error:
        if "location" in error.message.lower() and error.status in (400, 404):
            raise error.replace(hint="`pipemagic db locations` lists the codes") from None
        raise


@contextmanager
def with_group_hint(api: Management, group: str | None) -> Iterator[None]:
    """Add a hint to the error for an unknown group."""
    try:
        yield
    except ServerError as error:
        if group is None or "group not found" not in error.message:
            raise
        raise error.replace(hint=_group_hint(api, group)) from None


def _group_hint(api: Management, group: str) -> str:
    """Return the hint for an unknown group, which names the existing ones."""
    names: list[str] = []
    with suppress(UnsupportedError):
        names = sorted(existing.name for existing in api.groups())
    line = f"create it with `pipemagic group create {shlex.quote(group)} --location CODE`"
    if not names:
        return f"{line}; `pipemagic db locations` lists the codes"
    return did_you_mean(group, names) or f"the groups are {', '.join(names)}; {line}"


# -- tokens


def add_token_commands(parent: click.Group, owner: str, *, prefix: str = "", also: str = "") -> None:
    """Add the commands for the tokens of an ``owner``; the API's methods for it have the prefix.

    ``also`` names what else the tokens are for.
    """

    @parent.group(help=f"Manage tokens for a {owner}{also}.")
    def tokens() -> None:
        """Manage tokens."""

    @api_command(tokens, "create", name_argument)
    @click.option("-r", "--read-only", is_flag=True, help="Create a token that cannot write.")
    @click.option(
        "-e", "--expiration", default="never", show_default=True, metavar="TIME", help="For example 7d or 1w2d6h3m."
    )
    def create(api: Management, name: str, **options: Any) -> None:
        """Print a new token."""
        console.print_line(getattr(api, f"create_{prefix}token")(name, **options))

    @api_command(tokens, "invalidate", name_argument, console.yes_option)
    def invalidate(api: Management, name: str, yes: bool) -> None:
        """Invalidate all tokens created so far."""
        getattr(api, owner)(name)  # an unknown name is an error before the question
        console.confirm(f"All tokens of the {owner} {name}{also} will stop working. Continue?", yes=yes)
        getattr(api, f"invalidate_{prefix}tokens")(name)
        console.print_line(name)


add_token_commands(group, "group", prefix="group_", also=" and its databases")
