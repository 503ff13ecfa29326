"""%pipedb begin, commit, rollback, retry: on the stream of the cells, like BEGIN and COMMIT in a cell."""

from __future__ import annotations

from IPython.core.error import UsageError

from pipemagic.counts import plural
from pipemagic.notebook import outcomes
from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.display import say

ON = Option("--on", "do it on this connection, the current one stays", "NAME")

MODES = ("DEFERRED", "IMMEDIATE")


def begin(context: Context, args: Arguments) -> None:
    """Begin a transaction."""
    mode = (args.get("MODE") or MODES[0]).upper()
    if mode not in MODES:
        raise UsageError(f"MODE is one of {', '.join(MODES)}; not {args['MODE']!r}")
    say(context.session.connection(args.get("--on")).begin(mode).open_line)


def commit(context: Context, args: Arguments) -> None:
    """Commit the open transaction."""
    say(outcomes.commit(context.session.connection(args.get("--on"))))


def rollback(context: Context, args: Arguments) -> None:
    """Roll the open transaction back, or go on without one that was lost."""
    say(outcomes.rollback(context.session.connection(args.get("--on"))))


def retry(context: Context, args: Arguments) -> None:
    """Show the statements that were undone, and run them again as one atomic batch."""
    from pipemagic.session.messages import listing

    connection = context.session.connection(args.get("--on"))
    texts = [statement.text for statement in connection.to_retry().statements]
    say(f"Running {plural(len(texts), 'statement')} again, with the parameter values of then, all or nothing:")
    say(listing(texts, most=outcomes.MOST_STATEMENTS))
    say(outcomes.retry(connection))


COMMANDS: tuple[Command, ...] = (
    Command(
        "begin",
        "Begin a transaction on the connection of the cells",
        begin,
        (
            Positional(
                "MODE",
                "DEFERRED, the default: it waits for other writers at its first write; IMMEDIATE: it waits now",
                optional=True,
            ),
        ),
        (ON,),
    ),
    Command("commit", "Commit the open transaction", commit, options=(ON,)),
    Command("rollback", "Roll back the open transaction, or go on without one that was lost", rollback, options=(ON,)),
    Command("retry", "Run a transaction that was rolled back again, all or nothing", retry, options=(ON,)),
)
