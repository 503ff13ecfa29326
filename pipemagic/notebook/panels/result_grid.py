"""The grid of a cell's SELECT: ``%%sql --grid``."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from IPython.display import publish_display_data

from pipemagic.notebook.panels.base import LivePanel
from pipemagic.notebook.panels.browsed_database import BrowsedDatabase
from pipemagic.notebook.panels.forms import button, row
from pipemagic.notebook.panels.grid import Grid, static_rows
from pipemagic.notebook.panels.grid_model import GridModel
from pipemagic.notebook.panels.static_html import Block
from pipemagic.text import word

if TYPE_CHECKING:
    from pipemagic.explore.page_query import SelectedRows
    from pipemagic.session import Connection

COUNT_PATIENCE = 1.0
"""Seconds that the cell waits for the number of rows, which its static form shows."""


class ResultGrid(LivePanel):
    """The rows of a SELECT in pages, which the server sorts and filters; the first page is read at once.

    Raise the errors of the request. ``timeout`` is in seconds. Exports are assigned in ``variables``. ``options`` are
    those of the cell that its copies need, too, besides the connection: another one may be current when they run.
    """

    title = "Result"

    def __init__(
        self, connection: Connection, rows: SelectedRows, variables: MutableMapping[str, Any], *,
        timeout: float | None = None, options: str = "",
    ) -> None:  # fmt: skip
        on = lambda name: f" --on {word(name)}"  # noqa: E731
        self.model = GridModel(self.changed, variables=variables, line_on=on, options=options)
        super().__init__(self.model.reading)
        self.model.open_select(BrowsedDatabase.of_cells(connection), rows, timeout)

    def fill(self) -> None:
        """Create the widgets."""
        super().fill()
        self.grid = Grid(self.model)
        head = row(button("Refresh", self.model.reload), *self.grid.tools)
        self.children = (self.events, head, self.bug, self.failed, self.grid)

    def _update(self) -> None:
        self.grid.update()

    def wait(self) -> None:
        """Wait for the number of rows, for at most `COUNT_PATIENCE`."""
        self.model.counting.wait(COUNT_PATIENCE)

    def sections(self) -> Sequence[tuple[str, Sequence[Block]]]:
        """Return the first page, without a heading."""
        return [("", static_rows(self.model))]

    def __str__(self) -> str:
        return f"\n{super().__str__()}"  # a terminal has the prompt on the first line

    def close(self) -> None:
        """End what runs, close the widgets, and forget the rows of DataFrames; the page stays."""
        self.model.close()
        super().close()

    def _ipython_display_(self, **options: Any) -> None:
        """Display the grid; only its page after it was closed."""
        if self.comm is None:
            publish_display_data({"text/html": self.to_html(), "text/plain": self.to_text()})  # type: ignore[no-untyped-call]
        else:
            super()._ipython_display_(**options)
