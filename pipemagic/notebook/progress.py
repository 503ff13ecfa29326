"""Progress of long work: shown after its first second, gone at its end, and nothing of it saved.

In a front end of Jupyter it is one output that is changed in place. Its first and its last content are both empty, so
a saved notebook holds nothing to see and nothing to compare, however long the work took. In a terminal it is one line
of stderr. Anywhere else nothing is shown.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from pipemagic.notebook.preferences import PipeMagic

PATIENCE = 1.0
"""Seconds of work before anything is shown."""

PACE = 0.2
"""Seconds between two changes of what is shown."""


class View(Protocol):
    """Where progress is shown."""

    def show(self, line: str, done: int | None, total: int | None) -> None:
        """Show how far it is, in the place of what was shown before."""

    def close(self) -> None:
        """Take it away."""


class Progress:
    """How far some work is: call it with what is done so far and, if known, what is to do."""

    def __init__(self, label: str, view: View | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._label, self._view, self._clock = label, view, clock
        self._started = clock()
        self._state: tuple[int | None, int | None] = (None, None)
        self._line = ""

    def __call__(self, done: int, total: int | None = None) -> None:
        """Set how far it is."""
        self._state = done, total

    def show(self) -> None:
        """Show how far it is and for how long it has been running, if that has changed."""
        line = text(self._label, *self._state, self._clock() - self._started)
        if self._view is not None and line != self._line:
            self._line = line
            self._view.show(line, *self._state)

    def close(self) -> None:
        """Take away what is shown."""
        if self._line and self._view is not None:
            self._view.close()
            self._line = ""


class InNotebook:
    """One output of the cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, line: str, done: int | None, total: int | None) -> None:
        """Show a bar; where the end is not known it only moves."""
        from IPython.display import display

        if self._handle is None:
            self._handle = display({}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        bar = "<progress></progress>" if not total else f'<progress max="{total}" value="{done}"></progress>'
        self._handle.update({"text/html": f"{bar} {escape(line)}", "text/plain": line}, raw=True)

    def close(self) -> None:
        """Leave an empty output, as it began."""
        self._handle.update({}, raw=True)
        self._handle = None


class InTerminal:
    """One line that is written over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def show(self, line: str, done: int | None, total: int | None) -> None:  # noqa: ARG002
        """Write the line."""
        self._stream.write(f"\r{line.ljust(self._width)}")
        self._stream.flush()
        self._width = len(line)

    def close(self) -> None:
        """Write blanks over the line."""
        self._stream.write(f"\r{' ' * self._width}\r")
        self._stream.flush()


def text(label: str, done: int | None, total: int | None, seconds: float) -> str:
    """Return the line: ``rows sent: 1,000 of 20,000 (3 s)``; ``Running (3 s)`` while nothing is counted."""
    from pipemagic.counts import duration

    count = "Running" if done is None else f"{label}: {done:,}" + (f" of {total:,}" if total else "")
    return f"{count} ({duration(seconds)})"


@contextmanager
def shown(label: str, preferences: PipeMagic) -> Iterator[Progress]:
    """Show progress during a block, unless ``%config PipeMagic.progress = False``.

    Another thread shows it: the block itself may wait for one answer all the time.
    """
    view = _view() if preferences.progress else None
    progress = Progress(label, view)
    if view is None:
        yield progress
        return
    ended = threading.Event()
    # In a copy of the context: it says which cell an output belongs to.
    showing = threading.Thread(target=copy_context().run, args=(_show_until, ended, progress), daemon=True)
    showing.start()
    try:
        yield progress
    finally:
        ended.set()
        showing.join()
        progress.close()


def _show_until(ended: threading.Event, progress: Progress) -> None:
    pause = PATIENCE
    while not ended.wait(pause):
        progress.show()
        pause = PACE


def _view() -> View | None:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if getattr(shell, "kernel", None) is not None:
        return InNotebook()
    return InTerminal(sys.stderr) if sys.stderr.isatty() else None
