"""What the line of a magic can go on with: subcommands, options, their values, names of what there is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipemagic.explore.words import can_be_shown
from pipemagic.notebook.arguments import Option, Positional
from pipemagic.notebook.completion.offers import Offer, fitting
from pipemagic.notebook.completion.sql import Answer

if TYPE_CHECKING:
    from pipemagic.notebook.commands.base import Command

Names = Mapping[str, Callable[[], Iterable[str]]]
"""What there is of each kind (``connection``, ``table``, ...), asked when it is needed."""


@dataclass
class Typed:
    """A line up to the cursor: the words that are whole, and the last one as far as it is typed."""

    words: list[str] = field(default_factory=list)
    fragment: str = ""  # as it stands, with its opening quote
    quote: str = ""
    last_start: int = 0

    @property
    def text(self) -> str:
        """The fragment without its quote."""
        return self.fragment[1:].replace(self.quote * 2, self.quote) if self.quote else self.fragment


def read(line: str) -> Typed:
    """Read a line that may end in the middle of a word or of a quote; never fails."""
    typed, word, quote, start = Typed(), None, "", 0
    for index, char in enumerate(line):
        if quote:
            word = (word or "") + char
            quote = "" if char == quote else quote
        elif char.isspace():
            if word is not None:
                typed.words.append(_plain(word))
            word = None
        else:
            start = index if word is None else start
            word, quote = (word or "") + char, char if char in "'\"" else ""
    typed.fragment, typed.last_start = word or "", start if word else len(line)
    typed.quote = typed.fragment[0] if typed.fragment[:1] in ("'", '"') and quote else ""
    return typed


def _plain(word: str) -> str:
    if word[0] in "'\"" and word[-1] == word[0] and len(word) > 1:
        return word[1:-1].replace(word[0] * 2, word[0])
    return word


def complete(line: str, positionals: Sequence[Positional], options: Sequence[Option], names: Names) -> Answer:
    """Complete the arguments of a command; ``line`` ends at the cursor."""
    typed = read(line)
    found = list(_argument(typed, positionals, options, names))
    return Answer(fitting(found, typed.text), typed.fragment)


def complete_command(line: str, commands: Mapping[str, Command], topics: Iterable[str], names: Names) -> Answer:
    """Complete a line of %pipedb, from the subcommand on."""
    typed = read(line)
    if not typed.words:
        offers = [Offer(name, "subcommand") for name in [*commands, "help"]]
        return Answer(fitting(offers, typed.text), typed.fragment)
    name = typed.words[0]
    if name == "help":
        offers = [Offer(topic, "topic") for topic in topics] + [Offer(one, "subcommand") for one in commands]
        return Answer(fitting(offers if len(typed.words) == 1 else (), typed.text), typed.fragment)
    command = commands.get(name)
    if command is None:
        return Answer([], typed.fragment)
    return complete(line.lstrip()[len(name) :], command.positionals, command.options, names)


def _argument(
    typed: Typed, positionals: Sequence[Positional], options: Sequence[Option], names: Names
) -> Iterator[Offer]:
    given, flags, waiting = _taken(typed.words, options)
    if waiting is not None:
        yield from _values(waiting, typed, names)
        return
    flag, equals, _ = typed.fragment.partition("=")
    if equals and flag.startswith("-"):
        option = _find(flag, options)
        if option is not None and option.value:
            for offer in _values(option, typed, names):
                yield Offer(f"{flag}={offer.text}", offer.kind, f"{flag}={offer.name or offer.text}")
        return
    if positionals and positionals[-1].repeated:
        given = min(given, len(positionals) - 1)
    if not typed.fragment.startswith("-") and given < len(positionals):
        yield from _values(positionals[given], typed, names)
    if not typed.quote:
        yield from (Offer(one.flag, "option") for one in options if one.flag not in flags or one.many)
        yield Offer("--help", "option")


def _taken(given: Sequence[str], options: Sequence[Option]) -> tuple[int, set[str], Option | None]:
    """Count the positionals that are there, and give the flags, and the option that waits for its value."""
    count, flags, waiting = 0, set[str](), None
    for word in given:
        if waiting is not None:
            waiting = None
            continue
        if not word.startswith("-") or word == "-":
            count += 1
            continue
        option = _find(word.partition("=")[0], options)
        if option is not None:
            flags.add(option.flag)
            waiting = option if option.value and "=" not in word else None
    return count, flags, waiting


def _find(flag: str, options: Sequence[Option]) -> Option | None:
    return next((one for one in options if flag in (one.flag, one.short)), None)


def _values(argument: Option | Positional, typed: Typed, names: Names) -> Iterator[Offer]:
    if argument.choices:
        yield from (Offer(choice, "value") for choice in argument.choices)
        return
    kind = kind_of(argument)
    if kind == "file":
        yield from _files(typed)
    elif kind == "column" and not typed.quote:
        before, comma, _ = typed.text.rpartition(",")  # a list of them is typed with commas
        for name in names[kind]():
            if can_be_shown(name):
                inside = _in_list(name) if _takes_list(argument) else name
                yield Offer(f"{before}{comma}{_written(inside, '')}", kind, f"{before}{comma}{name}")
    elif kind in names:
        for name in names[kind]():
            if can_be_shown(name):
                yield Offer(_written(name, typed.quote), kind, name)


_BY_NAME = {
    "TABLE": "table", "A": "table", "B": "table", "COLUMN": "column", "A,B": "column", "KEY[,KEY]": "column",
    "FRAME": "frame", "GROUP": "group", "CODE": "location", "FILE": "file", "PATH": "file",
    "VARIABLE": "variable", "--on": "connection", "--to": "connection", "--location": "location", "--params": "dict",
    "--out": "name", "--with": "snippet", "TARGET": "target", "SLUG": "organization",
}  # fmt: skip
"""The kinds of arguments that do not say theirs themselves, by flag or by the name of the value."""


def kind_of(argument: Option | Positional) -> str:
    """Tell what an argument's value is the name of; '' if it is anything."""
    if argument.completes:
        return argument.completes
    if isinstance(argument, Option):
        return _BY_NAME.get(argument.value.split(".")[0]) or _BY_NAME.get(argument.flag, "")
    return _BY_NAME.get(argument.name, "")


