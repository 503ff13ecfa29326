"""Actions on the rows that a table browser shows: profiles of columns, and export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic.explore.page_query import check_target, export_rows, filter_sql, rows_sql
from pipemagic.explore.profile import profile
from pipemagic.explore.profile_result import ColumnProfile, Profile
from pipemagic.notebook.panels.browsed_database import Request
from pipemagic.notebook.panels.forms import Field, Form, Line, PanelPart, button, row, show
from pipemagic.notebook.panels.tasks import Action, LatestTask
from pipemagic.text import column_list, escape_controls, word

if TYPE_CHECKING:
    from pipemagic.notebook.panels.table_browser import TableBrowser

TARGETS = {
    "DataFrame variable": "variable", "CSV file": "csv", "CSV file for Excel": "excel", "Parquet file": "parquet",
}  # fmt: skip
OPTIONS = {"variable": "-o {}", "csv": "--to-csv {}", "excel": "--to-csv {} --excel", "parquet": "--to-parquet {}"}
"""The option of a cell that does the same as an export."""


class ColumnProfiles(PanelPart):
    """Profiles of columns of the displayed table, as in %pipedb profile."""

    def __init__(self, browser: TableBrowser) -> None:
        super().__init__(LatestTask("profile", browser.changed))
        self.browser = browser
        self.profiles: dict[str, ColumnProfile] = {}
        self.shown: Profile | None = None
        self.where = ""
        self.outdated = False
        self.heading, self.table = Line(tag="h4"), ipywidgets.HTML()
        self.stop_button = button("Stop", self.action.stop, tooltip="Stop the profile")
        close = button("Close", self.clear, kind="link", tooltip="Close the profiles").add_class("pm-cancel")
        self.note = Line("Cells have written since these profiles were computed.", class_="pm-faint")
        head = row(self.heading, row(self.stop_button, close), class_="pm-head")
        self.children = [head, self.table, self.note, self.status]
        self.add_class("pm-box").add_class("pm-closable")  # by Escape

    def start(self, names: Sequence[str] = ()) -> None:
        """Profile some or all displayed columns of the filtered rows; keep other profiles of the same rows."""
        page, source = self.browser.page, self.browser.source
        if page is None or source is None:
            return
        relation, where = page.relation, filter_sql(page.query, page.relation)
        if where != self.where:
            self.clear()
            self.where = where
        names = names or [page_column.name for page_column in page.columns]

        def apply(result: Profile) -> str:
            self.outdated = self.outdated and len(result.columns) < len(self.profiles)
            profiles = self.profiles | {profiled.name: profiled for profiled in result.columns}
            listed = [shown.name for shown in relation.columns if shown.name in profiles]
            self.profiles = {name: profiles[name] for name in listed}
            self.shown = replace(result, columns=tuple(self.profiles.values()))
            return ""

        only = f" --where {word(where)}" if where else ""
        # It names the connection, since another one may be current when it is copied.
        line = f"%pipedb profile {word(relation.name)} --columns {column_list(names)}{only} --on {word(source.name)}"
        request = Request(source, lambda database: profile(database, relation, names, where=where))
        what = names[0] if len(names) == 1 else f"{len(names)} columns"
        request.start(self.action, f"Profiling {what} ...", apply, line)

    def clear(self) -> None:
        """Remove all profiles and stop a running one."""
        self.profiles, self.shown, self.outdated = {}, None, False
        self.action.stop("")
        self.action.clear()
        self.browser.changed()

    def outdate(self) -> None:
        """Mark the profiles as outdated after a write of a cell."""
        self.outdated = bool(self.profiles)

    def update(self) -> None:
        """Update the widgets, hidden if there is nothing to show."""
        show(self, self.browser.page is not None and bool(self.profiles or self.busy or self.action.error))
        self.heading.set_text(f"Profiles of {'the filtered' if self.where else 'all'} rows")
        show(self.table, bool(self.profiles))
        self.table.value = self.shown._repr_html_() if self.shown else ""
        show(self.note, self.outdated)
        show(self.stop_button, self.busy)
        self.update_forms()


class ExportForm(PanelPart):
    """A form that exports all rows, filtered and sorted, to a variable of the notebook or a file."""

    def __init__(self, browser: TableBrowser) -> None:
        super().__init__(Action("export", browser.changed))
        self.browser = browser
        self.to = Field("To", ipywidgets.Dropdown(options=list(TARGETS.items())))
        self.target = Field("Variable or file", ipywidgets.Text())
        self.replace = ipywidgets.Checkbox(description="Replace", indent=False)
        fields = [self.to, self.target, self.replace]
        self.form = Form(self, "", fields, "Export", self.start, opens=True)
        self.stop_button = button("Stop", self.action.stop, tooltip="Stop the export")
        self.children = [self.form, row(self.status, self.stop_button)]
        self.add_class("pm-box")

    def open_export(self) -> None:
        """Open the form, without the last target."""
        self.target.widget.value, self.replace.value = "", False
        self.show_form(self.form)

    def start(self) -> None:
        """Export to the target of the form; raise an error if it exists and must not be replaced."""
        page, source, kind, target = self.browser.page, self.browser.source, self.to.widget.value, self.target.text
        if page is None or source is None:
            return
        check_target(kind, target, self.browser.variables or {}, replace=self.replace.value)

        def apply(result: tuple[Any, str]) -> str:
            if kind == "variable" and self.browser.variables is not None:
                self.browser.variables[target] = result[0]
            self.open_form = None
            return result[1]

        # It names the connection, since another one may be current when it is copied.
        option = OPTIONS[kind].format(word(target))
        line = f"%%sql --on {word(source.name)} {option}\n{rows_sql(page.query, page.relation, limit=False)}"
        request = Request(source, lambda database: export_rows(database, page, kind, target, self.action.report))
        request.start(self.action, "Exporting ...", apply, line)

    def update(self) -> None:
        """Update the widgets, hidden if there is nothing to show."""
        page, action = self.browser.page, self.action
        show(self, page is not None and bool(self.open_form or action.busy or action.message or action.error))
        if page is not None:
            name = escape_controls(page.relation.name)
            self.form.title.set_text(f"Export all rows of {name}, as filtered and sorted")
        show(self.stop_button, self.busy)
        self.enable_controls()
        self.update_forms()
