"""%pipedb profiles: connections under a name, in a file without secrets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from pipemagic.errors import PipemagicError, SessionError
from pipemagic.notebook.arguments import Arguments, Option
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.commands.server import ON
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.session.profiles import Profile, Profiles


def profiles(context: Context, args: Arguments) -> DataFrame | None:
    """List the profiles, or save, delete or trust one."""
    known, save, delete, trust = context.session.profiles, *map(args.get, ("--save", "--delete", "--trust"))
    if sum(one is not None for one in (save, delete, trust)) > 1:
        raise UsageError("--save, --delete and --trust do not go together")
    if args.get("--on") and save is None:
        raise UsageError("--on names the connection that --save NAME keeps")
    if save is not None:
        _save(context, args, save)
    elif delete is not None:
        known.delete(delete)
        say(f"Deleted profile {delete}.")
    elif trust is not None:
        say(f"Trusted from now on, until one of the two changes: {known.trust(trust)}")
    else:
        return _listing(known)
    return None


def _save(context: Context, args: Arguments, name: str) -> None:
    connection = context.session.connection(args.get("--on"))
    if connection.profile is None:
        raise SessionError(
            f"{connection.name} cannot be saved: its database ends with this notebook",
            hint="a database of %pipedb connect without --temporary stays",
        )
    from pipemagic.session.profiles import word

    kept = None if connection.keeping is None else connection.keeping.seconds
    context.session.profiles.save(replace(connection.profile, name=name, keep_alive=kept))
    say(f"Saved profile {name}: %pipedb connect {word(name)}")


def _listing(known: Profiles) -> DataFrame:
    from pandas import DataFrame

    rows = []
    for name in known.names():
        try:
            profile = known.get(name)
        except SessionError as error:
            rows.append((name, error.message, "", ""))
        else:
            if profile is not None and profile.path is not None:  # unless the file was changed in this moment
                rows.append((name, profile.where, profile.token_from, _file(known, profile)))
    return DataFrame(rows, columns=["profile", "leads to", "token from", "file"])


def _file(known: Profiles, profile: Profile) -> str:
    name = profile.path.name if profile.path else ""
    try:
        known.check_trusted(profile)
    except PipemagicError as error:
        return f"{name}, {'not trusted' if isinstance(error, SessionError) else error.message}"
    return name


COMMAND = Command(
    "profiles",
    "List the connections that files name; they hold no secrets",
    profiles,
    options=(
        Option("--save", "save how the current connection was made as a profile of yours", "NAME"),
        Option("--delete", "delete a profile of yours", "NAME", completes="profile"),
        Option(
            "--trust",
            "let a profile of the project lead to its host, with the token it names",
            "NAME",
            completes="profile",
        ),
        ON,
    ),
)
