"""The subcommands of %pipedb, one file for each group of them."""

from __future__ import annotations

import difflib

from IPython.core.error import UsageError

from pipemagic.notebook import arguments
from pipemagic.notebook.commands import (
    accounting,
    connections,
    deleting,
    exploring,
    helping,
    loading,
    panel,
    pictures,
    platform,
    profiles,
    server,
    snippets,
    transactions,
    wire,
)
from pipemagic.notebook.commands.base import Command, Context

GROUPS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    ("Connections", (*connections.COMMANDS, profiles.COMMAND)),
    ("Transactions", transactions.COMMANDS),
    ("The server", server.COMMANDS),
    ("Exploring", (*exploring.COMMANDS, *pictures.COMMANDS)),
    ("Data", (*loading.COMMANDS, snippets.COMMAND)),
    ("The wire", wire.COMMANDS),
    ("Groups and databases", (*platform.COMMANDS, *deleting.COMMANDS, *accounting.COMMANDS, panel.COMMAND)),
)
"""All subcommands but ``help``, under the headings of its list."""

COMMANDS: dict[str, Command] = {command.name: command for _, group in GROUPS for command in group}

DAILY = (
    "connect", "use", "status", "tables", "columns", "schema", "load", "profile", "plot", "check", "rollback", "panel",
)  # fmt: skip
"""The commands of daily use, which help and Tab list before all others."""


def run(line: str, context: Context) -> object:
    """Run one line of %pipedb; UsageError for an unknown subcommand."""
    name, _, rest = line.strip().partition(" ")
    if name in ("", "help", "--help", "-h"):
        helping.show(rest.strip(), GROUPS, DAILY)
        return None
    if arguments.asks_for_help(rest):
        helping.show(name, GROUPS, DAILY)
        return None
    command = COMMANDS.get(name)
    if command is None:
        if "://" in name:
            raise UsageError("an address stands behind a command: %pipedb connect ADDRESS")
        near = difflib.get_close_matches(name, [*COMMANDS, "help"], n=1)
        hint = f", did you mean {near[0]}?" if near else "; %pipedb help lists what there is"
        raise UsageError(f"%pipedb has no {name[:40]!r}{hint}")
    return command(rest, context)


__all__ = ["COMMANDS", "DAILY", "GROUPS", "Context", "run"]
