"""Questions to a database that a newer one replaces, and that can be given up while the server is at them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pipemagic.errors import PipemagicError, SessionError
from pipemagic.notebook.panels.ground.work import WorkingModel

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.session import Session

T = TypeVar("T")

GIVEN_UP = "Given up."


class Questions:
    """Asks on HTTP connections of their own, beside those of the cells, so that one can be ended without the others."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._under_way: set[Database] = set()

    def ask(
        self, connection: str, question: Callable[[Database], T], *, timeout: float | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> T:  # fmt: skip
        """Ask the database of a connection; waits. SessionError if it is closed, and what the question raises.

        ``timeout`` is how many seconds to wait for an answer, by default as many as the connection waits. ``is_wanted``
        is called when `hang_up` can end the question: SessionError if it returns False, as `hang_up` was called before.
        """

        def beside(database: Database) -> T:
            with database.sibling(timeout=timeout) as own:
                self._under_way.add(own)
                try:
                    if not is_wanted():
                        raise SessionError(GIVEN_UP)
                    return question(own)
                finally:
                    self._under_way.discard(own)

        return self._session.connection(connection).once(beside)

    def hang_up(self) -> None:
        """End what is under way; the server stops, where it notices that nobody listens."""
        for database in tuple(self._under_way):
            database.transport.abort()


class AskingModel(WorkingModel):
    """A model that asks a database one question at a time: a newer one replaces that which is under way."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._questions = Questions(session)
        self._newest = 0

    def ask(self, what: str, connection: str, question: Callable[[Database], T], take: Callable[[T], str]) -> None:
        """Begin to ask. If no newer question came meanwhile, ``take`` puts the answer into traits; gives a message."""
        number = self._next(what)
        worker = threading.Thread(
            target=self._asked, args=(number, connection, question, take), name=f"pipemagic: {what}", daemon=True
        )
        worker.start()
        self._worker = worker

    def tell(self, what: str) -> None:
        """Say how far the question has come that this thread asks; nothing if it was given up."""
        with self._starting:
            if self.busy and self._worker is threading.current_thread():
                self.busy = what

    def stop(self) -> None:
        """Give up what is under way; all stays as it is."""
        if self.busy:
            self._next("")
            self.message = GIVEN_UP
            self.ended()

    def _next(self, what: str) -> int:
        with self._starting:
            self._newest += 1
            number = self._newest
            self._questions.hang_up()
            with self.hold_trait_notifications():
                self.busy, self.message, self.error, self.code, self.hint = what, "", "", "", ""
        return number

    def _asked(self, number: int, connection: str, question: Callable[[Database], T], take: Callable[[T], str]) -> None:
        try:
            found = self._questions.ask(connection, question, is_wanted=lambda: number == self._newest)
            self._end(number, lambda: take(found))
        except PipemagicError as failure:
            self._end(number, str, failure.message, failure.code, failure.hint)
        except BaseException as failure:
            self._end(number, str, f"{type(failure).__name__}: {failure}", "BUG")
            raise  # the thread's hook writes the traceback to the kernel's log
        finally:
            self.ended()

    def _end(self, number: int, take: Callable[[], str], error: str = "", code: str = "", hint: str = "") -> None:
        with self._starting:
            if number != self._newest:
                return
            with self.hold_trait_notifications():
                self.message = take()
                self.error, self.code, self.hint, self.busy = error, code, hint, ""
