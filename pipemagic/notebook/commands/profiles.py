"""%pipedb profiles: connections under a name, in a file without secrets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from pipemagic.errors import SessionError
from pipemagic.notebook.arguments import Arguments, Option
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.commands.server import ON
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.session.profiles import Profiles


def profiles(context: Context, args: Arguments) -> DataFrame | None:
    """List the profiles, or save or delete one."""
    known, save, delete = context.session.profiles, args.get("--save"), args.get("--delete")
    if save is not None and delete is not None:
        raise UsageError("--save and --delete do not go together")
    if args.get("--on") and save is None:
        raise UsageError("--on names the connection that --save NAME keeps")
    if save is not None:
        _save(context, args, save)
    elif delete is not None:
        known.delete(delete)
        say(f"Deleted profile {delete}.")
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
                rows.append((name, profile.where, profile.token_from, profile.path.name))
    return DataFrame(rows, columns=["profile", "leads to", "token from", "file"])


COMMAND = Command(
    "profiles",
    "List the connections that files name; they hold no secrets",
    profiles,
    options=(
        Option("--save", "save how the current connection was made as a profile of yours", "NAME"),
        Option("--delete", "delete a profile of yours", "NAME", completes="profile"),
        ON,
    ),
)
