"""%pipedb panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipemagic.notebook.arguments import Arguments, Positional
from pipemagic.notebook.commands.base import Command, Context

if TYPE_CHECKING:
    from pipemagic.notebook.panels.base import Displayable


def panel(context: Context, args: Arguments) -> Displayable:
    """Return a panel."""
    from pipemagic.notebook.panels.opening import open_panel

    return open_panel(context.session, args.get("NAME") or "all", context.variables)


NAME = Positional(
    "NAME",
    "which panel; without a name all of them, in tabs",
    optional=True,
    choices=("locations", "groups", "databases", "organization", "session", "explore"),
)

COMMAND: Command = Command("panel", "Show a panel: what is there to connect to, or what is open", panel, (NAME,))
