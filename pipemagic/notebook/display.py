"""Output of the magics: lines, displayed objects, frames and plots, and the prompt for a token."""

from __future__ import annotations

import getpass
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from IPython.core.error import StdinNotImplementedError
from IPython.core.formatters import DisplayFormatter
from IPython.core.getipython import get_ipython

from pipemagic.errors import PlotError, SessionError
from pipemagic.text import escape_controls, literal_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


# -- frames


class FrameDisplay:
    """Displays the frames that the running cell returns: their texts as they are stored, never as something to execute.

    Control characters are escaped in a terminal, and formulas (``$...$``) are not set in a notebook. The number of rows
    may be limited, and times are shown where they are stored. The frames are ordinary DataFrames, and the options of
    pandas and Polars stay as they are: until `clear`, which ends the cell, a formatter for the type of the frame
    displays it with a changed option.
    """

    def __init__(self, formatter: DisplayFormatter) -> None:
        self._formatter = formatter
        self._frames: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by id: a frame has no hash
        self._changes: dict[int, tuple[int, Sequence[bool]]] = {}
        self._replaced: dict[type, Callable[..., Any] | None] = {}

    def apply(self, frame: object, *, rows: int = 0, timed: Sequence[bool] = ()) -> None:
        """Until the cell ends, display a frame so, with at most ``rows`` rows, and with times in the ``timed`` columns.

        0 rows leave the number to pandas or Polars. ``timed`` has a value for each column of a DataFrame, see
        `timed_frames.with_times`.
        """
        self._frames[id(frame)] = frame
        self._changes[id(frame)] = rows, timed
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
        self._changes.clear()

    def _format(self, frame: object) -> Any:
        """Return the representations of a frame by all other formatters."""
        if self._frames.pop(id(frame), None) is None:
            replaced = next((self._replaced[kind] for kind in type(frame).__mro__ if kind in self._replaced), None)
            return None if replaced is None else replaced(frame)
        rows, timed = self._changes[id(frame)]
        try:
            with _displayed_rows(frame, rows) if rows else nullcontext():
                bundle, metadata = self._formatter.format(_with_times(frame, timed))  # type: ignore[no-untyped-call]
            return _as_text(bundle), metadata
        finally:
            self._frames[id(frame)] = frame


def _as_text(bundle: dict[str, Any]) -> dict[str, Any]:
    """Return the representations of a frame whose texts neither a terminal nor a page executes."""
    safe = {"text/plain": lambda text: escape_controls(text, keep="\n"), "text/html": literal_html}
    return {mime: safe[mime](shown) if mime in safe else shown for mime, shown in bundle.items()}


def _with_times(frame: object, timed: Sequence[bool]) -> object:
    if not any(timed):
        return frame
    from pipemagic.notebook.timed_frames import with_times

    return with_times(frame, timed)


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


def show_frame(frame: object) -> None:
    """Display a frame at once, its texts as `FrameDisplay` does."""
    from IPython.display import display

    formatter = getattr(get_ipython(), "display_formatter", None) or DisplayFormatter()
    bundle, metadata = formatter.format(frame)
    display(_as_text(bundle), metadata=metadata, raw=True)  # type: ignore[no-untyped-call]


# -- plots


@dataclass(frozen=True, repr=False)
class Plot:
    """A plot on ``axes``, displayed as a picture in a notebook and as a line of text in a terminal."""

    axes: Axes
    shown: bool
    """Whether a window or a widget already shows the figure."""

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
            raise PlotError(f"{path.name} cannot be written: {error}", hint=hint) from None
        except OSError as error:
            raise PlotError(f"{path} cannot be written: {error.strerror or error}") from None

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
