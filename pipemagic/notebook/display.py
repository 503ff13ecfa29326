"""Output of the magics: lines, displayed objects and plots, and the prompt for a token."""

from __future__ import annotations

import getpass
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from IPython.core.error import StdinNotImplementedError
from IPython.core.getipython import get_ipython

from pipemagic.errors import PlotError, SessionError
from pipemagic.text import escape_controls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KEPT = "\n\t"
"""Control characters that are printed unchanged. Names in a database may contain others, which control a terminal."""


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
        f"{where} requires a token, but input is not possible here",
        hint="set the environment variable PIPEMAGIC_TOKEN, or name another variable with --token-env",
    )
    if threading.current_thread() is not threading.main_thread():
        raise impossible  # a panel connects: input requests of a kernel belong to cells
    try:  # looked up in its module: kernels replace the function there
        return getpass.getpass(f"Token for {where}: ")
    except (StdinNotImplementedError, EOFError, OSError):
        raise impossible from None


# -- plots


@dataclass(frozen=True, repr=False)
class Plot:
    """A plot on ``axes``, displayed as a picture in a notebook and as a line of text in a terminal."""

    axes: Axes
    shown: bool
    """True if a window or a widget already shows the figure."""

    @property
    def figure(self) -> Figure:
        """The figure that the axes belong to."""
        return cast("Figure", self.axes.figure)

    def save(self, file: str | Path) -> None:
        """Write the figure to a file in the format of its suffix: ``.png``, ``.svg``, ``.pdf``."""
        path = Path(os.path.expanduser(file))
        try:
            self.figure.savefig(path)
        except ValueError as error:
            hint = "use a name that ends in .png, .svg or .pdf"
            raise PlotError(f"cannot write {path.name}: {error}", hint=hint) from None
        except OSError as error:
            raise PlotError(f"cannot write {path}: {error.strerror or error}") from None

    def __repr__(self) -> str:
        return f"Plot of {self.axes.get_title()}. Add --to FILE.png to save it, or call .save('FILE.png')."

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:  # noqa: ARG002
        bundle: dict[str, Any] = {"text/plain": repr(self)}
        if self.shown:
            return bundle
        from IPython.core.pylabtools import print_figure

        formatter = getattr(get_ipython(), "display_formatter", None)
        formats = formatter.format(self.figure)[0] if formatter is not None else {}
        images = {mime: data for mime, data in formats.items() if mime.startswith("image/")}
        return bundle | (images or {"image/png": print_figure(self.figure, base64=True)})  # type: ignore[no-untyped-call]
