"""The table browser: the list of tables of a database, and the grid of one of them."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic.explore.page_query import PageQuery
from pipemagic.explore.schema import Relation, Schema
from pipemagic.explore.schema_reader import read_schema
from pipemagic.notebook.panels.base import NO_RESPONSE
from pipemagic.notebook.panels.browsed_database import BrowsedDatabase
from pipemagic.notebook.panels.components import Table, action
from pipemagic.notebook.panels.forms import Line, button, row, show
from pipemagic.notebook.panels.grid import Grid, static_rows
from pipemagic.notebook.panels.grid_model import GridModel
from pipemagic.notebook.panels.static_html import Block, TableBlock
from pipemagic.text import escape_controls

if TYPE_CHECKING:
    from pipemagic.client.database import Database

UNREADABLE = "Cannot read the tables of {}: {}"
TABLE_COLUMNS = [
    {"title": "Name", "sortable": True}, {"title": "Kind", "sortable": True},
    {"title": "Columns", "kind": "number", "sortable": True},
]  # fmt: skip


class BrowserModel(GridModel):
    """The tables of a database, or the rows of one of them."""

    schema: Schema | None = None

    def clear(self) -> None:
        """Show neither tables nor rows."""
        super().clear()
        self.schema = None

    def show(self, source: BrowsedDatabase | None) -> None:
        """List the tables of a source; None shows nothing."""
        self.stop("")
        self.source, self._outdated = source, False
        self.clear()
        if source is None:
            self.reading.clear()
            self.changed()
        else:
            self.list_tables()

    def list_tables(self) -> None:
        """Read and list the current tables."""
        self.clear_profiles()
        self._last_query = PageQuery()

        def apply(schema: Schema) -> str:
            self.clear()
            self.schema = schema
            return ""

        self.request("Reading the tables ...", read_schema, apply)

    def open_table(self, table: str) -> None:
        """Show the first page of a table."""
        self.clear_profiles()
        schema = self.schema
        self.relation = schema.relation(table) if schema is not None and table in schema else None
        self.read(PageQuery(table))

    def reload(self) -> None:
        """Read the displayed data again, and remove profiles."""
        if self.page is None and self.source is not None:
            self.list_tables()
        super().reload()

    def follow(self, on: bool) -> None:
        """Start or stop reading again after writes of cells; stopping also ends running requests."""
        if on and not self._followed and self.page is None:
            self._outdated = self._outdated or not self.reading.busy  # other programs may have created tables
        super().follow(on)

    def _reading_again(self) -> tuple[Callable[[Database], Any], Callable[[Any], str]]:
        if self.page is not None:
            return super()._reading_again()

        def apply(schema: Schema) -> str:
            self.schema = schema
            return ""

        return read_schema, apply

    @property
    def relations(self) -> list[Relation]:
        """The tables and views that are listed."""
        return [] if self.schema is None else [item for item in self.schema.relations if item.kind != "shadow"]

    @property
    def heading(self) -> str:
        """What is shown, '' for nothing."""
        if self.source is None:
            return ""
        name = self.source.name
        return f"{escape_controls(self.page.relation.name)} in {name}" if self.page else f"Tables of {name}"

    @property
    def no_tables(self) -> str:
        """A message for a database without tables."""
        how = " %pipedb load creates one from a DataFrame or a file."
        return f"No tables yet.{how if self.source is not None and self.source.is_connection else ''}"


class TableBrowser(ipywidgets.VBox):
    """The widgets of a `BrowserModel`. ``changed`` updates the enclosing panel, which calls `update`."""

    def __init__(
        self, changed: Callable[[], None], *, variables: MutableMapping[str, Any] | None = None,
        line_on: Callable[[str], str] = lambda _: "",
    ) -> None:  # fmt: skip
        self.model = BrowserModel(changed, variables=variables, line_on=line_on)
        self.grid = Grid(self.model)
        self.heading = Line(tag="h3")
        self.all_tables = button("All tables", self._list_tables)
        self.tables = Table({"open": self._open_table}, columns=TABLE_COLUMNS)
        head = row(self.heading, row(*self.grid.tools, self.all_tables), class_="pm-head")
        super().__init__([head, self.grid, self.tables])

    def _open_table(self, table: str) -> None:
        self.grid.export.close_form()
        self.model.open_table(table)

    def _list_tables(self) -> None:
        self.model.list_tables()

    def update(self) -> None:
        """Update the widgets from the model."""
        model = self.model
        self.heading.set_text(model.heading)
        show(self.all_tables, model.page is not None)
        listed = model.source is not None and model.page is None
        show(self.tables, listed)
        if listed:
            self.tables.label = model.heading
            self.tables.empty = "" if model.schema is None else model.no_tables
            self.tables.show(list(map(_table_row, model.relations)))
        self.grid.update()

    def static(self) -> Sequence[Block]:
        """Return the content for saved notebooks."""
        model = self.model
        if model.source is None:
            return []
        if model.page is not None:
            return [model.heading, *static_rows(model)]
        if model.schema is None:
            error = model.reading.error
            return [UNREADABLE.format(model.source.name, error.message) if error else NO_RESPONSE]
        rows = [row["cells"] for row in map(_table_row, model.relations)]
        lines = [[name["text"], kind, str(count)] for name, kind, count in rows]
        return [model.heading, TableBlock(["Name", "Kind", "Columns"], lines) if rows else model.no_tables]


def _table_row(relation: Relation) -> dict[str, Any]:
    name, count = escape_controls(relation.name), "unknown" if relation.broken else len(relation.visible)
    kind = ("virtual table" if relation.kind == "virtual" else relation.kind) + (
        f": {relation.broken}" if relation.broken else ""
    )
    explore = action("open", "Explore", f"Explore {name}")
    return {"key": relation.name, "cells": [{"text": name, "kind": "name", "actions": [explore]}, kind, count]}
