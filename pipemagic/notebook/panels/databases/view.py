"""The panel of databases: a form to create one, the list by group, and the details of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipemagic.notebook.panels.databases.creation import created, form
from pipemagic.notebook.panels.databases.details import HERE, details
from pipemagic.notebook.panels.databases.entry import standing
from pipemagic.notebook.panels.databases.listing import listed
from pipemagic.notebook.panels.databases.model import DatabasesModel
from pipemagic.notebook.panels.databases.preview import PreviewView
from pipemagic.notebook.panels.databases.tokens import TokensView
from pipemagic.notebook.panels.ground.parts import button, empty, row, section, state, table
from pipemagic.notebook.panels.ground.tree import Node
from pipemagic.notebook.panels.ground.widget import Turn, Values, View

if TYPE_CHECKING:
    from traitlets import HasTraits

    from pipemagic.client.secrets import Secret
    from pipemagic.management_api.models import DatabaseInfo


class DatabasesView(View):
    """Draws what there is; inside it the tables and the tokens of the database that is chosen."""

    title = "Databases"

    def __init__(self, model: DatabasesModel) -> None:
        self.model = model
        self.tables = PreviewView(model.preview)
        self.inner: dict[str, View] = {"Tables": self.tables, "Tokens": TokensView(model.tokens)}

    def models(self) -> tuple[HasTraits, ...]:
        """Give what is drawn."""
        model = self.model
        return (model, model.holdings, model.sizes, model.preview, model.tokens)

    def draw(self) -> Node:
        """Draw the form, the list and the details."""
        model, box = self.model, details(self.model, self.inner)
        again = button("Refresh", ("again",), disabled=bool(model.holdings.busy))
        return section(
            self.title,
            form(model),
            state(model) if box is None or model.place not in HERE else None,
            created(model),
            listed(model),
            box,
            tools=again,
        )

    def saved(self) -> Node:
        """Draw one plain table: what is the same whenever the notebook is run."""
        has, url = self.model.holdings, self._lasting_url
        with_urls = any(map(url, has.databases))
        rows = [
            row(one.name, one.name, one.group, *([url(one)] if with_urls else ()), standing(self.model, one.name))
            for one in has.databases
        ]
        headings = ["Name", "Group", *(["URL"] if with_urls else ()), ""]
        return section(self.title, table(headings, rows, label="Databases") if rows else empty("No databases yet."))

    def _lasting_url(self, one: DatabaseInfo) -> str:
        """Give the URL where it is the same tomorrow: the embedded service has another port after each start."""
        has = self.model.holdings
        return "" if not has.known or has.platform.moves else one.url

    # -- what people do

    def act(self, action: list[str], values: Values) -> None:
        """Do what an event asks for, here or in the tables or tokens."""
        inner = self.inner.get(action[0])
        if inner is None:
            super().act(action, values)
        else:
            inner.act(action[1:], values)

    def take_secrets(self) -> Mapping[str, Secret | None]:
        """Give those of the tokens."""
        return self.inner["Tokens"].take_secrets()

    def placed(self, turn: Turn) -> None:
        """Let the tables be explored beside this view; what is not connected, Explore cannot show."""

        def explore(database: str, table: str) -> None:
            for one in self.model.connections(database)[:1]:
                turn("Explore", ["show-table", one.name, table])

        self.tables.explore = explore
        self.tables.explorable = lambda database: bool(self.model.connections(database))

    def opened(self) -> None:
        """Begin to follow what changes."""
        self.model.follow(on=True)

    def closed(self) -> None:
        """Stop following, and forget what was shown once."""
        self.model.follow(on=False)
        for view in self.inner.values():
            view.closed()

    def on_again(self, _values: Values) -> None:
        """Ask for everything anew."""
        self.model.look_again()

    def on_typing(self, values: Values) -> None:
        """Look at a name that is being typed."""
        self.model.check(str(values.get("name", "")))

    def on_filter(self, values: Values) -> None:
        """List what fits."""
        self.model.filter = str(values.get("filter", "")).strip()

    def on_create(self, values: Values) -> None:
        """Create a database."""
        self.model.create(str(values.get("name", "")), str(values.get("group", "")))

    def on_create_group(self, values: Values) -> None:
        """Create the first group."""
        self.model.create_group(str(values.get("location", "")))

    def on_seen(self, _values: Values) -> None:
        """Take away what was created last."""
        self.model.created = None

    def on_connect(self, _values: Values, name: str, place: str = "") -> None:
        """Connect to a database."""
        self.model.connect(name, place)

    def on_use(self, _values: Values, name: str, place: str = "") -> None:
        """Make a connection the current one."""
        self.model.use(name, place)

    def on_close(self, _values: Values, name: str, place: str = "") -> None:
        """Close a connection."""
        self.model.close(name, place)

    def on_details(self, _values: Values, name: str) -> None:
        """Show the details of a database, or no longer."""
        self.model.choose("" if name == self.model.chosen else name)

    def on_ask_to_delete(self, _values: Values) -> None:
        """Open the form to delete."""
        self.model.forget()
        self.model.deleting = True

    def on_cancel(self, _values: Values) -> None:
        """Close the form to delete."""
        self.model.forget()
        self.model.deleting = False

    def on_delete(self, values: Values, name: str) -> None:
        """Delete a database."""
        self.model.delete(name, str(values.get("confirmation", "")))
