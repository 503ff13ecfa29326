"""What becomes of a cell's results: shown, given back, or stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipemagic.notebook.arguments import Arguments
from pipemagic.notebook.display import say, show_cell
from pipemagic.notebook.preferences import PipeMagic

if TYPE_CHECKING:
    from pipemagic.session import CellResult


def deliver(result: CellResult, args: Arguments, variables: dict[str, Any], preferences: PipeMagic) -> Any:
    """Show what is to be shown; give the frame, or store it."""
    quiet, returned = args.on("--quiet") or preferences.quiet, result.returned
    if not quiet:
        show_cell(result)
    frame = None if returned is None else returned.frame(note=None if quiet else say)
    name = args.get("--out")
    if name is None:
        return frame
    variables[name] = frame
    if frame is None and not quiet:
        say(f"{name} is None: no statement returned columns.")
    return None
