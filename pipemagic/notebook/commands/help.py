"""Show help: the list of subcommands, one subcommand, a topic, or a page of the documentation.

The topics are in topics.md. A heading is ``# NAME, OTHER NAME: summary``.
"""

from __future__ import annotations

import difflib
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

_HEADING = re.compile(r"^# (.+?): (.+)\n+", re.MULTILINE)


@dataclass(frozen=True)
class Topic:
    """A topic of the help: other names that lead to it, its summary, and its text."""

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
    """Return the topics in a file that is named as ``package:file``."""
    package, _, file_name = file.partition(":")
    _, *parts = _HEADING.split(files(package).joinpath(file_name).read_text("utf-8"))
    topics = []
    for heading, about, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        name, *others = heading.split(", ")
        topics.append(Topic(name, tuple(others), about, text.strip()))
    return topics


def topic_named(name: str) -> Topic | None:
    """Return the topic with that name or other name, None if there is none."""
    name = name.lower()
    return next((topic for topic in topics().values() if name in (topic.name, *topic.others)), None)


def show_help(name: str, groups: Sequence[CommandGroup], daily: Sequence[str]) -> None:
    """Show the help on a subcommand, topic or page; for '' the list of all, those of ``daily`` use first."""
    commands = {command.name: (command, group) for group in groups for command in group.commands}
    on_code = help_on_code(name)
    topic = None if on_code and name.isupper() else topic_named(name)
    name = name if topic is None else topic.name
    if name in ("", "help"):
        say(_overview(groups, daily))
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
        near = difflib.get_close_matches(name, [*commands, *topics(), *pages(), *page_words(), *codes], n=1)
        hint = f", did you mean {near[0]}?" if near else "; %pipedb help lists subcommands, topics and pages"
        raise UsageError(f"no help for {name[:40]!r}{hint}")


def _overview(groups: Sequence[CommandGroup], daily: Sequence[str]) -> str:
    commands = {command.name: command for group in groups for command in group.commands}
    sections = {"Daily use": [commands[name] for name in daily]}
    for group in groups:
        rest = [command for command in group.commands if command.name not in daily]
        sections[f"Advanced: {group.title[:1].lower()}{group.title[1:]}"] = rest
    width = max(map(len, [*topics(), *commands]))
    lines = ["%pipedb SUBCOMMAND, %%sql and %sql; %pipedb help SUBCOMMAND, TOPIC or PAGE shows the details"]
    for title, listed in sections.items():
        lines += ["", title, *_table(((command.name, command.help) for command in listed), width)]
    lines += ["", "Topics", *_table(((topic.name, topic.about) for topic in topics().values()), width)]
    if pages():
        titles = ((page.name, page.title) for page in pages().values())
        lines += ["", "Pages of the documentation", *_table(titles, max(map(len, pages())))]
    return "\n".join(lines)


def command_help(command: Command) -> str:
    """Return the help on a subcommand: usage, description, arguments, examples."""
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
    labels = [argument.name if isinstance(argument, Positional) else argument.label for argument in accepted]
    return _table(zip(labels, (argument.help for argument in accepted), strict=True), max(map(len, labels), default=0))


def _table(pairs: Iterable[tuple[str, str]], width: int) -> list[str]:
    return [f"  {left:{width}}  {right}" for left, right in pairs]
