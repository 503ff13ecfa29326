"""%pipedb wire, stats: what goes over the wire, and how much of it. Asks no server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.display import say

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.session.trace import Trace


def wire(context: Context, args: Arguments) -> Trace | None:
    """Show from now on what each cell says to its servers, or what the last one said, or no longer."""
    wire, action, only = context.session.wire, args["ACTION"], args.get("--on")
    if only is not None:
        only = context.session.connection(only).name
    if action == "last":
        return wire.trace(only=only, stable=args.on("--stable"))
    wire.on, wire.only, wire.stable = action == "on", only, args.on("--stable")
    say("Each cell shows its requests and answers now." if wire.on else "Cells no longer show requests and answers.")
    return None


def stats(context: Context, args: Arguments) -> DataFrame | None:
    """Give what went over the wire since the session began, or since the last reset."""
    counted = context.session.wire
    if args.on("--reset"):
        counted.reset()
        say("The counts begin anew.")
        return None
    return counted.stats(seconds=args.on("--time"))


COMMANDS: tuple[Command, ...] = (
    Command(
        "wire",
        "Show requests and answers: below each cell from now on, or those of the last one",
        wire,
        (Positional("ACTION", "on, off, or last", choices=("on", "last", "off")),),
        (
            Option("--on", "only those of this connection", "NAME"),
            Option("--stable", "without times, sizes and batons, for a notebook that is run again and compared"),
        ),
    ),
    Command(
        "stats",
        "Count round trips, bytes, statements and rows, by connection",
        stats,
        options=(
            Option("--reset", "begin to count anew"),
            Option("--time", "add how many seconds were waited"),
        ),
    ),
)