def _written(name: str, quote: str) -> str:
    """Give a name as the line of a magic has it: in quotes if it has blanks or quotes in it."""
    if quote or not name or any(char.isspace() or char in "'\"" for char in name) or name.startswith("-"):
        quote = quote or ("'" if '"' in name and "'" not in name else '"')
        return f"{quote}{name.replace(quote, quote * 2)}{quote}"
    return name


def _takes_list(argument: Option | Positional) -> bool:
    return isinstance(argument, Option) and "," in argument.value


def _in_list(name: str) -> str:
    """Give a name as it stands between the commas of a list, before the word is quoted for the line."""
    quoted = len(name) > 1 and name[0] == name[-1] == '"'
    return f'"{name.replace(chr(34), chr(34) * 2)}"' if "," in name or quoted or name != name.strip() else name


def _files(typed: Typed) -> Iterator[Offer]:
    """Files of this machine; those that begin with a dot only when it is typed."""
    head, tail = os.path.split(typed.text)
    try:
        with os.scandir(os.path.expanduser(head) or ".") as found:
            entries = sorted((entry.name, entry.is_dir()) for entry in found)
    except OSError:
        return
    for name, is_folder in entries:
        if can_be_shown(name) and (not name.startswith(".") or tail.startswith(".")):
            path = os.path.join(head, name) + ("/" if is_folder else "")
            yield Offer(_written(path, typed.quote), "file", path)


def variables(namespace: Mapping[str, Any], hidden: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Give the user's own variables: no private names, nothing of IPython, no modules, functions, classes."""
    skipped = {"In", "Out", "exit", "quit", "get_ipython", "open", *hidden}
    module = type(os)
    for name, value in list(namespace.items()):
        if not name.startswith("_") and name not in skipped and not isinstance(value, module) and not callable(value):
            yield name, value
