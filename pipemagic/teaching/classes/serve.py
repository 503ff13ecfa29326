"""``pipemagic class serve``: the service with the settings of a class. All databases belong to one account."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any
from urllib.parse import urlsplit

import click

from pipemagic.cli import console, serving
from pipemagic.errors import ServiceError
from pipemagic.service.files import METRICS_PATH, PLATFORM_TOKEN_FILE
from pipemagic.service.hosting import NO_TLS
from pipemagic.service.limits import MB
from pipemagic.service.settings import Settings

EMBEDDED: dict[str, Any] = {"engine": "embedded", "nodes": None, "local": None}
"""The engine of a class: limits for each database need it."""

LEFT_OUT = {"signup", *EMBEDDED}
"""The options of ``serve`` that a class does not have."""

DEFAULTS = {"statement_time": "20", "database_streams": 32, "body": "32MB", "response": "32MB", "database": "200MB"}
"""The defaults that differ from those of ``serve``."""

SAFE_WAYS = """\
on a JupyterHub, omit --host and run it as a service of the hub (in a notebook: %pipedb help teachers/hub);
with a certificate, add --ssl-certfile and --ssl-keyfile;
in a classroom's own network, add --insecure-http: others in that network can then read tokens and data"""


def option_of_class(parameter: click.Parameter) -> click.Parameter:
    """Return an option of ``serve`` with the default of a class."""
    option = copy(parameter)
    if isinstance(option, click.Option) and option.name in DEFAULTS:
        option.default = DEFAULTS[option.name]
        option.help = (option.help or "").partition("  [default")[0]
    return option


def base_path(text: str) -> str:
    """Check the path below which a proxy offers the service; return it without a trailing slash."""
    if not re.fullmatch(r"(/[\w.~-]+)+/?", text, re.ASCII):
        raise click.BadParameter(f"{text!r} is not a path such as /services/sql/")
    return text.rstrip("/")


@click.pass_context
def run(context: click.Context, /, **options: Any) -> None:
    """Run the service for a class until it is stopped (SIGTERM, Ctrl-C).

    Sign-up is off, and limits apply to the database of each student. If it is a service of a JupyterHub, port and
    path come from the environment.
    """
    parameters = serving.given_parameters(context)
    for name, value in hub_settings(os.environ).items():
        options[name] = value if options[name] is None else options[name]
    options["base_path"] = options["base_path"] or ""
    try:
        settings = serving.settings_of(parameters, {**EMBEDDED, **options})
    except ServiceError as error:
        raise error.replace(hint=SAFE_WAYS) if error.code == NO_TLS else error from None
    from pipemagic.service import process

    process.stop_on_hang_up()
    process.run(settings, lambda about: announce(settings, about))


serve = click.Command(
    "serve", callback=run, help=run.__doc__, context_settings={"show_default": True},
    params=[
        *(option_of_class(option) for option in serving.serve.params if option.name not in LEFT_OUT),
        click.Option(
            ["--base-path"], type=base_path, metavar="PATH",
            help="The path below which a proxy offers the service.  [default: the path of the JupyterHub service]",
        ),
    ],
)  # fmt: skip


def hub_settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the port, path and domain that a JupyterHub sets for its service; empty in any other process.

    The servers of its users have similar variables, but no name of a service.
    """
    if not environ.get("JUPYTERHUB_SERVICE_NAME"):
        return {}
    return {
        "port": urlsplit(environ.get("JUPYTERHUB_SERVICE_URL", "")).port,
        "base_path": environ.get("JUPYTERHUB_SERVICE_PREFIX", "").rstrip("/"),
        "domain": urlsplit(environ.get("JUPYTERHUB_PUBLIC_URL", "")).hostname,
    }


def announce(settings: Settings, about: Mapping[str, Any]) -> None:
    """Print the line of ``serve`` to standard output; print limits, metrics and the next command to standard error."""
    serving.announce(about)
    for line in notes(settings, about):
        console.print_note(line)


def notes(settings: Settings, about: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines on the limits of a student, the metrics, and the next command; none contains a token."""
    limits = settings.limits
    size = "any size" if limits.database is None else f"{limits.database / MB:g} MB"
    yield (
        f"Each student can use a database of {size}, {limits.database_streams} open streams, and "
        f"{limits.statement_time:g} s for a statement. "
        "Next: pipemagic class create ROSTER.csv --group GROUP --from TEMPLATE --expires 2h"
    )
    if settings.base_path:
        yield f"Behind the proxy, the address ends with {settings.base_path}"
    local = about.get("local_url", about["url"])
    yield f"The metrics are at {local}{METRICS_PATH}, with the token in {settings.folder / PLATFORM_TOKEN_FILE}"
