"""Work that a panel's model does off the main thread, which has to stay free for cells."""

from __future__ import annotations

import threading
from collections.abc import Callable

from traitlets import HasTraits, Unicode

from pipemagic.errors import PipemagicError


class WorkingModel(HasTraits):
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
        with self._starting:
            if self.busy:
                return False
            with self.hold_trait_notifications():
                self.busy, self.message, self.error, self.code, self.hint, self.line = what, "", "", "", "", line
        self._worker = threading.Thread(target=self._run, args=(work,), name=f"pipemagic: {what}", daemon=True)
        self._worker.start()
        return True

    def refuse(self, error: str, hint: str = "") -> None:
        """Show that nothing was begun, and why."""
        with self.hold_trait_notifications():
            self.message, self.error, self.code, self.hint, self.line = "", error, "", hint, ""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, at most ``timeout`` seconds, for the end of the work; tells whether it has ended."""
        if self._worker is not None:
            self._worker.join(timeout)
        return not self.busy

    def _run(self, work: Callable[[], str]) -> None:
        message = error = code = hint = ""
        try:
            message = work()
        except PipemagicError as failure:
            error, code, hint = failure.message, failure.code, failure.hint
        except BaseException as failure:
            error, code = f"{type(failure).__name__}: {failure}", "BUG"
            raise  # the thread's hook writes the traceback to the kernel's log
        finally:
            with self.hold_trait_notifications():
                self.message, self.error, self.code, self.hint, self.busy = message, error, code, hint, ""
