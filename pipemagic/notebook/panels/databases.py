"""The Databases panel: create and delete databases, connect, browse tables, manage tokens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic.client.names import longest
from pipemagic.errors import ConnectError, NotFound, ParameterError, PipemagicError, SessionError, UnsupportedError
from pipemagic.hrana.stream import Tx
from pipemagic.management_api.branches import local_time, parse_moment
from pipemagic.management_api.models import DEFAULT_GROUP
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.base import NO_RESPONSE, Panel
from pipemagic.notebook.panels.browsed_database import BrowsedDatabase
from pipemagic.notebook.panels.components import CopyText, Status, Table, action
from pipemagic.notebook.panels.forms import (
    Choice,
    ClearedText,
    ConfirmForm,
    Field,
    Form,
    Line,
    button,
    column,
    row,
    show,
)
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.static_html import Block, TableBlock
from pipemagic.notebook.panels.table_browser import TableBrowser
from pipemagic.notebook.panels.tasks import LatestTask
from pipemagic.notebook.panels.tokens import TokenForms
from pipemagic.text import format_size, word

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.management_api.models import DatabaseInfo
    from pipemagic.session import Connection
    from pipemagic.session.organization import Organization

PAUSES = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0)
"""Seconds between attempts to connect: hosted services respond with 404 for a while to a new database."""

TIMEOUT = 10.0
"""Timeout in seconds of requests for tables."""

MOMENT_NOTE = "such as 2026-11-29 14:00, local time; empty: as it is now"

SUSPENDS = (
    "This ends all statements and open transactions on {}, for all users, and nothing runs on it until it is resumed. "
    "Its data stays."
)

COLUMNS = [
    {"title": "Name and URL", "sortable": True}, {"title": "Size", "kind": "number", "sortable": True, "extra": True},
    {"title": "Created", "kind": "date", "sortable": True, "extra": True}, {"title": "Connection"}, {"title": ""},
]  # fmt: skip


class DatabasesPanel(Panel):
    """A form to create a database, the details of one, and the list by group."""

    title = "Databases"
    interval = 3.0
    """Seconds after which sizes are read again if cells have written."""

    def __init__(self, state: OrganizationState) -> None:
        self.sizes_task = LatestTask("sizes", self.changed)
        self.explore: Callable[[str, str], None] | None = None
        """Show a table of a connection in the Explore tab; None without tabs."""
        self._leaving = threading.Event()
        self._written = False
        self._listed: Sequence[DatabaseInfo] = ()
        super().__init__(state)
        state.session.written.connect(self._on_write)

    def reset(self) -> None:
        """Discard the data of another organization."""
        super().reset()
        self.created: DatabaseInfo | None = None
        self._created_was_listed = False
        self.chosen = ""
        """The database whose details are shown."""
        self.sizes: dict[str, int] = {}
        self.has_sizes = True

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
        self.location = Field("Location", Choice())
        first = "No group exists yet. A database belongs to a group, which determines its locations."
        self.first_group = Form(self, first, [self.location], f"Create group {DEFAULT_GROUP}", self.create_group)
        limit = max(0, longest("database", self.state.identity[0]))
        note = f"lower-case letters, digits, hyphens; at most {limit}"
        self.name = Field("Database name", ClearedText(), note, self._problem)
        self.group = Field("Group", Choice())
        no_list = "This service does not list groups: enter a group name."
        self.group_name = Field("Group", ipywidgets.Text(), no_list)
        fields = [self.name, self.group, self.group_name]
        self.source = Field("Branch of", Choice())
        self.moment = Field("As it was at", ClearedText(), MOMENT_NOTE, _moment_problem)
        self.source.on_choice(self._choose_source)
        fields += [self.source, self.moment]
        self.create = Form(self, "", fields, "Create database", self.create_database)
        self.current = Line(class_="pm-faint")
        self.created_name, self.created_url, self.created_note = Line(tag="strong"), CopyText(), Line()
        self.created_connect = self.control("Connect", lambda: self.connect_to(self.created), kind="primary")
        self.created_done = button("Done", self.dismiss, kind="link")
        buttons = row(self.created_note, self.created_connect, self.created_done)
        self.created_box = column(self.created_name, self.created_url, buttons, class_="pm-box")
        connections = {"connect": self.connect_database, "use": self.use, "close": self.close_connection}
        self.details = DatabaseDetails(self, connections)
        self.table = Table({**connections, "details": self.choose}, columns=COLUMNS, label="Databases", stacks=True)
        self.notes, self.sizes_status = Line(class_="pm-faint"), Status()
        return [
            self.first_group, self.create, self.status, self.current, self.created_box, self.details, self.table,
            self.notes, self.sizes_status,
        ]  # fmt: skip

    def mount(self) -> None:
        """Start following changes."""
        self._leaving.clear()
        super().mount()

    def unmount(self) -> None:
        """Stop following changes and retrying."""
        self._leaving.set()
        self._written, self._listed = False, ()
        if self.children:
            self.details.browser.model.follow(False)
        super().unmount()

    def close(self) -> None:
        """Clear a token on all pages, and close the panel."""
        if self.children:
            self.details.tokens.forget()
        super().close()

    def tick(self) -> None:
        """Read the sizes again after a committed write of a cell."""
        if self._written:
            self._written = False
            self.read_sizes()

    def reload(self) -> None:
        """Read everything again."""
        super().reload()
        self.read_sizes()
        self.details.browser.model.outdate()

    def update(self) -> None:
        """Update the widgets."""
        state = self.state
        if self._listed is not state.databases:
            self._listed = state.databases
            self.read_sizes()
        show(self.first_group, state.complete and not state.groups)
        show(self.create, bool(state.groups) or not state.complete)
        self.location.set_options(state.location_options(state.locations))
        names = [group.name for group in state.groups]
        self.group.set_options(sorted(names, key=lambda name: name != DEFAULT_GROUP))
        show(self.group, bool(state.groups))
        show(self.group_name, not state.groups)
        others = sorted(database.name for database in state.databases)
        self.source.set_options([("no database: it is empty", ""), *((name, name) for name in others)])
        show(self.source, bool(others))
        show(self.moment, bool(self.source.widget.value))
        current = state.session.current
        words = f"%%sql cells use {current}." if current else "%%sql cells have no connection."
        self.current.set_text(words if self.action.message else "")
        self.table.busy = self.busy
        self.table.empty = "Loading ..." if state.task.busy else "No databases yet."
        self.table.show([self._row(database) for database in self._by_group()])
        notes = [] if state.complete else ["This service does not list databases: only those created here are shown."]
        self.notes.set_text(" ".join(notes + ([] if self.has_sizes else ["This service does not report sizes."])))
        self.sizes_status.update(self.sizes_task)
        self._update_created()
        self.details.update()

    def _update_created(self) -> None:
        made = self.created
        show(self.created_box, made is not None)
        if made is not None:
            listed = made.name in [database.name for database in self.state.databases]
            self._created_was_listed |= listed  # the listing may lag behind
            deleted = self._created_was_listed and not listed and not self.busy
            self.created_name.set_text(made.name)
            self.created_url.text = made.url
            self.created_note.set_text(f"{made.name} was deleted elsewhere." if deleted else "")
            show(self.created_connect, not (deleted or self.state.connections(made.name)))

    def _by_group(self) -> list[DatabaseInfo]:
        order = {group.name: number for number, group in enumerate(self.state.groups)}
        return sorted(self.state.databases, key=lambda database: order.get(database.group, len(order)))

    def _row(self, database: DatabaseInfo) -> dict[str, Any]:
        details = action("details", "Details", f"Details of {database.name}", expanded=database.name == self.chosen)
        copy = {"copy": database.url, "label": "Copy", "title": f"Copy the URL of {database.name}"}
        url = {"text": database.url, "title": database.url, "class": "url", "actions": [copy]}
        status = [{"text": database.status, "class": "error"}] if database.status != "ok" else []
        status += [{"text": "protected", "class": "faint"}] if database.delete_protection else []
        name = {"text": database.name, "kind": "name", "items": [*([url] if database.url else []), *status]}
        size = self.sizes.get(database.name)
        group = f"Group {database.group}" if database.group else "In a group not reported by the service"
        return {
            "key": database.name, "group": group, "current": self.connection_state(database.name).startswith("current"),
            "cells": [
                name, {"text": "" if size is None else format_size(size), "sort": size or 0},
                format_date(database.created), self.connection_cell(database.name), {"actions": [details]},
            ],
        }  # fmt: skip

    def connection_state(self, name: str) -> str:
        """Return the connection state of a database: ``current``, ``connected``, or ''."""
        names = [connection.name for connection in self.state.connections(name)]
        if not names:
            return ""
        state = "current" if self.state.session.current in names else "connected"
        others = ", ".join(other for other in names if other != name)
        return f"{state} as {others}" if others else state

    def connection_cell(self, name: str) -> dict[str, Any]:
        """Return the table cell with the connections of a database and their actions."""
        connections = [connection.name for connection in self.state.connections(name)]
        if not connections:
            return {"actions": [action("connect", "Connect", f"Connect to {name}", key=name)]}
        return {"items": [self._connection_item(name, connection) for connection in connections]}

    def _connection_item(self, database: str, name: str) -> dict[str, Any]:
        close = action("close", "Close", f"Close the connection {name}", key=name)
        alias = f" as {name}" if name != database else ""
        if name == self.state.session.current:
            return {"text": f"current{alias}", "actions": [close]}
        use = action("use", "Use", f"Use {name} for %%sql cells", key=name)
        return {"text": f"connected{alias}", "actions": [use, close]}

    def static(self) -> Sequence[Block]:
        """Return the table of names, groups and connections, with URLs if they are stable."""
        if not self.state.databases:
            return [NO_RESPONSE if self.state.task.busy else "No databases yet."]
        databases = self.state.databases
        rows = [[database.name, database.group, database.url, self._saved_state(database)] for database in databases]
        headings = ["Name", "Group", "URL", ""]
        if self.state.organization.moves or not any(database.url for database in databases):
            headings, rows = headings[:2] + headings[3:], [row[:2] + row[3:] for row in rows]
        return [TableBlock(headings, rows)]

    def _saved_state(self, database: DatabaseInfo) -> str:
        """Return the state of a database's connection, and that of the database unless it is ok."""
        status = database.status if database.status != "ok" else ""
        return ", ".join(filter(None, [self.connection_state(database.name), status]))

    # -- sizes

    def read_sizes(self) -> None:
        """Read the sizes of the databases."""
        if not self.state.known:
            return
        organization = self.state.organization

        def work() -> dict[str, int] | None:
            try:
                used = organization.usage().databases
            except UnsupportedError:
                return None
            return {name: figures["storage_bytes"] for name, figures in used.items() if "storage_bytes" in figures}

        def apply(sizes: dict[str, int] | None) -> str:
            if self.state.shows(organization):
                self.sizes, self.has_sizes = sizes or {}, sizes is not None
            return ""

        self.sizes_task.start("", work, apply)

    def _on_write(self, connection: Connection) -> None:
        """Read sizes and tables again some time after a committed write of a cell."""
        if not self.mounted or connection.transaction is Tx.OPEN:
            return
        if connection.database_in(*self.state.identity) == self.chosen:
            self.details.browser.model.outdate()
        self._written = True

    # -- actions

    def _problem(self, name: str) -> str:
        if name in {database.name for database in self.state.databases}:
            return f"{name} already exists"
        return self.state.organization.name_problem("database", name)

    def create_database(self) -> None:
        """Create the database of the form."""
        name, group = self.name.text, (self.group.widget.value if self.state.groups else self.group_name.text) or ""
        if not group:
            raise SessionError("no group was given; every database belongs to a group")
        organization, original = self.state.organization, self.source.widget.value or None
        typed = self.moment.text if original else ""
        moment = parse_moment(typed) if typed else None

        def apply(made: DatabaseInfo) -> str:
            if self.state.shows(organization):
                self.created, self._created_was_listed = made, False
                self.name.widget.clear(name)
            return outcomes.describe_database(made, moment)

        create = partial(organization.create_database, name, group, copy_of=original, at=moment)
        options = (f" --branch-of {word(original)}" if original else "") + (f" --at {word(typed)}" if typed else "")
        self.run(f"Creating {name} ...", f"create-database {name} --group {word(group)}{options}", create, apply)

    def _choose_source(self, original: str) -> None:
        """Select the group of the database to copy, as the default."""
        groups = [database.group for database in self.state.databases if database.name == original]
        if groups and groups[0] in (group.name for group in self.state.groups):
            self.group.widget.value = groups[0]
        self.changed()

    def create_group(self) -> None:
        """Create the first group."""
        location = self.location.widget.value or ""
        create = partial(self.state.organization.create_group, DEFAULT_GROUP, location)
        command = f"create-group {DEFAULT_GROUP} --location {word(location)}"
        self.run(f"Creating group {DEFAULT_GROUP} ...", command, create, outcomes.describe_group)

    def dismiss(self) -> None:
        """Hide the database that was created last."""
        self.created = None
        self.changed()

    def connect_to(self, made: DatabaseInfo | None) -> None:
        """Connect to the database that was created last."""
        if made is not None:
            self.connect_database(made.name)

    def connect_database(self, name: str) -> None:
        """Make a database the current connection."""
        organization = self.state.organization

        def work() -> str:
            self._check_free(name, organization)
            return self._connect(name, organization).greeting

        self.run(f"Connecting to {name} ...", f"connect {word(name)}", work)

    def use(self, name: str) -> None:
        """Make another connection the current one."""
        work = partial(outcomes.use, self.state.session, name)
        self.run(f"Switching to {name} ...", f"use {word(name)}", work)

    def close_connection(self, name: str) -> None:
        """Close a connection."""
        work = partial(outcomes.close, self.state.session, name, in_panel=True)
        self.run(f"Closing {name} ...", f"close {word(name)}", work)

    def choose(self, name: str) -> None:
        """Open or close the details of a database."""
        self.chosen, self.open_form = "" if name == self.chosen else name, None
        self.changed()
        if self.chosen:
            self.details.close_details.focus()

    def suspend_database(self, name: str) -> None:
        """Suspend a database."""
        organization = self.state.organization

        def apply(message: str) -> str:
            if self.chosen == name and self.state.shows(organization):
                self.open_form = None
            return message

        work = partial(outcomes.suspend_database, organization, name)
        self.run(f"Suspending {name} ...", f"suspend-database {word(name)} --confirm", work, apply)

    def resume_database(self, name: str) -> None:
        """Resume a database."""
        work = partial(outcomes.resume_database, self.state.organization, name)
        self.run(f"Resuming {name} ...", f"resume-database {word(name)}", work)

    def protected_by(self, database: DatabaseInfo) -> str:
        """Return what protects a database from deletion: itself, its group, or nothing ('')."""
        groups = [group.name for group in self.state.groups if group.delete_protection]
        if database.group in groups:
            return f"Group {database.group}"
        return f"Database {database.name}" if database.delete_protection else ""

    def protect(self, name: str, *, on: bool) -> None:
        """Protect a database from deletion, or allow it again."""
        work = partial(outcomes.protect, self.state.organization, "database", name, on=on)
        action = "protect" if on else "unprotect"
        self.run(f"Changing the protection of {name} ...", f"{action}-database {word(name)}", work)

    def unarchive_group(self, name: str) -> None:
        """Unarchive the group of a database."""
        groups = [database.group for database in self.state.databases if database.name == name]
        for group in groups:
            work = partial(outcomes.unarchive_group, self.state.organization, group)
            self.run(f"Unarchiving group {group} ...", f"unarchive-group {word(group)}", work)

    def delete_database(self, name: str) -> None:
        """Delete a database."""
        organization = self.state.organization

        def apply(message: str) -> str:
            if self.state.shows(organization):
                if self.chosen == name:
                    self.chosen, self.open_form = "", None
                if self.created is not None and self.created.name == name:
                    self.created = None
            return message

        work = partial(outcomes.delete_database, self.state.session, organization, name)
        self.run(f"Deleting {name} ...", f"delete-database {word(name)} --confirm", work, apply)

    def _check_free(self, name: str, organization: Organization) -> None:
        """Raise SessionError if the name is taken by a connection or profile of another database."""
        session = self.state.session
        other = session.connections.get(name)
        if other is not None and other.database_in(organization.slug, organization.where) != name:
            raise SessionError(
                f"the connection {name} belongs to another database ({other.description})",
                hint=f"%pipedb close {word(name)} makes the name free",
            )
        profile = session.profiles.get(name) if other is None else None
        if profile is not None and (
            profile.database != name
            or profile.organization not in (None, organization.slug)
            or profile.at not in (None, organization.address)
        ):
            raise SessionError(f"the profile {name} belongs to another database ({profile.where})")

    def _connect(self, name: str, organization: Organization) -> Connection:
        """Connect; retry for some seconds, since a new database may not be found at first."""
        errors: tuple[type[PipemagicError], ...] = (NotFound,)
        if self.created is not None and self.created.name == name:
            errors = (NotFound, ConnectError, SessionError) if self.state.complete else (NotFound, ConnectError)
        for pause in PAUSES:
            try:
                return self.state.session.connect(name, organization=organization)
            except errors:
                self.action.report(f"{name} does not respond yet, which is normal for a new database. Retrying ...")
            if self._leaving.wait(pause):
                break
        return self.state.session.connect(name, organization=organization)


