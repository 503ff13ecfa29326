"""The Explore panel: the tables of a connection, and the rows of one table."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic.hrana.stream import Tx
from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.browsed_database import BrowsedDatabase
from pipemagic.notebook.panels.components import Status
from pipemagic.notebook.panels.forms import Choice, Field, Line, button, column, show
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.static_html import Block
from pipemagic.notebook.panels.table_browser import TableBrowser
from pipemagic.session.transactions import describe_transaction
from pipemagic.text import word

if TYPE_CHECKING:
    from pipemagic.session import Connection

NOTHING = "No connections yet. %pipedb connect finds or starts the embedded service."
NO_CURRENT = "No current connection."


class ExplorePanel(Panel):
    """A list of connections and the table browser, which follows the current connection until a table is opened."""

    title = "Explore"
    in_organization = False

    def __init__(self, state: OrganizationState, variables: MutableMapping[str, Any]) -> None:
        super().__init__(state)
        self.variables = variables
        self._current = ""
        self._connection: Connection | None = None
        state.session.written.connect(self._on_write)

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
        self.connection = Field("Connection", Choice())
        self.connection.on_choice(self._choose)
        self.nothing, self.connecting = Line(), Status()
        self.connect_default = button("Connect", self.state.connect, kind="primary")
        self.nothing_box = column(self.nothing, self.connect_default, self.connecting)
        self.lost = Line()
        self.browser = TableBrowser(self.changed, variables=self.variables, line_on=self._line_on)
        self.tasks = [self.browser.model.reading]
        return [self.nothing_box, self.lost, self.status, self.browser]

    def tools(self) -> Sequence[ipywidgets.Widget]:
        """Return the list of connections and the usual buttons."""
        return [self.connection, *super().tools()]

    def mount(self) -> None:
        """Start following changes and writes of cells."""
        super().mount()
        self.browser.model.follow(True)

    def unmount(self) -> None:
        """Stop following changes."""
        super().unmount()
        if self.children:
            self.browser.model.follow(False)

    def close(self) -> None:
        """End what runs, and close the panel."""
        if self.children:
            self.browser.model.stop()
        super().close()

    def reload(self) -> None:
        """Read the displayed data again."""
        self.browser.model.reload()

    def update(self) -> None:
        """Show the current connection, unless a table of another one is open."""
        session, model = self.state.session, self.browser.model
        current, names = session.current or "", list(session.connections)
        if self._name in names and session.connections[self._name] is not self._connection:
            self._show(self._name)  # the name is that of another connection now
        if current != self._current:
            self._current = current
            if model.page is None and current != self._name:
                self._show(current)
        listed = [name for name in dict.fromkeys([*names, self._name]) if name]
        options = [(f"{name} (current)" if name == current else name, name) for name in listed]
        self.connection.set_options(options if self._name else [("choose one", ""), *options], self._name)
        show(self.connection, len(options) > 1 or bool(options and not self._name))
        show(self.nothing_box, model.source is None)
        self.nothing.set_text(NO_CURRENT if names else NOTHING)
        show(self.connect_default, not names)
        self.connect_default.disabled = bool(self.state.task.busy)
        self.connecting.update(self.state.task)
        self._update_transaction()
        show(self.browser, model.source is not None)
        show(self.refresh, model.source is not None)
        self.browser.update()

    def static(self) -> Sequence[Block]:
        """Return the list of tables or the page of a table."""
        shown = self.browser.static() if self.children else []
        return shown or [NO_CURRENT if self.state.session.connections else NOTHING]

    @property
    def _name(self) -> str:
        return "" if self.browser.model.source is None else self.browser.model.source.name

    def open_table(self, connection: str, table: str) -> None:
        """Show a table of a connection."""
        self._show(connection)
        self.browser.model.open_table(table)

    def _show(self, name: str) -> None:
        session = self.state.session
        self._connection = session.connections.get(name)
        self.browser.model.show(BrowsedDatabase.of_connection(session, name) if name else None)

    def _line_on(self, name: str) -> str:
        return "" if name == self.state.session.current else f" --on {word(name)}"

    def _choose(self, name: str) -> None:
        if name and name != self._name:
            self._show(name)

    def _on_write(self, connection: Connection) -> None:
        if self.children and connection.name == self._name:
            self.changed()
            self.browser.model.outdate()

    def _update_transaction(self) -> None:
        """Show whether cells have an open or lost transaction, as the last response of the server says."""
        connection = self.state.session.connections.get(self._name)
        transaction = Tx.NONE if connection is None else connection.transaction
        self.browser.model.uncommitted = transaction is Tx.OPEN
        loss = connection.loss if connection is not None and transaction is Tx.LOST else None
        self.lost.set_text(f"{describe_transaction(transaction, loss=loss)}." if loss is not None else "")
