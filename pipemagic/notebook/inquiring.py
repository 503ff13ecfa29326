"""``--explain`` and ``--dry-run``: what a cell would do, without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from pipemagic.notebook import asking
from pipemagic.notebook.arguments import Arguments

if TYPE_CHECKING:
    from pipemagic.session import Session
    from pipemagic.session.cells import Cell


def asks(args: Arguments) -> bool:
    """Tell whether the cell is only asked about; UsageError for several names for the one answer."""
    flags = [flag for flag in ("--explain", "--dry-run") if args.on(flag)]
    if not flags:
        return False
    if len(asking.variables(args)) > 1:
        raise UsageError(f"{flags[0]} gives one value; name one variable")
    return True


def answer(session: Session, cell: Cell, args: Arguments, variables: dict[str, Any]) -> Any:
    """Ask; give what is known of the cell, or store it under the name of ``--out``."""
    ask = session.explain if args.on("--explain") else session.describe
    found, names = ask(cell, on=args.get("--on")), asking.variables(args)
    if not names:
        return found
    variables[names[0]] = found
    return None
