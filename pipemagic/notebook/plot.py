"""The result of ``%pipedb plot``: a picture in a notebook, a line of text in a terminal, or a file."""

from __future__ import annotations

import os
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

    from pipemagic.explore.plot_query import Summary


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
        formatter = getattr(get_ipython(), "display_formatter", None)
        formats = formatter.format(self.figure)[0] if formatter is not None else {}
        images = {mime: data for mime, data in formats.items() if mime.startswith("image/")}
        return bundle | (images or {"image/png": print_figure(self.figure, base64=True)})  # type: ignore[no-untyped-call]


def plot(summary: Summary) -> Plot:
    """Draw a summary on a new figure. Raise UnsupportedError without matplotlib."""
    axes = drawing.draw(summary)
    return Plot(axes, drawing.is_shown(axes))
