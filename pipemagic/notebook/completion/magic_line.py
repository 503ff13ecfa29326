"""Complete the text of a magic: commands, options and their values on its line, and the SQL after them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipemagic.explore.sqlite_reference import is_displayable
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Assigned, Option, ParsedArguments, Positional, kind_of
from pipemagic.notebook.completion.candidates import (
    Completion,
    Completions,
    KnownNames,
    NamesByKind,
    connection_of,
    matching,
)
from pipemagic.notebook.sql_options import OPTIONS

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext

    from pipemagic.notebook.magics import PipeMagics

_CELL = re.compile(r"\s*(%%\w+)(?=\s|\Z)")
_LINE = re.compile(r"\s*(?:[^\W\d]\w*\s*=\s*)?(%\w+)(?=\s|\Z)")  # also x = %sql ...
_OWN = {"%%sql", "%sql", "%pipedb"}
_HELP = Option("--help", "show the usage and the arguments")


@dataclass(frozen=True)
class MagicText:
    """The text of a magic: its line after the name, and the body of the cell below.

    ``marker`` is the name with its percent signs. ``at`` is the offset of the cursor after it, negative if the cursor
    is in the name or before it.
    """

    marker: str
    line: str
    body: str
    at: int

    @property
    def name(self) -> str:
        """The name of the magic."""
        return self.marker.lstrip("%")

    @property
    def on_line(self) -> bool:
        """True if the cursor is on the line of the magic."""
        return self.at <= len(self.line)


def magic_at(magics: PipeMagics, text: str, row: int, column: int) -> MagicText | None:
    """Return the magic whose text contains the cursor, None outside our magics and those of plugins."""
    known = _OWN | magics.arguments_of_plugins.keys()
    rows = text.split("\n")
    start = next((number for number, content in enumerate(rows) if content.strip()), 0)
    if (head := _CELL.match(rows[start])) and head[1] in known and row >= start:
        line, below = rows[start][head.end() :], rows[start + 1 :]
        if row == start:
            at = column - head.end()
        else:
            at = len(line) + 1 + sum(len(above) + 1 for above in rows[start + 1 : row]) + column
        return MagicText(head[1], line, "\n".join(below), at)
    if (match := _LINE.match(rows[row])) and match[1] in known:
        return MagicText(match[1], rows[row][match.end() :], "", column - match.end())
    return None


def complete_cell(magics: PipeMagics, context: CompletionContext) -> Completions | None:
    """Return the completions at the cursor, None outside our magics."""
    magic = magic_at(magics, context.full_text, context.cursor_line, context.cursor_position)
    if magic is None or magic.at <= 0:
        return None
    names = KnownNames(magics)
    if magic.name == "pipedb":
        return _complete_command(magic.line, magic.at, names)
    from pipemagic.notebook.completion import sql_candidates as sql

    if magic.marker not in _OWN:
        on = connection_of(magic.line)
        if magic.on_line:
            return complete(magic.line, magic.at, *magics.arguments_of_plugins[magic.marker], names.by_kind(on))
        return sql.complete(
            magic.body, magic.at - len(magic.line) - 1, names.tables(on), names.parameters(ParsedArguments())
        )
    options, rest = arguments.leading_options(magic.line[: magic.at] if magic.on_line else f"{magic.line}\n", OPTIONS)
    args = arguments.given_values(options)
    tables, parameters = names.relations(args.get("--on"), rest + magic.body), names.parameters(args)
    if not magic.on_line:
        return sql.complete(rest + magic.body, magic.at - len(magic.line) - 1 + len(rest), tables, parameters)
    if rest not in ("", "-", "--"):
        below = f"\n{magic.body}" if magic.body else ""
        return sql.complete(f"{rest}{magic.line[magic.at :]}{below}", len(rest), tables, parameters)
    answer = complete(magic.line, magic.at, (), OPTIONS, names.by_kind(args.get("--on")))
    if rest or answer.fragment or arguments.waiting_option(options):
        return answer
    return Completions([*answer.items, *sql.complete("", 0, tables, parameters).items], answer.fragment)


def _complete_command(line: str, at: int, namespace: KnownNames) -> Completions:
    """Complete a line of %pipedb, starting with the command."""
    from pipemagic.notebook.commands import COMMANDS, DAILY
    from pipemagic.notebook.commands.help import ALL, topics
    from pipemagic.notebook.commands.pages import pages

    here, before = arguments.argument_at(line[:at], at, (), ())
    completions = [
        Completion(name, "command", detail=COMMANDS[name].help) for name in dict.fromkeys([*DAILY, *COMMANDS])
    ]
    name = before[0].word.text if before else ""
    if name in COMMANDS:
        end, on, command = before[0].word.end, connection_of(line[:at]), COMMANDS[name]
        names = {**namespace.by_kind(on), "column": lambda: namespace.columns(line[:at], on)}
        return complete(line[end:], at - end, command.positionals, (*command.options, _HELP), names)
    if not before:
        completions.append(
            Completion("help", "command", detail="Show the daily commands, or help on a command, topic or page")
        )
    elif name == "help" and len(before) == 1:
        completions = [
            Completion(ALL, "option", detail="all commands, topics and pages"),
            *(Completion(topic.name, "topic", detail=topic.about) for topic in topics().values()),
            *completions,
            *(Completion(page.name, "page", detail=page.title) for page in pages().values()),
        ]
    else:
        completions = []
    return Completions(matching(completions, here.word.text), here.word.raw)


def complete(
    line: str, at: int, positionals: Sequence[Positional], options: Sequence[Option], names: NamesByKind
) -> Completions:
    """Complete the argument at an offset of a line."""
    here, before = arguments.argument_at(line[:at], at, positionals, options)
    completions = _completions(_TypedValue(here, line[at:]), before, options, names)
    return Completions(matching(completions, here.word.text), here.word.raw)


class _TypedValue:
    """The unfinished value at the cursor: its text, its prefix (``--on=``), and the quotes around it."""

    def __init__(self, here: Assigned, after: str) -> None:
        self.here = here
        self.prefix = f"{here.flag}=" if here.flag and here.value is not None else ""
        self.text = here.value or ""
        typed = here.word.raw[len(self.prefix) :]
        self.quote = here.word.unclosed if typed[:1] == here.word.unclosed else ""
        self.after = after
        self.closed = bool(self.quote) and after.startswith(self.quote)  # JupyterLab inserts the closing quote

    def in_braces(self, name: str) -> Completion:
        """Return the completion of the value of a variable; JupyterLab inserts the closing brace."""
        closed = self.after.startswith("}")
        quote = "" if closed or self.closed else self.quote
        text = f"{self.prefix}{self.quote}{{{name}{'' if closed else '}'}{quote}"
        return Completion(text, "variable", f"{self.prefix}{{{name}}}")

    def written(self, name: str) -> str:
        """Return a name in the open quotes, or else in quotes if it needs them."""
        if not self.quote and ("{" in name or name[:1] in ("$", ":", "@")):
            from pipemagic.text import word

            return word(name)
        if self.quote or not name or any(char.isspace() or char in "'\"" for char in name) or name.startswith("-"):
            quote = self.quote or ("'" if '"' in name and "'" not in name else '"')
            return f"{quote}{name.replace(quote, quote * 2)}{'' if self.closed else quote}"
        return name


def _completions(
    cursor: _TypedValue, before: Sequence[Assigned], options: Sequence[Option], names: NamesByKind
) -> Iterator[Completion]:
    here, argument = cursor.here, cursor.here.argument
    is_value = not here.flag or (bool(cursor.prefix) and isinstance(argument, Option) and bool(argument.value))
    must_be_value = cursor.prefix or cursor.quote or (isinstance(argument, Option) and not here.flag)
    flags = [] if must_be_value else list(_flags(before, options))
    yield from (flag for flag, leads in flags if leads)
    if argument is not None and is_value and cursor.text.startswith("{"):
        yield from (cursor.in_braces(name) for name in names["text"]())
    elif argument is not None and is_value:
        for completion in _values(argument, cursor, names):
            name = f"{cursor.prefix}{completion.name or completion.text}"
            yield replace(completion, text=f"{cursor.prefix}{completion.text}", name=name)
    yield from (flag for flag, leads in flags if not leads)


def _flags(before: Sequence[Assigned], options: Sequence[Option]) -> Iterator[tuple[Completion, bool]]:
    """Yield the options that can still be written, and if they come before the values."""
    used = {
        assignment.argument.flag for assignment in before if assignment.flag and isinstance(assignment.argument, Option)
    }
    for option in options:
        if option.flag not in used or option.many:
            yield Completion(option.flag, "option", detail=option.help), option.leads


def _values(argument: Option | Positional, cursor: _TypedValue, names: NamesByKind) -> Iterator[Completion]:
    if argument.choices:
        yield from (Completion(choice, "value") for choice in argument.choices)
    for kind in () if argument.choices else kind_of(argument).split("|"):
        yield from _values_of(kind, argument, cursor, names)


def _values_of(
    kind: str, argument: Option | Positional, cursor: _TypedValue, names: NamesByKind
) -> Iterator[Completion]:
    if kind == "file":
        yield from _files(cursor)
    elif kind == "data file":
        from pipemagic.frames.readers import is_file_name

        yield from _files(cursor, is_file_name)
    elif kind == "column" and not cursor.quote:
        before, comma, _ = cursor.text.rpartition(",")  # columns are typed as a list with commas
        for name, detail in _with_details(names[kind]()):
            if is_displayable(name):
                inside = _in_list(name) if isinstance(argument, Option) and "," in argument.value else name
                yield Completion(f"{before}{comma}{cursor.written(inside)}", kind, f"{before}{comma}{name}", detail)
    elif kind in names:
        for name, detail in _with_details(names[kind]()):
            if is_displayable(name):
                yield Completion(cursor.written(name), kind, name, detail)


def _with_details(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    return names.items() if isinstance(names, Mapping) else ((name, "") for name in names)


def _in_list(name: str) -> str:
    """Return a name as an item of a list, before the word is quoted for the line."""
    quoted = len(name) > 1 and name[0] == name[-1] == '"'
    return f'"{name.replace(chr(34), chr(34) * 2)}"' if "," in name or quoted or name != name.strip() else name


def _files(cursor: _TypedValue, accepts: Callable[[str], bool] = bool) -> Iterator[Completion]:
    """Return the files of this machine; hidden files only after a typed dot."""
    head, tail = os.path.split(cursor.text)
    try:
        with os.scandir(os.path.expanduser(head) or ".") as directory:
            entries = sorted((entry.name, entry.is_dir()) for entry in directory)
    except OSError:
        return
    for name, is_folder in entries:
        hidden = name.startswith(".") and not tail.startswith(".")
        if is_displayable(name) and not hidden and (is_folder or accepts(name)):
            path = os.path.join(head, name) + ("/" if is_folder else "")
            yield Completion(cursor.written(path), "file", path)
