"""The Locations panel: a map and a table of locations in use and latencies; add a location to a group."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic.errors import SessionError
from pipemagic.geography import whereabouts
from pipemagic.management_api.models import ONE_LOCATION
from pipemagic.notebook.panels import worldmap
from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.components import Status, Table, action
from pipemagic.notebook.panels.forms import Choice, Field, Form, Line, row, show
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.static_html import Block, Picture, TableBlock
from pipemagic.session.latency import instances_in_use, latencies
from pipemagic.text import plural

if TYPE_CHECKING:
    from pipemagic.management_api.models import Group, Location

NONE = "\u2013"
COLUMNS = [
    {"title": "Code", "sortable": True}, {"title": "Place", "sortable": True}, {"title": "In use by"},
    {"title": "Latency", "kind": "number"}, {"title": ""},
]  # fmt: skip


class LocationsPanel(Panel):
    """The map, the table, and a form that adds a location to a group."""

    title = "Locations"

    def __init__(self, state: OrganizationState) -> None:
        super().__init__(state)
        self._stop = threading.Event()

    def reset(self) -> None:
        """Discard the data of another organization."""
        super().reset()
        self.chosen = ""
        self.measured: dict[str, str] | None = None

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
        self.map = ipywidgets.HTML()
        self.group_shown = Field("Show group", Choice())
        self.group_shown.widget.observe(lambda _: self.changed(), "value")
        self.measure_button = self.control("Measure latency", self.measure)
        self.group = Field("Add to group", Choice())
        self.group_name = Field("Add to group", ipywidgets.Text(), "This service does not list groups.")
        self.add = Form(self, "", [self.group, self.group_name], "Add", self.add_location, opens=True)
        self.progress = Status()
        self.table = Table({"choose": self.choose}, columns=COLUMNS, stacks=True, label="Locations",
                           empty="This service offers no locations.")  # fmt: skip
        self.notes = Line(class_="pm-faint")
        return [
            self.map, self.add, self.progress, self.status, row(self.group_shown, self.measure_button),
            self.table, self.notes,
        ]  # fmt: skip

    def unmount(self) -> None:
        """Stop following changes and measuring."""
        self._stop.set()
        super().unmount()

    def update(self) -> None:
        """Update the widgets."""
        self.group_shown.set_options([("all", ""), *((group.name, group.name) for group in self.state.groups)])
        self.map.value = self._map(self.group_shown.widget.value or "")
        self.table.show([self._row(location) for location in self._sorted()])
        self.notes.set_text("\n".join(self._notes()))
        self.progress.report(self.state.replicas.line, busy=bool(self.state.replicas.unfinished))
        self._update_form()

    def _update_form(self) -> None:
        others = [group for group in self.state.groups if self.chosen not in group.locations]
        self.group.set_options((f"{group.name} (primary at {group.primary})", group.name) for group in others)
        show(self.group, self.state.complete and bool(others))
        show(self.group_name, not self.state.complete)
        possible = bool(others) or not self.state.complete
        self.add.title.set_text(self.state.place(self.chosen) + ("" if possible else ": every group already has it."))
        self.add.submit.description = f"Add {self.chosen}"
        show(self.add.submit, possible)

    def _sorted(self) -> list[Location]:
        return sorted(self.state.locations, key=lambda location: not self._users(location.code))

    def _users(self, code: str) -> list[Group]:
        return [group for group in self.state.groups if code in group.locations]

    def _uses(self, code: str) -> list[str]:
        return [f"{group.name} ({'primary' if code == group.primary else 'replica'})" for group in self._users(code)]

    def _row(self, location: Location) -> dict[str, Any]:
        users, closest = self._uses(location.code), " (closest)" if location.code == self.state.closest else ""
        can = not self.state.complete or len(self._users(location.code)) < len(self.state.groups)
        can = can and not self.state.one_location
        add = [action("choose", "Add to a group", f"Add {location.code} to a group")] if can else []
        latency = "" if self.measured is None else self.measured.get(location.code, NONE)
        return {
            "key": location.code, "current": bool(users),
            "cells": [f"{location.code}{closest}", location.name, ", ".join(users) or NONE, latency, {"actions": add}],
        }  # fmt: skip

    def _map(self, shown: str = "") -> str:
        """Return the map of one group, or of all of them."""
        marks = self._marks([group for group in self.state.groups if shown in ("", group.name)])
        codes = {kind: [mark.code for mark in marks if mark.kind == kind] for kind in ("primary", "replica")}
        roles = {"primary": "primary at", "replica": "replicas at"}
        parts = [f"{words} {', '.join(codes[kind])}" for kind, words in roles.items() if codes[kind]]
        closest = f"; closest to the service is {self.state.closest}" if self.state.closest else ""
        which, free = (f"group {shown}", "not in this group") if shown else ("all groups", worldmap.NOT_IN_USE)
        used = "; ".join(parts) or "nothing is in use"
        words = f"World map of {which}: {used}{closest}. The table below lists the same data."
        return worldmap.draw(marks, words, free=free)

    def _marks(self, groups: Sequence[Group]) -> list[worldmap.Mark]:
        marks = []
        for location in self.state.locations:
            at = whereabouts(location.code)
            if at is not None:
                kind: worldmap.Kind = "replica" if any(location.code in group.locations for group in groups) else "free"
                if any(location.code == group.primary for group in groups):
                    kind = "primary"
                words = f"{self.state.place(location.code)}: {', '.join(self._uses(location.code)) or 'not in use'}"
                marks.append(worldmap.Mark(location.code, at, kind, location.code == self.state.closest, words))
        return marks

    def _notes(self) -> list[str]:
        notes = [ONE_LOCATION] if self.state.one_location else []
        if not self.state.complete:
            notes.append("This service does not list groups: only those created here are shown.")
        elif self.state.known and not self.state.groups:
            notes.append("No group exists yet, so no location is in use. Create one in the Groups panel.")
        unknown = [location.code for location in self.state.locations if whereabouts(location.code) is None]
        if unknown:
            notes.append(f"Not on the map because their coordinates are unknown: {', '.join(unknown)}.")
        return notes

    def static(self) -> Sequence[Block]:
        """Return the map and the table of all locations."""
        rows = [self._row(location)["cells"][:3] for location in self._sorted()]
        return [Picture(self._map()), TableBlock(["Code", "Place", "In use by"], rows), *self._notes()]

    # -- actions

    def choose(self, code: str) -> None:
        """Open the form for a location."""
        self.chosen = code
        self.state.replicas.drop_finished()
        self.show_form(self.add)

    def add_location(self) -> None:
        """Add the location to the group of the form."""
        group = (self.group.widget.value if self.state.complete else self.group_name.text) or ""
        if not group:
            raise SessionError("no group was given")
        self.close_form()
        self.state.replicas.add(self, group, self.chosen)

    def measure(self) -> None:
        """Measure the latency of one database at each location."""
        organization = self.state.organization
        self._stop.clear()

        def work() -> str:
            instances = instances_in_use(organization)
            medians: dict[str, str] = {}
            for latency in latencies(instances):
                medians[latency.code] = str(latency)
                self.action.report(f"Measuring: {len(medians)} of {plural(len(instances), 'location')} ...")
                if self._stop.is_set():  # a location that does not respond delays this by seconds
                    break
            if self.state.shows(organization):
                self.measured = medians
            if not medians:
                return "No location has a database to measure."
            return f"Measured {plural(len(medians), 'location')}: median of five small requests to a database at each."

        self.run("Looking for databases ...", "locations --latency", work)
