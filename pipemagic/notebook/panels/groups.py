"""The Groups panel: locations and replica states; create and delete groups, add and remove locations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.base import (
    ClearedText,
    ConfirmForm,
    Field,
    Form,
    Line,
    Panel,
    button,
    close_widget,
    row,
    show,
)
from pipemagic.notebook.panels.components import Status, Table
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.replicas import MEASURED, NewLocation, ReplicaStates
from pipemagic.notebook.panels.static_html import Block, TableBlock
from pipemagic.notebook.panels.tasks import Action
from pipemagic.text import list_names, plural, word

if TYPE_CHECKING:
    from pipemagic.management_api.models import Group

COLUMNS = [
    {"title": "Group", "sortable": True}, {"title": "Primary"}, {"title": "Replicas"}, {"title": "Databases"},
    {"title": "Version", "extra": True}, {"title": ""},
]  # fmt: skip


class Progress(ipywidgets.VBox):
    """Locations that are being added, each with a progress bar and buttons; updated in place."""

    def __init__(self, state: OrganizationState) -> None:
        self.state = state
        self._shown: dict[tuple[str, str], _ProgressLine] = {}
        super().__init__()

    def update(self) -> None:
        """Update the widgets."""
        wanted = {(location.group, location.code): location for location in self.state.new_locations}
        if list(wanted) != list(self._shown):
            before = self._shown
            self._shown = {
                key: before.get(key) or _ProgressLine(location, self.state.drop) for key, location in wanted.items()
            }
            self.children = tuple(self._shown.values())
            for key in before.keys() - wanted.keys():
                close_widget(before[key])
        for key, line in self._shown.items():
            line.update(wanted[key])


class _ProgressLine(ipywidgets.VBox):
    def __init__(self, location: NewLocation, drop: Callable[[str, str], None]) -> None:
        self.location, self.drop = location, drop
        self.status = Status()
        which = f"{location.group} at {location.code}"
        self.bar = ipywidgets.IntProgress(tooltip=which, layout={"width": "100%"})
        self.count = Line()
        self.behind = Line(class_="pm-faint")
        self.stop = button("Stop watching", lambda: self.location.stop(), kind="link", tooltip=f"Stop watching {which}")
        self.again = button("Watch again", lambda: self.location.watch(), tooltip=f"Watch again {which}")
        self.dismiss = button("Dismiss", self._dismiss, kind="link", tooltip=f"Dismiss {which}")
        super().__init__([self.status, self.bar, row(self.count, self.stop, self.again, self.dismiss), self.behind])
        self.add_class("pm-box")

    def update(self, location: NewLocation) -> None:
        self.location = location
        busy, total, ready = bool(location.task.busy), location.total, location.ready
        copying = busy and total > 0
        self.status.update(location.task)
        self.bar.max, self.bar.value = max(1, total), ready
        show(self.bar, copying)
        words = f"{ready} of {plural(total, 'database')} {'is' if ready == 1 else 'are'} ready."
        self.count.set_text(words if copying else "")
        lines = [f"{name}: {words}" for name, words in location.behind[:3]]
        more = [f"and {len(location.behind) - 3} more"] if len(location.behind) > 3 else []
        self.behind.set_text("\n".join(lines + more) if busy else "")
        show(self.stop, copying)
        show(self.again, location.unfinished and not busy)
        show(self.dismiss, not busy)

    def _dismiss(self) -> None:
        self.drop(self.location.group, self.location.code)


class GroupsPanel(Panel):
    """The table of groups, the open form, and a form that creates a group."""

    title = "Groups"

    def __init__(self, state: OrganizationState) -> None:
        super().__init__(state)
        self.replicas = ReplicaStates(state)
        self.action = Action("groups", self.changed)
        self.tasks.append(self.action)
        self.reset()

    def reset(self) -> None:
        """Close the open form and discard the replica states of another organization."""
        self.action.clear()
        self.open_form: tuple[str, ...] = ()
        self.replicas.forget()

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
        self.table = Table(
            {"add": lambda name: self.show_form("add", name), "delete": lambda name: self.show_form("delete", name),
             "remove": lambda key: self.show_form("remove", *key.split(" "))},
            columns=COLUMNS, label="Groups", stacks=True,
        )  # fmt: skip
        self.notes, self.outdated = Line(class_="pm-faint"), Line(class_="pm-error")
        self.place = Field("New location", ipywidgets.Dropdown())
        self.add = Form("", [self.place], "Add location", self.add_location, cancel=self.cancel)
        self.remove = Form("", [], "Remove", self.remove_location, cancel=self.cancel, kind="danger")
        self.delete = ConfirmForm("delete the group", "Delete group", self.delete_group, self.cancel)
        self.name = Field("Group name", ClearedText())
        self.location = Field("Primary location", ipywidgets.Dropdown())
        self.name.on_typed(self.events, self._check)
        self.create = Form("Create a group", [self.name, self.location], "Create group", self.create_group)
        self.status, self.progress = Status(), Progress(self.state)
        return [
            self.table, self.notes, self.outdated, self.add, self.remove, self.delete, self.status, self.progress,
            self.create,
        ]  # fmt: skip

    def mount(self) -> None:
        """Start following changes and reading the replica states."""
        if not self.mounted:
            self.replicas.start()
        super().mount()

    def unmount(self) -> None:
        """Stop following changes and reading the replica states."""
        self.replicas.stop()
        super().unmount()

    def update(self) -> None:
        """Update the widgets."""
        state = self.state
        self.replicas.update()
        self.table.empty = self._empty
        self.table.show([self._row(group) for group in state.groups])
        self.table.busy = bool(self.action.busy)
        self.notes.set_text(" ".join(self._notes()))
        outdated = self.replicas.outdated
        self.outdated.set_text(f"The states of replicas may be out of date: {outdated}." if outdated else "")
        self.location.set_options(state.location_options(state.locations))
        self.create.submit.disabled = bool(self.action.busy)
        self._update_forms()
        self.status.update(self.action)
        self.progress.update()

    def _update_forms(self) -> None:
        what, name, code = [*self.open_form, "", "", ""][:3]
        group = next((candidate for candidate in self.state.groups if candidate.name == name), None)
        if group is None or (what == "remove" and code not in group.locations[1:]):
            what = ""
        for key, form in (("add", self.add), ("remove", self.remove), ("delete", self.delete)):
            show(form, what == key)
        if group is None:
            return
        databases = self.state.databases_in(name)
        if what == "add":
            count = plural(len(databases), "database")
            self.add.title.set_text(
                f"Every database of {name} ({count} now) gets a replica at the new location, which serves reads."
            )
            free = [location for location in self.state.locations if location.code not in group.locations]
            self.place.set_options(self.state.location_options(free))
        elif what == "remove":
            stay = ", ".join(location for location in group.locations if location != code)
            replicas = f"The replicas of {name} at {self.state.place(code)}"
            self.remove.title.set_text(f"{replicas} will be deleted; its databases stay at {stay}.")
            self.remove.submit.description = f"Remove {code}"
        elif what == "delete":
            self.delete.update(name, self._deleted_with(name, databases))

    def _deleted_with(self, group: str, databases: Sequence[str]) -> str:
        if not databases:
            return f"Group {group} has no databases."
        data = "its data" if len(databases) == 1 else "their data"
        words = f"{plural(len(databases), 'database')} and all {data} will be deleted: {list_names(databases)}."
        connected = [connection.name for database in databases for connection in self.state.connections(database)]
        return words + (f" Connections that will be closed: {list_names(connected)}." if connected else "")

    def _row(self, group: Group) -> dict[str, Any]:
        name, databases = group.name, self.state.databases_in(group.name)
        status = group.status.get(group.primary, "ok")
        primary = {"text": self.state.place(group.primary), "lines": [] if status == "ok" else [status]}
        items = [self._replica(group, code) for code in group.locations[1:]]
        replicas = {"text": "" if items else "none", "items": items}
        actions = [
            {"name": "add", "label": "Add location", "title": f"Add a location to {name}"},
            {"name": "delete", "label": "Delete", "title": f"Delete group {name}"},
        ]
        inside = {"text": plural(len(databases), "database"), "lines": [list_names(databases)]} if databases else "none"
        cells = [name, primary, replicas, inside, group.version or "\u2013", {"actions": actions}]
        return {"key": name, "cells": cells}

    def _replica(self, group: Group, code: str) -> dict[str, Any]:
        title = f"Remove {code} from {group.name}"
        remove = {"name": "remove", "key": f"{group.name} {code}", "label": "Remove", "title": title}
        return {"text": self.state.place(code), "lines": [self._replica_state(group, code)], "actions": [remove]}

    def _replica_state(self, group: Group, code: str) -> str:
        summary = self.replicas.summaries.get(group.name, {}).get(code)
        if summary is not None and summary.total:
            return str(summary)
        reported = group.status.get(code, "")
        if not self.state.databases_in(group.name):
            return "paused" if reported == "paused" else "nothing to copy yet"
        return "reading ..." if self.replicas.task.busy else reported or "state not reported"

    def _notes(self) -> list[str]:
        notes, groups = [], self.state.groups
        if not self.state.complete and groups:
            notes.append("This service does not list groups and databases: only those created here are shown.")
        if any(len(group.locations) > 1 for group in groups):
            notes.append("The primary cannot be changed.")
            if not self.replicas.supported:
                notes.append("This service does not report replica lag.")
            if any(len(self.state.databases_in(group.name)) > MEASURED for group in groups):
                notes.append(f"Lag is measured on up to {MEASURED} databases per group.")
        return notes

    def static(self) -> Sequence[Block]:
        """Return the locations and databases of the groups."""
        place = self.state.place
        rows = [
            (group.name, place(group.primary), ", ".join(map(place, group.locations[1:])) or "none",
             f"{len(names)}: {list_names(names)}" if (names := self.state.databases_in(group.name)) else "none")
            for group in self.state.groups
        ]  # fmt: skip
        return [TableBlock(["Group", "Primary", "Replicas", "Databases"], rows)] if rows else [self._empty]

    @property
    def _empty(self) -> str:
        if self.state.complete:
            return "No groups yet. Every database belongs to a group: create one first."
        return "No groups were created here yet. This service does not list other groups."

    # -- actions

    def show_form(self, *what: str) -> None:
        """Open a form, or close the open one."""
        self.action.clear()
        self.open_form = what
        self.changed()
        if what:
            self.state.drop_finished()
            {"add": self.add, "remove": self.remove, "delete": self.delete}[what[0]].focus_first()

    def cancel(self) -> None:
        """Close the open form."""
        self.show_form()

    def _check(self, name: str) -> None:
        self.name.explain(error=self._problem(name) if name else "")

    def _problem(self, name: str) -> str:
        if any(group.name == name for group in self.state.groups):
            return f"{name} already exists"
        return self.state.organization.name_problem("group", name)

    def create_group(self) -> None:
        """Create the group of the form."""
        name, location = self.name.text, self.location.widget.value or ""
        if wrong := self._problem(name):
            self.name.explain(error=wrong)
            self.action.refuse(wrong)
            return
        organization = self.state.organization

        def work() -> str:
            made = organization.create_group(name, location)
            if self.name.text == name:
                self.name.widget.clear()
            return outcomes.describe_group(made)

        line = f"%pipedb create-group {word(name)} --location {word(location)}"
        self.action.start(f"Creating group {name} ...", work, line=line)

    def add_location(self) -> None:
        """Add the location of the form."""
        _, group = self.open_form
        code = self.place.widget.value or ""
        if self.state.add_location(group, code):
            self.cancel()
        else:
            message = f"{code} is being added to group {group} already"
            self.action.refuse(message, "choose another location, or watch that one")

    def remove_location(self) -> None:
        """Remove the location of the form."""
        _, group, code = self.open_form
        organization = self.state.organization

        def work() -> str:
            removed = outcomes.remove_location(organization, group, code)
            self.state.drop(group, code, of=organization)
            return removed

        self.cancel()
        line = f"%pipedb remove-location {word(group)} {word(code)}"
        self.action.start(f"Removing {code} from group {group} ...", work, line=line)

    def delete_group(self, name: str, typed: str) -> None:
        """Delete a group and its databases if the typed name matches."""
        if typed != name:
            self.action.refuse("nothing was deleted: the typed name is not that of the group", f"type {name}")
            return
        organization, session = self.state.organization, self.state.session

        def work() -> str:
            deleted = outcomes.delete_group(session, organization, name)
            self.state.drop(name, of=organization)
            return deleted

        self.cancel()
        self.action.start(f"Deleting group {name} ...", work, line=f"%pipedb delete-group {word(name)} --confirm")
