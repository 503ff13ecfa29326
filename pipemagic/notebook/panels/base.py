"""Base classes of the panels: Panel, Field and Form."""

from __future__ import annotations

import itertools
import logging
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, ClassVar

import ipywidgets
from IPython.core.getipython import get_ipython
from IPython.display import publish_display_data

from pipemagic.errors import PipemagicError
from pipemagic.notebook.panels import static_html
from pipemagic.notebook.panels.components import Events, Status, ignore
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.static_html import Block
from pipemagic.notebook.panels.tasks import LatestTask, updates

PATIENCE = 5.0
"""Seconds that the cell of a panel waits for the first data."""

IN_VSCODE = "__vsc_ipynb_file__"
"""The variable that VS Code's Jupyter extension sets in every kernel: the path of the notebook."""

WIDGET = "application/vnd.jupyter.widget-view+json"

INTERRUPTED = "KeyboardInterrupt: stopped waiting for the panel, which stays open"

_numbers = itertools.count()


def button(label: str, on_click: Callable[[], object], *, kind: str = "", tooltip: str = "") -> ipywidgets.Button:
    """Return a button; ``kind`` is primary, danger, link or ''."""
    made = ipywidgets.Button(description=label, tooltip=tooltip or None)
    made.add_class("pm-button")
    if kind:
        made.add_class(f"pm-{kind}")

    def click(_button: object) -> None:
        error: Exception | None = None
        try:
            on_click()
        except Exception as failure:  # noqa: BLE001 - the panel shows it
            error = failure
        made.handled(error)

    made.handled = ignore
    made.on_click(click)
    return made


def row(*children: ipywidgets.Widget, class_: str = "pm-row") -> ipywidgets.HBox:
    """Return widgets side by side."""
    made = ipywidgets.HBox(children)
    made.add_class(class_)
    return made


def column(*children: ipywidgets.Widget, class_: str = "pm-column") -> ipywidgets.VBox:
    """Return widgets one below another."""
    made = ipywidgets.VBox(children)
    made.add_class(class_)
    return made


class Line(ipywidgets.HTML):
    """One or more lines of text; hidden if empty."""

    def __init__(self, words: str = "", class_: str = "", tag: str = "p") -> None:
        super().__init__()
        self._tag, self._class = tag, class_
        self.set_text(words)

    def set_text(self, words: str, class_: str | None = None) -> None:
        """Change the text."""
        shown = escape(words).encode("utf-8", "replace").decode().replace("\n", "<br>")
        css_class = self._class if class_ is None else class_
        self.value = (
            f"<{self._tag}{f' class={css_class!r}' if css_class else ''}>{shown}</{self._tag}>" if words else ""
        )
        show(self, bool(words))


def show(widget: ipywidgets.Widget, visible: bool) -> None:
    """Show or hide a widget; a hidden one keeps its text."""
    widget.layout.display = None if visible else "none"


