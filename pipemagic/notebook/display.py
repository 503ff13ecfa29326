"""Output of the magics: lines, displayed objects, and the prompt for a token."""

from __future__ import annotations

import getpass
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from IPython.core.error import StdinNotImplementedError
from IPython.core.formatters import DisplayFormatter

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


class RowLimit:
    """Limits how many rows IPython displays of the frames that the running cell returns.

    The frames are ordinary DataFrames, and the options of pandas and Polars stay as they are: until `clear`, which ends
    the cell, a formatter for the type of the frame displays it with a changed option.
    """

    def __init__(self, formatter: DisplayFormatter) -> None:
        self._formatter = formatter
        self._frames: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by id: a frame has no hash
        self._replaced: dict[type, Callable[..., Any] | None] = {}
        self._rows = 0

    def apply(self, frame: object, rows: int) -> None:
        """Display at most ``rows`` rows of the frame until the cell ends."""
        self._frames[id(frame)] = frame
        self._rows = rows
        if type(frame) not in self._replaced:
            bundles = self._formatter.mimebundle_formatter
            self._replaced[type(frame)] = bundles.for_type(type(frame), self._format)

    def clear(self) -> None:
        """Remove the formatters."""
        bundles = self._formatter.mimebundle_formatter
        for kind, replaced in self._replaced.items():
            if replaced is None:
                bundles.pop(kind, None)
            else:
                bundles.for_type(kind, replaced)
        self._replaced.clear()
        self._frames.clear()

    def _format(self, frame: object) -> Any:
        """Return the representations of a frame by all other formatters."""
        if self._frames.pop(id(frame), None) is None:
            replaced = self._replaced.get(type(frame))
            return None if replaced is None else replaced(frame)
        try:
            with _displayed_rows(frame, self._rows):
                return self._formatter.format(frame)  # type: ignore[no-untyped-call]
        finally:
            self._frames[id(frame)] = frame


@contextmanager
def _displayed_rows(frame: object, rows: int) -> Iterator[None]:
    """Change the option of pandas or Polars inside a block."""
    if type(frame).__module__.partition(".")[0] == "polars":
        import polars

        with polars.Config(tbl_rows=rows):
            yield
    else:
        import pandas

        with pandas.option_context("display.max_rows", rows, "display.min_rows", rows):
            yield
