"""Background work of panels, which leaves the kernel free for cells."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from pipemagic.errors import PipemagicError

STOPPED = "Stopped."

Work = Callable[[], Any]


updates = threading.RLock()
"""Held while widgets change: tasks finish in their own threads."""


class LatestTask:
    """Run work in a daemon thread; a new request replaces earlier ones.

    A new request aborts the running one, or waits for its end if it cannot be aborted, and replaces a waiting one.
    ``changed`` is called after each change of ``busy``, ``message`` and ``error``. ``line`` is the magic equivalent to
    the last work, '' if there is none.
    """

    def __init__(self, name: str, changed: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.changed = changed
        self.busy = self.message = self.line = ""
        self.error: PipemagicError | None = None
        self._lock = threading.Lock()
        self._next: tuple[Work, Callable[[Any], str] | None] | None = None
        self._running = False
        self._abort: Callable[[], None] | None = None
        self._dropped = False
        self._ended = threading.Event()
        self._ended.set()

    def start(
        self, title: str, work: Work, apply: Callable[[Any], str] | None = None, *,
        line: str = "", abort: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Run ``work`` now, or after the work that is running.

        It returns a message, or a result that ``apply`` converts to one unless a newer request has arrived.
        """
        with self._lock:
            self._next = (work, apply)
            self.busy, self.line, self.message, self.error = title, line, "", None
            self._ended.clear()
            before, self._abort = self._abort, abort
            begin, self._running = not self._running, True
        if before is not None:
            before()
        if begin:
            threading.Thread(target=self._run, name=f"pipemagic: {self.name}", daemon=True).start()
        self.changed()

    def report(self, title: str) -> None:
        """Change the title that is shown while the work runs."""
        with self._lock:  # after a stop, no end of the work would clear it
            counts = bool(self.busy) and not self._is_outdated()
            if counts:
                self.busy = title
        if counts:
            self.changed()

    def set_message(self, message: str) -> None:
        """Replace the message of the last work."""
        self.message = message

    def refuse(self, message: str, hint: str = "") -> None:
        """Show an error without running anything."""
        self.message, self.line = "", ""
        self.error = PipemagicError(message, hint=hint).replace(code="")
        self.changed()

    def clear(self) -> None:
        """Clear the message and error of the last work."""
        if not self.busy and (self.message or self.error or self.line):
            self.message = self.line = ""
            self.error = None
            self.changed()

    def stop(self, message: str = STOPPED) -> None:
        """Abort the running work and drop the waiting one."""
        with self._lock:
            if not self.busy:
                return
            self._next, self._dropped = None, self._running
            self.busy, self.message, self.line = "", message, ""
            abort, self._abort = self._abort, None
            self._ended.set()
        if abort is not None:
            abort()
        self.changed()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the work, at most ``timeout`` seconds; return True if it has ended."""
        return self._ended.wait(timeout)

    def _run(self) -> None:
        while True:
            with self._lock:
                request, self._next, self._dropped = self._next, None, False
                if request is None:
                    self._running, self._abort = False, None
                    return
            work, apply = request
            error: PipemagicError | None = None
            result: Any = ""
            try:
                result = work()
                if apply is not None:
                    with updates:  # without the lock of the task: it changes widgets, which calls other functions
                        result = "" if self._is_outdated() else apply(result)
            except PipemagicError as failure:
                error = failure
            except Exception as failure:
                logging.getLogger(__name__).exception("the work of %s failed", self.name)
                error = PipemagicError(f"{type(failure).__name__}: {failure}", hint="see the kernel's log", code="BUG")
            with self._lock:
                if self._is_outdated():
                    continue
                self.message, self.error, self.busy = "" if error else result or "", error, ""
                self._running, self._abort = False, None
            self.changed()
            with self._lock:
                if not self._running:  # a listener may have started other work
                    self._ended.set()
            return

    def _is_outdated(self) -> bool:
        return self._next is not None or self._dropped


class Action(LatestTask):
    """Work started by a button; requests are ignored while it runs."""

    def start(self, title: str, work: Work, apply: Callable[[Any], str] | None = None, **options: Any) -> None:
        """Run ``work`` unless other work runs."""
        if not self.busy:
            super().start(title, work, apply, **options)


class Ticker:
    """Call a function at regular intervals, in a daemon thread between `start` and `stop`."""

    def __init__(self, name: str, function: Callable[[], object]) -> None:
        self.name, self.function = name, function
        self._stop = threading.Event()

    def start(self, interval: float) -> None:
        """Start to call the function every ``interval`` seconds."""
        self.stop()
        self._stop = stop = threading.Event()
        name = f"pipemagic: {self.name}"
        threading.Thread(target=self._run, args=(interval, stop), name=name, daemon=True).start()

    def stop(self) -> None:
        """Stop calling it; a running call ends."""
        self._stop.set()

    def _run(self, interval: float, stop: threading.Event) -> None:
        while not stop.wait(interval):
            self.function()
