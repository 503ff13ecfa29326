"""Progress of long work: shown after its first second, gone at its end, and nothing of it saved.

In a front end of Jupyter it is one output that is changed in place. Its first and its last content are both empty, so
a saved notebook holds nothing to see and nothing to compare, however long the work took. In a terminal it is one line
of stderr. Anywhere else nothing is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    def show(self, label: str, done: int, total: int | None) -> None:
        """Show how far it is, in the place of what was shown before."""

    def close(self) -> None:
        """Take it away."""


class Progress:
    """Counts, and shows that where it can be seen. Call it with what is done so far and, if known, what is to do."""

    def __init__(self, label: str, view: View | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._label, self._view, self._clock = label, view, clock
        self._next = clock() + PATIENCE
        self._shown = False

    def __call__(self, done: int, total: int | None = None) -> None:
        """Say how far it is."""
        if self._view is not None and self._clock() >= self._next:
            self._next = self._clock() + PACE
            self._shown = True
            self._view.show(self._label, done, total)

    def close(self) -> None:
        """Take away what is shown."""
        if self._shown and self._view is not None:
            self._view.close()
            self._shown = False


class InNotebook:
    """One output of the cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, label: str, done: int, total: int | None) -> None:
        """Show a bar; where the end is not known it only moves."""
        from IPython.display import display

        if self._handle is None:
            self._handle = display({}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        bar = "<progress></progress>" if not total else f'<progress max="{total}" value="{done}"></progress>'
        line = text(label, done, total)
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

    def show(self, label: str, done: int, total: int | None) -> None:
        """Write the line."""
        line = text(label, done, total)
        self._stream.write(f"\r{line.ljust(self._width)}")
        self._stream.flush()
        self._width = len(line)

    def close(self) -> None:
        """Write blanks over the line."""
        self._stream.write(f"\r{' ' * self._width}\r")
        self._stream.flush()


def text(label: str, done: int, total: int | None) -> str:
    """Give the line: ``rows sent: 1,000 of 20,000``."""
    return f"{label}: {done:,}" + ("" if not total else f" of {total:,}")


@contextmanager
def shown(label: str, preferences: PipeMagic) -> Iterator[Progress]:
    """Show progress during a block, unless ``%config PipeMagic.progress = False``."""
    progress = Progress(label, _view() if preferences.progress else None)
    try:
        yield progress
    finally:
        progress.close()


def _view() -> View | None:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if getattr(shell, "kernel", None) is not None:
        return InNotebook()
    return InTerminal(sys.stderr) if sys.stderr.isatty() else None
