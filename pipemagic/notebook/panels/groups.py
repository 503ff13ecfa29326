"""The Groups panel: locations and replica states; create and delete groups, add and remove locations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic.management_api.models import ONE_LOCATION
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.components import Status, Table, action
from pipemagic.notebook.panels.forms import Choice, ClearedText, ConfirmForm, Field, Form, Line
from pipemagic.notebook.panels.replicas import MEASURED, NO_LAG, explain
from pipemagic.notebook.panels.static_html import Block, TableBlock
from pipemagic.notebook.panels.tokens import PlatformTokenForms
from pipemagic.text import list_names, plural, word

if TYPE_CHECKING:
    from pipemagic.management_api.models import Group

COLUMNS: list[dict[str, Any]] = [
    {"title": "Group", "sortable": True}, {"title": "Primary"}, {"title": "Replicas"}, {"title": "Databases"},
    {"title": "Version", "extra": True}, {"title": ""},
]  # fmt: skip


class GroupsPanel(Panel):
    """The table of groups, the open form, and a form that creates a group."""

    title = "Groups"

    interval = 2.0

    def reset(self) -> None:
        """Discard the data of another organization."""
        super().reset()
        self.chosen = ("", "")
        """The group, and the code of the location, of the open form."""

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
        self.table = Table(
            {"add": lambda name: self.choose(self.add, name), "delete": lambda name: self.choose(self.delete, name),
             "remove": lambda key: self.choose(self.remove, *key.split(" ")), "unarchive": self.unarchive_group,
             "protect": lambda name: self.protect(name, on=True),
             "unprotect": lambda name: self.protect(name, on=False)},
            columns=COLUMNS, label="Groups", stacks=True,
        )  # fmt: skip
        self.notes, self.outdated = Line(class_="pm-faint"), Line(class_="pm-error")
        self.place = Field("New location", Choice())
        self.add = Form(self, "", [self.place], "Add location", self.add_location, opens=True)
        self.remove = Form(self, "", [], "Remove", self.remove_location, opens=True, kind="danger")
        self.delete = ConfirmForm(
            self, "delete the group", "Delete group", self.delete_group, nothing="nothing was deleted"
        )
        self.name = Field("Group name", ClearedText(), check=self._problem)
        self.location = Field("Primary location", Choice())
        self.create = Form(self, "Create a group", [self.name, self.location], "Create group", self.create_group)
        self.progress = Status()
        self.tokens = PlatformTokenForms(self.state, self.changed)
        return [
            self.table, self.notes, self.outdated, self.add, self.remove, self.delete, self.status, self.progress,
            self.create, self.tokens,
        ]  # fmt: skip

    def close(self) -> None:
        """Clear a token on all pages, and close the panel."""
        if self.children:
            self.tokens.forget()
        super().close()

    def mount(self) -> None:
        """Start following changes and reading the replica states."""
        self.state.replicas.watch(self)
        super().mount()

    def unmount(self) -> None:
        """Stop following changes and reading the replica states."""
        self.state.replicas.unwatch(self)
        super().unmount()

    def tick(self) -> None:
        """Read the replica states again, if they may have changed."""
        self.state.replicas.check()

    def update(self) -> None:
        """Update the widgets."""
        state, replicas = self.state, self.state.replicas
        self.table.empty = self._empty
        without = "Replicas" if state.one_location else None
        self.table.columns = [column for column in COLUMNS if column["title"] != without]
        self.table.show([self._row(group) for group in state.groups])
        self.table.busy = self.busy
        self.notes.set_text(" ".join(self._notes()))
        outdated = f"The states of replicas may be out of date.\n{explain(replicas.error)}" if replicas.error else ""
        self.outdated.set_text(outdated)
        self.location.set_options(state.location_options(state.locations))
        self._update_open_form()
        self.tokens.update()
        self.progress.report(replicas.line, busy=bool(replicas.unfinished))

    def _update_open_form(self) -> None:
        name, code = self.chosen
        group = next((candidate for candidate in self.state.groups if candidate.name == name), None)
        if group is None or (self.open_form is self.remove and code not in group.locations[1:]):
            self.open_form = None
        elif self.open_form is self.add:
            count = plural(len(self.state.databases_in(name)), "database")
            self.add.title.set_text(
                f"Every database of {name} ({count} now) gets a replica at the new location, which serves reads."
            )
            free = [location for location in self.state.locations if location.code not in group.locations]
            self.place.set_options(self.state.location_options(free))
        elif self.open_form is self.remove:
            stay = ", ".join(location for location in group.locations if location != code)
            replicas = f"The replicas of {name} at {self.state.place(code)}"
            self.remove.title.set_text(f"{replicas} will be deleted; its databases stay at {stay}.")
            self.remove.submit.description = f"Remove {code}"
        elif self.open_form is self.delete:
            self.delete.update(name, self._deleted_with(name, self.state.databases_in(name)))

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
        protection = action("protect", "Protect", f"Protect group {name} from deletion")
        if group.delete_protection:
            protection = action("unprotect", "Unprotect", f"Allow the deletion of group {name}")
        add = [] if self.state.one_location else [action("add", "Add location", f"Add a location to {name}")]
        unarchive = [action("unarchive", "Unarchive", f"Unarchive group {name}")]
        actions = [
            *(unarchive if group.archived else add),
            protection,
            *([] if group.delete_protection else [action("delete", "Delete", f"Delete group {name}")]),
        ]  # fmt: skip
        states = [*(["archived"] if group.archived else []), *(["protected"] if group.delete_protection else [])]
        inside = {"text": plural(len(databases), "database"), "lines": [list_names(databases)]} if databases else "none"
        heading = {"text": name, "lines": states} if states else name
        places = [primary] if self.state.one_location else [primary, replicas]
        cells = [heading, *places, inside, group.version or "\u2013", {"actions": actions}]
        return {"key": name, "cells": cells}

    def _replica(self, group: Group, code: str) -> dict[str, Any]:
        remove = action("remove", "Remove", f"Remove {code} from {group.name}", key=f"{group.name} {code}")
        return {"text": self.state.place(code), "lines": [self._replica_state(group, code)], "actions": [remove]}

    def _replica_state(self, group: Group, code: str) -> str:
        replicas = self.state.replicas
        summary = replicas.summaries.get(group.name, {}).get(code)
        if summary is not None and summary.total:
            return str(summary)
        reported = group.status.get(code, "")
        if not self.state.databases_in(group.name):
            return "paused" if reported == "paused" else "nothing to copy yet"
        reading = group.name not in replicas.summaries and replicas.supported and replicas.error is None
        return "reading ..." if reading else reported or "state not reported"

    def _notes(self) -> list[str]:
        notes, groups = [ONE_LOCATION] if self.state.one_location else [], self.state.groups
        if not self.state.complete and groups:
            notes.append("This service does not list groups and databases: only those created here are shown.")
        if any(len(group.locations) > 1 for group in groups):
            notes.append("The primary cannot be changed.")
            if not self.state.replicas.supported:
                notes.append(NO_LAG)
            if any(len(self.state.databases_in(group.name)) > MEASURED for group in groups):
                notes.append(f"Lag is measured on up to {MEASURED} databases per group.")
        return notes

    def static(self) -> Sequence[Block]:
        """Return the locations and databases of the groups."""
        place = self.state.place
        rows = [
            (group.name, place(group.primary),
             *([] if self.state.one_location else [", ".join(map(place, group.locations[1:])) or "none"]),
             f"{len(names)}: {list_names(names)}" if (names := self.state.databases_in(group.name)) else "none")
            for group in self.state.groups
        ]  # fmt: skip
        headings = ["Group", "Primary", *([] if self.state.one_location else ["Replicas"]), "Databases"]
        return [TableBlock(headings, rows)] if rows else [self._empty]

    @property
    def _empty(self) -> str:
        if self.state.complete:
            return "No groups yet. Every database belongs to a group: create one first."
        return "No groups were created here yet. This service does not list other groups."

    # -- actions

    def choose(self, form: Form, group: str, code: str = "") -> None:
        """Open a form about a group, or about its location."""
        self.chosen = group, code
        self.state.replicas.drop_finished()
        self.show_form(form)

    def _problem(self, name: str) -> str:
        if any(group.name == name for group in self.state.groups):
            return f"{name} already exists"
        return self.state.organization.name_problem("group", name)

    def create_group(self) -> None:
        """Create the group of the form."""
        name, location = self.name.text, self.location.widget.value or ""

        def describe(made: Group) -> str:
            self.name.widget.clear(name)
            return outcomes.describe_group(made)

        create = partial(self.state.organization.create_group, name, location)
        command = f"create-group {word(name)} --location {word(location)}"
        self.run(f"Creating group {name} ...", command, create, describe)

    def add_location(self) -> None:
        """Add the location of the form."""
        self.close_form()
        self.state.replicas.add(self, self.chosen[0], self.place.widget.value or "")

    def remove_location(self) -> None:
        """Remove the location of the form."""
        (group, code), organization = self.chosen, self.state.organization

        def work() -> str:
            removed = outcomes.remove_location(organization, group, code)
            self.state.replicas.drop(organization, group, code)
            return removed

        self.close_form()
        self.run(f"Removing {code} from group {group} ...", f"remove-location {word(group)} {word(code)}", work)

    def protect(self, name: str, *, on: bool) -> None:
        """Protect a group from deletion, or allow it again."""
        work = partial(outcomes.protect, self.state.organization, "group", name, on=on)
        action = "protect" if on else "unprotect"
        self.run(f"Changing the protection of group {name} ...", f"{action}-group {word(name)}", work)

    def unarchive_group(self, name: str) -> None:
        """Unarchive a group."""
        work = partial(outcomes.unarchive_group, self.state.organization, name)
        self.run(f"Unarchiving group {name} ...", f"unarchive-group {word(name)}", work)

    def delete_group(self, name: str) -> None:
        """Delete a group and its databases."""
        organization, session = self.state.organization, self.state.session

        def work() -> str:
            deleted = outcomes.delete_group(session, organization, name)
            self.state.replicas.drop(organization, name)
            return deleted

        self.close_form()
        self.run(f"Deleting group {name} ...", f"delete-group {word(name)} --confirm", work)
