"""A model that asks again by itself when what it shows may be of before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pipemagic.errors import PipemagicError
from pipemagic.notebook.panels.explore.questions import AskingModel, Questions

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.session import Session

Quiet: TypeAlias = tuple[str, Callable[["Database"], Any], Callable[[Any], None]]
"""A connection, what to ask its database, and what puts the answer into traits."""


class FollowingModel(AskingModel):
    """Asks again without a word, one question at a time; those that people ask go first.

    What becomes out of date several times while a question is under way is asked once more after it.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._quietly = Questions(session)
        self._due = self._seen = self._looking = False
        self._said = ""  # the error that the last look ended with

    def quiet_question(self) -> Quiet | None:
        """Give what to ask for what is shown now; None to wait for the next word that it is out of date."""
        raise NotImplementedError

    def seen(self, seen: bool) -> None:
        """Learn whether there is somebody to ask for; what became out of date before is asked then."""
        self._seen = seen
        if seen:
            self._look()
        else:
            self._quietly.hang_up()

    def outdate(self) -> None:
        """Learn that what is shown may be of before."""
        self._due = True
        self._look()

    def ended(self) -> None:
        """Ask what became due while something else was under way."""
        self._look()

    def _look(self) -> None:
        with self._starting:
            if not (self._due and self._seen) or self.busy or self._looking:
                return
            asked = self.quiet_question()
            if asked is None:
                return
            self._due, self._looking = False, True
            number = self._newest
        threading.Thread(
            target=self._looked, args=(number, *asked), name="pipemagic: looking again", daemon=True
        ).start()

    def _looked(
        self, number: int, connection: str, question: Callable[[Database], Any], take: Callable[[Any], None]
    ) -> None:
        try:
            end = partial(self._found, take, self._quietly.ask(connection, question))
        except PipemagicError as failure:
            end = partial(self._failed, failure.message, failure.code, failure.hint)
        except BaseException as failure:
            end = partial(self._failed, f"{type(failure).__name__}: {failure}", "BUG", "")
            raise  # the thread's hook writes the traceback to the kernel's log
        finally:
            with self._starting:
                self._looking = False
                if number == self._newest and self._seen:
                    with self.hold_trait_notifications():
                        end()
                else:  # something else is asked for, or shown, since then
                    self._due = True
            self._look()

    def _found(self, take: Callable[[Any], None], found: Any) -> None:
        if self.error and self.error == self._said:
            self.error = self.code = self.hint = ""
        self._said = ""
        take(found)

    def _failed(self, error: str, code: str, hint: str) -> None:
        self.message, self.error, self.code, self.hint, self._said = "", error, code, hint, error
