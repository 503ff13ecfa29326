"""``pipemagic group``: groups of databases, their locations and tokens."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pipemagic.cli.base import Commands, confirm, say, say_fields, say_json, say_table
from pipemagic.cli.platform import management
from pipemagic.counts import plural
from pipemagic.errors import ServerError, SessionError, UnsupportedError

if TYPE_CHECKING:
    from pipemagic.client.management import Management
    from pipemagic.client.resources import Group

LOCATIONS_HINT = "`pipemagic db locations` lists the codes"


def add_commands(top: Commands) -> None:
    """Declare the commands."""
    group = top.group("group", "groups of databases")
    create = group.add("create", _create, "create a group and print its name", organization=True)
    create.add_argument("name", metavar="NAME")
    create.add_argument("--location", required=True, metavar="CODE", help="the primary location, for example ams")
    add_wait(create)
    group.add("list", _list, "list the groups", organization=True, listing=True)
    show = group.add("show", _show, "show what is known about a group", organization=True, listing=True)
    show.add_argument("name", metavar="NAME")
    destroy = group.add("destroy", _destroy, "delete a group with all its databases", organization=True, destroys=True)
    destroy.add_argument("name", metavar="NAME")
    _add_locations(group.group("locations", "where a group's databases are"))

    tokens = group.group("tokens", "tokens for all databases of a group")
    create = tokens.add("create", _create_token, "print a new token for a group's databases", organization=True)
    create.add_argument("name", metavar="GROUP")
    add_token_options(create)
    invalidate = tokens.add(
        "invalidate", _invalidate, "make all tokens of a group and its databases invalid",
        organization=True, destroys=True,
    )  # fmt: skip
    invalidate.add_argument("name", metavar="GROUP")


def _add_locations(locations: Commands) -> None:
    add = locations.add("add", _add_location, "replicate a group's databases to more locations", organization=True)
    add_wait(add)
    remove = locations.add(
        "remove", _remove_location, "remove a group's replicas at locations", organization=True, destroys=True
    )
    pause = locations.add("pause", _pause, "take locations of a group down", organization=True)
    resume = locations.add("resume", _resume, "take locations of a group up again", organization=True)
    for parser in (add, remove, pause, resume):
        parser.add_argument("name", metavar="GROUP")
        parser.add_argument("codes", nargs="+", metavar="CODE", help="a location, for example nrt")
    listing = locations.add("list", _list_locations, "list a group's locations", organization=True, listing=True)
    listing.add_argument("name", metavar="GROUP")


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Declare --wait."""
    parser.add_argument("-w", "--wait", action="store_true", help="return when it is ready to be used")


def add_token_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of new tokens."""
    parser.add_argument("-r", "--read-only", action="store_true", help="a token that cannot write")
    parser.add_argument(
        "-e", "--expiration", default="never", metavar="TIME", help="7d, 1w2d6h3m, never (default)"
    )  # fmt: skip


# -- groups


def _create(options: argparse.Namespace) -> None:
    with management(options) as api:
        group = _with_hint(lambda: api.create_group(options.name, options.location))
        if options.wait:
            _wait(api, group.name, group.locations)
    say(group.name)


def _list(options: argparse.Namespace) -> None:
    with management(options) as api:
        groups = api.groups()
    if options.json:
        say_json([_as_json(group) for group in groups])
        return
    say_table(["name", "locations", "status"], [
        (group.name, ", ".join(_marked(group)), _state(group)) for group in groups
    ])  # fmt: skip


def _show(options: argparse.Namespace) -> None:
    with management(options) as api:
        group = api.group(options.name)
    if options.json:
        say_json(_as_json(group))
        return
    say_fields([
        ("Name", group.name), ("ID", group.id), ("Primary", group.primary),
        ("Locations", ", ".join(group.locations)), ("Status", _state(group)),
    ])  # fmt: skip


def _destroy(options: argparse.Namespace) -> None:
    with management(options) as api:
        api.group(options.name)  # a wrong name is said before the question
        try:
            count = len(api.databases(options.name))
            what = f"{plural(count, 'database')} in it"
        except UnsupportedError:
            what = "all databases in it"
        confirm(options, f"Delete the group {options.name} with {what}, for good?")
        api.delete_group(options.name)
    say(options.name)


# -- locations


def _list_locations(options: argparse.Namespace) -> None:
    with management(options) as api:
        group = api.group(options.name)
        names = {one.code: one.name for one in api.locations()}
    if options.json:
        say_json([
            {"id": code, "location": names.get(code, ""), "type": _kind(group, code), "status": group.status.get(code)}
            for code in group.locations
        ])  # fmt: skip
        return
    say_table(["id", "location", "type", "status"], [
        (code, names.get(code, ""), _kind(group, code), group.status.get(code, "")) for code in group.locations
    ])  # fmt: skip


def _add_location(options: argparse.Namespace) -> None:
    with management(options) as api:
        known = api.group(options.name).locations
        if there := [code for code in options.codes if code in known]:
            raise SessionError(f"the group {options.name} is at {', '.join(there)} already")
        for code in options.codes:
            _with_hint(lambda code=code: api.add_location(options.name, code))
            if options.wait:
                _wait(api, options.name, [code])
            say(code)


def _remove_location(options: argparse.Namespace) -> None:
    with management(options) as api:
        confirm(options, f"Remove the replicas of {options.name} at {', '.join(options.codes)}?")
        for code in options.codes:
            api.remove_location(options.name, code)
            say(code)


def _pause(options: argparse.Namespace) -> None:
    with management(options) as api:
        for code in options.codes:
            api.pause_location(options.name, code)
            say(code)


def _resume(options: argparse.Namespace) -> None:
    with management(options) as api:
        for code in options.codes:
            api.resume_location(options.name, code)
            say(code)


def _wait(api: Management, group: str, codes: Any) -> None:
    for code in codes:
        try:
            api.wait_for_location(group, code)
        except UnsupportedError:  # what cannot be waited for is ready when it is made
            return


# -- tokens


def _create_token(options: argparse.Namespace) -> None:
    with management(options) as api:
        say(str(api.create_group_token(options.name, expiration=options.expiration, read_only=options.read_only)))


def _invalidate(options: argparse.Namespace) -> None:
    with management(options) as api:
        api.group(options.name)
        confirm(options, f"All tokens of the group {options.name} and its databases will be refused. Go on?")
        api.invalidate_group_tokens(options.name)
    say(options.name)


# -- words


def _as_json(group: Group) -> dict[str, Any]:
    return {
        "name": group.name, "uuid": group.id, "primary": group.primary, "locations": list(group.locations),
        "status": dict(group.status),
    }  # fmt: skip


def _marked(group: Group) -> list[str]:
    return [f"{code} (primary)" if code == group.primary else code for code in group.locations]


def _kind(group: Group, code: str) -> str:
    return "primary" if code == group.primary else "replica"


def _state(group: Group) -> str:
    """Say in a word how a group is: without its primary nothing is written, without a replica reads are slower."""
    bad = {code for code, state in group.status.items() if state not in ("ok", "")}
    if not bad:
        return "healthy"
    return ("unhealthy" if group.primary in bad else "degraded") + f" ({', '.join(sorted(bad))})"


def _with_hint(call: Any) -> Group:
    try:
        group: Group = call()
    except ServerError as error:
        if "location" in error.message.lower() and error.status in (400, 404):
            error.hint = LOCATIONS_HINT
        raise
    return group
