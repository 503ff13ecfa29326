"""Components that ipywidgets lacks, drawn by components.js: tables, grids, task status, tokens and events.

Rows, long values and tokens are sent in messages, not in traits, so they appear in no saved notebook and no log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
from ipywidgets import DOMWidget
from traitlets import Bool, Float, Int, List, Unicode, observe

if TYPE_CHECKING:
    from pipemagic.client.secrets import Secret
    from pipemagic.notebook.panels.tasks import LatestTask

HERE = Path(__file__).parent

CODE = (HERE / "components.js").read_text("utf-8")
VERSION = hashlib.sha256(CODE.encode()).hexdigest()[:16]

# Each component has its script in a trait, so only Events, of which each panel has one, has the whole script.
LOADED = f"globalThis.pipemagicComponents?.['{VERSION}']"
LOADER = f"""\
export default {{
  async render(context) {{
    while (!{LOADED}) await new Promise((done) => setTimeout(done, 20));
    return {LOADED}.render(context);
  }},
}};
"""

Handler = Callable[[str], None]


def ignore(_error: Exception | None) -> None:
    """Ignore the outcome of a click or message."""


class Component(anywidget.AnyWidget):
    """One of the components; ``kind`` names the function of components.js that draws it."""

    _esm = LOADER  # with a path, a signal of anywidget keeps all components alive
    kind = Unicode().tag(sync=True)
    handled: Callable[[Exception | None], None] = staticmethod(ignore)
    """Called after each message with the error of its handler, or None."""

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self.on_msg(self._receive)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def set_state(self, sync_data: Any) -> None:
        """Ignore traits from a page, which could otherwise add actions to a table; pages send messages."""

    def send(self, content: Any, buffers: Any = None) -> None:
        """Send a message to the pages; lone surrogates, which JSON cannot represent, are replaced."""
        super().send(json.loads(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")), buffers)

    def receive(self, message: Mapping[str, Any]) -> None:
        """Handle a message from a page; its content is not trusted."""

    def _receive(self, _widget: Any, message: Any, _buffers: Any) -> None:
        error: Exception | None = None
        try:
            if isinstance(message, dict):
                self.receive(message)
        except Exception as failure:  # noqa: BLE001 - the panel shows it
            error = failure
        self.handled(error)


class Table(Component):
    """A table with actions in its rows, a filter, sorting and pages.

    ``columns`` are dicts: ``title``, and optionally ``kind`` (number, date, code, sql), ``sortable``, ``extra`` (hidden
    in narrow panels). A row is a dict: ``key``, ``cells``, and optionally ``group`` (a heading above the rows of a
    group) and ``current``. A cell is a text, or a dict with ``text``, ``lines`` below it, ``items`` (cells one below
    another), ``sort`` and ``actions``. An action is a dict with ``name``, ``label``, ``title`` and optionally ``key``
    (by default that of the row) and ``expanded``, or with ``copy``, a text. ``on_action`` maps names of actions to
    functions, which get the key.
    """

    kind = Unicode("table").tag(sync=True)
    columns: List[dict[str, Any]] = List().tag(sync=True)
    label = Unicode().tag(sync=True)
    empty = Unicode("No rows.").tag(sync=True)
    page_size = Int(100).tag(sync=True)
    filter_from = Int(8, help="the least number of rows for which a filter is shown").tag(sync=True)
    stacks = Bool(help="whether cells are stacked in narrow panels").tag(sync=True)
    busy = Bool(help="whether the buttons are disabled").tag(sync=True)

    def __init__(self, on_action: Mapping[str, Handler] | None = None, **traits: Any) -> None:
        self.rows: list[dict[str, Any]] = []
        self.on_action = dict(on_action or {})
        self._keys: set[str] = set()
        super().__init__(**traits)

    def show(self, rows: Sequence[dict[str, Any]]) -> None:
        """Show rows; send nothing if they have not changed."""
        if list(rows) != self.rows:
            self.rows = list(rows)
            self.send({"rows": self.rows})

    def click(self, action: str, key: str) -> None:
        """Simulate a click on an action."""
        self._receive(self, {"action": action, "key": key}, None)

    def receive(self, message: Mapping[str, Any]) -> None:
        """Send the rows to a new page, or call the function of an action that the table offers."""
        if message.get("ready"):
            self.send({"rows": self.rows})
            return
        name, key = message.get("action"), message.get("key")
        if isinstance(name, str) and isinstance(key, str) and not self.busy and (name, key) in set(self._offered()):
            self.on_action[name](key)

    def _offered(self) -> Any:
        for row in self.rows:
            for cell in row["cells"]:
                yield from _actions(cell, row["key"])


class Cells(Table):
    """A page of rows as a grid, of which a rectangle of cells is selected and copied.

    ``columns`` are dicts: ``title``, ``key``, and optionally ``sorted`` (ascending or descending), ``note`` and
    ``actions``. A cell is a dict: ``text``, ``kind`` (text, number, null or blob), ``value`` if another text is copied,
    None if the value is truncated, and optionally ``actions``; Enter presses the first. ``on_action`` has ``sort``,
    which gets the key of a column, and ``turn``, which gets "-1" or "1" from the keys Page Up and Page Down.
    """

    kind = Unicode("cells").tag(sync=True)
    first = Int(help="the number of rows before those of the page").tag(sync=True)
    total = Int(-1, help="the number of all rows; -1 if unknown").tag(sync=True)

    def _offered(self) -> Any:
        yield from [*super()._offered(), ("turn", "-1"), ("turn", "1")]
        for column in self.columns:
            yield from [("sort", column["key"]), *_actions(column, column["key"])]


def _actions(cell: Any, key: str) -> Any:
    """Yield the names and keys of a cell's actions."""
    if isinstance(cell, dict):
        yield from ((action["name"], action.get("key", key)) for action in cell.get("actions", ()) if "name" in action)
        for item in cell.get("items", ()):
            yield from _actions(item, key)


