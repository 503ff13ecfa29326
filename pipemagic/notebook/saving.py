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
    from pipemagic.session.snippets import Snippet, Snippets


def wished(name: str, asked: asking.Question, snippets: Snippets) -> Snippet:
    """Return what is to be saved of a cell, checked."""
    from pipemagic.session.snippets import Snippet

    if asked.made:
        raise UsageError("--save keeps no values, and | bind made parameters of some: write :name instead")
    statements = sql.split(asked.text)
    snippet = Snippet(name, statements[0].text if len(statements) == 1 else asked.text, asked.using)
    snippets.check(snippet)
    return snippet


def keep(snippet: Snippet, snippets: Snippets, args: Arguments, preferences: PipeMagic) -> None:
    """Save it, and print a line about it."""
    snippets.save(snippet)
    if not (args.on("--quiet") or preferences.quiet):
        say(f"Saved {snippet.name}.")
