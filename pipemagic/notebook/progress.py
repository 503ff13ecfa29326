"""Progress of long work: shown after the first second, removed at the end.

In a Jupyter front end it is one output that is updated in place and is empty at the end, so that a saved notebook does
not depend on how long the work took. In a terminal it is one line of stderr. Elsewhere nothing is shown.

tqdm is not used: its bar for notebooks, also with ``leave=False``, leaves a display_data output with the text of the
first update and the id of a widget, and its bar for terminals leaves its lines in the stderr of a kernel.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from html import escape
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pipemagic.notebook.settings import PipeMagic

DELAY = 1.0
"""Seconds before anything is shown."""

INTERVAL = 0.2
"""Seconds between two updates."""


class NotebookView:
    """Progress as one output of the cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, line: str, done: int | None, total: int | None) -> None:
        """Show a bar, which is indeterminate without a total."""
        from IPython.display import display

        if self._handle is None:
            self._handle = display({}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        bar = "<progress></progress>" if not total else f'<progress max="{total}" value="{done}"></progress>'
        self._handle.update({"text/html": f"{bar} {escape(line)}", "text/plain": line}, raw=True)

    def close(self) -> None:
        """Empty the output."""
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


class Progress:
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
    """Return a line such as ``rows sent: 1,000 of 20,000 (3 s)``, or ``Running (3 s)`` while nothing is counted."""
    from pipemagic.text import format_duration

    count = "Running" if done is None else f"{label}: {done:,}" + (f" of {total:,}" if total else "")
    return f"{count} ({format_duration(seconds)})"


@contextmanager
def show_progress(label: str, settings: PipeMagic) -> Iterator[Progress]:
    """Show progress of a block unless ``PipeMagic.progress`` is False. The block calls the yielded `Progress`.

    Another thread shows it, since the block may wait for a single response.
    """
    view = _view() if settings.progress else None
    progress = Progress(label, view)
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
    if getattr(shell, "kernel", None) is not None:
        return NotebookView()
    return TerminalView(sys.stderr) if sys.stderr.isatty() else None
