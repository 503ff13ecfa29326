"""The Session panel: connections, transactions with their time limits, and the last requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic.client.trace_format import format_seconds, redact
from pipemagic.errors import SessionError
from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT, Tx
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.base import Field, Line, Panel, button, close_widget, column, row, show
from pipemagic.notebook.panels.components import Countdown, Status, Table
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.server_health import health_of
from pipemagic.notebook.panels.static_html import Block, TableBlock
from pipemagic.notebook.panels.tasks import Action, LatestTask
from pipemagic.session.keep_alive import RELAXED_TRANSACTION
from pipemagic.session.messages import describe_transaction, shorten_statement
from pipemagic.text import format_duration, format_size, plural, word

if TYPE_CHECKING:
    from pipemagic.client.tracing import TracedRequest
    from pipemagic.client.transaction import Loss
    from pipemagic.session import Connection

PRECISION = 0.2
"""Seconds by which two times must differ to count as different."""

MARGIN = 1.0
"""Seconds past its limit after which an open transaction is reported as late: clocks are not exact."""

REQUESTS, STATEMENTS, LENGTH = 20, 20, 160
"""Maximum numbers shown: requests, statements of a transaction, characters of a statement."""

COLUMNS = [{"title": title} for title in ("Connection", "Where", "State", "Server", "")]
REQUEST_COLUMNS = [
    *({"title": title} for title in ("Time", "Connection", "By")), {"title": "Request", "kind": "code"},
    {"title": "Response"}, *({"title": title, "kind": "number"} for title in ("Took", "Out", "In")),
]  # fmt: skip

TIMES = {0: "off", 60: "1m", 600: "10m", 3600: "1h"}
"""The choices for keep-alive in seconds, and their form in the magic."""

NO_CONNECTION = (
    "No connections yet. %pipedb connect starts a database on this machine; %pipedb connect ADDRESS connects to "
    "another."
)
LATE = (
    "This server may roll the transaction back later, or only when another connection needs to write: Commit either "
    "succeeds or reports the rollback."
)
LATE_EXACT = "Commit, or the next cell, reports that the server has rolled the transaction back."
RELAXED = f"It {RELAXED_TRANSACTION}."
REFUSING = "No cell runs on this connection until the transaction is"
UNTIL_NEXT = "Its statements can be run again until the next cell."


def shorten_all(texts: Sequence[str]) -> list[str]:
    """Return the newest statements, shortened, after a line that counts the earlier ones."""
    newest = [redact(shorten_statement(text[: 4 * LENGTH], LENGTH)) for text in texts[-STATEMENTS:]]
    earlier = len(texts) - len(newest)
    return [f"{plural(earlier, 'earlier statement')}, then:", *newest] if earlier else newest


class Statements(ipywidgets.VBox):
    """A title and statements; hidden if there are none."""

    def __init__(self, title: str) -> None:
        self.texts: list[str] = []
        self.code = Line(tag="code")
        super().__init__([Line(title, class_="pm-faint"), self.code])

    def show(self, statements: Sequence[str]) -> None:
        """Show these statements, the newest ones and in short."""
        self.texts = shorten_all(statements)
        self.code.set_text("\n".join(self.texts))
        show(self, bool(self.texts))


class ConnectionCard(ipywidgets.VBox):
    """What a connection has open or has lost, and the buttons that end it."""

    def __init__(self, panel: SessionPanel, name: str) -> None:
        self.panel, self.name = panel, name
        self.trouble = Line(class_="pm-error")
        self.transaction, self.late = Line(), Line()
        self.transaction_left = Countdown(length=TRANSACTION_LIMIT, label=f"Time left of the transaction of {name}")
        self.stream, self.settings = Line(class_="pm-faint"), Line()
        self.idle_left = Countdown(length=IDLE_LIMIT, label=f"Idle time left of {name}")
        self.why, self.refused = Line(), Line(class_="pm-faint")
        self.undone, self.left = Statements("Rolled back"), Statements("Not run, and not part of a rerun")
        self.lost = column(self.why, self.undone, self.left, self.refused)
        self.commit = button("Commit", lambda: panel.commit(name), kind="primary", tooltip=f"Commit {name}")
        self.run_again = button(
            "Run again", lambda: panel.run_again(name), kind="primary", tooltip=f"Run again on {name}"
        )
        self.roll_back = button("Roll back", lambda: panel.roll_back(name), tooltip=f"Roll back {name}")
        self.statements = Statements("Its statements")
        self.keep = Field("Keep alive between cells", ipywidgets.Dropdown())
        self.keep.widget.observe(self._chosen, "value")
        self.keeping, self.keeping_status = LatestTask("keep-alive", panel.changed), Status()
        self._chosen_seconds = 0.0
        self._updating: int | None = None
        self._since: float | None = None
        self._kept_until: float | None = None
        self._loss: Loss | None = None
        super().__init__([
            Line(name, tag="h3"), self.trouble,
            column(self.transaction, self.transaction_left, self.late, self.stream, self.idle_left, self.settings),
            self.lost,
            row(self.commit, self.run_again, self.roll_back), self.statements, row(self.keep), self.keeping_status,
        ])  # fmt: skip
        self.add_class("pm-box")

    def update(self, connection: Connection, *, busy: bool) -> None:
        """Update the widgets; while a cell runs, they keep the state from before it."""
        error, since = self.panel.health.of(connection).error, self.panel.health.running_since(connection)
        self.trouble.set_text(f"Server: {error}." if error else "")
        if since is not None:
            self.stream.set_text(f"A request has been running since {_clock_time(since)}.")
            self.idle_left.until = 0.0
        else:
            with connection.between_cells() as free:
                if free:
                    self._update_transaction(connection, time.time(), responds=not error)
                    self._update_stream(connection, time.time(), responds=not error)
        self.settings.set_text("".join(f"{text[:1].upper()}{text[1:]}. " for text in connection.effects()).strip())
        self._update_buttons(connection.transaction, busy=busy)
        self._update_keep(connection)

    def _update_transaction(self, connection: Connection, now: float, *, responds: bool) -> None:
        state, loss, remaining = connection.transaction, connection.loss, connection.remaining_time
        left, late = remaining.transaction, LATE if remaining.transaction_about else LATE_EXACT
        text = describe_transaction(state, connection.statements_open, loss, responds=responds)
        self.transaction.set_text(f"{text}.")
        self.transaction_left.about = remaining.transaction_about
        _count_down(self.transaction_left, left if responds else None, now)
        over = left == 0.0 and now - self.transaction_left.until > MARGIN
        late = RELAXED if remaining.relaxed else late if over else ""
        self.late.set_text(late if responds else "")
        self.statements.show([statement.text for statement in connection.statements])
        show(self.lost, loss is not None)
        if loss is None:
            self.refused.set_text("")
        elif loss is not self._loss:
            self.undone.show(loss.texts)
            self.left.show(loss.not_run)
            self.refused.set_text(_why_not(connection))
        if loss is not None:
            again = not self.refused.value
            sentence = f"{REFUSING} {'run again or discarded' if again else 'discarded'}."
            after = sentence if state is Tx.LOST else UNTIL_NEXT if again else ""
            self.why.set_text(f"{_sentence(redact(loss.message))} {after}".strip())
        self._loss = loss

    def _update_stream(self, connection: Connection, now: float, *, responds: bool) -> None:
        stream, remaining = connection.stream, connection.remaining_time
        opened = None if stream is None or remaining.idle is None else stream.open_for()
        if not responds:
            opened = None
            self.stream.set_text("")
        elif stream is None or opened is None:
            self.stream.set_text("No server-side connection: the next cell opens one.")
        else:
            self._since = _steady(now - opened, self._since)
            at = f" at {stream.instance}" if stream.instance else ""
            self.stream.set_text(f"Server-side connection{at}, open since {_clock_time(self._since)}.")
        self.idle_left.length, self.idle_left.about = remaining.idle_limit, remaining.idle_about
        _count_down(self.idle_left, None if opened is None else remaining.idle, now)

    def _update_buttons(self, state: Tx, *, busy: bool) -> None:
        show(self.commit, state is not Tx.LOST)
        show(self.run_again, self._loss is not None and not self.refused.value)
        self.roll_back.description = "Discard" if state is Tx.LOST else "Roll back"
        self.roll_back.tooltip = f"{self.roll_back.description} {self.name}"
        self.commit.disabled, self.run_again.disabled = busy or state is not Tx.OPEN, busy
        self.roll_back.disabled = busy or state is Tx.NONE

    def _update_keep(self, connection: Connection) -> None:
        keeping, note = connection.keep_alive_thread, ""
        seconds = self._chosen_seconds if self.keeping.busy else keeping.seconds or 0.0
        if keeping.ended:
            note = f"no longer kept alive: {keeping.ended}"
        elif keeping.seconds is not None and connection.stream is not None:
            self._kept_until = _steady(time.time() + keeping.left, self._kept_until)
            why = "" if keeping.chosen else ", because it has temporary tables"
            note = f"until {_clock_time(self._kept_until)} without a cell{why}"
        elif keeping.seconds is not None:
            note = "from the next cell on"
        self._updating = threading.get_ident()  # a page may change the choice in another thread
        try:
            self.keep.set_options(
                (format_duration(pause) if pause else "off", pause) for pause in sorted({*TIMES, seconds})
            )
            self.keep.widget.value = seconds
        finally:
            self._updating = None
        self.keep.explain(note)
        self.keeping_status.update(self.keeping)

    def _chosen(self, change: Any) -> None:
        if self._updating != threading.get_ident():
            self._chosen_seconds = change["new"]
            self.panel.keep_alive(self, change["new"])


class SessionPanel(Panel):
    """A table of connections, a card for each with open state, and the last requests."""

    title = "Session"
    in_organization = False

    def __init__(self, state: OrganizationState) -> None:
        super().__init__(state)
        self.health = health_of(state.session)
        self.action = Action("session", self.changed)
        self.tasks = []  # the state is known without requests
        self.cards: dict[str, ConnectionCard] = {}
        self._epoch = time.time() - time.perf_counter()  # computed once, so that times do not vary

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
        self.no_connection = Line(NO_CONNECTION, class_="pm-faint")
        self.connect_default = button("Connect", self.connect_to_default, kind="primary")
        self.table = Table(
            {"use": self.use, "close": self.close_connection}, columns=COLUMNS, label="Connections", stacks=True
        )
        self.status, self.box = Status(), column()
        self.request_table = Table(columns=REQUEST_COLUMNS, label="The last requests", stacks=True, filter_from=100)
        self.requests = ipywidgets.Accordion([self.request_table], selected_index=None)
        return [self.no_connection, row(self.connect_default), self.table, self.status, self.box, self.requests]

    def mount(self) -> None:
        """Start following changes and the health of servers."""
        super().mount()
        self.health.follow(self.changed)

    def unmount(self) -> None:
        """Stop following changes and the health of servers."""
        self.health.unfollow(self.changed)
        super().unmount()

    def reload(self) -> None:
        """Read the health of all servers again."""
        self.health.read()
        self.changed()

    def card(self, name: str) -> ConnectionCard:
        """Return the card of a connection."""
        return self.cards[name]

    def update(self) -> None:
        """Update the widgets."""
        session, busy = self.state.session, bool(self.action.busy)
        connections, requests = list(session.connections.values()), session.wire.newest(REQUESTS)
        self.refresh.disabled = False
        for widget in (self.no_connection, self.connect_default):
            show(widget, not connections)
        self.connect_default.disabled = busy
        for widget in (self.table, self.refresh):
            show(widget, bool(connections))
        self.table.show(
            [self._row(connection, current=connection.name == session.current) for connection in connections]
        )
        self.table.busy = busy
        self.status.update(self.action)
        self._update_cards(
            {connection.name: connection for connection in connections if self._has_card(connection)}, busy=busy
        )
        show(self.requests, bool(requests))
        self.requests.titles = (f"The last {plural(len(requests), 'request')}",)
        redactor = session.wire.redactor()
        self.request_table.show([_request(request, redactor, self._epoch) for request in requests])

    def _has_card(self, connection: Connection) -> bool:
        """Return True if a connection is current, or has an open stream or transaction, or lost one."""
        return (
            connection.name == self.state.session.current or self.health.running_since(connection) is not None
            or connection.transaction is not Tx.NONE or connection.remaining_time.idle is not None
            or connection.loss is not None
        )  # fmt: skip

    def _update_cards(self, wanted: dict[str, Connection], *, busy: bool) -> None:
        before = self.cards
        if list(wanted) != list(before):
            self.cards = {name: before.get(name) or ConnectionCard(self, name) for name in wanted}
        for name, card in self.cards.items():
            card.update(wanted[name], busy=busy)
        self.box.children = tuple(self.cards.values())
        for name in before.keys() - wanted.keys():
            close_widget(before[name])

    def _row(self, connection: Connection, *, current: bool) -> dict[str, Any]:
        name = connection.name
        state = {
            "text": _state(connection, responds=not self.health.of(connection).error),
            "lines": ["the server rejects its token"] if connection.refused else [],
        }  # fmt: skip
        use, close = ({"name": label.lower(), "label": label, "title": f"{label} {name}"} for label in ("Use", "Close"))
        actions = {"text": "current", "actions": [close]} if current else {"actions": [use, close]}
        cells = [name, connection.description, state, str(self.health.of(connection)), actions]
        return {"key": name, "current": current, "cells": cells}

    def static(self) -> Sequence[Block]:
        """Return the connections, without times."""
        session = self.state.session
        rows = [
            (
                connection.name,
                connection.description,
                _state(connection, responds=not self.health.of(connection).error),
                "current" if connection.name == session.current else "",
            )
            for connection in list(session.connections.values())
        ]
        return [TableBlock(["Connection", "Where", "State", ""], rows)] if rows else [NO_CONNECTION]

    # -- actions; each waits in its own thread for a cell that runs on the connection

    def connect_to_default(self) -> None:
        """Connect to the default database."""
        self._act("Connecting ...", lambda: self.state.session.connect().greeting, "connect")

    def use(self, name: str) -> None:
        """Make another connection the current one."""
        session = self.state.session
        self._act(f"Switching to {name} ...", lambda: outcomes.use(session, name), f"use {word(name)}")

    def close_connection(self, name: str) -> None:
        """Close a connection; an open transaction is rolled back."""
        session = self.state.session
        self._act(f"Closing {name} ...", lambda: outcomes.close(session, name, in_panel=True), f"close {word(name)}")

    def commit(self, name: str) -> None:
        """Commit the open transaction of a connection."""
        self._on(name, f"Committing {name} ...", outcomes.commit, "commit")

    def roll_back(self, name: str) -> None:
        """Roll back the open transaction of a connection, or discard a lost one."""
        self._on(name, f"Rolling back {name} ...", outcomes.rollback, "rollback")

    def run_again(self, name: str) -> None:
        """Rerun a lost transaction, all or nothing."""
        self._on(name, f"Running again on {name} ...", outcomes.retry, "retry")

    def keep_alive(self, card: ConnectionCard, seconds: float) -> None:
        """Keep a connection alive for some seconds after each cell; 0 switches this off."""
        session, name = self.state.session, card.name
        line = f"%pipedb keep-alive {TIMES.get(int(seconds), f'{seconds:g}')} --on {word(name)}"
        card.keeping.start(
            f"Keeping {name} alive ...",
            lambda: outcomes.keep_alive(session.connection(name), seconds or None),
            line=line,
        )

    def _on(self, name: str, title: str, work: Callable[[Connection], str], line: str) -> None:
        session = self.state.session
        self._act(title, lambda: work(session.connection(name)), f"{line} --on {word(name)}")

    def _act(self, title: str, work: Callable[[], str], line: str) -> None:
        self.action.start(title, work, line=f"%pipedb {line}")


def _state(connection: Connection, *, responds: bool) -> str:
    count, loss = connection.statements_open, connection.loss
    state = describe_transaction(connection.transaction, count, loss, responds=responds)
    return f"{state[0].lower()}{state[1:]}"


def _why_not(connection: Connection) -> str:
    """Return why a lost transaction cannot be rerun, '' if it can."""
    try:
        connection.to_retry()
    except SessionError as error:
        return _sentence(error.message)
    return ""


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def _clock_time(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _steady(at: float, before: float | None) -> float:
    """Return the previous time if the two differ only by clock precision."""
    return before if before is not None and abs(at - before) <= PRECISION else round(at, 3)


def _count_down(countdown: Countdown, left: float | None, now: float) -> None:
    """Show the seconds left of a limit, or None without one; an expired limit remains expired."""
    if left is None:
        countdown.until = 0.0
    elif left or not 0.0 < countdown.until <= now:
        countdown.until = _steady(now + left, countdown.until)


def _request(request: TracedRequest, redactor: Callable[[str], str], epoch: float) -> dict[str, Any]:
    status = f"HTTP {request.status}" if request.status is not None else redactor(request.error).partition("\n")[0]
    again = f", sent {request.attempts} times" if request.attempts > 1 else ""
    return {"key": f"{request.started:.6f} {request.connection}", "cells": [
        _clock_time(epoch + request.started), request.connection,
        "between cells" if request.origin is None else request.origin.name,
        redactor(f"{request.method} {request.path}"), (status or "no response") + again,
        format_seconds(request.seconds), format_size(request.sent_size), format_size(request.received_size),
    ]}  # fmt: skip
