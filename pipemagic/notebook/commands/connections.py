"""Connect to databases, change and close connections, manage profiles; transactions on the connection of the cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipemagic.errors import PipemagicError, SessionError, UsageError
from pipemagic.notebook import outcomes
from pipemagic.notebook.arguments import Option, Positional, duration
from pipemagic.notebook.commands.base import ON, CommandContext, CommandGroup, check_confirmed, frame_of
from pipemagic.notebook.display import say
from pipemagic.text import join_words, plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.session.profiles import Profile
    from pipemagic.session.session import Session

GROUP = CommandGroup("Connections")
TRANSACTIONS = CommandGroup("Transactions")


def _duration_or_off(text: str, name: str) -> float | None:
    return None if text == "off" else duration(text, name)


@GROUP.command(
    Positional(
        "TARGET",
        "an address (libsql://... or HOST:PORT), a connection, a profile, or a database of the organization; by "
        "default the setting PipeMagic.connection, else the address in PIPEMAGIC_URL, else the embedded service",
        optional=True,
        code=True,
    ),
    Option("--temporary", "use a private service; its data is deleted when the kernel stops", leads=True),
    Option("--as", "the name of the connection; by default the name of the database", "NAME"),
    Option("--token-env", "the environment variable that contains the database token", "VARIABLE"),
    Option("--token-file", "a file that contains the token, readable only by you", "PATH"),
    Option("--keyring", "read the token from the keyring"),
    Option("--code", "a one-time code, which is exchanged for a token; it is kept until it expires", "LETTERS"),
    Option("--remember", "store the token you enter in the keyring"),
    Option("--encryption-key-env", "the variable with the key of an encrypted database", "VARIABLE"),
    Option("--encryption-key-keyring", "read the key of an encrypted database from the keyring"),
    Option("--follow", "another host to which the server may refer, and the token is sent", "HOST"),
    Option("--timeout", "the time to wait for a response; by default 60 s", "TIME", type=duration),
    Option(
        "--keep-alive",
        "keep the server-side connection open for this time after each cell: 90s, 10m, 1h; or off",
        "TIME",
        type=_duration_or_off,
    ),
    Option("--read-only", "refuse statements that may write"),
    Option(
        "--limits",
        "with --temporary: relaxed ends a transaction or an idle connection only if another connection waits",
        "WHICH",
        choices=("exact", "relaxed"),
    ),
    Option("--here", "with --temporary: the location of this notebook; the nearest replica answers", "CODE"),
    Option("--simulate-latency", "with --here: delay responses by the distance from there to the data"),
)
def connect(context: CommandContext) -> None:
    """Connect to a database and make it the current one.

    %pipedb connect
    %pipedb connect --temporary
    %pipedb connect --temporary --limits relaxed
    %pipedb connect --temporary --here bom --simulate-latency
    %pipedb connect libsql://flights-acme.example.com --token-env FLIGHTS_TOKEN --as flights
    %pipedb connect http://sql.lan:8080 --code K7QF2MXB
    %pipedb connect flights --read-only
    %pipedb connect flights --keep-alive 10m
    """
    args = context.args
    connection = context.session.connect(
        args.get("TARGET"),
        name=args.get("--as"),
        token_env=args.get("--token-env"),
        token_file=args.get("--token-file"),
        keyring=args.on("--keyring"),
        code=args.get("--code"),
        remember=args.on("--remember"),
        temporary=args.on("--temporary"),
        limits=args.get("--limits"),
        here=args.get("--here"),
        simulate_latency=args.on("--simulate-latency"),
        timeout=args.get("--timeout"),
        read_only=args.on("--read-only"),
        encryption_key_env=args.get("--encryption-key-env"),
        encryption_key_keyring=args.on("--encryption-key-keyring"),
        follow=args.get("--follow"),
    )
    say(connection.greeting)
    if "--keep-alive" in args.values:
        say(outcomes.keep_alive(connection, args["--keep-alive"]))


@GROUP.command(Positional("NAME", "a connection, as listed by %pipedb connections", completes="connection"))
def use(context: CommandContext) -> None:
    """Make another connection the current one.

    %pipedb use flights
    """
    say(outcomes.use(context.session, context.args["NAME"]))


@GROUP.command()
def connections(context: CommandContext) -> DataFrame:
    """List the connections.

    %pipedb connections
    """
    session = context.session
    rows = (
        (connection.name, connection.description, connection.name == session.current)
        for connection in session.connections.values()
    )
    return frame_of(rows, "connection", "where", "current")


@GROUP.command(
    Positional("NAME", "the connection to close; by default the current one", optional=True, completes="connection")
)
def close(context: CommandContext) -> None:
    """Close a connection; an open transaction is rolled back.

    %pipedb close
    %pipedb close flights
    """
    say(outcomes.close(context.session, context.args.get("NAME")))


@GROUP.command(Option("--confirm", "required for a temporary service, because its databases are deleted"))
def stop(context: CommandContext) -> None:
    """Stop the temporary service of this notebook, or the embedded service for all notebooks that use it.

    %pipedb stop
    %pipedb stop --confirm
    """
    databases = context.session.temporary_databases()
    if databases:
        noun, their = ("databases", "their") if databases[1:] else ("database", "its")
        check_confirmed(context, f"deletes the temporary {noun} {join_words(databases)} and {their} contents")
    say(outcomes.stop(context.session, databases))


@GROUP.command(
    Option("--save", "save the connection as one of your profiles", "NAME"),
    Option("--delete", "delete one of your profiles", "NAME", completes="profile"),
    Option("--trust", "allow a project profile to send its token to its host", "NAME", completes="profile"),
    Option("--on", "the connection to save; by default the current one", "NAME"),
)
def profiles(context: CommandContext) -> DataFrame | None:
    """List the connections defined in configuration files, which contain no secrets.

    %pipedb profiles
    %pipedb profiles --save flights
    %pipedb profiles --delete flights
    %pipedb profiles --trust flights
    """
    all_profiles, args = context.session.profiles, context.args
    action = args.one_of("--save", "--delete", "--trust")
    if args.get("--on") and action != "--save":
        raise UsageError("--on requires --save NAME")
    match action:
        case "--save":
            _save(context, args["--save"])
        case "--delete":
            all_profiles.delete(args["--delete"])
            say(f"Deleted profile {args['--delete']}.")
        case "--trust":
            say(f"Trusted until the address or the source of the token changes: {all_profiles.trust(args['--trust'])}")
        case _:
            return _list_profiles(context.session)
    return None


def _save(context: CommandContext, name: str) -> None:
    from pipemagic.text import word

    connection = context.connection
    if connection.profile is None:
        raise SessionError(
            f"cannot save {connection.name}: its database is deleted when the kernel stops",
            hint="connect without --temporary to keep a database",
        )
    keeping = connection.keep_alive_thread
    seconds = keeping.seconds if keeping.chosen else None
    context.session.profiles.save(replace(connection.profile, name=name, keep_alive=seconds))
    say(f"Saved profile {name}: %pipedb connect {word(name)}")


def _list_profiles(session: Session) -> DataFrame:
    rows = []
    for name in session.profiles.names():
        try:
            profile = session.profiles.get(name)
        except SessionError as error:
            rows.append((name, error.message, "", ""))
        else:
            if profile is not None and profile.path is not None:  # unless the file has just changed
                rows.append((name, profile.where, profile.token_from, _file(session, profile)))
    return frame_of(rows, "profile", "target", "token from", "file")


def _file(session: Session, profile: Profile) -> str:
    name = profile.path.name if profile.path else ""
    try:
        session.check_trusted(profile)
    except PipemagicError as error:
        return f"{name}, {'not trusted' if isinstance(error, SessionError) else error.message}"
    return name


# -- transactions


@TRANSACTIONS.command(ON)
def rollback(context: CommandContext) -> None:
    """Roll back the open transaction, or discard a lost one.

    %pipedb rollback
    """
    say(outcomes.rollback(context.connection))


@TRANSACTIONS.command(ON)
def retry(context: CommandContext) -> None:
    """Rerun a lost transaction, all or nothing.

    %pipedb retry
    """
    from pipemagic.session.transactions import listing

    texts = [statement.text for statement in context.connection.to_retry().statements]
    say(f"Rerunning {plural(len(texts), 'statement')} with the original parameter values, all or nothing:")
    say(listing(texts, most=outcomes.MOST_STATEMENTS))
    say(outcomes.retry(context.connection))
