"""Begin, commit, roll back and retry transactions on the connection of the cells."""

from __future__ import annotations

from pipemagic.notebook import outcomes
from pipemagic.notebook.arguments import Positional
from pipemagic.notebook.commands.base import ON, Context, Group
from pipemagic.notebook.display import say
from pipemagic.text import plural

GROUP = Group("Transactions")


@GROUP.command(
    Positional(
        "MODE",
        "when to take the write lock: at the first write (DEFERRED, the default) or now (IMMEDIATE)",
        optional=True,
        choices=("DEFERRED", "IMMEDIATE"),
    ),
    ON,
)
def begin(context: Context) -> None:
    """Begin a transaction on the connection of the cells.

    %pipedb begin
    %pipedb begin immediate
    """
    say(context.connection.begin(context.args.get("MODE") or "DEFERRED").open_line)


@GROUP.command(ON)
def commit(context: Context) -> None:
    """Commit the open transaction.

    %pipedb commit
    """
    say(outcomes.commit(context.connection))


@GROUP.command(ON)
def rollback(context: Context) -> None:
    """Roll back the open transaction, or discard a lost one.

    %pipedb rollback
    """
    say(outcomes.rollback(context.connection))


@GROUP.command(ON)
def retry(context: Context) -> None:
    """Rerun a lost transaction, all or nothing.

    %pipedb retry
    """
    from pipemagic.session.messages import listing

    texts = [statement.text for statement in context.connection.to_retry().statements]
    say(f"Rerunning {plural(len(texts), 'statement')} with the original parameter values, all or nothing:")
    say(listing(texts, most=outcomes.MOST_STATEMENTS))
    say(outcomes.retry(context.connection))
