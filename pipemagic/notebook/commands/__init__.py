"""Run the commands of %pipedb."""

from __future__ import annotations

from pipemagic.errors import UsageError
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Positional
from pipemagic.notebook.commands import connections, data, explore, organization, status
from pipemagic.notebook.commands.base import Command, CommandContext
from pipemagic.notebook.commands.help import show_help
from pipemagic.notebook.line_variables import LineVariables, name_in_braces
from pipemagic.suggestions import instead_of

TOPIC = Positional("TOPIC", "a command, a topic or a page")

GROUPS = (
    connections.GROUP, connections.TRANSACTIONS, status.GROUP, explore.GROUP, data.GROUP, organization.GROUP,
)  # fmt: skip

COMMANDS: dict[str, Command] = {command.name: command for group in GROUPS for command in group.commands}
"""All commands except ``help``."""

DAILY = (
    "connect", "use", "close", "status", "panel", "tables", "columns", "schema", "load", "profile", "plot", "rules",
)  # fmt: skip
"""The commands of daily use, which help and completion list first."""


def run(line: str, context: CommandContext) -> object:
    """Run a line of %pipedb; raise UsageError for an unknown command."""
    name, _, rest = line.strip().partition(" ")
    if name in ("", "help", "--help", "-h"):
        show_help(_topic(rest.strip(), context), GROUPS, DAILY)
        return None
    if arguments.asks_for_help(rest):
        show_help(name, GROUPS, DAILY)
        return None
    command = COMMANDS.get(name)
    if command is None:
        from pipemagic.client.address import is_address  # not needed for completion

        if is_address(name):
            raise UsageError("expected a command, not an address", hint="to connect, write %pipedb connect ADDRESS")
        if variable := name_in_braces(name):
            hint = f"to connect to that address or database, write %pipedb connect {{{variable}}}"
            raise UsageError(f"expected a command, not {{{variable}}}", hint=hint)
        every = "%pipedb help --all lists all commands, !pipemagic --help those of a terminal"
        hint = instead_of(name, "command", [*COMMANDS, "help"]) or every
        raise UsageError(f"unknown command {name[:40]!r}", hint=hint)
    return command(rest, context)


def _topic(text: str, context: CommandContext) -> str:
    """Return the subject of a help line; the name of a topic or page may be in a variable."""
    if text[:1] not in ("{", "$"):
        return text
    usage = arguments.usage_of("%pipedb help", (TOPIC,), ())
    topic: str = arguments.parse(text, (TOPIC,), (), usage, LineVariables(text, usage, context.variables).value)[
        "TOPIC"
    ]
    return topic


__all__ = ["COMMANDS", "DAILY", "GROUPS", "CommandContext", "run"]
