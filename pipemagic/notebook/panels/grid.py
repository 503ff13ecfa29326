"""The grid: the widgets of a `GridModel`, which holds all data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic.explore.page_query import OPERATORS, SIZES, Page
from pipemagic.notebook.panels.components import Cells, CopyText, LongValue, Table, action
from pipemagic.notebook.panels.forms import Choice, Field, Form, Line, PanelPart, button, column, row, show
from pipemagic.notebook.panels.static_html import Block, TableBlock
from pipemagic.text import escape_controls

if TYPE_CHECKING:
    from pipemagic.explore.page_values import TableCell
    from pipemagic.explore.schema import Column
    from pipemagic.notebook.panels.grid_model import GridModel

LONG = 1000
"""Maximum characters of a cell that is shown, besides the button that copies it."""

UNCOMMITTED = "A transaction is open in the cells. Its changes are shown here after it is committed."
TARGETS = {
    "DataFrame variable": "variable", "CSV file": "csv", "CSV file for Excel": "excel", "Parquet file": "parquet",
}  # fmt: skip
MARKS = {None: "", "ascending": " ▲", "descending": " ▼"}


class Grid(PanelPart):
    """The rows of a model in pages, with filters, profiles, export and long values.

    ``tools`` are buttons for the heading above it.
    """

    def __init__(self, model: GridModel) -> None:
        super().__init__(model.reading)
        self.model = model
        self._drawn: Page | None = None
        self.export = ExportForm(model)
        self.export_rows = button("Export ...", self.export.open_export)
        self.profile_all = button("Profile all columns", model.start_profile)
        self.tools = (self.export_rows, self.profile_all)
        self.profiles = Profiles(model)
        self.note, self.note_lines = Line(UNCOMMITTED, class_="pm-faint"), Line(class_="pm-faint")
        self.filter_list = Table({"remove": self._remove_filter}, label="Filters", columns=[{"title": "Filters"}])
        self.stop_button = button("Stop", self.action.stop)
        profile_column = lambda name: model.start_profile([name])  # noqa: E731
        self.rows = Cells({"sort": model.sort, "profile": profile_column, "full": self._open_full, "turn": self._turn})
        self.hidden, self.position = Line(class_="pm-faint"), Line()
        self.full_line, self.full_value = Line(tag="h4"), LongValue()
        self.close_full = button("Close", model.close_value, kind="link", tooltip="Close the value")
        head = row(self.full_line, self.close_full.add_class("pm-cancel"), class_="pm-head")
        self.full_box = column(head, self.full_value, class_="pm-box").add_class("pm-closable")
        self.cell = CopyText(label="the cell")
        self.page_box = column(
            self.filter_list, self.note_lines, self.rows, self.hidden, self.position, self._pager(), self._filters()
        )
        status = row(self.status, self.stop_button)
        self.children = [self.note, self.export, self.profiles, self.page_box, status, self.full_box, self.cell]

    # -- widgets that change the query

    def _filters(self) -> ipywidgets.VBox:
        """Return the forms that add a filter or a condition in SQL."""
        model = self.model
        self.filter_column = Field("Column", Choice())
        self.operator = Field("Comparison", ipywidgets.Dropdown(options=OPERATORS))
        self.value = Field("Value", ipywidgets.Text())
        self.where = Field("Condition in SQL", ipywidgets.Text(placeholder="such as a > 1"))
        fields = [self.filter_column, self.operator, self.value]
        add = Form(self, "", fields, "Add filter", self._add_filter, kind="")
        apply = Form(self, "", [self.where], "Apply", lambda: model.set_condition(self.where.text), kind="")
        return column(add, apply)

    def _add_filter(self) -> None:
        if self.filter_column.widget.value is not None:
            self.model.add_filter(self.filter_column.widget.value, self.operator.widget.value, self.value.widget.value)

    def _remove_filter(self, key: str) -> None:
        if key == "where":
            self.model.set_condition("")
            return
        for condition in self.model.query.filters:
            if repr(condition) == key:
                self.model.remove_filter(condition)

    def _pager(self) -> ipywidgets.HBox:
        """Return the buttons that turn the pages, and the size of a page."""
        model = self.model

        def turn(label: str, offset: Callable[[], int]) -> ipywidgets.Button:
            return button(label, lambda: model.turn(offset()))

        self.first = turn("First", lambda: 0)
        self.previous = turn("Previous", lambda: model.query.previous_offset(model.total))
        self.next = turn("Next", lambda: model.query.offset + model.query.size)
        self.last = turn("Last", lambda: model.query.last_offset(model.total or 0))
        self.size = Field("Rows per page", ipywidgets.Dropdown(options=SIZES))
        self.size.widget.observe(lambda change: model.resize(change["new"]), "value")
        self.size.layout.flex = "0 1 100px"
        return row(self.first, self.previous, self.next, self.last, self.size)

    def _turn(self, pages: str) -> None:
        """Turn to the next or the previous page, if there is one."""
        turning = self.next if pages == "1" else self.previous
        if not turning.disabled:
            turning.click()

    def _open_full(self, key: str) -> None:
        number, place = map(int, key.split())
        self.model.open_value(number, place, self.close_full.focus)

    # -- what is shown

    def update(self) -> None:
        """Update the widgets from the model."""
        model, page = self.model, self.model.page
        show(self.export_rows, model.offers_more)
        show(self.profile_all, model.offers_more)
        show(self.note, model.uncommitted)
        self.status.update(self.action)
        show(self.stop_button, self.busy)
        self.note_lines.set_text("" if page is None else "\n".join(map(escape_controls, model.notes)))
        show(self.page_box, page is not None)
        self.export.update()
        self.profiles.update()
        show(self.full_box, model.full is not None)
        self.full_value.show(None if model.full is None else model.full[2].text)
        self.cell.text = model.cell
        self.cell.button = "Copy the SQL" if len(model.cell) > LONG else ""
        if page is None:
            self._drawn = None
            return
        if self._drawn is not page:
            before, self._drawn = self._drawn, page
            self._draw(before, page)
        if model.full is not None:
            number, name, value = model.full
            self.full_line.set_text(f"{escape_controls(name)} in row {page.query.offset + number + 1:,}: {value.size}")
        self.position.set_text("; ".join(filter(None, [model.position, model.counting.busy])))
        self.rows.total = -1 if model.total is None else model.total
        query, last = page.query, page.query.last_offset(model.total or 0)
        self.first.disabled = self.previous.disabled = not query.offset
        self.next.disabled = not page.more
        self.last.disabled = model.total is None or query.offset == last or (bool(page.rows) and query.offset >= last)
        self.size.widget.value = model.query.size

    def _draw(self, before: Page | None, page: Page) -> None:
        """Show the rows and the filters of a page, and clear what was typed if it is part of the page."""
        query = page.query
        if before is None or len(query.filters) > len(before.query.filters):
            self.value.widget.value = ""
        if before is None or query.where != before.query.where:
            self.where.widget.value = query.where
        self.filter_column.set_options((escape_controls(shown.name), shown.name) for shown in page.relation.visible)
        filters = [(str(condition), repr(condition)) for condition in query.filters]
        filters += [(query.where, "where")] if query.where else []
        self.filter_list.show([
            {"key": key, "cells": [{"text": words, "actions": [action("remove", "Remove", f"Remove {words}")]}]}
            for words, key in filters
        ])  # fmt: skip
        show(self.filter_list, bool(filters))
        self.rows.label = f"Rows of {escape_controls(page.relation.name)}"
        self.rows.columns = [_column(page, shown, offered=self.model.offers_more) for shown in page.columns]
        self.rows.empty, self.rows.first = page.empty_text, query.offset
        self.rows.show([_row(page, number, cells) for number, cells in enumerate(page.rows)])
        self.hidden.set_text(self.model.hidden_columns)


def static_rows(model: GridModel) -> list[Block]:
    """Return the page of a model for saved notebooks."""
    page = model.page
    if page is None:
        return []
    query = page.query
    headings = [escape_controls(shown.name) + MARKS[query.order_of(shown.name)] for shown in page.columns]
    cells = [
        [f"{query.offset + number:,}", *(value.text for value in cells)] for number, cells in enumerate(page.rows, 1)
    ]
    kinds = [{row[place].kind for row in page.rows} - {"null"} for place in range(len(page.columns))]
    right = [True, *(kind == {"number"} for kind in kinds)]
    filters = [*map(str, query.filters), *([query.where] if query.where else []), *map(escape_controls, model.notes)]
    hidden = [model.hidden_columns] if model.hidden_columns else []
    return [*filters, TableBlock(["#", *headings], cells, right), *hidden, model.position]


def _column(page: Page, shown: Column, *, offered: bool) -> dict[str, Any]:
    name = escape_controls(shown.name) or "(no name)"
    generated = shown.generated and f"{shown.generated} generated"
    note = " ".join(filter(None, [escape_controls(shown.type), generated]))
    actions = [action("profile", "Profile", f"Profile {name}")] if offered else []
    return {
        "title": name, "key": shown.name, "sorted": page.query.order_of(shown.name), "note": note, "actions": actions,
    }  # fmt: skip


def _row(page: Page, number: int, cells: Sequence[TableCell]) -> dict[str, Any]:
    shown: list[dict[str, Any]] = []
    for place, cell in enumerate(cells):
        shown.append({"text": cell.text, "kind": cell.kind})
        if cell.value != cell.text:
            shown[-1]["value"] = cell.value
        if cell.cut:
            title = f"Full value of {escape_controls(page.columns[place].name)} in row {page.query.offset + number + 1}"
            shown[-1]["actions"] = [action("full", "full value", title, key=f"{number} {place}")]
    return {"key": str(number), "cells": shown}


class Profiles(PanelPart):
    """Profiles of columns of the displayed rows, as in %pipedb profile."""

    def __init__(self, model: GridModel) -> None:
        super().__init__(model.profiling)
        self.model = model
        self.heading, self.table = Line(tag="h4"), ipywidgets.HTML()
        self.stop_button = button("Stop", self.action.stop, tooltip="Stop the profile")
        close = button("Close", self._close, kind="link", tooltip="Close the profiles").add_class("pm-cancel")
        self.note = Line("Cells have written since these profiles were computed.", class_="pm-faint")
        self.cell = CopyText(label="the SQL of the profiles", button="Copy the SQL")
        head = row(self.heading, row(self.stop_button, close), class_="pm-head")
        self.children = [head, self.table, self.note, self.status, self.cell]
        self.add_class("pm-box").add_class("pm-closable")  # by Escape

    def _close(self) -> None:
        self.model.clear_profiles()
        self.model.changed()

    def update(self) -> None:
        """Update the widgets, hidden if there is nothing to show."""
        model = self.model
        show(self, model.page is not None and bool(model.profiles or self.busy or self.action.error))
        self.heading.set_text(f"Profiles of {'the filtered' if model.profiles_where else 'all'} rows")
        show(self.table, bool(model.profiles))
        self.table.value = model.profile._repr_html_() if model.profile else ""
        show(self.note, model.profiles_outdated)
        show(self.stop_button, self.busy)
        self.cell.text = model.profile_cell
        self.update_forms()


class ExportForm(PanelPart):
    """A form that exports all rows, filtered and sorted, to a variable of the notebook or a file."""

    def __init__(self, model: GridModel) -> None:
        super().__init__(model.exporting)
        self.model = model
        self.to = Field("To", ipywidgets.Dropdown(options=list(TARGETS.items())))
        self.target = Field("Variable or file", ipywidgets.Text())
        self.replace = ipywidgets.Checkbox(description="Replace", indent=False)
        self.form = Form(self, "", [self.to, self.target, self.replace], "Export", self._start, opens=True)
        self.stop_button = button("Stop", self.action.stop, tooltip="Stop the export")
        self.children = [self.form, row(self.status, self.stop_button)]
        self.add_class("pm-box")

    def open_export(self) -> None:
        """Open the form, without the last target."""
        self.target.widget.value, self.replace.value = "", False
        self.show_form(self.form)

    def _start(self) -> None:
        kind, target = self.to.widget.value, self.target.text
        self.model.export(kind, target, replaces=self.replace.value, done=self._done)

    def _done(self) -> None:
        self.open_form = None

    def update(self) -> None:
        """Update the widgets, hidden if there is nothing to show."""
        page, task = self.model.page, self.action
        show(self, page is not None and bool(self.open_form or task.busy or task.message or task.error))
        if page is not None:
            name = escape_controls(page.relation.name)
            self.form.title.set_text(f"Export all rows of {name}, as filtered and sorted")
        show(self.stop_button, self.busy)
        self.enable_controls()
        self.update_forms()
