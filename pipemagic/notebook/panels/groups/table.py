"""The table of groups: where each is, how far its replicas are, what is in it."""

from __future__ import annotations

from collections.abc import Sequence

from pipemagic.counts import plural
from pipemagic.management_api.models import Group
from pipemagic.notebook.panels.ground.parts import button, empty, row, table
from pipemagic.notebook.panels.ground.tree import Child, Node, h
from pipemagic.notebook.panels.groups.replica_states import LIMIT, ReplicaStates
from pipemagic.notebook.panels.holdings import Holdings

NAMED = 8
"""How many names are written out where a list would be too long; the others are counted."""

FAINT = "pm-faint"


def databases_in(holdings: Holdings, group: Group) -> list[str]:
    """Give the names of a group's databases."""
    return [one.name for one in holdings.databases if one.group == group.name]


def place_of(holdings: Holdings, code: str) -> str:
    """Name a location for people."""
    name = next((one.name for one in holdings.locations if one.code == code), "")
    return f"{name} ({code})" if name and name != code else code


def listed(names: Sequence[str]) -> str:
    """Write names as text, the first few of many."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def live_table(has: Holdings, replicas: ReplicaStates) -> Node:
    """Draw the groups with all that is known, and what can be done with each."""
    headings: list[Child] = ["Group", "Primary", "Replicas", "Databases", "Version"]
    headings.append(h("th", h("span", "Actions", class_="pm-unseen"), scope="col"))
    return _table(has, headings, [_Row(has, replicas, one).draw() for one in has.groups])


def saved_table(has: Holdings) -> Node:
    """Draw what stays the same from run to run."""
    rows = [
        row(one.name, one.name, place_of(has, one.primary),
            ", ".join(place_of(has, code) for code in one.locations[1:]) or "none", _named(databases_in(has, one)))
        for one in has.groups
    ]  # fmt: skip
    return _table(has, ["Group", "Primary", "Replicas", "Databases"], rows)


def notes(has: Holdings, replicas: ReplicaStates) -> Node | None:
    """Say what is not as one might expect."""
    said = []
    if not has.complete and has.groups:
        said.append("This service does not list groups and databases: these are the ones made here.")
    if any(len(one.locations) > 1 for one in has.groups):
        said.append("The primary cannot be changed.")
        if replicas.unseen:
            said.append(f"How the replicas are may be out of date: {replicas.unseen}.")
        if not replicas.told:
            said.append("This service does not tell how far replicas are.")
        if any(len(databases_in(has, one)) > LIMIT for one in has.groups):
            said.append(f"Lag is measured on up to {LIMIT} databases per group.")
    return h("p", " ".join(said), class_=FAINT, live=True, key="notes") if said else None


def _table(has: Holdings, headings: Sequence[Child], rows: Sequence[Node]) -> Node:
    if rows:
        return h("div", table(headings, rows, label="Groups"), class_="pm-groups", key="groups")
    which = "" if has.complete else " that were made here; this service does not list others"
    return empty(f"No groups yet{which}. Databases live in groups: create one first.")


def _named(names: Sequence[str]) -> str:
    return f"{len(names)}: {listed(names)}" if names else "none"


class _Row:
    """One group of the live table."""

    def __init__(self, has: Holdings, replicas: ReplicaStates, group: Group) -> None:
        self.has, self.replicas, self.group = has, replicas, group
        self.databases = databases_in(has, group)

    def draw(self) -> Node:
        name = self.group.name
        actions = h(
            "div",
            button("Add location", ("ask", "add", name), kind="plain", label=f"Add a location to {name}"),
            button("Delete", ("ask", "delete", name), kind="plain", label=f"Delete group {name}"),
            class_="pm-actions",
        )
        return row(
            name,
            h("td", name, class_="pm-name"),
            _cell("Primary", self._place(self.group.primary), self._primary_state()),
            _cell("Replicas", self._places()),
            _cell("Databases", self._folded()),
            _cell("Version", h("span", self.group.version or "–", class_=None if self.group.version else FAINT)),
            actions,
        )

    def _primary_state(self) -> Node | None:
        told = self.group.status.get(self.group.primary, "ok")
        return None if told == "ok" else h("div", told, class_="pm-behind")

    def _places(self) -> Node:
        if len(self.group.locations) < 2:
            return h("span", "none", class_=FAINT)
        return h("ul", [self._replica(code) for code in self.group.locations[1:]], class_="pm-plain-list")

    def _replica(self, code: str) -> Node:
        name = self.group.name
        remove = button("Remove", ("ask", "remove", name, code), kind="plain", label=f"Remove {code} from {name}")
        return h("li", self._place(code), h("div", self._state(code), " ", remove), key=code)

    def _place(self, code: str) -> Node:
        """Name a location; its code is never broken."""
        name = place_of(self.has, code).removesuffix(f"({code})")
        if name == code:
            return h("div", code)
        return h("div", name, h("span", f"({code})", class_="pm-code-of"))

    def _state(self, code: str) -> Node:
        """Say how far the replicas at a location are, as far as the service tells."""
        found = self.replicas.found.get(self.group.name, {}).get(code)
        if found is not None and found.asked:
            return h("span", str(found), class_=FAINT if found.there == found.asked else "pm-behind")
        told = self.group.status.get(code, "")
        if not self.databases:
            return h("span", "paused" if told == "paused" else "nothing to copy yet", class_=FAINT)
        return h("span", "asking ..." if self.replicas.busy else told or "state not told", class_=FAINT)

    def _folded(self) -> Node:
        if not self.databases:
            return h("span", "none", class_=FAINT)
        items = h("ul", [h("li", name, key=name) for name in self.databases], class_="pm-plain-list pm-long")
        return h("details", h("summary", plural(len(self.databases), "database")), items)


def _cell(heading: str, *inside: Child) -> Node:
    """Give a cell that says its heading where the table is too narrow for columns."""
    return h("td", *inside, data_heading=heading)
