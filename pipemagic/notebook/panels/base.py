"""The base class of the panels: heading, organization, status, refresh, and when they follow changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

import ipywidgets

from pipemagic.errors import PipemagicError, with_hint
from pipemagic.notebook.panels.components import Events, Status
from pipemagic.notebook.panels.forms import (
    Field,
    Form,
    Line,
    PanelPart,
    button,
    close_widget,
    column,
    inside,
    row,
    show,
)
from pipemagic.notebook.panels.organization_selector import OrganizationSelector
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.static_html import Block, Displayable
from pipemagic.notebook.panels.tasks import Action, LatestTask, Ticker, updates
from pipemagic.notebook.panels.usage import OrganizationUsage

PATIENCE = 5.0
"""Seconds that the cell of a panel waits for the first data."""


class LivePanel(Displayable, PanelPart):
    """Widgets with events of their own that follow changes while they are displayed.

    Subclasses create the widgets in `fill`, which begin with ``events``, update them in `_update`, and return the
    content for saved notebooks in `sections`. ``bug`` and ``failed`` show the errors of updates and of clicks.
    """

    def __init__(self, action: LatestTask) -> None:
        self.mounted = False
        self.in_front: Callable[[], bool] = lambda: True
        super().__init__(action)
        self.tasks: list[LatestTask] = [action]
        self.add_class("pipemagic-panel")
        self.layout.overflow = "visible"

    def fill(self) -> None:
        """Create the widgets."""
        self.events = Events(self._visibility_changed)
        self.bug, self.failed = Line(class_="pm-error"), Line(class_="pm-error")

    def mount(self) -> None:
        """Start following changes: the panel is displayed, or its tab is selected."""
        if self.mounted:
            return
        if not self.children:
            self.fill()
            self.listen_to(self)
        self.mounted = True  # from now on tasks that end update the widgets
        self.start_following()
        self.changed()

    def start_following(self) -> None:
        """Subscribe to what the panel follows."""

    def unmount(self) -> None:
        """Stop following changes."""
        self.mounted = False

    def _update(self) -> None:
        """Update the widgets."""
        raise NotImplementedError

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
            line.set_text("" if error is None else with_hint(f"{error.code}: {error.message}", error.hint))
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
        for child in (*self.children, self.status):
            close_widget(child)
        super().close()
        self.layout.close()

    def listen_to(self, part: ipywidgets.Widget) -> None:
        """Handle the events of the widgets in a new part."""
        for widget in inside(part):
            if isinstance(widget, Field):
                widget.listen(self.events)
            if isinstance(widget, Form):
                widget.events = self.events
                self.events.forms[widget.id] = widget.set_values
            if hasattr(widget, "handled"):
                widget.handled = lambda error: self._explain(self.failed, error)

    def _visibility_changed(self, visible: bool) -> None:
        """Follow changes while the panel is on a page."""
        self.mount() if visible and self.in_front() else self.unmount()


class Panel(LivePanel):
    """A panel, whose widgets are created once and then updated.

    Subclasses create the widgets in `build`, update them in `update`, and return the content for saved notebooks in
    `static`; `reset` sets the data to those before anything is read, at first and before another organization is shown.
    ``in_organization`` is True if the panel needs an organization. While the panel is displayed, `tick` is called every
    ``interval`` seconds, if it is not 0.
    """

    in_organization: ClassVar[bool] = True
    interval: ClassVar[float] = 0.0

    def __init__(self, state: OrganizationState) -> None:
        self.state = state
        self._shown_for = ("", "")
        self._ticker = Ticker(f"{self.title} panel", self._tick)
        super().__init__(Action(self.title.lower(), self.changed))
        self.tasks = [state.task, self.action]
        self.reset()

    # -- defined by subclasses

    @classmethod
    def has_tab(cls) -> bool:
        """Return True if ``%pipedb panel`` shows the panel in a tab."""
        return True

    def reset(self) -> None:
        """Set the data of the organization to those before anything is read."""
        self.action.clear()

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

    def tick(self) -> None:
        """Do what is due, before an update; called in a thread of its own."""

    # -- common to all panels

    def start_following(self) -> None:
        """Follow the organization."""
        self.state.subscribe(self.changed)
        if self.interval:
            self._ticker.start(self.interval)

    def unmount(self) -> None:
        """Stop following changes."""
        self._ticker.stop()
        self.state.unsubscribe(self.changed)
        super().unmount()

    def _tick(self) -> None:
        try:
            self.tick()
        except Exception as error:  # noqa: BLE001 - shown and logged
            self._explain(self.bug, error)
        else:
            self.changed()

    def sections(self) -> Sequence[tuple[str, Sequence[Block]]]:
        """Return the title and the content of the panel."""
        return [(self.title, self.static() if self.ready else self._not_ready())]

    @property
    def ready(self) -> bool:
        """Whether there is data to show."""
        return self.state.known or not self.in_organization

    def fill(self) -> None:
        """Create the widgets."""
        super().fill()
        self.heading = Line(self.title, tag="h2")
        self.selector = OrganizationSelector(self.state, self.changed)
        self.usage_button = button("Usage", self.toggle_usage)
        self.usage: OrganizationUsage | None = None
        self.organization_tools = row(self.selector.field, self.usage_button)
        self.organization_parts = column(self.selector)
        self.body = column(*self.build())
        self.connect = button("Connect", self.state.connect, kind="primary")
        self.again = button("Try again", self.state.refresh)
        self.organization_line, self.organization_status = Line(class_="pm-faint"), Status()
        self.gate = column(self.organization_line, self.organization_status, row(self.connect, self.again))
        head = row(self.heading, row(self.organization_tools, *self.tools()), class_="pm-head")
        self.children = (self.events, head, self.organization_parts, self.bug, self.failed, self.gate, self.body)

    def _update(self) -> None:
        state = self.state
        if self.in_organization:
            self._shown_for, before = state.identity, self._shown_for
            if before != state.identity and any(before):
                self._show_another_organization()
        in_use = any(state.identity)
        show(self.organization_tools, in_use)
        show(self.organization_parts, in_use)
        if in_use:
            self.selector.update()
            if self.usage is not None:
                self.usage.update()
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
            self.enable_controls()
            self.update()
            self.update_forms()
        show(self.body, self.ready)

    def _show_another_organization(self) -> None:
        """Discard data and open forms; work that runs continues for the previous organization."""
        old = self.body
        self.reset()
        self.renew()
        self.body = column(*self.build())
        self.listen_to(self.body)
        self.children = (*self.children[:-1], self.body)
        self._discard(old)

    def _discard(self, part: ipywidgets.Widget) -> None:
        """Close a part and its widgets."""
        for widget in inside(part):
            if isinstance(widget, Field | Form):
                self.events.forget(widget.id)
        close_widget(part)

    def toggle_usage(self) -> None:
        """Show the usage of the organization below the heading, or hide it."""
        before = self.usage
        if before is None:
            self.usage = OrganizationUsage(self.state, self.changed).add_class("pm-box")
            self.listen_to(self.usage)
            self.organization_parts.children = (self.selector, self.usage)
        else:
            self.usage, self.organization_parts.children = None, (self.selector,)
            self._discard(before)
        self.usage_button.description = "Usage" if self.usage is None else "Hide usage"
        self.changed()

    def _not_ready(self) -> Sequence[Block]:
        error = self.state.task.error
        if self.state.task.busy:
            return [NO_RESPONSE]
        return [error.message] if error else [NOT_CONNECTED]


NOT_CONNECTED = (
    "No organization is in use yet; no request was sent and no service was started. Connect here or with %pipedb "
    "connect: both find or start the embedded service."
)
NO_RESPONSE = "No response had arrived when this was saved. Run the cell again."
OUTDATED = "The data below may be out of date: the organization did not respond."
