"""The organization's groups and databases: what there is, forms to make more, and connecting."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
from traitlets import Bool, List, Unicode

from pipemagic.notebook.panels.work import WorkingModel

if TYPE_CHECKING:
    from pipemagic.session import Session

INCOMPLETE = "This management API has no lists; shown is what was made here."


class PlatformModel(WorkingModel):
    """What an organization has, as plain tuples, and how to make more of it. Knows no widgets and holds no token."""

    title = Unicode()
    locations: List[Any] = List(help="(code, place)")
    groups: List[Any] = List(help="(name, locations as one text)")
    databases: List[Any] = List(help="(name, group)")
    complete = Bool(True, help="whether the lists hold everything there is")
    current = Unicode(help="the name of the connection that %%sql uses")

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def fetch(self) -> None:
        """Ask for everything anew, in the calling thread; raises what the management API raises."""
        platform = self._session.platform
        groups, databases = platform.groups(), platform.databases()
        locations = platform.locations()
        with self.hold_trait_notifications():
            self.title = f"Organization {platform.organization} ({platform.where})"
            self.locations = [(location.code, location.name) for location in locations]
            self.groups = [(group.name, ", ".join(group.locations)) for group in groups.items]
            self.databases = [(database.name, database.group) for database in databases.items]
            self.complete = groups.complete and databases.complete
            self.current = self._session.current or ""

    def refresh(self) -> None:
        """Ask for everything anew."""

        def work() -> str:
            self.fetch()
            return ""

        self.start("Asking ...", work)

    def create_group(self, name: str, location: str) -> None:
        """Create a group at a location."""

        def work() -> str:
            group = self._session.platform.create_group(name, location)
            self.fetch()
            return f"Group {group.name} is in {', '.join(group.locations)}."

        self._start_if(name, "Give the group a name.", f"Creating group {name} ...", work)

    def create_database(self, name: str, group: str) -> None:
        """Create a database in a group."""

        def work() -> str:
            database = self._session.platform.create_database(name, group)
            self.fetch()
            return f"Database {database.name} is in group {database.group}."

        self._start_if(name, "Give the database a name.", f"Creating database {name} ...", work)

    def connect(self, database: str) -> None:
        """Connect to a database and make it the current connection of %%sql."""

        def work() -> str:
            connection = self._session.connect(database)
            self.current = connection.name
            return f"Connected to {connection.name}: %%sql cells use it now."

        self._start_if(database, "There is no database yet.", f"Connecting to {database} ...", work)

    def _start_if(self, given: str, otherwise: str, what: str, work: Any) -> None:
        if given:
            self.start(what, work)
        else:
            self.message, self.error = "", otherwise

    def text(self) -> str:
        """Give the lists as text, for terminals and for notebooks opened without widgets."""
        lines = [self.title]
        for group, locations in self.groups:
            lines.append(f"  group {group} in {locations}")
            lines += [f"    database {name}" for name, owner in self.databases if owner == group]
        lines += [f"  database {name}" for name, owner in self.databases if owner not in dict(self.groups)]
        return "\n".join(lines if len(lines) > 1 else [*lines, "  no groups yet"])


STYLE = """<style>
.pipemagic-panel {border: 1px solid var(--jp-border-color2, #ccc); padding: 8px 12px; max-width: 760px}
.pipemagic-panel table {border-collapse: collapse; line-height: 1.5; margin: 4px 0 12px}
.pipemagic-panel th, .pipemagic-panel td {text-align: left; padding: 2px 16px 2px 0; vertical-align: top}
.pipemagic-panel .pipemagic-error {color: var(--jp-error-color1, #b00020); white-space: pre-wrap}
.pipemagic-panel .pipemagic-status .widget-html-content {line-height: 1.4; padding: 6px 0; white-space: normal}
.pipemagic-panel .pipemagic-note {color: var(--jp-ui-font-color2, #666)}
</style>"""

_LEFT: dict[str, Any] = {"style": {"description_width": "112px"}, "layout": {"width": "310px"}}
_MIDDLE: dict[str, Any] = {"style": {"description_width": "70px"}, "layout": {"width": "270px"}}


class PlatformPanel(widgets.VBox):  # type: ignore[misc]
    """Shows a PlatformModel and passes clicks on. Holds no data."""

    def __init__(self, model: PlatformModel) -> None:
        self.model = model
        self.title = widgets.HTML()
        self.refresh = _button("Refresh", "pipemagic-refresh")
        self.lists = _classed(widgets.HTML(), "pipemagic-lists")
        self.group_name = widgets.Text(description="Group name:", **_LEFT)
        self.location = widgets.Dropdown(description="Location:", **_MIDDLE)
        self.create_group = _button("Create group", "pipemagic-create-group")
        self.database_name = widgets.Text(description="Database name:", **_LEFT)
        self.group = widgets.Dropdown(description="Group:", **_MIDDLE)
        self.create_database = _button("Create database", "pipemagic-create-database")
        self.database = widgets.Dropdown(description="Database:", **_LEFT)
        self.connect = _button("Connect", "pipemagic-connect")
        self.status = _classed(widgets.HTML(), "pipemagic-status")
        super().__init__([
            widgets.HBox([self.title, self.refresh], layout={"justify_content": "space-between"}),
            self.lists,
            widgets.HBox([self.group_name, self.location, self.create_group]),
            widgets.HBox([self.database_name, self.group, self.create_database]),
            widgets.HBox([self.database, self.connect]),
            self.status,
        ])  # fmt: skip
        self.add_class("pipemagic-panel")
        self._listen()

    def _listen(self) -> None:
        model = self.model
        self.refresh.on_click(lambda _: model.refresh())
        self.create_group.on_click(lambda _: model.create_group(self.group_name.value.strip(), self.location.value))
        self.create_database.on_click(
            lambda _: model.create_database(self.database_name.value.strip(), self.group.value or "")
        )
        self.connect.on_click(lambda _: model.connect(self.database.value or ""))
        model.observe(lambda _: self._show_lists(), ["title", "locations", "groups", "databases", "current"])
        model.observe(lambda _: self._show_state(), ["busy", "message", "error"])
        self._show_lists()
        self._show_state()

    def _show_lists(self) -> None:
        model = self.model
        self.title.value = f"{STYLE}<b>{escape(model.title)}</b>"
        self.lists.value = _table(model)
        _offer(self.location, [(f"{code}: {place}", code) for code, place in model.locations])
        _offer(self.group, [(name, name) for name, _ in model.groups])
        _offer(self.database, [(name, name) for name, _ in model.databases])
        for field, made in ((self.group_name, model.groups), (self.database_name, model.databases)):
            if field.value.strip() in dict(made):
                field.value = ""  # ready for the next one

    def _show_state(self) -> None:
        model = self.model
        for button in (self.refresh, self.create_group, self.create_database, self.connect):
            button.disabled = bool(model.busy)
        kind, text = ("error", model.error) if model.error else ("note", model.busy or model.message)
        self.status.value = f'<span role="status" class="pipemagic-{kind}">{escape(text)}</span>'

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        if isinstance(bundle, dict):
            bundle["text/plain"] = self.model.text()
        return bundle


def _table(model: PlatformModel) -> str:
    """Draw the groups with their locations and databases; all text in it is escaped."""
    rows = []
    for group, locations in model.groups:
        mine = [name for name, owner in model.databases if owner == group]
        rows.append((escape(group), escape(locations), ", ".join(_database(name, model.current) for name in mine)))
    loose = [name for name, owner in model.databases if owner not in dict(model.groups)]
    if loose:
        rows.append(("", "", ", ".join(_database(name, model.current) for name in loose)))
    if not rows:
        return '<span class="pipemagic-note">No groups yet.</span>'
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    note = "" if model.complete else f'<div class="pipemagic-note">{INCOMPLETE}</div>'
    return f"<table><tr><th>Group</th><th>Locations</th><th>Databases</th></tr>{body}</table>{note}"


def _database(name: str, current: str) -> str:
    return f"<b>{escape(name)}</b> (current)" if name == current else escape(name)


def _offer(dropdown: widgets.Dropdown, options: list[tuple[str, str]]) -> None:
    """Change the choices; what was chosen stays chosen if it is still there, else it is the first."""
    chosen = dropdown.value
    if list(dropdown.options) != options:
        dropdown.options = options
        values = [value for _, value in options]
        dropdown.value = chosen if chosen in values else next(iter(values), None)


def _button(text: str, name: str) -> Any:
    return _classed(widgets.Button(description=text, layout={"width": "136px"}), name)


def _classed(widget: Any, name: str) -> Any:
    widget.add_class(name)
    return widget
