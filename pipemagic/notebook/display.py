"""Output of the magics: lines, displayed objects, and the prompt for a token."""

from __future__ import annotations

import getpass
import sys
import threading

from IPython.core.error import StdinNotImplementedError

from pipemagic.errors import SessionError
from pipemagic.text import escape_controls

KEPT = "\n\t"
"""Control characters that are printed as they are. Terminals execute others, which names in a database may contain."""


def say(line: str) -> None:
    """Print a line to stdout."""
    sys.stdout.write(f"{escape_controls(line, keep=KEPT)}\n")


def warn(line: str) -> None:
    """Print a line to stderr."""
    sys.stderr.write(f"{escape_controls(line, keep=KEPT)}\n")


def show(thing: object) -> None:
    """Display an object as IPython displays the value of a cell."""
    from IPython.display import display

    display(thing)  # type: ignore[no-untyped-call]


def ask_token(where: str) -> str:
    """Prompt for a database token without echo; raise SessionError if no input is possible."""
    impossible = SessionError(
        f"{where} requires a token, and input is not possible here",
        hint="put it into the environment variable PIPEMAGIC_TOKEN, or into another one named with --token-env",
    )
    if threading.current_thread() is not threading.main_thread():
        raise impossible  # a panel connects: input requests of a kernel belong to cells
    try:  # looked up in its module: kernels replace the function there
        return getpass.getpass(f"Token for {where}: ")
    except (StdinNotImplementedError, EOFError, OSError):
        raise impossible from None
