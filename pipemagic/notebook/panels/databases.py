"""The databases: a list by group, and a form to create one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from traitlets import Int, Unicode

from pipemagic.notebook.panels.holdings import Holdings
from pipemagic.notebook.panels.parts import button, choice, empty, field, row, section, state, submit, table
from pipemagic.notebook.panels.tree import Node, h
from pipemagic.notebook.panels.widget import Values, View
from pipemagic.notebook.panels.work import WorkingModel

if TYPE_CHECKING:
    from traitlets import HasTraits


class DatabasesModel(WorkingModel):
    """What is done with databases. What there is, is in the Holdings."""

    wrong = Unicode(help="what is wrong with the name typed so far")
    made = Int(help="how many were created here; a new form for each")

    def __init__(self, holdings: Holdings) -> None:
        super().__init__()
        self.holdings = holdings

    def check(self, name: str) -> None:
        """Say what is wrong with a name that is being typed."""
        taken = {one.name for one in self.holdings.databases}
        self.wrong = f"{name} exists already" if name in taken else ""

    def create(self, name: str, group: str) -> None:
        """Create a database in a group."""

        def work() -> str:
            made = self.holdings.session.platform.create_database(name, group)
            self.made += 1
            return f"Database {made.name} is in group {made.group}."

        self.start(f"Creating {name} ...", work, f"%pipedb create-database {name} --group {group}")

    def connect(self, name: str) -> None:
        """Make a database the current connection."""

        def work() -> str:
            return self.holdings.session.connect(name).greeting

        self.start(f"Connecting to {name} ...", work, f"%pipedb connect {name}")


class DatabasesView(View):
    """The list and the form."""

    title: ClassVar[str] = "Databases"

    def __init__(self, model: DatabasesModel) -> None:
        self.model = model

    def models(self) -> tuple[HasTraits, ...]:
        """Give what is drawn."""
        return (self.model, self.model.holdings)

    def draw(self) -> Node:
        """Draw the list and the form."""
        model, has = self.model, self.model.holdings
        rows = [
            row(one.name, one.name, one.group, self._state(one.name), current=one.name == has.current)
            for one in has.databases
        ]
        return section(
            self.title,
            table(["Name", "Group", ""], rows, label="Databases") if rows else empty("No databases yet."),
            h("form", h("h3", "Create a database"),
              h("div",
                field("Database name", "name", error=model.wrong, on={"input": ["typing"]}),
                choice("Group", "group", [(one.name, one.name) for one in has.groups]),
                submit("Create database", disabled=bool(model.busy)), class_="pm-row"),
              on={"submit": ["create"]}, key=f"create {model.made}"),
            state(model),
        )  # fmt: skip

    def _state(self, name: str) -> Node:
        if name == self.model.holdings.current:
            return h("td", "current")
        return h("td", button("Connect", ("connect", name), kind="plain", label=f"Connect to {name}"))

    def on_typing(self, values: Values) -> None:
        """Look at a name that is being typed."""
        self.model.check(values["name"])

    def on_create(self, values: Values) -> None:
        """Create."""
        self.model.create(values["name"].strip(), values["group"])

    def on_connect(self, _values: Values, name: str) -> None:
        """Connect."""
        self.model.connect(name)