class ClearedText(ipywidgets.Text):
    """A text field that is cleared after its text was used, even if a busy kernel receives that text once more."""

    used = ""

    def clear(self) -> None:
        """Clear the field."""
        self.used = str(self.value)  # type: ignore[has-type]
        self.value = ""

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take over the state of a page, without a text that was used."""
        if self.used and sync_data.get("value") == self.used:
            self.used = ""
        else:
            super().set_state(sync_data)


class Field(ipywidgets.VBox):
    """A widget with its label above, and a note or an error below."""

    def __init__(self, label: str, widget: ipywidgets.Widget) -> None:
        self.widget = widget
        self.id = f"pm-field-{next(_numbers)}"
        self.note = Line(class_="pm-faint", tag="small")
        self.error = ""
        widget.description = label
        if isinstance(widget, ipywidgets.Text):
            widget.continuous_update = False  # else fast typing would be sent after a click on a button
        super().__init__([widget, self.note])
        self.add_class("pm-field")

    @property
    def text(self) -> str:
        """The typed text, without surrounding whitespace."""
        return str(self.widget.value).strip()

    def on_typed(self, events: Events, function: Callable[[str], None]) -> None:
        """Call a function with the text whenever it changes, also during typing."""
        self.add_class("pm-typed").add_class(self.id)

        def typed(text: str) -> None:
            self.widget.used = ""
            function(text.strip())

        events.on_typed[self.id] = typed
        self.widget.observe(lambda change: function(change["new"].strip()), "value")

    def set_options(self, options: Iterable[Any]) -> None:
        """Set the options of a dropdown; keep the selected one if it is among them."""
        options = tuple(options)
        if self.widget.options != options:
            chosen, values = (
                self.widget.value,
                [option[1] if isinstance(option, tuple) else option for option in options],
            )
            self.widget.options = options
            self.widget.value = chosen if chosen in values else next(iter(values), None)

    def explain(self, note: str = "", error: str = "") -> None:
        """Show a note or an error."""
        self.error = error
        self.note.set_text(error or note, "pm-error" if error else "pm-faint")
        (self.add_class if error else self.remove_class)("pm-wrong")


class Form(ipywidgets.VBox):
    """Fields with a submit button (or Enter) and an optional cancel button (or Escape)."""

    def __init__(
        self, title: str, fields: Sequence[ipywidgets.Widget], label: str, submit: Callable[[], object],
        *, cancel: Callable[[], object] | None = None, kind: str = "primary",
    ) -> None:  # fmt: skip
        self.title = Line(title)
        self.fields = fields
        self.events: Events | None = None  # set by the panel that contains it
        self.submit = button(label, submit, kind=kind).add_class("pm-submit")
        buttons = [self.submit] if cancel is None else [self.submit, button("Cancel", cancel).add_class("pm-cancel")]
        super().__init__([self.title, row(*fields, *buttons)])
        self.id = f"pm-form-{next(_numbers)}"
        self.add_class("pm-form").add_class(self.id)

    def set_values(self, values: Sequence[Any]) -> None:
        """Set the fields to the values that a page sends with a click; it sends the indexes of dropdowns."""
        widgets = [field.widget if isinstance(field, Field) else field for field in self.fields]
        for widget, value in zip(widgets, values, strict=False):
            match widget, value:
                case ipywidgets.Dropdown(), int() if 0 <= value < len(widget.options):
                    widget.index = value
                case (ipywidgets.Text(), str()) | (ipywidgets.Checkbox(), bool()):
                    widget.value = value

    def focus_first(self) -> None:
        """Focus the first field, or the button of a form without fields, after a click opened the form."""
        if self.events is not None:
            self.events.focus(self)


class ConfirmForm(Form):
    """A form in which the user types a name to confirm; ``confirm`` gets the name and the typed text."""

    def __init__(
        self, what: str, label: str, confirm: Callable[[str, str], object], cancel: Callable[[], object]
    ) -> None:
        self.what, self.name = what, ""
        self.field = Field("", ipywidgets.Text())
        submit = lambda: confirm(self.name, self.field.text)  # noqa: E731
        super().__init__("", [self.field], label, submit, cancel=cancel, kind="danger")

    def focus_first(self) -> None:
        """Clear and focus the field."""
        self.field.widget.value = ""
        super().focus_first()

    def update(self, name: str, words: str) -> None:
        """Let the user type this name; ``words`` describe what the action does."""
        if name != self.name:
            self.name, self.field.widget.value = name, ""
        self.title.set_text(words)
        self.field.widget.description = f"Type {name} to {self.what}"


class Displayable:
    """A widget that also has static forms: HTML for saved notebooks and text for terminals."""

    title: ClassVar[str] = ""
    model_id: str

    def sections(self) -> Sequence[tuple[str, Sequence[Block]]]:
        """Return the titles and contents for saved notebooks, identical in every run."""
        raise NotImplementedError

    def mount(self) -> None:
        """Start following changes."""
        raise NotImplementedError

    def unmount(self) -> None:
        """Stop following changes."""
        raise NotImplementedError

    def wait(self) -> None:
        """Wait for the first data, for at most `PATIENCE`."""
        raise NotImplementedError

    def __str__(self) -> str:
        self.wait()
        return self.to_text()

    def __repr__(self) -> str:
        return f"<panel {self.title}>"

    def to_text(self) -> str:
        """Return the text for terminals, from the data read so far."""
        return "\n\n".join(static_html.to_text(*section) for section in self.sections())

    def to_html(self) -> str:
        """Return the static HTML."""
        return static_html.page("".join(static_html.to_html(*section) for section in self.sections()))

    def _ipython_display_(self, **_options: Any) -> None:
        """Display the live panel at once, and the static form when the first data have arrived.

        In VS Code, where no style hides the second output, both are one output.
        """
        shell = get_ipython()
        self.mount()
        if shell is None or getattr(shell, "kernel", None) is None:
            sys.stdout.write(f"{self}\n")
            self.unmount()
            return
        view = {WIDGET: {"version_major": 2, "version_minor": 0, "model_id": self.model_id}}
        together = IN_VSCODE in shell.user_ns
        if not together:
            publish_display_data({**view, "text/plain": ""})  # type: ignore[no-untyped-call]
        try:
            self.wait()
        except KeyboardInterrupt as interrupt:
            interrupt._render_traceback_ = lambda: [INTERRUPTED]  # type: ignore[attr-defined]
            raise
        finally:
            static = {"text/html": self.to_html(), "text/plain": self.to_text()}
            publish_display_data({**(view if together else {}), **static})  # type: ignore[no-untyped-call]


class Panel(Displayable, ipywidgets.VBox):
    """A panel, whose widgets are created once and then updated.

    Subclasses create the widgets in `build`, update them in `update`, and return the content for saved notebooks in
    `static`; `reset` discards the data of an organization before another one is shown. ``in_organization`` is True if
    the panel needs an organization.
    """

    in_organization: ClassVar[bool] = True

    def __init__(self, state: OrganizationState) -> None:
        self.state = state
        self.tasks: list[LatestTask] = [state.task]
        self.mounted = False
        self.in_front: Callable[[], bool] = lambda: True
        self._shown_for = ("", "")
        super().__init__()
        self.add_class("pipemagic-panel")
        self.layout.overflow = "visible"

    # -- defined by subclasses

    @classmethod
    def has_tab(cls) -> bool:
        """Return True if ``%pipedb panel`` shows the panel in a tab."""
        return True

    def reset(self) -> None:
        """Discard the data of the organization."""

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
        raise NotImplementedError

    def update(self) -> None:
        """Update the widgets from the current data."""

    def static(self) -> Sequence[Block]:
        """Return the content for saved notebooks, identical in every run."""
        return ()

    def tools(self) -> Sequence[ipywidgets.Widget]:
        """Return the widgets beside the heading."""
        self.refresh = button("Refresh", self.reload)
        return [self.refresh]

    def reload(self) -> None:
        """Read everything again."""
        self.state.refresh()

    # -- common to all panels

    def mount(self) -> None:
        """Start following changes: the panel is displayed, or its tab is selected."""
        if self.mounted:
            return
        self.mounted = True
        if not self.children:
            self._fill()
        self.state.subscribe(self.changed)
        self.changed()

    def unmount(self) -> None:
        """Stop following changes."""
        self.state.unsubscribe(self.changed)
        self.mounted = False

    def changed(self) -> None:
        """Update the widgets while the panel is displayed; may be called from any thread."""
        with updates:
            if not self.mounted:
                return
            try:
                self._update()
                self._explain(self.bug, None)
            except Exception as error:  # noqa: BLE001 - shown and logged
                self._explain(self.bug, error)

    def _explain(self, line: Line, error: Exception | None) -> None:
        """Show the error of an update or a click."""
        before = line.value
        if error is None or isinstance(error, PipemagicError):
            line.set_text("" if error is None else f"{error.code}: {error.message}\n{error.hint}".strip())
            return
        line.set_text(f"BUG: {type(error).__name__}: {error}. The kernel's log has the traceback.")
        if line.value != before:  # repeated updates log it once
            logging.getLogger(__name__).error("a bug in the panel %s", self.title, exc_info=error)

    def wait(self) -> None:
        """Wait until no task runs, for at most `PATIENCE`."""
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0 and not all(task.wait(left) for task in self.tasks):
            pass

    def close(self) -> None:
        """Close the panel and its widgets."""
        self.unmount()
        for widget in _inside(self):
            _close(widget)
        super().close()
        self.layout.close()

    def sections(self) -> Sequence[tuple[str, Sequence[Block]]]:
        """Return the title and the content of the panel."""
        return [(self.title, self.static() if self.ready else self._not_ready())]

    @property
    def ready(self) -> bool:
        """Whether there is data to show."""
        return self.state.known or not self.in_organization

    def _fill(self) -> None:
        self.events = Events(self._visibility_changed)
        self.heading = Line(self.title, tag="h2")
        self.bug, self.failed = Line(class_="pm-error"), Line(class_="pm-error")
        self.body = column(*self.build())
        for widget in _inside(self.body):
            if isinstance(widget, Form):
                widget.events = self.events
                self.events.forms[widget.id] = widget.set_values
        self.connect = button("Connect", self.state.connect, kind="primary")
        self.again = button("Try again", self.state.refresh)
        self.organization_line, self.organization_status = Line(class_="pm-faint"), Status()
        self.gate = column(self.organization_line, self.organization_status, row(self.connect, self.again))
        head = row(self.heading, row(*self.tools()), class_="pm-head")
        self.children = (self.events, head, self.bug, self.failed, self.gate, self.body)
        for widget in _inside(self):
            if hasattr(widget, "handled"):
                widget.handled = lambda error: self._explain(self.failed, error)

    def _update(self) -> None:
        state = self.state
        if self.in_organization:
            self._shown_for, before = state.identity, self._shown_for
            if before != state.identity and any(before):
                self.reset()
                old = self.children
                self._fill()
                for widget in old:
                    close_widget(widget)
        started, task = state.session.in_organization, state.task
        offers = self.in_organization and not (state.known and not task.error)
        show(self.gate, offers)
        if offers:
            words = "" if task.line and started else OUTDATED if state.known else "" if started else NOT_CONNECTED
            self.organization_line.set_text("" if task.busy else words)
            self.organization_status.update(task)
            show(self.connect, not started)
            show(self.again, started and task.error is not None)
            self.connect.disabled = self.again.disabled = bool(task.busy)
        self.refresh.disabled = bool(task.busy)
        show(self.refresh, self.ready)
        if self.ready:
            self.update()
        show(self.body, self.ready)

    def _not_ready(self) -> Sequence[Block]:
        error = self.state.task.error
        if self.state.task.busy:
            return [NO_RESPONSE]
        return [error.message] if error else [NOT_CONNECTED]

    def _visibility_changed(self, visible: bool) -> None:
        """Follow changes while the panel is on a page."""
        self.mount() if visible and self.in_front() else self.unmount()


NOT_CONNECTED = (
    "No organization is in use yet; no request was sent and no service was started. Connect here or with %pipedb "
    "connect: both find or start the embedded service."
)
NO_RESPONSE = "No response had arrived when this was saved: run the cell again."
OUTDATED = "The data below may be out of date: the organization did not respond."


def _inside(widget: ipywidgets.Widget) -> list[ipywidgets.Widget]:
    return [inner for child in getattr(widget, "children", ()) for inner in (*_inside(child), child)]


def _looks(widget: ipywidgets.Widget) -> list[ipywidgets.Widget]:
    """Return the widgets that hold how a widget looks, which ipywidgets leaves open."""
    return [look for name in ("layout", "style") if isinstance(look := getattr(widget, name, None), ipywidgets.Widget)]


def _close(widget: ipywidgets.Widget) -> None:
    looks = _looks(widget)
    widget.close()
    for look in looks:
        look.close()


def close_widget(widget: ipywidgets.Widget) -> None:
    """Close a widget and those inside it."""
    for inner in (*_inside(widget), widget):
        _close(inner)