class DatabaseDetails(ipywidgets.VBox):
    """Details of the chosen database: tables, tokens, and forms that suspend or delete it."""

    def __init__(self, panel: DatabasesPanel, on_connection: Mapping[str, Callable[[str], None]]) -> None:
        self.panel = panel
        self.heading = Line(tag="h3")
        self.close_details = button("Close details", lambda: panel.choose(panel.chosen), kind="link")
        self.close_details.add_class("pm-cancel")
        self.gone, self.url, self.origin = Line(), CopyText(label="the URL"), Line(class_="pm-faint")
        columns = [{"title": title} for title in ("Group", "Size", "Created", "Connection", "Status")]
        self.facts = Table(on_connection, columns=columns, label="Details", stacks=True)
        self.browser = TableBrowser(panel.changed)
        self.explore = button("Open in Explore", self._explore)
        self.tokens = TokenForms(panel.state, panel.changed)
        self.suspend = ConfirmForm(
            panel, "suspend", "Suspend database", panel.suspend_database, nothing="nothing was suspended"
        )
        self.suspend_button = button("Suspend database ...", lambda: panel.show_form(self.suspend), kind="danger")
        self.resume = panel.control("Resume database", lambda: panel.resume_database(panel.chosen))
        self.unarchive = panel.control("Unarchive", lambda: panel.unarchive_group(panel.chosen), kind="primary")
        self.protected = Line(class_="pm-faint")
        self.protect = panel.control("Protect from deletion", lambda: panel.protect(panel.chosen, on=True))
        self.unprotect = panel.control("Allow deletion", lambda: panel.protect(panel.chosen, on=False))
        self.delete = ConfirmForm(
            panel, "delete", "Delete database", panel.delete_database, nothing="nothing was deleted"
        )
        self.delete_button = button("Delete database ...", lambda: panel.show_form(self.delete), kind="danger")
        self.there = column(
            self.unarchive, self.browser, self.explore, self.tokens, Line("Suspend", tag="h4"), self.suspend_button,
            self.suspend, self.resume, Line("Delete", tag="h4"), self.protected, self.protect, self.unprotect,
            self.delete_button, self.delete,
        )  # fmt: skip
        head = row(self.heading, self.close_details, class_="pm-head")
        super().__init__([head, self.gone, self.url, self.origin, self.facts, self.there])
        self.add_class("pm-box").add_class("pm-closable")  # by Escape
        self._shown = ""

    def update(self) -> None:
        """Show the chosen database, or that it was deleted."""
        panel, name = self.panel, self.panel.chosen
        info = next((database for database in panel.state.databases if database.name == name), None)
        show(self, bool(name))
        there = name if info is not None else ""
        if there != self._shown:
            self._shown = there
            self.tokens.select(there)
            self.browser.model.show(BrowsedDatabase(there, self._read) if there else None)
        self.browser.model.follow(bool(there))
        if not name:
            return
        self.heading.set_text(name)
        show(self.there, info is not None)
        self.gone.set_text("" if info or panel.busy else f"{name} was deleted elsewhere.")
        self.url.text = info.url if info else ""
        self.origin.set_text(_origin(info) if info and info.parent else "")
        size, connections = panel.sizes.get(name), panel.state.connections(name)
        cell = panel.connection_cell(name) if info or connections else ""
        size_words = "" if size is None else format_size(size)
        facts = [info.group, size_words, format_date(info.created)] if info else ["", "", ""]
        status = info.status if info else ""
        self.facts.busy = panel.busy
        self.facts.show([{"key": name, "cells": [*facts, cell, status]}])
        archived, suspended = status == "archived", status == "suspended"
        show(self.unarchive, archived)
        self.unarchive.description = f"Unarchive group {info.group}" if info else "Unarchive"
        if suspended and panel.open_form is self.suspend:
            panel.open_form = None
        show(self.suspend_button, not suspended and panel.open_form is not self.suspend)
        show(self.resume, status not in ("ok", "archived"))
        self.suspend.update(name, SUSPENDS.format(name))
        protected = panel.protected_by(info) if info else ""
        self.protected.set_text(f"{protected} is protected from deletion." if protected else "")
        show(self.protect, not protected)
        show(self.unprotect, info is not None and info.delete_protection)
        if protected and panel.open_form is self.delete:
            panel.open_form = None
        show(self.delete_button, not protected and panel.open_form is not self.delete)
        connected = ", ".join(connection.name for connection in connections)
        closes = f" It also closes the connection {connected}." if connected else ""
        self.delete.update(name, f"This permanently deletes {name} and all its data, for all users.{closes}")
        self.tokens.update()
        show(self.explore, panel.explore is not None and self.browser.model.page is not None and bool(connections))
        self.browser.model.uncommitted = any(connection.transaction is Tx.OPEN for connection in connections)
        self.browser.update()

    def _explore(self) -> None:
        connections, page = self.panel.state.connections(self.panel.chosen), self.browser.model.page
        if connections and page is not None and self.panel.explore is not None:
            self.panel.explore(connections[0].name, page.relation.name)

    def _read(self, query: Callable[[Database], Any], timeout: float | None = None) -> Any:
        """Run a query beside the connection of the database, or with a token for reads."""
        name, state = self.panel.chosen, self.panel.state
        connected = state.connections(name)
        if connected and not connected[0].refused:
            return connected[0].with_database(
                lambda database: _query(database.sibling(timeout=timeout or TIMEOUT, finds_again=True), query)
            )
        return _query(state.organization.open(name, timeout or TIMEOUT, only_reads=True), query)


def _query(database: Database, query: Callable[[Database], Any]) -> Any:
    with database as own:
        return query(own)


def _moment_problem(text: str) -> str:
    try:
        parse_moment(text or "2026-01-01")
    except ParameterError as error:
        return f"{error.message} such as 2026-11-29 14:00"
    return ""


def _origin(branch: DatabaseInfo) -> str:
    """Return of what a database is a branch."""
    moment = "" if branch.branched is None else f" as it was at {local_time(branch.branched)}"
    return f"It was created as a copy of {branch.parent}{moment}."


def format_date(moment: float | None) -> str:
    """Return the local date of a Unix timestamp; '' for None."""
    return "" if moment is None else time.strftime("%Y-%m-%d", time.localtime(moment))
