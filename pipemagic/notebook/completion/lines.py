"""What the line of a magic can go on with: subcommands, options, their values, names of what there is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pipemagic.explore.words import can_be_shown
from pipemagic.notebook.arguments import Option, Positional
from pipemagic.notebook.completion.offers import Offer, fitting
from pipemagic.notebook.completion.sql import Answer

if TYPE_CHECKING:
    from pipemagic.notebook.commands.base import Command

Names = Mapping[str, Callable[[], Iterable[str]]]
"""What there is of each kind (``connection``, ``table``, ...), asked when it is needed; a mapping has their details."""


@dataclass
class Typed:
    """A line up to the cursor: the words that are whole, and the last one as far as it is typed.

    ``quote`` is the quote that is open before the cursor or '', ``closed`` says whether the next character closes it.
    """

    words: list[str] = field(default_factory=list)
    fragment: str = ""  # as it stands, with its opening quote
    quote: str = ""
    closed: bool = False

    @property
    def flag(self) -> str:
        """The option that the fragment gives a value to, ``--on=``; '' if it does not."""
        match = re.match(r"--?[\w-]+=", self.fragment)
        return match[0] if match else ""

    @property
    def text(self) -> str:
        """The fragment without its quotes."""
        value = self.fragment[len(self.flag) :]
        if self.quote and value[:1] == self.quote:
            return self.flag + value[1:].replace(self.quote * 2, self.quote)
        return self.flag + (plain(value) if value else "")


def read(line: str, after: str = "") -> Typed:
    """Read a line up to the cursor, where a word or a quote may be open; ``after`` is the rest of it. Never fails."""
    typed, word, quote = Typed(), None, ""
    for char in line:
        if quote:
            word = (word or "") + char
            quote = "" if char == quote else quote
        elif char.isspace():
            if word is not None:
                typed.words.append(plain(word))
            word = None
        else:
            word, quote = (word or "") + char, char if char in "'\"" else ""
    typed.fragment = word or ""
    typed.quote = quote if typed.fragment[len(typed.flag) :][:1] in ("'", '"') else ""
    typed.closed = bool(typed.quote) and after.startswith(typed.quote)
    return typed


def value_of(flag: str, given: Sequence[str]) -> str | None:
    """Return the value that an option has among the words of a line, None if it has none."""
    for word, following in zip_longest(given, given[1:]):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return plain(value) if (value := word.removeprefix(f"{flag}=")) else None
    return None


def plain(word: str) -> str:
    """Return a word without the quotes around it."""
    if word[0] in "'\"" and word[-1] == word[0] and len(word) > 1:
        return word[1:-1].replace(word[0] * 2, word[0])
    return word


def complete(
    line: str, positionals: Sequence[Positional], options: Sequence[Option], names: Names, after: str = ""
) -> Answer:
    """Complete the arguments of a command; ``line`` ends at the cursor, ``after`` is the text behind it."""
    typed = read(line, after)
    found = list(_argument(typed, positionals, options, names))
    return Answer(fitting(found, typed.text), typed.fragment)


_HELP = Option("--help", "show the usage and what each argument means")


def complete_command(
    line: str, commands: Sequence[Command], topics: Mapping[str, str], names: Names, after: str = ""
) -> Answer:
    """Complete a line of %pipedb, from the subcommand on; ``topics`` are those of help, with what they are about."""
    typed = read(line)
    offers = [Offer(one.name, "subcommand", detail=one.help) for one in commands]
    if not typed.words:
        offers.append(Offer("help", "subcommand", detail="Show all subcommands, or help on one of them or on a topic"))
        return Answer(fitting(offers, typed.text), typed.fragment)
    name = typed.words[0]
    if name == "help":
        offers = [*(Offer(topic, "topic", detail=about) for topic, about in topics.items()), *offers]
        return Answer(fitting(offers if len(typed.words) == 1 else (), typed.text), typed.fragment)
    command = next((one for one in commands if one.name == name), None)
    if command is None:
        return Answer([], typed.fragment)
    return complete(line.lstrip()[len(name) :], command.positionals, (*command.options, _HELP), names, after)


def _argument(
    typed: Typed, positionals: Sequence[Positional], options: Sequence[Option], names: Names
) -> Iterator[Offer]:
    given, flags, waiting = taken(typed.words, options)
    if waiting is not None:
        yield from _values(waiting, typed, names)
        return
    if typed.flag:
        option = find(typed.flag.removesuffix("="), options)
        if option is not None and option.value:
            value = Typed(fragment=typed.fragment.removeprefix(typed.flag), quote=typed.quote, closed=typed.closed)
            for offer in _values(option, value, names):
                name = f"{typed.flag}{offer.name or offer.text}"
                yield replace(offer, text=f"{typed.flag}{offer.text}", name=name)
        return
    if positionals and positionals[-1].repeated:
        given = min(given, len(positionals) - 1)
    if not typed.fragment.startswith("-") and given < len(positionals):
        yield from _values(positionals[given], typed, names)
    if not typed.quote:
        free = (one for one in options if one.flag not in flags or one.many)
        yield from (Offer(one.flag, "option", detail=one.help) for one in free)


def taken(given: Sequence[str], options: Sequence[Option]) -> tuple[int, set[str], Option | None]:
    """Count the positionals that are there, and give the flags, and the option that waits for its value."""
    count, flags, waiting = 0, set[str](), None
    for word in given:
        if waiting is not None:
            waiting = None
            continue
        if not word.startswith("-") or word == "-":
            count += 1
            continue
        option = find(word.partition("=")[0], options)
        if option is not None:
            flags.add(option.flag)
            waiting = option if option.value and "=" not in word else None
    return count, flags, waiting


def find(flag: str, options: Sequence[Option]) -> Option | None:
    """Return the option of that name, None if there is none."""
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
        for name, detail in _with_details(names[kind]()):
            if can_be_shown(name):
                inside = _in_list(name) if _takes_list(argument) else name
                yield Offer(f"{before}{comma}{_written(inside, Typed())}", kind, f"{before}{comma}{name}", detail)
    elif kind in names:
        for name, detail in _with_details(names[kind]()):
            if can_be_shown(name):
                yield Offer(_written(name, typed), kind, name, detail)


def _with_details(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    return names.items() if isinstance(names, Mapping) else ((name, "") for name in names)


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


def _written(name: str, typed: Typed) -> str:
    """Return a name as the line has it: in the quotes that are typed, or in some if it has blanks or quotes in it."""
    if typed.quote or not name or any(char.isspace() or char in "'\"" for char in name) or name.startswith("-"):
        quote = typed.quote or ("'" if '"' in name and "'" not in name else '"')
        return f"{quote}{name.replace(quote, quote * 2)}{'' if typed.closed else quote}"
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
            yield Offer(_written(path, typed), "file", path)


def variables(namespace: Mapping[str, Any], hidden: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Give the user's own variables: no private names, nothing of IPython, no modules, functions, classes."""
    skipped = {"In", "Out", "exit", "quit", "get_ipython", "open", *hidden}
    module = type(os)
    for name, value in list(namespace.items()):
        if not name.startswith("_") and name not in skipped and not isinstance(value, module) and not callable(value):
            yield name, value
