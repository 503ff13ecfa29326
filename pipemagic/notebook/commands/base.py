"""What a %pipedb subcommand is: its name, its arguments, what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipemagic.errors import PipemagicError
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.missing_tables import with_frame

if TYPE_CHECKING:
    from pipemagic.notebook.preferences import PipeMagic
    from pipemagic.session import Session


@dataclass(frozen=True)
class Context:
    """What a subcommand works on: the session, the variables of the notebook, and what the user prefers."""

    session: Session
    variables: dict[str, Any]
    preferences: PipeMagic


@dataclass(frozen=True)
class Command:
    """One subcommand. ``run`` prints its lines and gives the value of the magic, if it has one."""

    name: str
    help: str
    run: Callable[[Context, Arguments], object]
    positionals: tuple[Positional, ...] = ()
    options: tuple[Option, ...] = ()

    @property
    def usage(self) -> str:
        """The usage line."""
        return arguments.usage_of(f"%pipedb {self.name}", self.positionals, self.options)

    def __call__(self, line: str, context: Context) -> object:
        """Parse the rest of the line and run."""
        args = arguments.parse(line, self.positionals, self.options, self.usage)
        try:
            return self.run(context, args)
        except PipemagicError as error:
            raise with_frame(error, context.variables, args) from None


IF_NOT_EXISTS = Option("--if-not-exists", "do nothing, and say the same, if it is there already")
