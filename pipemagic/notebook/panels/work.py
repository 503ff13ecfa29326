"""Work that a panel's model does off the main thread, which has to stay free for cells."""

from __future__ import annotations

import threading
from collections.abc import Callable

from traitlets import HasTraits, Unicode

from pipemagic.errors import PipemagicError


class WorkingModel(HasTraits):
    """A model that does one piece of work at a time in a daemon thread.

    ``busy`` says what is under way, '' if nothing is; ``message`` and ``error`` tell how the last work ended, one of
    them being ''. Everything is in traits since nobody sees what a thread prints or raises.
    """

    busy = Unicode()
    message = Unicode()
    error = Unicode()

    def __init__(self) -> None:
        super().__init__()
        self._worker: threading.Thread | None = None

    def start(self, what: str, work: Callable[[], str]) -> None:
        """Begin a piece of work, unless one is under way; ``work`` gives the message of its success."""
        if self.busy:
            return
        self.busy, self.message, self.error = what, "", ""
        self._worker = threading.Thread(target=self._run, args=(work,), name=f"pipemagic: {what}", daemon=True)
        self._worker.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, at most ``timeout`` seconds, for the end of the work; tells whether it has ended."""
        if self._worker is not None:
            self._worker.join(timeout)
        return not self.busy

    def _run(self, work: Callable[[], str]) -> None:
        message = error = ""
        try:
            message = work()
        except PipemagicError as failure:
            error = str(failure)
        except BaseException as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise  # a bug: the thread's hook writes the traceback to the kernel's log
        finally:
            with self.hold_trait_notifications():
                self.message, self.error, self.busy = message, error, ""
