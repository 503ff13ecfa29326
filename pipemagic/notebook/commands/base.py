"""Declare the commands of %pipedb."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pipemagic.errors import ConfirmError, PipemagicError
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option, ParsedArguments, Positional
from pipemagic.notebook.line_variables import LineVariables
from pipemagic.notebook.load_source import add_load_hint

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.notebook.settings import PipeMagic
    from pipemagic.session import Connection, Session
    from pipemagic.session.organization import Organization


@dataclass(frozen=True)
class CommandContext:
    """One call of a command: the session, the variables, the settings, and the arguments.

    ``variables`` are those that the magic sees, in a function also the local ones; ``user_ns`` are those of the
    notebook. ``line`` is the text of the arguments.
    """

    session: Session
    variables: Mapping[str, Any]
    user_ns: dict[str, Any]
    settings: PipeMagic
    args: ParsedArguments = field(default_factory=ParsedArguments)
    line: str = ""

    @property
    def connection(self) -> Connection:
        """The connection named by ``--on``, by default the current one."""
        return self.session.connection(self.args.get("--on"))

    @property
    def organization(self) -> Organization:
        """The current organization."""
        return self.session.organization


CommandFunction = Callable[[CommandContext], object]

LineCheck = Callable[[str, Mapping[str, Any]], None]
"""Raises UsageError for a line before it is parsed. The second parameter has the variables."""


@dataclass(frozen=True)
class Command:
    """A command. ``run`` prints its lines and returns the value of the magic.

    The docstring of ``run`` is the help: its first line, and examples below it.
    """

    run: CommandFunction
    positionals: tuple[Positional, ...] = ()
    options: tuple[Option, ...] = ()
    check: LineCheck | None = None

    @property
    def name(self) -> str:
        """The name of the function, with dashes."""
        return self.run.__name__.replace("_", "-")

    @property
    def help(self) -> str:
        """The description in one line, without a period."""
        return self._doc[0].removesuffix(".")

    @property
    def examples(self) -> list[str]:
        """Lines that call the command."""
        return [line.strip() for line in self._doc[1:] if line.strip()]

    @property
    def _doc(self) -> list[str]:
        return (inspect.getdoc(self.run) or "").split("\n")  # python -OO removes docstrings

    @property
    def usage(self) -> str:
        """The usage line."""
        return arguments.usage_of(f"%pipedb {self.name}", self.positionals, self.options)

    def __call__(self, line: str, context: CommandContext) -> object:
        """Parse the rest of the line and run the command."""
        variables, args = LineVariables(line, self.usage, context.variables), ParsedArguments()
        try:
            if self.check is not None:
                self.check(line, context.variables)
            args = arguments.parse(line, self.positionals, self.options, self.usage, variables.value)
            return self.run(replace(context, args=args, line=line))
        except PipemagicError as error:
            explained = add_load_hint(error, context.variables, args.get("--on"))
            words = arguments.assign(arguments.split(line), self.positionals, self.options)
            raise variables.hint(explained, words) from None


class CommandGroup:
    """The commands under one heading of the help."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.commands: list[Command] = []

    def command(
        self, *accepted: Positional | Option, check: LineCheck | None = None
    ) -> Callable[[CommandFunction], CommandFunction]:
        """Decorate the function of a command that accepts these arguments."""
        positionals = tuple(argument for argument in accepted if isinstance(argument, Positional))
        options = tuple(argument for argument in accepted if isinstance(argument, Option))

        def declare(run: CommandFunction) -> CommandFunction:
            self.commands.append(Command(run, positionals, options, check))
            return run

        return declare


def check_confirmed(context: CommandContext, effect: str) -> None:
    """Raise ConfirmError if the line has no ``--confirm``; ``effect`` says what the command does."""
    if not context.args.on("--confirm"):
        raise ConfirmError(f"this command {effect}; nothing was changed", hint="add --confirm to run it")


ON = Option("--on", "use this connection instead of the current one", "NAME")


def frame_of(rows: Iterable[Sequence[object]], *columns: str) -> DataFrame:
    """Return rows as a DataFrame."""
    from pandas import DataFrame

    return DataFrame(list(rows), columns=list(columns))
