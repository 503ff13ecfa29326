"""The base class of the magics of plugins, and those of a shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics

from pipemagic import plugins
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option, ParsedArguments, Positional
from pipemagic.notebook.line_variables import LineVariables

if TYPE_CHECKING:
    from pipemagic.notebook.magics import PipeMagics
    from pipemagic.plugins import Plugin


Accepted = tuple[Sequence[Positional], Sequence[Option]]
"""The positional arguments and the options of a magic."""


class PluginMagics(Magics):
    """Magics that use the session of %pipedb; their classes have the decorator `magics_class`, as in IPython.

    ``arguments`` are the positional arguments and the options of each magic, by its name with percent signs. Completion
    and Shift+Tab use them, and help with the SQL in a cell below such a line. ``pipe`` has the `session`, the
    `settings` and the variables (`user_ns`) of the shell.
    """

    shell: InteractiveShell
    arguments: ClassVar[Mapping[str, Accepted]] = {}

    def __init__(self, pipe: PipeMagics) -> None:
        super().__init__(pipe.shell)
        self.pipe = pipe

    def names(self) -> Mapping[str, Callable[[], Iterable[str]]]:
        """Return functions that return the names that complete an argument, by its ``completes``."""
        return {}

    def parse(self, marker: str, line: str, variables: Mapping[str, Any]) -> ParsedArguments:
        """Return the arguments on the line of a magic; raise UsageError if it does not accept them."""
        positionals, options = self.arguments[marker]
        usage = arguments.usage_of(marker, positionals, options)
        return arguments.parse(line, positionals, options, usage, LineVariables(line, usage, variables).value)


def magics_of_plugins(pipe: PipeMagics, report: Callable[[str], None]) -> list[PluginMagics]:
    """Return the magics of all plugins; report those that cannot be imported, or define a magic of pipemagic."""

    def made(plugin: Plugin) -> list[PluginMagics]:
        magics: list[PluginMagics] = [plugins.load(target)(pipe) for target in plugin.magics]
        own = {name for group in magics for of_kind in group.magics.values() for name in of_kind}
        if clashes := sorted(own & {*pipe.magics["line"], *pipe.magics["cell"]}):
            raise ValueError(f"%{clashes[0]} is already a magic of pipemagic")
        return magics

    return [magics for group in plugins.for_each(made, report) for magics in group]
