"""``pipemagic serve``: its options, and the service that runs until it is stopped."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipemagic.service.runner import Settings


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``serve``, besides --data, which all commands have."""
    parser.add_argument("--port", type=_port, metavar="N", help="0 picks one; default: the port of last time")


def settings(options: argparse.Namespace) -> Settings:
    """Give how to run, as the options say."""
    from pipemagic import local
    from pipemagic.service.runner import Settings

    return Settings(options.data or local.default_folder(), port=options.port)


def run(options: argparse.Namespace) -> None:
    """Run the service until it is told to stop; its first line of output says where it is."""
    from pipemagic.service import runner

    runner.stop_on_hang_up()
    runner.run(settings(options), _announce)


def _announce(about: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(about) + "\n")
    sys.stdout.flush()


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 65536:
        raise ValueError
    return port
