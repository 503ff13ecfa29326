"""The table browser: list of tables, and paged rows of one table, sorted and filtered by the server."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pipemagic.errors import AnswerTimeout
from pipemagic.explore import page_query
from pipemagic.explore.page_query import COLUMNS, Page, PageQuery, rows_sql
from pipemagic.explore.schema import Relation, Schema
from pipemagic.explore.schema_reader import read_schema
from pipemagic.notebook.panels import filtered_rows
from pipemagic.notebook.panels.base import NO_RESPONSE
from pipemagic.notebook.panels.browsed_database import BrowsedDatabase, Request
from pipemagic.notebook.panels.components import CopyText, LongValue, Table, action
from pipemagic.notebook.panels.forms import Line, PanelPart, button, column, row, show
from pipemagic.notebook.panels.static_html import Block, TableBlock
from pipemagic.notebook.panels.table_actions import ColumnProfiles, ExportForm
from pipemagic.notebook.panels.table_rows import FilterBar, Pager
from pipemagic.notebook.panels.tasks import STOPPED, LatestTask
from pipemagic.text import escape_controls, plural

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.explore.page_values import FullValue, TableCell
    from pipemagic.explore.schema import Column

COUNT_TIMEOUT = 5.0
"""Timeout of the request that counts rows, in seconds."""

GONE = "A column no longer exists: its sorting and filters were removed."
UNCOMMITTED = "A transaction is open in the cells. Its changes are shown here after it is committed."
TABLE_COLUMNS = [
    {"title": "Name", "sortable": True}, {"title": "Kind", "sortable": True},
    {"title": "Columns", "kind": "number", "sortable": True},
]  # fmt: skip


class TableBrowser(PanelPart):
    """The list of tables, or a page of one table with its filters, profiles and export.

    ``changed`` updates the enclosing panel, which calls `update`. Exports are assigned in ``variables``; if it is None,
    export and profiles are not offered. ``line_on`` returns the magic option that selects a connection.
    ``uncommitted`` is True while cells have an open transaction.
    """

    def __init__(
        self, changed: Callable[[], None], *, variables: MutableMapping[str, Any] | None = None,
        line_on: Callable[[str], str] = lambda _: "",
    ) -> None:  # fmt: skip
        super().__init__(LatestTask("table", self._task_changed))
        self.changed, self.variables, self.line_on = changed, variables, line_on
        self.counter = LatestTask("counting rows", self._counter_changed)
        self.profiles, self.export = ColumnProfiles(self), ExportForm(self)
        self.tasks = [self.action]
        self.source: BrowsedDatabase | None = None
        self.uncommitted = self._followed = self._outdated = False
        self.schema: Schema | None = None
        self.page: Page | None = None
        self.notes: Sequence[str] = ()
        """Notes on the condition of the page."""
        self.total: int | None = None
        self.full: tuple[int, str, FullValue] | None = None
        """Row on the page, column, value."""
        self._last_query = PageQuery()
        self._counted: tuple[object, ...] | None = None
        self._uncounted: Page | None = None
        self._drawn: Page | None = None
        self.heading = Line(tag="h3")
        self.export_rows = button("Export ...", self.export.open_export)
        self.profile_all = button("Profile all columns", self.profiles.start)
        self.all_tables = button("All tables", self.list_tables)
        self.note = Line(UNCOMMITTED, class_="pm-faint")
        self.filters, self.note_lines = FilterBar(self), Line(class_="pm-faint")
        self.stop_button = button("Stop", self.action.stop)
        self.tables = Table({"open": self.open_table}, columns=TABLE_COLUMNS)
        profile_column = lambda name: self.profiles.start([name])  # noqa: E731
        self.rows = Table({"sort": self.sort, "profile": profile_column, "full": self._open_full}, filter_from=1000)
        self.rows.add_class("pm-cells")
        self.columns_line = Line(tag="span")
        self.columns_before = button("Columns before", lambda: self._shift(-COLUMNS))
        self.columns_after = button("Columns after", lambda: self._shift(COLUMNS))
        self.columns = row(self.columns_line, self.columns_before, self.columns_after)
        self.hidden = Line(class_="pm-faint")
        self.position = Line()
        self.pager = Pager(self)
        self.full_line, self.full_value = Line(tag="h4"), LongValue()
        self.close_full = button("Close", self._close_full, kind="link", tooltip="Close the value")
        head = row(self.full_line, self.close_full.add_class("pm-cancel"), class_="pm-head")
        self.full_box = column(head, self.full_value, class_="pm-box").add_class("pm-closable")
        self.cell = CopyText(label="the cell")
        head = row(self.heading, row(self.export_rows, self.profile_all, self.all_tables), class_="pm-head")
        self.below = column(self.rows, self.columns, self.hidden, self.position, self.pager, self.full_box, self.cell)
        parts = [head, self.note, self.export, self.profiles, self.filters, self.note_lines]
        self.children = [*parts, row(self.status, self.stop_button), self.tables, self.below]

    # -- which table

    def show(self, source: BrowsedDatabase | None) -> None:
        """List the tables of a source; None shows nothing."""
        self.stop("")
        self.source, self._outdated = source, False
        self._forget()
        if source is None:
            self.action.clear()
            self.changed()
        else:
            self.list_tables()

    def list_tables(self) -> None:
        """Read and list the current tables."""
        self.profiles.clear()
        self._last_query = PageQuery()

        def apply(schema: Schema) -> str:
            self._forget()
            self.schema = schema
            return ""

        self._request("Reading the tables ...", read_schema, apply)

    def open_table(self, table: str) -> None:
        """Show the first page of a table."""
        self.profiles.clear()
        self.export.close_form()
        self.read(PageQuery(table))

    def reload(self) -> None:
        """Read the displayed data and the schema again, and remove profiles."""
        if self.page is not None:
            self.profiles.clear()
            self.read(self.page.query, refresh=True)
        elif self.source is not None:
            self.list_tables()

    def follow(self, on: bool) -> None:
        """Start or stop reading again after writes of cells; stopping also ends running requests."""
        if on and not self._followed and self.page is None:
            self._outdated = self._outdated or not self.action.busy  # other programs may have created tables
        before, self._followed = self._followed, on
        if on:
            self._read_again()
        elif before:
            self._outdated = self._outdated or self.action.is_quiet
            self.stop_reading()

    def stop(self, message: str = STOPPED) -> None:
        """Stop running requests; the displayed data stay."""
        self.stop_reading(message)
        for task in (self.profiles.action, self.export.action):
            task.stop(message)

    def stop_reading(self, message: str = STOPPED) -> None:
        """Stop reading the page; profiles and exports, which the user started, continue."""
        for task in (self.action, self.counter):
            task.stop(message)

    def outdate(self) -> None:
        """Read the displayed data again, since they may have changed."""
        self._outdated = True
        self.profiles.outdate()
        self._read_again()

    # -- which rows

    def sort(self, name: str) -> None:
        """Sort by a column: ascending, then descending, then not at all."""
        self.read(self.query.sort_by(name))

    def _shift(self, number: int) -> None:
        self.read(replace(self.query, first=max(0, self.query.first + number)))

    @property
    def query(self) -> PageQuery:
        """The query that the next action modifies: the running one, or that of the page."""
        return self._last_query if self.action.busy or self.page is None else self.page.query

    # -- a long value

    def _open_full(self, key: str) -> None:
        page, (number, place) = self.page, map(int, key.split())
        if page is None or self.action.busy:  # this page is about to be replaced
            return

        def apply(value: FullValue) -> str:
            self.full = (number, page.columns[place].name, value)
            self.changed()
            self.close_full.focus()
            return ""

        full = page.rows[number][place].full
        if full is not None:
            apply(full)
        else:
            self._last_query = page.query
            read_value = partial(page_query.read_value, page=page, row=number, place=place)
            self._request("Reading the value ...", read_value, apply)

    def _close_full(self) -> None:
        self.full = None
        self.changed()

    # -- requests

    def _forget(self) -> None:
        self.schema = self.page = self.total = self.full = self._counted = self._uncounted = self._drawn = None
        self._last_query = PageQuery()
        self.counter.stop("")

    def _request(self, title: str, query: Callable[[Database], Any], apply: Callable[[Any], str]) -> None:
        source = self.source
        if source is None:
            return
        self._outdated = self._outdated or self.action.is_quiet  # that ends now
        Request(source, query).start(self.action, title, lambda result: apply(result) if source is self.source else "")

    def read(self, query: PageQuery, *, refresh: bool = False) -> None:
        """Read a page and show it; with ``refresh``, also the schema."""
        if not query.table:
            return
        current = None if refresh or self.action.error else self.schema  # after an error the table may have changed
        schema = current if current is not None and query.table in current else None
        self._last_query = query

        def apply(result: tuple[Schema, Page, Sequence[str]]) -> str:
            before, (self.schema, page, self.notes) = self.page, result
            self.page, self.full = page, None
            self.filters.clear(before, page)
            if schema is None or self._counted != page.count_key or page.contradicts(self.total):
                self.total, self._uncounted = None, page
            return _missing(query, page)

        read_page = partial(filtered_rows.read_page, query=query, schema=schema)
        self._request(f"Reading {escape_controls(query.table)} ...", read_page, apply)

    def _count(self) -> None:
        """Count the rows of a page that was just read."""
        source, page = self.source, self._uncounted
        if page is None or source is None:
            return
        self._uncounted, self._counted = None, page.count_key
        if page.is_last:
            self.total = page.end
            self.counter.stop("")
            self.counter.clear()
            return

        def apply(total: int) -> str:
            self.total = total
            return ""

        count_rows = partial(page_query.count_rows, query=page.query, relation=page.relation)
        Request(source, count_rows, COUNT_TIMEOUT).start(self.counter, "counting ...", apply)

    def _read_again(self) -> None:
        """Read outdated data again in the background, when no other request is running."""
        source, page = self.source, self.page
        if source is None or self.uncommitted or not (self._outdated and self._followed):
            return

        def apply(result: Any) -> str:
            if page is None:
                self.schema = result
                return ""
            self.schema, new, self.notes = result
            return self._replace_page(page, new)

        read_page = partial(filtered_rows.read_page, schema=None)
        request = Request(source, read_schema if page is None else partial(read_page, query=page.query))
        self._outdated = False
        if not self.action.start_quietly(request.run, apply, request.abort):
            self._outdated = True

    def _replace_page(self, before: Page, page: Page) -> str:
        """Replace the page; keep the full value if its row has not changed."""
        if self.full is not None:
            number = self.full[0]
            if page.columns != before.columns or page.rows[number : number + 1] != before.rows[number : number + 1]:
                self.full = None
        self.page = self._uncounted = page
        return _missing(before.query, page)

    def _task_changed(self) -> None:
        if not self.action.busy:
            self._count()
        self.changed()
        self._read_again()

    def _counter_changed(self) -> None:
        if self.counter.error is not None:
            self.total = None
        self.changed()

    # -- what is shown

    def update(self) -> None:
        """Update the widgets."""
        source, page = self.source, self.page
        offered = self.variables is not None and source is not None and source.is_connection
        self.heading.set_text(self._heading())
        show(self.export_rows, page is not None and offered)
        show(self.profile_all, page is not None and offered)
        show(self.all_tables, page is not None)
        show(self.note, self.uncommitted)
        self.status.update(self.action)
        show(self.stop_button, bool(self.action.busy))
        listed = source is not None and page is None
        show(self.tables, listed)
        if listed:
            self.tables.label = self._heading()
            self.tables.empty = "" if self.schema is None else self._no_tables()
            self.tables.show([_table_row(relation) for relation in self._relations()])
        show(self.filters, page is not None)
        self.note_lines.set_text("" if page is None else "\n".join(map(escape_controls, self.notes)))
        show(self.below, page is not None)
        self.export.update()
        self.profiles.update()
        show(self.full_box, self.full is not None)
        self.full_value.show(None if self.full is None else self.full[2].text)
        if page is None or source is None:
            return
        if self._drawn is not page:
            self._drawn = page
            self._draw(page, offered=offered)
        if self.full is not None:
            number, name, value = self.full
            self.full_line.set_text(f"{escape_controls(name)} in row {page.query.offset + number + 1:,}: {value.size}")
        self.position.set_text(self._position(page))
        self.pager.update(page, self.total)
        cell = f"%%sql{self.line_on(source.name)}\n{rows_sql(page.query, page.relation)}"
        self.cell.text = cell if source.is_connection else ""

    def _heading(self) -> str:
        if self.source is None:
            return ""
        name = self.source.name
        return f"{escape_controls(self.page.relation.name)} in {name}" if self.page else f"Tables of {name}"

    def _no_tables(self) -> str:
        how = " %pipedb load creates one from a DataFrame or a file."
        return f"No tables yet.{how if self.source is not None and self.source.is_connection else ''}"

    def _relations(self) -> list[Relation]:
        return (
            [] if self.schema is None else [relation for relation in self.schema.relations if relation.kind != "shadow"]
        )

    def _draw(self, page: Page, *, offered: bool) -> None:
        """Show the rows and filters of a page."""
        query, every = page.query, page.relation.visible
        self.filters.update(page)
        self.rows.label = f"Rows of {escape_controls(page.relation.name)}"
        columns = [_column(page, page_column, offered=offered) for page_column in page.columns]
        self.rows.columns = [{"title": "#", "kind": "number"}, *columns]
        self.rows.empty = page.empty_text
        self.rows.show([_page_row(page, number, cells) for number, cells in enumerate(page.rows)])
        last = query.first + len(page.columns)
        self.columns_line.set_text(f"Columns {query.first + 1:,} to {last:,} of {len(every):,}.")
        show(self.columns, len(every) > COLUMNS)
        show(self.columns_before, query.first > 0)
        show(self.columns_after, last < len(every))
        hidden = len(page.relation.columns) - len(every)
        self.hidden.set_text(f"{plural(hidden, 'hidden column')} of the virtual table not shown." if hidden else "")

    def _position(self, page: Page) -> str:
        shown = f"Rows {page.query.offset + 1:,} to {page.end:,}" if page.rows else "No rows"
        if self.total is not None:
            return f"{shown} of {self.total:,}" if self.total else shown
        error, more = self.counter.error, f" of more than {page.end:,}" if page.more else ""
        if isinstance(error, AnswerTimeout):
            return f"{shown}{more}; the server did not count them in {COUNT_TIMEOUT:g} s"
        why = f"{error.code}: {error.message}" if error else self.counter.busy
        return f"{shown}{more}; {why}" if why else f"{shown}{more}"

    def static(self) -> list[Block]:
        """Return the content for saved notebooks."""
        page = self.page
        if self.source is None:
            return []
        if page is None:
            if self.schema is None:
                error = self.action.error
                return [UNREADABLE.format(self.source.name, error.message) if error else NO_RESPONSE]
            rows = [row["cells"] for row in map(_table_row, self._relations())]
            lines = [[name["text"], kind, str(count)] for name, kind, count in rows]
            return [self._heading(), TableBlock(["Name", "Kind", "Columns"], lines) if rows else self._no_tables()]
        query = page.query
        headings = [
            escape_controls(page_column.name) + MARKS[query.order_of(page_column.name)] for page_column in page.columns
        ]
        cells = [
            [f"{query.offset + number:,}", *(value.text for value in row)] for number, row in enumerate(page.rows, 1)
        ]
        filters = [*map(str, query.filters), *([query.where] if query.where else [])]
        filters += map(escape_controls, self.notes)
        return [self._heading(), *filters, TableBlock(["#", *headings], cells), self._position(page)]


MARKS = {None: "", "ascending": " ▲", "descending": " ▼"}
UNREADABLE = "Cannot read the tables of {}: {}"


def _missing(query: PageQuery, page: Page) -> str:
    return "" if (query.filters, query.sort) == (page.query.filters, page.query.sort) else GONE


def _table_row(relation: Relation) -> dict[str, Any]:
    name, count = escape_controls(relation.name), "unknown" if relation.broken else len(relation.visible)
    kind = ("virtual table" if relation.kind == "virtual" else relation.kind) + (
        f": {relation.broken}" if relation.broken else ""
    )
    explore = action("open", "Explore", f"Explore {name}")
    return {"key": relation.name, "cells": [{"text": name, "kind": "name", "actions": [explore]}, kind, count]}


def _column(page: Page, page_column: Column, *, offered: bool) -> dict[str, Any]:
    name = escape_controls(page_column.name) or "(no name)"
    generated = page_column.generated and f"{page_column.generated} generated"
    note = " ".join(filter(None, [escape_controls(page_column.type), generated]))
    actions = [action("profile", "Profile", f"Profile {name}")] if offered else []
    return {
        "title": name, "key": page_column.name, "sortable": True, "remote": True,
        "sorted": page.query.order_of(page_column.name),
        "note": note, "actions": actions,
    }  # fmt: skip


def _page_row(page: Page, number: int, cells: Sequence[TableCell]) -> dict[str, Any]:
    position = page.query.offset + number + 1
    row: list[Any] = [f"{position:,}"]
    for place, cell in enumerate(cells):
        title = f"Full value of {escape_controls(page.columns[place].name)} in row {position}"
        full = [action("full", "full value", title, key=f"{number} {place}")] if cell.cut else []
        row.append({"text": cell.text, "kind": cell.kind, "cell": cell.kind, **({"actions": full} if full else {})})
    return {"key": str(number), "cells": row}
