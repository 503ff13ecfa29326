"""Progress of long work: shown after the first second, removed at the end.

In a Jupyter front end it is one output that is updated in place, and none at the end: a saved notebook does not depend
on how long the work took. Only all outputs of a cell can be removed, so progress is shown in cells that have no other
output yet. In a terminal it is one line of stderr. Elsewhere nothing is shown.

tqdm is not used: its bar for notebooks, also with ``leave=False``, leaves a display_data output with the text of the
first update and the id of a widget, and its bar for terminals leaves its lines in the stderr of a kernel.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TextIO
from weakref import WeakKeyDictionary

from pipemagic.text import escape_controls, literal_html

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from pipemagic.notebook.settings import PipeMagic

DELAY = 1.0
"""Seconds before progress is shown."""

INTERVAL = 0.2
"""Seconds between two updates."""


_forks = [0]
"""The number of forks of this process. The kernel forwards the output of a fork without counting its messages."""


def _count_fork() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_count_fork)


@dataclass
class RunningCell:
    """A running cell: the id of its request, and the messages and forks of the kernel before its first output."""

    request: str
    messages: int
    forks: int


class CellMessages:
    """Counts the messages that a kernel has sent since a cell started. Without messages, the cell has no output.

    The kernel's session numbers its messages. Replies to other requests count as well, so a cell may seem to have an
    output that it does not have, never the other way round.
    """

    def __init__(self, shell: Any) -> None:
        self.publisher = shell.display_pub
        self._sender = shell.kernel.iopub_thread
        self._of_thread = threading.local()  # a subshell runs its cells in another thread

    def start(self) -> None:
        """Count from here, unless the running cell itself runs this one, as ``%run`` does."""
        if self.cell is None:
            self._of_thread.cell = RunningCell(self._request, self._sent, _forks[0])

    @property
    def cell(self) -> RunningCell | None:
        """The cell that this thread runs; None in a thread of the user, and for a click on a widget."""
        cell: RunningCell | None = getattr(self._of_thread, "cell", None)
        return cell if cell is not None and cell.request == self._request else None

    def are(self, number: int, cell: RunningCell) -> bool:
        """Return True if this number of messages was sent since the start of the cell."""
        return (self._sent, _forks[0]) == (cell.messages + number, cell.forks)

    def clear(self, number: int, cell: RunningCell) -> bool:
        """Remove all outputs of the cell if it has sent this number of messages; return False if not.

        The thread that sends the messages compares and clears, so no other output is sent between the two.
        """
        done, cleared = threading.Event(), []
        header = self.publisher.parent_header

        def compare_and_clear() -> None:
            try:
                if self.are(number, cell):
                    # On the socket itself: publisher.clear_output() flushes the streams, and waits for its turn.
                    socket, content, topic = self._sender.socket, {"wait": False}, self.publisher.topic
                    self.publisher.session.send(socket, "clear_output", content, parent=header, ident=topic)
                    cell.messages += number + 1
                    cleared.append(True)
            finally:
                done.set()

        self._sender.schedule(compare_and_clear)
        done.wait(10)  # as long as ipykernel waits for this thread to flush a stream
        return bool(cleared)

    @property
    def _sent(self) -> int:
        return int(self.publisher.session.message_count)

    @property
    def _request(self) -> str:
        return str(self.publisher.parent_header.get("msg_id", ""))


_messages: WeakKeyDictionary[InteractiveShell, CellMessages] = WeakKeyDictionary()


def count_messages(shell: InteractiveShell) -> None:
    """Count the messages of each cell, if the shell is that of a kernel."""
    if hasattr(getattr(shell, "kernel", None), "iopub_thread"):
        _messages[shell] = CellMessages(shell)
        # Before the callbacks of others, which may have outputs.
        shell.events.callbacks["pre_execute"].insert(0, _messages[shell].start)


def stop_counting(shell: InteractiveShell) -> None:
    """Undo `count_messages`; no progress is shown from then on."""
    if messages := _messages.pop(shell, None):
        shell.events.unregister("pre_execute", messages.start)


class NotebookView:
    """Progress as the only output of the cell."""

    def __init__(self, messages: CellMessages, cell: RunningCell) -> None:
        self._messages, self._cell = messages, cell
        self._handle: Any = None
        self._sent = 0

    def show(self, line: str, done: int | None, total: int | None) -> None:
        """Show a bar, which is indeterminate without a total, unless the cell has another output."""
        from IPython.display import display

        if self._handle is None:
            sys.stdout.flush()
            sys.stderr.flush()
            if not self._messages.are(0, self._cell):
                return
            self._handle = display({}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
            self._sent = 1
        bar = "<progress></progress>" if not total else f'<progress max="{total}" value="{done}"></progress>'
        line = escape_controls(line)
        page = literal_html(f"{bar} {escape(line)}")
        self._handle.update({"text/html": page, "text/plain": line}, raw=True)
        self._sent += 1

    def close(self) -> None:
        """Remove the output; if the cell has another output since, make this one empty and keep the other."""
        if self._handle is not None and not self._messages.clear(self._sent, self._cell):
            self._handle.update({}, raw=True)
        self._handle = None


class TerminalView:
    """Progress as one line that is overwritten."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def show(self, line: str, done: int | None, total: int | None) -> None:  # noqa: ARG002
        """Write the line."""
        self._stream.write(f"\r{line.ljust(self._width)}")
        self._stream.flush()
        self._width = len(line)

    def close(self) -> None:
        """Overwrite the line with spaces."""
        self._stream.write(f"\r{' ' * self._width}\r")
        self._stream.flush()


