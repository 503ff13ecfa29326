"""Show help: the commands of daily use, all commands, one command, a topic, or a page of the documentation.

The topics are in topics.md. A heading is ``# NAME, OTHER NAME: summary``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pipemagic import plugins
from pipemagic.errors import UsageError
from pipemagic.notebook.arguments import Option, Positional, refuse_password
from pipemagic.notebook.commands.base import Command, CommandGroup
from pipemagic.notebook.commands.pages import error_texts, help_on_code, page_about, page_named, page_words, pages
from pipemagic.notebook.display import say, show, warn
from pipemagic.suggestions import instead_of

ALL = "--all"
"""The option of `%pipedb help` that lists all commands, topics and pages."""

_HEADING = re.compile(r"^# (.+?): (.+)\n+", re.MULTILINE)


@dataclass(frozen=True)
class Topic:
    """A topic of the help: its name and aliases, its summary, and its text."""

    name: str
    others: tuple[str, ...]
    about: str
    text: str


@cache
def topics() -> dict[str, Topic]:
    """Return the topics by name, in the order of the list."""
    of_plugins = plugins.for_each(lambda plugin: _topics_in(plugin.topics) if plugin.topics else (), warn)
    own = _topics_in(f"{__package__}:topics.md")
    return {topic.name: topic for topic in [*own, *(topic for group in of_plugins for topic in group), *own]}


def _topics_in(file: str) -> list[Topic]:
    """Return the topics in a file, which is named as ``package:file``."""
    package, _, file_name = file.partition(":")
    _, *parts = _HEADING.split(files(package).joinpath(file_name).read_text("utf-8"))
    topics = []
    for heading, about, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        name, *others = heading.split(", ")
        topics.append(Topic(name, tuple(others), about, text.strip()))
    return topics


def topic_named(name: str) -> Topic | None:
    """Return the topic with that name or alias, or None."""
    name = name.lower()
    return next((topic for topic in topics().values() if name in (topic.name, *topic.others)), None)


def show_help(name: str, groups: Sequence[CommandGroup], daily: Sequence[str]) -> None:
    """Show help on a command, topic or page; '' shows the ``daily`` commands, ``--all`` everything."""
    commands = {command.name: (command, group) for group in groups for command in group.commands}
    on_code = help_on_code(name)
    topic = None if on_code and name.isupper() else topic_named(name)
    name = name if topic is None else topic.name
    if name in ("", "help"):
        say(_overview([commands[entry][0] for entry in daily]))
    elif name == ALL:
        say(_everything(groups))
    elif name in commands:
        command, group = commands[name]
        say(f"{command_help(command)}\n\n{page_about(name, group.title)}")
    elif topic is not None:
        say(f"{_sql() if name == 'sql' else topic.text}\n\n{page_about(name)}")
    elif (page := page_named(name)) is not None:
        show(page)
    elif on_code:
        say(on_code)
    else:
        refuse_password(name)
        codes = [code for group in error_texts().values() for code in group]
        hint = instead_of(name, "command", [*commands, *topics(), *pages(), *page_words(), *codes])
        hint = hint or f"%pipedb help {ALL} lists all commands, topics and pages"
        raise UsageError(f"no help for {name[:40]!r}", hint=hint)


def _overview(daily: Sequence[Command]) -> str:
    more = [
        ("%pipedb help COMMAND", "the arguments and examples of a command"),
        ("%pipedb help sql", "the options of %%sql and %sql"),
        ("%pipedb help TOPIC", "parameters, results, transactions, tokens, limits, ..."),
        (f"%pipedb help {ALL}", "all commands, topics and pages"),
    ]
    return "\n".join([
        "%%sql runs a cell of SQL, %sql a line; %pipedb COMMAND does the rest:",
        "",
        *_table((command.name, command.help) for command in daily),
        "",
        *_table(more),
    ])  # fmt: skip


def _everything(groups: Sequence[CommandGroup]) -> str:
    sections = [(group.title, [(command.name, command.help) for command in group.commands]) for group in groups]
    sections += [
        ("Topics", [(topic.name, topic.about) for topic in topics().values()]),
        ("Pages of the documentation", [(page.name, page.title) for page in pages().values()]),
    ]
    return "\n\n".join("\n".join([title, *_table(rows)]) for title, rows in sections if rows)


def command_help(command: Command) -> str:
    """Return the help on a command: usage, description, arguments, examples."""
    lines = [command.usage, "", f"{command.help}."]
    if rows := _rows((*command.positionals, *command.options)):
        lines += ["", *rows]
    lines += ["", *(f"    {example}" for example in command.examples)]
    if (topic := topics().get(command.name)) is not None:
        lines += ["", topic.text.split("\n\n")[0]]  # without its examples
    return "\n".join(lines)


def _sql() -> str:
    from pipemagic.notebook.sql_options import PARAMETERS, RESULTS, RUNNING, sql_usage

    lines = [sql_usage(True), sql_usage(False), "", topics()["sql"].text]
    for title, options in (("Running", RUNNING), ("Parameters", PARAMETERS), ("Results", RESULTS)):
        lines += ["", title, *_rows(options)]
    return "\n".join([*lines, "", "See also %pipedb help parameters, transactions, results, limits"])


def _rows(accepted: Sequence[Positional | Option]) -> list[str]:
    return _table(
        (argument.name if isinstance(argument, Positional) else argument.label, argument.help) for argument in accepted
    )


def _table(pairs: Iterable[tuple[str, str]]) -> list[str]:
    rows = list(pairs)
    width = max((len(left) for left, _ in rows), default=0)
    return [f"  {left:{width}}  {right}" for left, right in rows]
