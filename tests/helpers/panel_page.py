"""Drives a panel without a browser: finds widgets by their text and acts as the page would."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ipywidgets
from waiting import PATIENCE, until

from pipemagic.notebook.panels import components
from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.forms import Field, Form
from pipemagic.notebook.panels.opening import Tabs
from pipemagic.notebook.panels.tasks import updates

CHOICES = (ipywidgets.Dropdown, ipywidgets.ToggleButtons)
INPUTS = (ipywidgets.Text, ipywidgets.Checkbox, *CHOICES)


@dataclass(frozen=True)
class TableAction:
    """A button in a table."""

    table: components.Table
    name: str
    key: str
    label: str
    more: dict[str, Any]


class PanelPage:
    """The visible content of a panel, and the actions of a user."""

    def __init__(self, panel: Panel | Tabs) -> None:
        self.panel = panel
        panel.wait()
        self._secrets: dict[components.SecretText, str] = {}
        self._watched: set[components.SecretText] = set()
        self._listen()

    # -- content

    @property
    def widgets(self) -> list[ipywidgets.Widget]:
        """The visible widgets, in order."""
        return list(visible(self.panel))

    @property
    def words(self) -> str:
        """All visible text, each item on its own line."""
        with updates:  # a page shows an update as a whole
            return "\n".join(text for widget in self.widgets for text in texts(widget) if text)

    @property
    def text(self) -> str:
        """The text for terminals."""
        return str(self.panel)

    @property
    def html(self) -> str:
        """The static HTML."""
        return self.panel.to_html()

    @property
    def held(self) -> str:
        """The state of all widgets, visible or not, and their saved and printed forms."""
        states = [f"{widget!r} {widget.get_state()}" for widget in everything(self.panel)]
        return "\n".join([self.text, self.html, self.words, *states])

    @property
    def secrets(self) -> list[str]:
        """The secrets held by the page, without those of closed widgets."""
        there = set(everything(self.panel))
        return [secret for widget, secret in self._secrets.items() if widget in there]

    def table(self, label: str) -> components.Table:
        """Return the table with a label."""
        found = [widget for widget in self.widgets if isinstance(widget, components.Table) and widget.label == label]
        assert len(found) == 1, f"{len(found)} tables {label!r} on the page\n{self.words}"
        return found[0]

    def rows(self, label: str) -> list[list[str]]:
        """Return the texts of a table's cells."""
        return [["\n".join(cell_texts(cell)) for cell in row["cells"]] for row in self.table(label).rows]

    def cells(self, label: str, first: str) -> dict[str, str]:
        """Return the texts of the row that begins with ``first``, by column title."""
        titles = [column["title"] for column in self.table(label).columns]
        found = [row for row in self.rows(label) if row[0] == first]
        assert len(found) == 1, f"{len(found)} rows {first!r} in {self.rows(label)}"
        return dict(zip(titles, found[0], strict=True))

    def field(self, label: str) -> Any:
        """Return the input with a label."""

        def found() -> list[Any]:
            return [widget for widget in self.widgets if isinstance(widget, INPUTS) and widget.description == label]

        self._until(lambda: len(found()) == 1, f"there is not one field {label!r}")
        return found()[0]

    def error_of(self, label: str) -> str:
        """Return the error of a field; '' if there is none."""
        return next(
            widget.error for widget in self.widgets if isinstance(widget, Field) and widget.widget.description == label
        )

    def options(self, label: str) -> list[Any]:
        """Return the options of a dropdown."""
        self._until(lambda: hasattr(self.field(label), "options"), f"{label!r} is not a dropdown")
        return [option[1] if isinstance(option, tuple) else option for option in self.field(label).options]

    def has_field(self, label: str) -> bool:
        """Return True if a field with a label is visible."""
        return any(isinstance(widget, INPUTS) and widget.description == label for widget in self.widgets)

    def can(self, name: str) -> bool:
        """Return True if a button with a name is visible and enabled."""
        with updates:
            return any(self._enabled(button) for button in self._named(name))

    @property
    def buttons(self) -> list[str]:
        """The names of all buttons."""
        return [_name(button) for button in self._buttons()]

    def buttons_in(self, widget: ipywidgets.Widget) -> list[str]:
        """Return the names of the buttons in a part of the page."""
        return [_name(button) for button in self._buttons(widget)]

    @property
    def alerts(self) -> list[str]:
        """The errors, each with its code and hint."""
        with updates:
            return [
                f"{widget.code}: {widget.error} {widget.hint}".removeprefix(": ").strip()
                for widget in self.widgets
                if isinstance(widget, components.Status) and widget.error and not widget.busy
            ]

    @property
    def is_busy(self) -> bool:
        """Whether any status shows running work."""
        return any(isinstance(widget, components.Status) and widget.busy for widget in self.widgets)

    def wait(self, words: str, seconds: float = PATIENCE) -> None:
        """Wait until a text is visible."""
        try:
            until(lambda: words in self.words, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"{words!r} did not appear; the page is\n{self.words}") from None

    def wait_for(self, name: str) -> None:
        """Wait until a button with a name is visible and enabled."""
        until(lambda: self.can(name), f"{name} cannot be clicked")

    # -- actions

    def click(self, name: str) -> None:
        """Click the only button, or select the tab, with a name, as soon as it is enabled."""
        self._listen()
        if isinstance(self.panel, Tabs) and name in self.panel.titles:
            self.panel.select(name)
            return
        found = self._until(lambda: self._pressable(name), f"there is not one {name!r} that can be pressed")
        if isinstance(found, TableAction):
            found.table.click(found.name, found.key)
        else:
            found.click()

    submit = click

    def press(self, widget: ipywidgets.Button) -> None:
        """Click a button as soon as it is visible and enabled."""
        self._until(lambda: widget in self.widgets and not widget.disabled, f"{_name(widget)!r} cannot be clicked")
        widget.click()

    def type(self, label: str, text: str) -> None:
        """Type into the field with a label, as soon as it is visible."""
        self._until(lambda: self.has_field(label), f"there is no field {label!r}")
        with updates:  # an update sets values, too
            self.field(label).value = text

    def choose(self, label: str, value: Any) -> None:
        """Select an option of the dropdown with a label, as soon as it exists."""
        self._until(
            lambda: self.has_field(label) and value in self.options(label), f"{value} is not among the {label!r}"
        )
        with updates:
            self.field(label).value = value

    def check(self, label: str, *, on: bool = True) -> None:
        """Set the checkbox with a label."""
        self.field(label).value = on

    def escape(self, within: ipywidgets.Widget | None = None) -> None:
        """Press Escape in a closable widget, by default in the only open form."""
        if within is None:
            (within,) = [widget for widget in self.widgets if isinstance(widget, Form) and _cancels(widget)]
        assert {"pm-form", "pm-closable"} & set(within._dom_classes)
        _cancels(within)[0].click()

    # -- inside

    def _buttons(self, within: ipywidgets.Widget | None = None) -> Iterator[ipywidgets.Button | TableAction]:
        for widget in visible(within or self.panel):
            if isinstance(widget, ipywidgets.Button):
                yield widget
            elif isinstance(widget, components.Table):
                yield from table_actions(widget)

    def _named(self, name: str) -> list[ipywidgets.Button | TableAction]:
        return [button for button in self._buttons() if name == _name(button)]

    def _pressable(self, name: str) -> ipywidgets.Button | TableAction | None:
        """Return the only button with a name if it is enabled. A page shows an update as a whole."""
        with updates:
            found = self._named(name)
            return found[0] if len(found) == 1 and self._enabled(found[0]) else None

    @staticmethod
    def _enabled(found: ipywidgets.Button | TableAction) -> bool:
        return not (found.table.busy if isinstance(found, TableAction) else found.disabled)

    def _until(self, condition: Any, failure: str) -> Any:
        try:
            return until(condition)
        except AssertionError:
            raise AssertionError(f"{failure}; there is\n{self.words}") from None

    def _listen(self) -> None:
        """Record the secrets that are sent to the page from now on, also by new widgets."""
        for widget in set(everything(self.panel)) - self._watched:
            if isinstance(widget, components.SecretText):
                self._watched.add(widget)
                widget.send = functools.partial(self._receive, widget, widget.send)

    def _receive(self, widget: components.SecretText, send: Any, content: Any, buffers: Any = None) -> None:
        self._secrets.pop(widget, None)
        if content["secret"] is not None:
            self._secrets[widget] = content["secret"]
        send(content, buffers)


