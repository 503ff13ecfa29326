"""Which rows a table browser shows: filters, and pages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import ipywidgets

from pipemagic.errors import SessionError
from pipemagic.explore import conditions
from pipemagic.explore.page_query import OPERATORS, SIZES, Filter, Page
from pipemagic.notebook.panels.components import Table, action
from pipemagic.notebook.panels.forms import Choice, Field, Form, button, column, show
from pipemagic.text import escape_controls

if TYPE_CHECKING:
    from pipemagic.notebook.panels.table_browser import TableBrowser


class FilterBar(ipywidgets.VBox):
    """Forms that add a filter or a condition in SQL, and the list of those in use."""

    def __init__(self, browser: TableBrowser) -> None:
        self.browser = browser
        self.column = Field("Column", Choice())
        self.operator = Field("Comparison", ipywidgets.Dropdown(options=OPERATORS))
        self.value = Field("Value", ipywidgets.Text())
        self.where = Field("Condition in SQL", ipywidgets.Text(placeholder="such as a > 1"))
        add = Form(browser, "", [self.column, self.operator, self.value], "Add filter", self._add, kind="")
        apply = Form(browser, "", [self.where], "Apply", lambda: self._set_condition(self.where.text), kind="")
        self.table = Table({"remove": self._remove}, label="Filters", columns=[{"title": "Filters"}])
        super().__init__([column(add, apply), self.table])
        self.add_class("pm-column")

    def clear(self, before: Page | None, page: Page) -> None:
        """Clear what was typed if it is part of a page that was just read."""
        if before is None or len(page.query.filters) > len(before.query.filters):
            self.value.widget.value = ""
        if before is None or page.query.where != before.query.where:
            self.where.widget.value = page.query.where

    def update(self, page: Page) -> None:
        """Show the columns and the filters of a page."""
        query = page.query
        self.column.set_options((escape_controls(shown.name), shown.name) for shown in page.relation.visible)
        filters = [(str(condition), repr(condition)) for condition in query.filters]
        if query.where:
            filters.append((query.where, "where"))
        self.table.show([
            {"key": key, "cells": [{"text": words, "actions": [action("remove", "Remove", f"Remove {words}")]}]}
            for words, key in filters
        ])  # fmt: skip
        show(self.table, bool(filters))

    def _add(self) -> None:
        name, operator, query = self.column.widget.value, self.operator.widget.value, self.browser.query
        added = Filter(name, operator, "" if operator.startswith("is ") else self.value.widget.value)
        if name is not None and added not in query.filters:
            conditions.literal(added.value)
            self.browser.read(replace(query, filters=(*query.filters, added), offset=0))

    def _set_condition(self, where: str) -> None:
        if where:
            conditions.check_form(where)  # the server finds other errors, as those of a cell
        self.browser.read(replace(self.browser.query, where=where, offset=0))

    def _remove(self, key: str) -> None:
        query = self.browser.query
        if key == "where":
            self._set_condition("")
        else:
            filters = tuple(condition for condition in query.filters if repr(condition) != key)
            self.browser.read(replace(query, filters=filters, offset=0))


class Pager(ipywidgets.HBox):
    """Buttons that turn the pages, the size of a page, and a form that goes to a row."""

    def __init__(self, browser: TableBrowser) -> None:
        self.browser = browser
        self.first = button("First", lambda: self._turn(0))
        self.previous = button("Previous", lambda: self._turn(browser.query.previous_offset(browser.total)))
        self.next = button("Next", lambda: self._turn(browser.query.offset + browser.query.size))
        self.last = button("Last", lambda: self._turn(browser.query.last_offset(browser.total or 0)))
        self.size = Field("Rows per page", ipywidgets.Dropdown(options=SIZES))
        self.size.widget.observe(lambda change: self._resize(change["new"]), "value")
        self.row_number = Field("Go to row", ipywidgets.Text())
        go = Form(browser, "", [self.row_number], "Go", self._go, kind="")
        self.size.layout.flex = self.row_number.layout.flex = "0 1 100px"
        go.layout.flex = "1 1 180px"
        super().__init__([self.first, self.previous, self.next, self.last, self.size, go])
        self.add_class("pm-row")

    def update(self, page: Page, total: int | None) -> None:
        """Enable the buttons that lead to other pages."""
        query, last = page.query, page.query.last_offset(total or 0)
        self.first.disabled = self.previous.disabled = not query.offset
        self.next.disabled = not page.more
        self.last.disabled = total is None or query.offset == last or (bool(page.rows) and query.offset >= last)
        self.size.widget.value = self.browser.query.size

    def _turn(self, offset: int) -> None:
        self.browser.read(replace(self.browser.query, offset=offset))

    def _go(self) -> None:
        typed = self.row_number.text.replace(",", "")
        if not (typed.isdecimal() and 0 < int(typed) < 2**53):
            raise SessionError("not a valid row number", hint="row numbers start at 1")
        self._turn(int(typed) - 1)

    def _resize(self, size: int) -> None:
        query = self.browser.query
        if size != query.size:  # else it was set by `update`
            self.browser.read(replace(query, size=size, offset=query.offset // size * size))
