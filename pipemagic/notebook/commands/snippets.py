"""%pipedb snippets: the SELECTs that were saved with --save."""

from __future__ import annotations

from IPython.core.error import UsageError

from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.display import say


def snippets(context: Context, args: Arguments) -> object:
    """Give the saved SELECTs as a DataFrame, show one of them, or forget it."""
    from pandas import DataFrame

    saved, shown, forgotten = context.session.snippets, args.get("NAME"), args.get("--delete")
    if shown and forgotten:
        raise UsageError("NAME shows a saved SELECT, and --delete NAME forgets one: only one of them")
    if forgotten:
        say(f"Forgot {saved.delete(forgotten).name}.")
        return None
    if shown:
        snippet = saved.get(shown)
        uses = f" --with {','.join(snippet.uses)}" if snippet.uses else ""
        say(f"%%sql --save {snippet.name}{uses}\n{snippet.text}")
        return None
    rows = [(one.name, ", ".join(one.uses), " ".join(one.text.split())) for one in saved]
    return DataFrame(rows, columns=["snippet", "with", "sql"])


COMMAND: Command = Command(
    "snippets",
    "List the SELECTs saved with %%sql --save, or show one",
    snippets,
    (Positional("NAME", "the one to show", optional=True, completes="snippet"),),
    (Option("--delete", "forget this one", "NAME", completes="snippet"),),
)
