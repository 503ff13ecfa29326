"""``--save NAME``: the SELECT of a cell is kept, for a later cell to read from with ``--with NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from pipemagic import sql
from pipemagic.notebook import asking
from pipemagic.notebook.arguments import Arguments
from pipemagic.notebook.display import say
from pipemagic.notebook.preferences import PipeMagic

if TYPE_CHECKING:
    from pipemagic.session.text.snippets import Snippet, Snippets


def wished(args: Arguments, asked: asking.Question, snippets: Snippets) -> Snippet | None:
    """Give what is to be saved of a cell, checked; None without ``--save``."""
    from pipemagic.session.text.snippets import Snippet

    name = args.get("--save")
    if name is None:
        return None
    if asked.made:
        raise UsageError("--save keeps no values, and | bind made parameters of some: write :name instead")
    statements = sql.split(asked.text)
    snippet = Snippet(name, statements[0].text if len(statements) == 1 else asked.text, asking.using(args))
    snippets.check(snippet)
    return snippet


def keep(snippet: Snippet | None, snippets: Snippets, args: Arguments, preferences: PipeMagic) -> None:
    """Save it, if there is something to save, and say so."""
    if snippet is None:
        return
    snippets.save(snippet)
    if not (args.on("--quiet") or preferences.quiet):
        say(f"Saved {snippet.name}.")
