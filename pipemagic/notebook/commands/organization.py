"""Manage the organization: groups, locations, databases, tokens, usage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.errors import AlreadyExists, NotFound, UnsupportedError, UsageError
from pipemagic.notebook import outcomes
from pipemagic.notebook.arguments import Option, Positional
from pipemagic.notebook.commands.base import CommandContext, CommandGroup, check_confirmed, frame_of
from pipemagic.notebook.display import say
from pipemagic.scopes import SCOPES, expand, summary
from pipemagic.text import format_size

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.secrets import Secret
    from pipemagic.management_api.models import Group, TopQuery
    from pipemagic.session.organization import Organization

GROUP = CommandGroup("Groups and databases")

RESOURCES = ("rows_read", "rows_written", "storage_bytes", "databases", "groups", "locations", "bytes_synced")
"""The resources in the order of the table of `usage`."""

IF_NOT_EXISTS = Option("--if-not-exists", "succeed if it already exists")
IF_EXISTS = Option("--if-exists", "succeed if it does not exist")
CONFIRM = Option("--confirm", "required, because this cannot be undone")
GROUP_NAME = Positional("GROUP", "the name of the group")
DATABASE = Positional("DATABASE", "the name of the database", completes="database")


@GROUP.command(
    Positional("SLUG", "the organization or personal account", optional=True),
    Option("--at", "the address of the management API; by default the embedded service", "URL"),
    Option("--token-env", "the environment variable that contains the platform token", "VARIABLE"),
)
def organization(context: CommandContext) -> None:
    """Select the organization that commands use, or show the current one.

    %pipedb organization
    %pipedb organization acme --at https://api.example.com --token-env API_TOKEN
    """
    args = context.args
    chosen = context.session.choose_organization(
        args.get("SLUG"), at=args.get("--at"), token_env=args.get("--token-env")
    )
    say(outcomes.describe_organization(chosen))


@GROUP.command(Option("--latency", "list the locations of databases with the round-trip time to each"))
def locations(context: CommandContext) -> DataFrame:
    """List the locations that a group can have.

    %pipedb locations
    """
    rows = [(location.code, location.name) for location in context.organization.locations()]
    if not context.args.on("--latency"):
        return frame_of(rows, "location", "place")
    from pipemagic.session.latency import instances_in_use, latencies

    places = dict(rows)
    measured = [
        (latency.code, places.get(latency.code, ""), str(latency))
        for latency in latencies(instances_in_use(context.organization))
    ]
    if not measured:
        say("There are no databases, so there is no latency to measure.")
    return frame_of(measured, "location", "place", "latency")


@GROUP.command()
def groups(context: CommandContext) -> DataFrame:
    """List the groups.

    %pipedb groups
    """
    listing = context.organization.groups()
    _warn_if_incomplete(listing.complete, "groups")
    rows = (
        (
            group.name,
            group.primary,
            ", ".join(group.locations),
            _status(group),
            group.delete_protection,
        )
        for group in listing.items
    )
    return frame_of(rows, "group", "primary", "locations", "status", "protected")


def _status(group: Group) -> str:
    """Return the state of a group, or of those of its locations that do not work as usual; a copy is no such state."""
    troubled = [f"{code} {state}" for code, state in group.status.items() if state not in ("ok", "copying", "")]
    return "archived" if group.archived else ", ".join(troubled) or "ok"


@GROUP.command()
def databases(context: CommandContext) -> DataFrame:
    """List the databases.

    %pipedb databases
    """
    listing = context.organization.databases()
    _warn_if_incomplete(listing.complete, "databases")
    columns = ["database", "group", "status", "protected", "parent"]
    rows = [
        (database.name, database.group, database.status, database.delete_protection, database.parent)
        for database in listing.items
    ]
    if not any(database.parent for database in listing.items):
        return frame_of((row[:-1] for row in rows), *columns[:-1])
    return frame_of(rows, *columns)


def _warn_if_incomplete(complete: bool, what: str) -> None:
    if not complete:
        say(f"This management API cannot list {what}. The list has only the {what} created in this session.")


@GROUP.command(
    Positional("NAME", "the name of the group"),
    Option("--location", "the primary location", "CODE", required=True),
    IF_NOT_EXISTS,
)
def create_group(context: CommandContext) -> None:
    """Create a group.

    %pipedb create-group europe --location ams --if-not-exists
    """
    args = context.args
    group = context.organization.create_group(
        args["NAME"], args["--location"], if_not_exists=args.on("--if-not-exists")
    )
    say(outcomes.describe_group(group))


@GROUP.command(
    Positional("NAME", "the name of the database"),
    Option("--group", "the group; by default that of --branch-of, or the only group, or a new group named default",
           "GROUP"),
    Option("--from-file", "copy this SQLite file, which may be in use", "FILE"),
    Option("--from-dump", "run the SQL in this file, such as a .dump of the sqlite3 shell", "FILE"),
    Option("--branch-of", "copy this database", "DATABASE", completes="database"),
    Option("--at", 'copy it as it was at this time, such as "2026-11-29 14:00" (local time)', "TIME"),
    Option("--encryption-key-env", "encrypt it with the key in this environment variable", "VARIABLE"),
    Option("--encryption-cipher", "the cipher of the encryption, for example aegis256", "CIPHER"),
    IF_NOT_EXISTS,
)  # fmt: skip
def create_database(context: CommandContext) -> None:
    """Create a database in a group.

    %pipedb create-database flights
    %pipedb create-database flights --group europe
    %pipedb create-database flights --group europe --from-file flights.db
    %pipedb create-database flights --group europe --from-dump flights.sql
    %pipedb create-database before --branch-of flights --at "2026-11-29 14:00"
    """
    from msgspec.structs import replace

    from pipemagic.management_api.branches import parse_moment

    organization, args = context.organization, context.args
    name, group, source = args["NAME"], args.get("--group"), args.one_of("--from-file", "--from-dump", "--branch-of")
    if_not_exists = args.on("--if-not-exists")
    at = args.get("--at")
    if at is not None and source != "--branch-of":
        raise UsageError("--at requires --branch-of", hint="name the database to copy with --branch-of DATABASE")
    key = context.session.encryption_key_in(args.get("--encryption-key-env"), args.get("--encryption-cipher"))
    if source is None:
        database = organization.create_database(name, group, if_not_exists=if_not_exists, key=key, notify=say)
        say(outcomes.describe_database(database))
        return
    moment, existed = None if at is None else parse_moment(at), False
    path, original = Path(os.path.expanduser(args[source])), args.get("--branch-of")
    file, dump = path if source == "--from-file" else None, str(path) if source == "--from-dump" else None
    try:
        database = organization.create_database(
            name, group, file=file, dump=dump, copy_of=original, at=moment, key=key, notify=say
        )
    except AlreadyExists:
        if not if_not_exists:
            raise
        database, existed = organization.create_database(name, group, if_not_exists=True), True
    if existed:
        say(outcomes.describe_database(replace(database, parent="")))
        say(f"The database already existed; {args[source]} was not {'copied' if original else 'loaded'}.")
    else:
        say(outcomes.describe_database(database, moment))


@GROUP.command(
    DATABASE,
    Positional("FILE", "the SQLite file to write, or with --dump the file with SQL text"),
    Option("--dump", "write SQL text, such as a .dump of the sqlite3 shell"),
    Option("--replace", "overwrite an existing file"),
    Option("--encryption-key-env", "the variable with the key of an encrypted database", "VARIABLE"),
)
def export_database(context: CommandContext) -> None:
    """Write a whole database to a SQLite file, as it is at one moment.

    %pipedb export-database flights flights.db
    %pipedb export-database flights flights.sql --dump --replace
    """
    from pipemagic.frames.files import new_file
    from pipemagic.session import database_files

    args, name = context.args, context.args["DATABASE"]
    path = Path(os.path.expanduser(args["FILE"]))
    key = context.session.encryption_key_in(args.get("--encryption-key-env"), None)
    write = database_files.save_dump if args.on("--dump") else database_files.save
    with (
        new_file(path, overwrite=args.on("--replace"), option="--replace") as draft,
        context.organization.open(name, only_reads=True, key_of=lambda _: key) as database,
    ):
        write(database, draft)
        size = draft.stat().st_size
    say(f"Wrote database {name} to {path} ({format_size(size)}).")


@GROUP.command(
    GROUP_NAME,
    Positional("CODE", "the location"),
    IF_NOT_EXISTS,
    Option("--wait", "wait until the replicas are complete"),
)
def add_location(context: CommandContext) -> None:
    """Replicate a group to another location.

    %pipedb add-location europe fra
    %pipedb add-location europe fra --wait
    """
    from pipemagic.management_api.models import ONE_LOCATION, have_one_location

    args, organization = context.args, context.organization
    if have_one_location(organization.locations()):
        say(ONE_LOCATION)
    group = organization.add_location(args["GROUP"], args["CODE"], if_not_exists=args.on("--if-not-exists"))
    if args.on("--wait"):
        _wait(organization, group.name, args["CODE"])
    say(outcomes.describe_group(group))


@GROUP.command(Positional("SETTING", "on or off", choices=("on", "off")))
def overages(context: CommandContext) -> None:
    """Allow or forbid usage above the quotas of the organization.

    %pipedb overages off
    """
    say(outcomes.set_overages(context.organization, on=context.args["SETTING"] == "on"))


@GROUP.command(Positional("NAME", "the name of the group", completes="group"), IF_EXISTS, CONFIRM)
def delete_group(context: CommandContext) -> None:
    """Delete a group and all its databases.

    %pipedb delete-group europe --confirm
    """
    name = context.args["NAME"]
    check_confirmed(context, f"deletes the group {name} and all its databases")
    with _missing_allowed(context, "group", name):
        say(outcomes.delete_group(context.session, context.organization, name))


@GROUP.command(Positional("NAME", "the name of the database", completes="database"), IF_EXISTS, CONFIRM)
def delete_database(context: CommandContext) -> None:
    """Delete a database and its contents.

    %pipedb delete-database flights --confirm
    """
    name = context.args["NAME"]
    check_confirmed(context, f"deletes the database {name} and its contents")
    with _missing_allowed(context, "database", name):
        say(outcomes.delete_database(context.session, context.organization, name))


@contextmanager
def _missing_allowed(context: CommandContext, kind: str, name: str) -> Iterator[None]:
    """With --if-exists, print a sentence instead of the error for something that does not exist."""
    try:
        yield
    except NotFound as error:
        if not context.args.on("--if-exists") or "organization not found" in error.message:
            raise
        say(f"There is no {kind} {name}.")


@GROUP.command(
    Positional("NAME", "the name of the database", completes="database"),
    Option("--confirm", "required, because running statements are stopped and open transactions are rolled back"),
)
def suspend_database(context: CommandContext) -> None:
    """Stop all work on a database, and refuse its statements until it is resumed.

    %pipedb suspend-database flights --confirm
    """
    name = context.args["NAME"]
    check_confirmed(context, f"ends all statements and open transactions on the database {name}, for all users")
    say(outcomes.suspend_database(context.organization, name))


@GROUP.command(Positional("NAME", "the name of the database", completes="database"))
def resume_database(context: CommandContext) -> None:
    """Allow the statements of a suspended database again.

    %pipedb resume-database flights
    """
    say(outcomes.resume_database(context.organization, context.args["NAME"]))


@GROUP.command(Positional("NAME", "the name of the database", completes="database"))
def protect_database(context: CommandContext) -> None:
    """Protect a database from deletion.

    %pipedb protect-database flights
    """
    say(outcomes.protect(context.organization, "database", context.args["NAME"], on=True))


@GROUP.command(Positional("NAME", "the name of the database", completes="database"))
def unprotect_database(context: CommandContext) -> None:
    """Allow the deletion of a database again.

    %pipedb unprotect-database flights
    """
    say(outcomes.protect(context.organization, "database", context.args["NAME"], on=False))


@GROUP.command(Positional("NAME", "the name of the group", completes="group"))
def protect_group(context: CommandContext) -> None:
    """Protect a group and its databases from deletion.

    %pipedb protect-group europe
    """
    say(outcomes.protect(context.organization, "group", context.args["NAME"], on=True))


@GROUP.command(Positional("NAME", "the name of the group", completes="group"))
def unprotect_group(context: CommandContext) -> None:
    """Allow the deletion of a group again.

    %pipedb unprotect-group europe
    """
    say(outcomes.protect(context.organization, "group", context.args["NAME"], on=False))


@GROUP.command(Positional("NAME", "the name of the group", completes="group"))
def unarchive_group(context: CommandContext) -> None:
    """Make a group available again that the service archived because it was not used.

    %pipedb unarchive-group europe
    """
    say(outcomes.unarchive_group(context.organization, context.args["NAME"]))


@GROUP.command(GROUP_NAME, Positional("CODE", "a location other than the primary one"))
def remove_location(context: CommandContext) -> None:
    """Remove a location from a group and delete its replicas there.

    %pipedb remove-location europe fra
    """
    say(outcomes.remove_location(context.organization, context.args["GROUP"], context.args["CODE"]))


@GROUP.command(
    GROUP_NAME,
    Positional("CODE", "a location of the group"),
    Option("--replication-only", "only stop the replication: the location answers reads with older data"),
)
def pause_location(context: CommandContext) -> None:
    """Simulate the outage of a location.

    %pipedb pause-location europe fra
    %pipedb pause-location europe fra --replication-only
    """
    args = context.args
    only = args.on("--replication-only")
    say(outcomes.pause_location(context.organization, args["GROUP"], args["CODE"], replication_only=only))


@GROUP.command(
    GROUP_NAME, Positional("CODE", "a paused location"), Option("--wait", "wait until the replicas have caught up"),
)  # fmt: skip
def resume_location(context: CommandContext) -> None:
    """End the simulated outage of a location.

    %pipedb resume-location europe fra
    %pipedb resume-location europe fra --wait
    """
    args, organization = context.args, context.organization
    resumed = outcomes.resume_location(organization, args["GROUP"], args["CODE"])
    if args.on("--wait"):
        _wait(organization, args["GROUP"], args["CODE"])
    say(resumed)


def _wait(organization: Organization, group: str, code: str) -> None:
    """Wait until a group is ready at a location; a service that reports no status has it ready when it responds."""
    with suppress(UnsupportedError):
        organization.wait_for_location(group, code)


@GROUP.command()
def organizations(context: CommandContext) -> DataFrame:
    """List your organizations.

    %pipedb organizations
    """
    organization = context.organization
    rows = ((item.slug, item.name, item.type, item.slug == organization.slug) for item in organization.organizations())
    return frame_of(rows, "organization", "name", "type", "current")


@GROUP.command(Option("--page", "the page of 100 changes; by default 1, the newest ones", "N"))
def audit_logs(context: CommandContext) -> DataFrame:
    """List who changed what in the organization, the newest change first.

    %pipedb audit-logs
    %pipedb audit-logs --page 2
    """
    from pipemagic.management_api.models import describe_data

    page = context.args.get("--page") or "1"
    if not page.isdecimal() or int(page) < 1:
        raise UsageError(f"--page requires a positive integer, not {page}", hint="%pipedb audit-logs --page 2")
    rows = (
        (entry.created, entry.author, entry.origin, entry.code, describe_data(entry.data))
        for entry in context.organization.audit_logs(int(page))
    )
    return frame_of(rows, "created", "author", "origin", "code", "data")


@GROUP.command(
    Option("--databases", "show the usage of each database"),
    Option("--queries", "show the slowest and most frequent statements of a database in the last day", "DATABASE",
           completes="database"),
)  # fmt: skip
def usage(context: CommandContext) -> DataFrame:
    """Show the usage of this month and the quotas.

    %pipedb usage
    %pipedb usage --databases
    %pipedb usage --queries flights
    """
    organization = context.organization
    if context.args.one_of("--databases", "--queries") == "--queries":
        return _top_queries(organization.top_queries(context.args["--queries"]))
    used = organization.usage()
    if context.args.on("--databases"):
        counted = RESOURCES[:3]
        rows = ((name, *(used.databases[name].get(figure, 0) for figure in counted)) for name in sorted(used.databases))
        return frame_of(rows, "database", *counted)
    from pandas import NA

    try:
        plan, limits = organization.quotas()
        say(f"Organization {organization.slug} is on plan {plan}.")
    except UnsupportedError:
        limits = {}
    figures = ((name, used.figures[name], limits.get(name) or NA) for name in RESOURCES if name in used.figures)
    return frame_of(figures, "resource", "used", "limit").astype({"used": "Int64", "limit": "Int64"})


def _top_queries(queries: Sequence[TopQuery]) -> DataFrame:
    from pandas import NA

    counts = ((query.runs, query.mean_duration_ms) for query in queries)
    rows = [
        (query.query, NA if runs is None else runs, NA if mean is None else mean, query.rows_read, query.rows_written)
        for query, (runs, mean) in zip(queries, counts, strict=True)
    ]
    return frame_of(rows, "query", "runs", "mean_ms", "rows_read", "rows_written").astype(
        {"runs": "Int64", "mean_ms": "Float64", "rows_read": "Int64", "rows_written": "Int64"}
    )


STORED = (
    Option("--to-env", "the environment variable to set", "VARIABLE", completes="new name"),
    Option("--to-file", "the file to write, readable only by you", "PATH"),
    Option("--replace", "overwrite the variable or file"),
)
"""The options for where a new token is stored."""


def _store(context: CommandContext, command: str, create: Callable[[], Secret]) -> str:
    """Create a token and store it outside the notebook; return a description of the place."""
    from pipemagic.session.tokens import FileTarget, VariableTarget

    args = context.args
    where = args.one_of("--to-env", "--to-file")
    if where is None:
        raise UsageError(
            f"{command} requires --to-env or --to-file, because a token is never displayed",
            hint="add --to-env VARIABLE or --to-file PATH",
        )
    target = (FileTarget if where == "--to-file" else VariableTarget)(args[where], replace=args.on("--replace"))
    target.check()
    target.store(create())
    return str(target)


@GROUP.command(
    DATABASE,
    Option("--expiration", "the lifetime: 7d or 1w2d6h; by default the token never expires", "TIME"),
    Option("--read-only", "the token does not allow writing"),
    *STORED,
)
def create_token(context: CommandContext) -> None:
    """Create a database token and store it outside the notebook.

    %pipedb create-token flights --expiration 7d --read-only --to-env FLIGHTS_TOKEN
    %pipedb create-token flights --to-file ~/flights.token
    """
    args, database = context.args, context.args["DATABASE"]
    expiration, read_only = args.get("--expiration") or "never", args.on("--read-only")
    create = partial(context.organization.create_token, database, expiration=expiration, read_only=read_only)
    target = _store(context, "create-token", create)
    ends = "that never expires" if expiration == "never" else f"for {expiration}"
    say(f"Stored a {'read-only token' if read_only else 'token'} for {database} {ends} in {target}.")


@GROUP.command(DATABASE, CONFIRM)
def invalidate_tokens(context: CommandContext) -> None:
    """Invalidate all tokens of a database; connections of this notebook get new ones.

    %pipedb invalidate-tokens flights --confirm
    """
    name = context.args["DATABASE"]
    check_confirmed(context, f"invalidates all tokens of {name}")
    for line in context.session.invalidate_tokens(name):
        say(line)


TOKEN_NAME = Positional("NAME", "the name of the platform token")


@GROUP.command(
    TOKEN_NAME,
    Option("--group", "limit the token to a group; this requires --scope, --read-only or --full-access", "GROUP"),
    Option("--scope", f"allow this in the group; can be repeated: {', '.join(SCOPES)}", "SCOPE",
           choices=tuple(SCOPES), many=True),
    Option("--read-only", "allow only reading in the group: --scope read"),
    Option("--full-access", "allow everything in the group: all scopes"),
    Option("--unlimited", "allow everything that your account may do, in all organizations"),
    *STORED,
)  # fmt: skip
def create_api_token(context: CommandContext) -> None:
    """Create a platform token, limited to the organization or a group, and store it outside the notebook.

    %pipedb create-api-token deploy --to-file ~/deploy.token
    %pipedb create-api-token ci --group europe --scope db:create --scope db:mint-token --to-env CI_TOKEN
    %pipedb create-api-token monitor --group europe --read-only --to-file ~/monitor.token
    """
    args, organization = context.args, context.organization
    name, group, scopes = args["NAME"], args.get("--group"), args.all("--scope")
    preset = args.one_of("--read-only", "--full-access", "--unlimited", *(["--scope"] if scopes else []))
    scopes = scopes or ([preset.removeprefix("--")] if preset in ("--read-only", "--full-access") else [])
    unlimited = preset == "--unlimited"
    create = partial(organization.create_api_token, name, group=group, scopes=scopes, unlimited=unlimited)
    target = _store(context, "create-api-token", create)
    reach = f"group {group} ({summary(expand(scopes))})" if group else f"organization {organization.slug}"
    say(f"Stored the platform token {name} for {'all organizations' if unlimited else reach} in {target}.")


@GROUP.command(Option("--members", "list the tokens of all members that are limited to the organization"))
def api_tokens(context: CommandContext) -> DataFrame:
    """List your platform tokens, without their values.

    %pipedb api-tokens
    %pipedb api-tokens --members
    """
    members = context.args.on("--members")
    rows = (
        (token.name, token.scope, token.permissions, token.created, *((token.owner, token.id) if members else ()))
        for token in context.organization.api_tokens(members=members)
    )
    return frame_of(rows, "token", "scope", "permissions", "created", *(("owner", "id") if members else ()))


@GROUP.command(
    TOKEN_NAME, Option("--id", "NAME is an ID in the list of api-tokens --members"), CONFIRM,
)  # fmt: skip
def revoke_api_token(context: CommandContext) -> None:
    """Revoke a platform token.

    %pipedb revoke-api-token deploy --confirm
    """
    name = context.args["NAME"]
    check_confirmed(context, f"revokes the platform token {name}, so programs that use it lose access")
    context.organization.revoke_api_token(name, by_id=context.args.on("--id"))
    say(f"Revoked the platform token {name}.")
