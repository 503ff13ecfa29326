"""The session: its connections, the clocks of their transactions, the buttons that end these, what was sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from pipemagic.counts import duration, plural
from pipemagic.errors import TransactionLost
from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT, Tx
from pipemagic.notebook.panels.ground.parts import age, button, choice, clock, empty, row, section, state, table
from pipemagic.notebook.panels.ground.tree import Child, Node, h
from pipemagic.notebook.panels.ground.widget import Values, View
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.notebook.panels.session.opened import Opened
from pipemagic.notebook.panels.session.seen import OFF, Lost, Said, Seen, Statements
from pipemagic.session.keep_alive import parse_duration
from pipemagic.session.profiles import word

if TYPE_CHECKING:
    from traitlets import HasTraits

    from pipemagic.session import Connection

TIMES = {"1m": "1 min", "10m": "10 min", "1h": "1 h"}
"""For how long a connection can be kept alive, as the magic takes it and in words."""

GO_ON = "Roll back goes on; what it held can be run again then."
OVER = f"Its {TRANSACTION_LIMIT:.0f} s are over: the server has rolled it back. {GO_ON}"
UNUSED = f"Nothing was sent for {IDLE_LIMIT:.0f} s: the server has closed the connection and rolled it back. {GO_ON}"
LATE = (
    f"Its {TRANSACTION_LIMIT:.0f} s are over. This server may wait until somebody else wants to write before it "
    "rolls it back: Commit succeeds, or tells that it did."
)
LOST = "Nothing more runs here until it is run again, or given up with Roll back."
UNDONE = "What it held can be run again until the next cell."


class SessionModel(WorkingModel):
    """What is done with connections. What is open, is in the Opened.

    Work that needs a connection waits in its thread for the cell that runs there.
    """

    def __init__(self, opened: Opened) -> None:
        super().__init__()
        self.opened = opened
        self._session = opened.session
        self._choosing = threading.Lock()
        self._to_keep: tuple[str, str] | None = None

    def connect(self) -> None:
        """Connect to the default, as %pipedb connect does."""
        self.start("Connecting ...", lambda: self._session.connect().greeting, "%pipedb connect")

    def use(self, name: str) -> None:
        """Make another connection the current one."""
        self._act(f"Changing to {name} ...", lambda: f"Using {self._session.use(name).name}.", f"use {word(name)}")

    def close(self, name: str) -> None:
        """Close a connection; a transaction that is open in it is rolled back."""

        def work() -> str:
            was_open = self._session.connection(name).transaction is Tx.OPEN
            closed = f"Closed {self._session.close(name)}."
            return f"{closed} The open transaction was rolled back." if was_open else closed

        self._act(f"Closing {name} ...", work, f"close {word(name)}")

    def commit(self, name: str) -> None:
        """Commit the open transaction of a connection."""

        def work(connection: Connection) -> str:
            return f"Committed {plural(connection.commit(), 'statement')} on {name}."

        self._on(name, f"Committing {name} ...", work, "commit")

    def roll_back(self, name: str) -> None:
        """Roll the open transaction of a connection back, or go on without one that was lost."""
        self._on(name, f"Rolling back {name} ...", _roll_back, "rollback")

    def retry(self, name: str) -> None:
        """Run a transaction that was rolled back again, all or nothing."""
        self._on(name, f"Running again on {name} ...", _retry, "retry")

    def keep(self, name: str, time: str) -> None:
        """Keep a connection alive between cells, for so long after the last one; "off" for no longer.

        Each step of an arrow key chooses anew: the choice that came last is done when what is under way has ended.
        """
        with self._choosing:
            self._to_keep = (name, time)
        self._keep()

    def ended(self) -> None:
        """Do what was chosen meanwhile."""
        self._keep()

    def _keep(self) -> None:
        with self._choosing:  # the work may end before start() returns; ended() must not start it again
            if self._to_keep is not None and self._begin_to_keep(*self._to_keep):
                self._to_keep = None

    def _begin_to_keep(self, name: str, time: str) -> bool:
        def work(connection: Connection) -> str:
            seconds = None if time == OFF else parse_duration(time)
            connection.keep_alive(seconds)
            if seconds is None:
                return f"{name} is no longer kept alive between cells."
            return f"{name} is kept alive for {duration(seconds)} after each cell."

        return self._on(name, f"Keeping {name} ...", work, f"keep-alive {time}")

    def _on(self, name: str, what: str, work: Callable[[Connection], str], line: str) -> bool:
        return self._act(what, lambda: work(self._session.connection(name)), f"{line} --on {word(name)}")

    def _act(self, what: str, work: Callable[[], str], line: str) -> bool:
        def and_look() -> str:
            try:
                return work()
            finally:
                self.opened.look()

        return self.start(what, and_look, f"%pipedb {line}")


def _roll_back(connection: Connection) -> str:
    if connection.transaction is Tx.LOST:
        connection.rollback()
        return "Lost transaction discarded."
    try:
        count = connection.rollback()
    except TransactionLost:
        match connection.transaction:
            case Tx.OPEN:
                raise
            case Tx.LOST:  # it ended with its service
                connection.rollback()
        return f"The server had rolled it back already; cells run again on {connection.name}."
    return f"Rolled back {plural(count, 'statement')} on {connection.name}."


def _retry(connection: Connection) -> str:
    count, left = len(connection.to_retry().statements), connection.left_over
    affected = sum(outcome.affected_row_count for outcome in connection.retry().outcomes)
    done = f"Ran {plural(count, 'statement')} again and committed; {plural(affected, 'row')} affected."
    return f"{done} Not among them, and not run by now: {'; '.join(Statements.of(left).texts)}" if left else done


class SessionView(View):
    """A table of the connections, then a card for each that has something open, then the last requests."""

    title: ClassVar[str] = "Session"

    def __init__(self, model: SessionModel) -> None:
        self.model = model
        model.opened.look()

    def models(self) -> tuple[HasTraits, ...]:
        """Give what is drawn."""
        return (self.model, self.model.opened)

    def opened(self) -> None:
        """Follow the clocks."""
        self.model.opened.follow()

    def closed(self) -> None:
        """Follow them no longer."""
        self.model.opened.leave()

    def draw(self) -> Node:
        """Draw all of it."""
        opened = self.model.opened
        if not opened.connections:
            return section(self.title, self._not_connected(), state(self.model), self._requests())
        return section(
            self.title,
            self._table(),
            state(self.model),
            h("p", opened.trouble, class_="pm-error", role="alert") if opened.trouble else None,
            [self._card(number, seen) for number, seen in enumerate(opened.connections) if _has_card(seen)],
            self._requests(),
            tools=button("Refresh", ("look-again",)),
        )

    def on_look_again(self, _values: Values) -> None:
        """Ask the servers how they are."""
        self.model.opened.ask_again()

    def on_connect(self, _values: Values) -> None:
        """Connect to the default."""
        self.model.connect()

    def on_use(self, _values: Values, name: str) -> None:
        """Make another connection the current one."""
        self.model.use(name)

    def on_close(self, _values: Values, name: str) -> None:
        """Close a connection."""
        self.model.close(name)

    def on_commit(self, _values: Values, name: str) -> None:
        """Commit."""
        self.model.commit(name)

    def on_roll_back(self, _values: Values, name: str) -> None:
        """Roll back, or go on."""
        self.model.roll_back(name)

    def on_retry(self, _values: Values, name: str) -> None:
        """Run what was lost again."""
        self.model.retry(name)

    def on_keep(self, values: Values, name: str, field: str) -> None:
        """Keep a connection alive, or no longer."""
        self.model.keep(name, values[field])

    def _not_connected(self) -> Node:
        connect = button("Connect", ("connect",), kind="main", disabled=bool(self.model.busy))
        return h(
            "div",
            empty("No connection yet. %pipedb connect starts a database on this machine, "
                  "%pipedb connect ADDRESS takes another."),
            h("div", connect, class_="pm-row", live=True),
        )  # fmt: skip

    def _table(self) -> Node:
        server = h("th", "Server", scope="col", live=True)
        acts = h("th", scope="col", aria_label="Use or close")
        headings: list[Child] = ["Connection", "Where", "State", server, acts]
        rows = [self._row(seen) for seen in self.model.opened.connections]
        return h("div", table(headings, rows, label="Connections"), class_="pm-stacking")

    def _row(self, seen: Seen) -> Node:
        busy = bool(self.model.busy)
        use = button("Use", ("use", seen.name), kind="plain", label=f"Use {seen.name}", disabled=busy)
        close = button("Close", ("close", seen.name), kind="plain", label=f"Close {seen.name}", disabled=busy)
        refused = h("div", "the server no longer takes its token", class_="pm-error") if seen.refused else None
        return row(
            seen.name, _name(seen.name), _words(seen.where), _words(seen.state, refused),
            h("td", seen.answer.words, class_="pm-words", live=True),
            h("td", h("span", "current" if seen.current else use, class_="pm-use"), close, class_="pm-nowrap"),
            current=seen.current,
        )  # fmt: skip

    def _card(self, number: int, seen: Seen) -> Node:
        return h(
            "div", h("h3", seen.name), _silent(seen),
            h("div", h("div", _transaction(seen)), h("div", _stream(seen)), class_="pm-windows"),
            _lost(seen.lost, refusing=seen.transaction is Tx.LOST) if seen.lost is not None else None,
            self._ends(seen),
            _listed("Its statements", seen.statements),
            self._keeping(number, seen),
            class_="pm-card", key=f"card {seen.name}", role="group", aria_label=f"Connection {seen.name}", live=True,
        )  # fmt: skip

    def _ends(self, seen: Seen) -> Node:
        """Give the buttons that end a transaction: always there, so that nothing moves under a hand."""
        busy, name = bool(self.model.busy), seen.name
        can_commit = seen.transaction is Tx.OPEN and not seen.gone
        buttons = [
            button("Commit", ("commit", name), kind="main" if can_commit else "", label=f"Commit {name}",
                   disabled=busy or not can_commit),
            button("Roll back", ("roll-back", name), label=f"Roll back {name}",
                   disabled=busy or seen.transaction is Tx.NONE),
        ]  # fmt: skip
        if seen.lost is not None and not seen.lost.refused:
            buttons.append(button("Run again", ("retry", name), label=f"Run again on {name}", disabled=busy))
        return h("div", buttons, class_="pm-row")

    def _keeping(self, number: int, seen: Seen) -> Node:
        name = f"keep-{number}"
        of_words = {words: time for time, words in {OFF: OFF, **TIMES}.items()}
        value = of_words.get(seen.keeping, seen.keeping)
        options = [(OFF, "off"), *TIMES.items()]
        if seen.keeping not in of_words:  # a time that was typed
            options.append((seen.keeping, seen.keeping))
        on = {"change": ["keep", seen.name, name]}
        return choice("Keep alive between cells", name, options, value=value, note=seen.kept, on=on)

    def _requests(self) -> Node | None:
        said = self.model.opened.requests
        if not said:
            return None
        headings: list[Child] = ["Time", "Connection", "By", "Request", "Answer"]
        headings += [h("th", one, scope="col", class_="pm-number") for one in ("Took", "Out", "In")]
        return h(
            "details", h("summary", f"The last {plural(len(said), 'request')}"),
            h("div", table(headings, [_request(one) for one in said], label="The last requests"),
              class_="pm-stacking"), key="requests", live=True,
        )  # fmt: skip


def _has_card(seen: Seen) -> bool:
    return seen.current or seen.transaction is not Tx.NONE or seen.idles is not None or seen.lost is not None


def _transaction(seen: Seen) -> Iterator[Node]:
    if seen.transaction is not Tx.OPEN:
        yield h("p", f"{seen.state.capitalize()}.")
        return
    yield h("p", h("strong", f"{seen.state.capitalize()}."))
    if seen.ends is not None:
        yield clock(seen.ends, TRANSACTION_LIMIT, f"Time left of the transaction of {seen.name}")
    if seen.gone:
        yield h("p", UNUSED if seen.idles == 0.0 else OVER)
    elif seen.late:
        yield h("p", LATE)


def _silent(seen: Seen) -> Node | None:
    """Say that the server of a connection does not answer: what is below may be out of date."""
    trouble = seen.answer.trouble
    return h("p", f"Its server: {trouble}.", class_="pm-error", role="alert") if trouble else None


def _stream(seen: Seen) -> Iterator[Node]:
    if seen.running is not None:
        yield h("p", "A request has been under way for ", age(seen.running), ".")
    elif seen.idles is None or seen.since is None:
        yield h("p", "No server-side connection: the next cell opens one.", class_="pm-faint")
    else:
        at = f" at {seen.instance}" if seen.instance else ""
        yield h("p", f"Server-side connection{at}, open for ", age(seen.since), f" (since {seen.opened_at}).")
        yield clock(seen.idles, IDLE_LIMIT, f"Idle time left of {seen.name}")


def _lost(lost: Lost, *, refusing: bool) -> Node:
    return h(
        "div", h("p", f"{_why(lost)} {LOST if refusing else UNDONE}"),
        _listed("Undone", lost.held, unfolded=True), _listed("Not run, and not run again", lost.left, unfolded=True),
        h("p", f"{lost.refused[:1].upper()}{lost.refused[1:]}.", class_="pm-faint") if lost.refused else None,
        class_="pm-problem", role="alert", key="lost",
    )  # fmt: skip


def _why(lost: Lost) -> str:
    """Say what ended a transaction, with the limit that was hit."""
    return f"{lost.why[:1].upper()}{lost.why[1:]}."


def _listed(title: str, statements: Statements, *, unfolded: bool = False) -> Node | None:
    if not statements.texts:
        return None
    earlier = h("p", f"{plural(statements.earlier, 'statement')}, then", class_="pm-faint")
    items = [h("li", h("code", text)) for text in statements.texts]
    listed = h("ol", items, start=statements.earlier + 1, class_="pm-held")
    inside = (earlier if statements.earlier else None, listed)
    return h("details", h("summary", title), inside, open=unfolded, key=title)


def _request(said: Said) -> Node:
    amounts = {"Took": said.took, "Out": said.out, "In": said.back}
    numbers = [h("td", one, class_="pm-number", data_heading=heading) for heading, one in amounts.items()]
    time = h("td", said.time, class_="pm-nowrap")
    request = _words(h("code", said.request, class_="pm-whole"))
    return row(said.key, time, _name(said.connection), _words(said.by), request, _words(said.status), *numbers)


def _name(name: str) -> Node:
    """Give a cell with the name of a connection, which may be long: it takes the room that is left."""
    return h("td", name, class_="pm-connection")


def _words(*inside: Child) -> Node:
    """Give a cell that is broken between words only."""
    return h("td", *inside, class_="pm-words")
