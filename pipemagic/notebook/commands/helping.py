"""%pipedb help: the list of subcommands, one subcommand, or a topic."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from IPython.core.error import UsageError

from pipemagic.notebook.arguments import Option, Positional
from pipemagic.notebook.commands.base import Command
from pipemagic.notebook.display import say

Groups = Sequence[tuple[str, Sequence[Command]]]

SQL = """\
{usage}

A cell may hold several statements. They go to the server in one request and stop at the first error. The value is
the DataFrame of the last statement that returns columns; earlier ones are shown above it.

:name, @name and $name take the values of the notebook's variables, or of the dict named with --params.

{options}"""

TRANSACTIONS = """\
The connection stays open between cells: BEGIN in one, COMMIT in another. The server gives a transaction 5 s and
closes a connection that was idle for 10 s. If a transaction is lost, the error lists the statements that were
undone, and nothing more runs until BEGIN or ROLLBACK. A cell that fails between its own BEGIN and COMMIT is rolled
back at once. For all or nothing, write BEGIN and COMMIT into one cell."""

TOKENS = """\
A token never goes on the line of a magic. %pipedb connect ADDRESS takes it from the variable named with --token-env,
from PIPEMAGIC_TOKEN or TURSO_AUTH_TOKEN, or asks for it without showing it. %pipedb organization takes the platform
token from --token-env, PIPEMAGIC_API_TOKEN or TURSO_API_TOKEN. The embedded service needs none."""


def topics() -> tuple[str, ...]:
    """Give the topics of help that are no subcommands."""
    return ("sql", "transactions", "tokens")


def show(topic: str, groups: Groups) -> None:
    """Print the help on a topic, the list of everything for ''."""
    commands = {command.name: command for _, group in groups for command in group}
    if not topic:
        say(_overview(groups))
    elif topic.lstrip("%") == "sql":
        say(_sql())
    elif topic in ("transaction", "transactions"):
        say(TRANSACTIONS)
    elif topic in ("token", "tokens"):
        say(TOKENS)
    elif topic in commands:
        say(_command(commands[topic]))
    else:
        near = difflib.get_close_matches(topic, [*commands, "sql", "transactions", "tokens"], n=1)
        raise UsageError(f"no help on {topic[:40]!r}{f', did you mean {near[0]}?' if near else ''}")


def _overview(groups: Groups) -> str:
    width = max(len(command.name) for _, group in groups for command in group)
    lines = ["%pipedb SUBCOMMAND, %%sql and %sql; %pipedb help SUBCOMMAND tells more"]
    for title, group in groups:
        lines += ["", title]
        lines += [f"  {command.name:{width}}  {command.help}" for command in group]
    return "\n".join([*lines, "", "Topics: sql, transactions, tokens"])


def _command(command: Command) -> str:
    lines = [command.usage, "", f"{command.help}."]
    rows = _rows(command.positionals, command.options)
    return "\n".join([*lines, "", *rows] if rows else lines)


def _sql() -> str:
    from pipemagic.notebook.options import OPTIONS, sql_usage

    return SQL.format(usage=f"{sql_usage(True)}\n{sql_usage(False)}", options="\n".join(_rows((), OPTIONS)))


def _rows(positionals: Sequence[Positional], options: Sequence[Option]) -> list[str]:
    pairs = [(positional.name, positional.help) for positional in positionals]
    for option in options:
        flag = f"{option.short}, {option.flag}" if option.short else option.flag
        pairs.append((f"{flag} {option.value}".rstrip(), option.help))
    width = max((len(left) for left, _ in pairs), default=0)
    return [f"  {left:{width}}  {right}" for left, right in pairs]
