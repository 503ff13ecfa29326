"""The panel of databases: a form to create one, the list by group, and the details of one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pipemagic.client.names import longest
from pipemagic.notebook.panels.databases import sizes
from pipemagic.notebook.panels.databases.model import FIRST_GROUP, NOW_IN_USE, DatabasesModel
from pipemagic.notebook.panels.databases.preview import PreviewView
from pipemagic.notebook.panels.databases.tokens import TokensView
from pipemagic.notebook.panels.ground.parts import (
    button,
    choice,
    confirm,
    empty,
    field,
    row,
    section,
    state,
    submit,
    table,
)
from pipemagic.notebook.panels.ground.tabs import addressed
from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.notebook.panels.ground.widget import Turn, Values, View

if TYPE_CHECKING:
    from traitlets import HasTraits

    from pipemagic.client.resources import DatabaseInfo
    from pipemagic.client.secrets import Secret

SHOWN = 100
"""How many databases are drawn at once; the filter finds the others."""

FILTERED_FROM = 8
"""A shorter list needs no filter."""

NO_GROUP = "in a group that the service does not tell"


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
        model, details = self.model, self._details()
        again = button("Look again", ("again",), disabled=bool(model.holdings.busy))
        return section(
            self.title,
            self._creating(),
            state(model) if details is None or model.place not in ("details", "deletion") else None,
            self._created(),
            self._list(),
            details,
            tools=again,
        )

    def saved(self) -> Node:
        """Draw one plain table: what is the same whenever the notebook is run."""
        has, url = self.model.holdings, self._lasting_url
        with_urls = any(map(url, has.databases))
        rows = [
            row(one.name, one.name, one.group, *([url(one)] if with_urls else ()), self._standing(one.name))
            for one in has.databases
        ]
        headings = ["Name", "Group", *(["URL"] if with_urls else ()), ""]
        return section(self.title, table(headings, rows, label="Databases") if rows else empty("No databases yet."))

    # -- the form

    def _creating(self) -> Node:
        has = self.model.holdings
        if has.groups or not has.complete:
            return self._form()
        places = [(one.code, f"{one.code} ({one.name})") for one in has.locations]
        return h(
            "form",
            h("p", "There is no group yet. A database belongs to a group, which says at which locations it is."),
            h("div",
              choice("Location", "location", places),
              submit(f"Create group {FIRST_GROUP}", disabled=bool(self.model.busy)), class_="pm-row"),
            key="first group", on={"submit": ["create-group"]},
        )  # fmt: skip

    def _form(self) -> Node:
        model, has = self.model, self.model.holdings
        limit = max(0, longest("database", has.organization))
        note = f"Lower-case letters, digits and hyphens, at most {limit}: -{has.organization} comes after it."
        name = field("Database name", "name", error=model.wrong, note=note, on={"input": ["typing"]})
        if has.groups:
            group = choice("Group", "group", [(one.name, one.name) for one in has.groups])
        else:
            group = field("Group", "group", note="This service lists no groups: type the name of one.")
        return h(
            "form",
            h("div", name, group, submit("Create database", disabled=bool(model.busy)), class_="pm-row pm-create"),
            on={"submit": ["create"]}, key=f"create {model.made}",
        )  # fmt: skip

    def _created(self) -> Node | None:
        """Show what was created last: where it is, and that the next thing to do is to connect."""
        model, made = self.model, self.model.created
        if made is None:
            return None
        if model.holdings.current in {one.name for one in model.connections(made.name)}:
            now: Node = h("p", f"{made.name} is the current connection: {NOW_IN_USE}")
        else:
            now = button(
                "Connect", ("connect", made.name), kind="main", label=f"Connect to the new database {made.name}",
                disabled=bool(model.busy), focus=True,
            )  # fmt: skip
        return h(
            "div", h("p", h("strong", made.name)),
            _url(made), now, button("Done", ("seen",), kind="plain"), class_="pm-made", key=f"made {model.made}",
            live=True,
        )  # fmt: skip

    # -- the list

    def _list(self) -> Node:
        model, has = self.model, self.model.holdings
        wanted = model.filter.lower()
        found = [one for one in has.databases if wanted in one.name.lower() or wanted in one.group.lower()]
        return h(
            "div",
            self._filter(len(found)),
            self._table(self._shown(found)) if found else self._nothing(),
            _left_out(len(found) - SHOWN) if len(found) > SHOWN else None,
            None if has.complete else empty("This service has no list of databases; these are the ones made here."),
            self._about_sizes(),
            key="list",
        )  # fmt: skip

    def _shown(self, found: Sequence[DatabaseInfo]) -> Sequence[DatabaseInfo]:
        """Give those that are drawn, in their order; of too many none that is connected is left out."""
        if len(found) <= SHOWN:
            return found
        shown = {one.name for one in sorted(found, key=lambda one: not self._standing(one.name))[:SHOWN]}
        return [one for one in found if one.name in shown]

    def _filter(self, found: int) -> Node | None:
        count = len(self.model.holdings.databases)
        if count < FILTERED_FROM:
            return None
        note = f"{found} of {count}" if self.model.filter else f"{count} databases"
        given = field("Filter by name or group", "filter", note=note, on={"input": ["filter"]})
        return h("div", given, class_="pm-row", key="filter", data_fields="")

    def _nothing(self) -> Node:
        return empty("No name or group holds that." if self.model.filter else "No databases yet.")

    def _about_sizes(self) -> Node | None:
        has_sizes = self.model.sizes
        if has_sizes.error:
            return empty(f"Sizes are not known: {has_sizes.error}")
        return None if has_sizes.told else empty("This service does not tell how large databases are.")

    def _table(self, found: Iterable[DatabaseInfo]) -> Node:
        groups: dict[str, list[DatabaseInfo]] = {one.name: [] for one in self.model.holdings.groups}
        for one in found:
            groups.setdefault(one.group, []).append(one)
        extra = [h("th", words, scope="col", class_=f"pm-extra {kind}") for words, kind in
                 (("Size", "pm-number"), ("Created", ""))]  # fmt: skip
        head = h("tr", h("th", "Name and URL", scope="col"), extra, h("th", "Connection", scope="col"))
        bodies = [self._group(name, inside) for name, inside in groups.items() if inside]
        return h(
            "div", h("table", h("thead", head), bodies, aria_label="Databases", class_="pm-databases"),
            class_="pm-scroll", tabindex=0,
        )  # fmt: skip

    def _group(self, name: str, databases: Iterable[DatabaseInfo]) -> Node:
        words = f"Group {name}" if name else NO_GROUP.capitalize()
        heading = h("tr", h("th", words, colspan=4, scope="rowgroup"), class_="pm-group", key="heading")
        return h("tbody", heading, [self._row(one) for one in databases], key=f"group {name}")

    def _row(self, one: DatabaseInfo) -> Node:
        model = self.model
        size, opened = sizes.words(model.sizes.sizes.get(one.name)), one.name == model.chosen
        details = h(
            "button", "Details", type="button", class_="pm-plain", aria_label=f"Details of {one.name}",
            aria_expanded=str(opened).lower(), on={"click": ["details", one.name]}, key=f"details {one.name}",
        )  # fmt: skip
        return row(
            one.name,
            h("td", h("div", one.name, class_="pm-name"), _url(one)),
            h("td", size, class_="pm-number pm-extra"),
            h("td", date(one.created), class_="pm-nowrap pm-extra"),
            h("td", h("div", self._connection(one.name), details, class_="pm-acts")),
            current=self._standing(one.name) == "current",
        )

    def _standing(self, name: str) -> str:
        """Say in a word how a database is connected; '' if it is not."""
        names = [one.name for one in self.model.connections(name)]
        if not names:
            return ""
        words = "current" if self.model.holdings.current in names else "connected"
        others = ", ".join(one for one in names if one != name)
        return f"{words} as {others}" if others else words

    def _connection(self, name: str, place: str = "") -> list[Node]:
        """Draw how a database is connected, and what can be done about that."""
        model, drawn = self.model, []
        for one in model.connections(name):
            words = f" as {one.name}" if one.name != name else ""
            current = one.name == model.holdings.current
            drawn.append(h("span", f"{'current' if current else 'connected'}{words}", key=f"is {one.name}"))
            if not current:
                drawn.append(self._act("Use", "use", one.name, place, f"Use {one.name} for %%sql cells"))
            drawn.append(self._act("Close", "close", one.name, place, f"Close the connection {one.name}"))
        return drawn or [self._act("Connect", "connect", name, place, f"Connect to {name}")]

    def _act(self, words: str, action: str, name: str, place: str, label: str) -> Node:
        full = f"{label}, in details" if place else label
        return button(words, (action, name, place), kind="" if place else "plain", label=full,
                      disabled=bool(self.model.busy))  # fmt: skip

    def _lasting_url(self, one: DatabaseInfo) -> str:
        """Give the URL where it is the same tomorrow: the embedded service has another port after each start."""
        has = self.model.holdings
        return "" if not has.known or has.session.platform.moves else one.url

    # -- the details

    def _details(self) -> Node | None:
        model = self.model
        one = next((one for one in model.holdings.databases if one.name == model.chosen), None)
        if one is None:
            return None
        facts = [("URL", _url(one)), ("Group", one.group), ("Size", sizes.words(model.sizes.sizes.get(one.name))),
                 ("Created", date(one.created))]  # fmt: skip
        return h(
            "section",
            h("div", h("h3", one.name),
              button("Close details", ("details", one.name), kind="plain"), class_="pm-head"),
            h("dl", [(h("dt", words), h("dd", fact)) for words, fact in facts if fact], class_="pm-facts"),
            h("div", self._connection(one.name, "details"), class_="pm-row pm-acts"),
            state(model) if model.place == "details" else None,
            [addressed(view.draw(), name) for name, view in self.inner.items()],
            h("h4", "Delete"),
            self._deleting(one.name),
            state(model) if model.place == "deletion" else None,
            aria_label=f"Database {one.name}", class_="pm-details", key=f"details of {one.name}", tabindex=-1,
            focus=True, on={"escape": ["details", one.name]}, live=True,
        )  # fmt: skip

    def _deleting(self, name: str) -> Node:
        model = self.model
        if not model.deleting:
            return button(f"Delete {name} ...", ("ask-to-delete",), kind="danger")
        connected = ", ".join(one.name for one in model.connections(name))
        closing = f" The connection {connected} is closed." if connected else ""
        words = f"{name} and all that is in it will be gone for good, for everybody.{closing}"
        return confirm("delete", name, words, "delete", disabled=bool(model.busy))

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


def _left_out(count: int) -> Node:
    return empty("1 more is not shown: the filter finds it." if count == 1 else
                 f"{count} more are not shown: the filter finds them.")  # fmt: skip


def _url(one: DatabaseInfo) -> Node | None:
    if not one.url:
        return None
    copy = h("button", "Copy", type="button", copy=one.url, class_="pm-plain", aria_label=f"Copy the URL of {one.name}")
    return h("div", h("code", one.url), copy, class_="pm-url", key="url")


def date(moment: float | None) -> str:
    """Give the day of a moment (Unix seconds) where we are; '' for None."""
    return "" if moment is None else time.strftime("%Y-%m-%d", time.localtime(moment))
