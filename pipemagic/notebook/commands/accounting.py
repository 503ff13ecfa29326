"""%pipedb organizations, usage, create-token: what belongs to the organization and its accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from pipemagic.errors import UnsupportedError
from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pandas import DataFrame

RESOURCES = ("rows_read", "rows_written", "storage_bytes", "databases", "groups", "locations", "bytes_synced")
"""What can be used up, in the order shown."""


def organizations(context: Context, args: Arguments) -> DataFrame:  # noqa: ARG001
    """Give the organizations of the token's owner."""
    from pandas import DataFrame

    platform = context.session.platform
    rows = [(one.slug, one.name, one.type, one.slug == platform.organization) for one in platform.organizations()]
    return DataFrame(rows, columns=["organization", "name", "type", "current"])


def usage(context: Context, args: Arguments) -> DataFrame:
    """Give what was used in this month."""
    return _of_databases(context) if args.on("--databases") else _of_organization(context)


def _of_organization(context: Context) -> DataFrame:
    from pandas import NA, DataFrame

    platform = context.session.platform
    used = platform.usage().figures
    try:
        plan, limits = platform.quotas()
        say(f"Organization {platform.organization}, plan {plan}.")
    except UnsupportedError:
        limits = {}
    rows = [(name, used[name], limits.get(name) or NA) for name in RESOURCES if name in used]
    return DataFrame(rows, columns=["resource", "used", "limit"]).astype({"used": "Int64", "limit": "Int64"})


def _of_databases(context: Context) -> DataFrame:
    from pandas import DataFrame

    figures = context.session.platform.usage().databases
    rows = [(name, *(figures[name].get(resource, 0) for resource in RESOURCES[:3])) for name in sorted(figures)]
    return DataFrame(rows, columns=["database", *RESOURCES[:3]])


def create_token(context: Context, args: Arguments) -> None:
    """Make a token for a database and put it where no notebook keeps it."""
    from pipemagic.session.tokens import FileTarget, VariableTarget

    variable, path, replace = args.get("--to-env"), args.get("--to-file"), args.on("--replace")
    if (variable is None) == (path is None):
        raise UsageError("say where the token goes, as it is not shown: --to-env VARIABLE or --to-file PATH")
    target = FileTarget(path, replace=replace) if path is not None else VariableTarget(str(variable), replace=replace)
    target.check()
    database, expiration = args["DATABASE"], args.get("--expiration") or "never"
    platform = context.session.platform
    target.store(platform.create_token(database, expiration=expiration, read_only=args.on("--read-only")))
    ends = "that never expires" if expiration == "never" else f"for {expiration}"
    say(f"A {'read-only token' if args.on('--read-only') else 'token'} for {database} {ends} is in {target}.")


COMMANDS: tuple[Command, ...] = (
    Command("organizations", "List the organizations that you belong to", organizations),
    Command(
        "usage",
        "Show what was used in this month, and how much there is",
        usage,
        (),
        (Option("--databases", "by database"),),
    ),
    Command(
        "create-token",
        "Make a token for a database, and put it where no notebook keeps it",
        create_token,
        (Positional("DATABASE", "the database's name", completes="database"),),
        (
            Option("--expiration", "how long it lasts, as in 7d or 1w2d6h; by default for ever", "TIME"),
            Option("--read-only", "it lets nobody write"),
            Option("--to-env", "the environment variable that is set to it", "VARIABLE", completes="new name"),
            Option("--to-file", "the file to write, which only you can read", "PATH"),
            Option("--replace", "take the place of what the variable or the file holds"),
        ),
    ),
)
