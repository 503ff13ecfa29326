"""The tables of a database and the first rows of one of them, read in the background beside the cells' stream."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from traitlets import Any as Anything
from traitlets import Bool, List, Unicode

from pipemagic.client.database import Database
from pipemagic.errors import PipemagicError
from pipemagic.explore import glance
from pipemagic.explore.sending import NotText
from pipemagic.notebook.panels.ground.parts import button, empty, problem
from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.notebook.panels.ground.widget import Values, View
from pipemagic.notebook.panels.ground.work import WorkingModel

if TYPE_CHECKING:
    from traitlets import HasTraits

    from pipemagic.hrana.values import SqlValue

ANSWER = 10.0
"""Seconds that an answer may take: this is only a look."""

Open = Callable[[str], Database]


class PreviewModel(WorkingModel):
    """What is in one database. A later wish takes the place of an earlier one, whose answer is then dropped.

    ``open`` gives a database by name, for reading, and raises PipemagicErrors.
    """

    database = Unicode(help="'' while none is looked at")
    table = Unicode(help="'' for none")
    tables: List[Any] = List(help="glance.Table")
    more = Bool(help="whether there are more tables than are listed")
    rows: Any = Anything(help="glance.Rows of the table, None until they are read")

    def __init__(self, open_: Open) -> None:
        super().__init__()
        self._open = open_
        self._wish = 0
        self._reading = self._stale = False  # whether the wish is being read, and has to be once more after that

    def look(self, database: str, table: str = "") -> None:
        """Read the tables of a database, or the first rows of one of them."""
        with self.hold_trait_notifications():
            if database != self.database:
                self.tables, self.more = [], False
            self.database, self.table, self.rows = database, table, None
            self.busy = f"Reading {table or database} ..."
            self.message = self.error = self.code = self.hint = ""
        self._begin(lambda opened: _read(opened, table))

    def look_again(self) -> None:
        """Read what is shown anew; it stays there until the answer is. While it is being read, once more after that."""
        with self._starting:
            self._stale = self._reading
        if self.database and not self._stale:
            self._begin(lambda opened: _read_all(opened, self.table))

    def leave(self) -> None:
        """Look at nothing any more."""
        with self._starting:
            self._wish += 1
            self._reading = self._stale = False
        with self.hold_trait_notifications():
            self.database = self.table = self.busy = self.error = self.code = self.hint = ""
            self.tables, self.rows, self.more = [], None, False

    def _begin(self, read: Callable[[Database], dict[str, Any]]) -> None:
        with self._starting:
            self._wish += 1
            self._reading, self._stale = True, False
            given = (self._wish, self.database, read)
            worker = threading.Thread(target=self._look, args=given, name="pipemagic: preview", daemon=True)
            worker.start()
            self._worker = worker

    def _look(self, wish: int, database: str, read: Callable[[Database], dict[str, Any]]) -> None:
        found: dict[str, Any] = {}
        try:
            with self._open(database) as opened:
                found = {"error": "", "code": "", "hint": "", **read(opened)}
        except PipemagicError as failure:
            found = {"error": failure.message, "code": failure.code, "hint": failure.hint}
        except BaseException as failure:
            found = {"error": f"{type(failure).__name__}: {failure}", "code": "BUG"}
            raise
        finally:
            if wish == self._wish:
                with self.hold_trait_notifications():
                    for name, value in found.items():
                        setattr(self, name, value)
                    self.busy = ""
                if self._is_stale(wish):
                    self.look_again()

    def _is_stale(self, wish: int) -> bool:
        """End the reading of a wish, unless there is a later one; tells whether it has to be read once more."""
        with self._starting:
            if wish != self._wish:
                return False
            self._reading = False
            return self._stale


def _read(database: Database, table: str) -> dict[str, Any]:
    if table:
        return {"rows": glance.first_rows(database, table)}
    tables, more = glance.tables(database)
    return {"tables": tables, "more": more}


def _read_all(database: Database, table: str) -> dict[str, Any]:
    """Give tables and rows; a table that is gone is no longer the one that is shown."""
    found = _read(database, "")
    there = found["more"] or table in {one.name for one in found["tables"]}
    return {**found, **(_read(database, table) if table and there else {"table": "", "rows": None})}


class PreviewView(View):
    """The list of tables, and below it the rows of the one chosen.

    ``explore`` shows a table of a database in full, if anything does, where ``explorable`` says so.
    """

    title = "Tables"

    def __init__(self, model: PreviewModel) -> None:
        self.model = model
        self.explore: Callable[[str, str], None] | None = None
        self.explorable: Callable[[str], bool] = bool

    def models(self) -> tuple[HasTraits, ...]:
        """Give what is drawn."""
        return (self.model,)

    def draw(self) -> Node:
        """Draw the tables and the rows."""
        model = self.model
        return h(
            "div",
            h("h4", "Tables"),
            self._tables(),
            h("div", model.busy, role="status", class_="pm-state pm-busy") if model.busy else None,
            problem(model),
            self._rows() if model.table and model.rows is not None else None,
            key="preview",
        )

    def _tables(self) -> Node | None:
        model = self.model
        if not model.tables:
            ended = not (model.busy or model.error)
            return (
                empty("No tables yet: a %%sql cell with CREATE TABLE, or %pipedb load, makes one.") if ended else None
            )
        listed = [h("li", self._table(one), key=f"table {one.name}") for one in model.tables]
        left = empty(f"The first {glance.TABLES} by name; %pipedb tables lists all.") if model.more else None
        return h("div", h("ul", listed, class_="pm-tables"), left)

    def _table(self, table: glance.Table) -> tuple[Node, Node]:
        chosen = table.name == self.model.table
        rows = f"{table.amount} {'row' if table.rows == 1 else 'rows'}" if table.amount else ""
        what = ", ".join(filter(None, ("" if table.kind == "table" else table.kind, rows)))
        name = h(
            "button", table.name, type="button", class_="pm-plain", aria_expanded=str(chosen).lower(),
            aria_label=f"First rows of {table.name}", on={"click": ["table", table.name]}, key="name",
        )  # fmt: skip
        return name, h("span", what, class_="pm-faint")

    def _rows(self) -> Node:
        model, found = self.model, self.model.rows
        return h(
            "div",
            h("div", h("h4", f"First rows of {model.table}"),
              button("Explore", ("explore",), kind="plain", label=f"Explore {model.table}")
              if self.explore and self.explorable(model.database) else None,
              class_="pm-head"),
            _grid(found, model.table) if found.rows else empty("It has no rows."),
            empty(f"{found.columns_left} more columns are not shown.") if found.columns_left else None,
        )  # fmt: skip

    def on_table(self, _values: Values, table: str) -> None:
        """Show the rows of a table, or no longer."""
        model = self.model
        if table == model.table:
            model.table = ""
        else:
            model.look(model.database, table)

    def on_explore(self, _values: Values) -> None:
        """Show the table in full."""
        if self.explore is not None and self.model.table:
            self.explore(self.model.database, self.model.table)

    def closed(self) -> None:
        """Close what is open."""
        self.model.leave()


def _grid(found: glance.Rows, table: str) -> Node:
    head = h("tr", [h("th", name, scope="col", class_="pm-nowrap") for name in found.columns])
    body = [h("tr", [_cell(value) for value in row]) for row in found.rows]
    drawn = h("table", h("thead", head), h("tbody", body), aria_label=f"First rows of {table}")
    return h("div", drawn, class_="pm-scroll pm-grid", tabindex=0)


def _cell(value: SqlValue) -> Node:
    match value:
        case None:
            return h("td", "NULL", class_="pm-faint")
        case bytes():
            more = "..." if len(value) > 12 else ""
            about = " (text, not UTF-8)" if isinstance(value, NotText) else ""
            return h("td", f"x'{value[:12].hex()}{more}'{about}", class_="pm-faint")
        case str():
            more = "..." if len(value) > glance.LENGTH else ""
            return h("td", value[: glance.LENGTH] + more)
    return h("td", str(value), class_="pm-number")
