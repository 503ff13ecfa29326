"""What a session has open, for its panels: looked at again and again, without asking any server."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import ReferenceType, WeakKeyDictionary, ref

from traitlets import HasTraits, List, Unicode

from pipemagic.notebook.panels.ground.shared import OneForASession
from pipemagic.notebook.panels.session.answering import AGAIN, UNASKED, Answer, ask
from pipemagic.notebook.panels.session.seen import Said, Seen, see, tell
from pipemagic.session.signals import Subject

if TYPE_CHECKING:
    from pipemagic.session import Connection, Session

EVERY = 0.3
"""Seconds between two looks."""

SHOWN = 20
"""So many of the last requests are shown."""

ASKING = "pipemagic: asks the server of"
"""How the names of the threads begin that ask."""


class Opened(HasTraits):
    """The connections of a session as they were seen last.

    While somebody follows a daemon thread looks at the session's own clocks, which sends nothing and renews nothing. A
    server is asked only for its version and health, beside the stream of the cells: once, by `ask_again`, and again
    and again while it does not answer or a cell waits for it.
    """

    connections: List[Seen] = List(help="in the order in which they were made")
    requests: List[Said] = List(help="the newest first")
    trouble = Unicode(help="why nobody looks any more: a bug")

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._answers: WeakKeyDictionary[Connection, Answer] = WeakKeyDictionary()
        self._looking = threading.Lock()
        self._followers = 0
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        session.changes.connect(self._heard)

    def look(self) -> None:
        """Read what is open anew."""
        with self._looking:
            before = {seen.name: seen for seen in self.connections}
            now = time.time()
            seen = [self._see(one, before.get(one.name), now) for one in list(self.session.connections.values())]
            redact, epoch = self.session.wire.redactor(), now - time.perf_counter()
            said = [tell(one, redact, epoch) for one in self.session.wire.newest(SHOWN)]
            with self.hold_trait_notifications():
                self.connections, self.requests = seen, said

    def ask_again(self) -> None:
        """Ask every server for its version and health, in the background, also at another address if it has moved."""
        for connection in list(self.session.connections.values()):
            self._ask(connection, find=True)

    def follow(self) -> None:
        """Look from now on, until as many have called `leave` as have called this."""
        with self._looking:
            self._followers += 1
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_tick, args=(ref(self), self._wake), name="pipemagic: clocks of a session", daemon=True
                )
                self._thread.start()

    def leave(self) -> None:
        """Look no longer for the sake of one who followed."""
        with self._looking:
            self._followers -= 1
        self._wake.set()

    def _see(self, connection: Connection, before: Seen | None, now: float) -> Seen:
        current, answer = connection.name == self.session.current, self._answer(connection, before, now)
        return see(connection, before, now, current=current, answer=answer)

    def _answer(self, connection: Connection, before: Seen | None, now: float) -> Answer:
        known = self._answers.get(connection)
        waited = 0.0 if before is None or before.running is None else now - before.running
        in_doubt = known is not None and (bool(known.trouble) or waited > AGAIN)
        due = known is None or (in_doubt and time.monotonic() - known.at > AGAIN)
        if due and self._followers:
            self._ask(connection, find=False)
        return self._answers.get(connection, UNASKED)

    def _ask(self, connection: Connection, *, find: bool) -> None:
        known = self._answers.get(connection, UNASKED)
        if known.asking:
            return
        self._answers[connection] = replace(known, asking=True)

        def work() -> None:
            try:
                answer = ask(connection, find=find)
            except BaseException as failure:
                answer = Answer(trouble=f"BUG: {type(failure).__name__}: {failure}", at=math.inf)  # once is enough
                raise  # the thread's hook writes the traceback to the kernel's log
            finally:
                self._answers[connection] = answer
                self._wake.set()

        threading.Thread(target=work, name=f"{ASKING} {connection.name}", daemon=True).start()

    def _heard(self, _subject: Subject) -> None:
        self._wake.set()

    def _go_on(self) -> bool:
        """Look once more in the place of the thread; tells whether it has to look again."""
        with self._looking:
            if self._followers <= 0:
                self._thread = None
                return False
        try:
            self.look()
        except BaseException as failure:
            self._thread = None
            self.trouble = f"{type(failure).__name__}: {failure}"
            raise
        return True


def _tick(opened: ReferenceType[Opened], wake: threading.Event) -> None:
    going = True
    while going:
        wake.wait(EVERY)
        wake.clear()
        held = opened()
        going = held is not None and held._go_on()
        del held


opened_of = OneForASession(Opened)
"""Gives what a session has open: the same for all of its panels."""
