"""The ``pipemagic`` command.

Results go to standard output, as lines, tables or JSON for scripts. Errors, notes and prompts go to standard error.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from pipemagic import plugins
from pipemagic.cli.console import print_error, print_note
from pipemagic.errors import InterruptedRequest, PipemagicError
from pipemagic.suggestions import instead_of
from pipemagic.version import __version__

_NO_COMMAND = re.compile(r"No such command ['\"](.+)['\"]")
"""The only sign of an unknown command in all versions of click."""

INTERRUPTED = 130  # the exit code that shells use for SIGINT

MODULES = {
    "auth": "auth", "org": "organizations", "plan": "organizations", "group": "groups", "db": "databases",
    "serve": "serving", "stop": "serving", "doctor": "doctor", "tour": "quickstart", "lab": "quickstart",
}  # fmt: skip
"""The module of each command; plugins have more commands."""


class LazyGroup(click.Group):
    """A group that imports the module of a command when the command is used."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names of the commands, those of plugins last."""
        return list(dict.fromkeys([*MODULES, *plugins.named("commands")]))

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name in MODULES:
            command: click.Command = getattr(import_module(f"pipemagic.cli.{MODULES[cmd_name]}"), cmd_name)
            return command
        for line in plugins.problems():
            print_note(line)
        target = plugins.named("commands").get(cmd_name)
        try:
            return None if target is None else plugins.load(target)
        except Exception as error:  # noqa: BLE001 - the error of another distribution
            print_note(plugins.problem(cmd_name, error))
            return None


pipemagic = LazyGroup(
    "pipemagic", help="SQL over HTTP for notebooks.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)  # fmt: skip
click.version_option(__version__, message="pipemagic %(version)s")(pipemagic)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a character that the terminal lacks must not end the command
    try:
        code: int | None = pipemagic.main(arguments, prog_name="pipemagic", standalone_mode=False)
        return code or 0
    except PipemagicError as error:
        print_error(error)
        return INTERRUPTED if isinstance(error, InterruptedRequest) else 1
    except click.ClickException as error:
        message = io.StringIO()
        hint = suggestion_for(error)
        error.show(message)
        print_note(message.getvalue().rstrip("\n") + (f"\nHint: {hint}" if hint else ""))
        return error.exit_code
    except OSError as error:  # such as a full disk behind standard output
        print_note(f"Error: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        _drop_output()
        return 1
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):  # Ctrl-C
            return INTERRUPTED
        print_note("\nError: no input")  # Ctrl-D
        return 1


def suggestion_for(error: click.ClickException) -> str:
    """Return the hint for an unknown command or option, '' for another error; click's own suggestion is removed."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return ""
    error.__dict__["possibilities"] = None  # of difflib
    if isinstance(error, click.NoSuchOption):
        flags = [flag for option in context.command.params for flag in (*option.opts, *option.secondary_opts)]
        return instead_of(error.option_name, "option", [flag for flag in flags if flag.startswith("-")])
    if isinstance(context.command, click.Group) and (match := _NO_COMMAND.search(error.message)):
        return instead_of(match[1], "terminal command", context.command.list_commands(context))
    return ""


def _drop_output() -> None:
    """Discard output that cannot be written; Python would write it again at exit, fail again and exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
