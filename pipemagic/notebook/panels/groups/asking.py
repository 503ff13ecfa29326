"""Asking about many databases: a few at a time, whatever else of the session asks meanwhile."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from pipemagic.notebook.panels.ground.shared import OneForASession

if TYPE_CHECKING:
    from pipemagic.session import Session

AT_ONCE = 4
"""How many databases are asked about at the same time."""

NOTICED = 0.05
"""Seconds within which a stop is noticed while requests are under way, which may take much longer."""

T = TypeVar("T")


class Asking:
    """Asks about several things, at most `AT_ONCE` at a time for the whole session, in daemon threads."""

    def __init__(self, _session: Session) -> None:
        self._turns = threading.BoundedSemaphore(AT_ONCE)

    def each(self, names: Iterable[str], ask: Callable[[str], T], stop: threading.Event) -> Mapping[str, T | Exception]:
        """Give the answers by name; an error is an answer too.

        After ``stop`` nothing more is asked nor waited for; what has no answer is missing.
        """
        found: dict[str, T | Exception] = {}
        left: queue.SimpleQueue[str] = queue.SimpleQueue()
        for name in names:
            left.put(name)

        def work() -> None:
            while True:
                try:
                    name = left.get_nowait()
                except queue.Empty:
                    return
                with self._turns:
                    if stop.is_set():
                        return
                    try:
                        found[name] = ask(name)
                    except Exception as failure:  # noqa: BLE001 - told to the caller, by name
                        found[name] = failure

        workers = [
            threading.Thread(target=work, name="pipemagic: asking", daemon=True)
            for _ in range(min(AT_ONCE, left.qsize()))
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            while worker.is_alive() and not stop.is_set():
                worker.join(NOTICED)
        return dict(found)  # a copy: what was under way at a stop may still answer


asking_of = OneForASession(Asking)
"""Gives what a session asks with: the same for all of its panels."""
