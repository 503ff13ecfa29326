"""The Session panel: connections, transactions with their time limits, and the last requests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import ipywidgets

from pipemagic.client.trace_format import format_seconds
from pipemagic.errors import AnswerTimeout, PipemagicError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.components import Table, action
from pipemagic.notebook.panels.connection_card import ConnectionCard, clock_time
from pipemagic.notebook.panels.forms import Line, column, row, show
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.static_html import Block, TableBlock
from pipemagic.notebook.panels.tasks import LatestTask
from pipemagic.session.transactions import describe_transaction
from pipemagic.text import format_size, plural, word

if TYPE_CHECKING:
    from pipemagic.client.tracing import TracedRequest
    from pipemagic.session import Connection

REQUESTS = 20
"""Maximum number of requests shown."""

OPEN = 1.0
"""Seconds after which a server is queried again while a transaction is open: it may have stopped."""

RETRY = 5.0
"""Seconds after which a server is queried again if it did not respond or a cell is waiting for it."""

TIMEOUT = 3.0
"""Timeout of these requests in seconds."""

COLUMNS = [{"title": title} for title in ("Connection", "Where", "State", "")]
REQUEST_COLUMNS = [
    *({"title": title} for title in ("Time", "Connection", "By")), {"title": "Request", "kind": "code"},
    {"title": "Response"}, *({"title": title, "kind": "number"} for title in ("Took", "Out", "In")),
]  # fmt: skip

NO_CONNECTION = (
    "No connections yet. %pipedb connect starts a database on this machine; %pipedb connect ADDRESS connects to "
    "another."
)


class ServerHealth:
    """What the server of a connection last reported, read beside the stream of the cells.

    It is read once, and again while a transaction is open, the server does not respond, or a cell has waited for long.
    """

    def __init__(self) -> None:
        self.words = ""
        self.error = ""
        """Why there is no report."""
        self.task = LatestTask("health of a server")
        self.at = -math.inf
        """When it was read last, as a time of `time.monotonic`."""
        self._running_since: float | None = None

    def __str__(self) -> str:
        return ", ".join(filter(None, [self.error or self.words, self.task.busy])) or "reading ..."

    def running_since(self, connection: Connection) -> float | None:
        """Return since when a cell is known to run on the connection, in Unix seconds; None if none runs."""
        with connection.between_cells() as free:
            self._running_since = None if free else self._running_since or time.time()
        return self._running_since

    def read_if_due(self, connection: Connection) -> None:
        """Read it if the server may have stopped."""
        since, age = self.running_since(connection), time.monotonic() - self.at
        waits = since is not None and time.time() - since > RETRY
        is_open = since is None and connection.transaction is Tx.OPEN
        due = OPEN if is_open else RETRY if waits or self.error else math.inf
        if age > due or self.at == -math.inf:
            self.read(connection)

    def read(self, connection: Connection, *, find: bool = False) -> None:
        """Read it in the background, with ``find`` also at the new address of a server that has moved."""
        if not self.task.busy:
            self.task.start("reading ...", lambda: self._read(connection, find=find))

    def _read(self, connection: Connection, *, find: bool) -> None:
        words, error = "", "BUG: see the kernel's log"
        try:
            with connection.database.sibling(timeout=TIMEOUT, finds_again=find) as beside:
                server, seconds = outcomes.describe_server(beside)
            words, error = f"{server}, round trip {seconds * 1000:.1f} ms", ""
        except AnswerTimeout:
            error = f"no response within {TIMEOUT:.0f} s"
        except PipemagicError as failure:
            error = failure.message.partition("\n")[0]
        finally:
            self.words, self.error, self.at = words, error, time.monotonic()


class SessionPanel(Panel):
    """A table of connections, a card for each with open state, and the last requests."""

    title = "Session"
    in_organization = False
    interval = 0.3

    def __init__(self, state: OrganizationState) -> None:
        super().__init__(state)
        self.tasks = []  # the state is known without requests
        self._health: WeakKeyDictionary[Connection, ServerHealth] = WeakKeyDictionary()
        self.cards: dict[str, ConnectionCard] = {}
        self._epoch = time.time() - time.perf_counter()  # computed once, so that times do not vary

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
        self.no_connection = Line(NO_CONNECTION, class_="pm-faint")
        self.connect_default = self.control("Connect", self.connect_to_default, kind="primary")
        self.table = Table(
            {"use": self.use, "close": self.close_connection}, columns=COLUMNS, label="Connections", stacks=True
        )
        self.servers, self.failing_servers, self.box = Line(class_="pm-faint"), Line(class_="pm-error"), column()
        self.request_table = Table(columns=REQUEST_COLUMNS, label="The last requests", stacks=True, filter_from=100)
        self.requests = ipywidgets.Accordion([self.request_table], selected_index=None)
        return [
            self.no_connection, row(self.connect_default), self.table, self.servers, self.failing_servers, self.status,
            self.box, self.requests,
        ]  # fmt: skip

    def mount(self) -> None:
        """Start following changes and the health of servers."""
        super().mount()
        self.tick()

    def tick(self) -> None:
        """Read the health of servers that may have stopped."""
        for connection in list(self.state.session.connections.values()):
            self.health(connection).read_if_due(connection)

    def reload(self) -> None:
        """Read the health of all servers again, also at the new addresses of those that have moved."""
        for connection in list(self.state.session.connections.values()):
            self.health(connection).read(connection, find=True)
        self.changed()

    def health(self, connection: Connection) -> ServerHealth:
        """Return the last known health of a connection's server."""
        return self._health.setdefault(connection, ServerHealth())

    def card(self, name: str) -> ConnectionCard:
        """Return the card of a connection."""
        return self.cards[name]

    def update(self) -> None:
        """Update the widgets."""
        session = self.state.session
        connections, requests = list(session.connections.values()), session.wire.newest(REQUESTS)
        self.refresh.disabled = False
        for widget in (self.no_connection, self.connect_default):
            show(widget, not connections)
        for widget in (self.table, self.refresh):
            show(widget, bool(connections))
        self.table.show(
            [self._row(connection, current=connection.name == session.current) for connection in connections]
        )
        self.table.busy = self.busy
        health = {connection.name: self.health(connection) for connection in connections}
        for line, fails in ((self.servers, False), (self.failing_servers, True)):
            servers = [f"Server of {name}: {server}" for name, server in health.items() if bool(server.error) is fails]
            line.set_text("\n".join(servers))
        self._update_cards({connection.name: connection for connection in connections if self._has_card(connection)})
        show(self.requests, bool(requests))
        self.requests.titles = (f"The last {plural(len(requests), 'request')}",)
        redactor = session.wire.redactor()
        self.request_table.show([_request(request, redactor, self._epoch) for request in requests])

    def _has_card(self, connection: Connection) -> bool:
        """Return True if a connection is current, or has an open stream or transaction, or lost one."""
        return (
            connection.name == self.state.session.current
            or self.health(connection).running_since(connection) is not None
            or connection.transaction is not Tx.NONE
            or connection.remaining_time.idle is not None
            or connection.loss is not None
        )

    def _update_cards(self, wanted: dict[str, Connection]) -> None:
        before = self.cards
        if list(wanted) != list(before):
            self.cards = {name: before.get(name) or ConnectionCard(self, name) for name in wanted}
            for name in wanted:
                if name not in before:
                    self.listen_to(self.cards[name])
        for name, card in self.cards.items():
            card.update(wanted[name], busy=self.busy)
        self.box.children = tuple(self.cards.values())
        for name in before.keys() - wanted.keys():
            self._discard(before[name])

    def _row(self, connection: Connection, *, current: bool) -> dict[str, Any]:
        name = connection.name
        refused = ["the server rejects its token"] if connection.refused else []
        use, close = (action(label.lower(), label, f"{label} {name}") for label in ("Use", "Close"))
        actions = {"text": "current", "actions": [close]} if current else {"actions": [use, close]}
        state = {"text": self._state(connection), "lines": refused}
        return {"key": name, "current": current, "cells": [name, connection.description, state, actions]}

    def _state(self, connection: Connection) -> str:
        count, responds = connection.statements_open, not self.health(connection).error
        state = describe_transaction(connection.transaction, count, connection.loss, responds=responds)
        return f"{state[0].lower()}{state[1:]}"

    def static(self) -> Sequence[Block]:
        """Return the connections, without times."""
        session = self.state.session
        rows = [
            (name, connection.description, self._state(connection), "current" if name == session.current else "")
            for name, connection in list(session.connections.items())
        ]
        return [TableBlock(["Connection", "Where", "State", ""], rows)] if rows else [NO_CONNECTION]

    # -- actions; each waits in its own thread for a cell that runs on the connection

    def connect_to_default(self) -> None:
        """Connect to the default database."""
        self.run("Connecting ...", "connect", lambda: self.state.session.connect().greeting)

    def use(self, name: str) -> None:
        """Make another connection the current one."""
        self.run(f"Switching to {name} ...", f"use {word(name)}", partial(outcomes.use, self.state.session, name))

    def close_connection(self, name: str) -> None:
        """Close a connection; an open transaction is rolled back."""
        work = partial(outcomes.close, self.state.session, name, in_panel=True)
        self.run(f"Closing {name} ...", f"close {word(name)}", work)

    def commit(self, name: str) -> None:
        """Commit the open transaction of a connection."""
        session, line = self.state.session, f"%sql --on {word(name)} COMMIT"
        self.action.start(f"Committing {name} ...", lambda: outcomes.commit(session.connection(name)), line=line)

    def roll_back(self, name: str) -> None:
        """Roll back the open transaction of a connection, or discard a lost one."""
        self._run_on(name, f"Rolling back {name} ...", "rollback", outcomes.rollback)

    def run_again(self, name: str) -> None:
        """Rerun a lost transaction, all or nothing."""
        self._run_on(name, f"Running again on {name} ...", "retry", outcomes.retry)

    def _run_on(self, name: str, title: str, command: str, work: Callable[[Connection], str]) -> None:
        session = self.state.session
        self.run(title, f"{command} --on {word(name)}", lambda: work(session.connection(name)))


def _request(request: TracedRequest, redactor: Callable[[str], str], epoch: float) -> dict[str, Any]:
    status = f"HTTP {request.status}" if request.status is not None else redactor(request.error).partition("\n")[0]
    again = f", sent {request.attempts} times" if request.attempts > 1 else ""
    return {"key": f"{request.started:.6f} {request.connection}", "cells": [
        clock_time(epoch + request.started), request.connection,
        "between cells" if request.origin is None else request.origin.name,
        redactor(f"{request.method} {request.path}"), (status or "no response") + again,
        format_seconds(request.seconds), format_size(request.sent_size), format_size(request.received_size),
    ]}  # fmt: skip
