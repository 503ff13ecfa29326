"""The result of ``%pipedb plot``: one picture in a notebook, a line in a terminal, and a file on request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from IPython.core.getipython import get_ipython
from IPython.core.pylabtools import print_figure

from pipemagic.errors import PlotError
from pipemagic.explore import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pipemagic.explore.plotted import Summary


@dataclass(frozen=True, repr=False)
class Plot:
    """A drawn summary: its ``axes``. A notebook shows the figure, a terminal a line that says how to save it."""

    axes: Axes
    shown: bool
    """Whether a window or a widget shows the figure already."""

    @property
    def figure(self) -> Figure:
        """The figure that the axes belong to."""
        return cast("Figure", self.axes.figure)

    def save(self, file: str | Path) -> None:
        """Write the figure to a file; its suffix says in which form: ``.png``, ``.svg``, ``.pdf``."""
        path = Path(file).expanduser()
        try:
            self.figure.savefig(path)
        except ValueError as error:
            raise PlotError(f"{path.name} cannot be written: {error}", hint="name it .png, .svg or .pdf") from None
        except OSError as error:
            raise PlotError(f"{path} cannot be written: {error.strerror or error}") from None

    def __repr__(self) -> str:
        return f"Plot of {self.axes.get_title()}. Add --to FILE.png to save it, or call .save('FILE.png')."

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:  # noqa: ARG002
        bundle: dict[str, Any] = {"text/plain": repr(self)}
        if self.shown:
            return bundle
        formatter = getattr(get_ipython(), "display_formatter", None)
        formats = formatter.format(self.figure)[0] if formatter is not None else {}
        images = {mime: data for mime, data in formats.items() if mime.startswith("image/")}  # as %config says
        return bundle | (images or {"image/png": print_figure(self.figure, base64=True)})  # type: ignore[no-untyped-call]


def plot(summary: Summary) -> Plot:
    """Draw a summary on a figure of its own; UnsupportedError without matplotlib."""
    axes = drawing.draw(summary)
    return Plot(axes, drawing.is_shown(axes))
