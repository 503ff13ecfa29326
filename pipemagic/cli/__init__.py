"""The ``pipemagic`` command: parses and delegates; one module for each group of commands.

Every command prints what it gives as bare lines or as a table, so that a shell can use it; an error is one line
that begins with ``Error:`` on standard error, and exit code 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pipemagic import __version__
from pipemagic.cli import auth, databases, doctor, groups, organizations, serving
from pipemagic.cli.base import Commands, note
from pipemagic.errors import InterruptedRequest, PipemagicError
from pipemagic.terminals import without_passwords

INTERRUPTED = 130  # what shells give for a command that was interrupted


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if others and not options.takes_more:
        parser.error(without_passwords(f"unrecognized arguments: {' '.join(others)}"))
    options.others = others
    try:
        code: int | None = options.run(options)
        sys.stdout.flush()
    except PipemagicError as error:
        note(f"Error: {error.message}")
        if error.hint:
            note(f"Hint: {error.hint}")
        return INTERRUPTED if isinstance(error, InterruptedRequest) else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough; Python must not try to flush it again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pipemagic", description="SQL over HTTP for notebooks.")
    parser.add_argument("--version", action="version", version=f"pipemagic {__version__}")
    parser.set_defaults(takes_more=False)
    top = Commands(parser)

    auth.add_commands(top)
    organizations.add_commands(top)
    groups.add_commands(top)
    databases.add_commands(top)

    serve = top.add("serve", serving.run, "run the service here until it is stopped (SIGTERM, Ctrl-C)")
    serving.add_serve_arguments(serve)
    top.add("stop", _stop, "stop the running service")
    doctor.add_command(top)
    top.add("tour", _tour, "run the quick start notebook here and print what it shows", data=False)
    lab = top.add("lab", _lab, "open the quick start notebook in JupyterLab, to which other options go", data=False)
    lab.set_defaults(takes_more=True)
    return parser


def _stop(options: argparse.Namespace) -> None:
    from pipemagic import local

    if not local.stop(options.data):
        note("no service was running")


def _tour(_options: argparse.Namespace) -> int:
    from pipemagic.cli.quickstart import tour

    return tour(sys.stdout)


def _lab(options: argparse.Namespace) -> int:
    from pipemagic.cli.quickstart import lab

    return lab(Path.cwd(), options.others)
