"""%pipedb status, version, health: beside the stream, whose clock they do not renew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipemagic.errors import ServerError, SessionError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook.arguments import Arguments, Option
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pipemagic.session import Connection

ON = Option("--on", "ask this connection, the current one stays", "NAME")


def status(context: Context, args: Arguments) -> None:
    """Say what is connected and what is open, with the clocks. Asks no server."""
    session = context.session
    names = [args["--on"]] if args.get("--on") else list(session.connections)
    if not names:
        session.connection()  # says how to connect
    for name in names:
        connection = session.connection(name)
        current = ", current" if name == session.current else ""
        parts = [_stream(connection), _transaction(connection, current=bool(current)), _kept(connection)]
        say(f"{name} ({connection.description}{current}): {'; '.join(filter(None, parts))}")


def _stream(connection: Connection) -> str:
    stream, left = connection.stream, connection.clocks
    if stream is None or left.idle is None:
        return "no server-side connection"
    at = f" at {stream.instance}" if stream.instance else ""
    return f"server-side connection{at}, idle time: {left.idle_left}"


def _transaction(connection: Connection, *, current: bool) -> str:
    from pipemagic.session.messages import describe_transaction
    from pipemagic.session.profiles import word

    state, loss, left = connection.transaction, connection.loss, connection.clocks.transaction_left
    said = describe_transaction(state, connection.statements_open, loss)
    said = f"{said[0].lower()}{said[1:]}"
    if state is Tx.LOST and loss is not None and loss.timed_out:
        return f"{said}: {_ways_on(connection, '' if current else f' --on {word(connection.name)}')}"
    if state is Tx.LOST:
        return f"{said}, BEGIN, ROLLBACK or %pipedb retry goes on"
    return f"{said}, {left}" if left else said


def _ways_on(connection: Connection, on: str) -> str:
    """Say what to type after a transaction was rolled back."""
    discard = f"%pipedb rollback{on} discards it"
    try:
        connection.to_retry()
    except SessionError:  # it only read, for example
        return discard
    return f"%pipedb retry{on} runs its statements again, {discard}"


def _kept(connection: Connection) -> str:
    from pipemagic.counts import duration

    keeping = connection.keeping
    if keeping is None:
        return ""
    if keeping.ended:
        return f"no longer kept alive: {keeping.ended}"
    return f"kept alive for {duration(keeping.left)} more without a cell"


def version(context: Context, args: Arguments) -> None:
    """Print the server's version."""
    say(context.session.connection(args.get("--on")).once(lambda database: database.version()))


def health(context: Context, args: Arguments) -> None:
    """Print whether the server says that it is healthy; ServerError if it does not."""
    connection = context.session.connection(args.get("--on"))
    if not connection.once(lambda database: database.health()):
        raise ServerError(f"the server of {connection.name} says that it is not healthy", status=503)
    say("healthy")


COMMANDS: tuple[Command, ...] = (
    Command("status", "Show what is connected and open, and for how long", status, options=(ON,)),
    Command("version", "Show the version of the database server", version, options=(ON,)),
    Command("health", "Ask the database server whether it is healthy", health, options=(ON,)),
)
