"""The locations: a table and a map of where groups are, the way to each measured, and a location added to a group."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from traitlets import Dict, Unicode

from pipemagic.counts import plural
from pipemagic.geography import whereabouts
from pipemagic.management_api.models import Group, Location
from pipemagic.notebook.panels.ground.parts import button, choice, empty, field, row, section, state, submit, table
from pipemagic.notebook.panels.ground.tree import Child, Node, h
from pipemagic.notebook.panels.ground.widget import Values
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.notebook.panels.groups.new_locations import ShowsNewLocations, new_locations_of, progress
from pipemagic.notebook.panels.holdings import Holdings
from pipemagic.notebook.panels.locations.worldmap import Kind, Mark, world_map
from pipemagic.session.latency import addresses, latencies

if TYPE_CHECKING:
    from traitlets import HasTraits

NONE = "\u2013"


class LocationsModel(WorkingModel):
    """What is looked for and measured. Which locations and groups there are, is in the Holdings."""

    wanted = Unicode(help="what the table is filtered by")
    shown = Unicode(help="the group whose locations are marked, '' for all")
    chosen = Unicode(help="the code of the location that a form is open for, '' if none is")
    measured: Dict[str, str] = Dict(help="latencies in words, by code")

    def __init__(self, holdings: Holdings) -> None:
        super().__init__()
        self.holdings = holdings
        self.new_locations = new_locations_of(holdings.session)
        self._measured_in = ""
        self._shown_of = self._organization
        self._leaving = threading.Event()

    @property
    def marked(self) -> str:
        """The name of the group whose locations are marked, '' for all: also when the one to be shown is gone."""
        return self.shown if any(one.name == self.shown for one in self.holdings.groups) else ""

    @property
    def groups(self) -> list[Group]:
        """The groups whose locations are marked: one, or all."""
        return [one for one in self.holdings.groups if self.marked in ("", one.name)]

    def users(self, code: str) -> list[Group]:
        """Give the groups that have a location."""
        return [one for one in self.holdings.groups if code in one.locations]

    def others(self, code: str) -> list[Group]:
        """Give the groups that do not have it."""
        return [one for one in self.holdings.groups if code not in one.locations]

    def listed(self) -> list[Location]:
        """Give the locations that match the filter by code, place or group; those in use first."""
        wanted = self.wanted.strip().lower()
        found = [
            one
            for one in self.holdings.locations
            if any(wanted in text.lower() for text in (one.code, one.name, *(g.name for g in self.users(one.code))))
        ]
        return sorted(found, key=lambda one: not self.users(one.code))

    def latency(self, code: str) -> str:
        """Give what was measured for a location, an en dash where nothing could be, '' before the first time."""
        if not self.measured or self._measured_in != self._organization:
            return ""
        return self.measured.get(code, NONE)

    def choose(self, code: str) -> None:
        """Open the form for a location; '' closes it."""
        if code:
            self.new_locations.forget()
        self.chosen = code

    def add(self, group: str, code: str) -> None:
        """Add a location to a group, and follow its replicas."""
        if not group:
            self.refuse("no group was named")
        elif self.new_locations.add(group, code):
            with self.hold_trait_notifications():
                self.chosen = self.message = self.error = self.line = ""
        else:
            self.refuse(f"{code} is being added to group {group} already", "choose another group, or watch that one")

    def measure(self) -> None:
        """Measure the way to one database at each location where there is one."""
        platform = self.holdings.platform

        def work() -> str:
            places = addresses(platform)
            found: dict[str, str] = {}
            self.busy = f"Measuring {plural(len(places), 'location')} ..."
            for one in latencies(places):
                found[one.code] = str(one)
                self.busy = f"Measuring: {len(found)} of {plural(len(places), 'location')} ..."
                if self._leaving.is_set():  # locations that do not answer take seconds each
                    break
            self._measured_in, self.measured = f"{platform.organization} {platform.where}", found
            if not found:
                return "There is no database to measure the way to."
            return f"Measured {plural(len(found), 'location')}: the median of five small requests to a database there."

        self._leaving.clear()
        self.start("Looking for databases ...", work, "%pipedb locations --latency")

    def follow(self) -> None:
        """Follow what is being added."""
        self.holdings.observe(self._moved, ["organization", "where"])
        self._moved()
        self.new_locations.follow()

    def leave(self) -> None:
        """Follow no replicas and measure nothing any more."""
        self.holdings.unobserve(self._moved, ["organization", "where"])
        self.new_locations.leave()
        self._leaving.set()

    def _moved(self, _change: Any = None) -> None:
        """Close the form, and show all groups: one of the same name is another one elsewhere."""
        if self._shown_of == self._organization:
            return
        self._shown_of = self._organization
        self.forget()
        with self.hold_trait_notifications():
            self.chosen = self.shown = ""

    @property
    def _organization(self) -> str:
        return f"{self.holdings.organization} {self.holdings.where}"


class LocationsView(ShowsNewLocations):
    """The map, the table, and the form that adds a location to a group."""

    title: ClassVar[str] = "Locations"

    def __init__(self, model: LocationsModel) -> None:
        self.model, self.new_locations = model, model.new_locations

    def models(self) -> tuple[HasTraits, ...]:
        """Give what is drawn."""
        return (self.model, self.model.holdings, self.model.new_locations)

    def opened(self) -> None:
        """Follow what is being added."""
        self.model.follow()

    def closed(self) -> None:
        """Follow and measure nothing any more."""
        self.model.leave()

    def draw(self) -> Node:
        """Draw map, form and table."""
        model = self.model
        return section(
            self.title,
            self._map(),
            self._form(),
            progress(model.new_locations),
            state(model),
            self._tools(),
            self._table(),
            [h("p", note, class_="pm-faint", key=note) for note in self._notes()],
            tools=button("Refresh", ("look",), label="Refresh locations and groups",
                         disabled=bool(model.holdings.busy)),
        )  # fmt: skip

    def saved(self) -> Node:
        """Draw all locations, whatever is looked for."""
        return section(
            self.title,
            self._map(),
            self._rows(sorted(self.model.holdings.locations, key=lambda one: not self.model.users(one.code))),
            [h("p", note, class_="pm-faint") for note in self._notes()],
        )

    # -- the map

    def _map(self) -> Node:
        free = f"not in {self.model.marked}" if self.model.marked else "not in use"
        return world_map(list(self._marks()), self._map_in_words(), free=free)

    def _marks(self) -> Iterator[Mark]:
        for one in self.model.holdings.locations:
            at = whereabouts(one.code)
            if at is not None:
                here = one.code == self.model.holdings.here
                yield Mark(one.code, at, self._kind(one.code), here, self._words(one), ("choose", one.code))

    def _kind(self, code: str) -> Kind:
        if any(code == one.primary for one in self.model.groups):
            return "primary"
        return "replica" if any(code in one.locations for one in self.model.groups) else "free"

    def _words(self, location: Location) -> str:
        here = ", closest to the service" if location.code == self.model.holdings.here else ""
        used = ", ".join(self._uses(location.code)) or "not in use"
        return f"{location.name} ({location.code}){here}: {used}"

    def _uses(self, code: str) -> list[str]:
        return [f"{one.name} ({'primary' if code == one.primary else 'replica'})" for one in self.model.users(code)]

    def _map_in_words(self) -> str:
        """Say what the map shows; the table says it all."""
        named = {"primary": "primary at", "replica": "replicas at"}
        codes = {kind: [one.code for one in self._marks() if one.kind == kind] for kind in named}
        said = [f"{words} {', '.join(codes[kind])}" for kind, words in named.items() if codes[kind]]
        which = f"group {self.model.marked}" if self.model.marked else "all groups"
        here = f"; closest to the service is {self.model.holdings.here}" if self.model.holdings.here else ""
        return f"World map of {which}: {'; '.join(said) or 'nothing is in use'}{here}. The table below has the same."

    # -- the form

    def _form(self) -> Node | None:
        code = self.model.chosen
        if not code:
            return None
        location = next((one for one in self.model.holdings.locations if one.code == code), Location(code, code))
        given = self._group_field(code)
        close = button("Close" if given is None else "Cancel", ("choose", ""))
        said = h("p", h("strong", f"{location.name} ({code})"), self._why_not(code) if given is None else None)
        if given is None:
            close = Node(close.tag, {**close.attributes, "focus": True}, close.children)
            inside = h("div", close, class_="pm-row")
        else:
            add = submit(f"Add {code}")
            inside = h("div", given, add, close, class_="pm-row")
        return h(
            "form", said, inside, class_="pm-form", key=f"add {code}", live=True,
            on={"submit": ["add", code], "escape": ["choose", ""]},
        )  # fmt: skip

    def _group_field(self, code: str) -> Node | None:
        """Give the field for the group: a list, or a text where the service does not list groups."""
        if not self.model.holdings.complete:
            return field("Add to group", "group", focus=True, note="This service does not list its groups.")
        others = [(one.name, f"{one.name} (primary at {one.primary})") for one in self.model.others(code)]
        return choice("Add to group", "group", others, focus=True) if others else None

    def _why_not(self, code: str) -> str:
        if not self.model.holdings.groups:
            return f": there is no group yet. Groups makes one, or %pipedb create-group NAME --location {code}."
        return ": every group is there."

    # -- the table

    def _tools(self) -> Node:
        groups = [("", "all"), *((one.name, one.name) for one in self.model.holdings.groups)]
        return h(
            "div",
            field("Filter", "filter", placeholder="code, place or group", on={"input": ["filter"]}),
            choice("Show group", "shown", groups, on={"change": ["show"]}),
            button("Measure latency", ("measure",), disabled=bool(self.model.busy)),
            class_="pm-row", live=True, key="tools",
        )  # fmt: skip

    def _table(self) -> Node:
        found = self.model.listed()
        if found:
            return self._rows(found)
        if self.model.holdings.locations:
            return empty(f"No location matches {self.model.wanted!r}.")
        return empty("This service offers no locations.")

    def _rows(self, found: Sequence[Location]) -> Node:
        headings: list[Child] = [
            "Code", "Place", "In use by", h("th", "Latency", scope="col", live=True),
            h("th", h("span", "Actions", class_="pm-unseen"), scope="col", live=True),
        ]  # fmt: skip
        rows = [self._row(one) for one in found]
        return h("div", table(headings, rows, label="Locations"), class_="pm-locations", key="locations")

    def _row(self, one: Location) -> Node:
        users = self._uses(one.code)
        here = " (here)" if one.code == self.model.holdings.here else ""
        add = button("Add to a group", ("choose", one.code), kind="plain", label=f"Add {one.code} to a group")
        can = not self.model.holdings.complete or self.model.others(one.code)
        return row(
            one.code, h("th", one.code, here, scope="row"), one.name, ", ".join(users) or NONE,
            h("td", self.model.latency(one.code), live=True, class_="pm-number"),
            h("td", add if can else None, live=True, class_="pm-nowrap"),
            current=bool(users),
        )  # fmt: skip

    def _notes(self) -> list[str]:
        """Say what is not as one might expect."""
        has, notes = self.model.holdings, []
        if not has.complete:
            notes.append("This service does not list its groups: only those that were made here are known.")
        elif not has.groups:
            notes.append("There is no group yet, so nothing is in use.")
        unknown = [one.code for one in has.locations if whereabouts(one.code) is None]
        if unknown:
            notes.append(f"Not on the map, since it is not known where they are: {', '.join(unknown)}.")
        return notes

    # -- what people do

    def on_choose(self, _values: Values, code: str) -> None:
        """Open the form for a location, or close it."""
        self.model.choose(code)

    def on_add(self, values: Values, code: str) -> None:
        """Add the location to the group."""
        self.model.add(values.get("group", "").strip(), code)

    def on_filter(self, values: Values) -> None:
        """Show what matches."""
        self.model.wanted = values["filter"]

    def on_show(self, values: Values) -> None:
        """Mark the locations of one group."""
        self.model.shown = values["shown"]

    def on_look(self, _values: Values) -> None:
        """Ask for everything anew."""
        self.model.holdings.refresh()

    def on_measure(self, _values: Values) -> None:
        """Measure."""
        self.model.measure()
