"""What the commands share: how they are declared, how they print, how they ask."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from pipemagic.errors import SessionError
from pipemagic.terminals import visible, without_passwords

ATTEMPTS = 3  # at an answer to a question


class Commands:
    """The commands below ``pipemagic`` or below one of its groups; see `add` and `group`."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def group(self, name: str, text: str) -> Commands:
        """Add a group of commands."""
        return Commands(self._commands.add_parser(name, help=text, description=_sentence(text)))

    def add(
        self, name: str, run: Callable[[argparse.Namespace], int | None], text: str, *,
        data: bool = True, organization: bool = False, listing: bool = False, destroys: bool = False,
    ) -> argparse.ArgumentParser:  # fmt: skip
        """Add a command; ``run`` gets its options and gives the exit code, None for 0.

        ``data``: it takes --data. ``organization``: it takes --org. ``listing``: it takes --json. ``destroys``: it
        asks before it does its work, and takes --yes.
        """
        parser: argparse.ArgumentParser = self._commands.add_parser(name, help=text, description=_sentence(text))
        parser.set_defaults(run=run)
        if data:
            parser.add_argument("--data", type=folder, metavar="DIR", help="the data folder (default: PIPEMAGIC_DATA)")
        if organization:
            parser.add_argument("--org", metavar="SLUG", help="the organization (default: that of `org switch`)")
        if listing:
            parser.add_argument("--json", action="store_true", help="print JSON")
        if destroys:
            parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
        return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def folder(text: str) -> Path:
    """Read the name of a folder, or of a file."""
    return Path(text).expanduser().absolute()


# -- printing


def say(line: str, to: TextIO | None = None) -> None:
    """Print a line at once, so that whoever reads a pipe has it; in a terminal, nothing in it steers that one."""
    out = to or sys.stdout
    if out.isatty():
        line = visible(line, keep="\n\t")  # names and messages may be other people's
    encoding = out.encoding or "utf-8"
    # A name that the terminal cannot show must not end the command.
    print(line.encode(encoding, "replace").decode(encoding), file=out, flush=True)


def note(line: str) -> None:
    """Tell people something that is not part of the result."""
    say(without_passwords(line), sys.stderr)


def say_json(value: Any) -> None:
    """Print a value as JSON."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def say_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in aligned columns below headers in capitals."""
    table = [[header.upper() for header in headers], *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in table) for index in range(len(headers))]
    for row in table:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def say_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print what is known of one thing, a line for each."""
    told = [(f"{name}:", value) for name, value in fields]
    width = max(len(name) for name, _ in told) + 1
    for name, value in told:
        say(f"{name:<{width}}{value}".rstrip())


# -- asking


def confirm(options: argparse.Namespace, question: str) -> None:
    """Ask before something is lost; SessionError unless the answer is yes, or --yes was given."""
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise SessionError(f"not done without being asked: {question}", hint="say so with --yes (-y)")
    for _ in range(ATTEMPTS):
        note_prompt(f"{question} [y/n] ")
        match sys.stdin.readline().strip().lower():
            case "y" | "yes":
                return
            case "n" | "no" | "":
                break
    raise SessionError("nothing was done")


def note_prompt(text: str) -> None:
    """Show a prompt where it does not mix with the result."""
    sys.stderr.write(text)
    sys.stderr.flush()


def ask_name(given: str | None, what: str) -> str:
    """Give a name from the command line, or ask for it."""
    if given:
        return given
    if not sys.stdin.isatty():
        raise SessionError(f"the {what} is missing", hint=f"write the {what} behind the command")
    note_prompt(f"{what}: ")
    return sys.stdin.readline().strip()


def ask_password(options: argparse.Namespace, *, twice: bool = False) -> str:
    """Read a password from standard input (--password-stdin), or ask for it without showing it."""
    if options.password_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise SessionError(
            "a password cannot be asked for here", hint="give it on standard input, with --password-stdin"
        )
    password = getpass.getpass("password: ")
    if twice and getpass.getpass("once more: ") != password:
        raise SessionError("the two passwords differ; nothing was done")
    return password


def ask_token(options: argparse.Namespace) -> str:
    """Read a token from standard input (--token-stdin), or ask for it without showing it."""
    if options.token_stdin:
        return sys.stdin.readline().strip()
    if not sys.stdin.isatty():
        raise SessionError("a token cannot be asked for here", hint="give it on standard input, with --token-stdin")
    return getpass.getpass("token: ").strip()
