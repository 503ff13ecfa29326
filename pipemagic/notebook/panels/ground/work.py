"""Work that a panel's model does off the main thread, which has to stay free for cells."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from traitlets import HasTraits, Unicode

from pipemagic.errors import PipemagicError


class Model(HasTraits):
    """Traits that several threads change."""

    def __init__(self) -> None:
        self._held = threading.local()
        super().__init__()

    @contextmanager
    def hold_trait_notifications(self) -> Iterator[None]:
        """Tell of what this thread changes only at the end of the block, once for each trait.

        That of traitlets holds for the whole object: another thread's changes meanwhile are held with it, or lost.
        """
        if self._changes is not None:
            yield
            return
        changes: dict[str, Any] = {}
        self._held.changes = changes
        try:
            yield
        finally:
            del self._held.changes
            with ExitStack() as all_of_them:  # also when one that hears raises
                for change in reversed(changes.values()):
                    all_of_them.callback(self.notify_change, change)

    def notify_change(self, change: Any) -> None:
        """Tell of a change now, or at the end of the block that holds it."""
        changes = self._changes
        if changes is None:
            super().notify_change(change)
        elif change.name in changes:
            changes[change.name].new = change.new
        else:
            changes[change.name] = change

    @property
    def _changes(self) -> dict[str, Any] | None:
        """What this thread changed and has not told yet; None where nothing is held."""
        return getattr(self._held, "changes", None)


class WorkingModel(Model):
    """A model that does one piece of work at a time in a daemon thread.

    ``busy`` says what is under way, '' if nothing is; ``message`` tells how the last work ended, or ``error``, with its
    ``code`` and ``hint``, that it failed. ``line`` is the magic that does the same. Everything is in traits since
    nobody sees what a thread prints or raises.
    """

    busy = Unicode()
    message = Unicode()
    error = Unicode()
    code = Unicode()
    hint = Unicode()
    line = Unicode()

    def __init__(self) -> None:
        super().__init__()
        self._worker: threading.Thread | None = None
        self._starting = threading.Lock()

    def start(self, what: str, work: Callable[[], str], line: str = "") -> bool:
        """Begin a piece of work, unless one is under way (False); ``work`` gives the message of its success."""
        told = threading.Event()
        try:
            with self.hold_trait_notifications(), self._starting:  # told when the lock is free: hearers may start work
                if self.busy:
                    return False
                self.busy, self.message, self.error, self.code, self.hint, self.line = what, "", "", "", "", line
                worker = threading.Thread(target=self._run, args=(work, told), name=f"pipemagic: {what}", daemon=True)
                worker.start()
                self._worker = worker  # who waits for it finds it started
        finally:
            told.set()
        return True

    def refuse(self, error: str, hint: str = "") -> None:
        """Show that nothing was begun, and why."""
        with self.hold_trait_notifications():
            self.message, self.error, self.code, self.hint, self.line = "", error, "", hint, ""

    def forget(self) -> None:
        """Show nothing of the last work any more; other work of the same panel begins."""
        if not self.busy:
            with self.hold_trait_notifications():
                self.message = self.error = self.code = self.hint = self.line = ""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, at most ``timeout`` seconds, for the end of the work; tells whether it has ended."""
        worker = self._worker
        if worker is not None and worker.ident is not None:  # another thread may be just about to start it
            worker.join(timeout)
        return not self.busy

    def ended(self) -> None:
        """Do what follows a piece of work, in its thread; other work may begin here."""

    def _run(self, work: Callable[[], str], told: threading.Event) -> None:
        message = error = code = hint = ""
        told.wait()  # that it began, before how it ended
        try:
            message = work()
        except PipemagicError as failure:
            error, code, hint = failure.message, failure.code, failure.hint
        except BaseException as failure:
            error, code = f"{type(failure).__name__}: {failure}", "BUG"
            raise  # the thread's hook writes the traceback to the kernel's log
        finally:
            try:
                with self.hold_trait_notifications():
                    self.message, self.error, self.code, self.hint, self.busy = message, error, code, hint, ""
            finally:
                self.ended()