class ProgressDisplay:
    """The state of some work. Call it with the amount done and, if known, the total."""

    def __init__(
        self, label: str, view: NotebookView | TerminalView | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._label, self._view, self._clock = label, view, clock
        self._started = clock()
        self._state: tuple[int | None, int | None] = (None, None)
        self._line = ""

    def __call__(self, done: int, total: int | None = None) -> None:
        """Set the state."""
        self._state = done, total

    def show(self) -> None:
        """Show the state and the elapsed time if they have changed."""
        line = format_progress(self._label, *self._state, self._clock() - self._started)
        if self._view is not None and line != self._line:
            self._line = line
            self._view.show(line, *self._state)

    def show_until(self, ended: threading.Event) -> None:
        """Show the state repeatedly until the event is set."""
        pause = DELAY
        while not ended.wait(pause):
            self.show()
            pause = INTERVAL

    def close(self) -> None:
        """Remove the display."""
        if self._line and self._view is not None:
            self._view.close()
            self._line = ""


def format_progress(label: str, done: int | None, total: int | None, seconds: float) -> str:
    """Return a line such as ``rows sent: 1,000 of 20,000 (3 s)``, or ``Running (3 s)`` before the first count."""
    from pipemagic.text import format_duration

    count = "Running" if done is None else f"{label}: {done:,}" + (f" of {total:,}" if total else "")
    return f"{count} ({format_duration(seconds)})"


@contextmanager
def show_progress(label: str, settings: PipeMagic) -> Iterator[ProgressDisplay]:
    """Show the progress of a block unless ``PipeMagic.progress`` is False; the block calls the `ProgressDisplay`.

    Another thread shows it, since the block may wait for a single response.
    """
    view = _view() if settings.progress else None
    progress = ProgressDisplay(label, view)
    if view is None:
        yield progress
        return
    ended = threading.Event()
    # In a copy of the context, which has the cell that an output belongs to.
    showing = threading.Thread(target=copy_context().run, args=(progress.show_until, ended), daemon=True)
    showing.start()
    try:
        yield progress
    finally:
        ended.set()
        showing.join()
        progress.close()


def _view() -> NotebookView | TerminalView | None:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        return TerminalView(sys.stderr) if sys.stderr.isatty() else None
    messages = _messages.get(shell)
    if messages is None or messages.publisher is not shell.display_pub:  # %%capture replaces it
        return None
    cell = messages.cell
    return None if cell is None else NotebookView(messages, cell)
