"""The panel Explore: tables, and the rows of one of them by pages, sorted and filtered by the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pipemagic.errors import PipemagicError
from pipemagic.explore.schema import Relation
from pipemagic.explore.values import one_line
from pipemagic.notebook.panels.explore import exporting, paging, profiling
from pipemagic.notebook.panels.explore.browsing import BrowsingModel
from pipemagic.notebook.panels.explore.exporting import ExportingModel, Variables
from pipemagic.notebook.panels.explore.pages import pager, rows_table, whole_value
from pipemagic.notebook.panels.explore.paging import Condition, Page
from pipemagic.notebook.panels.explore.profiling import ProfilingModel
from pipemagic.notebook.panels.ground.lines import on
from pipemagic.notebook.panels.ground.parts import (
    button,
    choice,
    empty,
    field,
    magic,
    row,
    section,
    state,
    submit,
    table,
)
from pipemagic.notebook.panels.ground.tree import Child, Node, h
from pipemagic.notebook.panels.ground.widget import Values, View
from pipemagic.notebook.panels.holdings import Holdings

if TYPE_CHECKING:
    from traitlets import HasTraits

FEW = 8
"""Tables that need no filter."""

PATIENCE = 5.0
"""Seconds that opening waits for the tables, so that the saved face has them."""


class ExploreView(View):
    """The list of tables, or a page of one with its filters; profiles and the export below."""

    title: ClassVar[str] = "Explore"

    def __init__(self, holdings: Holdings, variables: Variables) -> None:
        self.holdings = holdings
        self.browsing = BrowsingModel(holdings)
        self.profiling = ProfilingModel(holdings.session)
        self.exporting = ExportingModel(holdings.session, variables)

    def models(self) -> tuple[HasTraits, ...]:
        """Give what is drawn."""
        return (self.browsing, self.profiling, self.exporting, self.holdings)

    def opened(self) -> None:
        """Follow which connection is the current one, and what cells write."""
        self.holdings.observe(self.browsing.follow, ["current", "connected"])
        self.browsing.seen(True)

    def turned_to(self) -> None:
        """Read the list of tables anew: cells may have made some, which nobody tells."""
        if self.browsing.page is None and not self.browsing.busy:
            self.browsing.list_tables()

    def closed(self) -> None:
        """Follow it no more, and leave nothing under way."""
        self.holdings.unobserve(self.browsing.follow, ["current", "connected"])
        self.browsing.seen(False)
        for model in (self.browsing, self.profiling, self.exporting):
            model.stop()

    def draw(self) -> Node:
        """Draw what acts."""
        return self._draw(live=True)

    def saved(self) -> Node:
        """Draw the same with headings as words."""
        return self._draw(live=False)

    def _draw(self, *, live: bool) -> Node:
        model = self.browsing
        if not model.connection and not model.busy:
            return section(self.title, self._nothing(), state(model))
        page: Page | None = model.page
        inside = self._tables(live=live) if page is None else self._page(page, live=live)
        again = button("Refresh", ("again",), disabled=bool(model.busy))
        return section(self.title, inside, tools=[self._connections(), again])

    def _nothing(self) -> Node:
        if self.holdings.current:
            words = f"The tables of {self.holdings.current} could not be read."
            return h("div", empty(words), h("p", button("Refresh", ("again",)), self._connections()))
        if self.holdings.connected:
            return h("div", empty("No connection is the current one."), self._connections())
        connect = button("Connect", ("connect",), kind="main", disabled=bool(self.holdings.busy))
        return h("div", empty("Nothing is connected: %pipedb connect finds the embedded service, or starts it."),
                 h("p", connect), state(self.holdings))  # fmt: skip

    def _connections(self) -> Node | None:
        names = dict.fromkeys([*self.holdings.connected, *filter(None, [self.browsing.connection])])
        if len(names) < 2 and self.browsing.connection:
            return None
        options = [(name, f"{name} (current)" if name == self.holdings.current else name) for name in names]
        first = [] if self.browsing.connection else [("", "choose one")]
        return choice(
            "Connection", "connection", [*first, *options], value=self.browsing.connection,
            on={"change": ["connection"]},
        )  # fmt: skip

    def _working(self) -> Node:
        """Tell what is under way or how it ended, with a way to stop it."""
        stop = button("Stop", ("stop",)) if self.browsing.busy else None
        return h("div", state(self.browsing), stop, class_="pm-said-and-stop")

    # -- the list of tables

    def _tables(self, *, live: bool) -> Node:
        model = self.browsing
        known = [one for one in model.schema.relations if one.kind != "shadow"]
        found = [one for one in known if model.pattern.lower() in one.name.lower()]
        search = field("Find a table", "pattern", on={"input": ["find"]}) if len(known) > FEW else None
        rows = [self._table_row(one, live=live) for one in found]
        headings: list[Child] = ["Name", "Kind", h("th", "Columns", scope="col", class_="pm-number")]
        listed = table(headings, rows, label=f"Tables of {model.connection}")
        none = "No name has that in it." if known else "There are no tables yet."
        return h("div", h("p", f"Tables of {model.connection}", class_="pm-faint"), search, self._working(),
                 listed if rows else empty("" if model.busy else none), key="tables")  # fmt: skip

    def _table_row(self, one: Relation, *, live: bool) -> Node:
        words = one_line(one.name)
        shown = button(words, ("open", one.name), kind="plain", label=f"Explore {words}") if live else words
        kind = "virtual table" if one.kind == "virtual" else one.kind
        count = h("td", "unknown" if one.broken else str(len(one.visible)), class_="pm-number")
        told = h("td", f"{kind}: {one.broken}") if one.broken else h("td", kind, class_="pm-nowrap")
        return row(one.name, shown, told, count)

    # -- one table

    def _page(self, page: Page, *, live: bool) -> Node:
        model, words = self.browsing, one_line(page.relation.name)
        line = f"%%sql{on(self.holdings.session, page.look.connection)}\n"
        tools = [
            button("Export ...", ("export_form", "open")), button("Profile all columns", ("profile",)),
            button("All tables", ("tables",)),
        ]  # fmt: skip
        return h(
            "div", h("div", h("h3", f"{words} in {page.look.connection}"),
                     h("div", tools, class_="pm-turns", live=True), class_="pm-head"),
            exporting.drawn(self.exporting, words) if live else None,
            self._filters(page), self._conditions(page),
            self._working(),
            self._uncommitted() if model.uncommitted else None,
            h("div", rows_table(page, live=live, busy=bool(model.busy)), class_="pm-cells"),
            pager(page, model.total, model.uncounted), whole_value(page, model.whole) if model.whole else None,
            magic(line + paging.rows_sql(page.look, page.relation)),
            profiling.drawn(self.profiling) if live else None,
            key=f"table {page.relation.name}",
        )  # fmt: skip

    def _uncommitted(self) -> Node:
        words = "A transaction is open in the cells. What it changed is not seen here before it is committed."
        return h("p", words, class_="pm-note", role="note", live=True)

    def _filters(self, page: Page) -> Node:
        columns = [(one.name, one_line(one.name)) for one in page.relation.visible]
        operators = [(one, one) for one in paging.OPERATORS]
        simple = h(
            "form", h("div", choice("Column", "column", columns), choice("Comparison", "operator", operators),
                      field("Value", "value"), submit("Add filter", kind=""), class_="pm-row"),
            on={"submit": ["filter"]}, key=f"filter {self.browsing.added}",
        )  # fmt: skip
        written = h(
            "form", h("div", field("Condition in SQL", "where", value=page.look.where, placeholder="such as a > 1"),
                      submit("Apply", kind=""), class_="pm-row"),
            on={"submit": ["where"]}, key="where",
        )  # fmt: skip
        return h("div", simple, written, live=True)

    def _conditions(self, page: Page) -> Node | None:
        """Name the filters that are on, each with a way to take it off."""
        named = [(str(one), ("unfilter", one.column, one.operator, one.value)) for one in page.look.conditions] + (
            [(page.look.where, ("no_where",))] if page.look.where else []
        )
        if not named:
            return None
        items = [
            h("li", words, button("Remove", action, kind="plain", label=f"Remove {words}"), key=" ".join(action))
            for words, action in named
        ]
        return h("ul", items, class_="pm-chips", aria_label="Filters")

    # -- what people do

    def on_connect(self, _values: Values) -> None:
        """Connect to the default."""
        self.holdings.connect()

    def on_connection(self, values: Values) -> None:
        """Show the tables of another connection."""
        self.browsing.list_tables(values["connection"])

    def on_find(self, values: Values) -> None:
        """List the tables that have a text in their names."""
        self.browsing.pattern = values["pattern"].strip()

    def on_open(self, _values: Values, name: str) -> None:
        """Show a table."""
        self.profiling.keep_to(self.browsing.connection, name)
        self.exporting.show(asking=False)
        self.browsing.open(name)

    def on_show_table(self, _values: Values, connection: str, name: str) -> None:
        """Show a table of a connection, as another panel asks."""
        self.profiling.keep_to(connection, name)
        self.exporting.show(asking=False)
        self.browsing.go_to(connection, name)

    def on_tables(self, _values: Values) -> None:
        """Go back to the list."""
        self.profiling.clear()
        self.browsing.list_tables()

    def on_again(self, _values: Values) -> None:
        """Look again; profiles are of before."""
        self.profiling.clear()
        self.browsing.again()

    def on_stop(self, _values: Values) -> None:
        """Give up what is under way."""
        self.browsing.stop()

    def on_sort(self, _values: Values, column: str) -> None:
        """Sort."""
        self.browsing.sort(column)

    def on_filter(self, values: Values) -> None:
        """Add a filter."""
        operator = values["operator"]
        typed = "" if operator.startswith("is ") else values["value"]
        self.browsing.add(Condition(values["column"], operator, typed))

    def on_unfilter(self, _values: Values, column: str, operator: str, value: str) -> None:
        """Take a filter away."""
        self.browsing.remove(Condition(column, operator, value))

    def on_where(self, values: Values) -> None:
        """Filter by a condition in SQL."""
        self.browsing.where(values["where"].strip())

    def on_no_where(self, _values: Values) -> None:
        """Take the condition away."""
        self.browsing.where("")

    def on_turn(self, _values: Values, offset: str) -> None:
        """Show another page."""
        self.browsing.turn(int(offset))

    def on_go(self, values: Values) -> None:
        """Show the page that begins at a row, counted from 1."""
        typed = values["row"].replace(",", "").strip()
        if typed.isdecimal() and 0 < int(typed) < 2**53:
            self.browsing.turn(int(typed) - 1)
        else:
            self.browsing.refuse("that is not the number of a row", "the first one has the number 1")

    def on_size(self, values: Values) -> None:
        """Show more or fewer rows on a page."""
        self.browsing.resize(int(values["size"]))

    def on_columns(self, _values: Values, first: str) -> None:
        """Show other columns."""
        self.browsing.shift(int(first))

    def on_value(self, _values: Values, row: str, column: str) -> None:
        """Show a value whole."""
        self.browsing.open_value(int(row), int(column))

    def on_close_value(self, _values: Values) -> None:
        """Close it."""
        self.browsing.close_value()

    def on_profile(self, _values: Values, *columns: str) -> None:
        """Profile a column, or without a name all that are shown."""
        page: Page | None = self.browsing.page
        if page is None:  # it was pressed before the list of tables came
            return
        names = columns or [one.name for one in page.columns]
        try:
            self.profiling.look_at(
                page.look.connection, page.relation, names, paging.filter_sql(page.look, page.relation)
            )
        except PipemagicError as error:
            self.profiling.refuse(error.message, error.hint)

    def on_stop_profile(self, _values: Values) -> None:
        """Give up profiling."""
        self.profiling.stop()

    def on_close_profiles(self, _values: Values) -> None:
        """Take the profiles off the page."""
        self.profiling.clear()

    def on_export_form(self, _values: Values, opened: str = "") -> None:
        """Open the form of the export, or close it."""
        self.exporting.show(asking=bool(opened))

    def on_export(self, values: Values) -> None:
        """Export."""
        page: Page | None = self.browsing.page
        if page is not None:
            self.exporting.export(page, values["form"], values["target"].strip(), replace=bool(values["replace"]))

    def on_stop_export(self, _values: Values) -> None:
        """Give up the export."""
        self.exporting.stop()


def explore_view(holdings: Holdings, variables: Variables) -> ExploreView:
    """Give the view on the current connection; exports go into ``variables``."""
    view = ExploreView(holdings, variables)
    view.browsing.list_tables(holdings.current)
    view.browsing.wait(PATIENCE)
    return view
