"""``--explain`` and ``--dry-run``: what a cell would do, without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from pipemagic.notebook import asking
from pipemagic.notebook.arguments import Arguments

if TYPE_CHECKING:
    from pipemagic.session import Session


def answer(session: Session, asked: asking.Question, args: Arguments, variables: dict[str, Any]) -> Any:
    """Return what is known of the cell, or store it under the name of ``--out``; UsageError for several names."""
    explains, names = args.on("--explain"), asking.variables(args)
    if len(names) > 1:
        raise UsageError(f"{'--explain' if explains else '--dry-run'} gives one value; name one variable")
    cell = session.read(asked.text, asked.values, source=asked.source, using=asked.using)
    found = (session.explain if explains else session.describe)(cell, on=args.get("--on"))
    if not names:
        return found
    variables[names[0]] = found
    return None
