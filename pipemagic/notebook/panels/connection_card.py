"""The card of a connection in the Session panel: what it has open or has lost, and the buttons that end it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import ipywidgets

from pipemagic.client.trace_format import redact
from pipemagic.errors import SessionError
from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT, Tx
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.components import Countdown, Status
from pipemagic.notebook.panels.forms import Choice, Field, Line, button, column, row, show
from pipemagic.notebook.panels.tasks import LatestTask
from pipemagic.session.keep_alive import RELAXED_TRANSACTION
from pipemagic.session.transactions import describe_transaction, shorten_statement
from pipemagic.text import format_duration, plural, word

if TYPE_CHECKING:
    from pipemagic.client.transaction import Loss
    from pipemagic.notebook.panels.session import SessionPanel
    from pipemagic.session import Connection

PRECISION = 0.2
"""Seconds by which two times must differ to count as different."""

MARGIN = 1.0
"""Seconds past its limit after which an open transaction is reported as late: clocks are not exact."""

STATEMENTS, LENGTH = 20, 160
"""Maximum numbers shown: statements of a transaction, characters of a statement."""

TIMES = {0: "off", 60: "1m", 600: "10m", 3600: "1h"}
"""The choices for keep-alive in seconds, and their form in `%pipedb connect --keep-alive`."""

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
        self.keep = Field("Keep alive between cells", Choice())
        self.keep.on_choice(self._keep_alive)
        self.keeping, self.keeping_status = LatestTask("keep-alive", panel.changed), Status()
        self._chosen_seconds = 0.0
        self._since: float | None = None
        self._kept_until: float | None = None
        self._loss: Loss | None = None
        super().__init__([
            Line(name, tag="h3"),
            column(self.transaction, self.transaction_left, self.late, self.stream, self.idle_left, self.settings),
            self.lost,
            row(self.commit, self.run_again, self.roll_back), self.statements, row(self.keep), self.keeping_status,
        ])  # fmt: skip
        self.add_class("pm-box")

    def update(self, connection: Connection, *, busy: bool) -> None:
        """Update the widgets; while a cell runs, they keep the state from before it."""
        health = self.panel.health(connection)
        since, responds = health.running_since(connection), not health.error
        if since is not None:
            self.stream.set_text(f"A request has been running since {clock_time(since)}.")
            self.idle_left.until = 0.0
        else:
            with connection.between_cells() as free:
                if free:
                    self._update_transaction(connection, time.time(), responds=responds)
                    self._update_stream(connection, time.time(), responds=responds)
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
            self.stream.set_text(f"Server-side connection{at}, open since {clock_time(self._since)}.")
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
            note = f"until {clock_time(self._kept_until)} without a cell{why}"
        elif keeping.seconds is not None:
            note = "from the next cell on"
        pauses = sorted({*TIMES, seconds})
        self.keep.set_options([(format_duration(pause) if pause else "off", pause) for pause in pauses], seconds)
        self.keep.explain(note)
        self.keeping_status.update(self.keeping)

    def _keep_alive(self, seconds: float) -> None:
        """Keep the connection alive for some seconds after each cell; 0 switches this off."""
        self._chosen_seconds, session, name = seconds, self.panel.state.session, self.name
        line = f"%pipedb connect {word(name)} --keep-alive {TIMES.get(int(seconds), f'{seconds:g}')}"
        work = lambda: outcomes.keep_alive(session.connection(name), seconds or None)  # noqa: E731
        self.keeping.start(f"Keeping {name} alive ...", work, line=line)


def _why_not(connection: Connection) -> str:
    """Return why a lost transaction cannot be rerun, '' if it can."""
    try:
        connection.to_retry()
    except SessionError as error:
        return _sentence(error.message)
    return ""


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def clock_time(at: float) -> str:
    """Return the local time of a Unix timestamp."""
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
