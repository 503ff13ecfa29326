"""``pipemagic serve`` and ``pipemagic stop``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pipemagic import launcher
from pipemagic.cli import console
from pipemagic.cli.api import data_option
from pipemagic.errors import ServiceError
from pipemagic.service.hosting import LOCAL_DOMAIN, LOOPBACK, Hosting
from pipemagic.service.limits import MB, LimitMode, Limits, parse_size
from pipemagic.service.locations import LOCATIONS, similar
from pipemagic.service.settings import UNICODE, Settings

if TYPE_CHECKING:
    from pipemagic.service.service import Service

EMBEDDED_ONLY = [
    "cors", "here", "simulate_latency", "unicode", "backups", "mode", "statement_time", "streams", "database_streams",
    "response", "value", "database",
]  # fmt: skip
"""The options that have no effect on libSQL servers."""

LARGEST_VALUE = 1_000_000_000
"""Source: https://sqlite.org/limits.html (SQLITE_MAX_LENGTH)"""
SMALLEST_VALUE_LIMIT = 5 * MB
"""A load sends many rows in one argument (see `client.bulk.load.LIMIT`)."""

COUNT = click.IntRange(min=1)

file_option = partial(click.option, type=console.absolute_path, metavar="FILE")


# -- types of options


def size(text: str) -> int:
    """Convert a size such as 128MB to bytes."""
    if parsed := parse_size(text):
        return parsed
    raise click.BadParameter(f"{text!r} is not a size such as 64KB, 128MB or 2GB")


def value_size(text: str) -> int:
    """Convert the size of a value to bytes."""
    limit = size(text)
    if limit < SMALLEST_VALUE_LIMIT:
        raise click.BadParameter(
            f"{text!r} is less than the {SMALLEST_VALUE_LIMIT // MB} MB that clients require to load rows"
        )
    if limit > LARGEST_VALUE:
        raise click.BadParameter(f"{text!r} is more than the {LARGEST_VALUE:,} bytes that a value in SQLite can have")
    return limit


def seconds(text: str) -> float:
    """Convert a number of seconds."""
    number: float = click.FLOAT(text)
    if not 0 < number < math.inf:
        raise click.BadParameter(f"{text!r} is not a positive number")
    return number


def location(text: str) -> str:
    """Check the code of a location."""
    if text not in LOCATIONS:
        codes = similar(text)
        suggestion = f"\nHint: did you mean {' or '.join(codes)}?" if codes else ""
        raise click.BadParameter(f"location {text!r} does not exist{suggestion}")
    return text


def origin(text: str) -> str:
    """Check the origin of web pages."""
    if text != "*" and not re.fullmatch(r"https?://[^/\s]+", text):
        raise click.BadParameter(f"{text!r} is not an origin such as https://app.example.org")
    return text.lower()


# -- commands


@click.command(context_settings={"show_default": True})
@data_option
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="N",
    help="The port; 0 chooses a free one.  [default: the last one; for other machines 8443, or 8080 without TLS]",
)  # fmt: skip
@click.option("--host", metavar="ADDR", help="The address to listen on; 0.0.0.0 or :: for all.  [default: 127.0.0.1]")
@click.option("--domain", metavar="DOMAIN", help="The domain of the service; the names of databases end with it.")
@file_option("--ssl-certfile", help="The TLS certificate with its chain (PEM).")
@file_option("--ssl-keyfile", help="The private key of the certificate (PEM), if it is in another file.")
@click.option("--insecure-http", is_flag=True, help="Accept other machines without TLS; tokens are sent unencrypted.")
@click.option(
    "--cors", multiple=True, type=origin,
    help="Allow web pages of this origin, such as https://app.example.org; * allows all. Repeatable.",
)  # fmt: skip
@click.option(
    "--trusted-proxy", "proxies", multiple=True, metavar="ADDRESS",
    help="Trust X-Forwarded-For of this reverse proxy, such as 127.0.0.1 or 10.0.0.0/8. Repeatable.",
)  # fmt: skip
@click.option(
    "--engine", type=click.Choice(["embedded", "sqld"]), default="embedded",
    help="Store databases in files of this service, or on libSQL servers.",
)  # fmt: skip
@file_option("--nodes", help="For sqld: a TOML file with the servers.")
@click.option("--local", type=COUNT, metavar="N", help="For sqld: start N servers on this machine, for a trial.")
@click.option(
    "--here", type=location, metavar="CODE", help="The location of this service; requests go to the nearest replica."
)
@click.option(
    "--simulate-latency", is_flag=True, help="Delay responses according to the distance of a location from --here."
)
@click.option(
    "--unicode", is_flag=True, envvar=UNICODE, help="Support the letters of all alphabets in lower, upper and LIKE."
)
@click.option(
    "--backups", type=click.IntRange(min=0), default=0, metavar="N",
    help="Keep N backups of each database, at most one from each ten minutes, to branch it at an earlier time.",
)  # fmt: skip
@click.option(
    "--limits", "mode", type=click.Choice([mode.value for mode in LimitMode]), default=LimitMode.EXACT.value,
    help="End transactions after 5 s and idle streams after 10 s; relaxed: only if others wait, or after an hour.",
)  # fmt: skip
@click.option(
    "--statement-timeout", "statement_time", type=seconds, default="60", help="Stop statements that run longer."
)
@click.option("--max-streams", "streams", type=COUNT, default=4096, metavar="N", help="Maximum number of open streams.")
@click.option(
    "--max-database-streams", "database_streams", type=COUNT, metavar="N",
    help="Maximum number of open streams of one database.  [default: 1/4 of --max-streams]",
)  # fmt: skip
@click.option(
    "--max-connections", "connections", type=COUNT, metavar="N",
    help="Maximum number of connections.  [default: file handles / 4]",
)  # fmt: skip
@click.option("--max-body", "body", type=size, default="100MB", help="Maximum size of a request body.")
@click.option("--max-response", "response", type=size, default="128MB", help="Maximum size of a result in a response.")
@click.option(
    "--max-value", "value", type=value_size, default="16MB", metavar="SIZE",
    help="Maximum size of an argument, or of a value that SQL creates; larger values in a file can be read.",
)  # fmt: skip
@click.option("--max-database-size", "database", type=size, help="Maximum size of a database.  [default: no limit]")
@click.option(
    "--max-memory", "memory", type=size, default="1GB",
    help="Maximum memory for all requests: half for SQLite, half for bodies, responses and stored SQL.",
)  # fmt: skip
@click.option("--allow-signup", "signup", is_flag=True, help="Let anyone who can connect create an account.")
@click.option("--access-log", is_flag=True, help="Print a line for each request to standard output.")
@click.pass_context
def serve(context: click.Context, /, **options: Any) -> None:
    """Run the service until it is stopped (SIGTERM, Ctrl-C)."""
    parameters = given_parameters(context)
    settings = settings_of(parameters, options)
    from pipemagic.service import process

    process.stop_on_hang_up()
    process.run(settings, announce)


