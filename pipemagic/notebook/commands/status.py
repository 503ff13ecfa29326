"""Show the state of connections and servers, requests and responses, and panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipemagic import plugins
from pipemagic.errors import PipemagicError, SessionError, UsageError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook import outcomes
from pipemagic.notebook.arguments import Option, Positional
from pipemagic.notebook.commands.base import ON, CommandContext, CommandGroup
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.notebook.panels.static_html import Displayable
    from pipemagic.session import Connection
    from pipemagic.session.trace import Trace

GROUP = CommandGroup("Status")
SERVER_TIMEOUT = 3.0
"""Seconds that `status` waits for the server's version and health."""

PANELS = ("databases", "explore", "groups", "locations", "session", *plugins.named("panels"))


@GROUP.command(ON)
def status(context: CommandContext) -> None:
    """Show connections, transactions, and the server with its address.

    %pipedb status
    %pipedb status --on flights
    """
    session, args = context.session, context.args
    names = [args["--on"]] if args.get("--on") else list(session.connections)
    if not names:
        session.connection()  # the error explains how to connect
    for name in names:
        connection = session.connection(name)
        is_current = name == session.current
        trouble = connection.check_server()
        parts = [
            trouble or _stream(connection),
            _transaction(connection, current=is_current, responds=not trouble),
            _kept_alive(connection),
            *connection.effects(),
        ]
        where = f"{connection.description}, current" if is_current else connection.description
        say(f"{name} ({where}): {'; '.join(filter(None, parts))}")
    if len(names) == 1 or session.current in names:
        chosen = session.connection(names[0] if len(names) == 1 else session.current)
        _say_server(chosen)
        _say_address(chosen)


def _say_server(connection: Connection) -> None:
    """Print the version and the health of a server, or why it does not respond."""
    try:
        with connection.database.sibling(timeout=SERVER_TIMEOUT) as beside:
            server, _ = outcomes.describe_server(beside)
    except PipemagicError as error:
        server = error.message.partition("\n")[0]
    say(f"Server: {server}")


def _say_address(connection: Connection) -> None:
    """Print the address of a database for other programs, and the line that creates a token, never a token."""
    from pipemagic.text import word

    name = connection.listed_as or connection.name
    say(f"Address for other programs: {connection.address}")
    if connection.organization is not None:
        say(f"Token for other programs: %pipedb create-token {word(name)} --to-file {word(f'{name}.token')}")


def _stream(connection: Connection) -> str:
    stream, left = connection.stream, connection.remaining_time
    if stream is None or left.idle is None:
        return "no server-side connection"
    at = f" at {stream.instance}" if stream.instance else ""
    return f"server-side connection{at}, idle time: {left.idle_left}"


def _transaction(connection: Connection, *, current: bool, responds: bool) -> str:
    from pipemagic.session.transactions import describe_transaction
    from pipemagic.text import word

    state, loss, left = connection.transaction, connection.loss, connection.remaining_time.transaction_left
    text = describe_transaction(state, connection.statements_open, loss, responds=responds)
    text = f"{text[0].lower()}{text[1:]}"
    if state is Tx.LOST and loss is not None and loss.timed_out:
        return f"{text}: {_next_steps(connection, '' if current else f' --on {word(connection.name)}')}"
    if state is Tx.LOST:
        return f"{text}; continue with BEGIN, ROLLBACK or %pipedb retry"
    return f"{text}, {left}" if left and responds else text


def _next_steps(connection: Connection, on: str) -> str:
    """Return the commands that are possible after a transaction was rolled back."""
    discard = f"%pipedb rollback{on} discards it"
    try:
        connection.to_retry()
    except SessionError:  # it had no writes, for example
        return discard
    return f"%pipedb retry{on} reruns its statements, {discard}"


def _kept_alive(connection: Connection) -> str:
    from pipemagic.text import format_duration

    keeping = connection.keep_alive_thread
    if keeping.seconds is None:
        return ""
    if keeping.ended:
        return f"no longer kept alive: {keeping.ended}"
    why = "" if keeping.chosen else ", because it has temporary tables"
    return f"kept alive for another {format_duration(keeping.left)} if no cell runs{why}"


@GROUP.command(
    Positional(
        "ACTION",
        "last: show the last cell; on, off: start or stop showing each cell; reset: count from zero; by default show "
        "the totals of each connection",
        optional=True,
        choices=("last", "on", "off", "reset"),
    ),
    Option("--on", "only requests of this connection", "NAME"),
    Option("--stable", "omit times, sizes and batons, for notebooks that are rerun and compared"),
)
def wire(context: CommandContext) -> Trace | DataFrame | None:
    """Count the requests of each connection, or show the requests and responses of cells.

    %pipedb wire
    %pipedb wire last --stable
    %pipedb wire on
    """
    wire, args = context.session.wire, context.args
    action, stable = args.get("ACTION"), args.on("--stable")
    only = None if args.get("--on") is None else context.connection.name
    match action:
        case None:
            return wire.stats(only=only, stable=stable)
        case "last":
            return wire.trace(only=only, stable=stable)
        case "reset" if only or stable:
            raise UsageError(f"{'--on' if only else '--stable'} has no effect on wire reset")
        case "reset":
            wire.reset()
            say("The counts were reset.")
        case _:
            wire.on, wire.only, wire.stable = action == "on", only, stable
            say("Each cell now shows its requests and responses." if wire.on else "Cells no longer show requests.")
    return None


@GROUP.command(Positional("NAME", "the panel; by default all panels, in tabs", optional=True, choices=PANELS))
def panel(context: CommandContext) -> Displayable:
    """Show a panel: databases, tables, groups, locations, the session.

    %pipedb panel
    %pipedb panel databases
    """
    from pipemagic.notebook.panels.opening import open_panel

    return open_panel(context.session, context.args.get("NAME") or "all", context.user_ns)
