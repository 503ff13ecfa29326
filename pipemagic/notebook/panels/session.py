"""What the session has open: each connection, the clocks of its transaction, and the buttons that end it."""

from __future__ import annotations

import threading
import weakref
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
from traitlets import List

from pipemagic.hrana.stream import Tx
from pipemagic.notebook.panels.work import WorkingModel
from pipemagic.session.reports import plural, so_far

if TYPE_CHECKING:
    from pipemagic.session import Connection, Session

EVERY = 0.5
"""Seconds between two looks at the clocks. They are the session's own: no server is asked."""


class SessionModel(WorkingModel):
    """What is open, as plain tuples. Only `commit` and `roll_back` act on a server."""

    connections: List[Any] = List(help="(name, where, whether it is the current one, state, clocks, can be ended)")

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._stop = threading.Event()

    def look(self) -> None:
        """Read states and clocks anew."""
        current = self._session.current
        self.connections = [
            (one.name, one.description, one.name == current, _state(one), _clocks(one), one.transaction is not Tx.NONE)
            for one in list(self._session.connections.values())
        ]

    def commit(self, name: str) -> None:
        """Commit the open transaction of a connection."""
        self._end(name, f"Committing {name} ...", lambda one: f"{name}: committed {plural(one.commit(), 'statement')}.")

    def roll_back(self, name: str) -> None:
        """Roll the open transaction of a connection back, or go on without one that was lost."""
        self._end(
            name, f"Rolling back {name} ...", lambda one: f"{name}: rolled back {plural(one.rollback(), 'statement')}."
        )

    def _end(self, name: str, what: str, how: Any) -> None:
        def work() -> str:
            try:
                return str(how(self._session.connection(name)))
            finally:
                self.look()

        self.start(what, work)

    def follow(self) -> None:
        """Look again and again, in a daemon thread, until close() or until nobody holds the model any more."""
        ticking = threading.Thread(
            target=_tick, args=(weakref.ref(self), self._stop), name="pipemagic: clocks of a panel", daemon=True
        )
        ticking.start()

    def close(self) -> None:
        """Look no more."""
        self._stop.set()

    def text(self) -> str:
        """Give the connections as text, for terminals and notebooks without widgets: no clocks, it is saved."""
        lines = [f"  {name} ({where}): {state}" for name, where, _, state, _, _ in self.connections]
        return "\n".join(["Connections", *(lines or ["  none"])])


def _tick(model: weakref.ref[SessionModel], stop: threading.Event) -> None:
    while not stop.wait(EVERY):
        held = model()
        if held is None:
            return
        held.look()
        del held


def _state(connection: Connection) -> str:
    match connection.transaction:
        case Tx.OPEN:
            return f"transaction open, {so_far(connection.statements_open)}"
        case Tx.LOST:
            return "transaction lost"
        case _:
            return "no transaction"


def _clocks(connection: Connection) -> str:
    left = connection.clocks
    parts = [
        f"transaction: {left.transaction_left}" if left.transaction_left else "",
        f"connection: {left.idle_left}" if left.idle_left else "no server-side connection",
    ]
    return "; ".join(part for part in parts if part)


class SessionPanel(widgets.VBox):  # type: ignore[misc]
    """Shows a SessionModel and passes clicks on. Holds no data."""

    def __init__(self, model: SessionModel) -> None:
        self.model = model
        self.title = widgets.HTML("<b>Connections</b>")
        self.rows: dict[str, _Row] = {}
        self.body = widgets.VBox()
        self.status = widgets.HTML()
        super().__init__([self.title, self.body, self.status])
        self.add_class("pipemagic-panel")
        model.observe(lambda _: self._show(), ["connections", "busy"])
        model.observe(lambda _: self._show_status(), ["busy", "message", "error"])
        self._show()
        self._show_status()

    def close(self) -> None:
        """Close the widgets, and look no more."""
        self.model.close()
        super().close()

    def _show(self) -> None:
        names = [one[0] for one in self.model.connections]
        if names != list(self.rows) or not self.body.children:
            self.rows = {name: self.rows.get(name) or _Row(self.model, name) for name in names}
            self.body.children = tuple(self.rows.values()) or (widgets.HTML("No connection yet."),)
        for name, where, current, state, clocks, can_end in self.model.connections:
            self.rows[name].show(where, current, state, clocks, can_end=can_end and not self.model.busy)

    def _show_status(self) -> None:
        text = self.model.error or self.model.busy or self.model.message
        self.status.value = f'<span role="status">{escape(text)}</span>'

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        if isinstance(bundle, dict):
            bundle["text/plain"] = self.model.text()
        return bundle


class _Row(widgets.HBox):  # type: ignore[misc]
    """One connection and the two buttons that act on its stream."""

    def __init__(self, model: SessionModel, name: str) -> None:
        self.name = name
        self.text = widgets.HTML(layout={"width": "520px"})
        self.commit = widgets.Button(description="Commit", layout={"width": "96px"})
        self.roll_back = widgets.Button(description="Roll back", layout={"width": "96px"})
        super().__init__([self.text, self.commit, self.roll_back])
        self.commit.on_click(lambda _: model.commit(name))
        self.roll_back.on_click(lambda _: model.roll_back(name))

    def show(self, where: str, current: bool, state: str, clocks: str, *, can_end: bool) -> None:
        title = f"<b>{escape(self.name)}</b>{', current' if current else ''} ({escape(where)})"
        self.text.value = f"{title}<br>{escape(state)}<br><small>{escape(clocks)}</small>"
        self.commit.disabled = not can_end or state == "transaction lost"
        self.roll_back.disabled = not can_end
