"""Widgets of panels: lines, buttons, fields, forms, and the parts of a panel that have an action and forms."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from html import escape
from typing import Any

import ipywidgets
from traitlets import TraitError, observe

from pipemagic.errors import PipemagicError, SessionError
from pipemagic.notebook.panels.components import Events, Status, ignore
from pipemagic.notebook.panels.tasks import LatestTask, updates

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
    return ipywidgets.HBox(children).add_class(class_)


def column(*children: ipywidgets.Widget, class_: str = "pm-column") -> ipywidgets.VBox:
    """Return widgets one below another."""
    return ipywidgets.VBox(children).add_class(class_)


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

    def clear(self, text: str) -> None:
        """Clear the field, unless another text was typed since."""
        if self.value.strip() == text:  # type: ignore[has-type]
            self.used = str(self.value)  # type: ignore[has-type]
            self.value = ""

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take over the state of a page, without a text that was used."""
        if self.used and sync_data.get("value") == self.used:
            self.used = ""
        else:
            super().set_state(sync_data)


class Choice(ipywidgets.Dropdown):
    """A dropdown with options that `offer` replaces while a page may select one.

    A page sends the index of the selected option, which may be an index of options that were replaced meanwhile. Before
    it, the page sends the label (see `pick`), and the label counts.
    """

    _wanted: Any = None
    _picked: str | None = None

    def offer(self, options: tuple[Any, ...], wanted: Any) -> None:
        """Replace the options, and select ``wanted``, or the first option if it is not among them."""
        self._wanted = wanted
        try:
            if self.options != options:  # type: ignore[has-type]
                self.options = options
            else:
                self._propagate_options(None)
        finally:
            self._wanted = None

    @observe("options")
    def _propagate_options(self, change: Any) -> None:
        """Select an option at once: ipywidgets would select the first one, and tell the page, before another."""
        if self._initializing_traits_:
            super()._propagate_options(change)
            return
        labels, values = zip(*self._options_full, strict=True) if self._options_full else ((), ())
        wanted = self.value if self._wanted is None else self._wanted  # type: ignore[has-type]
        with self.hold_sync():
            self._options_values = values
            self.set_trait("_options_labels", labels)
            index = values.index(wanted) if wanted in values else 0 if values else None
            if index != self.index:  # type: ignore[has-type]
                self.index = index
            elif index is not None:
                self.label, self.value = labels[index], values[index]

    def pick(self, label: str) -> None:
        """Note the label of the option that a page has selected; its index follows."""
        with updates:
            self._picked = label

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take over the choice of a page, after an update that runs."""
        with updates:
            if "index" not in sync_data:
                super().set_state(sync_data)
                return
            label, self._picked = self._picked, None
            labels, index = self._options_labels, sync_data["index"]
            if label is None or (index, label) in enumerate(labels):
                super().set_state(sync_data)
                return
            if label in labels:
                self.label = label
            self.send_state("index")


class Field(ipywidgets.VBox):
    """A widget with its label above, and a note or an error below.

    ``check`` returns what is wrong with a text, '' if nothing is; it is called during typing, and by the form.
    """

    def __init__(
        self, label: str, widget: ipywidgets.Widget, note: str = "", check: Callable[[str], str] | None = None
    ) -> None:
        self.widget = widget
        self.check = check
        self._setting = False
        self.id = f"pm-field-{next(_numbers)}"
        self.error, self._note, self._line = "", note, Line(note, "pm-faint", tag="small")
        widget.description = label
        if isinstance(widget, ipywidgets.Text):
            widget.continuous_update = False  # else fast typing would be sent after a click on a button
        super().__init__([widget, self._line])
        self.add_class("pm-field")

    @property
    def text(self) -> str:
        """The typed text, without surrounding whitespace."""
        return str(self.widget.value).strip()

    def listen(self, events: Events) -> None:
        """Check a text whenever it changes, also during typing, and get the labels that a page selects."""
        if isinstance(self.widget, Choice):
            self.add_class("pm-choice").add_class(self.id)
            events.on_chosen[self.id] = self.widget.pick
        if self.check is None:
            return
        self.add_class("pm-typed").add_class(self.id)

        def typed(text: str) -> None:
            self.widget.used = ""
            self._check(text)

        events.on_typed[self.id] = typed
        self.widget.observe(lambda change: self._check(change["new"]), "value")

    def _check(self, text: str) -> None:
        text = text.strip()
        self.explain(error=self.check(text) if text and self.check else "")

    def on_choice(self, choose: Callable[[Any], object]) -> None:
        """Call a function with each value that the user selects in a dropdown, not with those that are set here."""

        def chosen(change: Any) -> None:
            if not self._setting:
                choose(change["new"])

        self.widget.observe(chosen, "value")

    def set_options(self, options: Iterable[Any], selected: Any = None) -> None:
        """Set the options of a dropdown; select one, or keep the selected one if it is among them."""
        with updates:
            self._setting = True
            try:
                self.widget.offer(tuple(options), self.widget.value if selected is None else selected)
            finally:
                self._setting = False

    def explain(self, note: str | None = None, error: str | None = None) -> None:
        """Change the note, or the error that is shown instead; '' for none."""
        self._note = self._note if note is None else note
        self.error = self.error if error is None else error
        self._line.set_text(self.error or self._note, "pm-error" if self.error else "pm-faint")
        (self.add_class if self.error else self.remove_class)("pm-wrong")


class PanelPart(ipywidgets.VBox):
    """A panel, or a part of one: widgets with an action, whose state they show, and at most one open form."""

    def __init__(self, action: LatestTask) -> None:
        self.action = action
        super().__init__()
        self.renew()

    def renew(self) -> None:
        """Begin with another status and without forms."""
        self.status = Status()
        self.forms: list[Form] = []
        self.open_form: Form | None = None
        self.controls: list[ipywidgets.Button] = []
        """The buttons that are disabled while the action runs."""

    @property
    def busy(self) -> bool:
        """Whether the action runs."""
        return bool(self.action.busy)

    def control(self, label: str, on_click: Callable[[], object], *, kind: str = "") -> ipywidgets.Button:
        """Return a button that is disabled while the action runs."""
        self.controls.append(button(label, on_click, kind=kind))
        return self.controls[-1]

    def run(self, title: str, command: str, work: Callable[[], Any], apply: Callable[[Any], str] | None = None) -> None:
        """Run the work of a ``%pipedb`` command as the action; ``work`` or ``apply`` returns the message."""
        self.action.start(title, work, apply, line=f"%pipedb {command}")

    def show_form(self, form: Form) -> None:
        """Open a form instead of the one that is open, and focus it."""
        self.close_form()
        self.open_form = form
        self.action.changed()
        form.focus_first()

    def close_form(self) -> None:
        """Close the open form."""
        self.open_form = None
        self.action.clear()
        self.action.changed()

    def enable_controls(self) -> None:
        """Disable the buttons while the action runs, before one that ends with it is shown."""
        for control in self.controls:
            control.disabled = self.busy

    def update_forms(self) -> None:
        """Show the open form and the status of the action."""
        for form in self.forms:
            if form.opens:
                show(form, form is self.open_form)
        self.status.update(self.action)


class Form(ipywidgets.VBox):
    """Fields with a submit button (or Enter), in a part of a panel, whose status shows what is wrong.

    ``submit`` may raise an error to refuse the values. A form that ``opens`` is hidden until its part opens it, and has
    a cancel button (or Escape).
    """

    def __init__(
        self, part: PanelPart, title: str, fields: Sequence[ipywidgets.Widget], label: str,
        submit: Callable[[], object], *, opens: bool = False, kind: str = "primary",
    ) -> None:  # fmt: skip
        self.part, self.opens = part, opens
        self.title = Line(title)
        self.fields = fields
        self.events: Events | None = None  # set by the panel that contains it
        self.on_submit = submit
        self.submit = part.control(label, self._submit, kind=kind).add_class("pm-submit")
        buttons = [self.submit, button("Cancel", part.close_form).add_class("pm-cancel")] if opens else [self.submit]
        super().__init__([self.title, row(*fields, *buttons)])
        self.id = f"pm-form-{next(_numbers)}"
        self.add_class("pm-form").add_class(self.id)
        part.forms.append(self)

    def _submit(self) -> None:
        if self.opens and self.part.open_form is not self:
            return  # the second click of a double click
        for field in self.fields:
            if isinstance(field, Field) and field.check and (wrong := field.check(field.text)):
                field.explain(error=wrong)
                self.part.action.refuse(wrong)
                return
        try:
            self.on_submit()
        except PipemagicError as error:
            self.part.action.refuse(error.message, error.hint)

    def set_values(self, values: Sequence[Any]) -> None:
        """Set the fields to the values that a page sends with a click; it sends the labels of dropdowns."""
        widgets = [field.widget if isinstance(field, Field) else field for field in self.fields]
        for widget, value in zip(widgets, values, strict=False):
            match widget, value:
                case ipywidgets.Dropdown(), str():
                    with updates, suppress(TraitError):  # the option may be gone
                        widget.label = value
                case (ipywidgets.Text(), str()) | (ipywidgets.Checkbox(), bool()):
                    widget.value = value

    def focus_first(self) -> None:
        """Focus the first field, or the button of a form without fields, after a click opened the form."""
        if self.events is not None:
            self.events.focus(self)


class ConfirmForm(Form):
    """A form that opens, in which the user types a name to confirm; ``confirm`` gets the name.

    ``what`` is what the name confirms, and ``nothing`` what the form says if another name is typed.
    """

    def __init__(self, part: PanelPart, what: str, label: str, confirm: Callable[[str], object], nothing: str) -> None:
        self.what, self.nothing, self.name, self.confirm = what, nothing, "", confirm
        self.field = Field("", ipywidgets.Text())
        super().__init__(part, "", [self.field], label, self._confirm, opens=True, kind="danger")

    def _confirm(self) -> None:
        if self.field.text != self.name:
            raise SessionError(f"{self.nothing}: the typed name is not {self.name}", hint=f"type {self.name}")
        self.confirm(self.name)

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


def inside(widget: ipywidgets.Widget) -> list[ipywidgets.Widget]:
    """Return the widgets inside a widget, the innermost first."""
    return [inner for child in getattr(widget, "children", ()) for inner in (*inside(child), child)]


def close_widget(widget: ipywidgets.Widget) -> None:
    """Close a widget and those inside it, with their layouts and styles, which ipywidgets leaves open."""
    for closed in (*inside(widget), widget):
        looks = [getattr(closed, name, None) for name in ("layout", "style")]
        closed.close()
        for look in looks:
            if isinstance(look, ipywidgets.Widget):
                look.close()