def announce(about: Mapping[str, Any]) -> None:
    """Print the line about a service that is ready to standard output, and its warning to standard error."""
    click.echo(json.dumps({key: value for key, value in about.items() if key != "warning"}))
    if "warning" in about:
        console.print_note(f"Warning: {about['warning']}")


@click.command()
@data_option
def stop(data: Path | None) -> None:
    """Stop the running service."""
    service = launcher.stop(data)
    if service is None:
        folder = data or launcher.default_folder()
        console.print_note(f"No service is running with the data folder {folder}.")
    else:
        console.print_note(f"Stopped the service at {service.url}, which used the data folder {service.folder}.")


# -- settings


def given_parameters(context: click.Context) -> list[click.Parameter]:
    """Return the parameters that are on the command line."""
    return [
        option for option in context.command.params
        if context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
    ]  # fmt: skip


def settings_of(parameters: Sequence[click.Parameter], options: Mapping[str, Any]) -> Settings:
    """Return the settings of the service; raise `ServiceError` for options that contradict each other.

    Options with the name of a field of `Limits` or `Settings` are its value.
    """
    host = LOOPBACK if options["host"] == "localhost" else (options["host"] or LOOPBACK).strip("[]")
    domain = (options["domain"] or LOCAL_DOMAIN).lower().rstrip(".")
    hosting = Hosting(host, domain, options["ssl_certfile"], options["ssl_keyfile"], options["insecure_http"])
    limits = {field.name: options[field.name] for field in fields(Limits) if field.name in options}
    limits["mode"] = LimitMode(options.get("mode", LimitMode.EXACT))
    others = {field.name: options[field.name] for field in fields(Settings) if field.name in options}
    folder = options["data"] or launcher.default_folder()
    return Settings(folder, hosting=hosting, limits=Limits(**limits), open=engine_of(parameters, options), **others)


def engine_of(
    parameters: Sequence[click.Parameter], options: Mapping[str, Any]
) -> Callable[[Settings], Service] | None:
    """Return the function that opens the chosen engine, None for the embedded one."""
    nodes, local = options["nodes"], options["local"]
    if options["simulate_latency"] and options["here"] is None:
        raise ServiceError("--simulate-latency requires --here", hint="add --here CODE, the location of the service")
    if options["engine"] == "embedded":
        if nodes is not None or local is not None:
            raise ServiceError("--nodes and --local require --engine sqld")
        return None
    if (nodes is None) == (local is None):
        hint = (
            "--local 3 starts three servers here, --nodes FILE names servers elsewhere "
            "(in a notebook: %pipedb help operators/cluster)"
        )
        raise ServiceError("--engine sqld requires --nodes FILE or --local N", hint=hint)
    if unusable := [option.opts[0] for option in parameters if option.name in EMBEDDED_ONLY]:
        hint = "clients connect to the libSQL servers directly"
        raise ServiceError(f"no effect with --engine sqld: {', '.join(unusable)}", hint=hint)
    from pipemagic.service.sqld.engine import open_local, open_remote

    if nodes is not None:
        return partial(open_remote, nodes=nodes)
    import platformdirs

    return partial(open_local, count=local, cache=platformdirs.user_cache_path("pipemagic"))
