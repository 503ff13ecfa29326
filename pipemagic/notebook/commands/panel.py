"""%pipedb panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipemagic.notebook.arguments import Arguments
from pipemagic.notebook.commands.base import Command, Context

if TYPE_CHECKING:
    from pipemagic.notebook.panels.platform import PlatformPanel


def panel(context: Context, args: Arguments) -> PlatformPanel:  # noqa: ARG001
    """Give the panel: locations, groups and databases, and forms that make them."""
    from pipemagic.notebook.panels.platform import PlatformModel, PlatformPanel

    model = PlatformModel(context.session)
    model.fetch()
    return PlatformPanel(model)


COMMAND: Command = Command("panel", "Show a panel that lists and creates groups and databases", panel)
