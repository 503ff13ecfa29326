"""The groups: where each is and how far its replicas are; create, add and remove a location, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from traitlets import Int, List, Unicode

from pipemagic.counts import plural
from pipemagic.notebook.panels.ground.parts import button, problem, section, state
from pipemagic.notebook.panels.ground.tree import Node
from pipemagic.notebook.panels.ground.widget import Values
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.notebook.panels.groups.forms import add_form, create_form, delete_form, remove_form
from pipemagic.notebook.panels.groups.new_locations import ShowsNewLocations, new_locations_of, progress
from pipemagic.notebook.panels.groups.replica_states import ReplicaStates
from pipemagic.notebook.panels.groups.table import listed, live_table, notes, saved_table
from pipemagic.notebook.panels.holdings import Holdings
from pipemagic.session.profiles import word

if TYPE_CHECKING:
    from traitlets import HasTraits


class GroupsModel(WorkingModel):
    """What is done with groups. What there is, is in the Holdings."""

    wrong = Unicode(help="what is wrong with the name typed so far")
    made = Int(help="how many were created here; a new form for each")
    asking: List[str] = List(help="what a form is open for: (add or delete, group), (remove, group, code); [] for none")

    def __init__(self, holdings: Holdings) -> None:
        super().__init__()
        self.holdings = holdings
        self.new_locations = new_locations_of(holdings.session)
        self.replicas = ReplicaStates(holdings)
        self._shown_of = (holdings.organization, holdings.where)

    def ask(self, *what: str) -> None:
        """Open a form, or close it."""
        self.forget()
        self.new_locations.forget()
        self.asking = list(what)

    def check(self, name: str) -> None:
        """Say what is wrong with a name that is being typed."""
        self.wrong = self.problem_of(name) if name else ""

    def problem_of(self, name: str) -> str:
        """Say what is wrong with the name of a new group, '' if nothing is."""
        if any(one.name == name for one in self.holdings.groups):
            return f"{name} exists already"
        return self.holdings.platform.name_problem("group", name)

    def create(self, name: str, location: str) -> None:
        """Create a group at its primary location."""
        self.wrong = self.problem_of(name)
        if self.wrong:
            self.refuse(self.wrong)
            return
        platform = self.holdings.platform

        def work() -> str:
            made = platform.create_group(name, location)
            self.made += 1
            return f"Group {made.name} is in {', '.join(made.locations)}."

        line = f"%pipedb create-group {word(name)} --location {word(location)}"
        self._begin(f"Creating group {name} ...", work, line)

    def add(self, group: str, code: str) -> None:
        """Add a location to a group, and follow its replicas."""
        self.forget()
        if self.new_locations.add(group, code):
            self.asking = []
        else:
            self.refuse(f"{code} is being added to group {group} already", "choose another location, or watch that one")

    def remove(self, group: str, code: str) -> None:
        """Remove a location from a group."""
        platform = self.holdings.platform

        def work() -> str:
            left = platform.remove_location(group, code)
            self.new_locations.drop(group, code)
            return f"Group {group} is in {', '.join(left.locations)}."

        line = f"%pipedb remove-location {word(group)} {word(code)}"
        self._begin(f"Removing {code} from group {group} ...", work, line)

    def connections_in(self, group: str) -> list[str]:
        """Give the connections to databases of a group."""
        names = {one.name for one in self.holdings.databases if one.group == group}
        return [name for name in self.holdings.connected if name in names]

    def delete(self, name: str, typed: str) -> None:
        """Delete a group and its databases, if its name was typed."""
        if typed != name:
            self.refuse("nothing was deleted: what was typed is not the name of the group", f"type {name}")
            return
        platform = self.holdings.platform

        def work() -> str:
            session = self.holdings.session
            before = session.connections
            inside = platform.delete_group(name)
            self.new_locations.drop(name)
            connected = [one for one in before if one not in session.connections]
            with_ = f" with its {plural(len(inside), 'database')}" if inside else ""
            closed = f" Closed: {plural(len(connected), 'connection')} ({listed(connected)})." if connected else ""
            return f"Group {name} was deleted{with_}.{closed}"

        self._begin(f"Deleting group {name} ...", work, f"%pipedb delete-group {word(name)} --confirm")

    def _begin(self, what: str, work: Callable[[], str], line: str) -> None:
        """Begin a change; the form that asked for it closes."""
        self.new_locations.forget()
        if self.start(what, work, line):
            self.asking = []

    def look(self) -> None:
        """Ask for everything anew."""
        self.holdings.refresh()
        self.replicas.look()

    def follow(self) -> None:
        """Begin to follow what changes."""
        self.holdings.observe(self._moved, ["organization", "where"])
        self._moved()
        self.new_locations.follow()
        self.replicas.follow()

    def leave(self) -> None:
        """Follow nothing any more."""
        self.holdings.unobserve(self._moved, ["organization", "where"])
        self.replicas.stop()
        self.new_locations.leave()

    def _moved(self, _change: Any = None) -> None:
        """Close the form that is open: a group of the same name is another one elsewhere."""
        now = (self.holdings.organization, self.holdings.where)
        if now == self._shown_of:
            return
        self._shown_of = now
        self.forget()
        with self.hold_trait_notifications():
            self.asking, self.wrong = [], ""


class GroupsView(ShowsNewLocations):
    """The table, the form that is open, and a form to create a group."""

    title: ClassVar[str] = "Groups"

    def __init__(self, model: GroupsModel) -> None:
        self.model, self.new_locations = model, model.new_locations

    def models(self) -> tuple[HasTraits, ...]:
        """Give what is drawn."""
        return (self.model, self.model.holdings, self.model.new_locations, self.model.replicas)

    def opened(self) -> None:
        """Begin to follow the replicas."""
        self.model.follow()

    def closed(self) -> None:
        """Follow nothing any more."""
        self.model.leave()

    def draw(self) -> Node:
        """Draw the table and the forms."""
        model, has = self.model, self.model.holdings
        return section(
            self.title,
            live_table(has, model.replicas),
            notes(has, model.replicas),
            self._open_form(),
            state(model),
            progress(model.new_locations),
            problem(model.replicas),
            create_form(has, model.wrong, model.made, busy=bool(model.busy)),
            tools=button("Refresh", ("look",), label="Refresh groups and replicas"),
        )

    def saved(self) -> Node:
        """Draw where groups are, and what is in them."""
        return section(self.title, saved_table(self.model.holdings))

    def _open_form(self) -> Node | None:
        """Draw the form that is open, unless what it is about has gone meanwhile."""
        model, has = self.model, self.model.holdings
        what, name, code = [*model.asking, "", "", ""][:3]
        group = next((one for one in has.groups if one.name == name), None)
        if group is None:
            return None
        if what == "add":
            return add_form(has, group)
        if what == "remove" and code in group.locations[1:]:
            return remove_form(has, group, code, busy=bool(model.busy))
        if what == "delete":
            return delete_form(has, group, model.connections_in(name), busy=bool(model.busy))
        return None

    # -- what people do

    def on_look(self, _values: Values) -> None:
        """Ask for everything anew."""
        self.model.look()

    def on_ask(self, _values: Values, *what: str) -> None:
        """Open a form."""
        self.model.ask(*what)

    def on_cancel(self, _values: Values) -> None:
        """Close the form that is open."""
        self.model.ask()

    def on_typing(self, values: Values) -> None:
        """Look at a name that is being typed."""
        self.model.check(values["name"].strip())

    def on_create(self, values: Values) -> None:
        """Create a group."""
        self.model.create(values["name"].strip(), values["location"])

    def on_add(self, values: Values, group: str) -> None:
        """Add a location."""
        self.model.add(group, values["location"])

    def on_remove(self, _values: Values, group: str, code: str) -> None:
        """Remove a location."""
        self.model.remove(group, code)

    def on_delete(self, values: Values, name: str) -> None:
        """Delete a group."""
        self.model.delete(name, values["confirmation"].strip())
