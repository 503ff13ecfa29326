"""Calls that are made where they arrive, in the event loop, as long as they are short.

To hand a call to a thread and its answer back costs more than most calls themselves, since Python runs one thread at
a time (benchmarks/NOTES.md). So a call whose statements were short before (`Known`) is begun in haste. Once it turns
out to be long it goes on in a thread (`ELSEWHERE`), and the statement that ran begins anew; a database whose statements
were not short lately has no more of them begun this way for a while (`Pace`).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator

from pipemagic.service.turns import Turn

BRIEF = 0.002
"""Seconds of processor time that a call may take where it arrived; all others wait meanwhile."""

LONGEST = 1000
"""Characters of a statement that is run in haste; to look at a longer one may take too long by itself."""

_KNOWN = 500  # statements of a database
_WAITING = 10  # times as long may it take in all: it reads from a disk, or other programs have the processor
_SHORT = 0.001  # seconds
_LOOKED_AT = 4  # of them; one of them alone may be long by chance, when other programs have the processor
_HICCUP = 0.05  # seconds, beyond any chance
_BARRED = 1.0  # seconds at least
_SHARE = 100  # after a hiccup others are barred for so many times as long: such never take more than a hundredth


class _Elsewhere(Turn):
    def __init__(self) -> None:
        super().__init__(math.inf)
        self.granted = True
        self.fire()


ELSEWHERE = _Elsewhere()
"""What a call gives instead of a turn to wait for when it is to go on in a thread, at once."""


class Outlasted(Exception):
    """A statement took longer than a call in haste may: it was stopped and nothing of it was applied."""


class Haste:
    """Whether a call is still in the thread where it arrived, and may be, for some ``seconds`` of processor time."""

    def __init__(self, seconds: float | None = None) -> None:
        self.on = seconds is not None
        """Whether others wait for the call."""
        if seconds is not None:
            self._busy_until = time.thread_time() + seconds
            now = time.monotonic()
            self._sure_until, self._until = now + seconds, now + _WAITING * seconds

    @property
    def over(self) -> bool:
        """Whether a call in haste has used its time up; to be asked where it runs."""
        if not self.on:
            return False
        now = time.monotonic()
        if now < self._sure_until:
            return False
        return now >= self._until or time.thread_time() >= self._busy_until

    def end(self) -> Generator[Turn, None, None]:
        """Go on in a thread from here on, if the call is not in one."""
        if self.on:
            self.on = False
            yield ELSEWHERE


AT_LEISURE = Haste()


class Known:
    """The statements of a database that were short when they last ran."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, None] = {}

    def __contains__(self, text: str) -> bool:
        return text in self._texts

    def note(self, text: str, *, short: bool) -> None:
        """Take note of a statement that ran."""
        if short == (text in self._texts) or len(text) > LONGEST:
            return
        with self._lock:
            if not short:
                self._texts.pop(text, None)
                return
            self._texts[text] = None
            if len(self._texts) > _KNOWN:
                del self._texts[next(iter(self._texts))]


class Stopwatch:
    """Tells how long a statement took, from the making of the watch on; ``here`` if it is asked in the same thread."""

    def __init__(self, *, here: bool = True) -> None:
        self._began, self._busy = time.monotonic(), time.thread_time() if here else 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self._began

    @property
    def short(self) -> bool:
        """Whether it would do in haste, the waiting for other threads not counted; it has to have been ``here``."""
        return time.thread_time() - self._busy < _SHORT and self.elapsed < _HICCUP


class Pace:
    """How long the statements of one kind took in haste; no lock, since one that is not counted costs nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: deque[float] = deque(maxlen=_LOOKED_AT)
        self._barred_until = -math.inf

    @property
    def brief(self) -> bool:
        """Whether one may be begun in haste."""
        return self._clock() >= self._barred_until

    def note(self, seconds: float) -> None:
        """Note how long one took, in all."""
        self._last.append(seconds)
        if seconds > _HICCUP or (len(self._last) == _LOOKED_AT and min(self._last) > _SHORT):
            self._last.clear()
            self._barred_until = self._clock() + max(_BARRED, _SHARE * seconds if seconds > _HICCUP else 0.0)
