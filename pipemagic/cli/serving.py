"""``pipemagic serve``: its options, and the service that runs until it is stopped."""

from __future__ import annotations

import argparse
import getpass
import json
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipemagic.errors import ServiceError

if TYPE_CHECKING:
    from pipemagic.service.embedded import Service
    from pipemagic.service.limits import Limits
    from pipemagic.service.process import Settings
    from pipemagic.service.sqld.service import SqldService


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``serve``, besides --data, which all commands have."""
    flags: list[argparse.Action] = []
    groups = [
        ("addresses", _add_addresses), ("engine", _add_engine), ("limits", _add_limits), ("operation", _add_operation),
    ]  # fmt: skip
    for title, add in groups:
        add(_Flags(parser.add_argument_group(title), flags))
    parser.set_defaults(flags=flags)


class _Flags:
    """A group of options that takes note of them, for whoever has to write them down again."""

    def __init__(self, group: Any, flags: list[argparse.Action]) -> None:
        self._group, self._flags = group, flags

    def add_argument(self, *names: str, **options: Any) -> None:
        """Declare an option."""
        self._flags.append(self._group.add_argument(*names, **options))


def _add_addresses(group: _Flags) -> None:
    group.add_argument(
        "--port", type=_port, metavar="N",
        help="0 picks one; default: the port of last time; of a shared service 8443 with TLS, 8080 without",
    )  # fmt: skip
    group.add_argument(
        "--host", metavar="ADDR", help="the address to listen on: 127.0.0.1 (default), 0.0.0.0 or :: for all machines"
    )
    group.add_argument("--domain", metavar="DOMAIN", help="the service's name; databases are at names below it")
    group.add_argument("--ssl-certfile", type=_path, metavar="FILE", help="the certificate (PEM, with its chain)")
    group.add_argument("--ssl-keyfile", type=_path, metavar="FILE", help="its key (PEM), if not in the same file")
    group.add_argument(
        "--insecure-http", action="store_true", help="listen for other machines without TLS, tokens in the clear"
    )
    group.add_argument(
        "--cors", action="append", type=_origin, metavar="ORIGIN",
        help="let web pages of this origin use the service, for example https://app.example.org; * is any; repeatable",
    )  # fmt: skip


def _add_engine(group: _Flags) -> None:
    group.add_argument(
        "--engine", choices=("embedded", "sqld"), default="embedded",
        help="where databases live: in files of this service (default), or on libSQL servers",
    )  # fmt: skip
    group.add_argument("--nodes", type=_path, metavar="FILE", help="for sqld: which servers there are, in TOML")
    group.add_argument("--local", type=_count, metavar="N", help="for sqld: start N servers on this machine")

    group.add_argument(
        "--here", type=_location, metavar="CODE", help="where this service is: requests go to the nearest location"
    )
    group.add_argument(
        "--simulate-latency", action="store_true",
        help="answer as late as the distance between --here and a location implies",
    )  # fmt: skip


def _add_limits(group: _Flags) -> None:
    group.add_argument(
        "--statement-timeout", type=_seconds, metavar="SECONDS", help="how long one statement may run (60)"
    )
    group.add_argument("--max-streams", type=_count, metavar="N", help="open streams at once (4096)")
    group.add_argument("--max-connections", type=_count, metavar="N", help="open connections (file handles / 4)")
    group.add_argument("--max-body", type=_size, metavar="SIZE", help="of a request (128MB)")
    group.add_argument("--max-response", type=_size, metavar="SIZE", help="of an answer's rows (128MB)")
    group.add_argument("--max-database-size", type=_size, metavar="SIZE", help="of a database's file (no limit)")
    group.add_argument("--max-memory", type=_size, metavar="SIZE", help="that SQLite may take in all (512MB)")


def _add_operation(group: _Flags) -> None:
    group.add_argument(
        "--signup", action=argparse.BooleanOptionalAction,
        help="let people make themselves accounts; by default only if others cannot reach the service",
    )  # fmt: skip
    group.add_argument(
        "--access-log", type=_path, metavar="FILE", help="write one line for each request; - is standard output"
    )
    group.add_argument(
        "--print-systemd", action="store_true", help="print a systemd unit for these options, start nothing"
    )


def settings(options: argparse.Namespace) -> Settings:
    """Give how to run, as the options say; ServiceError for what cannot work."""
    from pipemagic import local
    from pipemagic.service.hosting import LOCAL_DOMAIN, LOOPBACK, Hosting
    from pipemagic.service.process import HEAP_LIMIT, Settings

    host = LOOPBACK if options.host == "localhost" else (options.host or LOOPBACK).strip("[]")
    hosting = Hosting(
        host, (options.domain or LOCAL_DOMAIN).lower().rstrip("."), options.ssl_certfile, options.ssl_keyfile,
        options.insecure_http,
    )  # fmt: skip
    return Settings(
        options.data or local.default_folder(), port=options.port, hosting=hosting, limits=_limits(options),
        here=options.here, simulate_latency=options.simulate_latency,
        signup=hosting.for_this_machine if options.signup is None else options.signup,
        connections=options.max_connections, memory=options.max_memory or HEAP_LIMIT, access_log=options.access_log,
        open=_opener(options),
        cors=tuple(options.cors or ()),
    )  # fmt: skip


def _opener(options: argparse.Namespace) -> Callable[[Settings], Service | SqldService]:
    """Give what makes the service with the engine that was chosen."""
    if options.simulate_latency and options.here is None:
        raise ServiceError("--simulate-latency needs to know where the service is", hint="add --here CODE")
    if options.engine == "embedded":
        if options.nodes is not None or options.local is not None:
            raise ServiceError("--nodes and --local are about libSQL servers", hint="add --engine sqld")
        from pipemagic.service.process import open_embedded

        return open_embedded
    if (options.nodes is None) == (options.local is None):
        hint = "--local 3 starts three servers here; --nodes FILE names those that run elsewhere (docs/sqld.md)"
        raise ServiceError("--engine sqld needs either --nodes FILE or --local N", hint=hint)
    if alien := [flag for name, flag in _EMBEDDED_ONLY.items() if getattr(options, name)]:
        hint = "leave it out: with --engine sqld clients talk to the libSQL servers"
        raise ServiceError(f"{', '.join(alien)} is about databases in files of this service", hint=hint)
    from pipemagic.service.sqld.service import open_local, open_remote

    if options.nodes is not None:
        return partial(open_remote, nodes=options.nodes)
    import platformdirs

    return partial(open_local, count=options.local, cache=platformdirs.user_cache_path("pipemagic"))


_EMBEDDED_ONLY = {
    "cors": "--cors", "here": "--here", "simulate_latency": "--simulate-latency",
    "statement_timeout": "--statement-timeout", "max_streams": "--max-streams",
    "max_response": "--max-response", "max_database_size": "--max-database-size",
}  # fmt: skip
"""What does nothing for servers that run by themselves, by its name among the options."""


def _limits(options: argparse.Namespace) -> Limits:
    from pipemagic.service.limits import Limits

    given = {
        "streams": options.max_streams, "body": options.max_body, "response": options.max_response,
        "database": options.max_database_size, "statement_time": options.statement_timeout,
    }  # fmt: skip
    return Limits(**{name: value for name, value in given.items() if value is not None})


def run(options: argparse.Namespace) -> None:
    """Run the service until it is told to stop; its first line of output says where it is."""
    chosen = settings(options)
    if options.print_systemd:
        from pipemagic.cli.systemd import unit

        sys.stdout.write(unit(options, getpass.getuser()))
        return
    from pipemagic.service import process

    process.stop_on_hang_up()
    process.run(chosen, _announce)


def _announce(about: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(about) + "\n")
    sys.stdout.flush()


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 65536:
        raise ValueError
    return port


def _path(text: str) -> Path:
    return Path(text) if text == "-" else Path(text).expanduser().absolute()


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _location(text: str) -> str:
    from pipemagic.service.locations import LOCATIONS, similar

    if text not in LOCATIONS:
        close = similar(text)
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        raise argparse.ArgumentTypeError(f"there is no location {text!r}{meant}")
    return text


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError
    return seconds


def _origin(text: str) -> str:
    if text != "*" and not re.fullmatch(r"https?://[^/\s]+", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no origin: write its scheme and name, as https://app.example.org"
        )
    return text.lower()


def _size(text: str) -> int:
    from pipemagic.service.limits import parse_size

    size = parse_size(text)
    if not size:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write bytes, or 64KB, 128MB, 2GB")
    return size
