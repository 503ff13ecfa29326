"""``pipemagic doctor NOTEBOOK...``: what in these files is not for others to see."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from pipemagic.cli.base import note, say, say_json
from pipemagic.errors import SessionError

CLEAN, FOUND, UNREADABLE = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes for notebooks."""
    parser.add_argument(
        "files", nargs="*", metavar="NOTEBOOK", type=Path,
        help="look for tokens, passwords and private hosts in these: notebooks, folders of notebooks, text files",
    )  # fmt: skip
    parser.add_argument(
        "--allow", action="append", default=[], metavar="REGEX",
        help="pass over what this expression matches as a whole; may be given several times",
    )  # fmt: skip


def check(options: argparse.Namespace) -> int:
    """Print what is found, a line for each place, with the secrets masked; gives the exit code.

    1 if there is something, 2 if a file cannot be read and nothing is found in the others.
    """
    from pipemagic.leaks import masked
    from pipemagic.leaks.documents import Leak, Unreadable, read, walk

    allowed = [_expression(text) for text in options.allow]
    found: list[Leak] = []
    unreadable = 0
    for path in (below for named in options.files for below in walk(named)):
        try:
            leaks = [leak for leak in read(path) if not any(one.fullmatch(leak.text) for one in allowed)]
        except Unreadable as error:
            note(f"Error: {error.message}")
            unreadable += 1
            continue
        found += leaks
        for leak in leaks if not options.json else ():
            say(f"{leak.path}:{leak.cell}:{leak.where}: {leak.kind} {masked(leak.text)}")
    if options.json:
        keys = ("path", "cell", "where", "kind")
        say_json([{**{key: str(getattr(one, key)) for key in keys}, "found": masked(one.text)} for one in found])
    if found:
        note(
            "Take these out before you share the file: put tokens into variables, clear the outputs, and renew a "
            "token that others may have seen. What is meant to be there: --allow REGEX, or # pipemagic: allow"
        )
    return FOUND if found else UNREADABLE if unreadable else CLEAN


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise SessionError(f"--allow takes a regular expression: {error}") from None
