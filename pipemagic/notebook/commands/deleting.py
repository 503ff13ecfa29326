"""%pipedb delete-group, delete-database, remove-location, invalidate-tokens: what cannot be had back."""

from __future__ import annotations

from pipemagic.errors import ConfirmError
from pipemagic.notebook import outcomes
from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.display import say

CONFIRM = Option("--confirm", "really delete")


def delete_group(context: Context, args: Arguments) -> None:
    """Delete a group with its databases."""
    name = args["NAME"]
    _confirmed(args, f"deletes the group {name} with all its databases")
    say(outcomes.delete_group(context.session, context.session.platform, name))


def delete_database(context: Context, args: Arguments) -> None:
    """Delete a database."""
    name = args["NAME"]
    _confirmed(args, f"deletes the database {name} with everything in it")
    say(outcomes.delete_database(context.session, context.session.platform, name))


def remove_location(context: Context, args: Arguments) -> None:
    """Take a location from a group."""
    say(outcomes.remove_location(context.session.platform, args["GROUP"], args["CODE"]))


def invalidate(context: Context, args: Arguments) -> None:
    """Make all tokens of a database invalid."""
    from pipemagic.session.organization import invalidate_tokens

    name = args["DATABASE"]
    _confirmed(args, f"makes every token of {name} invalid, wherever it is in use")
    for line in invalidate_tokens(context.session, name):
        say(line)


def _confirmed(args: Arguments, what: str) -> None:
    if not args.on("--confirm"):
        raise ConfirmError(f"this {what}; nothing was sent", hint="write --confirm behind it if that is what you want")


COMMANDS: tuple[Command, ...] = (
    Command(
        "delete-group",
        "Delete a group with all its databases",
        delete_group,
        (Positional("NAME", "the group's name", completes="group"),),
        (CONFIRM,),
    ),
    Command(
        "delete-database",
        "Delete a database and everything in it",
        delete_database,
        (Positional("NAME", "the database's name", completes="database"),),
        (CONFIRM,),
    ),
    Command(
        "remove-location",
        "Take a location from a group; its replicas there are deleted",
        remove_location,
        (Positional("GROUP", "the group's name"), Positional("CODE", "the location, not the primary one")),
    ),
    Command(
        "invalidate-tokens",
        "Make all tokens of a database invalid; the connections here get new ones",
        invalidate,
        (Positional("DATABASE", "the database's name", completes="database"),),
        (Option("--confirm", "really make them invalid"),),
    ),
)
