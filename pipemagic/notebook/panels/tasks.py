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
        self._next: tuple[Work, Callable[[Any], str] | None, bool] | None = None
        self._running = False
        self._abort: Callable[[], None] | None = None
        self._dropped = False
        self._quiet_error: PipemagicError | None = None
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
            self.busy, self.line, self.message, self.error, self._quiet_error = title, line, "", None, None
            begin = self._enqueue(work, apply, abort, quiet=False)
        begin()
        self.changed()

    def start_quietly(self, work: Work, apply: Callable[[Any], str], abort: Callable[[], None]) -> bool:
        """Run ``work`` unless other work runs, without showing it; return True if it was started.

        Message and error of the last request stay; an error of quiet work is shown until the next work.
        """
        with self._lock:
            if self._is_running:
                return False
            begin = self._enqueue(work, apply, abort, quiet=True)
        begin()
        return True

    @property
    def is_quiet(self) -> bool:
        """Whether work runs that is not shown."""
        return self._is_running and not self.busy

    def _enqueue(
        self, work: Work, apply: Callable[[Any], str] | None, abort: Callable[[], None] | None, *, quiet: bool
    ) -> Callable[[], None]:
        """Replace the waiting work; return a function that aborts the running work, or starts a thread."""
        self._next = (work, apply, quiet)
        self._ended.clear()
        before, self._abort = self._abort, abort
        if self._running:
            return before or (lambda: None)
        self._running = True
        return threading.Thread(target=self._run, name=f"pipemagic: {self.name}", daemon=True).start

    def report(self, title: str) -> None:
        """Change the title that is shown while the work runs."""
        with self._lock:  # after a stop, no end of the work would clear it
            counts = bool(self.busy) and not self._is_outdated()
            if counts:
                self.busy = title
        if counts:
            self.changed()

    def refuse(self, message: str, hint: str = "") -> None:
        """Show an error without running anything."""
        self.message, self.line, self._quiet_error = "", "", None
        self.error = PipemagicError(message, hint=hint).replace(code="")
        self.changed()

    def clear(self) -> None:
        """Clear the message and error of the last work."""
        if not self.busy and (self.message or self.error or self.line):
            self.message = self.line = ""
            self.error = self._quiet_error = None
            self.changed()

    def stop(self, message: str = STOPPED) -> None:
        """Abort the running work and drop the waiting one."""
        with self._lock:
            if not self._is_running:
                return
            self._next, self._dropped = None, self._running
            if self.busy:
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
            work, apply, quiet = request
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
                self._show("" if error else result or "", error, quiet=quiet)
                self._running, self._abort = False, None
            self.changed()
            with self._lock:
                if not self._running:  # a listener may have started other work
                    self._ended.set()
            return

    def _show(self, message: str, error: PipemagicError | None, *, quiet: bool) -> None:
        self.busy = ""
        if not quiet:
            self.message, self.error = message, error
            return
        self.message = message or self.message
        if self.error is self._quiet_error:  # not the error of a request
            self.error = self._quiet_error = error

    @property
    def _is_running(self) -> bool:
        """Whether work runs that was not stopped."""
        return self._running and not self._ended.is_set()

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
