"""%pipedb organization, locations, groups, databases, create-group, create-database, add-location, overages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.errors import AlreadyExists
from pipemagic.notebook import outcomes
from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import IF_NOT_EXISTS, Command, Context
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pandas import DataFrame

NO_LIST = "This management API has no list of {what}; these are the ones made here."


def organization(context: Context, args: Arguments) -> None:
    """Choose or show the organization."""
    chosen = context.session.organization(args.get("SLUG"), at=args.get("--at"), token_env=args.get("--token-env"))
    say(outcomes.describe_organization(chosen))


def locations(context: Context, args: Arguments) -> DataFrame:
    """Give the locations as a DataFrame, or how far away those in use are."""
    from pandas import DataFrame

    platform = context.session.platform
    rows = [(location.code, location.name) for location in platform.locations()]
    if not args.on("--latency"):
        return DataFrame(rows, columns=["location", "place"])
    from pipemagic.session.latency import addresses, latencies

    places = dict(rows)
    measured = [(one.code, places.get(one.code, ""), str(one)) for one in latencies(addresses(platform))]
    if not measured:
        say("There is no database to measure the way to.")
    return DataFrame(measured, columns=["location", "place", "latency"])


def groups(context: Context, args: Arguments) -> DataFrame:  # noqa: ARG001
    """Give the groups as a DataFrame."""
    from pandas import DataFrame

    listing = context.session.platform.groups()
    if not listing.complete:
        say(NO_LIST.format(what="groups"))
    rows = [(group.name, group.primary, ", ".join(group.locations)) for group in listing.items]
    return DataFrame(rows, columns=["group", "primary", "locations"])


def databases(context: Context, args: Arguments) -> DataFrame:  # noqa: ARG001
    """Give the databases as a DataFrame."""
    from pandas import DataFrame

    listing = context.session.platform.databases()
    if not listing.complete:
        say(NO_LIST.format(what="databases"))
    rows = [(database.name, database.group) for database in listing.items]
    return DataFrame(rows, columns=["database", "group"])


def create_group(context: Context, args: Arguments) -> None:
    """Create a group."""
    group = context.session.platform.create_group(
        args["NAME"], args["--location"], if_not_exists=args.on("--if-not-exists")
    )
    say(outcomes.describe_group(group))


def add_location(context: Context, args: Arguments) -> None:
    """Add a location to a group."""
    group = context.session.platform.add_location(args["GROUP"], args["CODE"], if_not_exists=args.on("--if-not-exists"))
    say(outcomes.describe_group(group))


def create_database(context: Context, args: Arguments) -> None:
    """Create a database."""
    platform, name, group, file = context.session.platform, args["NAME"], args["--group"], args.get("--from-file")
    if_not_exists, existed = args.on("--if-not-exists"), False
    if file is None:
        database = platform.create_database(name, group, if_not_exists=if_not_exists)
    else:
        try:
            database = platform.create_database(name, group, file=Path(file).expanduser())
        except AlreadyExists:
            if not if_not_exists:
                raise
            database, existed = platform.create_database(name, group, if_not_exists=True), True
    say(outcomes.describe_database(database))
    if existed:
        say(f"It existed already: {file} was not loaded.")


def overages(context: Context, args: Arguments) -> None:
    """Allow the organization to go past its quotas, or not."""
    say(outcomes.set_overages(context.session.platform, on=args["SETTING"] == "on"))


COMMANDS: tuple[Command, ...] = (
    Command(
        "organization",
        "Choose the organization for the commands below, or show which it is",
        organization,
        (Positional("SLUG", "the organization or personal account", optional=True),),
        (
            Option("--at", "the address of the management API; by default the embedded service", "URL"),
            Option("--token-env", "the environment variable that holds the platform token", "VARIABLE"),
        ),
    ),
    Command(
        "locations",
        "List the locations that a group can have",
        locations,
        options=(Option("--latency", "list those where databases are, and the time that a small request takes there"),),
    ),
    Command("groups", "List the groups", groups),
    Command("databases", "List the databases", databases),
    Command(
        "create-group",
        "Create a group",
        create_group,
        (Positional("NAME", "the group's name"),),
        (Option("--location", "its primary location", "CODE", required=True), IF_NOT_EXISTS),
    ),
    Command(
        "create-database",
        "Create a database in a group",
        create_database,
        (Positional("NAME", "the database's name"),),
        (
            Option("--group", "the group it belongs to", "GROUP", required=True),
            Option("--from-file", "begin with the content of this SQLite file, which may be in use", "FILE"),
            IF_NOT_EXISTS,
        ),
    ),
    Command(
        "add-location",
        "Replicate a group to one more location",
        add_location,
        (Positional("GROUP", "the group's name"), Positional("CODE", "the location")),
        (IF_NOT_EXISTS,),
    ),
    Command(
        "overages",
        "Allow the organization to go past its quotas, or not",
        overages,
        (Positional("SETTING", "on or off", choices=("on", "off")),),
    ),
)
