"""Show help at the cursor (Shift+Tab): tables, columns, functions, options, subcommands.

It uses the names known to completion, and sends no requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from IPython.core.completer import position_to_cursor

from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option, Positional, kind_of
from pipemagic.notebook.completion.candidates import KnownNames, connection_of
from pipemagic.notebook.completion.magic_line import MagicText, magic_at
from pipemagic.notebook.completion.sql_help import Variable, column_help, sql_help, table_help
from pipemagic.notebook.line_variables import name_in_braces, text_of
from pipemagic.notebook.sql_options import OPTIONS

if TYPE_CHECKING:
    from pipemagic.notebook.magics import PipeMagics
    from pipemagic.notebook.plugin_magics import Accepted


def inspect_cell(magics: PipeMagics, code: str, offset: int, *, full: bool = False) -> dict[str, str] | None:
    """Return the help at an offset as a MIME bundle, empty if nothing is known; None outside our magics.

    ``full`` adds the CREATE statements of a table, the whole help of a subcommand, the source code of a variable.
    """
    magic = magic_at(magics, code, *position_to_cursor(code, min(offset, len(code))))
    if magic is None or magic.at < -len(magic.marker):
        return None
    detail = int(full)
    if magic.at <= 0:
        return _of_python(magics, magic.marker, detail)
    subject = Inspection(KnownNames(magics), magics.arguments_of_plugins, full=full).help_at(magic)
    if isinstance(subject, str):
        return {"text/plain": subject} if subject else {}
    if not subject.given:
        text = text_of(magics.user_ns.get(subject.name)) or ""
        if arguments.has_secret(text) or arguments.has_password(text):
            return {"text/plain": f"{subject.name}: an address with a token or a password"}
        return _of_python(magics, subject.name, detail)
    params = magics.user_ns.get(subject.given)
    if not isinstance(params, Mapping) or subject.name not in params:
        return {}
    return {"text/plain": f"{subject.given}[{subject.name!r}]: {type(params[subject.name]).__name__}"}


def _of_python(magics: PipeMagics, name: str, detail: int) -> dict[str, str]:
    try:
        inspect: Callable[..., dict[str, str]] = magics.shell.object_inspect_mime
        bundle = inspect(name, detail_level=detail)
    except KeyError:
        return {}
    return {"text/plain": bundle["text/plain"]}


class Inspection:
    """Finds the help for one position; ``full`` requests the full help."""

    def __init__(self, names: KnownNames, of_plugins: Mapping[str, Accepted], *, full: bool) -> None:
        self._known = names
        self._of_plugins = of_plugins
        self._full = full

    def help_at(self, magic: MagicText) -> str | Variable:
        """Return the help on the item at the cursor of a magic, '' if it is unknown."""
        if magic.name == "pipedb":
            return self._pipedb(magic.line, magic.at)
        if magic.marker in self._of_plugins:
            return self._of_plugin(magic)
        options, rest = arguments.leading_options(f"{magic.line}\n", OPTIONS)
        args = arguments.given_values(options)
        start = len(magic.line) + 1 - len(rest)
        if magic.at < start and magic.on_line:
            return self._argument(magic.line, magic.at, (), OPTIONS, args.get("--on"))
        text, at = rest + magic.body, max(magic.at - start, 0)
        help_ = sql_help(text, at, self._known.tables(args.get("--on")), full=self._full)
        return Variable(help_.name, args.get("--params") or "") if isinstance(help_, Variable) else help_

    def _of_plugin(self, magic: MagicText) -> str | Variable:
        on = connection_of(magic.line)
        if magic.on_line:
            return self._argument(magic.line, magic.at, *self._of_plugins[magic.marker], on)
        return sql_help(magic.body, magic.at - len(magic.line) - 1, self._known.tables(on), full=self._full)

    def _pipedb(self, line: str, at: int) -> str | Variable:
        from pipemagic.notebook.commands import COMMANDS
        from pipemagic.notebook.commands.help import command_help, topic_named

        here, before = arguments.argument_at(line, at, (), ())
        words = [assignment.word.text for assignment in before]
        if not words or words == ["help"]:
            if here.word.text in COMMANDS:
                return command_help(COMMANDS[here.word.text])
            topic = topic_named(here.word.text) if words else None
            return "" if topic is None else topic.text
        command = COMMANDS.get(words[0])
        if command is None:
            return ""
        end, on = before[0].word.end, connection_of(line)
        argument = self._argument(line[end:], at - end, command.positionals, command.options, on)
        return (
            f"{argument}\n\n{command_help(command)}"
            if isinstance(argument, str) and argument and self._full
            else argument
        )

    def _argument(
        self, line: str, at: int, positionals: Sequence[Positional], options: Sequence[Option], on: str | None
    ) -> str | Variable:
        """Return the help on an option, on the table or column that a word names, or the variable in braces."""
        here, _ = arguments.argument_at(line, at, positionals, options)
        if here.flag == "--help" and here.argument is None:
            return "--help\nshow the usage and the arguments"
        is_empty = not here.word.raw and isinstance(here.argument, Positional)
        if here.argument is None or is_empty or here.word.unclosed:
            return ""
        if name := name_in_braces(here.value or ""):
            return Variable(name)
        return self._named(here.argument, here.value or "", line, on) or f"{here.argument.label}\n{here.argument.help}"

    def _named(self, argument: Option | Positional, text: str, line: str, on: str | None) -> str:
        """Return the help on the table or column that an argument names, '' if it names none."""
        tables = self._known.tables(on)
        kind = kind_of(argument)
        if kind == "table":
            match = next((table for table in tables if table.name.lower() == text.lower()), None)
            return "" if match is None else table_help(match, full=self._full)
        if kind == "column":
            on_line = {word.text.lower() for word in arguments.split(line)}
            requested = {word.strip().strip('"').lower() for word in text.split(",")}
            named = [table for table in tables if table.name.lower() in on_line]
            return "\n".join(
                column_help(table, name) for table in named for name, _ in table.typed if name.lower() in requested
            )
        return ""
