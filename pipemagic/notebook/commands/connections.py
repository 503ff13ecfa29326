"""%pipedb connect, use, connections, close, stop."""

from __future__ import annotations

from IPython.core.error import UsageError

from pipemagic.errors import SessionError
from pipemagic.notebook import outcomes
from pipemagic.notebook.arguments import Arguments, Option, Positional
from pipemagic.notebook.commands.base import Command, Context
from pipemagic.notebook.display import say


def connect(context: Context, args: Arguments) -> None:
    """Connect and make it the current connection."""
    keep_alive = _seconds(args, "--keep-alive")
    connection = context.session.connect(
        args.get("TARGET"),
        name=args.get("--as"),
        token_env=args.get("--token-env"),
        token_file=args.get("--token-file"),
        keyring=args.on("--keyring"),
        remember=args.on("--remember"),
        temporary=args.on("--temporary"),
        timeout=_seconds(args, "--timeout"),
        read_only=args.on("--read-only"),
    )
    if keep_alive is not None:
        connection.keep_alive(keep_alive)
    say(connection.greeting)


def _seconds(args: Arguments, flag: str) -> float | None:
    from pipemagic.session.keep_alive import parse_duration

    text = args.get(flag)
    try:
        return None if text is None else parse_duration(text)
    except SessionError as error:
        raise UsageError(f"{flag}: {error.message}; {error.hint}") from None


def use(context: Context, args: Arguments) -> None:
    """Change the current connection."""
    say(outcomes.use(context.session, args["NAME"]))


def connections(context: Context, args: Arguments) -> object:  # noqa: ARG001
    """Give the connections as a DataFrame."""
    from pandas import DataFrame

    session = context.session
    rows = [(one.name, one.description, one.name == session.current) for one in session.connections.values()]
    return DataFrame(rows, columns=["connection", "where", "current"])


def keep_alive(context: Context, args: Arguments) -> None:
    """Keep the server-side connection between cells from now on, or no longer."""
    seconds = None if args["TIME"] == "off" else _seconds(args, "TIME")
    say(outcomes.keep_alive(context.session.connection(args.get("--on")), seconds))


def close(context: Context, args: Arguments) -> None:
    """Close a connection and forget it."""
    say(outcomes.close(context.session, args.get("NAME")))


def stop(context: Context, args: Arguments) -> None:  # noqa: ARG001
    """Stop the embedded service."""
    stopped = context.session.stop()
    say("Stopped the embedded service." if stopped else "The embedded service is not running.")


NAME = Positional("NAME", "a connection, as %pipedb connections lists them", completes="connection")

COMMANDS: tuple[Command, ...] = (
    Command(
        "connect",
        "Connect to a database and make it the current one",
        connect,
        (
            Positional(
                "TARGET",
                "an address with ://, a connection, a profile, or a database of the organization; without it "
                "PipeMagic.connection, or else the embedded service",
                optional=True,
                address=True,
            ),
        ),
        (
            Option("--as", "the connection's name; by default that of the database", "NAME"),
            Option("--token-env", "the environment variable that holds the database token", "VARIABLE"),
            Option("--token-file", "a file that holds the token, and that only you can read", "PATH"),
            Option("--keyring", "take the token from the keyring"),
            Option("--remember", "have the keyring keep the token that is asked for"),
            Option("--timeout", "how long to wait for an answer; by default 60 s", "TIME"),
            Option("--keep-alive", "keep the server-side connection for so long after each cell, as in 10m", "TIME"),
            Option("--read-only", "send nothing that may write"),
            Option("--temporary", "use a service of this notebook alone, whose data end with it"),
        ),
    ),
    Command("use", "Make another connection the current one", use, (NAME,)),
    Command("connections", "List the connections", connections),
    Command(
        "keep-alive",
        "Keep the server-side connection between cells, for so long after the last one",
        keep_alive,
        (Positional("TIME", "how long, as in 90s, 10m or 1h; off for as long as the server keeps it"),),
        (Option("--on", "that of this connection, the current one stays", "NAME"),),
    ),
    Command(
        "close",
        "Close a connection; a transaction that is open in it is rolled back",
        close,
        (Positional("NAME", "by default the current one", optional=True, completes="connection"),),
    ),
    Command("stop", "Stop the embedded service, for all notebooks that use it", stop),
)
