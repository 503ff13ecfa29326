"""The Class panel: the progress of the students of a class, and resets of their databases."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic.client.http_errors import PASS_KEY
from pipemagic.errors import PipemagicError, SessionError
from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.components import Status, Table, action
from pipemagic.notebook.panels.forms import Choice, ConfirmForm, Field, Line, button, column, row, show
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.static_html import Block
from pipemagic.notebook.panels.tasks import LatestTask
from pipemagic.teaching.classes import creation, model
from pipemagic.teaching.classes.status import (
    ANSWER_HEADERS,
    EXERCISE_HEADERS,
    HEADERS,
    Progress,
    answer_table,
    exercise_progress,
    exercise_table,
    read_progress,
    summary,
    table_of,
    with_own_token,
)
from pipemagic.text import plural, shorten

if TYPE_CHECKING:
    from pipemagic.session.organization import Organization
    from pipemagic.teaching.classes.model import Class

LONGEST_ERROR = 32
"""The most characters of an error in the table; the details show all of it."""

NO_CLASS = "No classes on this machine yet: create one with `pipemagic class create ROSTER.csv --group GROUP`."

COLUMNS = [
    *({"title": title.capitalize(), "sortable": True} for title in HEADERS[:3]),
    *({"title": title.capitalize(), "sortable": True, "kind": "number"} for title in HEADERS[3:6]),
    {"title": HEADERS[6].capitalize(), "sortable": True, "extra": True}, {"title": ""},
]  # fmt: skip


EXERCISE_COLUMNS = [
    {"title": title.capitalize(), "kind": kind}
    for title, kind in zip(EXERCISE_HEADERS, ["", "number", "number", "number", "number"], strict=True)
]

ANSWER_COLUMNS = [
    {"title": title.capitalize(), "kind": kind}
    for title, kind in zip(ANSWER_HEADERS, ["", "number", "sql", ""], strict=True)
]


class ClassPanel(Panel):
    """Numbers of a class and of its exercises, a table of its students, and the details of one.

    Only that table and the details have names; they can be hidden, such as for a projector.
    """

    title = "Class"
    interval = 10.0

    def __init__(self, state: OrganizationState) -> None:
        self.reading = LatestTask("class", self.changed)
        super().__init__(state)
        self.tasks.append(self.reading)

    @classmethod
    def has_tab(cls) -> bool:
        """Return True if there is a class on this machine."""
        return bool(model.names())

    def reset(self) -> None:
        """Discard the data of another organization."""
        super().reset()
        self.class_: Class | None = None
        self.rows: Sequence[Progress] = ()
        self.chosen = ""
        self.hides_students = False

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
        self.none, self.about, self.numbers = Line(NO_CLASS), Line(class_="pm-faint"), Line(tag="strong")
        self.name = Field("Class", Choice(options=model.names()))
        self.name.widget.observe(lambda _: self.choose_class(), "value")
        self.reading_status = Status()
        self.details = StudentDetails(self)
        self.exercises = Table(columns=EXERCISE_COLUMNS, label="Exercises", filter_from=1000)
        self.answers = Table(columns=ANSWER_COLUMNS, label="Wrong answers", filter_from=1000)
        self.answers.empty = "No wrong answer is that of three students or more now."
        self.table = Table({"details": self.choose}, columns=COLUMNS, label="Students", stacks=True)
        self.hide_button = button("", self.toggle_students, kind="link")
        return [
            self.none, self.name, self.about, self.numbers, self.reading_status, self.status, self.exercises,
            self.answers, self.hide_button, self.details, self.table,
        ]  # fmt: skip

    def tick(self) -> None:
        """Read again until the lesson ends."""
        if self.class_ and self.class_.expires > time.time() and not self.reading.busy:
            self.read()

    def reload(self) -> None:
        """Read everything again."""
        super().reload()
        self.read()

    def update(self) -> None:
        """Update the widgets."""
        names, rows = model.names(), self.rows
        self.name.set_options(names)
        show(self.none, not names)
        show(self.name, len(names) > 1)
        self.about.set_text(_about(self.class_) if self.class_ else "")
        self.numbers.set_text(summary(rows) if rows else "")
        self.reading_status.update(self.reading)
        self.table.empty = "Loading ..." if self.reading.busy else "No students."
        self.table.show([self._row(*pair) for pair in zip(rows, table_of(rows, time.time()), strict=True)])
        exercises, is_read = exercise_progress(rows), bool(names) and self.reading.error is None
        self.exercises.show([{"key": cells[0], "cells": list(cells)} for cells in exercise_table(exercises)])
        self.answers.show([{"key": str(at), "cells": list(cells)} for at, cells in enumerate(answer_table(exercises))])
        show(self.exercises, is_read and bool(exercises))
        show(self.answers, is_read and bool(exercises) and bool(self.class_ and self.class_.record))
        show(self.hide_button, is_read and bool(exercises))
        self.hide_button.description = "Show students" if self.hides_students else "Hide students"
        show(self.table, is_read and not self.hides_students)
        self.details.update()
        if self.class_ is None and names and not (self.reading.busy or self.reading.error):
            self.read()

    def _row(self, progress: Progress, texts: tuple[str, ...]) -> dict[str, Any]:
        student, connected, last, *numbers, error = texts
        details = action(
            "details", "Details", f"Details of {progress.student}", expanded=progress.database == self.chosen
        )
        return {
            "key": progress.database, "current": progress.database == self.chosen, "cells": [
                student, {"text": connected, "sort": progress.connected or 0},
                {"text": last.replace(" ", "\N{NO-BREAK SPACE}"), "sort": progress.last or 0}, *numbers,
                {"text": shorten(error, LONGEST_ERROR), "title": error}, {"actions": [details]},
            ],
        }  # fmt: skip

    def static(self) -> Sequence[Block]:
        """Return the numbers of the class, without names and times."""
        if self.class_ is None:
            return [self.reading.error.message if self.reading.error else NO_CLASS]
        return [f"{self.class_.name}: {summary(self.rows)}"]

    # -- reading

    def choose_class(self) -> None:
        """Show another class."""
        self.open_form = None
        self.reset()
        self.read()

    def read(self) -> None:
        """Read the progress of all students."""
        name, organization = self.name.widget.value, self.state.organization

        def work() -> tuple[Class, list[Progress]]:
            class_ = _load(name, organization)
            access = creation.Access(organization.api, class_, read_only=True)
            return class_, read_progress(class_, with_own_token(access))

        def apply(result: tuple[Class, list[Progress]]) -> str:
            self.class_, self.rows = result
            return ""

        if name:
            self.reading.start("Reading ..." if self.class_ is None else "", work, apply)

    # -- actions

    def toggle_students(self) -> None:
        """Hide everything with names, or show it again."""
        self.hides_students, self.chosen = not self.hides_students, ""
        self.close_form()

    def choose(self, database: str) -> None:
        """Show the details of a student, or close them."""
        self.chosen = "" if database == self.chosen else database
        self.close_form()

    def reset_database(self, name: str) -> None:
        """Reset the database of a student."""
        chosen, organization = self.name.widget.value, self.state.organization

        def work() -> str:
            with model.locked(chosen):
                class_ = _load(chosen, organization)
                [seat] = class_.find([name])
                try:
                    renewed = creation.reset(organization.api, class_, [seat])
                except PipemagicError as error:
                    if PASS_KEY not in error.hint:
                        raise
                    line = f"pipemagic class reset {name} --class {chosen} --encryption-key-env VARIABLE"
                    raise error.replace(hint=f"the panel has no key: {line}") from None
            return f"Reset the database of {class_.label(seat)}.{NEW_TOKEN if renewed else ''}"

        def apply(message: str) -> str:
            self.read()
            return message

        self.close_form()
        self.action.start(f"Resetting {name} ...", work, apply)


NEW_TOKEN = " It has a new token: run `pipemagic class create` again to write the hand-outs."


class StudentDetails(ipywidgets.VBox):
    """The exercises and the last error of the chosen student, and a form that resets the database."""

    def __init__(self, panel: ClassPanel) -> None:
        self.panel = panel
        self.heading = Line(tag="h3")
        close = button("Close details", lambda: panel.choose(panel.chosen), kind="link").add_class("pm-cancel")
        self.database, self.error = Line(class_="pm-faint"), Line()
        numbers = ({"title": title, "kind": "number"} for title in ("Points", "Of", "Attempts"))
        self.exercises = Table(
            columns=[{"title": "Exercise"}, *numbers],
            label="Exercises of the student",
            empty="No exercise has been checked.",
        )
        self.reset_button = panel.control("Reset database ...", lambda: panel.show_form(self.confirm), kind="danger")
        self.confirm = ConfirmForm(panel, "reset", "Reset database", panel.reset_database, nothing="nothing was reset")
        head = row(self.heading, close, class_="pm-head")
        super().__init__([head, self.database, self.error, self.exercises, column(self.reset_button, self.confirm)])
        self.add_class("pm-box").add_class("pm-closable")  # by Escape

    def update(self) -> None:
        """Show the chosen student."""
        panel = self.panel
        chosen = next((progress for progress in panel.rows if progress.database == panel.chosen), None)
        show(self, chosen is not None)
        if chosen is None:
            return
        self.heading.set_text(chosen.student)
        self.database.set_text(f"Database {chosen.database}")
        self.error.set_text(chosen.problem or (f"Last error: {chosen.error}" if chosen.error else ""))
        self.exercises.show([
            {"key": name, "cells": [name, f"{tries.points:g}", f"{tries.of:g}", str(tries.attempts)]}
            for name, tries in chosen.exercises.items()
        ])  # fmt: skip
        show(self.reset_button, panel.open_form is not self.confirm)
        template = panel.class_.template if panel.class_ else ""
        instead = f"the content of {template} as it is now" if template else "an empty database"
        words = f"This permanently replaces everything in the database of {chosen.student} by {instead}."
        self.confirm.update(chosen.database, words)


def _about(class_: Class) -> str:
    """Return what a class consists of."""
    source = f", copies of {class_.template}" if class_.template else ""
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(class_.expires))
    return f"{class_.name}: {plural(len(class_.seats), 'database')}{source}; tokens until {until}"


def _load(name: str, organization: Organization) -> Class:
    """Load a class, with the present addresses of its databases; raise SessionError if it is in another organization.

    The port of a local service may change.
    """
    class_, listed = model.load(name), organization.databases()
    api = organization.api
    if class_.organization != api.slug or (class_.api != api.url and not api.endpoint.loopback):
        raise SessionError(
            f"the class {name} belongs to the organization {class_.organization} at {class_.api}",
            hint=f"%pipedb organization {class_.organization} --at {class_.api}",
        )
    creation.refresh(class_, {info.name: info for info in listed.items} if listed.complete else None)
    return class_
