"""%pipedb help: the list of subcommands, one subcommand, or a topic."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from IPython.core.error import UsageError

from pipemagic.notebook.arguments import Option, Positional, refuse_password
from pipemagic.notebook.commands.base import Command
from pipemagic.notebook.commands.topics import EXAMPLES, OTHER_NAMES, TOPICS
from pipemagic.notebook.display import say

Groups = Sequence[tuple[str, Sequence[Command]]]


def show(topic: str, groups: Groups, daily: Sequence[str]) -> None:
    """Print the help on a topic; for '' the list of everything, the commands of ``daily`` use first."""
    commands = {command.name: command for _, group in groups for command in group}
    name = OTHER_NAMES.get(topic.lower(), topic)
    if not topic or name == "help":
        say(_overview(groups, daily))
    elif name == "sql":
        say(_sql())
    elif name in commands:
        say(command_help(commands[name]))
    elif name in TOPICS:
        say(TOPICS[name][1])
    else:
        refuse_password(topic)
        near = difflib.get_close_matches(topic, [*commands, *TOPICS], n=1)
        hint = f", did you mean {near[0]}?" if near else "; %pipedb help lists what there is"
        raise UsageError(f"no help on {topic[:40]!r}{hint}")


def _overview(groups: Groups, daily: Sequence[str]) -> str:
    commands = {command.name: command for _, group in groups for command in group}
    width = max(map(len, [*TOPICS, *commands]))
    lines = ["%pipedb SUBCOMMAND, %%sql and %sql; %pipedb help SUBCOMMAND or TOPIC shows the details", "", "Daily use"]
    lines += [f"  {name:{width}}  {commands[name].help}" for name in daily]
    for title, group in groups:
        if rest := [command for command in group if command.name not in daily]:
            lines += ["", f"Advanced: {title[:1].lower()}{title[1:]}"]
            lines += [f"  {command.name:{width}}  {command.help}" for command in rest]
    lines += ["", "Topics"]
    return "\n".join([*lines, *(f"  {name:{width}}  {about}" for name, (about, _) in TOPICS.items())])


def command_help(command: Command) -> str:
    """Return the help on a subcommand: usage, description, arguments, examples."""
    lines = [command.usage, "", f"{command.help}."]
    if rows := _rows(command.positionals, command.options):
        lines += ["", *rows]
    if examples := EXAMPLES.get(command.name):
        lines += ["", *(f"    {example}" for example in examples)]
    if command.name in TOPICS:
        lines += ["", TOPICS[command.name][1].split("\n\n")[0]]  # without its examples
    return "\n".join(lines)


def _sql() -> str:
    from pipemagic.notebook.options import PARAMETERS, RESULTS, RUNNING, sql_usage

    lines = [sql_usage(True), sql_usage(False), "", TOPICS["sql"][1]]
    for title, options in (("Running", RUNNING), ("Parameters", PARAMETERS), ("Results", RESULTS)):
        lines += ["", title, *_rows((), options)]
    return "\n".join([*lines, "", "More: %pipedb help parameters, transactions, results, limits"])


def _rows(positionals: Sequence[Positional], options: Sequence[Option]) -> list[str]:
    pairs = [(positional.name, positional.help) for positional in positionals]
    for option in options:
        flag = f"{option.short}, {option.flag}" if option.short else option.flag
        pairs.append((f"{flag} {'|'.join(option.choices) or option.value}".rstrip(), option.help))
    width = max((len(left) for left, _ in pairs), default=0)
    return [f"  {left:{width}}  {right}" for left, right in pairs]