def everything(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    """Yield a widget and all its descendants."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from everything(child)


def visible(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    """Yield a widget and its visible descendants."""
    if isinstance(widget, ipywidgets.DOMWidget) and widget.layout.display == "none":
        return
    yield widget
    children = getattr(widget, "children", ())
    if isinstance(widget, ipywidgets.Tab):
        children = [widget.children[widget.selected_index or 0]]
    for child in children:
        yield from visible(child)


def texts(widget: ipywidgets.Widget) -> Iterator[str]:
    """Yield the texts of a widget."""
    match widget:
        case ipywidgets.HTML():
            yield html.unescape(re.sub(r"<br>", "\n", re.sub(r"<(?!br>)[^>]*>", " ", widget.value))).strip()
        case ipywidgets.Button() | ipywidgets.Checkbox() | ipywidgets.Text():
            yield widget.description
        case ipywidgets.Dropdown() | ipywidgets.ToggleButtons():
            yield widget.description
            yield from (str(option[0] if isinstance(option, tuple) else option) for option in widget.options)
        case ipywidgets.Accordion():
            yield from widget.titles
        case components.Status():
            error = f"{widget.code}: {widget.error}".removeprefix(": ") if widget.error else ""
            yield from [widget.busy] if widget.busy else [widget.message, error, widget.hint, widget.line]
        case components.Table():
            for column in widget.columns:
                yield from (column["title"], column.get("note", ""))
                yield from (action["label"] for action in column.get("actions", ()))
            groups = []
            for row in widget.rows:
                if row.get("group") not in (None, *groups[-1:]):
                    groups.append(row["group"])
                    yield row["group"]
                for cell in row["cells"]:
                    yield from cell_texts(cell)
            if not widget.rows:
                yield widget.empty
        case components.CopyText():
            yield widget.text
        case components.LongValue():
            yield widget.value or ""


def cell_texts(cell: Any) -> Iterator[str]:
    """Yield the texts of a table cell, without its actions."""
    if not isinstance(cell, dict):
        yield str(cell)
        return
    yield from (text for text in (cell.get("text", ""), *cell.get("lines", ())) if text)
    for item in cell.get("items", ()):
        yield from cell_texts(item)


def table_actions(table: components.Table) -> Iterator[TableAction]:
    """Yield the buttons of a table, starting with its headings."""
    for column in table.columns if isinstance(table, components.Cells) else ():
        yield TableAction(table, "sort", column["key"], f"Sort by {column['title']}", column)
        yield from _actions(table, column["actions"], column["key"])
    for row in table.rows:
        for cell in row["cells"]:
            for item in [cell, *cell.get("items", ())] if isinstance(cell, dict) else ():
                yield from _actions(table, item.get("actions", ()), row["key"])


def _actions(table: components.Table, actions: Any, key: str) -> Iterator[TableAction]:
    for action in actions:
        if "name" in action:
            yield TableAction(
                table, action["name"], action.get("key", key), action.get("title", action["label"]), action
            )


def _cancels(widget: ipywidgets.Widget) -> list[ipywidgets.Button]:
    return [inner for inner in visible(widget) if "pm-cancel" in getattr(inner, "_dom_classes", ())]


def _name(found: ipywidgets.Button | TableAction) -> str:
    return found.label if isinstance(found, TableAction) else found.tooltip or found.description
