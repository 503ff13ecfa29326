"""A time limit for several requests together."""

from __future__ import annotations

from collections.abc import Callable

from pipemagic.errors import AnswerTimeout

STOPPED_WAITING = "stopped waiting after "


class Deadline:
    """The time limit of the requests of one cell, ``seconds`` from now."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock = seconds, clock
        self._end = clock() + seconds

    def left(self, *timeouts: float | None) -> float:
        """Return the seconds to wait for a response: the remaining time, or a shorter timeout."""
        left = max(self._end - self._clock(), 0.001)
        return min(limit for limit in (left, *timeouts) if limit is not None)

    def check(self) -> None:
        """Raise AnswerTimeout after the deadline."""
        if self._clock() > self._end:
            raise AnswerTimeout(f"{STOPPED_WAITING}{self._seconds:g} s, while rows were received")

    def explain(self, error: BaseException) -> BaseException:
        """Return the error of a request, with the limit in its message if that ended the wait."""
        if isinstance(error, AnswerTimeout) and self._clock() > self._end - 0.05:
            hint = "the request may have run, in full or in part: check the data before you run it again"
            return error.replace(message=f"{STOPPED_WAITING}{self._seconds:g} s", hint=hint)
        return error