def action(name: str, label: str, title: str, **more: Any) -> dict[str, Any]:
    """Return a button for a cell of a table."""
    return {"name": name, "label": label, "title": title, **more}


class Status(Component):
    """The state of a task: running, a message, or an error with its hint; and the equivalent magic."""

    kind = Unicode("status").tag(sync=True)
    busy = Unicode().tag(sync=True)
    message = Unicode().tag(sync=True)
    code = Unicode().tag(sync=True)
    error = Unicode().tag(sync=True)
    hint = Unicode().tag(sync=True)
    line = Unicode().tag(sync=True)

    def update(self, task: LatestTask) -> None:
        """Show the state of a task."""
        error = task.error
        with self.hold_sync():
            self.busy, self.message, self.line = task.busy, task.message, task.line
            self.code, self.error, self.hint = (error.code, error.message, error.hint) if error else ("", "", "")

    def report(self, words: str, *, busy: bool) -> None:
        """Show what runs, or its end."""
        with self.hold_sync():
            self.busy, self.message = (words, "") if busy else ("", words)


class CopyText(Component):
    """A text in a monospace font with a button that copies it; hidden if empty.

    With a ``button``, its label, the text is not shown. The text is sent in a message, since SQL may contain values.
    """

    kind = Unicode("copy").tag(sync=True)
    text = Unicode()
    button = Unicode().tag(sync=True)
    label = Unicode(help="description for screen readers").tag(sync=True)

    @observe("text")
    def _text_changed(self, _change: Any) -> None:
        self.send({"text": self.text})

    def receive(self, message: Mapping[str, Any]) -> None:
        """Send the text to a new page."""
        if message.get("ready"):
            self.send({"text": self.text})


class LongValue(Component):
    """A value that may be long, with a button that copies it."""

    kind = Unicode("value").tag(sync=True)
    value: str | None = None

    def show(self, value: str | None) -> None:
        """Show a value, or none."""
        if value != self.value:
            self.value = value
            self.send({"value": value})

    def receive(self, message: Mapping[str, Any]) -> None:
        """Send the value to a new page."""
        if message.get("ready"):
            self.send({"value": self.value})


class SecretText(Component):
    """A secret, held only by the pages that were open when it was sent, with buttons that show and copy it."""

    kind = Unicode("secret").tag(sync=True)

    def send_secret(self, secret: Secret | None) -> None:
        """Send a secret to the pages, or None to clear it."""
        self.send({"secret": None if secret is None else str(secret)})


class Countdown(Component):
    """A bar that counts down ``length`` seconds to ``until`` (Unix seconds); hidden if ``until`` is 0.

    With ``about`` the time is an estimate, and its end is not certain.
    """

    kind = Unicode("countdown").tag(sync=True)
    until = Float().tag(sync=True)
    length = Float(1.0).tag(sync=True)
    about = Bool(False).tag(sync=True)
    label = Unicode().tag(sync=True)


class Events(Component):
    """Events of the panel that contains it: displayed, closed, text typed into fields, and selected options.

    The page itself handles Enter and Escape in forms, which click their buttons.
    """

    kind = Unicode("events").tag(sync=True)
    _esm = f"const VERSION = '{VERSION}';\n{CODE}"
    _css = (HERE / "panels.css").read_text("utf-8")

    def __init__(self, on_shown: Callable[[bool], None]) -> None:
        self.on_typed: dict[str, Handler] = {}
        self.on_chosen: dict[str, Handler] = {}
        self.forms: dict[str, Callable[[list[Any]], None]] = {}
        self._on_shown = on_shown
        self._pages: set[str] = set()
        super().__init__()

    def forget(self, name: str) -> None:
        """Handle the events of a field or a form no longer."""
        self.on_typed.pop(name, None)
        self.on_chosen.pop(name, None)
        self.forms.pop(name, None)

    def focus(self, widget: DOMWidget) -> None:
        """Move the focus to the first field or button of a widget, on the page that has the focus."""
        name = f"pm-{widget.model_id}"
        widget.add_class(name)
        self.send({"focus": name})

    def receive(self, message: Mapping[str, Any]) -> None:
        """Call the handler of an event."""
        match message:
            case {"typed": str(text), "field": str(field)} if field in self.on_typed:
                self.on_typed[field](text)
            case {"chosen": str(label), "field": str(field)} if field in self.on_chosen:
                self.on_chosen[field](label)
            case {"form": str(name), "values": list(values)} if name in self.forms:
                self.forms[name](values)
            case {"shown": str(page)}:
                self._pages.add(page)
                self._on_shown(True)
            case {"hidden": str(page)}:
                self._pages.discard(page)
                if not self._pages:
                    self._on_shown(False)
