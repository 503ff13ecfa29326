"""The ``pipemagic`` command: parses and delegates.

Every command prints what it gives as bare lines, so that a shell can use them; an error is one line that
begins with ``Error:`` on standard error, and exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipemagic import __version__
from pipemagic.cli import serving
from pipemagic.errors import PipemagicError, ServerError

if TYPE_CHECKING:
    from pipemagic.client.management import Management

INTERRUPTED = 130  # what shells give for a command that was interrupted


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if others and not options.takes_more:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    options.others = others
    try:
        code: int | None = options.run(options)
    except PipemagicError as error:
        _say(f"Error: {error.message}", sys.stderr)
        if error.hint:
            _say(f"Hint: {error.hint}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return code or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pipemagic", description="SQL over HTTP for notebooks.")
    parser.add_argument("--version", action="version", version=f"pipemagic {__version__}")
    parser.set_defaults(takes_more=False)
    top = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    serve = _command(top, "serve", serving.run, "run the service here until it is stopped (SIGTERM, Ctrl-C)")
    serving.add_serve_arguments(serve)
    _command(top, "stop", _stop, "stop the running service")

    auth = _group(top, "auth", "the account")
    _command(auth, "token", _auth_token, "print the platform token, for the management API")

    org = _group(top, "org", "organizations")
    _command(org, "list", _org_list, "print the slugs")

    group = _group(top, "group", "groups of databases")
    create = _command(group, "create", _group_create, "create a group and print its name")
    create.add_argument("name", metavar="NAME")
    create.add_argument("--location", required=True, metavar="CODE", help="the primary location, for example ams")

    db = _group(top, "db", "databases")
    create = _command(db, "create", _db_create, "create a database and print its name")
    create.add_argument("name", metavar="NAME")
    create.add_argument("--group", required=True, metavar="G", help="an existing group")
    show = _command(db, "show", _db_show, "print what is known about a database")
    show.add_argument("name", metavar="NAME")
    show.add_argument("--http-url", action="store_true", help="print its address and nothing else")

    tokens = _group(db, "tokens", "tokens for a database")
    create = _command(tokens, "create", _db_tokens_create, "print a new token for a database")
    create.add_argument("name", metavar="NAME")
    create.add_argument("--read-only", action="store_true", help="a token that cannot write")
    create.add_argument("--expiration", default="never", metavar="TIME", help="7d, 1w2d6h3m, never (default)")

    _command(top, "tour", _tour, "run the quick start notebook here and print what it shows", data=False)
    lab = _command(
        top, "lab", _lab, "open the quick start notebook in JupyterLab, to which other options go", data=False
    )
    lab.set_defaults(takes_more=True)
    return parser


def _group(commands: Any, name: str, text: str) -> Any:
    parser = commands.add_parser(name, help=text, description=text)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int | None], text: str, *, data: bool = True
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    if data:
        parser.add_argument("--data", type=_folder, metavar="DIR", help="the data folder (default: PIPEMAGIC_DATA)")
    return parser


def _folder(text: str) -> Path:
    return Path(text).expanduser().absolute()


# -- the service


def _stop(options: argparse.Namespace) -> None:
    from pipemagic import local

    if not local.stop(options.data):
        _say("no service was running", sys.stderr)


# -- the management API


@contextmanager
def _management(options: argparse.Namespace) -> Iterator[Management]:
    """Give the management API of the embedded service, which is started if it does not run."""
    from pipemagic import local
    from pipemagic.client.management import management

    with local.ensure(options.data) as lease:
        service = lease.service
        with management(service.url, service.platform_token(), organization=service.organization) as api:
            yield api


def _auth_token(options: argparse.Namespace) -> None:
    from pipemagic import local

    with local.ensure(options.data) as lease:  # the first start makes the token
        _say(lease.service.platform_token())


def _org_list(options: argparse.Namespace) -> None:
    with _management(options) as api:
        for organization in api.organizations():
            _say(organization.slug)


def _group_create(options: argparse.Namespace) -> None:
    with _management(options) as api:
        _say(api.create_group(options.name, options.location).name)


def _db_create(options: argparse.Namespace) -> None:
    with _management(options) as api:
        try:
            _say(api.create_database(options.name, options.group).name)
        except ServerError as error:
            if "group not found" in error.message:
                error.hint = f"create it: pipemagic group create {options.group} --location ams"
            raise


def _db_show(options: argparse.Namespace) -> None:
    with _management(options) as api:
        database = api.database(options.name)
        if options.http_url:
            _say(database.url)
            return
        for title, value in [
            ("Name", database.name), ("URL", database.url), ("ID", database.id), ("Group", database.group),
            ("Locations", ", ".join(database.locations)),
        ]:  # fmt: skip
            _say(f"{title + ':':<11}{value}")


def _db_tokens_create(options: argparse.Namespace) -> None:
    with _management(options) as api:
        _say(api.create_token(options.name, expiration=options.expiration, read_only=options.read_only))


# -- the quick start


def _tour(_options: argparse.Namespace) -> int:
    from pipemagic.cli.quickstart import tour

    return tour(sys.stdout)


def _lab(options: argparse.Namespace) -> int:
    from pipemagic.cli.quickstart import lab

    return lab(Path.cwd(), options.others)


def _say(line: str, to: Any = None) -> None:
    print(line, file=to or sys.stdout, flush=True)
