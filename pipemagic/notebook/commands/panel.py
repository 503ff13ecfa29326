"""%pipedb panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipemagic.notebook.arguments import Arguments, Positional
from pipemagic.notebook.commands.base import Command, Context

if TYPE_CHECKING:
    from pipemagic.notebook.panels.platform import PlatformPanel
    from pipemagic.notebook.panels.session import SessionPanel


def panel(context: Context, args: Arguments) -> PlatformPanel | SessionPanel:
    """Give a panel: of locations, groups and databases, or of what the session has open."""
    return _session(context) if args.get("WHICH") == "session" else _platform(context)


def _session(context: Context) -> SessionPanel:
    from pipemagic.notebook.panels.session import SessionModel, SessionPanel

    model = SessionModel(context.session)
    model.look()
    model.follow()
    return SessionPanel(model)


def _platform(context: Context) -> PlatformPanel:
    from pipemagic.notebook.panels.platform import PlatformModel, PlatformPanel

    model = PlatformModel(context.session)
    model.fetch()
    return PlatformPanel(model)


WHICH = Positional(
    "WHICH",
    "platform, the default: groups and databases; session: connections, open transactions and their clocks",
    optional=True,
    choices=("platform", "session"),
)

COMMAND: Command = Command("panel", "Show a panel: what is there to connect to, or what is open", panel, (WHICH,))
